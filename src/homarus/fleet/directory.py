"""Where the homes of a fleet are, as its edges ask: one row for a home, and a place for what must not be lost meanwhile."""

from __future__ import annotations

from homarus.fleet.database import Database
from homarus.fleet.edge import Place
from homarus.fleet.placement import TTL, Letter, Mail
from homarus.fleet.settings import Fleet, quota_of

MAX_LETTERS = 1000  # that wait for one home


class Directory:
    """What the edge asks: where a home is, and to keep a web hook for it."""

    def __init__(self, database: Database, fleet: Fleet, *, ttl: float = TTL) -> None:
        self._database, self._fleet, self._ttl = database, fleet, ttl
        self._mail = Mail(database)

    async def find(self, home: str) -> Place | None:
        rows = await self._database.ask(
            """select h.quota::text as quota, w.address from home h left join lease l using (home)
            left join worker w on w.name = l.worker and w.beat > clock_timestamp() - make_interval(secs => $1) where h.home = $2""",
            self._ttl, home, patience=5,
        )  # fmt: skip
        return Place(quota_of(self._fleet.quota, rows[0]["quota"]), rows[0]["address"] or "") if rows else None

    async def leave(self, home: str, key: str, body: bytes) -> bool:
        waits = await self._database.ask("select count(*) as n from mail where home = $1", home, patience=5)
        return waits[0]["n"] < MAX_LETTERS and await self._mail.leave(Letter(home, key, body))
