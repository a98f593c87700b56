"""Jobs as they stand in `cron/jobs.json`, OpenClaw's format: read in every spelling, changed key by key, nothing else touched.

Several processes may change the file; each change reads it anew inside a lock. What a job may do is decided here: it never
has more rights than the turn that made it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, tzinfo
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.automation.schedule import Schedule, read_schedule, whole
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ConfigError, HomarusError, Unknown
from homarus.core.messages import Trust
from homarus.core.routes import DEFAULT_AGENT, SessionKey, SessionKind, main_session, named_session, normalize_agent_id
from homarus.core.text import single_line
from homarus.sessions.index import parse
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.faults import Missing, explained
from homarus.storage.locks import alone_in

Json = dict[str, Any]
MAX_JOBS = 500
MAX_TEXT = 100_000
WATCHDOG_SECONDS = 3_600.0
# What we note of a job's origin. Whoever edits a job cannot edit this.
ORIGIN = "homarus"
_FIXED = frozenset({"id", "createdAtMs", "updatedAtMs", "state", ORIGIN})
_log = logging.getLogger(__name__)


class Job(Struct, frozen=True, dict=True):
    """One job. `raw` is the object in the file; everything else is read from it, and a wrong value is an error when asked for."""

    raw: Json
    host: tzinfo = UTC

    @property
    def id(self) -> str:
        found = self.raw.get("id") or self.raw.get("jobId")
        return str(found) if found else ""

    @property
    def name(self) -> str:
        return single_line(str(self.raw.get("name") or self.text or self.id), 80)

    @property
    def enabled(self) -> bool:
        return self.raw.get("enabled", True) is True

    @property
    def agent_id(self) -> str:
        return normalize_agent_id(str(self.raw.get("agentId") or DEFAULT_AGENT))

    @property
    def state(self) -> Json:
        return _table(self.raw, "state")

    @property
    def payload(self) -> Json:
        return _table(self.raw, "payload")

    @property
    def kind(self) -> str:
        return str(self.payload.get("kind") or ("systemEvent" if "text" in self.payload else "agentTurn"))

    @property
    def text(self) -> str:
        found = self.payload.get("text" if self.kind == "systemEvent" else "message")
        return found if isinstance(found, str) else ""

    @property
    def target(self) -> str:
        default = "main" if self.kind == "systemEvent" else "isolated"
        return str(self.raw.get("sessionTarget") or default)

    @property
    def wakes_now(self) -> bool:
        return self.raw.get("wakeMode") != "next-heartbeat"

    @property
    def one_shot(self) -> bool:
        return self.schedule.kind == "at"

    @property
    def next_ms(self) -> int | None:
        return whole(self.state.get("nextRunAtMs"))

    @property
    def errors(self) -> int:
        """Return how often it has failed in a row."""
        return max(0, whole(self.state.get("consecutiveErrors")) or 0)

    @cached_property
    def schedule(self) -> Schedule:
        created = max(0, whole(self.raw.get("createdAtMs")) or 0)
        return read_schedule(self.raw.get("schedule"), job_id=self.id, created_ms=created, host=self.host)

    @property
    def seconds(self) -> float:
        found = whole(self.payload.get("timeoutSeconds")) or 0
        return float(found) if found > 0 else WATCHDOG_SECONDS

    @property
    def delivery(self) -> Json:
        """Return where the answer goes: `mode`, `channel`, `to` and so on, whichever era wrote it."""
        given, old = _table(self.raw, "delivery"), self.payload
        if given:
            mode = str(given.get("mode") or "announce")
            return {**given, "mode": "announce" if mode in {"deliver", "announce"} else mode}
        if old.get("deliver") is False or self.kind == "systemEvent":
            return {"mode": "none"}
        names = {"channel": "channel", "provider": "channel", "to": "to", "bestEffortDeliver": "bestEffort"}
        return {"mode": "announce", **{new: old[name] for name, new in names.items() if old.get(name)}}

    @property
    def trust(self) -> Trust:
        """Return with whose rights it runs. A job that nobody noted an origin of is the owner's, as its file is."""
        if ORIGIN not in self.raw:
            return Trust.OWNER
        found = _table(self.raw, ORIGIN).get("trust")
        return Trust(found) if found in set(Trust) else Trust.EXTERNAL

    @property
    def taint(self) -> tuple[str, ...]:
        found = _table(self.raw, ORIGIN).get("taint")
        return tuple(str(source) for source in found) if isinstance(found, list) else ()

    @property
    def tools(self) -> tuple[str, ...] | None:
        """Return the tools that it may use at most: those it was given, of those that its maker had; None for no bound."""
        lists = [_table(self.raw, ORIGIN).get("tools"), self.payload.get("toolsAllow")]
        bounds = [[str(name) for name in names] for names in lists if isinstance(names, list)]
        if not bounds:
            return None
        return tuple(name for name in bounds[0] if all(name in names for names in bounds[1:]))

    def session(self, run_id: str, main_key: str) -> SessionKey:
        """Return where a run takes place."""
        where = self.target
        if where == "current":
            where = f"session:{self.raw['sessionKey']}" if self.raw.get("sessionKey") else "isolated"
        if where == "main":
            return main_session(self.agent_id, main_key)
        if where.startswith("session:"):
            key = SessionKey.parse(where[8:], default_agent=self.agent_id, main_key=main_key)
            if key.agent_id != self.agent_id:
                raise ConfigError(f"{key} belongs to another agent", cure="give that agent a job of its own: agentId")
            return key
        return named_session(self.agent_id, SessionKind.CRON, self.id, run=run_id)

    def check(self) -> None:
        """Raise ConfigError for the first thing that keeps it from running."""
        if not self.id:
            raise ConfigError("the job has no id", cure="remove it from cron/jobs.json, or give it one")
        _ = self.schedule
        if self.kind not in {"systemEvent", "agentTurn"}:
            raise ConfigError(f"payload.kind is {self.kind!r}", cure="use systemEvent or agentTurn")
        key = "text" if self.kind == "systemEvent" else "message"
        if not self.text.strip() or len(self.text) > MAX_TEXT:
            raise ConfigError(f"payload.{key} is empty or too long", cure=f"say it in 1 to {MAX_TEXT:,} characters")
        if self.target == "main" and self.kind != "systemEvent":
            raise ConfigError("a job for the main session needs payload.kind systemEvent", cure="or use isolated")
        if self.target == "isolated" and self.kind != "agentTurn":
            raise ConfigError("an isolated job needs payload.kind agentTurn", cure="or use sessionTarget main")
        named = self.target.startswith("session:") and self.target != "session:"
        if self.target not in {"main", "isolated", "current"} and not named:
            raise ConfigError(f"sessionTarget is {self.target[:80]!r}", cure="use main, isolated or session:<key>")
        if self.delivery["mode"] not in {"none", "announce", "webhook"}:
            raise ConfigError(f"delivery.mode is {self.delivery['mode']!r}", cure="use none, announce or webhook")
        if self.delivery["mode"] == "webhook" and not _address(self.delivery):
            raise ConfigError("delivery.to is no web address", cure="write https://…")
        self.session("check", "main")

    @property
    def problem(self) -> str:
        try:
            self.check()
        except HomarusError as found:
            return str(found)
        return ""

    @property
    def webhook(self) -> str:
        return _address(self.delivery)

    def with_state(self, **fields: Any) -> Json:
        """Return the object with another state; None takes a field away."""
        state = {**self.state, **fields}
        return {**self.raw, "state": {key: value for key, value in state.items() if value is not None}}


