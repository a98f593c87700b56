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

PATIENCE_SECONDS = 40.0  # for a machine that has other things to do; a test that passes needs little of it


class Answering(pyte.HistoryScreen):
    """A terminal answers what programs ask of it: where the cursor is, what it can do."""

    def __init__(self, columns: int, lines: int, answer: Any) -> None:
        super().__init__(columns, lines, history=2_000, ratio=0.5)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Terminal:
    """`homarus` with these words in a terminal of this size."""

    def __init__(
        self,
        env: dict[str, str],
        *words: str,
        size: tuple[int, int] = (80, 24),
        cwd: Path | None = None,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self._screen = Answering(*size, self.type)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._set_size(*size)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "homarus", *words],
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
            "".join(row[column].data for column in range(self._screen.columns)).rstrip()
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
