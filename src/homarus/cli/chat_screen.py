"""The chat on a terminal: a line to type on, a live tail above it, everything else in the scrollback.

The screen never blocks the agent: keys, events and printing meet in one event loop. Typing while the agent works steers
it; Esc stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from homarus.cli.chat import ChatHistory, Words, suggest
from homarus.cli.chat_view import Block, ChatView, Painter
from homarus.core.errors import HomarusError
from homarus.core.events import RunEnded, RunEvent, RunStarted
from homarus.core.text import printable, single_line

if TYPE_CHECKING:
    from homarus.runtime.library import Agent

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LEAVE = "/exit"
LEAVING = frozenset({LEAVE, "/quit", "/bye"})
_ANSWERS = {"y": "allow-once", "a": "allow-always", "n": "deny"}
_STYLE = {
    "bottom-toolbar": "noreverse dim",
    "prompt": "bold",
    "live": "",
    "doing": "italic",
    "ask": "bold",
}


class Completions(Completer):
    """The pure suggestions, as the line editor wants them."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what the text before the cursor can become."""
        del complete_event
        for found in suggest(document.text_before_cursor, self._words):
            yield Completion(found.text, start_position=-found.length, display_meta=found.note)


class Remembered(History):
    """The lines of earlier chats, as the line editor wants them."""

    def __init__(self, lines: ChatHistory) -> None:
        super().__init__()
        self._lines = lines

    def load_history_strings(self) -> Iterable[str]:
        """Return what is kept, newest first."""
        return self._lines.load()[::-1]

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield what is kept, newest first; the file is small, so nothing is done in another thread."""
        if not self._loaded:
            self._loaded_strings = list(self.load_history_strings())
            self._loaded = True
        for line in self._loaded_strings:
            yield line

    def store_string(self, string: str) -> None:
        """Keep one line."""
        self._lines.add(string)


class Screen:
    """One chat. `run` returns when the person leaves."""

    def __init__(self, agent: Agent, view: ChatView, words: Words, history: ChatHistory, *, color: bool) -> None:
        self._agent = agent
        self._view = view
        self._painter = Painter(color=color)
        self._printing: asyncio.Queue[Block] = asyncio.Queue()
        self._sending: set[asyncio.Task[None]] = set()
        self._warned = False
        self.session: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            completer=Completions(words),
            complete_while_typing=True,
            history=Remembered(history),
            key_bindings=self._keys(),
            style=Style.from_dict(_STYLE if color else {"bottom-toolbar": "noreverse"}),
            erase_when_done=True,
            refresh_interval=0.2,
            reserve_space_for_menu=6,
            enable_history_search=False,
        )
        # An Esc must not wait to see whether it begins a longer sequence.
        self.session.app.ttimeoutlen = 0.05

    async def run(self, greeting: str) -> None:
        """Talk until the person leaves."""
        unlisten = self._agent.listen(self._heard)
        leave = self._agent.client.attend(self._agent.key)
        printer = asyncio.ensure_future(self._print_all())
        self._say(Block("note", greeting))
        try:
            with patch_stdout(raw=True):
                while True:
                    try:
                        text = await self.session.prompt_async()
                    except EOFError:
                        text = LEAVE
                    except KeyboardInterrupt:
                        text = "" if self._interrupted() else LEAVE
                    if text.strip().lower() in LEAVING:
                        if await self._may_leave():
                            break
                        continue
                    self._warned = False
                    if text.strip():
                        self._submit(text)
        finally:
            leave()
            unlisten()
            for task in self._sending:
                task.cancel()
            printer.cancel()

    async def _may_leave(self) -> bool:
        """Say whether nothing is lost by leaving now; what would be cut off is named once, and then it is the person's choice."""
        working = (await self._agent.client.status(self._agent.key)).children
        if not working or self._warned:
            return True
        self._warned = True
        who = "1 sub-agent is" if working == 1 else f"{working} sub-agents are"
        self._say(Block("error", f"{who} still at work, and leaving ends that. Leave once more to go, or wait."))
        return False

    def _interrupted(self) -> bool:
        """Handle Ctrl-C on an empty line: stop what runs, else leave. Returns whether the chat goes on."""
        if not self._view.running:
            return False
        self._agent.stop()
        return True

    def _submit(self, text: str) -> None:
        self._say(Block("user", text))
        self._do(self._send(text))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, text: str) -> None:
        try:
            handled = await self._agent.send(text)
        except HomarusError as problem:
            self._say(Block("error", f"✗ {problem}"))
            return
        for reply in handled.replies:
            self._say(Block("detail", reply))
        await self._refresh()
        if handled.refused:
            self._say(Block("error", f"✗ {handled.refused}"))

    def _heard(self, event: RunEvent) -> None:
        if isinstance(event, RunStarted | RunEnded):
            self._do(self._refresh())
        for block in self._view.take(event):
            self._say(block)
        self.session.app.invalidate()

    async def _refresh(self) -> None:
        """Take up what a command or another program may have changed in the session: model, levels, what waits."""
        status, view = await self._agent.client.status(self._agent.key), self._view
        view.model, view.window, view.waiting = status.model or view.model, status.window, status.waiting
        view.reasoning, view.verbose = status.row.reasoning_level or "off", status.row.verbose_level or "off"
        view.usage = status.row.response_usage

    def _say(self, block: Block) -> None:
        self._printing.put_nowait(block)

    async def _print_all(self) -> None:
        """Print blocks above the line, in order, in as few redraws as they come."""
        while True:
            blocks = [await self._printing.get()]
            while not self._printing.empty():
                blocks.append(self._printing.get_nowait())
            width = self.session.app.output.get_size().columns
            text = "".join(self._painter.paint(block, width) for block in blocks)

            def show(text: str = text) -> None:
                print_formatted_text(ANSI(text), end="")

            await run_in_terminal(show)

    def _message(self) -> StyleAndTextTuples:
        """Return the live tail, what is going on, and the place to type at."""
        size = self.session.app.output.get_size()
        parts: StyleAndTextTuples = []
        room = max(1, min(12, size.rows // 2 - 2))
        if live := printable(self._view.live):
            lines = [line for text in live.split("\n") for line in _folded(text, size.columns - 1)]
            parts.append(("class:live", "\n".join(lines[-room:]) + "\n"))
        asked = next(iter(self._view.approvals.values()), None)
        if asked is not None:
            parts.append(("class:ask", f"allow “{single_line(asked.title, 60)}”?  y once · a always · n no\n"))
        elif self._view.running:
            elapsed = asyncio.get_running_loop().time() - self._view.started
            mark = SPINNER[int(elapsed * 8) % len(SPINNER)]
            doing = single_line(self._view.doing, max(10, size.columns - 30))
            parts.append(("class:doing", f"{mark} {doing} · {elapsed:.0f} s · esc stops\n"))
        return [*parts, ("class:prompt", "› ")]

    def _toolbar(self) -> str:
        """Return the status line: model, window, session."""
        view = self._view
        parts = [view.model or "auto"]
        if view.used:
            share = f"/{view.window:,} tok ({100 * view.used / view.window:.0f} %)" if view.window else " tok"
            parts.append(f"{view.used:,}{share}")
        parts.append(str(self._agent.key))
        if view.waiting:
            parts.append(f"{view.waiting} waiting")
        return " " + " · ".join(parts)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        running = Condition(lambda: self._view.running)
        empty = Condition(lambda: not self.session.default_buffer.text)
        asked = Condition(lambda: self._view.answerable)

        @keys.add("escape", filter=running & ~has_completions, eager=True)
        def _stop(_event: KeyPressEvent) -> None:
            self._agent.stop()

        @keys.add("c-c")
        def _interrupt(event: KeyPressEvent) -> None:
            if event.app.current_buffer.text:
                event.app.current_buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt)

        @keys.add("c-o")
        def _expand(_event: KeyPressEvent) -> None:
            self._say(self._view.expand() or Block("note", "no tool has run yet"))

        @keys.add("c-j")
        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        for letter, decision in _ANSWERS.items():
            keys.add(letter, filter=asked & empty)(self._answerer(decision))
        return keys

    def _answerer(self, decision: str) -> Callable[[KeyPressEvent], None]:
        def answer(_event: KeyPressEvent) -> None:
            approval_id, asked = self._view.answered()
            self._do(self._answer(approval_id, asked.title, decision))

        return answer

    async def _answer(self, approval_id: str, title: str, decision: str) -> None:
        try:
            await self._agent.client.answer(approval_id, decision)
            self._say(Block("note", f"{decision}: {title}"))
        except HomarusError as problem:
            self._say(Block("error", f"✗ {problem}"))


def _folded(line: str, width: int) -> list[str]:
    """Cut a line to the width of the terminal; good enough for a tail that is printed properly a moment later."""
    width = max(10, width)
    return [line[at : at + width] for at in range(0, len(line), width)] or [""]
