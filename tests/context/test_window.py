"""The window of a turn: when it compacts, when it saves memory, and what it does when that fails."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.context.test_compact import good

from homarus.context.budget import budget_for
from homarus.context.engine import (
    Assembled,
    ContextEngine,
    EngineCall,
    EngineCompaction,
    EngineInfo,
    PassThrough,
    register_context_engine,
)
from homarus.context.engine_host import EngineHost
from homarus.context.pins import pinned
from homarus.context.prune import FADED, fade_images
from homarus.context.settings import CompactionSettings, FlushSettings, MidTurnPrecheck, PruningSettings
from homarus.context.summarize import Ask
from homarus.context.window import Ports, SessionWindow, WindowFacts
from homarus.core.cancel import Cancel
from homarus.core.clock import CountingIds, ManualClock
from homarus.core.errors import ConfigError, ModelError, ModelFailure
from homarus.core.events import CompactionEnded, CompactionStarted, Notice, RunEvent
from homarus.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User
from homarus.sessions.writer import SessionWriter

WINDOW = 8_000
OVERFLOW = ModelError(ModelFailure.CONTEXT_OVERFLOW, "too long")


class Counts:
    """The session entry's counts, in memory."""

    def __init__(self) -> None:
        self.compactions = 0
        self.flushed_at: int | None = None
        self.failed_at: int | None = None
        self.flush_failures = 0

    def compacted(self, tokens_after: int) -> None:
        self.compactions += 1

    def flushed(self) -> None:
        self.flushed_at = self.compactions


class Stage:
    def __init__(self, folder: Path, **facts: Any) -> None:
        self.clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
        self.session = SessionWriter(folder / "s.jsonl", "s1", clock=self.clock, ids=CountingIds())
        self.counts = Counts()
        self.events: list[RunEvent] = []
        self.order: list[str] = []
        self.summary: str | Exception = good("topic")
        self.flush_works = True
        self.host: EngineHost = EngineHost("")
        self.facts = facts
        self.additions: list[str] = []
        self.renewed = 0
        self.rules = ""
        self.more: dict[str, Any] = {}

    def renew(self) -> int | None:
        self.renewed += 1
        return None

    def window(self) -> SessionWindow:
        compaction = self.facts.get("compaction", CompactionSettings(keep_recent_tokens=500))
        facts = WindowFacts(
            budget=budget_for(WINDOW, compaction),
            compaction=compaction,
            pruning=self.facts.get("pruning", PruningSettings()),
            call=EngineCall(session_id="s1", session_key="agent:main:main", session_file=self.session.path),
            **self.more,
        )
        return SessionWindow(
            self.session,
            facts,
            Ports(
                host=self.host,
                cycle=self.counts,
                summarize=self.summarize,
                flush=self.flush,
                emit=self.events.append,
                clock=self.clock,
                add=self.additions.append,
                rules=lambda: self.rules,
                renew=self.renew,
            ),
        )

    async def summarize(self, _ask: Ask) -> str:
        if self.order[-1:] != ["summarize"]:  # a long history is summarised in several pieces
            self.order.append("summarize")
        if isinstance(self.summary, Exception):
            raise self.summary
        return self.summary

    async def flush(self, reason: str, _shown: tuple[Message, ...]) -> bool:
        self.order.append(f"flush:{reason}")
        return self.flush_works

    def fill(self, turns: int, size: int = 4_000) -> None:
        for number in range(turns):
            self.session.append_message(User((Text(f"topic {number}"),)))
            self.session.append_message(Assistant((Text("x" * size),)))


async def test_a_short_history_is_left_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(2)
    assert await stage.window().assemble(Cancel()) == stage.session.history()
    assert stage.order == []


