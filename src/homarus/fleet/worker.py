"""A worker: it beats, holds homes, and answers for them on one port. An idle home is a row in memory; a message, mail or a timer opens it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

from homarus.core.errors import HomarusError, StorageError
from homarus.fleet.commits import Commits
from homarus.fleet.database import Database
from homarus.fleet.placement import BEAT, TTL, Mail, Placement, Timers
from homarus.fleet.rows import Lease
from homarus.fleet.served import IDENT, STOP_SECONDS, Served, as_told
from homarus.fleet.settings import Quota

_log = logging.getLogger(__name__)
HOME, SECRET = b"x-homarus-home", b"x-homarus-fleet"
OWN = "/.fleet/"  # what the fleet's own programs ask of a worker
IDLE_SECONDS = 300.0
DRAIN_SECONDS = 60.0
GOODBYE_SECONDS = 5.0  # for what a database that is away would keep up
ANSWER_SECONDS = 5.0  # for requests that a home which is given away has let in
FLUSH_SECONDS = 0.2
SEAL_SECONDS = 3600.0  # between two looks for long logs of a home that stays open
COUNT_SECONDS = 5.0  # between two counts of all homes
OPENING = 16  # homes that are opened at the same time
MOST_OPEN = 2000
_RETRY = [(b"retry-after", b"1"), (b"content-type", b"text/plain")]


class Worker:
    """Many homes in one process. Everything here runs in one event loop, but for the beat, which no home can hold up."""

    def __init__(
        self,
        database: Database,
        name: str,
        root: Path,
        *,
        secret: str,
        env: Mapping[str, str],
        objects: Any = None,
        quota: Quota | None = None,
        ttl: float = TTL,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.name, self.root = name, root
        # Beats have a connection and a thread of their own: no crowd before the pool makes this worker look dead.
        self._own_line = Database(database.dsn, name=f"{name} beat", size=1)
        self.placement = Placement(database, name, ttl=ttl, pulse=self._own_line)
        self.timers, self.mail = Timers(database), Mail(database)
        self.held: dict[str, Lease] = {}
        self.open: dict[str, Served] = {}
        self.refused = 0  # homes that were taken from this worker while it worked for them
        self.ended = asyncio.Event()
        self._database, self._secret, self._env, self._objects = database, secret.encode(), env, objects
        self._idle_seconds, self._quota = idle_seconds, quota
        self._commits = Commits(database)
        self._doors: dict[str, asyncio.Lock] = {}
        self._opening = asyncio.Semaphore(OPENING)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._steady = 0.0  # since when every beat was heard, by this machine's clock; 0 while it was not
        self._pulse: Any = None
        self._draining = False
        self._all_homes, self._counted = 0, 0.0
        self._going: set[str] = set()
        self._tidied: set[str] = set()

    # Its life.

    async def start(self, address: str) -> None:
        """Join the fleet under an address at which edges reach this worker."""
        self._loop = asyncio.get_running_loop()
        await self.placement.join(address)
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._beating = asyncio.run_coroutine_threadsafe(self._beat(), self._own_line.loop)
        for work in (self._look_around, self._keep):
            self._spawn(work())

    async def stop(self, seconds: float = DRAIN_SECONDS, goodbye: float = GOODBYE_SECONDS) -> None:
        """Give every home away, each when its turn has ended, at most after so long; then leave the fleet."""
        self._draining = True
        ends = time.monotonic() + seconds
        await _at_most(goodbye, self.placement.retire())
        while self.held and time.monotonic() < ends:
            await _at_most(ends - time.monotonic(), self._give_away(list(self.held)))
            await asyncio.sleep(0.05)
        for task in list(self._tasks):
            task.cancel()
        await _at_most(goodbye, asyncio.gather(*self._tasks, return_exceptions=True))
        if not self._steady:  # nobody hears what the homes would still write: they go on elsewhere as after a crash
            self.held.clear()
            for served in self.open.values():
                served.volume.drop()
        await asyncio.gather(*(self._close(home) for home in list(self.open)), return_exceptions=True)
        self._beating.cancel()
        await _at_most(2 * STOP_SECONDS if self._steady else goodbye, self.placement.leave())
        await _at_most(2 * STOP_SECONDS, asyncio.to_thread(self._own_line.close))
        self.ended.set()

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _beat(self) -> None:
        """Give signs of life, on the thread of the database: a home that computes or waits for a commit must not look dead."""
        heard = 0.0
        while True:
            began = time.monotonic()
            try:
                self._pulse = await self.placement.beat(patience=0)
            except StorageError as problem:
                _log.warning("%s", problem)
            else:
                # After a silence, ours or the database's, whoever looks dead may only look so: the period begins anew,
                # and is longer, because not all come back in the same moment.
                before, heard = heard, time.monotonic()
                if heard - before > self.placement.ttl:
                    self._steady = heard + (self.placement.ttl if before else 0.0)
                if self._pulse is None:
                    return
            if time.monotonic() - heard > self.placement.ttl:
                self._steady = 0.0
            await asyncio.sleep(max(0.0, BEAT - (time.monotonic() - began)))

    @property
    def _is_steady(self) -> bool:
        return bool(self._steady) and time.monotonic() - self._steady > self.placement.ttl

    async def _look_around(self) -> None:
        """Compare what this worker holds with the rows, adopt, give away, and open what has mail or is due; again and again."""
        while True:
            try:
                if self._beating.done():
                    await self._end()
                    return
                await self._round()
            except StorageError as problem:
                _log.warning("%s", problem)
            except Exception:  # noqa: BLE001 - one bad round must not end all homes
                _log.exception("the worker goes on")
            await asyncio.sleep(BEAT)

    async def _round(self) -> None:
        pulse = self._pulse
        if pulse is None:
            return
        if pulse.homes != len(self.held):
            await self._compare()
        if pulse.draining or self._draining:
            await self._give_away(list(self.held))
        elif self._is_steady:
            share = await self._share()
            for lease in await self.placement.adopt(share - len(self.held)):
                self.held[lease.home] = lease
            await self._give_away(self._surplus(share))
        if leaving := await self.placement.leaving():
            await self._give_away([home for home in leaving if home in self.held])
        for home in await self.mail.waiting(self.name):
            self._spawn(self._deliver(home))
        for home in await self.timers.due(self.name, list(self.open)):
            self._spawn(self._wake(home))

    def _surplus(self, share: int) -> list[str]:
        """Return homes that another worker should have: those that sleep first, and a few that are awake where many are too many."""
        over = len(self.held) - share
        if over <= max(1, share // 10):
            return []
        found = [home for home in self.held if home not in self.open][:over]
        if not found and over > share // 4:
            found = [home for home, served in self.open.items() if not served.busy][: max(1, over // 4)]
        return found

    async def _share(self) -> int:
        if time.monotonic() - self._counted > COUNT_SECONDS or not self._all_homes:
            self._all_homes, self._counted = await self.placement.homes(), time.monotonic()
        return -(-self._all_homes // max(1, await self.placement.workers()))

    async def _compare(self) -> None:
        """Drop what is somebody else's by now, and know what is ours although its answer was lost."""
        there = await self.placement.held()
        for home, lease in list(self.held.items()):
            if there.get(home) != lease.epoch:
                self._part(lease)
        for home, epoch in there.items():
            if home not in self.held and home not in self._going:
                self.held[home] = Lease(home, epoch, self.name)

    async def _end(self) -> None:
        """Another process has this worker's name: it has the homes, too."""
        _log.error("another worker is called %s: this one ends", self.name)
        await asyncio.gather(*(self._part(lease) for lease in list(self.held.values())))
        self.ended.set()

    # Homes.

    async def _served(self, home: str) -> Served | None:
        """Return a home that is ours, open; None if it is not ours. Raises HomarusError where it cannot be opened."""
        found = self.open.get(home)
        if found is not None and not found.volume.fenced and home not in self._going:
            found.used = time.monotonic()
            return found
        if home not in self.held or home in self._going:  # whoever comes now is the next owner's
            return None
        async with self._doors.setdefault(home, asyncio.Lock()), self._opening:
            lease = self.held.get(home)
            if lease is None:
                return None
            found = self.open.get(home)
            if found is not None and found.volume.fenced:  # of an earlier lease, and on its way out
                self.open.pop(home, None)
                await found.close()
                found = None
            if found is None:
                # Whoever has this home after us opens it at once: something may be unanswered by then.
                if not await self.timers.want(lease, 0.0):
                    self.held.pop(home, None)
                    return None
                objects = self._objects.of(home) if self._objects is not None else None
                found = Served(
                    self._database,
                    lease,
                    self.root,
                    env=self._env,
                    objects=objects,
                    quota=self._quota,
                    lost=lambda: self._lost(lease),
                    commits=self._commits,
                )
                await found.open()
                if found.volume.fenced:  # it was taken away while it was being opened
                    await found.close()
                    return None
                self.open[home] = found
                self._spawn(self._restarts(found))
            return found

    def _lost(self, lease: Lease) -> None:
        """A write was refused, in whatever thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._part(lease))

    def _part(self, lease: Lease) -> asyncio.Task[None]:
        """Let go of a home that is somebody else's; how long it takes to end concerns no other."""
        if self.held.get(lease.home) == lease:
            del self.held[lease.home]
        return self._spawn(self._drop(lease))

    async def _drop(self, lease: Lease) -> None:
        """End what was begun for a home: nothing of it is written or sent from here any more."""
        served = self.open.get(lease.home)
        if served is not None and served.lease == lease:
            self.refused += 1
            served.volume.drop()
            served.gone.set()
            await self._close(lease.home)
        # Where only the database did not answer, the home is still ours by name: then it is free for the next one.
        with contextlib.suppress(StorageError):
            await self.placement.release([lease])

    async def _close(self, home: str) -> None:
        async with self._doors.setdefault(home, asyncio.Lock()):
            served = self.open.get(home)
            if served is None:
                return
            wakes = served.wakes_in()
            try:
                await served.close()
            finally:
                self.open.pop(home, None)
            if home in self.held:
                await self.timers.want(served.lease, 0.0 if served.unfinished else wakes)

    async def _give_away(self, homes: list[str]) -> None:
        """Release homes in which no turn runs; the others are asked again."""
        closed = [home for home in homes if home not in self.open]
        leases = [self.held.pop(home) for home in closed if home in self.held]
        await self.placement.release(leases)
        for home in homes:
            served = self.open.get(home)
            if served is not None and not served.busy and home not in self._going:
                self._going.add(home)
                self._spawn(self._give(home))

    async def _give(self, home: str) -> None:
        try:
            served = self.open.get(home)
            ends = time.monotonic() + ANSWER_SECONDS
            # What was let in before is answered; nobody comes after it.
            while served is not None and served.requests and time.monotonic() < ends:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            if served is not None and not served.busy and self.held.get(home) == served.lease:
                await self._close(home)
                if self.held.pop(home, None) is not None:
                    await self.placement.release([served.lease])
        finally:
            self._going.discard(home)

    async def _restarts(self, served: Served) -> None:
        """Open a home anew when its settings ask for a fresh start."""
        gateway = served.gateway
        if gateway is not None:
            asked, gone = asyncio.ensure_future(gateway.life.ended()), asyncio.ensure_future(served.gone.wait())
            await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            gone.cancel()
            if self.open.get(served.lease.home) is served and not served.gone.is_set():
                await self._close(served.lease.home)
                await self._served(served.lease.home)

    async def _wake(self, home: str) -> None:
        with contextlib.suppress(HomarusError):
            await self._served(home)

    async def _deliver(self, home: str) -> set[str]:
        """Bring the letters of a home in, each caller's in their order; return whose it does not take now: they are tried again."""
        served, late = await self._served(home), set[str]()
        if served is None:
            return late
        async with served.postman:
            for letter in await self.mail.of(home):
                if (caller := _caller(letter.key)) in late:
                    continue
                served.calls += 1
                try:
                    taken = await served.deliver(letter)
                finally:
                    served.calls -= 1
                if taken:
                    await self.mail.taken(served.lease, [letter.key])
                else:
                    late.add(caller)
        return late

    async def _keep(self) -> None:
        """Commit what waits, and close what nobody uses. No home waits here for another."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            for home, served in list(self.open.items()):
                if served.volume.waits and not served.volume.fenced and home not in self._tidied:
                    if served.volume.unknown:
                        self._tidy(home, partial(asyncio.to_thread, served.volume.tidy))
                    else:
                        with contextlib.suppress(StorageError):
                            served.volume.tidy()
                idle = time.monotonic() - served.used
                if served.calls or served.busy:
                    served.used = time.monotonic()
                elif idle > (self._idle_seconds if len(self.open) < MOST_OPEN else 1.0) and served.resting:
                    self._tidy(home, partial(self._rest, home, served))
                elif time.monotonic() - served.sealed > SEAL_SECONDS:  # one that listens to a platform never rests
                    self._tidy(home, partial(asyncio.to_thread, served.seal))

    def _tidy(self, home: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Do something for a home that waits for the disk, the database or the store, one thing at a time."""

        async def done() -> None:
            try:
                with contextlib.suppress(HomarusError):
                    await work()
            finally:
                self._tidied.discard(home)

        if home not in self._tidied:
            self._tidied.add(home)
            self._spawn(done())

    async def _rest(self, home: str, served: Served) -> None:
        if await asyncio.to_thread(served.seal) and served.resting:
            await self._close(home)

    # The port.

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if not hmac.compare_digest(headers.get(SECRET, b""), self._secret):
            await _refuse(scope, send, 403, "this port is the fleet's own")
            return
        home = headers.get(HOME, b"").decode("latin-1")
        if scope["type"] == "http" and scope["path"].startswith(OWN):
            await self._own(scope, send, home)
            return
        try:
            served = await self._served(home)
            # What was kept of a web hook comes before what it says now.
            if served is not None and IDENT in headers:
                caller = _caller(headers[IDENT].decode("latin-1"))
                if caller in await self._deliver(home):
                    await _refuse(scope, send, 503, "what came before was not taken yet")
                    return
        except HomarusError as problem:
            _log.error("home %s cannot be opened: %s", home, problem)
            await _refuse(scope, send, 503, "the home cannot be opened")
            return
        if served is None or served.gateway is None:
            await _refuse(scope, send, 421, "another worker has this home")
            return
        await self._answer(served, scope, receive, send)

    async def _answer(self, served: Served, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Let the home answer, as long as it is ours: nothing that it says is sent once it is not."""
        begun = False

        async def guarded(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            with contextlib.suppress(StorageError):
                await served.volume.durable()
            if not served.volume.fenced:
                begun = True
                await send(message)

        is_request = scope["type"] == "http"
        served.calls += 1
        served.requests += is_request
        answering = served.task(served(as_told(scope), receive, guarded))
        gone = asyncio.ensure_future(served.gone.wait())
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answering, gone):
                task.cancel()
            problem: Any = (await asyncio.gather(answering, gone, return_exceptions=True))[0]
            served.calls -= 1
            served.requests -= is_request
            served.used = time.monotonic()
        if not (served.gone.is_set() or served.volume.fenced):
            if isinstance(problem, BaseException) and not isinstance(problem, asyncio.CancelledError):
                raise problem
        elif not begun:
            await _refuse(scope, send, 503, "the home moved")
        elif scope["type"] == "websocket":
            with contextlib.suppress(RuntimeError, OSError):  # closed already
                await send({"type": "websocket.close", "code": 1012, "reason": "the home moved"})
        else:
            raise ConnectionError("the home moved in the middle of an answer")

    async def _own(self, scope: MutableMapping[str, Any], send: Any, home: str) -> None:
        """Answer the fleet's own programs: mail has come, or how this worker does."""
        what = scope["path"].removeprefix(OWN)
        if what == "mail" and home in self.held:
            self._spawn(self._deliver(home))
            await _refuse(scope, send, 202, "")
        elif what == "health":
            facts = {"worker": self.name, "homes": len(self.held), "open": len(self.open), "refused": self.refused}
            await _refuse(scope, send, 200, " ".join(f"{key}={value}" for key, value in facts.items()))
        else:
            await _refuse(scope, send, 421 if what == "mail" else 404, "")


def _caller(key: str) -> str:
    """Return which web hook a call was for: `hook:<path>:<name>`."""
    return key.split(":", 2)[1] if key.count(":") > 1 else key


async def _at_most(seconds: float, work: Awaitable[Any]) -> None:
    with contextlib.suppress(StorageError, TimeoutError):
        await asyncio.wait_for(work, seconds)


async def _refuse(scope: MutableMapping[str, Any], send: Any, status: int, text: str) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": status, "headers": _RETRY if status >= 400 else []})
    await send({"type": f"{kind}.body", "body": text.encode()})


async def serve(worker: Worker, listening: socket.socket, address: str, *, ready: Any = None) -> None:
    """Run a worker on a port until SIGTERM or SIGINT, then until its homes are given away."""
    from homarus.gateway import wire
    from homarus.gateway.server import preload
    from homarus.gateway.settings import GatewaySettings

    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ending.set)
    server = wire.server(worker, GatewaySettings(), None)
    listening.setblocking(False)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    await server.up.wait()
    await asyncio.to_thread(preload)
    await worker.start(address)
    if ready is not None:
        ready(worker)
    waits = {asyncio.ensure_future(ending.wait()), asyncio.ensure_future(worker.ended.wait()), serving}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if not worker.ended.is_set():
        await worker.stop()
    server.should_exit = True
    await serving
