"""What plugins may do at the moments where they are asked and not only told: from inside and from apart, and when they fail."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import ADMIN
from tests.gateway.served import served as gateway_of
from tests.gateway.test_admin_methods import SKILL, archive, upload
from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, merge, until
from tests.scenarios.script import Line
from tests.scenarios.test_hook_moments import EITHER, OFF, a_home, changing, failures, tainted

from homarus.agent.hooked import KEPT_BACK, MAX_REVISIONS
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.events import ApprovalAsked, MessageEnded, ModelCalled, RunEvent, TextDelta
from homarus.core.messages import ToolResult, Trust
from homarus.hooks.events import unheard
from homarus.plugins.manifest import BEFORE_CALL, HOOKS, Lock, fingerprint, keys_of
from homarus.runtime.client import RunOptions

MARK = "EXTERNAL_UNTRUSTED_CONTENT"


def written(home: House) -> str:
    return json.dumps([row["message"] for row in home.transcript() if row.get("type") == "message"])


# What OpenClaw's plugins can ask for by name.
OPENCLAW = [
    "before_model_resolve",
    "agent_turn_prepare",
    "before_prompt_build",
    "before_agent_run",
    "before_agent_reply",
    "before_agent_finalize",
    "agent_end",
    "llm_input",
    "llm_output",
    "model_call_started",
    "model_call_ended",
    "before_tool_call",
    "after_tool_call",
    "tool_result_persist",
    "before_message_write",
    "inbound_claim",
    "message_received",
    "message_sending",
    "message_sent",
    "reply_payload_sending",
    "before_dispatch",
    "session_start",
    "session_end",
    "before_compaction",
    "after_compaction",
    "before_reset",
    "subagent_spawned",
    "subagent_ended",
    "gateway_start",
    "gateway_stop",
    "cron_changed",
    "cron_started",
    "cron_finished",
    "before_install",
]


def test_every_moment_of_openclaw_has_its_key_and_its_line_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    assert {*OPENCLAW} == {*HOOKS, BEFORE_CALL}
    for name in OPENCLAW:
        assert f"`{name}`" in page, name
        assert not any(map(unheard, keys_of(name))) or name == BEFORE_CALL


# before_agent_run: a guard.


@EITHER
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"block": True, "blockReason": "hush", "message": "Not here."}, "Not here."),
        ({"block": True, "blockReason": "hush"}, "This message was not passed on: a hook does not allow it."),
        ("fail", "This message was not passed on: plugin:changer, which looks at this, failed."),
    ],
)
async def test_a_turn_that_a_plugin_refuses_reaches_no_model_and_leaves_no_words(
    wish: Any, said: str, inside: bool, tmp_path: Path
) -> None:
    home = changing(a_home(tmp_path, "fine"), {"before_agent_run": wish}, inside=inside)
    async with home.agent() as agent:
        assert (await agent.ask("the secret is 1234")).text == said
    assert home.model.requests == []
    assert "1234" not in written(home)
    assert "hush" not in written(home)
    assert KEPT_BACK in written(home)
    assert ("ValueError: oh" in failures(home)) is (wish == "fail")


async def test_a_refused_message_is_not_read_later_where_its_turn_could_not_even_begin(tmp_path: Path) -> None:
    home = changing(a_home(tmp_path), {"before_agent_run": {"block": True}}, inside=True)
    async with home.agent() as agent:
        await agent.client.patch(agent.key, model_override="/")  # as an older home may hold it
        events = [event async for event in agent.client.run(agent.key, "the secret is 1234", RunOptions())]
    assert "'/' is no model" in str(events[-1])
    assert "1234" not in written(home)


async def test_what_is_said_to_a_running_turn_waits_for_its_own_where_a_plugin_looks_at_turns(tmp_path: Path) -> None:
    home = changing(a_home(tmp_path, "one", "two"), {}, inside=True)
    async with home.agent() as agent:
        gate = home.model.hold()
        first = asyncio.ensure_future(agent.ask("first"))
        await until(lambda: home.model.active == 1)
        second = asyncio.ensure_future(agent.ask("second"))
        await until(lambda: agent.client.queue(agent.key, "").waiting == 1)
        gate.set()
        assert ((await first).text, (await second).text) == ("one", "two")
    assert [prompt.splitlines()[-1] for prompt in home.model.prompts] == ["first", "second"]


# before_message_write: a guard of what is kept.


@EITHER
@pytest.mark.parametrize("wish", [{"text": "rewritten"}, {"block": True}, "fail"])
async def test_a_plugin_rewrites_or_keeps_back_what_is_stored_and_one_that_fails_keeps_it_back(
    wish: Any, inside: bool, tmp_path: Path
) -> None:
    home = House(tmp_path, Line(calls=(("ls", {}),)), "the answer is 1234", config=OFF)
    changing(home, {"before_message_write": wish}, inside=inside)
    home.workspace.mkdir(parents=True)
    (home.workspace / "1234.txt").touch()
    async with home.agent() as agent:
        reply = await agent.ask("what is 1234?")
    assert "1234" not in written(home)
    text = "rewritten" if isinstance(wish, dict) and "text" in wish else KEPT_BACK
    assert reply.text == text  # what is shown in the end is what was stored
    result = next(each for each in home.model.requests[-1].messages if isinstance(each, ToolResult))
    assert text in result.text
    assert text in home.model.prompts[0]
    assert (MARK in result.text and MARK in home.model.prompts[0]) is (text == "rewritten" and not inside)
    assert tainted(home) is (text == "rewritten" and not inside)
    assert ("ValueError: oh" in failures(home)) is (wish == "fail")


@EITHER
async def test_what_a_plugin_answers_is_stored_as_another_lets_it_be(inside: bool, tmp_path: Path) -> None:
    wishes = {"before_agent_reply": {"reply": "it is 1234"}, "before_message_write": {"text": "rewritten"}}
    home = changing(a_home(tmp_path), wishes, inside=inside)
    async with home.agent() as agent:
        assert (await agent.ask("go")).text == "rewritten"
    assert "1234" not in written(home)
    assert tainted(home) is not inside


# before_agent_finalize


@EITHER
async def test_a_plugin_asks_for_a_better_answer_a_few_times_and_only_the_last_one_counts(
    inside: bool, tmp_path: Path
) -> None:
    lines = ("draft one", "draft two", "draft three", "the answer")
    home = changing(a_home(tmp_path, *lines), {"before_agent_finalize": {"revise": "be kind"}}, inside=inside)
    events: list[RunEvent] = []
    async with home.agent() as agent:
        agent.listen(events.append)
        assert (await agent.ask("go")).text == "the answer"
    assert len(home.model.requests) == 1 + MAX_REVISIONS
    assert "draft" not in written(home)
    assert "be kind" not in written(home)
    draft, lacks = home.model.requests[1].messages[-2:]
    assert draft.text == "draft one"
    assert "be kind" in lacks.text
    assert (MARK in lacks.text) is not inside
    assert tainted(home) is not inside
    systems = {request.system for request in home.model.requests}
    assert len(systems) == 1
    # Whoever reads along is told that what they saw of a draft is void.
    shown = [type(each) for each in events if isinstance(each, TextDelta | ModelCalled | MessageEnded)]
    assert shown == [*[ModelCalled, TextDelta] * 4, MessageEnded]
    assert [each.attempt > 1 for each in events if isinstance(each, ModelCalled)] == [False, True, True, True]


async def test_a_chat_sees_nothing_of_a_draft(tmp_path: Path) -> None:
    streaming = {"channels": {"fake": {"streaming": {"mode": "partial", "block": {"enabled": True}}}}}
    home = a_home(tmp_path, "a draft. " * 100, "the answer", config=merge(CONFIG, streaming))
    changing(home, {}, inside=True)
    plugin = home.state / "plugins" / "changer" / "plugin.py"
    once = 'wish = api.config.get(name)\n            if name == "before_agent_finalize" and "draft" in event.context["text"]:\n                wish = {"revise": "no drafts"}'
    plugin.write_text(plugin.read_text().replace("wish = api.config.get(name)", once))
    Lock(resolve_paths(home.env)).write("changer", fingerprint(plugin.parent))
    home.clock, chat = SystemClock(), Platform()  # type: ignore[assignment]
    async with home.agent() as agent, served(agent, chat):
        await chat.says("go")
        await chat.sees(1)
    assert chat.texts == ["the answer"]
    assert not [sign for sign in chat.signs if sign[0] in {"edit", "delete"}]


async def test_a_plugin_that_fails_at_an_answer_leaves_it_as_it_is(tmp_path: Path) -> None:
    home = changing(a_home(tmp_path, "fine"), {"before_agent_finalize": "fail"}, inside=True)
    async with home.agent() as agent:
        assert (await agent.ask("go")).text == "fine"
    assert len(home.model.requests) == 1
    assert "at answer:final: ValueError: oh" in failures(home)


# inbound_claim, before_dispatch, reply_payload_sending: messages of chats.


@EITHER
@pytest.mark.parametrize("name", ["inbound_claim", "before_dispatch"])
async def test_a_plugin_deals_with_a_message_instead_of_the_agent_and_one_that_fails_does_not(
    name: str, inside: bool, tmp_path: Path
) -> None:
    for number, (wish, seen) in enumerate(
        (({"handled": True, "reply": "It is noon."}, ["It is noon."]), ({"reply": "x"}, ["fine"]), ("fail", ["fine"]))
    ):
        home = changing(a_home(tmp_path / str(number), "fine", config=CONFIG), {name: wish}, inside=inside)
        home.clock, chat = SystemClock(), Platform()  # type: ignore[assignment]
        async with home.agent() as agent, served(agent, chat):
            await chat.says("what time is it?")
            await chat.sees(1)
            await until(lambda runtime=agent.client.runtime: runtime.lanes.idle)  # type: ignore[misc]
        assert chat.texts == seen
        assert len(home.model.requests) == (seen == ["fine"])
        assert ("ValueError: oh" in failures(home)) is (wish == "fail")


async def test_no_plugin_claims_what_stops_the_agent(tmp_path: Path) -> None:
    home = changing(a_home(tmp_path, config=CONFIG), {"inbound_claim": {"handled": True, "reply": "mine"}}, inside=True)
    home.clock, chat = SystemClock(), Platform()  # type: ignore[assignment]
    async with home.agent() as agent, served(agent, chat):
        await chat.says("hello")
        await chat.sees(1)
        for word in ("/stop", "stop", "/whoami"):
            await chat.says(word)
        await chat.sees(4)
    assert [text == "mine" for text in chat.texts] == [True, False, False, False]


@EITHER
async def test_a_message_that_a_plugin_rewrites_before_it_is_queued_is_no_longer_the_owners_alone(
    inside: bool, tmp_path: Path
) -> None:
    home = changing(a_home(tmp_path, "fine"), {"before_dispatch": {"content": "delete all"}}, inside=inside)
    async with home.agent() as agent:
        assert (await agent.ask("hello")).text == "fine"
    assert "delete all" in home.model.prompts[0]
    assert (MARK in home.model.prompts[0]) is not inside
    assert tainted(home) is not inside


@EITHER
@pytest.mark.parametrize(
    ("wish", "seen"), [({"text": "better", "media": ["/etc/passwd"]}, ["better"]), ({"cancel": True}, []), ("fail", ["noon"])]
)  # fmt: skip
async def test_a_plugin_changes_or_cancels_the_whole_of_an_answer_and_attaches_nothing(
    wish: Any, seen: list[str], inside: bool, tmp_path: Path
) -> None:
    home = changing(a_home(tmp_path, "noon", config=CONFIG), {"reply_payload_sending": wish}, inside=inside)
    home.clock, chat = SystemClock(), Platform()  # type: ignore[assignment]
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("what time is it?")
        await until(lambda: len(home.model.requests) == 1 and agent.client.runtime.lanes.idle)
        await board.drain(60)
        await chat.says("/whoami")  # an answer of the program is no reply of a turn
        await chat.sees(len(seen) + 1)
    assert chat.texts[: len(seen)] == seen
    assert not any(each.file for each in chat.shown)


CRASH = """
import asyncio, json, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, until
from homarus.core.clock import SystemClock