async def test_memory_is_saved_first_and_once_in_each_cycle(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(7)
    window = stage.window()
    messages = await window.assemble(Cancel())
    assert stage.order == ["flush:tokens", "summarize"]
    assert stage.counts.compactions == 1
    assert "## Decisions" in messages[0].text
    await window.assemble(Cancel())
    assert len(stage.order) == 2
    stage.fill(7)
    await window.assemble(Cancel())
    assert stage.order[2:] == ["flush:tokens", "summarize"]


async def test_the_count_of_a_longer_history_does_not_compact_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(6)
    stage.session.append_message(User((Text("topic last"),)))
    stage.session.append_message(Assistant((Text("y"),), timestamp=1, usage=Usage(input=7_900)))
    window = stage.window()
    await window.assemble(Cancel())
    await window.assemble(Cancel())
    assert stage.counts.compactions == 1


async def test_memory_is_saved_before_an_overflow_compaction_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(4)
    assert await stage.window().overflowed(OVERFLOW, Cancel())
    assert stage.order == ["flush:compaction", "summarize"]


async def test_a_failed_compaction_keeps_everything_and_says_so_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(7)
    stage.summary = "garbage"
    before = stage.session.history()
    window = stage.window()
    for _ in range(3):
        assert await window.assemble(Cancel()) == before
    assert len([event for event in stage.events if isinstance(event, Notice)]) == 1
    assert [event.ok for event in stage.events if isinstance(event, CompactionEnded)] == [False]


async def test_after_a_failed_compaction_long_results_are_shortened_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.summary = ModelError(ModelFailure.SERVER, "down")
    stage.session.append_message(User((Text("go"),)))
    stage.session.append_message(Assistant((ToolCall("c", "read", {}),)))
    stage.session.append_message(ToolResult("c", "read", (Text("z" * 20_000),)))
    window = stage.window()
    assert await window.overflowed(OVERFLOW, Cancel())
    shown = await window.assemble(Cancel())
    assert len(shown[-1].text) < 4_000
    assert "z" * 20_000 in stage.session.history()[-1].text
    assert not await window.overflowed(OVERFLOW, Cancel())


async def test_memory_that_cannot_be_saved_does_not_block_and_is_given_up_after_three_tries(tmp_path: Path) -> None:
    stage = Stage(tmp_path, compaction=CompactionSettings(enabled=False))
    stage.flush_works = False
    stage.fill(7)
    window = stage.window()
    for _ in range(5):
        await window.assemble(Cancel())
    assert stage.order == ["flush:tokens"] * 3


async def test_a_person_can_ask_for_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, compaction=CompactionSettings(enabled=False, keep_recent_tokens=500))
    stage.fill(3)
    done = await stage.window().compact_now("the invoices", Cancel())
    assert done.ok
    assert [event.reason for event in stage.events if isinstance(event, CompactionStarted)] == ["manual"]


async def test_pruning_is_stored_and_the_same_after_a_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path, pruning=PruningSettings(mode="cache-ttl"))
    for number in range(4):
        stage.session.append_message(User((Text(f"q{number}"),)))
        stage.session.append_message(Assistant((ToolCall(f"c{number}", "read", {}),)))
        stage.session.append_message(ToolResult(f"c{number}", "read", (Text("z" * 4_500),)))
    stage.clock.advance(600)
    before = await stage.window().assemble(Cancel())
    assert "[Shortened" in before[2].text
    stage.session.close()
    again = Stage(tmp_path, pruning=PruningSettings(mode="cache-ttl"))
    assert await again.window().assemble(Cancel()) == before


async def test_an_engine_that_fails_is_out_of_use_and_the_turn_goes_on(tmp_path: Path) -> None:
    class Broken(PassThrough):
        info = EngineInfo("broken-test", "broken")

        async def assemble(self, call: EngineCall) -> Assembled:
            raise RuntimeError("oh")

    register_context_engine("broken-test", lambda _facts: Broken())
    stage = Stage(tmp_path)
    stage.host = EngineHost("broken-test")
    stage.fill(1)
    assert await stage.window().assemble(Cancel()) == stage.session.history()
    assert "assemble: RuntimeError" in stage.host.quarantined
    assert EngineHost("no-such-engine").quarantined


async def test_an_engine_that_does_not_compact_leaves_it_to_the_runtime(tmp_path: Path) -> None:
    class Viewer(PassThrough):
        info = EngineInfo("viewer-test", "viewer")

    register_context_engine("viewer-test", lambda _facts: Viewer())
    stage = Stage(tmp_path)
    stage.host = EngineHost("viewer-test")
    stage.fill(8)
    done = await stage.window().compact_now("", Cancel())
    assert done.ok and stage.session.boundary is not None
    assert not stage.host.quarantined


async def test_an_engine_may_own_what_is_seen_and_how_it_shrinks(tmp_path: Path) -> None:
    class Own(PassThrough):
        info = EngineInfo("own-test", "own", owns_compaction=True)

        async def assemble(self, call: EngineCall) -> Assembled:
            return Assembled(call.messages[-1:], addition="remember this")

        async def compact(self, call: EngineCall) -> EngineCompaction:
            return EngineCompaction(ok=True, compacted=True, summary="my summary", first_kept="")

    def make(_facts: Any) -> ContextEngine:
        return Own()

    register_context_engine("own-test", make)
    stage = Stage(tmp_path)
    stage.host = EngineHost("own-test")
    stage.fill(9)
    window = stage.window()
    shown = await window.assemble(Cancel())
    assert shown[-1] == stage.session.history()[-1] and len(shown) == 2  # a history begins with a user
    assert stage.additions == ["remember this"]
    assert stage.order == []
    assert await window.overflowed(OVERFLOW, Cancel())
    assert "my summary" in stage.session.history()[0].text and stage.renewed == 1