def _table(raw: Json, key: str) -> Json:
    found = raw.get(key)
    return found if isinstance(found, dict) else {}


def _address(delivery: Json) -> str:
    found = str(delivery.get("url") or delivery.get("to") or "")
    return found if found.startswith(("https://", "http://")) else ""


def new_job(given: Json, ident: str, now_ms: int, *, host: tzinfo, origin: Json | None = None) -> Json:
    """Return the object of a new job, checked; what nobody said gets its usual value."""
    given = {key: value for key, value in given.items() if key not in _FIXED and value is not None}
    raw: Json = {"id": ident, "name": "", "enabled": True, "createdAtMs": now_ms, "updatedAtMs": now_ms, **given}
    job = Job(raw, host)
    raw["payload"] = {"kind": job.kind, **job.payload}
    raw["name"] = str(given.get("name") or single_line(job.text, 60))
    raw.setdefault("sessionTarget", job.target)
    raw.setdefault("wakeMode", "now")
    if job.kind == "agentTurn":
        raw.setdefault("delivery", Job(raw, host).delivery)
    if origin:
        raw[ORIGIN] = origin
    schedule = _table(raw, "schedule")
    if schedule:
        kind = read_schedule(schedule, host=host).kind
        raw["schedule"] = {"kind": kind, **schedule}
        if kind == "every":
            raw["schedule"].setdefault("anchorMs", now_ms)
        if kind == "at":
            raw.setdefault("deleteAfterRun", True)
    return _scheduled(raw, now_ms, host)


def patched(job: Job, patch: Json, now_ms: int, *, origin: Json | None = None) -> Json:
    """Return a job with some keys changed; None takes a key away. Only the schedule is replaced whole."""
    raw = deepcopy(job.raw)
    for key, value in patch.items():
        if key in _FIXED:
            continue
        old = raw.get(key)
        if value is None:
            raw.pop(key, None)
        elif key in {"payload", "delivery"} and isinstance(old, dict) and isinstance(value, dict):
            same = value.get("kind", old.get("kind")) == old.get("kind")
            raw[key] = {k: v for k, v in {**(old if same else {}), **value}.items() if v is not None}
        else:
            raw[key] = value
    raw["updatedAtMs"] = now_ms
    if origin:
        raw[ORIGIN] = _narrowed(job, origin)
    return _scheduled(raw, now_ms, job.host)


