"""Credentials: the profiles an agent stores, and keys from the environment and the configuration as a last resort.

`auth-profiles.json` is OpenClaw's own file: what we do not understand in it survives every rewrite.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ModelFailure, StorageError
from homarus.models.ref import normalize_provider
from homarus.models.rotation import Credential, Pin, Stats, after_failure, after_success, ordered
from homarus.models.settings import AuthSettings
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.locks import PATIENCE, OwnerLock

FILE = "auth-profiles.json"
VERSION = 1
DATABASE = "openclaw-agent.sqlite"
# How often a successful use is written down; a failure is written at once.
USED_EVERY_MS = 10 * 60 * 1000
_SECRETS = {"api_key": ("key", "apiKey", "keyRef"), "token": ("token", "tokenRef"), "oauth": ("access",)}
Resolve = Callable[[Any], str]
_log = logging.getLogger(__name__)


class AuthStore:
    """One agent's profiles and what happened to them. Reads the file when it changed; writes under a lock, owner-only."""

    def __init__(
        self, agent_dir: Path, *, clock: Clock, resolve: Resolve = str, parent: AuthStore | None = None
    ) -> None:
        self.path = _place(agent_dir)
        self._file = str(self.path)
        self._clock = clock
        self.resolve = resolve
        self._parent = parent
        self._document: dict[str, Any] = {}
        self._stamp: tuple[int, int] | None = None
        self._loaded = False
        # Uses that are not on disk yet, and everything about keys that no profile holds.
        self._memory: dict[str, Stats] = {}

    def _read(self) -> dict[str, Any]:
        try:
            found = os.stat(self._file)  # noqa: PTH116 - several times a turn
            stamp: tuple[int, int] | None = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamp = None
        if not self._loaded or stamp != self._stamp:
            self._document, self._stamp, self._loaded = read_document(self.path), stamp, True
        return self._document

    def credentials(self, provider: str) -> list[Credential]:
        """Return the stored profiles of a provider, those of the main agent after this agent's own where they are shared."""
        profiles = self._read().get("profiles")
        found: list[Credential] = []
        if profiles and isinstance(profiles, dict):
            found = self._profiles(provider, profiles)
        if self._parent is not None:
            own = {item.id for item in found}
            found += [item for item in self._parent.credentials(provider) if item.id not in own]
        return found

    def _profiles(self, provider: str, profiles: dict[str, Any]) -> list[Credential]:
        found = []
        for name, raw in profiles.items():
            if not isinstance(raw, dict) or normalize_provider(str(raw.get("provider", ""))) != provider:
                continue
            kind = str(raw.get("type", "api_key"))
            secret = next((raw[key] for key in _SECRETS.get(kind, ("key",)) if raw.get(key)), None)
            text = self.resolve(secret) if secret is not None else ""
            if text:
                expires = raw.get("expires")
                found.append(Credential(name, provider, kind, text, expires if isinstance(expires, int) else 0))
        return found

    def stored_order(self, provider: str) -> list[str] | None:
        return _of(self._read().get("order"), provider)

    def stats(self, profile: str) -> Stats:
        if profile in self._memory:
            return self._memory[profile]
        raw = self._read().get("usageStats")
        entry = raw.get(profile) if isinstance(raw, dict) else None
        if isinstance(entry, dict):
            try:
                return msgspec.convert({k: v for k, v in entry.items() if v is not None}, Stats)
            except msgspec.ValidationError:
                return Stats()
        return self._parent.stats(profile) if self._parent is not None and not self.holds(profile) else Stats()

    def holds(self, profile: str) -> bool:
        profiles = self._read().get("profiles")
        return isinstance(profiles, dict) and profile in profiles

    def owner(self, profile: str) -> AuthStore:
        """Return the store whose file has a profile: this one, or the main agent's where that is shared."""
        return self._parent if self._parent is not None and not self.holds(profile) else self

    def profile(self, profile: str) -> dict[str, Any]:
        """Return a profile of this agent's own file as it is stored, read anew."""
        self._loaded = False
        found = (self._read().get("profiles") or {}).get(profile)
        return found if isinstance(found, dict) else {}

    def failed(self, credential: Credential, kind: ModelFailure, model: str) -> None:
        before = self.stats(credential.id)
        after = after_failure(before, kind, model, epoch_ms(self._clock.now()))
        if after != before:
            self.note(credential.id, after, write=True)

    def succeeded(self, credential: Credential) -> None:
        """Note a success; it clears every rest."""
        before, now = self.stats(credential.id), epoch_ms(self._clock.now())
        rested = before.error_count or before.cooldown_until or before.disabled_until
        write = bool(rested) or now - before.last_used > USED_EVERY_MS
        self.note(credential.id, after_success(now), write=write)

    def note(self, profile: str, stats: Stats, *, write: bool) -> None:
        """Remember stats, on disk if asked to; a disk that refuses does not fail the turn, memory then has to do."""
        if not self.holds(profile):
            if self._parent is not None and self._parent.holds(profile):
                self._parent.note(profile, stats, write=write)
                return
            write = False
        self._memory[profile] = stats
        if not write:
            return
        entry = msgspec.to_builtins(stats)
        fields = [field.encode_name for field in msgspec.structs.fields(Stats)]

        def change(document: dict[str, Any]) -> None:
            all_stats = document.setdefault("usageStats", {})
            kept = {key: value for key, value in all_stats.get(profile, {}).items() if key not in fields}
            all_stats[profile] = {**kept, **entry}

        try:
            update(self.path, change, self._clock.now())
        except StorageError as problem:
            _log.warning("the state of auth profile %s is kept in memory only: %s", profile, problem)
            return
        self._memory.pop(profile, None)
        self._loaded = False

    def put(self, profile: str, value: dict[str, Any]) -> None:
        """Store a profile; fields of an older one with the same id that are not given again survive."""

        def change(document: dict[str, Any]) -> None:
            profiles = document.setdefault("profiles", {})
            profiles[profile] = {**profiles.get(profile, {}), **value}

        update(self.path, change, self._clock.now())
        self._loaded = False

    def remove(self, profile: str) -> bool:
        """Delete a profile and its history; say whether there was one."""
        if not self.holds(profile):
            return False

        def change(document: dict[str, Any]) -> None:
            for part in ("profiles", "usageStats"):
                if isinstance(document.get(part), dict):
                    document[part].pop(profile, None)

        update(self.path, change, self._clock.now())
        self._loaded = False
        return True