class Liar(PassThrough):
    """Says one thing after another that is not so."""

    info = EngineInfo("liar-test", "liar")
    view: Any = None
    done: Any = None
    heard: tuple[Message, ...] = ()

    async def assemble(self, call: EngineCall) -> Assembled:
        return Assembled(call.messages) if self.view is None else self.view

    async def compact(self, call: EngineCall) -> EngineCompaction:
        result: EngineCompaction = self.done
        return result

    async def ingest(self, call: EngineCall) -> None:
        self.heard = call.messages


def lying(stage: Stage, name: str, **lies: Any) -> Liar:
    engine = Liar()
    for what, lie in lies.items():
        setattr(engine, what, lie)
    register_context_engine(name, lambda _facts: engine)
    stage.host = EngineHost(name)
    return engine


@pytest.mark.parametrize("view", [7, Assembled(()), Assembled(("words",)), Assembled((), addition=3)])  # type: ignore[arg-type]  # what a liar returns
async def test_a_view_that_is_none_puts_the_engine_out_of_use(tmp_path: Path, view: Any) -> None:
    stage = Stage(tmp_path)
    lying(stage, f"view-test-{view}", view=view)
    stage.fill(1)
    assert await stage.window().assemble(Cancel()) == stage.session.history()
    assert stage.host.quarantined.startswith("assemble: ")