def _narrowed(job: Job, origin: Json) -> Json:
    """Return the origin of a job that another turn changed: the least trusted of both counts."""
    order = list(Trust)
    trust = max(job.trust, Trust(origin["trust"]), key=order.index)
    taint = list(dict.fromkeys([*job.taint, *origin.get("taint", [])]))
    bounds = [names for names in (_table(job.raw, ORIGIN).get("tools"), origin.get("tools")) if names is not None]
    tools = [name for name in bounds[0] if all(name in names for names in bounds)] if bounds else None
    return {"trust": trust.value, "taint": taint, **({"tools": tools} if tools is not None else {})}


def _scheduled(raw: Json, now_ms: int, host: tzinfo) -> Json:
    job = Job(raw, host)
    job.check()
    due = job.schedule.after(now_ms)
    if due is None and job.enabled:
        raise ConfigError("schedule.at is past", cure="give a moment that comes")
    return job.with_state(nextRunAtMs=due if job.enabled else None)


class JobBook:
    """The file of all jobs. Reading never changes it; a damaged one is moved aside before it is written anew."""

    def __init__(self, folder: Path, clock: Clock, host: Callable[[str], tzinfo]) -> None:
        self.folder = folder
        self.path = folder / "jobs.json"
        self._clock = clock
        self._host = host
        self._stamp: object = ()
        self._known: tuple[Job, ...] = ()
        self.problem = ""

    @property
    def stamp(self) -> object:
        """Return what changes whenever the file does."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, as they stand."""
        stamp = self.stamp
        if stamp != self._stamp or stamp is None:
            self._known = self._wrapped(self._read())
            self._stamp = stamp
        return self._known

    def get(self, ident: str) -> Job | None:
        return next((job for job in self.jobs() if job.id == ident), None)

    def find(self, word: str) -> Job:
        """Return a job by its id, the beginning of its id, or its name. Raises `Unknown` that lists what there is."""
        jobs = self.jobs()
        exact = [job for job in jobs if word == job.id]
        found = exact or [job for job in jobs if word and (job.id.startswith(word) or job.raw.get("name") == word)]
        if len(found) == 1:
            return found[0]
        shown = ", ".join(f"{job.id[:8]} ({job.name})" for job in (found or jobs)[:10])
        what = f"{len(found)} jobs are called" if found else "there is no job"
        cure = f"use one of: {shown}" if jobs else "there is none yet; 'homarus cron add' makes one"
        raise Unknown(f"{what} '{single_line(word, 60)}'", cure=cure)

    def add(self, raw: Json) -> None:
        def put(rows: list[Any]) -> list[Any]:
            if len(rows) >= MAX_JOBS:
                raise ConfigError(f"there are {len(rows)} jobs already", cure="remove some: homarus cron rm")
            return [*rows, raw]

        self._change(put)

    def change(self, ident: str, change: Callable[[Job], Json | None]) -> Json | None:
        """Give a job a new object, computed inside the lock; None removes it. Nothing happens to one that is gone."""
        done: list[Json | None] = []

        def put(rows: list[Any]) -> list[Any]:
            out = []
            for row in rows:
                job = self._one(row)
                if job is None or job.id != ident or done:
                    out.append(row)
                    continue
                done.append(change(job))
                out += [done[0]] if done[0] is not None else []
            return out

        self._change(put)
        return done[0] if done else None

    def _change(self, change: Callable[[list[Any]], list[Any]]) -> None:
        ensure_dir(self.folder)
        with alone_in(self.folder):
            store = self._read()
            rows = change(list(store["jobs"]))
            if rows == store["jobs"]:
                return
            if self.problem:
                aside = move_aside(self.path, "corrupt", self._clock.now())
                _log.warning("%s could not be read and lies in %s now", self.path, aside.name)
                self.problem = ""
            write_atomic(
                self.path, json.dumps({**store, "jobs": rows}, ensure_ascii=False, indent=2).encode(errors="replace")
            )
            self._stamp = ()

    def _read(self) -> Json:
        """Return the file's object; the older form is a bare list."""
        self.problem = ""
        try:
            with explained("read", self.path):
                data = self.path.read_bytes()
        except Missing:
            return {"version": 1, "jobs": []}
        value = parse(data) if data.strip() else {}
        if isinstance(value, list):
            return {"version": 1, "jobs": value}
        if not isinstance(value, dict) or not isinstance(value.get("jobs", []), list):
            self.problem = f"{self.path} is damaged: no job of it runs (mend it, or move it away)"
            return {"version": 1, "jobs": []}
        return {**value, "version": value.get("version", 1), "jobs": value.get("jobs", [])}

    def _one(self, row: Any) -> Job | None:
        if not isinstance(row, dict):
            return None
        plain = Job(row)
        return Job(row, self._host(plain.agent_id))

    def _wrapped(self, store: Json) -> tuple[Job, ...]:
        jobs = [self._one(row) for row in store["jobs"]]
        return tuple(job for job in jobs if job is not None and job.id)

    def now_ms(self) -> int:
        return epoch_ms(self._clock.now())
