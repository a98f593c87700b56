"""What happens in sessions, for our own page: every line with its id, and what of the next line is there already.

A page that lost its connection asks for the lines after the last one it has and goes on: nothing is lost, and a line that
comes twice is known by its id. Words that are still being said have a place, so that hearing them twice changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from homarus.core.events import (
    ChildEnded,
    ChildStarted,
    CompactionEnded,
    CompactionStarted,
    MessageEnded,
    ModelCalled,
    Notice,
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UserAccepted,
)
from homarus.core.messages import Assistant, Image, Part, Thinking, ToolResult, User
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.delivery.stream import StreamFilter
from homarus.gateway.protocol import where
from homarus.gateway.runs import CHANNEL
from homarus.sessions.codec import from_message
from homarus.sessions.entry import RUNTIME_CONTEXT, Compaction, CustomMessage, Entry, MessageEntry, Reset

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

Json = dict[str, Any]
EVENT = "page.event"
COALESCE_SECONDS = 0.04
MAX_TEXT, MAX_PICTURE = 200_000, 4_000_000
MAX_SESSIONS = 1_000  # of which it is known how far they were told; a page that looks at a forgotten one reads it anew
_OWN = f"{CHANNEL}:default:"
_log = logging.getLogger(__name__)


def lines_of(entries: Iterable[Entry]) -> list[Json]:
    """Return what the page shows of a branch, oldest first."""
    found: list[Json] = []
    for entry in entries:
        if isinstance(entry, CustomMessage) and entry.custom_type == RUNTIME_CONTEXT:
            if found and found[-1]["role"] == "user" and entry.message is not None:
                found[-1]["context"] = entry.message.text[:MAX_TEXT]
        elif isinstance(entry, MessageEntry) and entry.message is not None:
            found.append(line_of(entry))
        elif isinstance(entry, Compaction):
            found.append({"id": entry.id, "role": "summary", "text": entry.summary, "time": entry.time})
        elif isinstance(entry, Reset):
            found.append({"id": entry.id, "role": "reset", "text": "", "time": entry.time})
    return found


def line_of(entry: MessageEntry) -> Json:
    message = entry.message
    assert message is not None
    head: Json = {"id": entry.id, "time": message.timestamp or entry.time}
    if isinstance(message, User):
        sent = message.idempotency_key.removeprefix(_OWN)
        return {**head, "role": "user", "text": message.text[:MAX_TEXT], "sent": sent, **_pictures(message.parts)}
    if isinstance(message, ToolResult):
        said = {"call": message.call_id, "name": message.tool_name, "text": message.text[:MAX_TEXT]}
        facts = {"error": message.is_error, "details": message.details or {}}
        return {**head, "role": "tool", **said, **facts, **_pictures(message.parts)}
    return {**head, **_spoken(message)}


def _spoken(message: Assistant) -> Json:
    thoughts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.calls]
    facts = {
        "thinking": "\n\n".join(thoughts)[:MAX_TEXT],
        "calls": calls,
        "model": "/".join(part for part in (message.provider, message.model) if part),
        "usage": from_message(message)["usage"] if message.usage.total else None,
        "stop": message.stop_reason.value if message.stop_reason.value not in {"stop", "toolUse"} else "",
        "problem": message.error,
    }
    told = {name: value for name, value in facts.items() if value}
    return {"role": "assistant", "text": shape(message.text).text[:MAX_TEXT], **told}


def _pictures(parts: Sequence[Part]) -> Json:
    found = [part for part in parts if isinstance(part, Image) and len(part.data) <= MAX_PICTURE]
    return {"images": [{"data": part.data, "mimeType": part.mime_type} for part in found]} if found else {}


class Live:
    """The line that is being said in one session, and the tools at work."""

    def __init__(self, run: str, model: str) -> None:
        self.run = run
        self.model = model
        self.text = self.thinking = ""
        self.heard = ""  # what the model said since, as it came
        self.told = [0, 0]  # how far the text and the thinking were told
        self.tools: dict[str, Json] = {}
        self.filter = StreamFilter()
        self.timer: asyncio.TimerHandle | None = None

    def read(self) -> None:
        """Let what was heard be shown, as far as it can be."""
        heard, self.heard = self.heard, ""
        self.text += self.filter.feed(heard) if heard else ""

    def shown(self) -> Json:
        self.read()
        facts = {"run": self.run, "model": self.model, "text": self.text, "thinking": self.thinking}
        return {**facts, "tools": list(self.tools.values())}

    def next_line(self) -> None:
        self.text = self.thinking = self.heard = ""
        self.told = [0, 0]
        self.filter = StreamFilter()


class PageFeed:
    """Tells the pages that look at a session what happens in it, and keeps what a page needs that comes later."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._live: dict[SessionKey, Live] = {}
        self._numbers: dict[SessionKey, int] = {}

    def start(self) -> None:
        self._gateway.client.operations.watch(self.take)

    def state(self, session: SessionKey) -> Json:
        """Return how far a session was told, and the line that is being said."""
        live = self._live.get(session)
        return {"seq": self._numbers.get(session, 0), "live": live.shown() if live else None}

    def take(self, session: SessionKey, event: RunEvent) -> None:
        """Hear an event. It is called in the middle of a turn, so it never raises and never waits."""
        try:
            self._take(session, event)
        except Exception as problem:  # noqa: BLE001 - what cannot be told must not end the turn
            _log.error("an event of a turn was not told to the page: %s", where(problem))

    def _take(self, session: SessionKey, event: RunEvent) -> None:
        live = self._live.get(session)
        if isinstance(event, TextDelta | ThinkingDelta):
            if live is not None:
                self._words(session, live, event)
            return
        self._flush(session)
        match event:
            case RunStarted():
                self._live[session] = Live(event.run_id, event.model)
                self.tell(session, "run", run=event.run_id, model=event.model)
            case ModelCalled() if event.attempt > 1 and live is not None:
                live.next_line()
                self.tell(session, "again", model=event.model)
            case UserAccepted():
                self._line(session, "user", "")
            case MessageEnded():
                if live is not None:
                    live.next_line()
                self._line(session, "assistant", "")
            case ToolStarted():
                tool = {"id": event.call_id, "name": event.name, "arguments": event.arguments, "text": ""}
                if live is not None:
                    live.tools[event.call_id] = tool
                self.tell(session, "tool", tool=tool)
            case ToolProgress():
                if live is not None and event.call_id in live.tools:
                    live.tools[event.call_id]["text"] = event.text[-20_000:]
                self.tell(session, "progress", id=event.call_id, text=event.text[-20_000:])
            case ToolEnded():
                if live is not None:
                    live.tools.pop(event.result.call_id, None)
                self._line(session, "toolResult", event.result.call_id, seconds=round(event.seconds, 3))
            case CompactionStarted():
                self.tell(session, "compaction", ended=False, ok=True, reason=event.reason)
            case CompactionEnded():
                self.tell(session, "compaction", ended=True, ok=event.ok, reason=event.reason)
                if event.ok:
                    self.tell(session, "reset")
            case Notice():
                self.tell(session, "notice", text=event.text, level=event.kind)
            case ChildStarted() | ChildEnded():
                status = event.status if isinstance(event, ChildEnded) else "running"
                self.tell(session, "child", child=event.session_key, name=event.name, status=status)
            case RunEnded():
                self._live.pop(session, None)
                facts = {"status": event.status, "problem": event.error, "seconds": round(event.seconds, 2)}
                self.tell(session, "end", run=event.run_id, **facts)

    def _words(self, session: SessionKey, live: Live, event: TextDelta | ThinkingDelta) -> None:
        if isinstance(event, TextDelta):
            live.heard += event.text
        else:
            live.thinking += event.text
        if live.timer is None:
            live.timer = asyncio.get_running_loop().call_later(COALESCE_SECONDS, self._flush, session)

    def _flush(self, session: SessionKey) -> None:
        live = self._live.get(session)
        if live is None or live.timer is None:
            return
        live.timer.cancel()
        live.timer = None
        live.read()
        for place, (kind, text) in enumerate((("text", live.text), ("thinking", live.thinking))):
            at = live.told[place]
            if len(text) > at:
                live.told[place] = len(text)
                self.tell(session, kind, at=at, text=text[at:])

    def _line(self, session: SessionKey, role: str, call: str, **more: Any) -> None:
        if not any(f"page:{session}" in each.messages_of for each in self._gateway.hub.connections.values()):
            self._count(session)  # nobody looks; whoever comes later reads the transcript
            return
        opened = self._gateway.client.home.sessions.get(session)
        branch = opened.writer.branch if opened is not None else []
        for place in range(len(branch) - 1, -1, -1):
            entry = branch[place]
            if not isinstance(entry, MessageEntry) or entry.role != role or entry.message is None:
                continue
            if call and not (isinstance(entry.message, ToolResult) and entry.message.call_id == call):
                continue
            self.tell(session, "line", line={**lines_of(branch[place : place + 2])[0], **more})
            return

    def tell(self, session: SessionKey, kind: str, **facts: Any) -> None:
        """Tell everybody who looks at a session; each session counts what was told of it."""
        name, number = f"page:{session}", self._count(session)
        if self._gateway.hub.anybody:
            payload = {"session": str(session), "seq": number, "kind": kind, **facts}
            self._gateway.hub.tell(EVENT, payload, to=lambda each: name in each.messages_of)

    def _count(self, session: SessionKey) -> int:
        number = self._numbers.pop(session, 0) + 1
        self._numbers[session] = number
        while len(self._numbers) > MAX_SESSIONS:
            del self._numbers[next(iter(self._numbers))]
        return number