async def test_what_an_engine_shows_is_repaired_before_it_is_sent(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    orphan = ToolResult("nobody", "read", (Text("x"),))
    lying(stage, "orphan-test", view=Assembled((orphan, User((Text("go"),)), Assistant((ToolCall("c", "read", {}),)))))
    stage.fill(1)
    shown = await stage.window().assemble(Cancel())
    assert [type(message) for message in shown] == [User, Assistant, ToolResult]
    assert not stage.host.quarantined


async def test_an_engine_cannot_hide_the_history_or_lose_a_standing_instruction(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.session.append_message(User((Text("Never send mail without asking me."),)))
    stage.session.append_message(Assistant((Text("topic"),)))
    stage.fill(3)
    done = EngineCompaction(ok=True, compacted=True, summary="mine", first_kept="no-such-entry")
    engine = lying(stage, "hiding-test", done=done)
    before = stage.session.history()
    result = await stage.window().compact_now("", Cancel())
    assert not result.ok and "no-such-entry" in result.reason
    assert stage.session.history() == before and stage.counts.compactions == 0
    engine.done = EngineCompaction(ok=True, compacted=True, summary="mine", first_kept=stage.session.branch[-2].id)
    assert (await stage.window().compact_now("", Cancel())).ok
    first = stage.session.history()[0].text
    assert "mine" in first and "Never send mail without asking me." in first
    assert pinned(stage.session.notes) == ["Never send mail without asking me."]
    engine.done = "yes"
    await stage.window().compact_now("", Cancel())
    assert "compact returned str" in stage.host.quarantined


async def test_an_engine_hears_what_an_accepted_turn_added(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    engine = lying(stage, "hearing-test")
    stage.fill(2)
    stage.session.append_message(User((Text("the newest"),)))
    window = stage.window()
    stage.session.append_message(Assistant((Text("the answer"),)))
    await window.accepted()
    assert [message.text for message in engine.heard] == ["the newest", "the answer"]


def test_an_engine_that_cannot_say_who_it_is_is_out_of_use() -> None:
    class Nameless:
        @property
        def info(self) -> EngineInfo:
            raise RuntimeError("who am I?")

    register_context_engine("nameless-test", lambda _facts: Nameless())  # type: ignore[arg-type,return-value]  # that is the point
    assert "who am I?" in EngineHost("nameless-test").quarantined


def test_an_engine_whose_needs_are_not_met_fails_before_the_run() -> None:
    class Needy(PassThrough):
        info = EngineInfo("needy-test", "needy", requires=("vectors",))

    register_context_engine("needy-test", lambda _facts: Needy())
    with pytest.raises(ConfigError, match="vectors"):
        EngineHost("needy-test")
    assert not EngineHost("needy-test", abilities=frozenset({"vectors"})).quarantined
    with pytest.raises(ConfigError):
        register_context_engine("needy-test", lambda _facts: Needy())


def test_images_fade_after_three_turns_and_only_when_a_turn_starts() -> None:
    messages = [User((Text(str(number)), Image("x", "image/png"))) for number in range(5)]
    faded = fade_images(messages)
    assert [FADED in message.text for message in faded] == [True, False, False, False, False]
    same = fade_images([*messages, Assistant((Text("a"),))])
    assert same[:5] == faded


async def test_a_long_result_at_the_end_does_not_stop_a_compaction(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(7)
    stage.session.append_message(User((Text("topic: read it"),)))
    stage.session.append_message(Assistant((ToolCall("c1", "read", {}),)))
    stage.session.append_message(ToolResult("c1", "read", (Text("z" * 40_000),)))
    messages = await stage.window().assemble(Cancel())
    assert [event.ok for event in stage.events if isinstance(event, CompactionEnded)] == [True]
    assert [type(message) for message in messages[-2:]] == [Assistant, ToolResult]


async def test_a_failed_compaction_is_tried_again_only_when_there_is_more_to_summarise(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.summary = "garbage"
    stage.fill(7)
    for _ in range(3):
        await stage.window().assemble(Cancel())
    assert sum(isinstance(event, CompactionEnded) for event in stage.events) == 1
    assert sum(isinstance(event, Notice) for event in stage.events) == 1
    stage.fill(5)
    await stage.window().assemble(Cancel())
    # The second one that is no good goes by what people said: the room for the answer must not be used up.
    assert [event.ok for event in stage.events if isinstance(event, CompactionEnded)] == [False, False, True]
    assert sum(isinstance(event, Notice) for event in stage.events) == 1


async def test_what_is_shortened_after_an_overflow_stays_shortened(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.summary = "garbage"
    stage.session.append_message(User((Text("topic: read it"),)))
    stage.session.append_message(Assistant((ToolCall("c1", "read", {}),)))
    stage.session.append_message(ToolResult("c1", "read", (Text("z" * 9_000),)))
    window = stage.window()
    assert await window.overflowed(OVERFLOW, Cancel())
    short = await window.assemble(Cancel())
    assert len(short[-1].text) < 4_000
    assert await stage.window().assemble(Cancel()) == short


async def test_where_no_summary_can_be_had_the_words_of_people_stay_and_the_turn_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.summary = "garbage"
    stage.session.append_message(User((Text("Never deploy PROJ-4711 on a Friday, whatever happens."),)))
    stage.fill(6)
    window = stage.window()
    tries = 0
    while "no summary could be made" not in "".join(message.text for message in await window.assemble(Cancel())):
        assert await window.overflowed(OVERFLOW, Cancel())
        tries += 1
        assert tries < 4
    first = (await window.assemble(Cancel()))[0].text
    assert "PROJ-4711" in first
    assert "topic 5" in first or any("topic 5" in message.text for message in await window.assemble(Cancel()))
    assert len(first) < 16_000


async def test_a_compaction_that_cannot_be_costs_nothing_and_uses_nothing_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.fill(1, size=400)
    done = await stage.window().compact_now("", Cancel())
    assert (done.ok, done.reason) == (False, "there is nothing old enough to summarise")
    assert stage.order == []
    assert stage.events == []
    assert stage.counts.flushed_at is None
    stage.fill(7)
    await stage.window().assemble(Cancel())
    assert stage.order == ["flush:tokens", "summarize"]


async def test_the_first_message_saves_no_memory_however_large_the_prompt_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.more = {"fixed_tokens": 7_500}
    stage.session.append_message(User((Text("hello"),)))
    await stage.window().assemble(Cancel())
    assert stage.order == []
    assert stage.events == []


async def test_what_stays_and_what_stands_for_the_rest_leave_room_beside_a_large_prompt(tmp_path: Path) -> None:
    stage = Stage(tmp_path, compaction=CompactionSettings())
    stage.more = {"fixed_tokens": 4_500}
    stage.summary = good("topic") + "and so on " * 2_000
    stage.fill(20, size=400)
    window = stage.window()
    await window.assemble(Cancel())
    (ended,) = [event for event in stage.events if isinstance(event, CompactionEnded)]
    assert 4_500 < ended.tokens_after < 5_700  # of the 6,000 that it may have
    assert ended.tokens_before > 6_000


async def test_after_an_overflow_the_newest_turn_stays_when_nothing_else_fits(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.summary = ModelError(ModelFailure.CONTEXT_OVERFLOW, "the summary did not fit either")
    stage.fill(6, size=300)
    stage.session.append_message(User((Text("and now?"),)))
    window = stage.window()
    shown = await window.assemble(Cancel())
    for _ in range(3):
        if not await window.overflowed(OVERFLOW, Cancel()):
            break
        shorter = await window.assemble(Cancel())
        assert sum(len(message.text) for message in shorter) < sum(len(message.text) for message in shown)
        shown = shorter
    assert [message.text for message in shown[1:]][-1] == "and now?"
    assert not any("x" * 300 in message.text for message in shown)
    assert "topic 5" in shown[0].text


async def test_no_memory_is_saved_where_nothing_can_be_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.more = {"writable": False}
    stage.fill(7)
    await stage.window().assemble(Cancel())
    assert stage.order == ["summarize"]
    assert stage.counts.flushed_at is None


@pytest.mark.parametrize(
    ("verbose", "notify", "told"), [(False, False, False), (True, False, True), (False, True, True)]
)
async def test_the_end_of_a_compaction_is_told_to_those_who_want_it(
    tmp_path: Path, verbose: bool, notify: bool, told: bool
) -> None:
    stage = Stage(tmp_path, compaction=CompactionSettings(keep_recent_tokens=500, notify_user=notify))
    stage.more = {"verbose": verbose}
    stage.fill(7)
    await stage.window().assemble(Cancel())
    assert (Notice("🧹 Auto-compaction complete", "reply") in stage.events) is told
    stage.fill(1)
    assert (await stage.window().compact_now("", Cancel())).ok
    assert sum(isinstance(event, Notice) for event in stage.events) == told


async def test_the_rules_that_the_owner_names_are_said_again_behind_the_summary(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.rules = "## Red Lines\n- Ask before you send."
    stage.fill(7)
    messages = await stage.window().assemble(Cancel())
    assert f"said again\n\n{stage.rules}\n" in messages[0].text


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_size_is_looked_at_within_a_turn_unless_that_is_switched_off(tmp_path: Path, enabled: bool) -> None:
    precheck = MidTurnPrecheck(enabled=enabled)
    stage = Stage(tmp_path, compaction=CompactionSettings(keep_recent_tokens=500, mid_turn_precheck=precheck))
    stage.fill(1)
    window = stage.window()
    await window.assemble(Cancel())
    stage.fill(7)
    await window.assemble(Cancel())
    assert stage.counts.compactions == enabled
    await stage.window().assemble(Cancel())
    assert stage.counts.compactions == 1


async def test_a_prompt_that_fills_the_window_is_named_against_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.more = {"fixed_tokens": 8_340}
    stage.fill(1)
    with pytest.raises(ConfigError, match="about 8,340 tokens, and the model's window has 8,000"):
        await stage.window().assemble(Cancel())


async def test_a_model_that_cannot_be_had_for_saving_memory_is_named_and_stops_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def refuse(_reason: str, _shown: tuple[Message, ...]) -> bool:
        raise ConfigError("there is no model 'x'", cure="name another")

    stage.flush = refuse  # type: ignore[method-assign]
    stage.fill(7)
    await stage.window().assemble(Cancel())
    assert stage.counts.compactions == 1
    assert any("memory was not saved: there is no model 'x'" in str(event) for event in stage.events)


@pytest.mark.parametrize(
    ("fill", "change", "reason"),
    [
        (6, {}, "tokens"),
        (1, {}, ""),
        (1, {"memory_flush": FlushSettings(force_flush_transcript_bytes=1)}, "bytes"),
        (6, {"memory_flush": FlushSettings(enabled=False)}, ""),
        (6, {"flushed_at": 0}, ""),
        (6, {"flush_failures": 3}, ""),
        (6, {"flush_failures": 2}, "tokens"),
        (6, {"heartbeat": True}, ""),
        (6, {"writable": False}, ""),
    ],
)
async def test_memory_is_saved_when_it_is_due(tmp_path: Path, fill: int, change: dict[str, Any], reason: str) -> None:
    flush = change.get("memory_flush", FlushSettings())
    stage = Stage(tmp_path, compaction=CompactionSettings(enabled=False, reserve_tokens=10, memory_flush=flush))
    stage.counts.flushed_at = change.get("flushed_at")
    stage.counts.flush_failures = change.get("flush_failures", 0)
    stage.more = {name: value for name, value in change.items() if name in {"heartbeat", "writable"}}
    stage.fill(fill)
    await stage.window().assemble(Cancel())
    assert stage.order == ([f"flush:{reason}"] if reason else [])
