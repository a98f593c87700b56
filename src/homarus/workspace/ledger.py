"""A record, outside the workspaces, of those that were seen complete: so that one that vanished is not silently replaced.

An unmounted disk or a mistyped path looks like a first run. Within a day of having been there, that is an error.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.clock import iso_ms
from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.workspace.state import moment

WINDOW = timedelta(hours=24)
# Written at most so often for one workspace.
_FRESH = timedelta(hours=1)
_KEEP = 64
_NAME = "workspaces.json"


def refuse_vanished(folder: Path, workspace: Path, now: datetime) -> None:
    """Raise if this workspace was complete less than a day ago and is gone now."""
    seen = moment(str(_load(folder).get(str(workspace), "")))
    if seen is None or now - seen >= WINDOW or workspace.exists():
        return
    raise StorageError(
        f"the workspace {workspace} was there at {iso_ms(seen)} and is gone",
        cure=f"bring it back (a disk not mounted?), or remove its line from {folder / _NAME} to begin anew",
    )


def note_complete(folder: Path, workspace: Path, now: datetime) -> None:
    """Remember that this workspace is there and set up; the oldest records go first."""
    known = _load(folder)
    last = moment(str(known.get(str(workspace), "")))
    if last is not None and timedelta() <= now - last < _FRESH:
        return
    known.pop(str(workspace), None)
    known[str(workspace)] = iso_ms(now)
    kept = dict(list(known.items())[-_KEEP:])
    ensure_dir(folder)
    write_atomic(folder / _NAME, json.dumps(kept, ensure_ascii=False, indent=2).encode() + b"\n")


def _load(folder: Path) -> dict[str, Any]:
    # A record that cannot be read protects nothing, and must not keep anybody from working either.
    try:
        found = msgspec.json.decode((folder / _NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
