"""Who holds which home: workers that beat, leases with an epoch, adoption of what nobody holds. Only the database's clock counts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from homarus.fleet.database import Database
from homarus.fleet.rows import Lease
from homarus.fleet.schema import FORMAT, VERSION

_log = logging.getLogger(__name__)
BEAT = 0.4  # seconds between two signs of life
TTL = 2.0  # seconds without one, after which a worker's homes are anybody's
BATCH = 500  # homes taken in one statement
# Every name in the leases by itself, found by leaps through their index: a million homes have a few dozen.
_FREE = """recursive names as (
  (select worker from lease where worker is not null order by worker limit 1) union all
  select (select worker from lease where worker > names.worker order by worker limit 1) from names where worker is not null),
dead as (select n.worker from names n left join worker w on w.name = n.worker where n.worker is not null
  and (w.name is null or w.beat < clock_timestamp() - make_interval(secs => $2)))"""


class Owner(msgspec.Struct, frozen=True):
    """Who answers for a home now. `address` is empty while nobody does."""

    home: str
    worker: str = ""
    address: str = ""
    epoch: int = 0


class Pulse(msgspec.Struct, frozen=True):
    """What a worker hears when it gives a sign of life: how many homes it has by the rows, and whether it is to empty itself."""

    homes: int
    draining: bool = False


class Placement:
    """The leases of one worker. Every method is one statement, and right when it is carried out twice."""

    def __init__(self, database: Database, worker: str, *, ttl: float = TTL, pulse: Database | None = None) -> None:
        self.worker, self.ttl = worker, ttl
        self._database, self._line = database, pulse or database
        self.life: Any = None  # when this life of the worker began, by the database
        self._heard: Any = None  # when it was heard last

    async def join(self, address: str) -> None:
        """Begin a life: what an earlier one of this name held is nobody's now, so nothing of it can write any more."""
        rows = await self._database.ask(
            """with freed as (update lease set worker = null, epoch = epoch + 1, since = clock_timestamp() where worker = $1)
            insert into worker (name, address, version) values ($1, $2, $3)
            on conflict (name) do update set address = excluded.address, version = excluded.version,
              started = clock_timestamp(), beat = clock_timestamp(), draining = false, homes = 0
            returning started, beat""",
            self.worker, address, VERSION,
        )  # fmt: skip
        self.life, self._heard = rows[0]["started"], rows[0]["beat"]

    async def beat(self, *, patience: float | None = None) -> Pulse | None:
        """Give a sign of life; None when another process took this name, or an operator removed it."""
        rows = await self._line.ask(
            """update worker set beat = clock_timestamp(), homes = (select count(*) from lease where worker = $1)
            where name = $1 and started = $2 returning homes, draining, beat""",
            self.worker, self.life, patience=patience,
        )  # fmt: skip
        self._heard = rows[0]["beat"] if rows else self._heard
        return Pulse(rows[0]["homes"], rows[0]["draining"]) if rows else None

    async def retire(self) -> None:
        """Count for nothing in what each worker's share is, so that the others take all that this one gives away."""
        await self._database.ask(
            "update worker set draining = true where name = $1 and started = $2", self.worker, self.life, patience=5
        )

    async def leave(self) -> None:
        """End this life: the homes are free at once."""
        await self._database.ask(
            """with freed as (update lease set worker = null, epoch = epoch + 1 where worker = $1)
            delete from worker where name = $1 and started = $2""",
            self.worker, self.life,
        )  # fmt: skip

    async def held(self) -> dict[str, int]:
        """Return the homes that are this worker's, with their epochs."""
        rows = await self._database.ask("select home, epoch from lease where worker = $1", self.worker)
        return {row["home"]: row["epoch"] for row in rows}

    async def homes(self) -> int:
        return int((await self._database.ask("select count from tally where name = 'homes'"))[0]["count"])

    async def workers(self) -> int:
        """Return how many workers live and stay."""
        rows = await self._database.ask(
            """select count(*) as count from worker
            where not draining and beat > clock_timestamp() - make_interval(secs => $1)""",
            self.ttl,
        )
        return int(rows[0]["count"])

    async def adopt(self, most: int) -> list[Lease]:
        """Take homes whose worker is dead or that have none, and those that are to come here; at most so many.

        A question that was asked before the database was away and is heard after it finds everybody silent: it takes nothing.
        """
        if most <= 0:
            return []
        rows = await self._database.ask(
            f"""with {_FREE}, free as (
              select l.home from lease l join home h using (home)
              where (l.worker is null or l.worker = any(array(select worker from dead where worker <> $1))) and h.format <= $4
                and clock_timestamp() - $5::timestamptz < make_interval(secs => $2 / 2)
                and (l.wish is null or l.wish = $1
                  or not exists (select from worker o where o.name = l.wish
                    and o.beat > clock_timestamp() - make_interval(secs => $2)))
              order by l.wish = $1 desc nulls last limit $3 for update of l skip locked)
            update lease set worker = $1, epoch = epoch + 1, since = clock_timestamp(), wish = null
            from free where lease.home = free.home returning lease.home, lease.epoch""",  # noqa: S608 - a constant
            self.worker, self.ttl, min(most, BATCH), FORMAT, self._heard,
        )  # fmt: skip
        if rows:
            _log.info("%s took %d homes", self.worker, len(rows))
        return [Lease(row["home"], row["epoch"], self.worker) for row in rows]

    async def take(self, home: str) -> Lease | None:
        """Take one home if nobody alive has it; None otherwise, and when another was quicker."""
        rows = await self._database.ask(
            # A row that changed while it was being locked is looked at again, but not the tables beside it: so who lives is asked by itself.
            """with free as (
              select l.home from lease l join home h using (home)
              where l.home = $3 and h.format <= $4 and (l.worker is null or l.worker <> all(array(
                select name from worker where beat >= clock_timestamp() - make_interval(secs => $2))))
              for update of l skip locked)
            update lease set worker = $1, epoch = epoch + 1, since = clock_timestamp(), wish = null
            from free where lease.home = free.home returning lease.home, lease.epoch""",
            self.worker, self.ttl, home, FORMAT,
        )  # fmt: skip
        return Lease(home, rows[0]["epoch"], self.worker) if rows else None

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give homes back; one that is somebody else's by now stays theirs."""
        if leases:
            await self._database.ask(
                """update lease set worker = null, epoch = lease.epoch + 1 from unnest($2::text[], $3::bigint[]) as t(h, e)
                where lease.home = t.h and lease.epoch = t.e and lease.worker = $1""",
                self.worker, [lease.home for lease in leases], [lease.epoch for lease in leases],
            )  # fmt: skip

    async def leaving(self) -> list[str]:
        """Return the homes of this worker that another one is to have."""
        rows = await self._database.ask(
            """select home from lease join worker w on w.name = lease.wish where lease.worker = $1 and lease.wish <> $1
            and w.beat > clock_timestamp() - make_interval(secs => $2)""",
            self.worker, self.ttl,
        )  # fmt: skip
        return [row["home"] for row in rows]

    # What the edge and operators ask.

    async def owner(self, home: str) -> Owner | None:
        """Return who has a home, by a worker that lives; None if there is no such home."""
        rows = await self._database.ask(
            """select l.epoch, w.name, w.address from lease l left join worker w on w.name = l.worker
              and w.beat > clock_timestamp() - make_interval(secs => $2) where l.home = $1""",
            home, self.ttl,
        )  # fmt: skip
        if not rows:
            return None
        return Owner(home, rows[0]["name"] or "", rows[0]["address"] or "", rows[0]["epoch"])

    async def add(self, home: str, tenant: str = "") -> bool:
        """Make a home without rows, free for whoever adopts it; False if there is one."""
        rows = await self._database.ask(
            """with made as (insert into home (home, tenant) values ($1, $2) on conflict do nothing returning home)
            insert into lease (home) select home from made returning home""",
            home, tenant,
        )  # fmt: skip
        return bool(rows)

    async def move(self, home: str, worker: str) -> bool:
        """Ask that a home goes to another worker. Its owner lets go of it at the next turn's end."""
        return bool(await self._database.ask("update lease set wish = $2 where home = $1 returning 1", home, worker))

    async def drain(self, worker: str, on: bool = True) -> bool:
        rows = await self._database.ask("update worker set draining = $2 where name = $1 returning 1", worker, on)
        return bool(rows)


