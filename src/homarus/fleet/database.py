"""Connections to Postgres on a thread of their own, for callers that wait and callers that await. What is asked stands elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

from homarus.core.errors import ConfigError, StorageError
from homarus.core.text import single_line
from homarus.fleet.schema import STEPS, VERSION

SCHEMA = "homarus"
# Its pool tells each try while the database is away, with all that led to it; that it is away is said here.
logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)
PATIENCE = 60.0  # how long a statement waits for a database that is away
_PAUSE, _LONGEST_PAUSE = 0.05, 0.25
_STATEMENT = 15.0  # seconds for one statement; its caller then asks again
_QUICK = 5.0  # for one that somebody waits for: a cable that was pulled says nothing
_HELLO = 2.0  # for a host to let us in, before the next one is tried
_SLOWEST = 2  # times as long, where nobody had the time
_MIGRATING = 0x686F6D61  # the advisory lock of whoever changes tables
Result = TypeVar("Result")


class Database:
    """A pool of connections. Every statement is one transaction and is asked again after a lost connection.

    So every statement must be right when it is carried out twice. One whose answer was lost may have been committed.
    """

    def __init__(
        self, dsn: str, *, name: str = "homarus", size: int = 8, patience: float = PATIENCE, busy: bool = False
    ) -> None:
        self.dsn = dsn
        self._name, self._size, self._patience = name, size, patience
        self.loop = self._loop = quick_loop() if busy else asyncio.new_event_loop()  # of the thread of this database
        self._pool: Any = None
        self._last = ""
        self._filling, self._knocking = asyncio.Lock(), asyncio.Lock()
        self._unheard: Exception | None = None  # why the last try to connect failed
        self._quiet_until, self._slowly = 0.0, 1
        self._thread = threading.Thread(target=self._loop.run_forever, name="fleet-database", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let go of every connection; a second call does nothing."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._empty(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, statement: str, *args: Any, patience: float | None = None) -> list[Any]:
        """Carry out one statement and wait for its rows. Raises StorageError when the database stays away."""
        return self._wait(lambda conn: conn.fetch(statement, *args), patience)

    async def ask(self, statement: str, *args: Any, patience: float | None = None) -> list[Any]:
        """Do the same for a caller that has an event loop, which goes on meanwhile."""
        work = self._insist(lambda conn: conn.fetch(statement, *args, timeout=_QUICK), patience)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def carried_out(self, statement: str, *args: Any) -> list[Any]:
        """Do the same on the thread of this database."""
        found: list[Any] = await self._insist(lambda conn: conn.fetch(statement, *args, timeout=_QUICK), None)
        return found

    def stream(self, statement: str, *args: Any, many: int = 20) -> Iterator[Any]:
        """Yield the rows of one statement as they were in one moment, however long their reader takes; few are in memory."""
        opened = self._stream(statement, args, many)
        try:
            while batch := asyncio.run_coroutine_threadsafe(anext(opened, []), self._loop).result():
                yield from batch
        finally:
            asyncio.run_coroutine_threadsafe(opened.aclose(), self._loop).result()

    async def _stream(self, statement: str, args: Sequence[Any], many: int) -> AsyncGenerator[list[Any], None]:
        import asyncpg

        settings = {"application_name": self._name, "search_path": SCHEMA}
        try:
            conn = await asyncpg.connect(self.dsn, timeout=10, server_settings=settings)
        except (OSError, asyncpg.PostgresError) as problem:
            raise StorageError(f"the fleet's database is away: {single_line(str(problem), 300)}") from problem
        try:
            async with conn.transaction(isolation="repeatable_read", readonly=True):
                cursor = await conn.cursor(statement, *args)
                while batch := await cursor.fetch(many):
                    yield batch
        finally:
            conn.terminate()

    def migrate(self) -> list[int]:
        """Bring the tables up to this program and return the steps that were taken. Raises ConfigError if it is too old."""
        return self._wait(_migrated, None)

    def check(self) -> None:
        """Raise ConfigError unless this program can work with the tables as they are."""
        import asyncpg

        try:
            found = self.rows("select max(version) as version, max(oldest) as oldest from schema_version")[0]
        except asyncpg.UndefinedTableError:
            raise ConfigError("the database has no tables of a fleet", cure="run: homarus fleet init") from None
        _refuse(found["version"] or 0, found["oldest"] or 0)
        if (found["version"] or 0) < VERSION:
            raise ConfigError("the tables of the fleet are older than this program", cure="run: homarus fleet init")

    def _wait(self, work: Callable[[Any], Coroutine[Any, Any, Result]], patience: float | None) -> Result:
        if threading.current_thread() is self._thread:
            raise RuntimeError("the thread of the database cannot wait for itself")
        return asyncio.run_coroutine_threadsafe(self._insist(work, patience), self._loop).result()

    async def _insist(self, work: Callable[[Any], Coroutine[Any, Any, Result]], patience: float | None) -> Result:
        """Carry something out, again and again while the database cannot be reached, is starting or was demoted."""
        import asyncpg

        away = (
            OSError,  # refused, reset, no such socket; TimeoutError is one
            asyncpg.PostgresConnectionError,
            asyncpg.OperatorInterventionError,  # shutting down, starting up, a statement that took too long
            asyncpg.ReadOnlySQLTransactionError,  # a primary that became a standby
            asyncpg.InsufficientResourcesError,
            asyncpg.SerializationError,
            asyncpg.DeadlockDetectedError,
            asyncpg.LockNotAvailableError,
            asyncpg.IdleInTransactionSessionTimeoutError,
            asyncpg.InternalClientError,
            asyncpg.TargetServerAttributeNotMatched,
        )
        ends = self._loop.time() + (self._patience if patience is None else patience)
        pause = _PAUSE
        while True:
            try:
                pool = await self._filled()
                conn = await pool.acquire(timeout=_STATEMENT)
                try:
                    return await work(conn)
                except OSError:  # nobody waits for a word of goodbye
                    conn.terminate()
                    raise
                finally:
                    await pool.release(conn)
            except (*away, asyncpg.InterfaceError) as problem:
                if isinstance(problem, asyncpg.InterfaceError) and not _is_lost(problem):
                    raise
                if self._loop.time() + pause > ends:
                    raise StorageError(
                        f"the fleet's database is away: {single_line(str(problem) or type(problem).__name__, 300)}",
                        cure="start Postgres, or mend the address: homarus fleet doctor",
                    ) from problem
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _filled(self) -> Any:
        if self._pool is None:
            import asyncpg

            async with self._filling:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        self.dsn,
                        min_size=1,
                        max_size=self._size,
                        connect=self._reached,
                        reset=_nothing,
                        command_timeout=_STATEMENT,
                        target_session_attrs="read-write",  # of several hosts, the one that takes writes
                        server_settings={
                            "application_name": self._name,
                            "search_path": SCHEMA,
                            "idle_in_transaction_session_timeout": "5s",
                            "lock_timeout": "5s",
                            "statement_timeout": f"{int(_STATEMENT)}s",
                            # A peer that vanished without a word holds its locks until the server notices.
                            "tcp_keepalives_idle": "5",
                            "tcp_keepalives_interval": "2",
                            "tcp_keepalives_count": "3",
                        },
                    )
        return self._pool

    async def _reached(self, dsn: str, **given: Any) -> Any:
        """Connect to the first host that takes writes, beginning with the one that did so last; each has a time of its own.

        One knocks at a time, and what it hears holds for all for a moment: a crowd before the door keeps a server from coming up.
        """
        import asyncpg

        async with self._knocking:
            if self._unheard is not None and self._loop.time() < self._quiet_until:
                raise self._unheard
            found_hosts = sorted(hosts(dsn), key=lambda host: host != self._last)
            given["timeout"] = (_HELLO if len(found_hosts) > 1 else _QUICK) * self._slowly
            for each in found_hosts:
                try:
                    made = await asyncpg.connect(each, **given)
                except (OSError, asyncpg.PostgresError, asyncpg.InternalClientError, asyncpg.InterfaceError) as found:
                    self._unheard = found
                    if isinstance(found, TimeoutError):  # whoever has no time to answer has less when asked more often
                        self._slowly = min(_SLOWEST, self._slowly * 2)
                else:
                    self._last, self._unheard, self._slowly = each, None, 1
                    return made
            assert self._unheard is not None
            self._quiet_until = self._loop.time() + _LONGEST_PAUSE
            raise self._unheard

    async def _empty(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), 5)
            except (OSError, TimeoutError):
                pool.terminate()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # of those who still insist
            task.cancel()


def quick_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a program that has much to pass on: uvloop's, where it is there, takes a seventh of the work off."""
    try:
        import uvloop
    except ImportError:  # a system without it
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made


