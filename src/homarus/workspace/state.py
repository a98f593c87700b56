"""What is known about the setting up of a workspace: when its ritual was laid out, and when it was done.

The facts stand in a small JSON file in the workspace, under one of two names and two spellings, or in the database of a
newer OpenClaw. All are read; only the JSON file is ever written, and keys we do not know stay in it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.clock import iso_ms
from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.boundary import Guarded, Root
from homarus.workspace.names import LEGACY_STATE_FILE, STATE_FILE

_MAX_BYTES = 65_536


class SetupState(Struct, frozen=True):
    """The two milestones, as ISO texts; empty means not yet."""

    seeded_at: str = ""
    completed_at: str = ""

    @property
    def completed(self) -> bool:
        return bool(self.completed_at)


def read_state(root: Root) -> SetupState:
    """Return what the workspace's own files say; a damaged or refused file says nothing."""
    found = [_facts(_parse(root.read(name, max_bytes=_MAX_BYTES))) for name in (STATE_FILE, LEGACY_STATE_FILE)]
    return _join(*found)


def read_shared_state(database: Path, workspace: Path) -> SetupState:
    """Return what a newer OpenClaw wrote about this workspace into its shared database; nothing if it has none."""
    if not database.is_file():
        return SetupState()
    import sqlite3

    from homarus.storage.sqlite import open_readonly

    query = "SELECT bootstrap_seeded_at, setup_completed_at FROM workspace_setup_state WHERE workspace_path IN (?, ?)"
    try:
        conn = open_readonly(database)
        try:
            rows = conn.execute(query, (str(workspace), str(workspace.resolve()))).fetchall()
        finally:
            conn.close()
    except (StorageError, sqlite3.Error):
        return SetupState()
    return _join(*(SetupState(_text(seeded), _text(completed)) for seeded, completed in rows))


def write_state(workspace: Path, state: SetupState, now: datetime) -> None:
    """Store the milestones beside whatever else the file holds; a damaged file is moved aside, never overwritten."""
    path = workspace / STATE_FILE
    if not path.exists() and (workspace / LEGACY_STATE_FILE).exists():
        path = workspace / LEGACY_STATE_FILE
    with Root(workspace) as root:
        got = root.read(path.relative_to(workspace).as_posix(), max_bytes=_MAX_BYTES)
    if got.kind in ("validation", "io"):
        raise StorageError(f"{path} cannot be read: {got.reason}", cure="make it an ordinary file inside the workspace")
    document = _parse(got)
    if document is None and got.kind == "ok":
        move_aside(path, "damaged", now)
    document = document or {"version": 1}
    if state.seeded_at:
        document["bootstrapSeededAt"] = state.seeded_at
    if state.completed_at:
        document["setupCompletedAt"] = state.completed_at
    ensure_dir(path.parent)
    write_atomic(path, json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n")


def moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _parse(got: Guarded) -> dict[str, Any] | None:
    if got.kind != "ok" or got.truncated:
        return None
    try:
        document = msgspec.json.decode(got.data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _facts(document: dict[str, Any] | None) -> SetupState:
    values = document or {}
    completed = values.get("setupCompletedAt") or values.get("onboardingCompletedAt")
    return SetupState(_text(values.get("bootstrapSeededAt")), _text(completed))


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if isinstance(value, str):
        return value.strip() if moment(value.strip()) else ""
    try:
        return iso_ms(datetime.fromtimestamp(value / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _join(*states: SetupState) -> SetupState:
    return SetupState(
        next((state.seeded_at for state in states if state.seeded_at), ""),
        next((state.completed_at for state in states if state.completed_at), ""),
    )


WINDOW = timedelta(hours=24)
# Written at most so often for one workspace.
_FRESH = timedelta(hours=1)
_KEEP = 64
_NAME = "workspaces.json"


def refuse_vanished(folder: Path, workspace: Path, now: datetime) -> None:
    """Raise if this workspace was complete less than a day ago and is gone now."""
    seen = moment(str(_seen_in(folder).get(str(workspace), "")))
    if seen is None or now - seen >= WINDOW or workspace.exists():
        return
    raise StorageError(
        f"the workspace {workspace} was there at {iso_ms(seen)} and is gone",
        cure=f"bring it back (a disk not mounted?), or remove its line from {folder / _NAME} to begin anew",
    )


def note_complete(folder: Path, workspace: Path, now: datetime) -> None:
    """Remember that this workspace is there and set up; the oldest records go first."""
    known = _seen_in(folder)
    last = moment(str(known.get(str(workspace), "")))
    if last is not None and timedelta() <= now - last < _FRESH:
        return
    known.pop(str(workspace), None)
    known[str(workspace)] = iso_ms(now)
    kept = dict(list(known.items())[-_KEEP:])
    ensure_dir(folder)
    write_atomic(folder / _NAME, json.dumps(kept, ensure_ascii=False, indent=2).encode() + b"\n")


def _seen_in(folder: Path) -> dict[str, Any]:
    # A record that cannot be read protects nothing, and must not keep anybody from working either.
    try:
        found = msgspec.json.decode((folder / _NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
