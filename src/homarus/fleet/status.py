"""What the rows of a fleet say to those who look after it: who lives, who holds what, what waits, what is wrong."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.core.errors import ConfigError, HomarusError, StorageError, Unknown
from homarus.fleet.database import Database
from homarus.fleet.homes import UNFINISHED
from homarus.fleet.objects import PACKED, Store
from homarus.fleet.placement import TTL
from homarus.fleet.schema import VERSION
from homarus.fleet.settings import SHORTEST_SECRET, Fleet
from homarus.fleet.transfer import shown

LATE_SECONDS = 10.0
MANY = 10_000
OLDEST_POSTGRES = 13
_ALIVE = "w.beat > clock_timestamp() - make_interval(secs => $1)"
# Settings of the server with which it may forget what it said it had.
_FORGETS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def status(database: Database) -> dict[str, Any]:
    """Return a fleet at a glance. However many homes there are, none of them is looked at: they are counted as they come and go."""
    found = workers(database)
    # One question. What waits is counted up to a point: beyond it the number says nothing more.
    # An index is searched only for a moment that stays the same while it is: not for `clock_timestamp`.
    now = database.rows(
        """select (select count from tally where name = 'homes') as total, (select max(version) from schema_version) as version,
        mail.n as letters, mail.oldest, late.n as late, late.most
        from (select count(*) as n, extract(epoch from clock_timestamp() - min(at))::float8 as oldest
          from (select at from mail limit $1) as letters) as mail,
        (select count(*) as n, extract(epoch from clock_timestamp() - min(due))::float8 as most from (select due from timer
          where due < statement_timestamp() - make_interval(secs => $2) order by due limit $1) as due) as late""",
        MANY, LATE_SECONDS,
    )[0]  # fmt: skip
    total = now["total"]
    held = min(total, sum(each["homes"] for each in found if each["alive"]))
    return {
        "homes": total,
        "held": held,
        "free": total - held,
        "workers": found,
        "mail": {"waiting": now["letters"], "oldestSeconds": round(now["oldest"] or 0, 1)},
        "timers": {"late": now["late"], "latestSeconds": round(now["most"] or 0, 1)},
        "schema": now["version"],
    }


def workers(database: Database) -> list[dict[str, Any]]:
    """Return every worker with what it said of itself at its last beat."""
    rows = database.rows(
        f"""select w.name, w.address, w.version, w.draining, w.homes, {_ALIVE} as alive,
        extract(epoch from clock_timestamp() - w.beat)::float8 as silent,
        extract(epoch from clock_timestamp() - w.started)::float8 as up from worker w order by w.name""",  # noqa: S608
        TTL,
    )
    return [
        {
            "worker": row["name"], "address": row["address"], "alive": row["alive"], "draining": row["draining"],
            "homes": row["homes"], "silentSeconds": round(row["silent"], 1), "upSeconds": round(row["up"]),
            "schema": row["version"],
        }
        for row in rows
    ]  # fmt: skip


def homes(
    database: Database, *, tenant: str = "", worker: str = "", begins: str = "", limit: int = 100
) -> list[dict[str, Any]]:
    """Return homes by name, each with who holds it."""
    rows = database.rows(
        f"""select h.home, h.tenant, h.format, h.quota::text as quota, l.epoch, l.worker, l.wish, {_ALIVE} as alive
        from home h left join lease l using (home) left join worker w on w.name = l.worker
        where ($2 = '' or h.tenant = $2) and ($3 = '' or l.worker = $3) and h.home >= $4
        and ($4 = '' or starts_with(h.home, $4)) order by h.home limit $5""",  # noqa: S608 - a constant
        TTL, tenant, worker, begins, limit,
    )  # fmt: skip
    return [
        {
            "home": row["home"], "tenant": row["tenant"], "worker": row["worker"] if row["alive"] else None,
            "epoch": row["epoch"], "moving": row["wish"], "unfinished": row["format"] >= UNFINISHED, "quota": row["quota"],
        }
        for row in rows
    ]  # fmt: skip


def usage(database: Database, home: str) -> dict[str, int]:
    """Return what a home stores."""
    found = database.rows(
        """select (select count(*) from file where home = $1) as files,
        (select coalesce(sum(size), 0)::bigint from file where home = $1)
          + (select coalesce(sum(length(bytes)), 0)::bigint from line where home = $1) as bytes""",
        home,
    )[0]
    return {"files": found["files"], "bytes": found["bytes"]}


def move(database: Database, home: str, worker: str) -> None:
    """Let a home go to another worker when its turn has ended. Raises Unknown where one of them is not there."""
    found = database.rows(
        f"""update lease set wish = $3 where home = $2
        and exists (select from worker w where w.name = $3 and not w.draining and {_ALIVE}) returning 1""",  # noqa: S608
        TTL, home, worker,
    )  # fmt: skip
    if found:
        return
    if not database.rows("select 1 from lease where home = $1", home):
        raise Unknown(f"there is no home '{shown(home)}'", cure="see: homarus fleet homes")
    raise Unknown(f"no worker '{shown(worker)}' lives and takes homes", cure="see: homarus fleet workers")


def drain(database: Database, worker: str, *, on: bool = True) -> None:
    if not database.rows("update worker set draining = $2 where name = $1 returning 1", worker, on):
        raise Unknown(f"there is no worker '{shown(worker)}'", cure="see: homarus fleet workers")


def metrics(found: Mapping[str, Any]) -> str:
    """Return a status as Prometheus reads it; who the tenants are stands nowhere in it."""
    rows = [
        ("homes", found["homes"]), ("homes_free", found["free"]), ("mail_waiting", found["mail"]["waiting"]),
        ("mail_oldest_seconds", found["mail"]["oldestSeconds"]), ("timers_late", found["timers"]["late"]),
        ("workers_alive", sum(each["alive"] for each in found["workers"])),
    ]  # fmt: skip
    lines = [
        line for name, value in rows for line in (f"# TYPE homarus_fleet_{name} gauge", f"homarus_fleet_{name} {value}")
    ]
    lines.append("# TYPE homarus_fleet_worker_homes gauge")
    lines += [
        f'homarus_fleet_worker_homes{{worker="{_label(each["worker"])}"}} {each["homes"]}' for each in found["workers"]
    ]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")[:200]


class Check(Struct, frozen=True):
    """One thing that was looked at: ok, note (worth knowing), warn or bad; and what cures it."""

    state: str
    what: str
    cure: str = ""


def examine(fleet: Fleet, database: Database, store: Store | None, *, deep: bool = False) -> Iterator[Check]:
    """Look through a fleet. `deep` also asks the store for every object that a row names."""
    yield from _settings(fleet)
    try:
        database.check()
    except (ConfigError, StorageError) as problem:
        yield Check("bad", problem.message, problem.cure)
        return
    yield Check("ok", f"the tables are at step {VERSION}")
    yield from _server(database)
    yield from _placed(database)
    yield from _rows(database)
    if store is not None and (fleet.objects.startswith("s3://") or Path(fleet.objects).is_dir()):
        yield from _objects(database, store, deep=deep)


def _settings(fleet: Fleet) -> Iterator[Check]:
    if len(fleet.secret) < SHORTEST_SECRET:
        yield Check("bad", "edge and workers share no secret, or a short one", "homarus fleet init")
    if not fleet.objects:
        yield Check("warn", "there is no store: large files and long transcripts fill the database", "set 'objects'")
    elif not fleet.objects.startswith("s3://"):
        yield Check("note", f"objects lie in the folder {shown(fleet.objects)}: every machine must see the same one")
        if not Path(fleet.objects).is_dir():  # and a trial would make it, for whoever runs the doctor
            yield Check("warn", f"{shown(fleet.objects)} is no folder yet", "make it, for the user of the workers")


def _server(database: Database) -> Iterator[Check]:
    number = int(database.rows("show server_version_num")[0]["server_version_num"])
    if number // 10000 < OLDEST_POSTGRES:
        yield Check("bad", f"Postgres {number // 10000} is too old", f"take {OLDEST_POSTGRES} or newer")
    else:
        yield Check("ok", f"Postgres {number // 10000}")
    for name, value in _FORGETS.items():
        if database.rows(f"show {name}")[0][name] == value:
            yield Check(
                "bad", f"{name} is {value}: what was acknowledged can be lost in a power cut", f"set {name} = on"
            )
    standbys = database.rows("show synchronous_standby_names")[0]["synchronous_standby_names"]
    if not standbys:
        yield Check("note", "no standby must confirm a commit: the loss of this server loses its last moments",
                    "set synchronous_standby_names, or take a managed Postgres")  # fmt: skip
    long = database.rows(
        """select count(*) as n from pg_stat_activity where state like 'idle in transaction%'
        and state_change < clock_timestamp() - interval '10 seconds'"""
    )[0]["n"]
    if long:
        yield Check("warn", f"{long} connections sit in an open transaction, and others wait for them")


def _placed(database: Database) -> Iterator[Check]:
    found = status(database)
    dead = [each["worker"] for each in found["workers"] if not each["alive"]]
    if not any(each["alive"] and not each["draining"] for each in found["workers"]):
        yield Check("bad" if found["homes"] else "note", "no worker takes homes", "homarus fleet worker")
    if dead:
        yield Check(
            "warn", f"workers that fell silent: {', '.join(map(shown, dead))}", "their homes go to others by themselves"
        )
    if found["free"]:
        yield Check(
            "warn", f"{found['free']:,} homes are held by nobody right now", "wait some seconds, then look again"
        )
    if found["mail"]["oldestSeconds"] > 60:
        yield Check(
            "warn",
            f"web hooks wait for {found['mail']['oldestSeconds']:.0f} s",
            "a home cannot be opened: see its worker's log",
        )
    versions = {each["schema"] for each in found["workers"] if each["alive"]}
    if len(versions) > 1:
        yield Check("note", f"workers of {len(versions)} versions: an upgrade is under way")
    for row in database.rows("select home from home where format >= $1 limit 20", UNFINISHED):
        yield Check(
            "warn",
            f"home {row['home']} was brought in only in part",
            f"homarus fleet import {row['home']} FOLDER --replace",
        )


def _rows(database: Database) -> Iterator[Check]:
    try:
        holes = database.rows(
            """select home, path from (select l.home, l.path, l.at, f.size,
              lag(l.at + length(l.bytes)) over (partition by l.home, l.path order by l.at) as before
              from line l left join file f using (home, path)) as pieces
            where size is null or at <> coalesce(before, size) limit 20""",
            patience=0,
        )
    except StorageError:
        yield Check("note", "there are too many lines to look for holes in one go")
        return
    for row in holes:
        yield Check(
            "bad", f"the lines of {shown(row['path'])} in {row['home']} have a hole", "restore this home from a backup"
        )
    if not holes:
        yield Check("ok", "every log is whole")


def _objects(database: Database, store: Store, *, deep: bool) -> Iterator[Check]:
    async def listed() -> set[str]:
        return {key async for key in store.objects.keys("")}

    async def tried() -> None:
        """Put something there and take it away again: a store that takes nothing keeps no large file."""
        trial = f"doctor-{secrets.token_hex(8)}"
        await store.objects.put(trial, [b"a trial of 'homarus fleet doctor'"])
        await store.objects.remove(trial)

    try:
        there = store.wait(listed())
        store.wait(tried())
    except HomarusError as problem:
        yield Check("bad", problem.message, problem.cure)
        return
    named = {
        f"{row['home']}/{row['object']}{PACKED}"
        for row in database.stream("select home, object from file where object is not null")
    }
    missing = sorted(named - there)
    for key in missing[:20]:
        yield Check("bad", f"the object {key} is gone", "restore it from a copy of the store")
    if not missing:
        yield Check("ok", f"{len(named):,} objects are there")
    if spare := len(there - named):
        yield Check(
            "note", f"{spare:,} objects belong to no file any more", "'homarus fleet doctor --sweep' removes those"
        )
    if deep:
        for key in sorted(named & there):
            home, _, name = key.partition("/")
            try:
                for _ in store.get(home, name.removesuffix(PACKED)):
                    pass
            except StorageError as problem:
                yield Check("bad", problem.message, problem.cure)


def sweep(database: Database, store: Store) -> int:
    """Remove objects that no file names. Whoever is being stored at this moment names them after they are there: so look twice."""

    async def spare() -> set[str]:
        there = {key async for key in store.objects.keys("")}
        rows = await asyncio.to_thread(database.rows, "select home, object from file where object is not null")
        return there - {f"{row['home']}/{row['object']}{PACKED}" for row in rows}

    async def both() -> set[str]:
        before = await spare()
        await asyncio.sleep(60)
        return before & await spare()

    gone = store.wait(both())
    for key in gone:
        store.wait(store.objects.remove(key))
    return len(gone)
