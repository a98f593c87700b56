"""What a log says about untrusted words in a conversation: notes, and what each summary hands on. Pure.

A note is in the log before the words are, so no crash can wash them clean. What a compaction hides is gone from view, but
its summary was made of it; only a reset begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from homarus.sessions.entry import Compaction, Custom, Entry, Reset

TAINT = "homarus.taint"
_MAX = 50


def note(sources: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a custom entry that names where untrusted words come from."""
    return {"customType": TAINT, "data": {"sources": list(sources)}}


def tainted_by(entries: Sequence[Entry]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for entry in reversed(entries):
        if isinstance(entry, Reset):
            break
        if isinstance(entry, Compaction):
            found.update(dict.fromkeys(_listed(entry.data.get("details"), "taint")))
            break
        if isinstance(entry, Custom) and entry.custom_type == TAINT:
            found.update(dict.fromkeys(_listed(entry.data.get("data"), "sources") or ["earlier"]))
    return tuple(found)[:_MAX]


def _listed(holder: Any, key: str) -> list[str]:
    value = holder.get(key) if isinstance(holder, dict) else None
    return [str(item) for item in value] if isinstance(value, list) else []
