"""Older transcript forms as today's entries, in memory: versions 1 and 2, and the flat forms without a header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from homarus.sessions.codec import Json


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
            ident = _free_id(number, taken)
            taken.add(ident)
        named = entry.get("parentId") if "parentId" in entry else parent
        head = {"type": entry.pop("type"), "id": ident, "parentId": named}
        entry.pop("id", None)
        entry.pop("parentId", None)
        out.append(head | _modern(entry))
        at_line[number] = ident
        parent = ident
    for entry in out:
        _point_at_id(entry, at_line)
    return out


def _free_id(number: int, taken: set[str]) -> str:
    ident = f"{number:08x}"
    while ident in taken:
        ident += "0"
    return ident


def _modern(entry: Json) -> Json:
    body = entry.get("message")
    if isinstance(body, dict) and body.get("role") == "hookMessage":
        entry["message"] = {**body, "role": "custom", "customType": body.get("customType") or "hook"}
    return entry


def _point_at_id(entry: Json, at_line: dict[int, str]) -> None:
    # Version 1 counted lines, the header being number 0.
    index = entry.get("firstKeptEntryIndex")
    if "firstKeptEntryId" not in entry and isinstance(index, int) and index in at_line:
        entry["firstKeptEntryId"] = at_line[index]
        del entry["firstKeptEntryIndex"]


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
