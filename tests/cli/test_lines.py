"""Lines are awaited without a thread: in any pieces, from whatever they come, and nobody reads on who stopped waiting."""

from __future__ import annotations

import asyncio
import io
import os
import pty
from pathlib import Path

from homarus.cli.lines import Lines


async def everything(lines: Lines) -> list[str]:
    found = []
    while line := await lines.next():
        found.append(line)
    return found


async def test_a_pipe_gives_its_lines_in_whatever_pieces_they_come() -> None:
    theirs, ours = os.pipe()
    with os.fdopen(theirs, encoding="utf-8") as stream:
        lines = Lines(stream)
        os.write(ours, b"one\ntwo\nthr")
        assert [await lines.next(), await lines.next()] == ["one\n", "two\n"]
        waiting = asyncio.ensure_future(lines.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        os.write(ours, "ee ä\nrest".encode())
        os.close(ours)
        assert await waiting == "three ä\n"
        assert await everything(lines) == ["rest"]


async def test_whoever_stops_waiting_takes_nothing_away() -> None:
    theirs, ours = os.pipe()
    with os.fdopen(theirs, encoding="utf-8") as stream:
        lines = Lines(stream)
        waiting = asyncio.ensure_future(lines.next())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        os.write(ours, b"for the next reader\n")
        assert os.read(theirs, 100) == b"for the next reader\n"
        os.close(ours)


async def test_what_was_typed_before_is_read_after_what_is_typed_anew() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as stream:
        lines = Lines(stream)
        os.write(ours, b"one\ntwo\n")
        assert await lines.next() == "one\n"
        os.write(ours, b"three\n")
        with lines.anew():
            os.write(ours, b"an answer\n")
            assert await lines.next() == "an answer\n"
        assert [await lines.next(), await lines.next()] == ["two\n", "three\n"]
        os.close(ours)


async def test_a_file_and_a_stream_of_python(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\n")
    with path.open() as file:
        assert await everything(Lines(file)) == ["one\n", "two\n"]
    assert await everything(Lines(io.StringIO("one\ntwo"))) == ["one\n", "two"]