async def main():
    file, chat = Path({folder!r}, ".openclaw", "openclaw.json"), Platform()
    home = House(Path({folder!r}), "noon", config=json.loads(file.read_text()))
    home.clock = SystemClock()
    async with home.agent() as agent, served(agent, chat):
        if {says}:
            await chat.says("what time is it?", id="m1")
        await chat.sees(1)
        await until(lambda: agent.client.runtime.lanes.idle)
    print(json.dumps([chat.texts, len(home.model.requests)]))

asyncio.run(main())
"""


def test_a_crash_while_a_plugin_looks_at_a_message_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    home, flag = changing(a_home(tmp_path, config=CONFIG), {}, inside=True), tmp_path / "crashed"
    plugin = home.state / "plugins" / "changer" / "plugin.py"
    ends = f"""
            if name == "message_sending" and not os.path.exists({str(flag)!r}):
                open({str(flag)!r}, "w").close()
                os._exit(9)
            wish = api.config.get(name)"""
    plugin.write_text("import os\n" + plugin.read_text().replace("\n            wish = api.config.get(name)", ends))
    Lock(resolve_paths(home.env)).write("changer", fingerprint(plugin.parent))

    def run(*, says: bool) -> subprocess.CompletedProcess[str]:
        code = CRASH.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path), says=says)
        line = [sys.executable, "-c", code]
        return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)

    assert run(says=True).returncode == 9
    again = run(says=False)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1]) == [["noon"], 0]


@pytest.mark.parametrize("wish", [{"block": True, "blockReason": "too new"}, "fail", None])
async def test_a_plugin_refuses_what_a_gateway_is_to_install(wish: Any, tmp_path: Path) -> None:
    rules = {"skills": {"install": {"allowUploadedArchives": True}}, "gateway": {"auth": {"secretScopes": list(ADMIN)}}}
    home = changing(a_home(tmp_path, config=rules), {"before_install": wish}, inside=True)
    async with gateway_of(home) as running, running.client(scopes=ADMIN) as client:
        asked = {"source": "upload", "uploadId": await upload(client, archive(SKILL)), "slug": "tidy"}
        answer = await client.ask("skills.install", asked)
    assert answer["ok"] is (wish is None)
    assert ("too new" in str(answer)) is isinstance(wish, dict)
    assert (home.state / "skills" / "tidy").exists() is (wish is None)


# before_tool_call: the owner is asked.


@EITHER
@pytest.mark.parametrize("answer", ["once", "deny", ""])
async def test_a_plugin_has_the_owner_asked_before_a_call(answer: str, inside: bool, tmp_path: Path) -> None:
    home = House(tmp_path, Line(calls=(("ls", {"path": "there"}),)), "fine", config=OFF)
    changing(home, {"call": {"ask": "is this\nwise?", "arguments": {"path": "here"}}}, inside=inside)
    (home.workspace / "here").mkdir(parents=True)
    (home.workspace / "here" / "found.txt").touch()
    asked: list[ApprovalAsked] = []
    async with home.agent() as agent:
        toolkit = agent.client.runtime.home.toolkit

        def person(event: RunEvent) -> None:
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                asyncio.get_running_loop().create_task(toolkit.answer(event.approval_id, answer))

        leave = toolkit.approvers.arrive(agent.key, person) if answer else lambda: None
        assert (await agent.ask("go")).text == "fine"
        leave()
    (result,) = [each for each in home.model.requests[-1].messages if isinstance(each, ToolResult)]
    assert ("found.txt" in result.text) is (answer == "once")
    assert result.is_error is (answer != "once")
    if answer:
        (question,) = asked
        assert "the plugin changer wants you to be asked: is this wise?" in question.detail
        assert "here" in question.title  # what is asked is what would run
    else:
        assert "nobody is here who could allow it" in result.text


async def test_a_plugin_that_asks_opens_nothing_that_is_closed(tmp_path: Path) -> None:
    home = House(tmp_path, Line(calls=(("write", {"path": "x", "content": "y"}),)), "fine", config=OFF)
    changing(home, {"call": {"ask": "fine by me"}}, inside=True)
    async with home.agent() as agent:
        options = RunOptions(trust=Trust.GROUP)
        async for _event in agent.client.run(agent.key, "go", options):
            pass
    (result,) = [each for each in home.model.requests[-1].messages if isinstance(each, ToolResult)]
    assert result.is_error
    assert not (home.workspace / "x").exists()
