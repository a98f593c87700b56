"""The one visible writer: takes rows of the outbox to their platforms, in order for each conversation.

A piece is noted, sent, and noted again. What a crash left between the two notes is sent again only where the platform shows
the same key once; elsewhere nobody knows, and that is told instead of guessed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from homarus.core.clock import Clock, chance, epoch_ms
from homarus.core.errors import DeliveryError, DeliveryFailure, StorageError
from homarus.core.messages import Outbound
from homarus.core.redact import redacted
from homarus.core.text import single_line
from homarus.delivery.format import render
from homarus.delivery.outbox import Outbox, Outcome, Row, Settled
from homarus.delivery.place import Piece, Place
from homarus.delivery.retry import LATER, RetrySettings, attempt
from homarus.delivery.sanitize import is_silent

# A message that does not get through after its request was repeated is tried again after these pauses, then given up.
PAUSES_S = (5.0, 25.0, 120.0, 600.0)
# A platform that was down for longer would show answers that nobody waits for any more.
MAX_AGE_S = 24 * 3600.0
# Pieces that one conversation gets in a minute, however talkative an agent is.
PIECES_PER_MINUTE = 30
_LONGEST_PAUSE_S = 3600.0

Target = tuple[str, str, str, str]


class Shows(Protocol):
    """The part of a channel that delivery needs."""

    async def send(self, message: Outbound, piece: Piece, key: str) -> str: ...


class Retry(Protocol):
    def __call__(self, channel: str, account: str) -> tuple[RetrySettings, int]:
        """Return how requests of an account are repeated, and the platform's shortest wait in milliseconds."""
        ...


def target_of(message: Outbound) -> Target:
    return message.channel, message.account, message.to, message.thread


def _usual(channel: str, account: str) -> tuple[RetrySettings, int]:
    return RetrySettings(), 500


def _no_files(message: Outbound, media: str) -> str:
    raise DeliveryError(DeliveryFailure.REFUSED, "no file may be sent from here")


