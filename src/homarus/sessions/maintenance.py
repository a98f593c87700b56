"""What may be put away: old rows, old archives, and the oldest of what is too much. The plan is pure; reading never prunes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from homarus.config.view import Config
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, Locked
from homarus.sessions.log import session_id_of
from homarus.sessions.places import Kind, files_in, owner_of
from homarus.sessions.settings import MaintenanceSettings, SessionSettings, seconds, size
from homarus.sessions.store import SessionInfo, SessionStore
from homarus.storage.atomic import remove
from homarus.storage.volume import changed

CRON_RUN_SECONDS = 86_400.0  # `cron.sessionRetention`


class Stored(Struct, frozen=True):
    path: Path
    bytes: int
    changed: int
    archive: bool


class Removal(Struct, frozen=True):
    """One thing to put away, and why. A session goes to the archives, an archive goes for good."""

    what: str
    reason: str
    bytes: int = 0
    session: str = ""
    path: Path | None = None


class Plan(Struct, frozen=True):
    removals: tuple[Removal, ...]
    entries: int
    bytes: int
    kept: int

    @property
    def freed(self) -> int:
        return sum(removal.bytes for removal in self.removals if removal.path)


def make_plan(
    sessions: Sequence[SessionInfo],
    files: Sequence[Stored],
    settings: MaintenanceSettings,
    now: int,
    *,
    busy: frozenset[str] = frozenset(),
    cron_seconds: float = CRON_RUN_SECONDS,
) -> Plan:
    """Decide what goes. Main, pinned, busy, group and thread sessions never do."""
    free = [info for info in sessions if info.indexed and info.name not in busy and not protected(info)]
    free.sort(key=lambda info: info.entry.updated_at)
    gone: dict[str, Removal] = {}
    after = seconds(settings.prune_after)
    for info in free:
        age = (now - info.entry.updated_at) / 1000
        if info.key.is_cron and info.key.run and age > cron_seconds:
            gone[info.name] = Removal(info.name, "a finished run of a job", session=info.name)
        elif after and age > after:
            gone[info.name] = Removal(info.name, f"unused for {age / 86400:.0f} days", session=info.name)
    over = len(sessions) - len(gone) - settings.max_entries
    for info in free:
        if over > 0 and info.name not in gone:
            gone[info.name] = Removal(info.name, f"more than {settings.max_entries} sessions", session=info.name)
            over -= 1
    old = _old_archives(files, settings, now)
    total = sum(file.bytes for file in files)
    extra = _over_budget(files, settings, total - sum(r.bytes for r in old), {r.path for r in old})
    removals = (*gone.values(), *old, *extra)
    return Plan(removals, len(sessions), total, len(sessions) - len(gone))


def protected(info: SessionInfo) -> bool:
    if info.entry.pinned_at or info.entry.status == "running":
        return True
    try:
        key = info.key
    except ConfigError:
        return True
    return key.is_main or key.chat_type != "direct"


def _old_archives(files: Sequence[Stored], settings: MaintenanceSettings, now: int) -> list[Removal]:
    keep = settings.reset_archive_retention
    limit = None if keep is False else seconds(keep) if keep not in {None, True} else seconds(settings.prune_after)
    if not limit:
        return []
    archives = (file for file in files if file.archive and (now - file.changed) / 1000 > limit)
    return [Removal(file.path.name, "an archive past its time", file.bytes, path=file.path) for file in archives]


def _over_budget(
    files: Sequence[Stored], settings: MaintenanceSettings, left: int, gone: set[Path | None]
) -> list[Removal]:
    """Choose archives, the oldest first, until the folder is below its mark; live transcripts are never chosen."""
    most = size(settings.max_disk_bytes)
    if most is None or left <= most:
        return []
    mark = size(settings.high_water_bytes)
    mark = int(most * 0.8) if mark is None or mark > most else mark
    chosen = []
    for file in sorted((f for f in files if f.archive and f.path not in gone), key=lambda f: f.changed):
        if left <= mark:
            break
        chosen.append(Removal(file.path.name, "the folder is over its size", file.bytes, path=file.path))
        left -= file.bytes
    return chosen


def plan_for(store: SessionStore, settings: MaintenanceSettings, *, cron_seconds: float = CRON_RUN_SECONDS) -> Plan:
    infos = [info for info in store.list() if info.place.kind is Kind.FILE]
    busy = frozenset(info.name for info in infos if owner_of(info.place.path) is not None)
    files = []
    for place in files_in(store.folder, store.agent_id):
        found = place.path.stat()
        files.append(Stored(place.path, found.st_size, int(found.st_mtime * 1000), place.kind is Kind.ARCHIVE))
    return make_plan(infos, files, settings, epoch_ms(store.clock.now()), busy=busy, cron_seconds=cron_seconds)


def drop_results(folder: Path, session_id: str) -> None:
    """Remove the files that hold the whole of a session's long results, when nothing is left that speaks of them."""
    if session_id and session_id not in {".", ".."} and Path(session_id).name == session_id:
        shutil.rmtree(folder / session_id, ignore_errors=True)
        changed(folder)


def tidy(config: Config, store: SessionStore, *, enforce: bool) -> dict[str, Any]:
    """Plan by the rules of a home, do it if asked, and return the plan and what could not be done, as JSON has it."""
    rules, retention = config.block("session", SessionSettings).maintenance, config.get("cron.sessionRetention")
    cron = float("inf") if retention is False else seconds(retention) or CRON_RUN_SECONDS
    plan = plan_for(store, rules, cron_seconds=cron)
    failed = carry_out(store, plan, results=config.paths.own_dir / "overflow") if enforce else []
    facts = {"agentId": store.agent_id, "enforced": enforce, "failed": failed, "freed": plan.freed}
    return {**facts, **to_builtins(plan, enc_hook=str)}


def carry_out(store: SessionStore, plan: Plan, *, results: Path | None = None) -> list[str]:
    """Do what a plan says and return what could not be done; one busy session does not stop the rest.

    With the last transcript of a session go its files in `results`.
    """
    failed = []
    gone: set[str] = set()
    for removal in plan.removals:
        try:
            if removal.path is not None:
                remove(removal.path)
                gone.add(session_id_of(removal.path))
            else:
                store.delete(store.key(removal.session))
        except Locked as error:
            failed.append(f"{removal.what}: {error}")
    if results is not None and gone:
        for session_id in gone - {place.session_id for place in files_in(store.folder, store.agent_id)}:
            drop_results(results, session_id)
    return failed
