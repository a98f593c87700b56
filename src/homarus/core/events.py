"""Run events: the only thing that user interfaces, delivery, hooks and metrics consume.

A run emits `RunStarted` first and exactly one `RunEnded` last, whatever happens in between.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from homarus.core.messages import Assistant, ToolResult, Usage, User


class RunStarted(Struct, frozen=True, tag="run_started"):
    run_id: str
    session_key: str
    session_id: str
    model: str


class UserAccepted(Struct, frozen=True, tag="user_accepted"):
    """A user message is durable in the transcript; `steered` when it joined a running turn."""

    message: User
    steered: bool = False


class ModelCalled(Struct, frozen=True, tag="model_called"):
    """A request went out. `attempt` counts retries of the same step from 1."""

    model: str
    attempt: int = 1


class TextDelta(Struct, frozen=True, tag="text_delta"):
    text: str


class ThinkingDelta(Struct, frozen=True, tag="thinking_delta"):
    text: str


class MessageEnded(Struct, frozen=True, tag="message_ended"):
    """An assistant message is complete and durable."""

    message: Assistant


class ToolStarted(Struct, frozen=True, tag="tool_started"):
    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolProgress(Struct, frozen=True, tag="tool_progress"):
    call_id: str
    text: str


class ToolEnded(Struct, frozen=True, tag="tool_ended"):
    """A tool result is complete and durable."""

    result: ToolResult
    seconds: float = 0.0


class ApprovalAsked(Struct, frozen=True, tag="approval_asked"):
    approval_id: str
    title: str
    detail: str
    expires_at: int
    lasting: bool = False  # whether it can be allowed for good


class CompactionStarted(Struct, frozen=True, tag="compaction_started"):
    reason: str


class CompactionEnded(Struct, frozen=True, tag="compaction_ended"):
    """The history was summarised, or kept when `ok` is false."""

    ok: bool
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


class Notice(Struct, frozen=True, tag="notice"):
    """Something the user should know once: a retry, a fallback, a warning."""

    text: str
    kind: str = "info"


class ChildStarted(Struct, frozen=True, tag="child_started"):
    """A sub-agent of this session was ordered. What it does is told in its own session."""

    run_id: str
    session_key: str
    name: str
    model: str = ""


class ChildEnded(Struct, frozen=True, tag="child_ended"):
    """A sub-agent of this session is done; `status` is ok, error, timeout or unknown. Its report is a message of its own."""

    run_id: str
    session_key: str
    name: str
    status: str


class RunEnded(Struct, frozen=True, tag="run_ended"):
    """A turn ended; always the last event, exactly once. `status` is ok, error, aborted or timeout."""

    run_id: str
    status: str
    text: str = ""
    error: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0


RunEvent = (
    RunStarted
    | UserAccepted
    | ModelCalled
    | TextDelta
    | ThinkingDelta
    | MessageEnded
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | ApprovalAsked
    | CompactionStarted
    | CompactionEnded
    | Notice
    | ChildStarted
    | ChildEnded
    | RunEnded
)
