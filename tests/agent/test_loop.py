"""The loop: what is asked, what is stored, in which order, and how a turn ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.script import Line, Script, Stage, Waiting, calls, kinds, tool

from homarus.agent.batch import SKIPPED
from homarus.agent.budget import Budgets, Limits, Spent
from homarus.agent.outcome import Status
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.events import ToolEnded, ToolStarted, UserAccepted
from homarus.core.messages import Usage
from homarus.tools.tool import Risk, ToolContext, ToolOutput, said


async def test_a_plain_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    outcome = await stage.turn(Script("Hi there."))
    assert (outcome.status, outcome.text, outcome.spent.calls) == (Status.OK, "Hi there.", 1)
    assert stage.story == ["user: hello", "model: Hi there."]
    assert kinds(stage.events) == ["ModelCalled", "TextDelta", "MessageEnded"]


async def test_tools_run_and_their_results_come_in_the_order_of_the_calls(tmp_path: Path) -> None:
    order: list[str] = []

    async def slow(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        await asyncio.sleep(0.01)
        order.append("slow")
        return said("slow")

    async def quick(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        order.append("quick")
        return said("quick")

    stage = Stage(tmp_path, tool("slow", slow), tool("quick", quick))
    outcome = await stage.turn(Script(calls("slow", "quick", text="Looking."), "Done."))
    assert outcome.text == "Done."
    assert order == ["quick", "slow"]
    assert stage.story == ["user: hello", "model: Looking. [slow,quick]", "slow: slow", "quick: quick", "model: Done."]


async def test_a_sequential_tool_runs_alone(tmp_path: Path) -> None:
    running: list[str] = []
    most = 0

    def make(name: str) -> Any:
        async def run(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
            nonlocal most
            running.append(name)
            if name == "alone":
                assert running == ["alone"]
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.remove(name)
            return said(name)

        return run

    stage = Stage(tmp_path, tool("a", make("a")), tool("b", make("b")), tool("alone", make("alone"), sequential=True))
    await stage.turn(Script(calls("a", "b", "alone", "a"), "ok"))
    assert most == 2
    assert [line.split(":")[0] for line in stage.story[2:-1]] == ["a", "b", "alone", "a"]


async def test_a_steering_message_skips_what_has_not_begun(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def first(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        stage.mailbox.offer(Waiting("wait, not that", "k1"))
        return said("one done")

    stage.tools = {"one": tool("one", first, sequential=True), "two": tool("two", sequential=True)}
    script = Script(calls("one", "two", "two"), "Changed course.")
    await stage.turn(script)
    assert stage.story == [
        "user: hello",
        "model:  [one,two,two]",
        "one: one done",
        f"two!: {SKIPPED}",
        f"two!: {SKIPPED}",
        "user: wait, not that",
        "model: Changed course.",
    ]
    assert stage.settled == ["k1"]
    started = [event.call_id for event in stage.events if isinstance(event, ToolStarted)]
    ended = [event.result.call_id for event in stage.events if isinstance(event, ToolEnded)]
    assert started == ended == ["c0.0", "c0.1", "c0.2"]
    assert [event.steered for event in stage.events if isinstance(event, UserAccepted)] == [True]


async def test_a_person_is_heard_before_the_next_call_with_an_effect(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def act(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        stage.mailbox.offer(Waiting("stop, wait", "k1"))
        return said("acted")

    stage.tools = {"exec": tool("exec", act, risk=Risk.EXEC)}
    await stage.turn(Script(calls("exec", "exec", "exec"), "ok"))
    assert stage.story[2:6] == ["exec: acted", f"exec!: {SKIPPED}", f"exec!: {SKIPPED}", "user: stop, wait"]


async def test_calls_that_were_launched_together_are_not_recalled(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def first(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        stage.mailbox.offer(Waiting("too late", "k1"))
        return said("one done")

    stage.tools = {"one": tool("one", first), "two": tool("two")}
    await stage.turn(Script(calls("one", "two"), "ok"))
    assert stage.story[2:5] == ["one: one done", "two: two 1", "user: too late"]


async def test_steering_at_the_model_boundary_skips_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def first(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        stage.mailbox.offer(Waiting("later", "k1"))
        return said("one")

    stage.tools = {"one": tool("one", first, sequential=True), "two": tool("two", sequential=True)}
    await stage.turn(Script(calls("one", "two"), "ok"), boundary="model")
    assert stage.story[2:5] == ["one: one", "two: two 1", "user: later"]


async def test_waiting_messages_are_taken_one_at_a_time_or_all(tmp_path: Path) -> None:
    for take_all, expected in ((False, 3), (True, 2)):
        stage = Stage(tmp_path / str(take_all))
        script = Script("first", "second", "third")

        async def before(number: int, stage: Stage = stage) -> None:
            if number == 0:
                stage.mailbox.offer(Waiting("a", "ka"))
                stage.mailbox.offer(Waiting("b", "kb"))

        script.before = before
        await stage.turn(script, take_all=take_all)
        assert len(script.asked) == expected
        assert stage.settled == ["ka", "kb"]


async def test_a_message_that_is_already_stored_is_not_stored_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    script = Script("one", "two", "three")

    async def before(number: int) -> None:
        if number < 2:
            stage.mailbox.offer(Waiting("again", "same key"))

    script.before = before
    await stage.turn(script)
    assert stage.story.count("user: again") == 1


async def test_an_unknown_tool_gets_a_result_that_names_the_others(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool("read"))
    await stage.turn(Script(calls("raed"), "ok"))
    assert stage.story[2] == "raed!: there is no tool 'raed' (use one of: read)"


async def test_a_tool_can_end_the_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool("sessions_yield", ends_turn=True), tool("read"))
    script = Script(calls("read", "sessions_yield", text="Waiting."), "never")
    outcome = await stage.turn(script)
    assert (outcome.status, outcome.ended_by_tool, outcome.text) == (Status.OK, "sessions_yield", "Waiting.")
    assert len(script.asked) == 1


async def test_an_empty_answer_is_asked_for_again_three_times(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    script = Script("", "", "", "finally")
    assert (await stage.turn(script)).text == "finally"
    assert len(script.asked) == 4
    assert stage.story == ["user: hello", "model: finally"]


async def test_silence_after_tools_is_closed_with_words_and_without_tools(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool("read"))
    script = Script(calls("read"), "", "Here is what I found.")
    assert (await stage.turn(script)).text == "Here is what I found."
    assert script.with_tools == [True, True, False]
    script = Script(calls("read"), "")
    assert (await stage.turn(script, must_answer=False)).text == ""
    assert len(script.asked) == 2


async def test_a_failed_answer_ends_the_turn_and_keeps_what_was_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    error = ModelError(ModelFailure.SERVER, "it broke", status=500)
    outcome = await stage.turn(Script(Line("Half of a", error=error)))
    assert outcome.status is Status.ERROR
    assert "it broke" in outcome.error
    assert "Half of a" in (stage.folder / "s.jsonl").read_text()


async def test_an_overflow_shrinks_the_history_and_asks_again_at_most_three_times(tmp_path: Path) -> None:
    overflow = Line(error=ModelError(ModelFailure.CONTEXT_OVERFLOW, "too long"))
    stage = Stage(tmp_path / "a")
    assert (await stage.turn(Script(overflow, overflow, "fits"))).text == "fits"
    assert stage.window.overflows == 2
    stage = Stage(tmp_path / "b")
    outcome = await stage.turn(Script(overflow, overflow, overflow, overflow, "never"))
    assert outcome.status is Status.ERROR
    assert stage.window.overflows == 3
    stage = Stage(tmp_path / "c")
    stage.window.can_shrink = False
    assert (await stage.turn(Script(overflow, "never"))).status is Status.ERROR


async def test_stopping_while_the_model_speaks(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    turn = asyncio.ensure_future(stage.turn(Script(Line("Once upon", hang=True))))
    while "TextDelta" not in kinds(stage.events):
        await asyncio.sleep(0)
    stage.cancel.cancel("enough")
    outcome = await turn
    assert (outcome.status, outcome.error) == (Status.ABORTED, "enough")
    assert '"stopReason":"aborted"' in (stage.folder / "s.jsonl").read_text()


async def test_stopping_while_tools_run_gives_every_call_a_result(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def stopping(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        stage.cancel.cancel("stop")
        return said("done anyway")

    stage.tools = {"one": tool("one", stopping, sequential=True), "two": tool("two", sequential=True)}
    script = Script(calls("one", "two"), "never")
    outcome = await stage.turn(script)
    assert outcome.status is Status.ABORTED
    assert len(script.asked) == 1
    assert stage.session.open_calls == ()
    assert [line[:4] for line in stage.story[2:]] == ["one:", "two!"]


@pytest.mark.parametrize(
    ("limits", "status", "says"),
    [
        (Limits(calls=2), Status.ERROR, "2 model calls"),
        (Limits(tokens=150), Status.ERROR, "150 tokens"),
        (Limits(seconds=5), Status.TIMEOUT, "5 seconds"),
    ],
)
async def test_budgets_end_a_run_before_the_next_call(
    tmp_path: Path, limits: Limits, status: Status, says: str
) -> None:
    stage = Stage(tmp_path)

    async def takes_time(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        stage.clock.advance(3)
        return said("ok")

    stage.tools = {"read": tool("read", takes_time)}
    outcome = await stage.turn(Script(*[calls("read")] * 9), budgets=Budgets(run=limits))
    assert outcome.status is status
    assert says in outcome.error
    assert outcome.spent.calls == 2
    assert stage.session.open_calls == ()


async def test_todays_budget_counts_what_other_runs_used(tmp_path: Path) -> None:
    script = Script("never")
    spent = Spent(calls=7, usage=Usage(input=10_000))
    outcome = await Stage(tmp_path).turn(script, budgets=Budgets(day=Limits(tokens=10_000)), spent_today=lambda: spent)
    assert "today's budget of 10,000 tokens" in outcome.error
    assert script.asked == []


async def test_going_in_circles_warns_then_blocks_then_ends(tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool("read"))
    script = Script(*[calls("read")] * 30)
    outcome = await stage.turn(script)
    assert outcome.status is Status.ERROR
    assert "generic_repeat" in outcome.error
    assert len(script.asked) == 21
    results = [line for line in stage.story if line.startswith("read")]
    assert "Loop warning" not in results[8]
    assert "Loop warning" in results[9]
    assert results[19].startswith("read!: Not run:")
