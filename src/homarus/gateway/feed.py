"""What happens in sessions, told to clients: each session's events become `agent` and `chat` frames.

Text that arrives quickly is told in larger pieces; a client that misses one has the whole text with the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from homarus.core.events import (
    ApprovalAsked,
    CompactionEnded,
    CompactionStarted,
    MessageEnded,
    ModelCalled,
    RunEnded,
    RunEvent,
    RunStarted,
    TextDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    UserAccepted,
)
from homarus.core.messages import Message
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.delivery.sanitize import shape
from homarus.delivery.stream import StreamFilter
from homarus.gateway.protocol import where
from homarus.gateway.rows import displayed, row_of
from homarus.gateway.runs import Run
from homarus.gateway.scopes import APPROVALS
from homarus.sessions.entry import MessageEntry

if TYPE_CHECKING:
    from homarus.gateway.connection import Connection
    from homarus.gateway.server import Gateway

_log = logging.getLogger(__name__)
COALESCE_SECONDS = 0.075
MAX_RESULT = 20_000
MAX_ATTENDED = 256  # quiet sessions among them go first
# After these, what was shown of a session is not what it holds.
_TURNED = frozenset({"rewind", "reset", "new", "delete", "branch"})


class Stream:
    """The turn that goes on in one session, as clients see it."""

    def __init__(self, run_id: str, session: SessionKey, session_id: str, model: str) -> None:
        self.run_id = run_id
        self.session = session
        self.session_id = session_id
        self.model = model
        self.agent_seq = self.chat_seq = 0
        self.text = ""  # what was told of this turn so far
        self.heard = ""  # what the model said since, as it came
        self.filter = StreamFilter()
        self.timer: asyncio.TimerHandle | None = None


class Feed:
    """Listens to every session and tells those who are connected."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._streams: dict[SessionKey, Stream] = {}
        self._attending: dict[SessionKey, Callable[[], None]] = {}
        self._handlers: dict[type, Callable[[SessionKey, Any], None]] = {
            RunStarted: self._started,
            UserAccepted: self._accepted,
            ModelCalled: self._asked,
            TextDelta: self._text,
            MessageEnded: self._ended_message,
            ToolStarted: self._tool_started,
            ToolProgress: self._tool_progress,
            ToolEnded: self._tool_ended,
            CompactionStarted: self._compaction,
            CompactionEnded: self._compaction,
            ApprovalAsked: self._question,
            RunEnded: self._ended,
        }

    def start(self) -> Callable[[], None]:
        return self._gateway.client.operations.watch(self.take)

    def take(self, session: SessionKey, event: RunEvent) -> None:
        """Tell what an event says. It is called in the middle of a turn, so it never raises and never waits."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            try:
                handler(session, event)
            except Exception as problem:  # noqa: BLE001 - what cannot be told must not end the turn
                _log.error("an event of a turn was not told: %s", where(problem))

    def attend(self, session: SessionKey) -> None:
        """Let a session's questions be asked while somebody is connected who may answer them."""
        if session not in self._attending and self._answerer():
            self._attending[session] = self._gateway.client.attend(session)
            surplus = len(self._attending) - MAX_ATTENDED
            for old in islice(filter(self._is_quiet, list(self._attending)[:-1]), max(0, surplus)):
                self.forget(old)

    def _is_quiet(self, session: SessionKey) -> bool:
        """Say whether nobody in a session can ask anything: no turn, no message on its way, no sub-agent."""
        runtime, runs = self._gateway.runtime, self._gateway.runs
        lane = runtime.open_lane(session)
        return not runs.open_in(session) and (lane is None or lane.idle_now) and not runtime.owed(session)

    def forget(self, session: SessionKey) -> None:
        """Let nobody attend to a session any more that is over."""
        if leave := self._attending.pop(session, None):
            leave()

    def left(self) -> None:
        """Note that a client went: where nobody is left who could answer, questions are answered no at once."""
        if self._attending and not self._answerer():
            for leave in self._attending.values():
                leave()
            self._attending.clear()

    def _answerer(self) -> bool:
        return any(each.principal.may(APPROVALS) for each in self._gateway.hub.connections.values())

    # Frames.

    def _agent(self, stream: Stream, kind: str, data: dict[str, Any], **pick: Any) -> None:
        stream.agent_seq += 1
        if not self._gateway.hub.anybody:
            return
        key = stream.session
        facts = {"runId": stream.run_id, "seq": stream.agent_seq, "stream": kind, "ts": self._gateway.now_ms}
        place = {"sessionKey": str(key), "sessionId": stream.session_id, "agentId": key.agent_id}
        self._gateway.hub.tell("agent", {**facts, "data": data, **place}, **pick)

    def chat(self, run_id: str, session: SessionKey, seq: int, state: str, **more: Any) -> None:
        if not self._gateway.hub.anybody:
            return
        facts = {"runId": run_id, "sessionKey": str(session), "agentId": session.agent_id, "seq": seq, "state": state}
        self._gateway.hub.tell("chat", {**facts, **{key: value for key, value in more.items() if value is not None}})

    def _say(self, stream: Stream, state: str, **more: Any) -> None:
        stream.chat_seq += 1
        self.chat(stream.run_id, stream.session, stream.chat_seq, state, **more)

    def changed(self, session: SessionKey, reason: str) -> None:
        """Tell those who keep a list of sessions that one of them is another now."""
        if reason in _TURNED:
            self._gateway.page_feed.tell(session, "reset")
        if reason == "delete":
            self.forget(session)
        if any(each.wants_sessions for each in self._gateway.hub.connections.values()):
            facts = {"sessionKey": str(session), "agentId": session.agent_id, "reason": reason}
            row = row_of(self._gateway, session)
            payload = {**facts, "ts": self._gateway.now_ms, "session": row}
            self._gateway.hub.tell("sessions.changed", payload, to=lambda each: each.wants_sessions)

    def _message(self, session: SessionKey, message: Message) -> None:
        key = str(session)
        if not any(key in each.messages_of for each in self._gateway.hub.connections.values()):
            return
        body = displayed(message)
        if body is None:
            return
        row = row_of(self._gateway, session)
        payload = {"sessionKey": key, "agentId": session.agent_id, "message": body, "session": row}
        if ident := self._entry_id(session, body):
            # By its id a client knows the line again that its history holds, too.
            payload |= {"messageId": ident, "message": {**body, "__openclaw": {"id": ident}}}
        self._gateway.hub.tell("session.message", payload, to=lambda each: key in each.messages_of)

    def _entry_id(self, session: SessionKey, body: dict[str, Any]) -> str:
        """Return under which id the log holds a message that was just written to it."""
        opened = self._gateway.client.home.sessions.get(session)
        for entry in reversed(opened.writer.branch if opened is not None else ()):
            if isinstance(entry, MessageEntry) and entry.role == body["role"]:
                return entry.id if entry.body.get("toolCallId") == body.get("toolCallId") else ""
        return ""

    # Events.

    def _started(self, session: SessionKey, event: RunStarted) -> None:
        stream = self._streams[session] = Stream(event.run_id, session, event.session_id, event.model)
        self._agent(stream, "lifecycle", {"phase": "start", "startedAt": self._gateway.now_ms})
        provider, _, model = event.model.partition("/")
        self._agent(stream, "lifecycle", {"phase": "model", "provider": provider, "model": model})
        self.changed(session, "agent.run.started")

    def _accepted(self, session: SessionKey, event: UserAccepted) -> None:
        self._message(session, event.message)
        key = event.message.idempotency_key
        for run in self._gateway.runs.open_in(session) if event.steered else ():
            if run.key == key:
                # It joined the turn that goes on; what comes of it is told there.
                self._folded(run)

    def _folded(self, run: Run) -> None:
        self.chat(run.id, run.session, 1, "final")
        if not run.awaited:
            run.end("ok", self._gateway.now_ms)
            self._gateway.runs.close(run)

    def _asked(self, session: SessionKey, event: ModelCalled) -> None:
        stream = self._streams.get(session)
        if stream is not None:
            self._say(stream, "status", phase="starting_model")

    def _text(self, session: SessionKey, event: TextDelta) -> None:
        stream = self._streams.get(session)
        if stream is None:
            return
        stream.heard += event.text
        if stream.timer is None:
            stream.timer = asyncio.get_running_loop().call_later(COALESCE_SECONDS, self._flush, stream)

    def _flush(self, stream: Stream, *, ended: bool = False, after: str = "") -> None:
        """Tell what can be shown of what was heard; with `ended` all of it, and what comes after the message."""
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None
        heard, stream.heard = stream.heard, ""
        piece = stream.filter.feed(heard) if heard else ""
        if ended:
            piece += stream.filter.finish()
            stream.filter = StreamFilter()
            piece += after if stream.text or piece.strip() else ""
        if not piece:
            return
        stream.text += piece
        self._agent(stream, "assistant", {"text": stream.text, "delta": piece})
        self._say(stream, "delta", deltaText=piece, message=_words(stream.text, self._gateway.now_ms))

    def _ended_message(self, session: SessionKey, event: MessageEnded) -> None:
        stream = self._streams.get(session)
        if stream is not None:
            # The rest of what was held back, and a new start for what is said after the next call.
            self._flush(stream, ended=True, after="\n\n" if event.message.calls else "")
        self._message(session, event.message)

    def _tool_started(self, session: SessionKey, event: ToolStarted) -> None:
        self._tool(
            session, {"phase": "start", "name": event.name, "toolCallId": event.call_id, "args": event.arguments}
        )

    def _tool_progress(self, session: SessionKey, event: ToolProgress) -> None:
        self._tool(session, {"phase": "update", "toolCallId": event.call_id, "partialResult": event.text[:MAX_RESULT]})

    def _tool_ended(self, session: SessionKey, event: ToolEnded) -> None:
        result = event.result
        content = [{"type": "text", "text": result.text[:MAX_RESULT]}]
        facts = {"name": result.tool_name, "toolCallId": result.call_id, "isError": result.is_error}
        self._tool(session, {"phase": "result", **facts, "result": {"content": content}})
        self._message(session, result)

    def _tool(self, session: SessionKey, data: dict[str, Any]) -> None:
        stream = self._streams.get(session)
        if stream is None:
            return
        self._agent(stream, "tool", data, to=lambda each: "tool-events" in each.caps)
        key = str(session)

        def follows(connection: Connection) -> bool:
            return key in connection.messages_of

        if any(map(follows, self._gateway.hub.connections.values())):
            facts = {"runId": stream.run_id, "sessionKey": key, "agentId": session.agent_id, "stream": "tool"}
            self._gateway.hub.tell("session.tool", {**facts, "ts": self._gateway.now_ms, "data": data}, to=follows)

    def _compaction(self, session: SessionKey, event: CompactionStarted | CompactionEnded) -> None:
        stream = self._streams.get(session)
        if stream is not None:
            phase = "start" if isinstance(event, CompactionStarted) else "end"
            self._agent(stream, "compaction", {"phase": phase, "reason": event.reason})

    def _question(self, session: SessionKey, event: ApprovalAsked) -> None:
        found = {each.id: each for each in self._gateway.client.operations.questions()}.get(event.approval_id)
        request = {"command": event.title, "agentId": session.agent_id, "sessionKey": str(session)}
        if found is not None:
            request |= {"command": single_line(found.summary, 2000), "ask": found.kind}
        created = found.created_ms if found else self._gateway.now_ms
        payload = {"id": event.approval_id, "request": request, "createdAtMs": created, "expiresAtMs": event.expires_at}
        self._gateway.hub.tell("exec.approval.requested", payload)

    def _ended(self, session: SessionKey, event: RunEnded) -> None:
        gateway, stream = self._gateway, self._streams.pop(session, None)
        if stream is None:
            stream = Stream(event.run_id, session, "", "")
        self._flush(stream)
        text = shape(event.text).text or stream.text.strip()
        message = _words(text, gateway.now_ms) if text else None
        reason = "rpc" if event.status == "aborted" else None
        status = {"ok": "ok", "timeout": "timeout"}.get(event.status, "error")
        error = "aborted" if event.status == "aborted" else event.error
        for run in gateway.runs.open_in(session):
            own = run.id == stream.run_id
            if not own and gateway.client.operations.waits(session, run.key):
                continue
            if own and not run.awaited:
                run.end(status, gateway.now_ms, error=error, stop_reason=reason or "", text=text)
                gateway.runs.close(run)
            elif not own:
                self._folded(run)
        if event.status == "ok":
            self._say(stream, "final", message=message, stopReason="stop", usage=_usage(event))
        elif event.status == "aborted":
            self._say(stream, "aborted", message=message, stopReason="rpc")
        else:
            kind = "timeout" if event.status == "timeout" else "unknown"
            self._say(stream, "error", errorMessage=event.error or event.status, errorKind=kind)
        end = {"phase": "end", "endedAt": gateway.now_ms}
        if event.status == "aborted":
            self._agent(stream, "lifecycle", {**end, "status": "cancelled", "aborted": True, "stopReason": "rpc"})
            settled = {"phase": "error", "error": "aborted", "executionSettled": True, "endedAt": gateway.now_ms}
            self._agent(stream, "lifecycle", settled)
        elif event.status == "ok":
            self._agent(stream, "lifecycle", end)
        else:
            self._agent(stream, "lifecycle", {**end, "phase": "error", "error": event.error or event.status})
        # The lane counts as busy until this event is told to all; the row is looked at right after.
        asyncio.get_running_loop().call_soon(self.changed, session, "agent.input.settled")


def _words(text: str, now_ms: int) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": now_ms}


def _usage(event: RunEnded) -> dict[str, int] | None:
    usage = event.usage
    if not usage.total:
        return None
    return {"input": usage.input, "output": usage.output, "cacheRead": usage.cache_read, "totalTokens": usage.total}
