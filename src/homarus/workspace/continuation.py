"""Whether a turn carries the workspace files again: read from the transcript, decided by the mode. Pure.

Whoever owns the transcript hands over its records, newest first, and appends the marker that is built here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from homarus.core.clock import epoch_ms
from homarus.workspace.settings import Injection

MARKER = "openclaw:bootstrap-context:full"
SCAN_RECORDS = 500
_ENDS = frozenset({"compaction", "reset"})


class Carry(StrEnum):
    """What a turn carries: everything, who we are, or nothing."""

    FULL = "full"
    LIGHT = "light"
    NONE = "none"


def has_completed(records: Iterable[Mapping[str, Any]]) -> bool:
    """Say whether the model has seen the full set since the last compaction or reset of the active branch."""
    for record in active_branch(islice(records, SCAN_RECORDS)):
        kind = record.get("type")
        if kind in _ENDS:
            return False
        if kind == "custom" and record.get("customType") == MARKER:
            return True
    return False


def active_branch(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield, newest first, only the records that the newest one descends from; records without ids form one line."""
    wanted: Any = None
    started = False
    for record in records:
        own, parent = record.get("id"), record.get("parentId")
        if own is None:
            yield record
        elif not started or own == wanted:
            started, wanted = True, parent
            yield record


def decide(mode: Injection, *, completed: bool, heartbeat: bool = False, pending: bool = False) -> Carry:
    """Return what this turn carries.

    `pending` stands for everything that needs the files in full: an open first-run ritual, or the retry after a
    compaction. A mode that says never means it there, too.
    """
    if mode is Injection.NEVER:
        return Carry.NONE
    if mode is Injection.ALWAYS or heartbeat or pending or not completed:
        return Carry.FULL
    return Carry.LIGHT if mode is Injection.LIGHT else Carry.NONE


def earns_marker(carried: Carry, *, ok: bool, heartbeat: bool = False, compacted: bool = False) -> bool:
    """Say whether a finished turn proves that the model has read everything and still has it."""
    return carried is Carry.FULL and ok and not heartbeat and not compacted


def marker(now: datetime, *, run_id: str, session_id: str) -> dict[str, Any]:
    """Return the transcript entry for a turn that earned it; the log adds its id and parent."""
    return {
        "type": "custom",
        "customType": MARKER,
        "data": {"timestamp": epoch_ms(now), "runId": run_id, "sessionId": session_id},
    }
