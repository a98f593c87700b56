"""Session transcripts as a source: one line per message that a person or the assistant said. Pure but for reading JSON.

Tool results, system notes and recalled text are not said by anybody and never enter; a branch that was rewound did not
happen. Line numbers are those of the JSONL file.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.prompt import CONTEXT_BEGIN, CONTEXT_END
from homarus.core.redact import redacted
from homarus.memory.lines import Unit, line_flags
from homarus.memory.terms import measure

MAX_MESSAGE = 8_000
RECALL_OPEN, RECALL_CLOSE = "<recalled-memory>", "</recalled-memory>"
_MARKED = ((RECALL_OPEN, RECALL_CLOSE), (CONTEXT_BEGIN, CONTEXT_END))
_RECALLED = late("|".join(f"{re.escape(a)}.*?(?:{re.escape(b)}|\\Z)" for a, b in _MARKED), re.DOTALL)
_SILENT = late(r"\W*(?:NO_REPLY|HEARTBEAT_OK)\W*")
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class Tail(Struct):
    """Where reading stopped, so that the next message costs only itself."""

    offset: int = 0
    lines: int = 0
    messages: int = 0
    leaf: str = ""
    head: str = ""  # hash of the first bytes: another file under the same name starts over


class Turn(Struct, frozen=True):
    """One message of a transcript."""

    line: int
    id: str
    parent: str | None
    speaker: str
    text: str
    day: date | None


class Parsed(Struct):
    """What a stretch of a transcript holds. `linear` is False when it rewinds, so that the whole must be read again."""

    turns: list[Turn]
    tail: Tail
    linear: bool = True


def parse(data: bytes, tail: Tail) -> Parsed:
    """Read complete lines after `tail`; a last line without its newline is still being written and is left for later."""
    end = data.rfind(b"\n") + 1
    number, leaf = tail.lines, tail.leaf
    turns: list[Turn] = []
    parents: dict[str, str | None] = {}
    linear = True
    for raw in data[:end].splitlines():
        number += 1
        record = _decode(raw)
        if record is None:
            continue
        if record.get("type") == "leaf" and isinstance(record.get("targetId"), str):
            linear = linear and record["targetId"] == leaf
            leaf = record["targetId"]
            continue
        identity, parent = record.get("id"), record.get("parentId")
        if isinstance(identity, str) and record.get("type") != "session":
            if leaf and isinstance(parent, str) and parent != leaf:
                linear = False
            parents[identity] = parent if isinstance(parent, str) else None
            leaf = identity
        turn = _turn(number, record)
        if turn:
            turns.append(turn)
    if not linear and not tail.offset:
        turns = _branch(turns, parents, leaf)
    after = Tail(tail.offset + end, number, tail.messages + len(turns), leaf, tail.head)
    return Parsed(turns, after, linear)


def _branch(turns: list[Turn], parents: dict[str, str | None], leaf: str) -> list[Turn]:
    """Keep the messages between the root and the leaf."""
    kept: set[str] = set()
    at: str | None = leaf
    while at is not None and at not in kept:
        kept.add(at)
        at = parents.get(at)
    return [turn for turn in turns if not turn.id or turn.id in kept]


def _decode(raw: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) else None


def _turn(number: int, record: dict[str, Any]) -> Turn | None:
    if record.get("type") == "message":
        message = record.get("message")
    elif "type" not in record and "role" in record:
        message = record
    else:
        return None
    if not isinstance(message, dict) or message.get("excludeFromContext"):
        return None
    speaker = _SPEAKERS.get(str(message.get("role")))
    if speaker is None:
        return None
    text = " ".join(_RECALLED.sub(" ", _text(message.get("content"))).split())
    if not text or _SILENT.fullmatch(text):
        return None
    parent = record.get("parentId")
    return Turn(
        line=number,
        id=str(record.get("id") or ""),
        parent=parent if isinstance(parent, str) else None,
        speaker=speaker,
        text=redacted(text[:MAX_MESSAGE]),
        day=_day(record.get("timestamp") or message.get("timestamp")),
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(str(part.get("text") or "") for part in parts)


def _day(stamp: Any) -> date | None:
    try:
        if isinstance(stamp, str):
            return datetime.fromisoformat(stamp).date()
        if isinstance(stamp, int | float):
            return datetime.fromtimestamp(stamp / 1000, UTC).date()
    except (ValueError, OverflowError, OSError):
        pass
    return None


def units_of(turns: list[Turn]) -> list[Unit]:
    """Return the turns as lines of the index."""
    return [
        Unit(
            line=turn.line,
            text=f"{turn.speaker}: {turn.text}",
            day=turn.day.toordinal() if turn.day else None,
            speaker=turn.speaker,
            flags=line_flags(turn.text),
            kind="turn",
            size=measure(turn.text),
        )
        for turn in turns
    ]


def due(new_bytes: int, new_messages: int, *, delta_bytes: int, delta_messages: int) -> bool:
    """Say whether the background should index a transcript now; a rule with 0 never fires."""
    return bool((delta_bytes and new_bytes >= delta_bytes) or (delta_messages and new_messages >= delta_messages))
