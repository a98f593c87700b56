"""The chat on a terminal: a line to type on, a live tail above it, everything else in the scrollback.

The screen never blocks the agent: keys, events and printing meet in one event loop. Typing while the agent works steers
it; Esc stops it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace
from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, is_searching, to_filter
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from homarus.cli.agent import attach
from homarus.cli.chat_input import (
    LEAVE,
    LEAVING,
    SESSIONS,
    ChatHistory,
    Words,
    clipboard_picture,
    dropped,
    keep_picture,
    may_complete,
    missing,
    named,
    referenced,
    typeable,
)
from homarus.cli.chat_line import Completions, Remembered
from homarus.cli.chat_paint import Painter
from homarus.cli.chat_picker import MAX_READ, PutAway, pick
from homarus.cli.chat_terminal import draw_anew, suspend, wiping
from homarus.cli.chat_view import Block, ChatView, past, said_by_user
from homarus.cli.output import wrapped
from homarus.core.cancel import FORGETTING
from homarus.core.errors import HomarusError
from homarus.core.events import ApprovalAsked, Notice, RunEnded, RunEvent, RunStarted, UserAccepted
from homarus.core.messages import Message, User
from homarus.core.routes import SessionKey
from homarus.core.text import human_bytes, printable, single_line
from homarus.queue.collect import message_id
from homarus.runtime.client import RunOptions, SessionStatus

if TYPE_CHECKING:
    from homarus.runtime.library import Agent

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FOLLOWING = "another terminal has this session open: what is said there shows here, what you write is answered there"
PATIENCE_SECONDS = 0.7  # after which something that was sent counts as going on
KEPT_BLOCKS = 200  # for drawing the screen anew
_ANSWERS = {"y": "allow-once", "a": "allow-always", "n": "deny"}
_STYLE = {
    "bottom-toolbar": "noreverse dim",
    "prompt": "bold",
    "live": "",
    "doing": "italic",
    "ask": "bold",
}


class Seat(Struct):
    """What a person has left in a session: what no turn has taken yet, and what they were asked.

    What was typed goes by the id of its message, and is empty while that is on its way: a turn may take it before we hear
    that it arrived.
    """

    typed: dict[str, str] = {}
    asked: dict[str, ApprovalAsked] = {}


class Screen:
    """One chat. `run` returns when the person leaves."""

    def __init__(
        self,
        agent: Agent,
        view: ChatView,
        words: Words,
        history: ChatHistory,
        painter: Painter,
        options: RunOptions | None = None,
    ) -> None:
        self._agent = agent
        self._options = replace(options or RunOptions(), own_commands=named(LEAVING | SESSIONS))
        self._view = view
        self._words = words
        self._painter = painter
        self._printing: asyncio.Queue[Block | None] = asyncio.Queue()
        self._printed: deque[Block] = deque(maxlen=KEPT_BLOCKS)
        self._pasted = history.path.parent / "pasted"
        self._sending: dict[asyncio.Task[object], tuple[SessionKey, float]] = {}  # where, and since when
        self._seats: dict[SessionKey, Seat] = {}
        self._following: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] | None = None
        self._unlisten: Callable[[], None] | None = None
        self._warned = False
        self.away: PutAway | None = None
        self.ready: Callable[[], None] = lambda: None  # called when there is something to show
        color = painter.color
        self.session: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            completer=Completions(words),
            # Room for a list is kept only where one may open, so that the status line stands right under what is typed.
            complete_while_typing=Condition(self._may_complete),
            history=Remembered(history),
            search_ignore_case=True,
            key_bindings=self._keys(),
            style=Style.from_dict(_STYLE if color else {"bottom-toolbar": "noreverse"}),
            erase_when_done=True,
            refresh_interval=0.2,
            reserve_space_for_menu=6,
            enable_history_search=False,
        )
        line = next(
            w for w in self.session.layout.find_all_windows() if w.content is self.session.layout.current_control
        )
        line.dont_extend_height = to_filter(True)
        # An Esc must not wait to see whether it begins a longer sequence.
        self.session.app.ttimeoutlen = 0.05
        wiping(self.session.app)

    def _may_complete(self) -> bool:
        return may_complete(self.session.default_buffer.document.text_before_cursor)

    async def run(self) -> None:
        """Talk until the person leaves."""
        printer = asyncio.ensure_future(self._print_all())
        try:
            with patch_stdout(raw=True):
                await self._enter(self._agent)
                while True:
                    try:
                        text = typeable(await self.session.prompt_async())
                    except EOFError:
                        text = LEAVE
                    except KeyboardInterrupt:
                        text = "" if self._interrupted() else LEAVE
                    word = text.strip().lower()
                    if word in LEAVING:
                        if await self._may_leave():
                            break
                    elif word in SESSIONS:
                        await self._choose()
                    elif text.strip():
                        self._warned = False
                        self._submit(text)
        finally:
            self._exit()
            for task in list(self._sending):
                task.cancel()
            printer.cancel()

    async def _enter(self, agent: Agent) -> None:
        """Take a seat in a session: hear what happens, show what was said last, and go on from there."""
        self._agent, view, client = agent, self._view, agent.client
        view.enter(self._seat.asked)
        self._unlisten = agent.listen(self._heard)
        self._leave = client.attend(agent.key)
        said = await client.history(agent.key, MAX_READ)
        for message in said:
            self._heard_by_a_turn(message)
        view.model = ""
        status = await self._refresh()
        view.join(status.running)
        self.ready()
        for block in past(said):
            self._say(block)
        begun = f"{status.messages} messages so far, /new starts over" if status.messages else "a new session"
        who = " · ".join(filter(None, (agent.key.agent_id, view.label)))
        self._say(Block("note", f"🦞 {who} · {begun} · /help · /sessions · Ctrl-D leaves"))
        self._follow()
        await self._printing.join()  # before the line is there: it need not be drawn over

    @property
    def _seat(self) -> Seat:
        return self._seats.setdefault(self._agent.key, Seat())

    def _heard_by_a_turn(self, message: Message) -> None:
        for key in message.keys if isinstance(message, User) else ():
            self._seat.typed.pop(message_id(key), None)

    def _exit(self) -> None:
        for leave in (self._leave, self._unlisten):
            if leave is not None:
                leave()
        if self._following is not None:
            self._following.cancel()
        self._leave = self._unlisten = self._following = None

    def _follow(self) -> None:
        """Follow a session that another process has open; it is told once. A session that is free becomes ours."""
        if self._following is None or self._following.done():
            if self._agent.client.is_elsewhere(self._agent.key):
                self._say(Block("note", FOLLOWING))
            self._following = asyncio.ensure_future(self._followed())

    async def _followed(self) -> None:
        try:
            await self._agent.client.follow(self._agent.key)
        except HomarusError as problem:
            self._say(Block("error", f"✗ {problem}"))

    @property
    def _elsewhere(self) -> bool:
        return self._following is not None and not self._following.done()

    async def _choose(self) -> None:
        """Go on with another session."""
        chosen = await pick(self._agent, self.away, color=self._painter.color, here=True)
        if chosen is None:
            self._say(Block("note", "there is no other session yet; homarus chat --session NAME starts one"))
        if not chosen:
            return
        if self._view.running:
            self._say(Block("note", f"what runs in {self._agent.key} goes on; its answer will be there"))
        self._exit()
        before = self._agent
        try:
            await self._enter(before.session(chosen))
        except HomarusError as problem:
            self._exit()
            self._say(Block("error", f"✗ {problem}"))
            await self._enter(before)

    async def _may_leave(self) -> bool:
        """Say whether nothing is lost by leaving now; what would be cut off is named once, and then it is the person's choice."""
        working = (await self._agent.client.status(self._agent.key)).children
        if not working or self._warned or self._elsewhere:
            return True
        self._warned = True
        who = "1 sub-agent is" if working == 1 else f"{working} sub-agents are"
        self._say(Block("error", f"{who} still at work, and leaving ends that. Leave once more to go, or wait."))
        return False

    def _interrupted(self) -> bool:
        """Handle Ctrl-C on an empty line: stop what runs, else leave. Returns whether the chat goes on."""
        if not self._busy:
            return False
        self._stop()
        return True

    def _stop(self) -> None:
        """End the turn. What was said to it and not heard goes back into the line, to be changed or sent again."""
        if self._elsewhere or not self._view.running:
            self._do(self._send("/stop"))
        else:
            self._agent.stop()

    def _give_back(self, text: str) -> None:
        buffer = self.session.default_buffer
        if text:
            buffer.text = f"{text}\n{buffer.text}" if buffer.text else text
            buffer.cursor_position = len(buffer.text)

    def _unheard(self, idents: Sequence[str]) -> None:
        """Give back what was typed and forgotten before any turn took it."""
        typed = self._seat.typed
        self._give_back("\n".join(typed.pop(ident) for ident in idents if typed.get(ident)))

    def _submit(self, text: str) -> None:
        self._say(said_by_user(text))
        self._do(self._send(text))

    def _do(self, work: Coroutine[Any, Any, object]) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(work)
        self._sending[task] = self._agent.key, asyncio.get_running_loop().time()
        task.add_done_callback(lambda done: self._sending.pop(done, None))

    async def _send(self, text: str) -> None:
        agent, typed, ident = self._agent, self._seat.typed, str(uuid4())
        typed[ident] = ""
        if self._view.own is not None:
            self._view.own.add(ident)
        try:
            files = referenced(text, self._words)
            said = attach(text, files)
            for path in files:
                self._say(Block("note", f"↑ {path} ({_size_of(path)})"))
            for name in missing(text, self._words):
                self._say(Block("note", f"there is no file {name} here, so only its name is sent"))
            options = replace(self._options, images=said.images, attached=said.files, message_id=ident)
            handled = await agent.send(said.words, options=options)
        except HomarusError as problem:
            typed.pop(ident, None)
            self._say(Block("error", f"✗ {problem}"))
            self._give_back("" if text.startswith("/") else text)
            return
        if typed.pop(ident, None) is not None and handled.item is not None:
            typed[ident] = text
        if agent.client.is_elsewhere(agent.key):
            self._follow()
        for reply in handled.replies:
            self._say(Block("detail", reply))
        await self._refresh()
        if handled.refused:
            self._say(Block("error", f"✗ {handled.refused}"))
            self._give_back(text)

    def _heard(self, event: RunEvent) -> None:
        if isinstance(event, RunStarted | RunEnded | Notice):  # a notice tells of a session that starts over, too
            self._do(self._refresh())
        if isinstance(event, UserAccepted):
            self._heard_by_a_turn(event.message)
        if isinstance(event, RunEnded) and event.status == "aborted" and event.error in FORGETTING:
            # What no turn has taken by now was forgotten with it, in whichever terminal it was ended.
            self._unheard(tuple(self._seat.typed))
        for block in self._view.take(event):
            self._say(block)
        self.session.app.invalidate()

    async def _refresh(self) -> SessionStatus:
        """Take up what a command or another program may have changed: model, levels, what waits."""
        agent, view = self._agent, self._view
        before = tuple(ident for ident, text in self._seat.typed.items() if text)
        status = await agent.client.status(agent.key)
        if agent is not self._agent:
            return status  # they have gone on with another session meanwhile
        if before and not (status.busy or status.waiting or self._elsewhere or agent.client.is_elsewhere(agent.key)):
            # What was said before, and in no turn, when nothing is left to do: it was forgotten while none ran.
            self._unheard(before)
        view.model, view.window, view.waiting = status.model or view.model, status.window, status.waiting
        view.used, view.cost = status.used, status.cost
        view.reasoning, view.verbose = status.row.reasoning_level or "off", status.row.verbose_level or "off"
        view.usage, view.label = status.row.response_usage, status.row.label or ""
        return status

    def _say(self, block: Block) -> None:
        self._printing.put_nowait(block)

    async def _print_all(self) -> None:
        """Print blocks above the line, in order, in as few redraws as they come; None draws the screen anew."""
        while True:
            blocks = [await self._printing.get()]
            while not self._printing.empty():
                blocks.append(self._printing.get_nowait())
            if new := [block for block in blocks if block is not None]:
                self._printed.extend(new)
                columns = self.session.app.output.get_size().columns
                text = "".join(self._painter.paint(block, columns) for block in new)
                await run_in_terminal(partial(print_formatted_text, ANSI(text), end=""))
            if None in blocks:
                await draw_anew(self.session.app, self._last)
            for _ in blocks:
                self._printing.task_done()

    def _last(self, rows: int, columns: int) -> list[str]:
        """Return the newest lines that fit into so many rows, in the present width."""
        lines: list[str] = []
        for block in reversed(self._printed):
            if len(lines) >= rows:
                break
            lines[:0] = self._painter.paint(block, columns).split("\n")[:-1]
        return lines[max(0, len(lines) - rows) :]

    def _message(self) -> StyleAndTextTuples:
        """Return the live tail, what is going on, and the place to type at."""
        size = self.session.app.output.get_size()
        parts: StyleAndTextTuples = []
        room = max(1, min(12, size.rows // 2 - 2))
        if live := printable(self._view.live[-(room + 1) * size.columns :]):
            lines = [line for text in live.split("\n") for line in wrapped(text, size.columns - 1)]
            parts.append(("class:live", "\n".join(lines[-room:]) + "\n"))
        asked = next(iter(self._view.approvals.values()), None)
        if asked is not None:
            always = " · a always" if asked.lasting else ""
            parts.append(("class:ask", f"allow “{single_line(asked.title, 60)}”?  y once{always} · n no\n"))
        elif self._busy:
            running = self._view.running
            elapsed = asyncio.get_running_loop().time() - (self._view.started if running else self._waiting_since)
            mark = SPINNER[int(elapsed * 8) % len(SPINNER)]
            doing = single_line(self._view.doing if running else "working", max(10, size.columns - 30))
            parts.append(("class:doing", f"{mark} {doing} · {elapsed:.0f} s · esc stops\n"))
        return [*parts, ("class:prompt", "› ")]

    @property
    def _waiting_since(self) -> float:
        # When the oldest thing was sent here that has not come back, such as a compaction.
        here = [since for session, since in self._sending.values() if session == self._agent.key]
        return min(here, default=asyncio.get_running_loop().time())

    @property
    def _busy(self) -> bool:
        return self._view.running or asyncio.get_running_loop().time() - self._waiting_since > PATIENCE_SECONDS

    def _toolbar(self) -> str:
        view = self._view
        parts = [view.model or "auto"]
        if view.used:
            share = f"/{view.window:,} tok ({100 * view.used / view.window:.0f} %)" if view.window else " tok"
            parts.append(f"{view.used:,}{share}")
        if view.cost:
            parts.append(f"${view.cost:.4f}" if view.cost < 1 else f"${view.cost:.2f}")
        parts.append(view.label or str(self._agent.key))
        if view.waiting:
            parts.append(f"{view.waiting} waiting")
        if self._elsewhere:
            parts.append("following another terminal")
        return " " + single_line(" · ".join(parts), max(20, self.session.app.output.get_size().columns - 2))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        running = Condition(lambda: self._busy)
        empty = Condition(lambda: not self.session.default_buffer.text)
        asked = Condition(lambda: self._view.answerable)

        @keys.add("escape", filter=running & ~has_completions & ~is_searching, eager=True)
        def _stop(_event: KeyPressEvent) -> None:
            self._stop()

        @keys.add("c-c", filter=~is_searching)
        def _interrupt(event: KeyPressEvent) -> None:
            if event.app.current_buffer.text:
                event.app.current_buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt)

        @keys.add("c-o")
        def _expand(_event: KeyPressEvent) -> None:
            self._say(self._view.expand() or Block("note", "no tool has run yet"))

        @keys.add("c-l")
        def _anew(_event: KeyPressEvent) -> None:
            self._printing.put_nowait(None)

        @keys.add("c-z")
        def _suspend(_event: KeyPressEvent) -> None:
            run_in_terminal(suspend)

        @keys.add(Keys.BracketedPaste)
        def _paste(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(dropped(event.data, self._words))

        @keys.add("c-v")
        def _picture(event: KeyPressEvent) -> None:
            self._do(self._paste_picture(event.current_buffer))

        @keys.add("c-j")
        @keys.add("escape", "enter")
        def _newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        for letter, decision in _ANSWERS.items():
            keys.add(letter, filter=asked & empty)(self._answerer(decision))
        return keys

    async def _paste_picture(self, buffer: Buffer) -> None:
        data = await clipboard_picture()
        if not data:
            self._say(
                Block("note", "there is no picture on the clipboard, or no wl-paste, xclip or pngpaste to ask for it")
            )
            return
        try:
            path = keep_picture(self._pasted, time.strftime("%Y%m%d-%H%M%S"), data)
        except HomarusError as problem:
            self._say(Block("error", f"✗ {problem}"))
            return
        buffer.insert_text(dropped(f"'{path}'", self._words))

    def _answerer(self, decision: str) -> Callable[[KeyPressEvent], None]:
        def answer(_event: KeyPressEvent) -> None:
            if decision == "allow-always" and not next(iter(self._view.approvals.values())).lasting:
                self._say(Block("note", "this can be allowed once only: y or n"))
                return
            approval_id, asked = self._view.answered()
            self._do(self._answer(approval_id, asked.title, decision))

        return answer

    async def _answer(self, approval_id: str, title: str, decision: str) -> None:
        try:
            await self._agent.client.answer(approval_id, decision)
            self._say(Block("note", f"{decision}: {title}"))
        except HomarusError as problem:
            self._say(Block("error", f"✗ {problem}"))


def _size_of(path: Path) -> str:
    return "folder" if path.is_dir() else human_bytes(path.stat().st_size)
