"""What homes have written and the rows do not have yet: in order for each home, and many homes in one commit.

Nobody waits here for Postgres but who speaks to the world. While it is away homes go on until they would say something.
What nobody waits for yet is held back a moment: so what was asked and the turn's first line are one commit, its answer the other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

from homarus.core.errors import Fenced, StorageError
from homarus.core.text import single_line
from homarus.fleet.database import Database

_log = logging.getLogger(__name__)
APPEND, UPLOAD = "append_lines", "put_object"
TOGETHER = 200  # homes in one commit
AT_ONCE = 2  # commits on their way: the next one gathers while the last is being synced
SOON = 0.05  # seconds until what nobody waits for goes by itself
MOST_BYTES = 16 << 20  # of one home that wait: whoever goes on writing then waits, too
_BYTES = 4 << 20  # of one home in one commit
Change = tuple[str, tuple[Any, ...], int]  # the function, what it is given, and its bytes


class Behind:
    """The changes of one home on their way. Once one is refused, none that follows is carried out."""

    def __init__(self, commits: Commits, home: str, epoch: int, worker: str, lost: Callable[[], None]) -> None:
        self.home, self.epoch, self.worker = home, epoch, worker
        self.problem: Fenced | None = None
        self.changes: deque[Change] = deque()
        # Counts of changes: all, those up to the last that somebody relies on, and durable ones.
        self.begun = self.needed = self.done = 0
        self.bytes = 0
        self.running = False
        self._commits, self._lost = commits, lost
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, function: str, args: tuple[Any, ...], size: int = 0, *, needed: bool = True) -> None:
        """Let a change follow those before it; it waits only where far too many do. Raises Fenced after a refusal."""
        self._commits.add(self, (function, args, size), needed=needed)

    async def durable(self) -> None:
        """Return when all that was added so far and is needed is committed. Raises Fenced where that will never be."""
        with self._commits.lock:
            if self.problem is not None:
                raise again(self.problem)
            if self.done >= self.needed:
                return
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append((self.needed, waiting))
            self._commits.urge(self)
        await waiting

    @property
    def awaited(self) -> bool:
        return bool(self._waiting)

    def give_up(self, problem: Fenced) -> None:
        """Carry nothing out any more."""
        with self._commits.lock:
            self.settled(0, problem)
            self._commits.room.notify_all()

    def settled(self, count: int, problem: Fenced | None) -> None:
        """Note that changes were carried out, or that none will be; under the lock."""
        self.done += count
        if problem is not None and self.problem is None:
            self.problem = problem
        if self.problem is not None:
            self.changes.clear()
            self.bytes = 0
        ready = [(at, each) for at, each in self._waiting if at <= self.done or self.problem is not None]
        if ready:
            self._waiting = [pair for pair in self._waiting if pair not in ready]
            for _, each in ready:
                try:
                    each.get_loop().call_soon_threadsafe(_wake, each, self.problem)
                except RuntimeError:  # its loop is closed
                    continue

    def tell(self) -> None:
        self._lost()


def _wake(waiting: asyncio.Future[None], problem: Fenced | None) -> None:
    if waiting.done():
        return
    if problem is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(again(problem))


class Commits:
    """Carries changes out on the thread of the database. Homes are independent: one that must wait holds up no other."""

    def __init__(self, database: Database, *, soon: float = SOON) -> None:
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self._database, self._soon = database, soon
        self._ready: dict[Behind, None] = {}
        self._held: dict[Behind, None] = {}  # with changes that nobody waits for
        self._timed = False
        self._pumps = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, home: str, epoch: int, worker: str, lost: Callable[[], None]) -> Behind:
        return Behind(self, home, epoch, worker, lost)

    def add(self, home: Behind, change: Change, *, needed: bool) -> None:
        with self.lock:
            while home.bytes > MOST_BYTES and home.problem is None:
                self.urge(home)
                self.room.wait()
            if home.problem is not None:
                raise again(home.problem)
            home.changes.append(change)
            home.begun += 1
            home.needed = home.begun if needed else home.needed
            home.bytes += change[2]
            self._line_up(home)

    def urge(self, home: Behind) -> None:
        """Let what a home has go now: somebody waits for it. Under the lock."""
        if home in self._held:
            del self._held[home]
            self._ready[home] = None
            self._wake()

    def _line_up(self, home: Behind) -> None:
        if home.running or home in self._ready:
            return
        self._held[home] = None
        if home.awaited:
            self.urge(home)
        elif not self._timed:
            self._timed = True
            self._database.loop.call_soon_threadsafe(
                self._database.loop.call_later, self._soon, self._overdue, context=Context()
            )

    def _overdue(self) -> None:
        with self.lock:
            self._timed = False
            for home in list(self._held):
                self.urge(home)

    def _wake(self) -> None:
        if self._pumps < AT_ONCE:
            self._pumps += 1
            # In no home's context: nothing here may wait for itself.
            self._database.loop.call_soon_threadsafe(self._begin, self._pump, context=Context())

    def _begin(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        task = asyncio.ensure_future(work(*args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(self) -> None:
        """Commit what is ready until nothing is; what comes meanwhile goes into the next commit."""
        while True:
            with self.lock:
                group = self._taken()
                if not group:
                    self._pumps -= 1
                    return
            await self._together(group)

    def _taken(self) -> dict[Behind, list[Change]]:
        group: dict[Behind, list[Change]] = {}
        while self._ready and len(group) < TOGETHER:
            home = next(iter(self._ready))
            del self._ready[home]
            if not home.changes:
                continue
            home.running = True
            if home.changes[0][0] != APPEND:
                self._begin(self._alone, home, [home.changes.popleft()])
                continue
            taken, size = group.setdefault(home, []), 0
            while home.changes and home.changes[0][0] == APPEND and (not taken or size < _BYTES):
                taken.append(home.changes.popleft())
                size += taken[-1][2]
        return group

    def _end(self, home: Behind, changes: list[Change], problem: Fenced | None) -> None:
        with self.lock:
            home.running = False
            home.bytes = max(0, home.bytes - sum(size for *_, size in changes))
            first = problem is not None and home.problem is None
            home.settled(len(changes), problem)
            self.room.notify_all()
            if home.changes:
                self._line_up(home)
        if first:
            home.tell()

    async def _together(self, group: dict[Behind, list[Change]]) -> None:
        """Commit lines of many homes at once; where that is not possible, each alone."""
        if len(group) == 1:
            await self._alone(*group.popitem())
            return
        homes = sorted(group, key=lambda home: home.home)  # whoever locks many does it in one order
        columns: list[list[Any]] = [[], [], [], [], []]
        for home in homes:
            for _, (paths, modes, offsets, pieces), _ in group[home]:
                for column, more in zip(
                    columns, ([home.home] * len(paths), paths, modes, offsets, pieces), strict=True
                ):
                    column.extend(more)
        try:
            rows = await self._database.carried_out(
                "select append_homes($1, $2, $3, $4, $5, $6, $7, $8) as held",
                [home.home for home in homes], [home.epoch for home in homes], [home.worker for home in homes], *columns,
            )  # fmt: skip
            held = set(rows[0]["held"])
        except StorageError as away:
            for home in homes:
                self._end(home, group[home], _given_up(home, away))
            return
        except Exception as problem:  # noqa: BLE001 - a mistake of one must not be everybody's
            _log.warning("%d homes are committed one by one: %s", len(homes), single_line(str(problem), 200))
            await asyncio.gather(*(self._alone(home, group[home]) for home in homes))
            return
        for home in homes:
            self._end(home, group[home], None if home.home in held else refusal(home))

    async def _alone(self, home: Behind, changes: list[Change]) -> None:
        problem: Fenced | None = None
        try:
            for function, args, _ in _joined(changes):
                if function == UPLOAD:  # it takes as long as it takes
                    await asyncio.to_thread(*args)
                    continue
                marks = ", ".join(f"${number}" for number in range(1, len(args) + 4))
                rows = await self._database.carried_out(
                    f"select {function}({marks}) as done", home.home, home.epoch, home.worker, *args
                )
                if not rows[0]["done"]:
                    raise refusal(home)
        except Fenced as found:
            problem = found
        except Exception as found:  # noqa: BLE001 - whatever it is
            problem = _given_up(home, found)
        self._end(home, changes, problem)


def _joined(changes: list[Change]) -> list[Change]:
    """Return lines that follow one another as one change."""
    if len(changes) < 2:
        return changes
    columns = [[item for _, args, _ in changes for item in args[place]] for place in range(4)]
    return [(APPEND, tuple(columns), 0)]


def _given_up(home: Behind, why: Exception) -> Fenced:
    """Return what its home hears of a change that the rows may not have: whoever has it next reads there what is true."""
    _log.error("home %s is given up, a change cannot be kept: %s", home.home, single_line(str(why), 300))
    return Fenced(f"home {home.home} was given up: {single_line(str(why), 300)}")


def again(problem: Fenced) -> Fenced:
    """Return the same for another who hears of it."""
    return Fenced(problem.message)


def refusal(lease: Any) -> Fenced:
    return Fenced(f"home {lease.home} belongs to another worker by now (epoch {lease.epoch} is over)")
