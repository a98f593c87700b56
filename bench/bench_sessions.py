"""What a turn costs as a session grows, and what opening it cold costs: it must not depend on how long it is."""

from __future__ import annotations

import time
import tracemalloc
from itertools import count
from pathlib import Path

from bench.measure import Ctx, Row, against
from homarus.core.clock import SystemClock, SystemIds
from homarus.core.messages import Assistant, StopReason, Text, ToolCall, ToolResult, Usage, User
from homarus.sessions.repair import repair
from homarus.sessions.writer import SessionWriter

COLD_OPEN_SECONDS = 0.1
COMPACT_EVERY = 10
TINY_TURNS = 8_000  # as many as fit into a window of 200,000 tokens


class Talk:
    """A session with two tool calls a turn, compacted every ten turns as the default engine would."""

    def __init__(self, path: Path, *, compacted: bool = True) -> None:
        self.path = path
        self.compacted = compacted
        self.numbers = count(1)
        self.session = open_session(path)

    def turn(self) -> int:
        """Take one whole turn: append, assemble before each model call, append. Return the size of the last request."""
        number, session = next(self.numbers), self.session
        sent = 0
        first = session.append_message(
            User((Text(f"Question {number}: " + "what about the lamp? " * 8),), context=f"turn {number}"), durable=False
        )
        for step in range(2):
            sent = len(session.history())
            call = ToolCall(f"call_{number}_{step}", "read", {"path": f"notes/{number}.md"})
            session.append_message(
                Assistant((call,), stop_reason=StopReason.TOOL_USE, usage=Usage(900, 30)), durable=False
            )
            session.append_message(ToolResult(call.id, "read", (Text("a line of the notes\n" * 20),)), durable=False)
        sent = len(session.history())
        session.append_message(Assistant((Text("The lamp is upstairs. " * 10),), usage=Usage(1000, 60)), durable=False)
        if self.compacted and number % COMPACT_EVERY == 0:
            session.compact("What happened so far. " * 50, first.id, 50_000)
        return sent


def open_session(path: Path) -> SessionWriter:
    return SessionWriter(path, "bench", clock=SystemClock(), ids=SystemIds())


def grown(path: Path, turns: int, *, compacted: bool = True) -> Talk:
    talk = Talk(path, compacted=compacted)
    for _ in range(turns):
        talk.turn()
    return talk


def run(ctx: Ctx) -> list[Row]:
    """Measure turns at 10, 1,000 and 10,000, cold opens, a 500 MB transcript, memory and the repair itself."""
    folder = ctx.folder("sessions")
    turns = [*_turns(ctx, folder, compacted=True), *_turns(ctx, folder, compacted=False)]
    return [*turns, *_cold(ctx, folder), *_huge(ctx, folder), *_memory(folder), _repair(ctx)]


def _turns(ctx: Ctx, folder: Path, *, compacted: bool) -> list[Row]:
    prefix, what = ("", "compacted") if compacted else ("never-", "never compacted")
    talks = {n: grown(folder / f"{prefix}{n}.jsonl", n, compacted=compacted) for n in (10, 1_000, 10_000)}
    seconds = ctx.calls({str(n): talk.turn for n, talk in talks.items()}, number=COMPACT_EVERY)
    for talk in talks.values():
        talk.session.close()
    rows = [against(f"a turn at n = 10: append and assemble, {what}", seconds["10"], "", 0)]
    for n in (1_000, 10_000):
        label = f"a turn at n = {n:,}: append and assemble, {what}"
        rows.append(against(label, seconds[str(n)], "at n = 10", seconds["10"], 1.5))
    return rows


def _cold(ctx: Ctx, folder: Path) -> list[Row]:
    def cold(name: str) -> None:
        with open_session(folder / name) as session:
            session.history()

    seconds = ctx.calls(
        {name: lambda name=name: cold(name) for name in ("10.jsonl", "10000.jsonl", "never-10000.jsonl")},
        clock=time.process_time,
    )
    label = f"{COLD_OPEN_SECONDS * 1000:.0f} ms"
    tiny = folder / "tiny.jsonl"
    with open_session(tiny) as session:
        for number in range(TINY_TURNS):
            session.append_message(User((Text(f"ok {number}?"),)), durable=False)
            session.append_message(Assistant((Text(f"yes {number}"),), usage=Usage(1000, 6)), durable=False)
    chatty = ctx.calls({"tiny": lambda: cold("tiny.jsonl")}, clock=time.process_time)["tiny"]
    return [
        against(f"cold open and assemble, {TINY_TURNS:,} turns of a few words", chatty, label, COLD_OPEN_SECONDS),
        against("cold open and assemble, 10,000 turns", seconds["10000.jsonl"], label, COLD_OPEN_SECONDS, 1.0),
        against("cold open and assemble, 10,000 turns", seconds["10000.jsonl"], "10 turns", seconds["10.jsonl"]),
        against("the same, never compacted", seconds["never-10000.jsonl"], label, COLD_OPEN_SECONDS, 1.0),
    ]


def _huge(ctx: Ctx, folder: Path) -> list[Row]:
    small, huge = folder / "10.jsonl", folder / "huge.jsonl"
    lines = small.read_bytes().splitlines(keepends=True)
    filler = (
        b'{"type":"custom","id":"f","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z","data":"'
        + b"x" * 1_000_000
        + b'"}\n'
    )
    with huge.open("wb") as file:
        file.write(lines[0])
        while file.tell() < 500_000_000:
            file.write(filler)
        file.writelines(lines[1:])

    def cold(path: Path) -> None:
        with open_session(path) as session:
            session.history()

    seconds = ctx.calls({"huge": lambda: cold(huge), "small": lambda: cold(small)}, clock=time.perf_counter)
    huge.unlink()
    return [
        against("open a 500 MB transcript at its tail", seconds["huge"], "the same tail alone", seconds["small"], 1.5)
    ]


def _memory(folder: Path) -> list[Row]:
    def held(name: str) -> int:
        tracemalloc.start()
        with open_session(folder / name) as session:
            session.history()
            peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    few, many = held("10.jsonl"), held("10000.jsonl")
    early, never = held("never-1000.jsonl"), held("never-10000.jsonl")
    return [
        Row("memory of an open session of 10,000 turns, compacted", many / 1e6, "MB", "of 10 turns", many / few, 1.5),
        Row("the same, never compacted", never / 1e6, "MB", "of 1,000 turns", never / early, 1.5),
    ]


def _repair(ctx: Ctx) -> Row:
    messages = []
    for number in range(200):
        call = ToolCall(f"c{number}", "read", {"path": "x"})
        messages += [
            User((Text("q"),)),
            Assistant((call,)),
            ToolResult(call.id, "read", (Text("r"),)),
            Assistant((Text("a"),)),
        ]
    seconds = ctx.calls({"repair": lambda: repair(messages)})
    return against("repair 800 messages, CPU", seconds["repair"], "", 0)
