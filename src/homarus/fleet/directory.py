"""Where the homes of a fleet are, as its edges ask: one row for a home, and a place for what must not be lost meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from homarus.fleet.database import Database
from homarus.fleet.placement import TTL, Letter, Mail
from homarus.fleet.settings import Fleet, quota_of
from homarus.fleet.watch import Place

MAX_LETTERS, MAX_LETTER_BYTES = 1000, 64 << 20  # that wait for one home


class Directory:
    """What the edge asks: where a home is, and to keep a web hook for it."""

    def __init__(self, database: Database, fleet: Fleet, *, ttl: float = TTL) -> None:
        self._database, self._fleet, self._ttl = database, fleet, ttl
        self._mail = Mail(database)

    async def find(self, home: str) -> Place | None:
        return (await self.places([home])).get(home)

    async def places(self, homes: Sequence[str]) -> dict[str, Place]:
        rows = await self._database.ask(
            """select h.home, h.quota::text as quota, w.address, l.epoch from home h left join lease l using (home)
            left join worker w on w.name = l.worker and w.beat > clock_timestamp() - make_interval(secs => $1)
            where h.home = any($2)""",
            self._ttl, list(homes), patience=5,
        )  # fmt: skip
        quota = self._fleet.quota
        return {r["home"]: Place(quota_of(quota, r["quota"]), r["address"] or "", r["epoch"] or 0) for r in rows}

    async def leave(self, home: str, key: str, body: bytes) -> bool:
        waits = await self._database.ask(
            "select count(*) as n, coalesce(sum(length(body)), 0) as size from mail where home = $1", home, patience=5
        )
        full = waits[0]["n"] >= MAX_LETTERS or waits[0]["size"] + len(body) > MAX_LETTER_BYTES
        return not full and await self._mail.leave(Letter(home, key, body))
