"""A turn through a whole home: events, shaping, timeouts, fallbacks, levels, circles."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line, kinds

from homarus import Agent
from homarus.context.summarize import HEADINGS
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.events import Notice, RunEvent, ToolEnded
from homarus.models.provider import ModelRequest


def fails(kind: ModelFailure, text: str = "no") -> Line:
    return Line("", error=ModelError(kind, text, status=500))


async def events_of(agent: Agent, text: str) -> list[RunEvent]:
    return [event async for event in agent.run(text)]


# 6.4 events


async def test_a_run_has_one_beginning_one_end_and_its_steps_in_order(tmp_path: Path) -> None:
    house = House(tmp_path, Line("looking", (("ls", {"path": "."}),)), "found it")
    async with house.agent() as agent:
        events = await events_of(agent, "look")
    assert kinds(events) == [
        "RunStarted",
        "UserAccepted",
        *("ModelCalled", "TextDelta", "MessageEnded", "ToolStarted", "ToolEnded"),
        *("ModelCalled", "TextDelta", "MessageEnded"),
        "RunEnded",
    ]


# 6.3 empty answers


async def test_an_empty_answer_is_asked_for_again_three_times(tmp_path: Path) -> None:
    house = House(tmp_path, *[Line("")] * 4, "late")
    async with house.agent() as agent:
        reply = await agent.ask("hi")
    assert len(house.model.requests) == 4
    assert reply.text == ""


async def test_silence_after_tools_is_closed_by_one_call_for_words(tmp_path: Path) -> None:
    house = House(tmp_path, Line("", (("ls", {"path": "."}),)), Line(""), "that was all")
    async with house.agent() as agent:
        assert (await agent.ask("look")).text == "that was all"
    assert [request.tool_choice for request in house.model.requests] == [None, None, "none"]


# 6.5 shaping


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("NO_REPLY", ""),
        ("no_reply.", ""),
        ('{"action":"NO_REPLY"}', ""),
        ("<think>hm</think>NO_REPLY", ""),
        ("Done. NO_REPLY", "Done."),
        ("<think>hm</think>Yes.", "Yes."),
        ("[[reply_to_current]] Yes.", "Yes."),
        ("See:\nMEDIA:./a.png", "See:"),
        ("<think>only this", "only this"),
    ],
)
async def test_what_the_model_says_to_the_program_is_taken_out(tmp_path: Path, said: str, shown: str) -> None:
    house = House(tmp_path, said)
    async with house.agent() as agent:
        assert (await agent.ask("hi")).text == shown


# 6.7 timeouts and what a stop leaves


async def test_a_stopped_turn_keeps_what_was_said_and_says_so_in_its_row(tmp_path: Path) -> None:
    house = House(tmp_path, Line("", hang=True))
    async with house.agent() as agent:
        turn = asyncio.ensure_future(agent.ask("go"))
        await house.model.entered.wait()
        agent.stop()
        assert (await turn).status == "aborted"
    last = house.transcript()[-1]["message"]
    assert last["stopReason"] == "aborted"
    assert last["content"][0]["text"] == "half"
    assert house.row()["abortedLastRun"] is True


# 16.2 and 16.3 selection and fallbacks

CHAIN = {
    "agents": {
        "defaults": {
            "model": {"primary": "script/a", "fallbacks": ["script/b", "script/c"]},
            "models": {"script/a": {}, "script/b": {}, "script/c": {"alias": "cee"}},
        }
    }
}


def asked(house: House) -> list[str]:
    return [request.model for request in house.model.requests]


async def test_fallbacks_are_tried_in_order_and_one_notice_tells_it(tmp_path: Path) -> None:
    house = House(
        tmp_path, fails(ModelFailure.MODEL_NOT_FOUND), fails(ModelFailure.MODEL_NOT_FOUND), "from c", config=CHAIN
    )
    async with house.agent() as agent:
        events = await events_of(agent, "hi")
    assert asked(house) == ["a", "b", "c"]
    notices = [event.text for event in events if isinstance(event, Notice) and event.kind == "fallback"]
    assert len(notices) == 2
    assert "modelOverride" not in house.row()


async def test_a_model_that_the_user_chose_is_kept_to(tmp_path: Path) -> None:
    house = House(tmp_path, fails(ModelFailure.MODEL_NOT_FOUND), config=CHAIN)
    async with house.agent() as agent:
        await agent.ask("/model cee")
        reply = await agent.ask("hi")
    assert asked(house) == ["c"]
    assert reply.status == "error"


@pytest.mark.parametrize("kind", [ModelFailure.REQUEST_TOO_LARGE, ModelFailure.REFUSAL])
async def test_some_failures_stop_the_chain(tmp_path: Path, kind: ModelFailure) -> None:
    house = House(tmp_path, fails(kind), config=CHAIN)
    async with house.agent() as agent:
        reply = await agent.ask("hi")
    assert reply.status == "error"
    assert set(asked(house)) == {"a"}


async def test_a_model_for_one_message_is_not_kept(tmp_path: Path) -> None:
    house = House(tmp_path, config=CHAIN)
    async with house.agent() as agent:
        await agent.ask("hi", model="script/b")
        await agent.ask("hi")
    assert asked(house) == ["b", "a"]


# 17 levels


@pytest.mark.parametrize(
    ("config", "inline", "session", "level"),
    [
        ({}, "", "", "off"),
        ({"thinkingDefault": "low"}, "", "", "low"),
        ({"thinkingDefault": "low"}, "", "/think xhigh", "xhigh"),
        ({"thinkingDefault": "low"}, "minimal", "/think xhigh", "minimal"),
        ({"models": {"script/model": {"params": {"thinking": "max"}}}}, "", "", "max"),
    ],
)
async def test_the_nearest_level_holds(
    tmp_path: Path, config: dict[str, Any], inline: str, session: str, level: str
) -> None:
    house = House(tmp_path, config={"agents": {"defaults": config}})
    async with house.agent() as agent:
        if session:
            await agent.ask(session)
        await agent.ask("hi", thinking=inline)
    assert house.model.requests[0].thinking == level


# 20 circles


async def test_ten_equal_calls_warn_twenty_block_and_the_next_ends_the_run(tmp_path: Path) -> None:
    house = House(tmp_path, *[Line("", (("read", {"path": "SOUL.md"}),))] * 30)
    async with house.agent() as agent:
        events = await events_of(agent, "go")
    results = [event.result for event in events if isinstance(event, ToolEnded)]
    first_warned = next(
        number
        for number, result in enumerate(results, 1)
        if "read" in result.text and number >= 9 and _warned(result.text)
    )
    blocked = [number for number, result in enumerate(results, 1) if result.is_error]
    assert first_warned == 10
    assert blocked == [20, 21]
    assert events[-1].status == "error"  # type: ignore[union-attr]


def _warned(text: str) -> bool:
    return "same" in text.rsplit("\n\n", 1)[-1].lower() or "repeat" in text.rsplit("\n\n", 1)[-1].lower()


async def test_an_unknown_tool_ends_the_circle_after_ten(tmp_path: Path) -> None:
    house = House(tmp_path, *[Line("", (("teleport", {"to": str(number)}),)) for number in range(30)])
    async with house.agent() as agent:
        reply = await agent.ask("go")
    assert reply.status == "error"
    assert len(house.model.requests) <= 12


# The request itself


async def test_nothing_of_a_command_reaches_the_model(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        await agent.ask("/name secret label")
        await agent.ask("/verbose full")
        await agent.ask("hi")
    (request,) = house.model.requests
    assert isinstance(request, ModelRequest)
    assert "secret label" not in str(request)
    assert [message.text for message in request.messages] == ["hi"]


async def test_three_equal_calls_after_a_compaction_end_the_run(tmp_path: Path) -> None:
    settings = {
        "keepRecentTokens": 50,
        "reserveTokens": 1000,
        "reserveTokensFloor": 0,
        "memoryFlush": {"enabled": False},
    }
    small = {"script": {"baseUrl": "http://x", "models": [{"id": "model", "contextWindow": 14_000}]}}
    house = House(tmp_path, config={"agents": {"defaults": {"compaction": settings}}, "models": {"providers": small}})
    summary = "\n\n".join(f"## {title}\nquestion 5 word, 2026" for title in HEADINGS)
    async with house.agent() as agent:
        for number in range(6):
            await agent.ask(f"question {number} " + "word " * 600)
        done = [Line("x")] * len(house.model.requests)
        again = Line("", (("ls", {"path": "."}),))
        house.model.lines = [
            *done,
            fails(ModelFailure.CONTEXT_OVERFLOW),
            Line(summary),
            again,
            again,
            again,
            Line("never"),
        ]
        reply = await agent.ask("go on")
    assert reply.status == "error"
    assert "compaction_loop_persisted" in reply.error


@pytest.mark.parametrize("mode", ["continuation-skip", "continuation-light"])
async def test_a_continued_turn_leaves_the_files_to_the_history(tmp_path: Path, mode: str) -> None:
    house = House(tmp_path, config={"agents": {"defaults": {"contextInjection": mode}}})
    house.workspace.mkdir(parents=True)
    (house.workspace / "AGENTS.md").write_text("# Rules\n\n## Red lines\n\nNever sail at NIGHT.\n")
    (house.workspace / "MEMORY.md").write_text("The boat is BLUE.\n")

    def told(word: str) -> list[int]:
        """Return how often a word stands in each request: in the system message and in the history."""
        return [
            request.system.text.count(word) + sum(getattr(each, "context", "").count(word) for each in request.messages)
            for request in house.model.requests
        ]

    async with house.agent() as agent:
        await agent.ask("one")
        await agent.ask("two")
    async with house.agent() as agent:  # read back from the log
        await agent.ask("three")
        first, *later = house.model.requests
        assert all(request.system == first.system for request in later)
        assert all(request.messages[0] == first.messages[0] for request in later)
        assert told("NIGHT") == [1, 1, 1]
        assert "NIGHT" in first.messages[0].context
        assert "BLUE" in first.system.text
        assert not any("BLUE" in getattr(each, "context", "") for each in later[-1].messages)
        (house.workspace / "AGENTS.md").write_text("Sail at DAWN.\n")
        await agent.ask("four")
        assert told("DAWN") == [0, 0, 0, 1]
        assert house.model.requests[-1].system == first.system


async def test_a_model_whose_reasoning_cannot_be_told_apart_is_asked_for_tags(tmp_path: Path) -> None:
    provider = {"baseUrl": "http://127.0.0.1:1", "compat": {"reasoningTags": True}}
    house = House(tmp_path, config={"models": {"providers": {"script": provider}}})
    async with house.agent() as agent:
        await agent.ask("hello")
    assert "## Reasoning Format" in house.model.requests[0].system.text


async def test_a_small_window_has_room_for_a_conversation(tmp_path: Path) -> None:
    def home(window: int) -> House:
        models = [{"id": "model", "contextWindow": window}]
        script = {"baseUrl": "http://127.0.0.1:1", "models": models}
        (tmp_path / str(window)).mkdir()
        return House(tmp_path / str(window), config={"models": {"providers": {"script": script}}})

    small = home(4_096)
    async with small.agent() as agent:
        assert (await agent.ask("hello")).ok
        request = small.model.requests[0]
        size = len(request.system.text) + sum(
            len(str(tool.parameters)) + len(tool.description) for tool in request.tools
        )
        assert size < 2 * 4_096  # half of what the window holds
    tiny = home(1_000)
    async with tiny.agent() as agent:
        reply = await agent.ask("hello")
    assert not reply.ok
    assert "the model's window has 1,000" in reply.error
    assert tiny.model.requests == []


async def test_a_model_that_answers_between_tags_is_shown_and_stored_without_them(tmp_path: Path) -> None:
    provider = {"baseUrl": "http://127.0.0.1:9", "compat": {"reasoningTags": True}, "models": [{"id": "model"}]}
    house = House(
        tmp_path, "<think>secret</think><final>Hello</final>", config={"models": {"providers": {"script": provider}}}
    )
    async with house.agent() as agent:
        reply = await agent.ask("hi")
    assert "Reason only inside <think>" in house.model.requests[0].system.text
    assert reply.text == reply.raw == "Hello"
    stored = json.dumps(house.transcript("agent:main:main"))
    assert "<final>" not in stored and '"thinking": "secret"' in stored
