"""The words of one turn on their way to the chat that asked: the only writer there while the turn lasts.

Everything goes through the outbox under a name that the transcript gives it, so a turn that is taken up after a crash
says what is missing and nothing twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from homarus.agent.outcome import Outcome, Status
from homarus.core.cancel import CLOSED
from homarus.core.errors import HomarusError, StorageError
from homarus.core.events import (
    MessageEnded,
    ModelCalled,
    Notice,
    RunEnded,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    UserAccepted,
)
from homarus.core.messages import Assistant, Outbound, Thinking, Trust
from homarus.core.redact import redacted
from homarus.core.routes import Route
from homarus.core.text import single_line
from homarus.delivery.blocks import Block, BlockStream
from homarus.delivery.markup import Directives
from homarus.delivery.preview import Preview
from homarus.delivery.settings import Mode, StreamingSettings
from homarus.queue.collect import Batch
from homarus.runtime.chat_settings import Manner
from homarus.runtime.owed import PIECE, Answer, answer_in, rest_of, sent_text, shown_of
from homarus.runtime.reply import footer
from homarus.sessions.entry import MessageEntry
from homarus.sessions.writer import SessionWriter

_log = logging.getLogger(__name__)
OUTPUT_CHARS, ARGUMENT_CHARS, ERROR_CHARS = 600, 160, 600
INTERRUPTED = "⚠️ The program was stopped while it worked on this, and could not go on. Please say it again."


class Mail(Protocol):
    """What a speech needs of whoever sends."""

    def post(
        self, message: Outbound, *, pause: float = 0.0, preview: Preview | None = None, reply: bool = False
    ) -> bool:
        """Make a message durable and bring it on its way; False where it was known. A preview becomes the message."""
        ...

    def preview(self, message: Outbound, mode: Mode, settings: StreamingSettings) -> Preview | None:
        """Return what shows a message while it is written; None where that cannot be."""
        ...

    def discard(self, preview: Preview) -> None:
        """Take a preview away of which no message came."""
        ...

    def attach(self, agent_id: str, path: str, readers: Trust) -> Path:
        """Return a copy of a file that the agent may send to these readers. Raises HomarusError."""
        ...

    def stirs(self, route: Route, kind: str) -> None:
        """A model begins to think (`thinking`) or to write (`message`)."""
        ...


class Speech:
    """One turn's words. It begins where the log says that an earlier process stopped."""

    def __init__(self, mail: Mail, batch: Batch, manner: Manner, session: SessionWriter) -> None:
        newest = batch.newest
        assert newest is not None, "a turn that nobody asked for has no chat"
        self._mail, self._manner, self._session, self._keys = mail, manner, session, batch.keys
        self._route, self._asked = newest.route, newest.inbound.id
        # Who gets the files: in a chat of several people nobody counts for more than a guest.
        self._readers = batch.trust if newest.inbound.chat_type == "direct" else Trust.GROUP
        begun = any(session.knows(key) for key in self._keys)
        self._found = (answer_in(session.branch, self._keys) if begun else None) or Answer("")
        self._anchor, self._sent = self._found.anchor, list(self._found.sent)
        self._number = 0  # of the model's message that is being said
        self._pieces: list[str] = []  # what was posted of it
        self._calls: dict[str, str] = {}
        self._posted = 0
        self._stirred, self._thought = "", ""
        self._blocks: BlockStream | None = None
        self._preview: Preview | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failed: list[Outbound] = []
        # Called when the turn is over, however it ended.
        self.over: Callable[[], None] = lambda: None

    def catch_up(self) -> Answer:
        """Post what the log holds of the answer, as far as it is not known; return the answer as the log has it."""
        for said in (*self._found.said, None):
            self._pieces = []
            for text in said.pieces if said is not None else self._found.pieces:
                self._block(text)
            if said is not None:
                self._say(said.message)
                self._number += 1
        return self._found

    @property
    def shown(self) -> str:
        """Return the words of an unfinished message that the chat has seen: the turn that goes on is told of them."""
        return "\n\n".join(self._pieces)

    def take(self, event: RunEvent) -> None:
        if self._preview is not None:
            self._preview.take(event)
        match event:
            case UserAccepted() if not self._anchor:
                entries = (entry for entry in reversed(self._session.branch) if isinstance(entry, MessageEntry))
                self._anchor = next((entry.id for entry in entries if set(entry.keys) & set(self._keys)), "")
            case ThinkingDelta():
                self._stir("thinking")
                self._think(event.text)
            case ModelCalled():
                self._thought = ""
                # What was shown of an answer that broke off is compared with the whole of the next one.
                fresh = self._manner.blocks.enabled and not self._manner.muted and not self._pieces
                self._blocks = BlockStream(self._manner.blocks, self._manner.place, self._early) if fresh else None
                self._begin_preview()
            case TextDelta():
                self._stir("message")
                if self._blocks is not None:
                    self._blocks.take(event)
                    self._tick_later()
                    self._follow(self._blocks.waiting)
            case MessageEnded():
                self._message(event.message)
            case ToolStarted():
                self._tool_started(event)
            case ToolEnded():
                self._tool_ended(event)
            case Notice(kind="reply"):
                self._post(f"note.{hashlib.sha256(event.text.encode()).hexdigest()[:12]}", event.text)
            case RunEnded():
                if line := footer(self._manner.usage, event):
                    self._post("usage", line)
            case _:
                pass

    def end(self, outcome: Outcome) -> None:
        """Say how the turn ended where its chat would wait otherwise. Raises StorageError where something is not durable."""
        self._blocks = None
        if outcome.status is Status.ABORTED:
            if outcome.error == CLOSED:
                self._post("end", INTERRUPTED)
        elif outcome.status is not Status.OK:
            self._post("end", f"⚠️ {single_line(redacted(outcome.error), ERROR_CHARS) or 'the turn failed'}")
        again, self._failed = self._failed, []
        for message in again:
            self._mail.post(message, reply=True)

    def close(self) -> None:
        self._blocks = None
        if self._preview is not None:
            self._mail.discard(self._preview)
            self._preview = None
        self._tick_later()
        self.over()

    def interrupted(self) -> None:
        """Say that a turn was cut off for good."""
        self._post("end", INTERRUPTED)

    # The model's own words.

    def _message(self, message: Assistant) -> None:
        """Say what of a message that is in the transcript was not said while it arrived."""
        if self._manner.reasoning == "on" and not self._manner.muted and not self._pieces:
            thought = "\n".join(part.text for part in message.parts if isinstance(part, Thinking) and part.text)
            if thought.strip():
                self._post(f"thought.{self._number}", f"💭 {thought.strip()}")
        self._blocks = None  # now that the message is in the log, what is left of it goes out at once
        self._say(message)
        self._number += 1
        self._pieces = []

    def _say(self, message: Assistant) -> None:
        visible = shown_of(message, self._sent)
        text, files = rest_of(visible.text, self._pieces) if visible.text else "", dict[int, str]()
        for number, path in enumerate(visible.directives.media):
            try:
                if not path.startswith(("http://", "https://")):
                    files[number] = str(self._mail.attach(self._route.agent_id, path, self._readers))
                elif path not in "".join(self._pieces):
                    text += f"\n\n{path}"
            except HomarusError as problem:
                text += f"\n\n⚠️ {single_line(str(problem), 200)}" if not self._pieces else ""
        if text.strip():
            self._block(text.strip(), visible.directives)
        for number, file in files.items():
            self._post(f"file.{self._number}.{number}", "", visible.directives, file=file)

    def _block(self, text: str, directives: Directives | None = None, *, pause: float = 0.0) -> None:
        """Post one piece of the message that is being said."""
        name = f"{self._number}.{len(self._pieces)}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        self._pieces.append(text)
        prefix = f"{self._manner.prefix} " if self._manner.prefix and not self._posted else ""
        self._posted += 1
        self._post(name, prefix + text, directives, pause=pause)

    def _begin_preview(self, *, thinks: bool = False) -> None:
        # Where only thoughts are shown, the words are not: they take the place of the thoughts when they are whole.
        mode: Mode = "progress" if thinks and self._manner.preview == "off" else self._manner.preview
        if mode == "off" or self._preview is not None or self._manner.muted:
            return
        message = self._outbound(f"preview.{self._number}.{len(self._pieces)}", "", Directives())
        self._preview = self._mail.preview(message, mode, self._manner.streaming)

    def _think(self, text: str) -> None:
        """Show a thought while it is thought; the answer takes its place."""
        if self._manner.reasoning != "stream":
            return
        self._thought += text
        self._begin_preview(thinks=True)
        if self._preview is not None:
            self._preview.think(self._thought)

    def _follow(self, waiting: str) -> None:
        """Show what belongs to no block yet: a preview that became a block is followed by another."""
        if self._manner.preview == "block" and waiting.strip():
            self._begin_preview()
            if self._preview is not None:
                self._preview.update(waiting)

    def _early(self, block: Block) -> None:
        """Post a piece of a message that is not in the log yet: then the log must know of the piece."""
        if block.text.strip():
            # Not synced: the name of a piece tells its text, so one that a power cut took out of the log does no harm.
            self._session.append("custom", {"customType": PIECE, "data": {"text": block.text}}, durable=False)
            self._block(block.text, block.directives, pause=block.pause)

    def _stir(self, kind: str) -> None:
        if self._stirred != kind:
            self._stirred = kind
            self._mail.stirs(self._route, kind)

    def _tick_later(self) -> None:
        """Look again when the blocks want it: words that stand still go out although the message is not over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._blocks is not None and (due := self._blocks.next_due()) is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._tick)

    def _tick(self) -> None:
        if self._blocks is not None:
            self._blocks.tick()
        self._tick_later()

    # What else there is to see.

    def _tool_started(self, event: ToolStarted) -> None:
        if text := sent_text(event.name, event.arguments):
            self._calls[event.call_id] = text
        if self._manner.verbose in {"on", "full"}:
            about = next((str(value) for value in event.arguments.values() if isinstance(value, str | int)), "")
            line = f"🔧 {event.name}" + (f": {single_line(redacted(about), ARGUMENT_CHARS)}" if about else "")
            self._post(f"call.{event.call_id}", line)

    def _tool_ended(self, event: ToolEnded) -> None:
        result = event.result
        text = self._calls.pop(result.call_id, "")
        if text and not result.is_error:
            self._sent.append(text)
        if self._manner.verbose == "full" and result.text.strip():
            shown = redacted(result.text.strip())
            shown = shown if len(shown) <= OUTPUT_CHARS else f"{shown[:OUTPUT_CHARS]}\n…"
            self._post(f"result.{result.call_id}", f"```\n{shown.replace('```', '` ` `')}\n```")

    def _name(self, name: str) -> str:
        return f"{self._session.session_id}.{self._anchor}.{name}"

    def _post(
        self, name: str, text: str, directives: Directives | None = None, *, file: str = "", pause: float = 0.0
    ) -> None:
        if self._manner.muted:
            return
        message = self._outbound(name, text, directives or Directives(), file)
        # A preview becomes the answer; a note beside it leaves it alone.
        preview, said = None, name.startswith(f"{self._number}.")
        if said and not file:
            preview, self._preview = self._preview, None
        try:
            self._mail.post(message, pause=pause, preview=preview, reply=True)
        except StorageError as problem:  # a full disk: the turn goes on, and it is tried once more at its end
            _log.error("words for %s are not durable yet: %s", message.channel, problem)
            self._failed.append(message)

    def _outbound(self, name: str, text: str, asked: Directives, file: str = "") -> Outbound:
        route = self._route
        return Outbound(
            id=self._name(name),
            channel=route.channel,
            to=route.to,
            text=text,
            account=route.account,
            thread=route.thread,
            reply_to=self._reply_to(asked),
            media=(file,) if file else (),
            as_voice=asked.as_voice and bool(file),
        )

    def _reply_to(self, asked: Directives) -> str:
        if asked.reply_to:
            return asked.reply_to
        mode = self._manner.reply_mode
        return self._asked if asked.reply_to_current or mode == "all" or (mode == "first" and self._posted <= 1) else ""
