"""Old history as plain text for a summariser: quoted, bounded and labelled, so that a model cannot go on with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.text import estimate_tokens, neutralize

RESULT_CHARS = 2_000
ERROR_TAIL_CHARS = 600
THINKING_CHARS = 1_000
_ERROR = late(r"error|exception|traceback|failed|fatal|denied", re.IGNORECASE)
_READS = frozenset({"read", "grep", "image"})
_WRITES = frozenset({"write", "edit", "apply_patch"})
_FILES = late(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
MAX_FILES = 60
_QUOTES = late(r"(</?)(?=(?:conversation|previous-summary|wish)>)", re.IGNORECASE)


def inert(text: str) -> str:
    """Return text that can neither close the quotation it stands in nor pose as a part of the request."""
    return _QUOTES.sub(r"\1\\", neutralize(text))


def serialize(message: Message) -> str:
    match message:
        case User():
            return f"[User]: {_plain(message)}"
        case ToolResult():
            return f"[Tool result{' (error)' if message.is_error else ''}]: {_result(_plain(message))}"
        case Assistant():
            return "\n".join(_assistant(message))


def _assistant(message: Assistant) -> list[str]:
    lines = []
    thoughts = "\n".join(part.text for part in message.parts if isinstance(part, Thinking) and part.text.strip())
    if thoughts:
        lines.append(f"[Assistant thinking]: {inert(thoughts[:THINKING_CHARS])}")
    if message.text.strip():
        lines.append(f"[Assistant]: {_plain(message)}")
    if message.calls:
        lines.append(f"[Assistant tool calls]: {'; '.join(map(_call, message.calls))}")
    return lines


def _plain(message: Message) -> str:
    parts = []
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(part.text)
        elif isinstance(part, Image):
            parts.append("[image]")
    return inert("".join(parts))


def _call(call: ToolCall) -> str:
    arguments = msgspec.json.encode(call.arguments, enc_hook=str).decode()
    return inert(f"{call.name}({arguments[:RESULT_CHARS]})")


def _result(text: str) -> str:
    if len(text) <= RESULT_CHARS:
        return text
    tail = text[-ERROR_TAIL_CHARS:]
    keep = f"\n[…]\n{tail}" if _ERROR.search(tail) else ""
    return f"{text[: RESULT_CHARS - len(keep)]}\n[… {len(text):,} characters in all]{keep}"


def chunks(blocks: Sequence[str], limit_tokens: int) -> list[str]:
    """Join blocks to pieces that each fit a request; a single block that does not fit is represented by a note."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for block in blocks:
        tokens = estimate_tokens(block) + 1
        if tokens > limit_tokens:
            block, tokens = f"[a message of about {tokens:,} tokens, left out here]", 16
        if current and size + tokens > limit_tokens:
            pieces.append("\n\n".join(current))
            current, size = [], 0
        current.append(block)
        size += tokens
    return [*pieces, "\n\n".join(current)] if current else pieces


def blocks_of(messages: Sequence[Message]) -> list[str]:
    """Return the history as blocks that must not be torn: a call stays with its results."""
    blocks: list[str] = []
    for message in messages:
        text = serialize(message)
        if isinstance(message, ToolResult) and blocks:
            blocks[-1] += f"\n{text}"
        elif text:
            blocks.append(text)
    return blocks


def touched_files(messages: Iterable[Message]) -> tuple[list[str], list[str]]:
    """Return the files that were read and those that were changed, newest last; a changed one is not listed as read."""
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    for message in messages:
        for call in message.calls if isinstance(message, Assistant) else ():
            path = call.arguments.get("path") or call.arguments.get("file_path")
            if call.name in _READS and isinstance(path, str):
                read[path] = None
            elif call.name == "apply_patch" and isinstance(patch := call.arguments.get("input"), str):
                changed.update(dict.fromkeys(_FILES.findall(patch)))
            elif call.name in _WRITES and isinstance(path, str):
                changed[path] = None
    return [path for path in read if path not in changed][-MAX_FILES:], list(changed)[-MAX_FILES:]


def failures(messages: Iterable[Message], most: int = 8, chars: int = 240) -> list[str]:
    found = [
        f"{message.tool_name}: {' '.join(message.text.split())[:chars]}"
        for message in messages
        if isinstance(message, ToolResult) and message.is_error
    ]
    return found[-most:]
