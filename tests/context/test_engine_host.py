"""The host of context engines: which methods are called when, and what a failing or a slow one costs."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.context.test_window import OVERFLOW, Stage

from homarus.context.engine import (
    Assembled,
    EngineCall,
    EngineCompaction,
    EngineInfo,
    PassThrough,
    SpawnCall,
    register_context_engine,
)
from homarus.context.engine_host import EngineHost, EngineTimeouts
from homarus.context.rewrite import Rewriter, Rewritten
from homarus.core.cancel import Cancel
from homarus.core.messages import Assistant, Text, ToolCall, ToolResult, User

_NUMBERS = count()
SPAWN = SpawnCall(parent="agent:main:main", child="agent:main:subagent:1")
OPTIONAL = ["bootstrap", "after_turn", "commit_turn", "maintain", "prepare_subagent_spawn", "on_subagent_ended"]


class Recorder(PassThrough):
    """Has every method, and writes down what it is asked; one of them may misbehave."""

    def __init__(self, maintenance: Any = "foreground", **behaviour: Callable[..., Any]) -> None:
        self.info = EngineInfo("recorder", "recorder", maintenance=maintenance)
        self.asked: list[str] = []
        self.calls: dict[str, Any] = {}
        self.behaviour = behaviour

    async def do(self, name: str, *given: Any, otherwise: Any = None) -> Any:
        self.asked.append(name)
        self.calls[name] = given
        if name not in self.behaviour:
            return otherwise
        answer = self.behaviour[name](*given)
        return await answer if isinstance(answer, Awaitable) else answer

    async def bootstrap(self, call: EngineCall) -> None:
        await self.do("bootstrap", call)

    async def assemble(self, call: EngineCall) -> Assembled:
        view: Assembled = await self.do("assemble", call, otherwise=Assembled(call.messages))
        return view

    async def compact(self, call: EngineCall) -> EngineCompaction:
        refusal = EngineCompaction(ok=False, compacted=False, reason="no")
        done: EngineCompaction = await self.do("compact", call, otherwise=refusal)
        return done

    async def ingest(self, call: EngineCall) -> None:
        await self.do("ingest", call)

    async def after_turn(self, call: EngineCall) -> None:
        await self.do("after_turn", call)

    async def commit_turn(self, call: EngineCall) -> Any:
        return await self.do("commit_turn", call, otherwise="committed")

    async def maintain(self, call: EngineCall, rewriter: Rewriter) -> Any:
        return await self.do("maintain", call, rewriter)

    async def prepare_subagent_spawn(self, call: SpawnCall) -> Any:
        return await self.do("prepare_subagent_spawn", call)

    async def on_subagent_ended(self, child: str, reason: str) -> None:
        await self.do("on_subagent_ended", child, reason)

    async def dispose(self) -> None:
        await self.do("dispose")


def hosted(engine: PassThrough, limits: EngineTimeouts | None = None) -> EngineHost:
    name = f"hosted-{next(_NUMBERS)}"
    register_context_engine(name, lambda _facts: engine)
    return EngineHost(name, limits=limits)


def fails(*_given: Any) -> Any:
    raise RuntimeError("oh")


async def hangs(*_given: Any) -> Any:
    await asyncio.Event().wait()


def staged(folder: Path, engine: PassThrough, limits: EngineTimeouts | None = None) -> Stage:
    stage = Stage(folder)
    stage.host = hosted(engine, limits)
    stage.fill(1)
    stage.session.append_message(User((Text("the newest"),)))
    return stage


async def run_turn(stage: Stage) -> None:
    window = stage.window()
    await window.assemble(Cancel())
    stage.session.append_message(Assistant((Text("the answer"),)))
    await window.accepted()


async def use_everything(stage: Stage) -> None:
    await run_turn(stage)
    undo = await stage.host.prepare_spawn(SPAWN)
    await undo()
    await stage.host.child_ended(SPAWN.child, "completed")
    await stage.host.aclose()


async def test_every_method_is_called_at_its_moment_and_told_what_it_needs(tmp_path: Path) -> None:
    engine = Recorder()
    stage = staged(tmp_path, engine)
    await use_everything(stage)
    assert engine.asked == ["bootstrap", "assemble", "ingest", *OPTIONAL[1:], "dispose"]
    added = ["the newest", "the answer"]
    assert [message.text for message in engine.calls["ingest"][0].messages] == added
    whole = engine.calls["after_turn"][0]
    assert [message.text for message in whole.messages[whole.before :]] == added
    assert (whole.before, whole.summary) == (2, "")
    turn = engine.calls["commit_turn"][0]
    assert [message.text for message in turn.messages] == added and turn.key.startswith("s1:")
    assert engine.calls["on_subagent_ended"] == (SPAWN.child, "completed")
    assert not stage.host.quarantined


async def test_the_same_turn_has_the_same_key_and_the_next_one_another(tmp_path: Path) -> None:
    engine = Recorder()
    stage = staged(tmp_path, engine)
    window = stage.window()
    await window.accepted()
    first = engine.calls["commit_turn"][0].key
    await stage.window().accepted()
    assert engine.calls["commit_turn"][0].key == first
    stage.fill(1)
    await stage.window().accepted()
    assert engine.calls["commit_turn"][0].key != first


async def test_a_compaction_within_the_turn_is_told_after_it(tmp_path: Path) -> None:
    done = EngineCompaction(ok=True, compacted=True, summary="mine")
    engine = Recorder(compact=lambda _call: done)
    stage = staged(tmp_path, engine)
    window = stage.window()
    assert await window.overflowed(OVERFLOW, Cancel())
    assert engine.calls["compact"][0].target == "budget"
    stage.session.append_message(Assistant((Text("the answer"),)))
    await window.accepted()
    assert engine.calls["after_turn"][0].summary == "mine"


async def test_an_engine_without_the_optional_methods_is_asked_for_none(tmp_path: Path) -> None:
    class Small(PassThrough):
        info = EngineInfo("small", "small")

    stage = staged(tmp_path, Small())
    await use_everything(stage)
    assert not stage.host.quarantined and not any(map(stage.host.has, OPTIONAL))


@pytest.mark.parametrize("behaviour", [fails, hangs], ids=["raises", "hangs"])
@pytest.mark.parametrize("method", ["assemble", "ingest", *OPTIONAL, "dispose"])
async def test_one_that_fails_or_takes_too_long_is_out_of_use_and_the_turn_goes_on(
    tmp_path: Path, method: str, behaviour: Callable[..., Any]
) -> None:
    engine = Recorder(**{method: behaviour})
    stage = staged(tmp_path, engine, EngineTimeouts(call=0.01, compact=0.01, dispose=0.01))
    await use_everything(stage)
    word = "RuntimeError: oh" if behaviour is fails else "TimeoutError"
    assert stage.host.quarantined.startswith(f"{method}: {word}")
    assert engine.asked[-1] == method  # nothing of it is called afterwards
    assert [message.text for message in stage.session.history()[-2:]] == ["the newest", "the answer"]


@pytest.mark.parametrize("behaviour", [fails, hangs], ids=["raises", "hangs"])
async def test_a_compaction_that_fails_is_done_by_the_runtime(tmp_path: Path, behaviour: Callable[..., Any]) -> None:
    stage = staged(tmp_path, Recorder(compact=behaviour), EngineTimeouts(compact=0.01))
    stage.fill(6)
    assert await stage.window().overflowed(OVERFLOW, Cancel())
    assert stage.host.quarantined.startswith("compact: ") and stage.counts.compactions == 1


async def test_a_compaction_ends_when_somebody_stops_the_turn(tmp_path: Path) -> None:
    cancel = Cancel()

    async def stopped(_call: EngineCall) -> Any:
        cancel.cancel("stop")
        await asyncio.Event().wait()

    stage = staged(tmp_path, Recorder(compact=stopped))
    done = await stage.window().compact_now("", cancel)
    assert (done.ok, done.reason) == (False, "stop")
    assert not stage.host.quarantined


def test_the_limits_are_a_minute_for_a_call_and_three_for_a_compaction() -> None:
    assert (EngineTimeouts().call, EngineTimeouts().compact) == (60.0, 180.0)


@pytest.mark.parametrize(
    ("method", "lie"), [("commit_turn", "yes"), ("maintain", 7), ("prepare_subagent_spawn", "undo it")]
)
async def test_an_answer_that_is_none_puts_the_engine_out_of_use(tmp_path: Path, method: str, lie: Any) -> None:
    stage = staged(tmp_path, Recorder(**{method: lambda *_given: lie}))
    await use_everything(stage)
    assert stage.host.quarantined.startswith(f"{method}: TypeError")


async def test_a_spawn_that_failed_is_taken_back_once_and_a_rollback_that_fails_is_contained(tmp_path: Path) -> None:
    undone: list[str] = []

    async def undo() -> None:
        undone.append("undone")

    host = hosted(Recorder(prepare_subagent_spawn=lambda _call: undo))
    await (await host.prepare_spawn(SPAWN))()
    assert undone == ["undone"]
    bad = hosted(Recorder(prepare_subagent_spawn=lambda _call: fails))
    await (await bad.prepare_spawn(SPAWN))()
    assert bad.quarantined.startswith("rollback: ")


async def test_an_engine_that_owns_compaction_may_still_ask_for_the_check(tmp_path: Path) -> None:
    class Own(PassThrough):
        info = EngineInfo("own", "own", owns_compaction=True)
        authority: Any = "assembled"

        async def assemble(self, call: EngineCall) -> Assembled:
            return Assembled(call.messages[-2:], authority=self.authority)

        async def compact(self, call: EngineCall) -> EngineCompaction:
            first = stage.session.branch[-2].id
            return EngineCompaction(ok=True, compacted=True, summary="mine", first_kept=first)

    engine = Own()
    stage = staged(tmp_path, engine)
    stage.fill(9)
    await stage.window().assemble(Cancel())
    assert stage.counts.compactions == 0
    engine.authority = "preassembly_may_overflow"
    await stage.window().assemble(Cancel())
    assert stage.counts.compactions == 1


def shorten(rewriter: Rewriter) -> Rewritten:
    results = {ident: message for ident, message in rewriter.entries if isinstance(message, ToolResult)}
    return rewriter.rewrite(
        {ident: ToolResult(old.call_id, old.tool_name, (Text("short"),)) for ident, old in results.items()}
    )


def with_result(folder: Path, engine: PassThrough) -> Stage:
    stage = staged(folder, engine)
    stage.session.append_message(Assistant((ToolCall("c1", "read", {}),)))
    stage.session.append_message(ToolResult("c1", "read", (Text("x" * 1_000),)))
    return stage


async def test_maintenance_rewrites_what_is_in_view_and_the_old_stays_in_the_file(tmp_path: Path) -> None:
    engine = Recorder(maintain=lambda _call, rewriter: shorten(rewriter))
    stage = with_result(tmp_path, engine)
    await run_turn(stage)
    shown = [message.text for message in stage.session.history()[2:]]
    assert shown == ["the newest", "", "short", "the answer"]
    assert "x" * 1_000 in stage.session.path.read_text()
    assert not stage.host.quarantined
    stage.session.close()
    again = Stage(tmp_path)
    assert [message.text for message in again.session.history()[2:]] == shown


async def test_what_a_person_said_and_what_belongs_together_cannot_be_rewritten(tmp_path: Path) -> None:
    stage = with_result(tmp_path, Recorder())
    rewriter = Rewriter(stage.session)
    users = [entry.id for entry in stage.session.branch if entry.type == "message"][2:3]
    result = next(ident for ident, message in rewriter.entries if isinstance(message, ToolResult))
    before = stage.session.history()
    for ident, message in [
        (users[0], User((Text("other"),))),
        (result, ToolResult("c2", "read", (Text("other"),))),
        (result, Assistant((Text("other"),))),
        ("nobody", Assistant((Text("other"),))),
    ]:
        with pytest.raises(ValueError, match=r"must be of its kind|is not an answer"):
            rewriter.rewrite({ident: message})
    assert not rewriter.rewrite({result: dict(rewriter.entries)[result]}).changed
    assert stage.session.history() == before


async def test_background_maintenance_runs_beside_the_next_turn_and_yields_to_it(tmp_path: Path) -> None:
    go, done = asyncio.Event(), asyncio.Event()
    came: list[Rewritten] = []

    async def later(_call: EngineCall, rewriter: Rewriter) -> Rewritten:
        await go.wait()
        came.append(shorten(rewriter))
        done.set()
        return came[-1]

    engine = Recorder("background", maintain=later)
    stage = with_result(tmp_path, engine)
    await run_turn(stage)  # does not wait
    await asyncio.sleep(0)
    stage.session.append_message(User((Text("the next turn"),)))
    await run_turn(stage)
    assert engine.asked.count("maintain") == 1  # one at a time
    go.set()
    await done.wait()
    assert (came[0].changed, came[0].reason) == (False, "the session went on")
    await stage.host.aclose()
    assert not stage.host.quarantined and engine.asked[-1] == "dispose"


async def test_what_still_runs_ends_with_the_process(tmp_path: Path) -> None:
    stage = with_result(tmp_path, Recorder("background", maintain=hangs))
    await run_turn(stage)
    await stage.host.aclose()
    assert not stage.host.quarantined
