"""Older and damaged transcripts: versions 1 and 2 and the flat forms read as today's entries, and made ready for appending.

Reading changes nothing. A file that is converted keeps its original beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from homarus.core.clock import iso_ms
from homarus.core.errors import StorageError
from homarus.sessions.codec import Json
from homarus.sessions.entry import NEWEST_READABLE, Header, new_header, to_header
from homarus.sessions.log import Form, Transcript, identify, read_entries
from homarus.storage.atomic import keep_copy, move_aside, write_atomic
from homarus.storage.jsonl import read_lines
from homarus.storage.record import encode


def make_appendable(path: Path, session_id: str, cwd: str, now: datetime) -> Transcript:
    """Return a file that entries can be appended to: this one, converted if need be, or an empty one in its place."""
    source = identify(path)
    if source.header.version > NEWEST_READABLE:
        raise StorageError(
            f"{path} has transcript version {source.header.version}, newer than this program writes",
            cure="use a newer homarus, or start a new session",
        )
    if source.form is Form.CORRUPT:
        move_aside(path, "corrupt", now)
        return identify(path)
    if source.form in {Form.OLD, Form.FLAT, Form.HEADLESS}:
        lines, label = _converted(source, session_id, cwd, now)
        keep_copy(path, label)
        write_atomic(path, b"\n".join(lines) + b"\n")
        return identify(path)
    return source


def _converted(source: Transcript, session_id: str, cwd: str, now: datetime) -> tuple[list[bytes], str]:
    if source.form is Form.HEADLESS:
        header, lines = None, []
        for line in read_lines(source.path):
            found = to_header(line.value)
            if found and header is None:
                header = found
            else:
                lines.append(line.raw)
        return [encode((header or _header_for(source, session_id, cwd, now)).data), *lines], "headless"
    label = "flat" if source.form is Form.FLAT else f"v{source.header.version}"
    entries = list(read_entries(source))
    header = _header_for(source, session_id, cwd, now, started=next((e.timestamp for e in entries if e.time), ""))
    return [encode(header.data), *(entry.raw for entry in entries)], label


def _header_for(source: Transcript, session_id: str, cwd: str, now: datetime, started: str = "") -> Header:
    found = source.header
    fresh = new_header(session_id, found.timestamp or started or iso_ms(now), found.cwd or cwd)
    fresh.data.update({name: value for name, value in found.data.items() if name not in fresh.data})
    return fresh


def upgrade(lines: Iterable[Json]) -> list[Json]:
    """Return version 3 entries for the lines of an older file, header left out.

    The ids that lines lack are counted, so that two readings of one file agree.
    """
    rows = list(lines)
    taken = {row["id"] for row in rows if isinstance(row.get("id"), str)}
    out: list[Json] = []
    at_line: dict[int, str] = {}
    parent: str | None = None
    flat = _Flat()
    for number, row in enumerate(rows):
        entry: Json | None = None
        if "type" not in row and "role" in row:
            entry = flat.entry(row, out)
        elif isinstance(row.get("type"), str) and row["type"] != "session":
            entry = dict(row)
        if entry is None:
            continue
        ident = entry.get("id")
        if not isinstance(ident, str) or not ident.strip():
            ident = f"{number:08x}"
            while ident in taken:
                ident += "0"
            taken.add(ident)
        named = entry.get("parentId") if "parentId" in entry else parent
        head = {"type": entry.pop("type"), "id": ident, "parentId": named}
        entry.pop("id", None)
        entry.pop("parentId", None)
        body = entry.get("message")
        if isinstance(body, dict) and body.get("role") == "hookMessage":
            entry["message"] = {**body, "role": "custom", "customType": body.get("customType") or "hook"}
        out.append(head | entry)
        at_line[number] = ident
        parent = ident
    for entry in out:  # version 1 counted lines, the header being number 0
        index = entry.get("firstKeptEntryIndex")
        if "firstKeptEntryId" not in entry and isinstance(index, int) and index in at_line:
            entry["firstKeptEntryId"] = at_line[index]
            del entry["firstKeptEntryIndex"]
    return out


class _Flat:
    """Turns `{"role": …}` lines into message entries; calls and results find each other by order and name."""

    def __init__(self) -> None:
        self.calls = 0
        self.open: list[tuple[str, str]] = []  # (id, name) of calls without a result yet

    def entry(self, row: Json, out: list[Json]) -> Json | None:
        """Return the entry for a line, or None when it was added to the entry before it."""
        role = str(row.get("role"))
        if role == "tool" and ("input" in row or "content" not in row):
            return self._call(row, out)
        if role in {"tool_result", "tool"}:
            return self._result(row)
        body: Json = {"role": role, "content": row.get("content", "")}
        return self._wrap(row, body, {"role", "content", "timestamp"})

    def _call(self, row: Json, out: list[Json]) -> Json | None:
        self.calls += 1
        ident, name = f"call_{self.calls}", row.get("name")
        name = name if isinstance(name, str) else ""
        given = row.get("input")
        block = {"type": "toolCall", "id": ident, "name": name, "arguments": given if given is not None else {}}
        before = out[-1].get("message") if out and self.open else None
        self.open.append((ident, name))
        if isinstance(before, dict) and before.get("stopReason") == "toolUse" and "flat" in before.get("details", {}):
            before["content"].append(block)
            return None
        body: Json = {"role": "assistant", "content": [block], "stopReason": "toolUse", "details": {"flat": True}}
        return self._wrap(row, body, {"role", "name", "input", "timestamp"})

    def _result(self, row: Json) -> Json:
        name = row.get("name")
        found = next((call for call in self.open if call[1] == name), None)
        if found:
            self.open.remove(found)
        body: Json = {
            "role": "toolResult",
            "toolCallId": found[0] if found else "",
            "toolName": name,
            "content": row.get("content", ""),
            "isError": bool(row.get("isError") or row.get("is_error")),
        }
        return self._wrap(row, body, {"role", "name", "content", "timestamp", "isError", "is_error"})

    def _wrap(self, row: Json, body: Json, used: set[str]) -> Json:
        rest: dict[str, Any] = {name: value for name, value in row.items() if name not in used}
        if rest:
            body["details"] = {**body.get("details", {}), **rest}
        moment = row.get("timestamp")
        if moment is not None:
            body["timestamp"] = moment
        return {"type": "message", "timestamp": moment if isinstance(moment, str) else "", "message": body}
