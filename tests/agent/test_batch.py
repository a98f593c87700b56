"""When a line must be on the disk: what was done always, what was only looked at once in a while, and the end of a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.scenarios.script import Script, Stage, Whole, calls, tell, tool

from homarus.agent.batch import SHARED_SYNC_SECONDS
from homarus.core.clock import CountingIds
from homarus.core.messages import Message
from homarus.core.tools import Risk
from homarus.sessions.entry import Entry
from homarus.sessions.writer import SessionWriter
from homarus.tools.tool import ToolContext, ToolOutput, said


class Noting(SessionWriter):
    """Notes which lines were waited for."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.waited_for: list[str] = []

    def append_message(self, message: Message, *, durable: bool = True, run_id: str = "") -> Entry:
        if durable:
            self.waited_for.append(tell(message))
        return super().append_message(message, durable=durable, run_id=run_id)


def stage_in(folder: Path, *, seconds: float = 0.0) -> tuple[Stage, Noting]:
    async def look(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        context.clock.advance(seconds)  # type: ignore[attr-defined]  # the clock of a stage is moved by hand
        return said(f"saw {arguments['x']}")

    stage = Stage(folder, tool("look", look), tool("do", risk=Risk.WRITE))
    session = Noting(folder / "noting.jsonl", "s2", clock=stage.clock, ids=CountingIds())
    stage.session, stage.window = session, Whole(session)
    return stage, session


async def test_looks_that_follow_each_other_at_once_share_a_sync(tmp_path: Path) -> None:
    stage, session = stage_in(tmp_path)
    await stage.turn(Script(calls("look"), calls("look"), calls("look", "look"), "Done."))
    assert session.waited_for == ["user: hello", "look: saw 0", "model: Done."]
    assert len(stage.story) == 9


async def test_a_look_that_took_its_time_is_waited_for(tmp_path: Path) -> None:
    stage, session = stage_in(tmp_path, seconds=SHARED_SYNC_SECONDS)
    await stage.turn(Script(calls("look"), calls("look"), "Done."))
    assert session.waited_for == ["user: hello", "look: saw 0", "look: saw 0", "model: Done."]


async def test_what_was_done_is_always_waited_for_with_the_call_before_it(tmp_path: Path) -> None:
    stage, session = stage_in(tmp_path)
    await stage.turn(Script(calls("look"), calls("do"), calls("do"), "Done."))
    done = ["model:  [do]", "do: do 0"]
    assert session.waited_for == ["user: hello", "look: saw 0", *done, *done, "model: Done."]
