"""A real program on a pseudo-terminal, and what a person would see on its screen."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyte
from pyte.screens import StaticDefaultDict

PATIENCE_SECONDS = 40.0  # for a machine that has other things to do; a test that passes needs little of it


class Answering(pyte.HistoryScreen):
    """A terminal answers what programs ask of it: where the cursor is, what it can do.

    A page that is cleared as a whole stays in the scrollback, and rows that have become too long are broken.
    """

    def __init__(self, columns: int, lines: int, answer: Any) -> None:
        super().__init__(columns, lines, history=2_000, ratio=0.5)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def _row(self, cells: dict[int, Any]) -> StaticDefaultDict[int, Any]:
        row = StaticDefaultDict[int, Any](self.default_char)
        row.update(cells)
        return row

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 2 or (how == 0 and (self.cursor.x, self.cursor.y) == (0, 0)):
            used = max((y for y, line in enumerate(self.display) if line.strip()), default=-1) + 1
            self.history.top.extend(self._row(self.buffer[y]) for y in range(used))
        super().erase_in_display(how, *args, **kwargs)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        rows: list[dict[int, Any]] = []
        at = 0  # the row of the cursor
        for y in range(self.lines):
            cells = self.buffer[y]
            last = max((x for x, cell in cells.items() if cell.data.strip()), default=0)
            for start in range(0, max(last, self.cursor.x if y == self.cursor.y else 0) + 1, columns):
                at = len(rows) if y == self.cursor.y else at
                rows.append({x - start: cell for x, cell in cells.items() if start <= x < start + columns})
        while len(rows) > max(lines, at + 1) and not any(cell.data.strip() for cell in rows[-1].values()):
            rows.pop()
        over = max(0, len(rows) - lines)
        super().resize(lines, columns)
        self.history.top.extend(self._row(cells) for cells in rows[:over])
        self.buffer.clear()
        for y, row in enumerate(rows[over:]):
            self.buffer[y].update(row)
        self.cursor.y, self.cursor.x = at - over, self.cursor.x % columns


class Terminal:
    """`homarus`, or another program, with these words in a terminal of this size."""

    def __init__(
        self,
        env: dict[str, str],
        *words: str,
        size: tuple[int, int] = (80, 24),
        cwd: Path | None = None,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
        program: tuple[str, ...] = (sys.executable, "-m", "homarus"),
    ) -> None:
        self._ours, theirs = pty.openpty()
        self._screen = Answering(*size, self.type)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._set_size(*size)
        self.process = subprocess.Popen(
            [*program, *words],
            env={"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **env},
            stdin=theirs if stdin is None else stdin,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            start_new_session=True,
            # As of a shell: Ctrl-C is a signal, and /dev/tty is this terminal also where standard input is something else.
            preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),
            cwd=cwd,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._ours)
            return
        self.raw += data
        self._stream.feed(data)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)
        os.kill(self.process.pid, signal.SIGWINCH)

    @property
    def lines(self) -> list[str]:
        """Return what stands on the screen, without empty ends."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """Return the screen and all that was scrolled off it."""
        above = [
            "".join(row[column].data for column in range(max(row, default=-1) + 1)).rstrip()
            for row in self._screen.history.top
        ]
        return "\n".join([*above, *self.lines])

    def color_of(self, text: str) -> str:
        """Return the colour in which a text stands on the screen."""
        row, column = next((row, line.find(text)) for row, line in enumerate(self._screen.display) if text in line)
        found: str = self._screen.buffer[row][column].fg
        return found

    async def until(self, *texts: str, gone: str = "", when: Callable[[list[str]], bool] = lambda _lines: True) -> None:
        """Wait until the screen, or what was scrolled off it, holds these texts, and its lines are as wanted."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (
                    all(text in self.text for text in texts)
                    and not (gone and gone in "\n".join(self.lines))
                    and when(self.lines)
                ):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{texts} did not come (or {gone!r} did not go):\n{self.text}") from None

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.process.poll() is None:
                await asyncio.sleep(0.02)
        self._read()
        code: int = self.process.returncode
        return code

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@asynccontextmanager
async def terminal(env: dict[str, str], *words: str, **more: Any) -> AsyncIterator[Terminal]:
    opened = Terminal(env, *words, **more)
    try:
        yield opened
    finally:
        opened.close()
