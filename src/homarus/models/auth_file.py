"""The credentials file itself: every known form is read, one form is written, and nothing unknown in it is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.locks import OwnerLock

VERSION = 1
LOCK_SECONDS = 5.0
DATABASE = "openclaw-agent.sqlite"


def read_document(path: Path) -> dict[str, Any]:
    """Return the credentials of an agent: the file, else what an older or a newer OpenClaw left beside it."""
    found = _object(path)
    if found is not None:
        return found
    if path.exists():
        return {}
    return _from_database(path.with_name(DATABASE)) or _from_older(path)


def update(path: Path, change: Callable[[dict[str, Any]], None], now: datetime) -> None:
    """Read, change and write the file under its lock; a damaged one is moved aside first, never overwritten."""
    ensure_dir(path.parent)
    with OwnerLock.acquire(path.with_suffix(".json.lock"), purpose="auth profiles", now=now, wait=LOCK_SECONDS):
        if path.exists() and _object(path) is None:
            move_aside(path, "corrupt", now)
        document = read_document(path)
        document.setdefault("version", VERSION)
        document.setdefault("profiles", {})
        change(document)
        if path.exists():
            # A file that others could read keeps its rights when it is replaced; this one must not.
            path.chmod(0o600)
        write_atomic(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n", mode=0o600)


def _object(path: Path) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _from_older(path: Path) -> dict[str, Any]:
    """Read the two forms before profiles existed; they are never changed, the first write makes the new file."""
    agent_dir = path.parent
    profiles: dict[str, Any] = {}
    for source in (agent_dir.parents[2] / "credentials" / "oauth.json" if len(agent_dir.parents) > 2 else None,
                   agent_dir / "auth.json"):  # fmt: skip
        for provider, raw in (_object(source) or {}).items() if source is not None else ():
            if isinstance(raw, dict):
                kind = raw.get("type") or ("oauth" if "access" in raw else "api_key")
                profiles[f"{provider}:default"] = {**raw, "type": kind, "provider": provider}
    return {"version": VERSION, "profiles": profiles} if profiles else {}


def _from_database(path: Path) -> dict[str, Any]:
    """Read profiles and state from the database of a 2026.7 or later OpenClaw, without changing a byte of it."""
    if not path.is_file():
        return {}
    import sqlite3

    from homarus.storage.sqlite import open_readonly

    document: dict[str, Any] = {}
    try:
        connection = open_readonly(path)
    except StorageError:
        return {}
    try:
        for table in ("auth_profile_store", "auth_profile_state"):
            for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608 - one of the two names above
                if "primary" in row:
                    document |= _largest_object(row)
    except sqlite3.Error:
        # No such table: a home without stored credentials.
        return document
    finally:
        connection.close()
    return document


def _largest_object(row: tuple[Any, ...]) -> dict[str, Any]:
    for value in sorted((item for item in row if isinstance(item, str | bytes)), key=len, reverse=True):
        try:
            found = msgspec.json.decode(value)
        except msgspec.DecodeError:
            continue
        if isinstance(found, dict):
            return found
    return {}
