"""Memory is saved once in each cycle of a session, wherever the program is killed on the way."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.context.test_compact import good

from homarus.agent.open_session import OpenSession
from homarus.agent.window import CompactionState
from homarus.context.budget import budget_for
from homarus.context.compact import undo
from homarus.context.engine import EngineCall
from homarus.context.engine_host import EngineHost
from homarus.context.settings import CompactionSettings, PruningSettings
from homarus.context.summarize import Ask
from homarus.context.window import Ports, SessionWindow, WindowFacts
from homarus.core.cancel import Cancel
from homarus.core.clock import CountingIds, ManualClock
from homarus.core.messages import Assistant, Message, Text, User
from homarus.core.routes import main_session
from homarus.sessions.store import SessionStore
from homarus.tools.loopguard import LoopGuard, LoopSettings

MAIN = main_session("main")
POINTS = ["saving", "before it is noted", "after it was noted", "summary", "entry", "after the count"]


class Killed(BaseException):
    """The machine went away here."""


class Mortal(CompactionState):
    """The real counts, with a place to die at."""

    def __init__(self, live: OpenSession, stage: "Stage") -> None:
        super().__init__(live, LoopGuard(LoopSettings()))
        self.stage = stage

    def flushed(self) -> None:
        self.stage.pass_by("before it is noted")
        super().flushed()
        self.stage.pass_by("after it was noted")

    def compacted(self, tokens_after: int) -> None:
        self.stage.log.append("compaction")
        self.stage.pass_by("entry")
        super().compacted(tokens_after)
        self.stage.pass_by("after the count")


class Stage:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
        self.ids = CountingIds()
        self.folder = folder
        self.log: list[str] = []
        self.die_at = ""
        self.start()

    def start(self) -> None:
        store = SessionStore(self.folder, "main", clock=self.clock, ids=self.ids, main_key="main")
        self.live = OpenSession(store, MAIN, store.open_writer(MAIN, cwd="/w"))

    def restart(self) -> None:
        self.live.close()
        self.die_at = ""
        self.start()

    def pass_by(self, point: str) -> None:
        if self.die_at == point:
            raise Killed(point)

    async def turn(self) -> None:
        """One turn that needs a compaction."""
        settings = CompactionSettings(keep_recent_tokens=500)
        for number in range(7):
            self.live.writer.append_message(User((Text(f"topic {number}"),)))
            self.live.writer.append_message(Assistant((Text("x" * 4_000),)))
        facts = WindowFacts(
            budget=budget_for(8_000, settings),
            compaction=settings,
            pruning=PruningSettings(),
            call=EngineCall(session_id="s", session_key=str(MAIN), session_file=self.live.writer.path),
        )
        ports = Ports(
            host=EngineHost(""),
            cycle=Mortal(self.live, self),
            summarize=self.summarize,
            flush=self.flush,
            emit=lambda _event: None,
            clock=self.clock,
        )
        await SessionWindow(self.live.writer, facts, ports).assemble(Cancel())

    async def flush(self, _reason: str, _shown: tuple[Message, ...]) -> bool:
        self.pass_by("saving")
        self.log.append("saved")
        return True

    async def summarize(self, _ask: Ask) -> str:
        self.pass_by("summary")
        return good("topic")


@pytest.mark.parametrize("point", POINTS)
async def test_memory_is_saved_once_in_each_cycle_wherever_it_dies(tmp_path: Path, point: str) -> None:
    stage = Stage(tmp_path)
    await stage.turn()
    stage.die_at = point
    with pytest.raises(Killed):
        await stage.turn()
    stage.restart()
    await stage.turn()
    await stage.turn()
    # Only a save that nobody could note any more is done again: better twice than never.
    again = ["saved"] if point == "before it is noted" else []
    cycles = 4 if point in {"entry", "after the count"} else 3
    assert stage.log == ["saved", "compaction", *again, *["saved", "compaction"] * (cycles - 1)]
    assert stage.live.compactions == cycles
    stage.restart()
    assert stage.live.compactions == cycles


async def test_the_row_catches_up_with_the_log(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.die_at = "entry"
    with pytest.raises(Killed):
        await stage.turn()
    stage.restart()
    assert (stage.live.entry.compaction_count, stage.live.compactions) == (0, 1)
    await stage.turn()
    assert (stage.live.entry.compaction_count, stage.live.compactions) == (2, 2)


async def test_an_undone_compaction_still_counts(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.turn()
    assert undo(stage.live.writer)
    assert stage.live.compactions == 1
    await stage.turn()
    assert stage.log == ["saved", "compaction"] * 2
