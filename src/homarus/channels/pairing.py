"""Strangers who ask to be let in, and those who were: `credentials/<channel>-pairing.json` and `<channel>-allowFrom.json`.

What the files say counts for direct messages alone, never for groups. A file that cannot be read lets nobody in; it is
moved aside when something is written next. Several processes may work on them at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.clock import Clock, iso_ms
from homarus.core.errors import HomarusError, Unknown
from homarus.core.patterns import late
from homarus.core.routes import DEFAULT_ACCOUNT, normalize_account_id
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.locks import PATIENCE, OwnerLock

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without 0 O 1 I, which people mix up
CODE_LENGTH = 8
LIFETIME = timedelta(hours=1)
MAX_PENDING = 3
MAX_APPROVED = 5000
MAX_BYTES = 4_000_000
_CHANNEL = late(r"[a-z][a-z0-9_-]{0,63}")


class Request(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Somebody who waits. `id` is their stable id on the platform; the rest is what they say of themselves."""

    id: str
    code: str
    created_at: str
    last_seen_at: str = ""
    meta: dict[str, Any] = {}

    @property
    def account(self) -> str:
        return normalize_account_id(str(self.meta.get("accountId") or ""))


class PairingStore:
    """The files of one home. They are read at every question, so that what another process approved counts at once."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._kept: dict[Path, tuple[tuple[int, int, int], dict[str, Any]]] = {}
        self._rows: tuple[tuple[Any, ...], frozenset[tuple[str, str, str]]] | None = None

    def approved(self, channel: str, account: str = DEFAULT_ACCOUNT) -> frozenset[str]:
        """Return the ids of those who were let in to one account of a channel."""
        found: set[str] = set()
        revoked: set[str] = set()
        for path in self._allow_paths(channel, account):
            document = self._read(path)
            found.update(_names(document, "allowFrom"))
            revoked.update(_names(document, "revoked"))
        # What an OpenClaw that keeps it in a database approved counts, until it is taken back here.
        found |= self._database(_name(channel), normalize_account_id(account)) - revoked
        return frozenset(found) - {"*", ""}

    def _database(self, channel: str, account: str) -> set[str]:
        """Return the approvals of OpenClaw's own database, which is only ever read; one that cannot be read lets nobody in."""
        path = self._folder.parent / "state" / "openclaw.sqlite"
        stamp = tuple(_stamp(Path(f"{path}{suffix}")) for suffix in ("", "-wal"))
        if self._rows is None or self._rows[0] != stamp:
            self._rows = (stamp, _entries(path) if stamp[0] else frozenset())
        return {entry for name, owner, entry in self._rows[1] if (name, owner) == (channel, account)}

    def pending(self, channel: str, account: str = "") -> tuple[Request, ...]:
        """Return who waits, oldest first; all accounts where none is named."""
        requests = _requests(self._read(self._pending_path(channel)), self._clock.now())
        wanted = normalize_account_id(account) if account else ""
        return tuple(request for request in requests if not wanted or request.account == wanted)

    def request(
        self, channel: str, account: str, sender: str, about: Mapping[str, str] | None = None
    ) -> tuple[Request, bool] | None:
        """Note that somebody asks. The flag says that the request is new, so that its code is told; None when too many wait."""
        account, now = normalize_account_id(account), self._clock.now()
        if not sender or sender == "*":
            return None
        with self._changing(channel, self._pending_path(channel)) as document:
            waiting = _requests(document, now)
            mine = next((each for each in waiting if each.id == sender and each.account == account), None)
            if mine is not None:
                seen = msgspec.structs.replace(mine, last_seen_at=iso_ms(now))
                self._put(channel, document, [seen if each is mine else each for each in waiting])
                return seen, False
            if sum(each.account == account for each in waiting) >= MAX_PENDING:
                return None
            taken = {each.code for each in waiting}
            code = next(code for code in iter(_code, "") if code not in taken)
            meta = {key: single_line(value, 100) for key, value in (about or {}).items() if value}
            fresh = Request(sender, code, iso_ms(now), iso_ms(now), {**meta, "accountId": account})
            self._put(channel, document, [*waiting, fresh])
            return fresh, True

    def approve(self, channel: str, code: str, account: str = "") -> Request:
        """Let in whoever has this code (or this id). Raises Unknown where nobody waits with it."""
        with self._changing(channel, self._pending_path(channel)) as document:
            waiting, request = self._waiting(channel, document, code, account)
            path = self._allow_paths(channel, request.account)[0]
            allowed = self._whole(path)
            held = allowed.get("allowFrom")
            names = [entry for entry in held if isinstance(entry, str)] if isinstance(held, list) else []
            if request.id not in names:
                gone = [entry for entry in _names(allowed, "revoked") if entry != request.id]
                more = {"revoked": gone} if "revoked" in allowed else {}
                self._write(path, {**allowed, **more, "version": 1, "allowFrom": [*names, request.id][-MAX_APPROVED:]})
            # Only now: a crash in between leaves a request that can be approved again.
            self._put(channel, document, [each for each in waiting if each is not request])
        return request

    def reject(self, channel: str, code: str, account: str = "") -> Request:
        """Forget a request. Whoever made it may ask again."""
        with self._changing(channel, self._pending_path(channel)) as document:
            waiting, request = self._waiting(channel, document, code, account)
            self._put(channel, document, [each for each in waiting if each is not request])
        return request

    def revoke(self, channel: str, sender: str, account: str = DEFAULT_ACCOUNT) -> bool:
        """Take the approval of somebody back; return whether there was one."""
        gone = False
        for path in self._allow_paths(channel, account):
            with self._changing(channel, path) as document:
                held = document.get("allowFrom")
                if isinstance(held, list) and sender in held:
                    self._write(path, {**document, "allowFrom": [entry for entry in held if entry != sender]})
                    gone = True
        if sender in self._database(_name(channel), normalize_account_id(account)) and sender in self.approved(
            channel, account
        ):
            path = self._allow_paths(channel, account)[0]
            with self._changing(channel, path) as document:
                self._write(path, {**document, "version": 1, "revoked": [*_names(document, "revoked"), sender]})
            gone = True
        return gone

    def _waiting(
        self, channel: str, document: Mapping[str, Any], code: str, account: str
    ) -> tuple[list[Request], Request]:
        waiting = _requests(document, self._clock.now())
        wanted = normalize_account_id(account) if account else ""
        for each in waiting:
            named = secrets.compare_digest(each.code.encode(), code.strip().upper().encode()) or each.id == code
            if named and (not wanted or each.account == wanted):
                return waiting, each
        cure = f"'homarus pairing list {channel}' shows who waits; a code is good for an hour"
        raise Unknown(f"nobody waits on {channel} with the code {single_line(code, 40)}", cure=cure)

    # Files

    def _pending_path(self, channel: str) -> Path:
        return self._folder / f"{_name(channel)}-pairing.json"

    def _allow_paths(self, channel: str, account: str) -> tuple[Path, ...]:
        account, name = normalize_account_id(account), _name(channel)
        own = self._folder / f"{name}-{account}-allowFrom.json"
        # The default account's list has the short name; a later version wrote the long one, too.
        return (self._folder / f"{name}-allowFrom.json", own) if account == DEFAULT_ACCOUNT else (own,)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            kept = self._kept.get(path)
            if kept is None or kept[0] != stamp:
                data = path.read_bytes() if found.st_size <= MAX_BYTES else b""
                document = msgspec.json.decode(data)
                kept = self._kept[path] = (stamp, document if isinstance(document, dict) else {})
            return kept[1]
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    @contextmanager
    def _changing(self, channel: str, path: Path) -> Iterator[dict[str, Any]]:
        ensure_dir(self._folder)
        lock = self._folder / f"{_name(channel)}-pairing.lock"
        held = OwnerLock.acquire(lock, purpose="pairing", now=self._clock.now(), wait=PATIENCE)
        try:
            yield self._whole(path)
        finally:
            held.release()

    def _whole(self, path: Path) -> dict[str, Any]:
        """Return what a file holds, before it is written anew; one that cannot be read is moved aside."""
        self._kept.pop(path, None)
        document = self._read(path)
        if not document and path.exists():
            move_aside(path, "damaged", self._clock.now())
        return dict(document)

    def _put(self, channel: str, document: dict[str, Any], requests: list[Request]) -> None:
        rows = [msgspec.to_builtins(request) for request in requests]
        self._write(self._pending_path(channel), {**document, "version": 1, "requests": rows})

    def _write(self, path: Path, document: dict[str, Any]) -> None:
        write_atomic(path, msgspec.json.format(msgspec.json.encode(document)))
        self._kept.pop(path, None)