async def _nothing(_conn: Any) -> None:
    """Leave a connection as it is for the next statement: none of ours changes settings, listens or keeps a lock."""


def hosts(dsn: str) -> list[str]:
    """Return the address of each host that an address names, in its order."""
    parts = urlsplit(dsn)
    user, at, places = parts.netloc.rpartition("@")
    return [urlunsplit(parts._replace(netloc=f"{user}{at}{place}")) for place in places.split(",")]


def _is_lost(problem: Exception) -> bool:
    """Say whether the client's complaint is about a connection that ended, and not about how it was called."""
    text = str(problem)
    return "closed" in text or "terminated" in text or "connection" in text


def _refuse(version: int, oldest: int) -> None:
    if oldest > VERSION:
        raise ConfigError(
            f"the fleet's tables (step {version}) need a newer program than this one (step {VERSION})",
            cure="upgrade homarus on this machine",
        )


async def _migrated(conn: Any) -> list[int]:
    taken = []
    async with conn.transaction():
        await conn.execute("select pg_advisory_xact_lock($1)", _MIGRATING)
        await conn.execute(f"create schema if not exists {SCHEMA}")
        await conn.execute(
            f"""create table if not exists {SCHEMA}.schema_version (
                version int primary key, oldest int not null, at timestamptz not null default clock_timestamp())"""
        )
        found = await conn.fetchrow("select max(version) as version, max(oldest) as oldest from schema_version")
        _refuse(found["version"] or 0, found["oldest"] or 0)
        for number, (step, oldest) in enumerate(STEPS, 1):
            if number > (found["version"] or 0):
                await conn.execute(step)
                await conn.execute("insert into schema_version (version, oldest) values ($1, $2)", number, oldest)
                taken.append(number)
    return taken