class Timers:
    """When each home wants to be woken next, though nobody speaks to it. The home's own run log keeps each tick single."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def want(self, lease: Lease, delay: float | None) -> bool:
        """Set when a home is woken, in seconds from now, or that it need not be; False when it is somebody else's."""
        rows = await self._database.ask(
            """with mine as (select home from lease where home = $1 and epoch = $2 and worker = $3 for share),
            off as (delete from timer using mine where timer.home = mine.home and $4::float8 is null),
            made as (insert into timer (home, due) select home, clock_timestamp() + make_interval(secs => $4) from mine
              where $4::float8 is not null on conflict (home) do update set due = excluded.due)
            select count(*) as held from mine""",
            lease.home, lease.epoch, lease.worker, delay,
        )  # fmt: skip
        return bool(rows[0]["held"])

    async def due(self, worker: str, awake: Sequence[str] = (), most: int = BATCH) -> list[str]:
        """Return homes of a worker that are to be woken now and are not awake, the longest due first."""
        # An index is searched only for a moment that stays the same while it is: not for `clock_timestamp`.
        rows = await self._database.ask(
            """select t.home from timer t join lease l using (home) where l.worker = $1 and t.due <= statement_timestamp()
            and t.home <> all($2) order by t.due limit $3""",
            worker, list(awake), most,
        )  # fmt: skip
        return [row["home"] for row in rows]


class Letter(msgspec.Struct, frozen=True):
    """Something for a home that must not be lost while nobody owns it."""

    home: str
    key: str
    body: bytes


class Mail:
    """What was left for homes. A key counts once, also after it was taken: the home's own record knows it then."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def leave(self, letter: Letter) -> bool:
        """Make a letter durable; False when there is no such home. A second one with the same key changes nothing."""
        rows = await self._database.ask(
            """with there as (select home from home where home = $1),
            put as (insert into mail (home, key, body) select home, $2, $3 from there on conflict do nothing)
            select count(*) as count from there""",
            letter.home, letter.key, letter.body,
        )  # fmt: skip
        return bool(rows[0]["count"])

    async def waiting(self, worker: str, most: int = BATCH) -> list[str]:
        """Return homes of a worker for which something lies here."""
        rows = await self._database.ask(
            "select distinct home from mail join lease using (home) where lease.worker = $1 limit $2", worker, most
        )
        return [row["home"] for row in rows]

    async def of(self, home: str, most: int = 100) -> list[Letter]:
        rows = await self._database.ask(
            "select home, key, body from mail where home = $1 order by key like 'hook:%', at, key limit $2", home, most
        )
        return [Letter(row["home"], row["key"], bytes(row["body"])) for row in rows]

    async def taken(self, lease: Lease, keys: Sequence[str]) -> None:
        """Remove letters that the home has taken in; only its owner can."""
        await self._database.ask(
            """with mine as (select home from lease where home = $1 and epoch = $2 and worker = $3 for share)
            delete from mail using mine where mail.home = mine.home and mail.key = any($4)""",
            lease.home, lease.epoch, lease.worker, list(keys),
        )  # fmt: skip