def env_credentials(provider: str, names: tuple[str, ...], env: Mapping[str, str]) -> list[Credential]:
    """Return keys from the environment: the plain name, its plural with a list, and its numbered forms."""
    keys: dict[str, str] = {}
    for name in names:
        several = env.get(f"{name}S", "").replace(";", ",").split(",")
        numbered = [env.get(f"{name}_{number}", "") for number in range(1, 10)]
        for position, key in enumerate([env.get(name, ""), *several, *numbered]):
            if key.strip() and key.strip() not in keys.values():
                keys[f"env:{name}" + (f":{position}" if position else "")] = key.strip()
    return [Credential(name, provider, "api_key", key) for name, key in keys.items()]


def candidates(
    store: AuthStore,
    provider: str,
    *,
    model: str,
    last_resort: Sequence[Credential],
    settings: AuthSettings,
    clock: Clock,
    pin: Pin | None = None,
) -> tuple[Credential, ...]:
    """Return every credential for a model in the order in which to try them: profiles first, bare keys after them."""
    stored = store.credentials(provider)
    now = epoch_ms(clock.now())
    known = {item.id for item in stored}
    named = {
        name for name, raw in settings.profiles.items() if normalize_provider(str(raw.get("provider"))) == provider
    }
    # The configuration may name which of the stored profiles are meant; their order is still the usual one.
    meant = [item for item in stored if item.id in named] or stored
    order = store.stored_order(provider) or _of(settings.order, provider) or []
    explicit = [name for name in order if name in known]
    stats = {item.id: store.stats(item.id) for item in [*stored, *last_resort]}
    first = ordered(stored if explicit else meant, stats, model=model, now=now, explicit=explicit or None, pin=pin)
    return (*first, *ordered(last_resort, stats, model=model, now=now, explicit=[item.id for item in last_resort]))


def _of(table: Any, provider: str) -> list[str] | None:
    """Return a provider's list out of a table, however its name is written there."""
    for name, listed in table.items() if isinstance(table, dict) else ():
        if normalize_provider(name) == provider and isinstance(listed, list):
            return [item for item in listed if isinstance(item, str)]
    return None


def _place(agent_dir: Path) -> Path:
    """Return where the file is: in the agent's folder, or in the `agent` folder below an `agentDir` that was given short."""
    below = agent_dir / "agent" / FILE
    return below if below.is_file() and not (agent_dir / FILE).is_file() else agent_dir / FILE


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
    with OwnerLock.acquire(path.with_suffix(".json.lock"), purpose="auth profiles", now=now, wait=PATIENCE):
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
    except (OSError, ValueError):
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
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}
