"""One answer as it is made, for a person at a terminal: Markdown on standard output, everything else on standard error.

What is going on is a line that is drawn over; questions are asked where a person can answer them. Where the answer goes into
a file or to a program, only the rest is shown.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from homarus.cli.app import App
from homarus.cli.chat_paint import Painter, is_light
from homarus.cli.chat_view import ChatView
from homarus.cli.lines import Lines
from homarus.core.errors import HomarusError
from homarus.core.events import ApprovalAsked, Notice, RunEnded, RunEvent
from homarus.core.text import printable, single_line
from homarus.runtime.reply import REPLY

if TYPE_CHECKING:
    from homarus.runtime.library import Agent
    from homarus.sessions.row import SessionEntry

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_SECONDS = 0.2
# Whole words: a line that begins like one was perhaps meant for something else.
_ANSWERS = {"y": "allow-once", "yes": "allow-once", "a": "allow-always", "always": "allow-always"}


def _find_keyboard() -> TextIO | None:
    """Return where a person types: on standard input, or at the terminal behind it where something is piped in.

    None where there is no terminal, and behind a pipe in the background, where the shell has the keyboard.
    """
    if sys.stdin.isatty():
        return sys.stdin
    try:
        terminal = Path("/dev/tty").open(encoding="utf-8")  # noqa: SIM115 - `LiveAnswer` closes it
        if os.tcgetpgrp(terminal.fileno()) == os.getpgrp():
            return terminal
        terminal.close()
    except OSError:
        pass
    return None


class LiveAnswer:
    """Shows one message's events to a person. The line about what is going on is gone when this ends.

    Without `answer` that is for somebody else to show: through `write`, or while this is `aside`.
    """

    def __init__(
        self, app: App, agent: Agent, row: SessionEntry, *, answer: bool = True, typed: Lines | None = None
    ) -> None:
        """Questions are answered at the keyboard. Where somebody reads lines from it already, these are `typed`."""
        self._app = app
        self._answer = answer
        self._begun = time.monotonic()
        self._agent = agent
        self._view = ChatView(
            time.monotonic, reasoning=row.reasoning_level or "off", verbose=row.verbose_level or "off"
        )
        self._view.usage = row.response_usage if answer else None
        self._painter = Painter(color=app.out.color, light=is_light(app.env))
        self._ticking: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._drawn = False
        self._within = False  # a line on the terminal that is not ended
        # A question that nobody sees is none.
        self._keyboard = _find_keyboard() if app.out.err.isatty() else None
        self._typed = Lines(self._keyboard) if self._keyboard is not None else None
        if typed is not None and self._keyboard is sys.stdin:
            self._typed = typed
        self._leave = agent.client.attend(agent.key) if self._typed is not None else None
        self._one_question = asyncio.Lock()

    def __enter__(self) -> Self:
        self._ticking = asyncio.ensure_future(self._tick()) if self._app.out.err.isatty() else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in (self._ticking, *self._asking):
            if task is not None:
                task.cancel()
        if self._leave is not None:
            self._leave()
        if self._keyboard is not None and self._keyboard is not sys.stdin:
            self._keyboard.close()
        self._wipe()
        if self._within:
            self._put(self._app.out.err, "\n")

    def write(self, text: str) -> int:
        """Write a piece of the answer to standard output; it may end in the middle of a line."""
        self._put(self._app.out.out, text)
        return len(text)

    def flush(self) -> None:
        self._app.out.out.flush()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let somebody else write whole lines; what is going on stands under them again, without waiting for the next tick."""
        drawn = self._drawn
        self._wipe()
        yield
        if drawn:
            self._draw()

    def take(self, event: RunEvent) -> None:
        if isinstance(event, Notice) and event.kind == REPLY:
            if self._answer:
                with self.aside():
                    self._app.out.line(event.text)
            return
        for block in self._view.take(event):
            if isinstance(event, RunEnded) and block.kind == "error":
                continue  # said once more, without colours, where scripts look for it
            if block.kind == "markdown" and not self._answer:
                continue
            out = self._app.out.out if block.kind == "markdown" else self._app.out.err
            end = "\n" if self._within and out.isatty() else ""
            self._put(out, end + self._painter.paint(block, self._width))
        if isinstance(event, ApprovalAsked) and self._typed is not None:
            task = asyncio.ensure_future(self._ask(event, self._typed))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    @property
    def _width(self) -> int:
        return shutil.get_terminal_size().columns

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._draw()

    def _draw(self) -> None:
        if self._asking or self._within:
            return
        view = self._view
        elapsed = time.monotonic() - (view.started if view.running else self._begun)
        mark = SPINNER[int(elapsed * 8) % len(SPINNER)]
        doing = single_line(printable(view.doing if view.running else "working"), max(10, self._width - 30))
        self._app.out.err.write(f"\r\x1b[K{mark} {doing} · {elapsed:.0f} s · Ctrl-C stops")
        self._app.out.err.flush()
        self._drawn = True

    def _wipe(self) -> None:
        if self._drawn:
            self._app.out.err.write("\r\x1b[K")
            self._app.out.err.flush()
            self._drawn = False

    def _put(self, out: TextIO, text: str) -> None:
        with self.aside():
            out.write(text)
            out.flush()
            if out.isatty():
                self._within = not text.endswith("\n")

    async def _ask(self, asked: ApprovalAsked, typed: Lines) -> None:
        """Ask on the terminal, one question after the other; the turn can still be stopped meanwhile."""
        async with self._one_question:
            with typed.anew():
                decision = await self._decision(typed, lasting=asked.lasting)
        try:
            self._put(self._app.out.err, f"{await self._agent.client.answer(asked.approval_id, decision)}\n")
        except HomarusError as problem:
            with self.aside():
                self._app.out.problem(str(problem))

    async def _decision(self, typed: Lines, *, lasting: bool) -> str:
        while True:
            self._put(self._app.out.err, f"allow?  y once{' · a always' if lasting else ''} · n no: ")
            line = await typed.next()
            self._within = self._within and not line.endswith("\n")  # what is typed is shown, Enter included
            decision = _ANSWERS.get(line.strip().lower(), "deny")
            if lasting or decision != "allow-always":
                return decision
            self._put(self._app.out.err, "this can be allowed once only\n")