class Sender:
    """Works one queue for each conversation. `channel_of` returns None while an account is not up: its rows wait for `wake`."""

    def __init__(
        self,
        outbox: Outbox,
        place_of: Callable[[str, str], Place | None],
        channel_of: Callable[[str, str], Shows | None],
        clock: Clock,
        *,
        retry_of: Retry = _usual,
        file_of: Callable[[Outbound, str], str] = _no_files,
        told: Callable[[Settled], Awaitable[None]] | None = None,
        warn: Callable[[str], None] = lambda _: None,
        roll: Callable[[], float] = chance,
        pieces_per_minute: int = PIECES_PER_MINUTE,
    ) -> None:
        self._outbox = outbox
        self._place_of = place_of
        self._channel_of = channel_of
        self._clock = clock
        self._retry_of = retry_of
        self._file_of = file_of
        self._told = told
        self._warn = warn
        self._roll = roll
        self._rate = pieces_per_minute
        self._queues: dict[Target, deque[str]] = {}
        self._tasks: dict[Target, asyncio.Task[None]] = {}
        self._shown: dict[Target, deque[float]] = {}
        self._pauses: dict[str, float] = {}
        self._waiters: dict[str, list[asyncio.Future[Settled]]] = {}
        self._up: dict[tuple[str, str], asyncio.Event] = {}
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Go on with what an earlier process left."""
        for row in self._outbox.pending():
            self._enqueue(row.outbound)

    def submit(self, message: Outbound, *, pause: float = 0.0) -> bool:
        """Make a message durable and send it in its turn; False when its id is known. `pause` seconds pass before it, as if typed."""
        if not self._outbox.put(message):
            return False
        if pause > 0:
            self._pauses[message.id] = pause
        self._enqueue(message)
        return True

    async def deliver(self, message: Outbound) -> Settled:
        """Submit a message and return what became of it. Of one that was settled before, only the outcome is known."""
        waiting = self._wait_for(message.id)
        if not self.submit(message) and (outcome := self._outbox.outcome(message.id)) is not None:
            self._waiters.pop(message.id, None)
            return Settled(message, outcome)
        return await waiting

    def wake(self, channel: str, account: str) -> None:
        """Say that an account is up, so that what waits for it goes on."""
        self._up.setdefault((channel, account), asyncio.Event()).set()

    async def idle(self) -> None:
        """Return when nothing is left that can be sent now."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self, grace: float = 5.0) -> None:
        """End after the pieces that are on their way, at the latest after `grace` seconds. Everything else stays in the outbox."""
        self._stopping.set()
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for waiting in [future for futures in self._waiters.values() for future in futures]:
            waiting.cancel()

    def _wait_for(self, id_: str) -> asyncio.Future[Settled]:
        waiting: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(id_, []).append(waiting)
        return waiting

    def _enqueue(self, message: Outbound) -> None:
        target = target_of(message)
        self._queues.setdefault(target, deque()).append(message.id)
        if target not in self._tasks and not self._stopping.is_set():
            self._tasks[target] = asyncio.create_task(self._work(target))

    async def _work(self, target: Target) -> None:
        queue = self._queues[target]
        try:
            while queue and not self._stopping.is_set():
                row = self._outbox.row(queue[0])
                if row is not None and not await self._row(row):
                    return
                queue.popleft()
        finally:
            del self._tasks[target]
            if not queue:
                self._queues.pop(target, None)

    async def _row(self, row: Row) -> bool:
        """Send one row to its end; False when the sender is stopping."""
        if pause := self._pauses.pop(row.outbound.id, 0.0):
            await self._sleep(pause)
        failures = 0
        while not self._stopping.is_set():
            try:
                outcome, reason = await self._pieces(row)
            except DeliveryError as error:
                if error.kind in LATER and failures < len(PAUSES_S):
                    self._warn(f"{_name(row)} waits: {_line(error)}")
                    await self._sleep(min(max(PAUSES_S[failures], error.retry_after or 0.0), _LONGEST_PAUSE_S))
                    failures += 1
                    continue
                outcome, reason = _given_up(row, error)
            except StorageError as error:  # nothing is sent that cannot be noted
                self._warn(f"{_name(row)} waits: {_line(error)}")
                await self._sleep(PAUSES_S[1])
                continue
            if outcome is not None:
                await self._settle(row, outcome, reason)
                return True
        return False

    async def _pieces(self, row: Row) -> tuple[Outcome | None, str]:
        """Send what is left of a row. No outcome when the sender is stopping."""
        message, place, channel = row.outbound, *await self._there(row)
        if place is None or channel is None:
            return (None, "") if self._stopping.is_set() else ("failed", "its channel was not up for a day")
        if not message.media and (not message.text.strip() or is_silent(message.text)):
            return "suppressed", ""
        if row.trying is not None and not place.repeatable:
            return "unknown", f"the program ended while piece {row.trying + 1} was on its way"
        pieces = row.pieces or tuple(self._cut(message, place))
        if len(pieces) > 1 and not row.pieces:
            self._outbox.cut(message.id, pieces)
        for n in range(len(row.receipts), len(pieces)):
            await self._rate_limit(target_of(message))
            if self._stopping.is_set():
                return None, ""
            self._outbox.trying(message.id, n)
            try:
                receipt = await self._show(channel, message, pieces[n], f"{message.id}:{n}")
            except DeliveryError as error:
                if error.kind is not DeliveryFailure.UNKNOWN:
                    self._outbox.missed(message.id, n)
                raise
            self._outbox.sent(message.id, n, receipt)
        return ("sent", "") if pieces else ("suppressed", "")

    async def _show(self, channel: Shows, message: Outbound, piece: Piece, key: str) -> str:
        """Send one piece. A platform that refuses the markup gets the words at once."""
        settings, usual_ms = self._retry_of(message.channel, message.account)

        async def once(shown: Piece) -> str:
            return await attempt(
                lambda: channel.send(message, shown, key), self._clock, settings, usual_ms=usual_ms, roll=self._roll
            )

        try:
            return await once(piece)
        except DeliveryError as error:
            if error.kind is not DeliveryFailure.MARKUP or (piece.text == piece.plain and not piece.styles):
                raise
            return await once(replace(piece, text=piece.plain, styles=()))

    def _cut(self, message: Outbound, place: Place) -> list[Piece]:
        """Return the pieces of a message: its words, and its files, the first of which takes short words along."""
        text, files = message.text, []
        for media in message.media:
            if place.media:
                files.append(self._file_of(message, media))
            elif "://" in media:
                text = f"{text}\n\n{media}".strip()
            else:
                raise DeliveryError(DeliveryFailure.REFUSED, f"{message.channel} takes no files")
        words = render(text, place) if text.strip() else []
        if files and words:
            caption = render(text, replace(place, limit=min(place.caption, place.limit), lines=0))
            if len(caption) == 1 and not message.as_voice:
                first = replace(caption[0], file=files[0])
                return [first, *(Piece(file=file) for file in files[1:])]
        return [*words, *(Piece(file=file, as_voice=message.as_voice and place.voice) for file in files)]

    async def _there(self, row: Row) -> tuple[Place | None, Shows | None]:
        """Return where a row goes, as soon as its account is up; nothing when it did not come up in time."""
        message = row.outbound
        while True:
            up = self._up.setdefault((message.channel, message.account), asyncio.Event())
            up.clear()
            place, channel = (
                self._place_of(message.channel, message.account),
                self._channel_of(message.channel, message.account),
            )
            if place is not None and channel is not None:
                return place, channel
            left = MAX_AGE_S - (epoch_ms(self._clock.now()) - row.at) / 1000
            if left <= 0 or self._stopping.is_set():
                return None, None
            await self._first_of(up.wait(), self._clock.sleep(left), self._stopping.wait())

    async def _rate_limit(self, target: Target) -> None:
        shown = self._shown.setdefault(target, deque(maxlen=max(1, self._rate)))
        now = self._clock.monotonic()
        if len(shown) == shown.maxlen and (wait := shown[0] + 60.0 - now) > 0:
            await self._sleep(wait)
        shown.append(self._clock.monotonic())

    async def _sleep(self, seconds: float) -> None:
        await self._first_of(self._clock.sleep(seconds), self._stopping.wait())

    async def _first_of(self, *waits: Awaitable[object]) -> None:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle(self, row: Row, outcome: Outcome, reason: str) -> None:
        try:
            settled = self._outbox.settle(row.outbound.id, outcome, reason)
        except StorageError as error:
            self._warn(_line(error))
            settled = Settled(row.outbound, outcome, reason, tuple(row.receipts))
        for waiting in self._waiters.pop(row.outbound.id, []):
            if not waiting.done():
                waiting.set_result(settled)
        if self._told is not None:
            await self._told(settled)


def _given_up(row: Row, error: DeliveryError) -> tuple[Outcome, str]:
    if error.kind is DeliveryFailure.UNKNOWN:
        return "unknown", _line(error)
    return ("partial" if row.receipts else "failed"), _line(error)


def _name(row: Row) -> str:
    return f"a message to {single_line(row.outbound.channel, 40)}:{single_line(row.outbound.to, 80)}"


def _line(error: Exception) -> str:
    return single_line(redacted(str(error)), 300)