def _names(document: Mapping[str, Any], key: str) -> list[str]:
    held = document.get(key)
    return [entry for entry in held if isinstance(entry, str)] if isinstance(held, list) else []


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _entries(path: Path) -> frozenset[tuple[str, str, str]]:
    import sqlite3

    from homarus.storage.sqlite import open_readonly

    try:
        connection = open_readonly(path)
        try:
            rows = connection.execute("SELECT channel_key, account_id, entry FROM channel_pairing_allow_entries")
            found = rows.fetchmany(MAX_APPROVED)
        finally:
            connection.close()
    except (sqlite3.Error, HomarusError, OSError):
        return frozenset()
    return frozenset(
        (name.lower(), normalize_account_id(account), entry)
        for name, account, entry in found
        if isinstance(name, str) and isinstance(account, str) and isinstance(entry, str)
    )


def owner_entry(channel: str, sender: str) -> str:
    """Return how `commands.ownerAllowFrom` names somebody. It is written there on the owner's word alone."""
    return f"{channel}:{sender}"


def _name(channel: str) -> str:
    """Return a channel's name as it may stand in the name of a file."""
    if not _CHANNEL.fullmatch(channel):
        raise Unknown(f"'{single_line(channel, 40)}' is no channel", cure="'homarus channels list' shows them")
    return channel


def _code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def _requests(document: Mapping[str, Any], now: datetime) -> list[Request]:
    held = document.get("requests")
    found: list[Request] = []
    for row in held if isinstance(held, list) else ():
        try:
            request = msgspec.convert(row, Request)
            made = datetime.fromisoformat(request.created_at)
            # One from the future would wait for ever.
            if timedelta(minutes=-5) <= now - made < LIFETIME:
                found.append(request)
        except (msgspec.ValidationError, ValueError, TypeError):
            continue
    return found
