"""Commands, directives and inline shortcuts, through a whole home with a scripted model."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus.context.summarize import HEADINGS
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import SessionKey

MODELS = {"agents": {"defaults": {"models": {"script/model": {}, "script/big": {"alias": "Opus"}}}}}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, config=MODELS)


def stranger(text: str, trust: Trust = Trust.EXTERNAL, **more: str) -> Inbound:
    return Inbound(id=f"m-{text}", channel="telegram", text=text, sender="77", trust=trust, **more)


# Commands are handled before the queue and without a model.


async def test_a_command_costs_no_model_call_and_leaves_no_message(house: House) -> None:
    async with house.agent() as agent:
        for text in ("/status", "/help", "/commands", "/whoami", "/tools", "/tasks", "/usage", "/model", "/queue"):
            reply = await agent.ask(text)
            assert reply.ok
            assert reply.text
    assert house.model.requests == []


@pytest.mark.parametrize("text", ["/WhoAmI", "/whoami:", "/id", "  /whoami  "])
async def test_only_the_name_is_folded_and_a_colon_is_allowed(house: House, text: str) -> None:
    async with house.agent() as agent:
        assert "You are the owner" in (await agent.ask(text)).text
    assert house.model.requests == []


async def test_a_command_answers_while_a_turn_runs(house: House) -> None:
    gate = house.model.hold()
    async with house.agent() as agent:
        turn = asyncio.ensure_future(agent.ask("long work"))
        await house.model.entered.wait()
        assert "running" in (await agent.ask("/status")).text
        gate.set()
        assert (await turn).text == "answer 1"


async def test_a_slash_inside_a_text_goes_to_the_model(house: House) -> None:
    async with house.agent() as agent:
        for text in ("/tmp/x is full", "//nothing here", "a /whoever b"):
            assert (await agent.ask(text)).ok
    assert house.model.prompts == ["/tmp/x is full", "/nothing here", "a /whoever b"]


async def test_an_unknown_command_is_refused_with_a_suggestion_and_costs_no_call(house: House) -> None:
    async with house.agent() as agent:
        assert "Did you mean /status" in (await agent.ask("/statsu")).text
        assert "/commands lists them" in (await agent.ask("/zzzz now")).text
        assert (await agent.ask(" / ")).text == (await agent.ask("/commands")).text
    assert house.model.prompts == []


async def test_the_status_card_says_everything(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("hello")
        card = (await agent.ask("/status")).text
    for part in (
        "script/model",
        "none needed",
        "/200k",
        "🧹 Compactions: 0",
        "Thinking:",
        "steer",
        "agent:main:main",
        "100 in, 10 out",
    ):
        assert part in card


# Sessions.


async def test_new_archives_the_transcript_and_keeps_the_users_choices(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("/think high")
        await agent.ask("one")
        before = house.row()["sessionId"]
        assert (await agent.ask("/new")).text == "A new session begins."
        await agent.ask("two")
    row = house.row()
    assert row["sessionId"] != before
    assert row["thinkingLevel"] == "high"
    assert row.get("compactionCount", 0) == 0
    assert list((house.state / "agents/main/sessions").glob(f"{before}.jsonl.reset.*"))
    assert [len(request.messages) for request in house.model.requests] == [1, 1]


async def test_new_takes_a_model_and_a_first_message_whatever_their_case(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("/NEW opus hi")
    assert "script/big" in reply.text
    assert reply.text.endswith("answer 1")
    assert house.model.prompts == ["hi"]
    assert house.model.requests[0].model == "big"
    assert house.row()["modelOverrideSource"] == "user"


async def test_new_takes_a_name_in_quotes_before_the_rest(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("one")
        reply = await agent.ask('/new "Kitchen plans" opus hi')
    assert reply.text.startswith("A new session “Kitchen plans” begins, with script/big.")
    assert house.row()["label"] == "Kitchen plans"
    assert house.model.prompts[-1] == "hi"


async def test_a_first_message_with_quotes_inside_is_no_name(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask('/new say "hello" to Ann')
    assert house.model.prompts == ['say "hello" to Ann']
    assert not house.row().get("label")


async def test_text_after_new_keeps_its_lines(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("/new\nfirst\n  second")
    assert house.model.prompts == ["first\n  second"]


async def test_newer_is_no_trigger(house: House) -> None:
    async with house.agent() as agent:
        assert "Did you mean /new" in (await agent.ask("/newer hi")).text
    assert house.model.prompts == []


async def test_reset_soft_keeps_the_transcript(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("one")
        before = house.row()["sessionId"]
        assert "transcript stays" in (await agent.ask("/reset soft")).text
        await agent.ask("two")
    assert house.row()["sessionId"] == before
    assert len(house.model.requests[1].messages) == 3


async def test_new_ends_the_running_turn_first(house: House) -> None:
    house.model.hold()
    async with house.agent() as agent:
        turn = asyncio.ensure_future(agent.ask("long work"))
        await house.model.entered.wait()
        await agent.ask("/new")
        assert (await turn).status == "aborted"
        house.model.gate = None
        assert (await agent.ask("fresh")).ok
    assert len(house.model.requests[-1].messages) == 1


async def test_a_name_is_kept_and_an_export_is_written(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("hello there")
        await agent.ask("/name  Trip to   Rome")
        assert "Trip to Rome" in (await agent.ask("/name")).text
        assert "Written to" in (await agent.ask("/export-session html")).text
    assert house.row()["label"] == "Trip to Rome"
    (page,) = (house.workspace / "exports").glob("*.html")
    assert "hello there" in page.read_text()


async def test_compact_summarises_and_undo_takes_it_back(tmp_path: Path) -> None:
    house = House(tmp_path, config={"agents": {"defaults": {"compaction": {"keepRecentTokens": 50}}}})
    async with house.agent() as agent:
        for number in range(6):
            await agent.ask(f"question {number} " + "word " * 60)
        summary = "\n\n".join(f"## {title}\nquestion 5 word, 2026" for title in HEADINGS)
        house.model.lines = [Line("x")] * len(house.model.requests) + [Line(summary)] * 6
        done = await agent.ask("/compact keep the numbers")
        assert "Compacted" in done.text, done.text
        assert "🧹 Compactions: 1" in (await agent.ask("/status")).text
        assert (await agent.ask("/compact undo")).text == "The last compaction is undone."
        await agent.ask("and now?")
    assert len([m for m in house.model.requests[-1].messages if "question" in m.text]) >= 6


# Levels and models.


async def test_directives_alone_are_kept_and_acknowledged(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("/think high /verbose full /reasoning stream")
    assert reply.text == "Thinking: high.\n\nVerbose: full.\n\nReasoning: stream."
    assert house.model.requests == []
    row = house.row()
    assert (row["thinkingLevel"], row["verboseLevel"], row["reasoningLevel"]) == ("high", "full", "stream")


async def test_a_level_with_text_holds_for_this_message_only(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("fix this:\n    if x:\n        y /think high")
        await agent.ask("and this")
    assert house.model.prompts == ["fix this:\n    if x:\n        y", "and this"]
    assert [request.thinking for request in house.model.requests] == ["high", "off"]
    assert "thinkingLevel" not in house.row()


async def test_a_model_holds_on_wherever_it_was_named(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("tell me /opus please")
        await agent.ask("and again")
        await agent.ask("/model default")
        await agent.ask("back")
    assert reply.text.startswith("Model: script/big.")
    assert [request.model for request in house.model.requests] == ["big", "big", "model"]
    assert house.model.prompts[0] == "tell me please"


async def test_a_model_outside_the_allowlist_is_refused_and_nothing_is_sent(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("/model other/thing")
    assert "not on the list" in reply.text
    assert house.model.requests == []


async def test_a_word_that_is_no_level_is_answered_with_the_choices(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("/think verymuch")
    assert "'verymuch' is not known" in reply.text
    assert "xhigh" in reply.text
    assert house.model.requests == []


async def test_default_takes_a_level_back(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("/think high")
        await agent.ask("/think default")
    assert "thinkingLevel" not in house.row()


async def test_elevated_needs_its_switch(house: House, tmp_path: Path) -> None:
    async with house.agent() as agent:
        assert "are off" in (await agent.ask("/elevated on")).text
    (tmp_path / "other").mkdir()
    other = House(tmp_path / "other", config={"tools": {"elevated": {"enabled": True}}})
    async with other.agent() as agent:
        assert (await agent.ask("/elevated ask")).text == "Elevated: ask."


async def test_exec_settings_are_kept(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("/exec host=sandbox ask=always")
    assert (house.row()["execHost"], house.row()["execAsk"]) == ("sandbox", "always")


async def test_queue_settings_are_stored_and_the_rest_is_the_message(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("/queue collect debounce:2s cap:5 hello")
        assert "collect (debounce 2000 ms, cap 5" in reply.text
        await agent.ask("/queue default")
    row = house.row()
    assert house.model.prompts == ["hello"]
    assert "queueMode" not in row


async def test_shortcuts_inside_a_text_run_at_once_and_are_removed(house: House) -> None:
    async with house.agent() as agent:
        reply = await agent.ask("/status and then tell me more")
    assert "🧵 Session" in reply.text
    assert house.model.prompts == ["and then tell me more"]


async def test_a_directive_inside_a_quote_is_left_alone(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("> you wrote /think high\nwhy?")
    assert house.model.prompts == ["> you wrote /think high\nwhy?"]
    assert house.model.requests[0].thinking == "off"


# Pins, skills, context.


async def test_a_pin_is_in_front_of_the_model_until_it_is_taken_off(house: House) -> None:
    async with house.agent() as agent:
        await agent.ask("/pin Never send mail without asking me.")
        assert (await agent.ask("/pins")).text == "1. Never send mail without asking me."
        await agent.ask("hello")
        await agent.ask("/unpin 1")
        await agent.ask("again")
    carriers = [[m.context for m in request.messages if hasattr(m, "context")] for request in house.model.requests]
    assert "Never send mail" in carriers[0][0]
    assert "No longer applies" in carriers[1][-1]


async def test_a_skill_is_called_by_command_by_name_and_by_mention(house: House) -> None:
    house.skill("Trip Planner", "Plan trips with care.")
    house.skill("hidden", "Secret way.", **{"disable-model-invocation": "true"})
    async with house.agent() as agent:
        await agent.ask("/trip_planner to Rome")
        await agent.ask("/skill hidden now")
        await agent.ask("use $hidden for $HOME and \\$hidden")
        assert "no skill" in (await agent.ask("/skill nonsense")).text
    first, second, third = house.model.prompts
    assert "Plan trips with care." in first
    assert first.endswith("Request: to Rome")
    assert "Secret way." in second
    assert third == "use $hidden for $HOME and $hidden"
    assert "Secret way." in house.model.requests[2].messages[-1].context


async def test_context_shows_help_lists_and_json(house: House) -> None:
    async with house.agent() as agent:
        assert "/context list" in (await agent.ask("/context")).text
        assert "is not known" in (await agent.ask("/context wrong")).text
        assert "Injected workspace files:" in (await agent.ask("/context list")).text
        assert "Sections:" in (await agent.ask("/context detail")).text
        assert json.loads((await agent.ask("/context json")).text)["sessionKey"] == "agent:main:main"


# Who may.


async def test_commands_of_strangers_are_ignored_and_their_directives_are_plain_text(house: House) -> None:
    async with house.agent() as agent:
        talk, key = agent.client.router, agent.key
        assert await talk.handle(key, stranger("/status")) == type(await talk.handle(key, stranger("/model x")))()
        said = await talk.handle(key, stranger("please /think high now"))
        assert said.item is not None
        plain = await talk.handle(key, stranger("/new hi"))
        assert plain.item is not None
        await agent.client.runtime.lane(key).idle()
    assert house.model.prompts[0] == "please /think high now"
    assert any("/new hi" in prompt for prompt in house.model.prompts)


@pytest.mark.parametrize(
    ("commands", "trust", "may"),
    [
        ({}, Trust.OWNER, True),
        ({}, Trust.PAIRED, True),
        ({}, Trust.GROUP, True),
        ({}, Trust.EXTERNAL, False),
        ({"ownerAllowFrom": ["*"]}, Trust.EXTERNAL, False),
        ({"allowFrom": ["77"]}, Trust.EXTERNAL, True),
        ({"allowFrom": {"telegram": ["telegram:77"]}}, Trust.EXTERNAL, True),
        ({"allowFrom": {"*": ["5"]}}, Trust.OWNER, False),
        ({"allowFrom": []}, Trust.PAIRED, False),
        ({"ownerAllowFrom": [77]}, Trust.EXTERNAL, True),
    ],
)
async def test_who_may_give_commands(tmp_path: Path, commands: dict[str, object], trust: Trust, may: bool) -> None:
    house = House(tmp_path, config={"commands": commands})
    async with house.agent() as agent:
        handled = await agent.client.router.handle(agent.key, stranger("/status", trust))
    assert bool(handled.replies) is may


async def test_in_a_group_the_mention_comes_off_first(house: House) -> None:
    async with house.agent() as agent:
        key = SessionKey.parse("agent:main:telegram:group:9")
        handled = await agent.client.router.handle(key, stranger("@bot /whoami", Trust.OWNER))
    assert "telegram" in handled.text


async def test_admin_commands_do_nothing_until_they_are_switched_on(tmp_path: Path) -> None:
    house = House(tmp_path, config={"commands": {"config": True, "btw": True}})
    async with house.agent() as agent:
        assert "switched off" in (await agent.ask("/send off")).text
        assert "script/model" in (await agent.ask("/config get agents.defaults.model")).text
        assert "is set in" in (await agent.ask("/config set session.reset.mode idle")).text
        assert (await agent.ask("/btw what did I say?")).text == "answer 1"
        owner_only = await agent.client.router.handle(agent.key, stranger("/config get", Trust.PAIRED))
    assert owner_only.replies == ()
    assert house.model.prompts == ["what did I say?"]
    assert not list(house.state.glob("agents/main/sessions/*.jsonl")) or house.transcript()[-1]["type"] != "message"


# Stop.


@pytest.mark.parametrize("word", ["/stop", "stop", "Abort!", "esc", "STOPP", "停止"])
async def test_a_stop_word_ends_the_run_and_forgets_what_waits(house: House, word: str) -> None:
    house.model.hold()
    async with house.agent() as agent:
        turn = asyncio.ensure_future(agent.ask("long work"))
        await house.model.entered.wait()
        later = asyncio.ensure_future(agent.ask("/queue followup then this"))
        await until(lambda: bool(agent.client.runtime.lane(agent.key).waiting))
        assert (await agent.ask(word)).text == "Stopped."
        assert (await turn).status == "aborted"
        assert (await later).status == "aborted"
        assert not agent.client.runtime.lane(agent.key).waiting
    assert house.model.active == 0
    assert len(house.model.requests) == 1
    assert house.row()["abortedLastRun"] is True


async def test_stop_without_a_run_says_so(house: House) -> None:
    async with house.agent() as agent:
        assert (await agent.ask("stop")).text == "Nothing was running."
