"""The one visible writer: takes rows of the outbox to their platforms, in order for each conversation.

A piece is noted, sent, and noted again. What a crash left between the two notes is sent again only where the platform shows
the same key once; elsewhere nobody knows, and that is told instead of guessed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from msgspec.structs import replace

from homarus.core.behind import durable
from homarus.core.clock import Clock, chance, epoch_ms
from homarus.core.errors import Cancelled, DeliveryError, DeliveryFailure, StorageError
from homarus.core.messages import Outbound
from homarus.core.text import single_line
from homarus.delivery.outbox import Outbox, Outcome, Row, Settled
from homarus.delivery.pieces import FileOf, no_files, one_line, pieces_of
from homarus.delivery.place import Piece, Place
from homarus.delivery.preview import USUAL, Preview
from homarus.delivery.retry import LATER, RetrySettings, attempt
from homarus.delivery.sanitize import without_tokens
from homarus.delivery.settings import Mode, StreamingSettings

# A message that does not get through after its request was repeated is tried again after these pauses, then given up.
PAUSES_S = (5.0, 25.0, 120.0, 600.0)
# A platform that was down for longer would show answers that nobody waits for any more.
MAX_AGE_S = 24 * 3600.0
# Pieces that one conversation gets in a minute, however talkative an agent is.
PIECES_PER_MINUTE = 30
_LONGEST_PAUSE_S = 3600.0
# A request that takes longer, also one with a large file, will not come back.
REQUEST_S = 300.0
# What a chat is told of a message of which nobody knows whether it arrived.
DOUBT = "doubt."
IN_DOUBT = "⚠️ I was cut off while I was sending, and cannot know how much of this arrived: “{}” Tell me if I shall say it again."
DOUBT_CHARS = 120
_ENDS = "the program ends; the message stays in the outbox"

Target = tuple[str, str, str, str]


class Shows(Protocol):
    """The part of a channel that delivery needs."""

    async def send(self, message: Outbound, piece: Piece, key: str) -> str: ...

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None: ...

    async def delete(self, message: Outbound, sent: str) -> None: ...


class Retry(Protocol):
    def __call__(self, channel: str, account: str) -> tuple[RetrySettings, int]:
        """Return how requests of an account are repeated, and the platform's shortest wait in milliseconds."""
        ...


class _Pauser:
    """A clock whose pauses end when the sender stops."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.now, self.monotonic = clock.now, clock.monotonic
        self._sleep = sleep

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)


def target_of(message: Outbound) -> Target:
    return message.channel, message.account, message.to, message.thread


def _usual(channel: str, account: str) -> tuple[RetrySettings, int]:
    return RetrySettings(), 500


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
        file_of: FileOf = no_files,
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
        self._previews: dict[str, Preview] = {}
        self._live: WeakSet[Preview] = WeakSet()
        self._errands: set[asyncio.Future[None]] = set()
        self._waiters: dict[str, list[asyncio.Future[Settled]]] = {}
        self._up: dict[tuple[str, str], asyncio.Event] = {}
        self._stopping = asyncio.Event()
        self._pauser = _Pauser(clock, self._sleep)

    def start(self) -> None:
        """Go on with what an earlier process left."""
        kept = {row.edits for row in self._outbox.pending()}
        for message, receipt in self._outbox.previews():
            if receipt in kept:
                self._forget(message)  # it is a message now
            else:
                self._spawn(self._clear(message, receipt))
        for row in self._outbox.pending():
            self._enqueue(row.outbound)

    def submit(self, message: Outbound, *, pause: float = 0.0, preview: Preview | None = None) -> bool:
        """Make a message durable and send it in its turn; False when its id is known.

        `pause` seconds pass before it, as if it were typed. A `preview` ends and becomes its first piece.
        """
        known = True
        try:
            known = not self._outbox.put(message)
        finally:
            if known and preview is not None:
                self.discard(preview)
        if known:
            return False
        if preview is not None:
            self._previews[message.id] = preview
        if pause > 0:
            self._pauses[message.id] = pause
        self._enqueue(message)
        return True

    async def deliver(self, message: Outbound) -> Settled:
        """Submit a message and return what became of it. Of one that was settled before, only the outcome is known."""
        if not self.submit(message) and (outcome := self._outbox.outcome(message.id)) is not None:
            return Settled(message, outcome)
        if self._stopping.is_set():
            raise Cancelled(_ENDS)
        waiting: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(message.id, []).append(waiting)
        return await waiting

    def preview(self, message: Outbound, mode: Mode, settings: StreamingSettings = USUAL) -> Preview | None:
        """Return what shows a reply while it is written; None where nothing can be edited now.

        It ends with the `submit` of its message, or with `discard`.
        """
        place = self._place_of(message.channel, message.account)
        if place is None or not place.edit or mode == "off":
            return None

        async def show(sent: str, piece: Piece) -> str:
            channel = self._channel_of(message.channel, message.account)
            if channel is None or self._stopping.is_set():
                raise DeliveryError(DeliveryFailure.TRANSIENT, "the account is not up")
            if sent:
                await channel.edit(message, sent, piece)
                return sent
            receipt = await channel.send(message, piece, f"{message.id}:preview")
            self._outbox.preview(message, receipt)
            return receipt

        # A preview that came before what waits would stand above it for ever.
        target = target_of(message)
        made = Preview(
            message, place, show, self._clock, mode=mode, settings=settings, ready=lambda: target not in self._queues
        )
        self._live.add(made)
        return made

    def discard(self, preview: Preview) -> None:
        """End a preview that becomes no message, and take it away."""
        self._spawn(self._discard(preview))

    def wake(self, channel: str, account: str) -> None:
        """Say that an account is up, so that what waits for it goes on."""
        self._up.setdefault((channel, account), asyncio.Event()).set()

    async def idle(self) -> None:
        """Return when nothing is left that can be sent now."""
        while self._tasks or self._errands:
            await asyncio.gather(*self._tasks.values(), *self._errands, return_exceptions=True)

    async def stop(self, grace: float = 5.0) -> None:
        """End after the pieces that are on their way, at the latest after `grace` seconds. Everything else stays in the outbox."""
        self._stopping.set()
        ends = [asyncio.ensure_future(preview.release()) for preview in self._live]
        tasks: list[asyncio.Future[Any]] = [*self._tasks.values(), *self._errands, *ends]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for waiting in [future for futures in self._waiters.values() for future in futures if not future.done()]:
            waiting.set_exception(Cancelled(_ENDS))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _discard(self, preview: Preview) -> None:
        if receipt := await preview.release():
            await self._clear(preview.message, receipt)

    async def _clear(self, message: Outbound, receipt: str) -> None:
        """Take a preview away as soon as its account is up; one that cannot be taken away stays."""
        _, channel = await self._there(message, epoch_ms(self._clock.now()))
        if self._stopping.is_set():
            return  # the next process does it
        try:
            if channel is not None:
                await channel.delete(message, receipt)
        except DeliveryError as error:
            self._warn(f"a preview of {_name(message)} stays: {one_line(error)}")
        self._forget(message)

    def _forget(self, preview: Outbound) -> None:
        try:
            self._outbox.preview(preview, "")
        except StorageError as error:
            self._warn(one_line(error))

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
                later = error.kind in LATER or (error.kind is DeliveryFailure.UNKNOWN and _tells_of_doubt(row.outbound))
                if later and failures < len(PAUSES_S):
                    self._warn(f"{_name(row.outbound)} waits: {one_line(error)}")
                    await self._sleep(min(max(PAUSES_S[failures], error.retry_after or 0.0), _LONGEST_PAUSE_S))
                    failures += 1
                    continue
                outcome, reason = _given_up(row, error)
            except StorageError as error:  # nothing is sent that cannot be noted
                self._warn(f"{_name(row.outbound)} waits: {one_line(error)}")
                await self._sleep(PAUSES_S[1])
                continue
            except Exception as error:  # noqa: BLE001 - a mistake in a channel or in here must not hold up the rows behind it
                outcome = "unknown" if row.trying is not None else "partial" if row.receipts else "failed"
                reason = f"{type(error).__name__}: {one_line(error)}"
            if outcome is not None:
                await self._settle(row, outcome, reason)
                return True
        return False

    async def _pieces(self, row: Row) -> tuple[Outcome | None, str]:
        """Send what is left of a row. No outcome when the sender is stopping."""
        message, place, channel = row.outbound, *await self._there(row.outbound, row.at)
        if place is None or channel is None:
            gone = DeliveryError(DeliveryFailure.REFUSED, "its channel was not up for a day")
            return (None, "") if self._stopping.is_set() else _given_up(row, gone)
        text = without_tokens(message.text)[0]
        if not message.media and not text:
            return "suppressed", ""
        # An edit can be made again: it shows the same message.
        again = place.repeatable or _tells_of_doubt(message) or (row.edits and row.trying == 0)
        if row.trying is not None and not again:
            return "unknown", f"the program ended while piece {row.trying + 1} was on its way"
        seen = await self._attach(row)
        pieces, problem = row.pieces, ""
        if not pieces:
            pieces, problem = pieces_of(replace(message, text=text), place, self._file_of)
        if len(pieces) > 1 and not row.pieces:
            self._outbox.cut(message.id, pieces)
        for n in range(len(row.receipts), len(pieces)):
            await self._rate_limit(target_of(message))
            if self._stopping.is_set():
                return None, ""
            if n == 0 and row.edits and pieces[0].file:
                await self._detach(channel, row)
            as_seen = n == 0 and row.edits and pieces[0] == seen  # platforms refuse an edit that changes nothing
            receipt = row.edits if as_seen else await self._show(channel, row, pieces[n], n)
            self._outbox.sent(message.id, n, receipt)
        return ("partial", problem) if problem else ("sent", "") if pieces else ("suppressed", "")

    async def _show(self, channel: Shows, row: Row, piece: Piece, n: int) -> str:
        """Send one piece. A platform that refuses the markup gets the words at once."""
        settings, usual_ms = self._retry_of(row.outbound.channel, row.outbound.account)

        async def once(shown: Piece) -> str:
            return await attempt(
                lambda: self._request(channel, row, shown, n),
                self._pauser,
                settings,
                usual_ms=usual_ms,
                roll=self._roll,
            )

        try:
            return await once(piece)
        except DeliveryError as error:
            if error.kind is DeliveryFailure.MARKUP and (piece.text != piece.plain or piece.styles):
                return await once(replace(piece, text=piece.plain, styles=()))
            if error.kind is DeliveryFailure.REFUSED and n == 0 and row.edits:
                await self._detach(channel, row)
                return await self._show(channel, row, piece, n)
            raise

    async def _request(self, channel: Shows, row: Row, piece: Piece, n: int) -> str:
        """Make one request, between its two notes: after a pause nothing is in doubt."""
        message, edits = row.outbound, row.edits if n == 0 else ""
        if self._stopping.is_set():
            raise DeliveryError(DeliveryFailure.TRANSIENT, "the program ends")
        self._outbox.trying(message.id, n)
        await durable()
        try:
            async with asyncio.timeout(REQUEST_S):
                if not edits:
                    return await channel.send(message, piece, f"{message.id}:{n}")
                await channel.edit(message, edits, piece)
                return edits
        except (TimeoutError, asyncio.CancelledError) as ended:
            # An account that is stopped takes its requests along, and that must not end the queue.
            if isinstance(ended, asyncio.CancelledError) and (
                (task := asyncio.current_task()) is None or task.cancelling()
            ):
                raise
            why = (
                "its account was stopped"
                if isinstance(ended, asyncio.CancelledError)
                else "the platform did not answer"
            )
            raise DeliveryError(DeliveryFailure.UNKNOWN, f"{why} while it was on its way") from None
        except DeliveryError as error:
            if error.kind is DeliveryFailure.UNKNOWN and edits:
                error = DeliveryError(DeliveryFailure.TRANSIENT, error.message, retry_after=error.retry_after)
            if error.kind is not DeliveryFailure.UNKNOWN:
                self._outbox.missed(message.id, n)
            raise error from None

    async def _attach(self, row: Row) -> Piece | None:
        """Let the preview of a message become its first piece; return what it shows."""
        preview = self._previews.pop(row.outbound.id, None)
        if preview is None or not (receipt := await preview.release()):
            return None
        self._outbox.attach(row.outbound.id, receipt)
        self._outbox.preview(preview.message, "")
        return preview.seen

    async def _detach(self, channel: Shows, row: Row) -> None:
        """Take a preview away that cannot become the message itself."""
        preview = row.edits
        self._outbox.detach(row.outbound.id)
        try:
            await channel.delete(row.outbound, preview)
        except DeliveryError as error:
            self._warn(f"a preview of {_name(row.outbound)} stays: {one_line(error)}")

    async def _there(self, message: Outbound, since: int) -> tuple[Place | None, Shows | None]:
        """Return where a message goes, as soon as its account is up; nothing when it did not come up in time."""
        while True:
            up = self._up.setdefault((message.channel, message.account), asyncio.Event())
            up.clear()
            place, channel = (
                self._place_of(message.channel, message.account),
                self._channel_of(message.channel, message.account),
            )
            if place is not None and channel is not None:
                return place, channel
            left = MAX_AGE_S - (epoch_ms(self._clock.now()) - since) / 1000
            if left <= 0 or self._stopping.is_set():
                return None, None
            await self._first_of(up.wait(), self._clock.sleep(left), self._stopping.wait())

    async def _rate_limit(self, target: Target) -> None:
        now = self._clock.monotonic()
        if len(self._shown) > 1000:
            self._shown = {one: times for one, times in self._shown.items() if times and times[-1] > now - 60.0}
        shown = self._shown.setdefault(target, deque(maxlen=max(1, self._rate)))
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

    def _doubt(self, row: Row) -> None:
        """Tell a chat of a message in doubt, once. It is on disk before the row ends; whoever waits for that is told then."""
        message = row.outbound
        if _tells_of_doubt(message) or message.id in self._waiters:
            return
        cut = row.pieces[row.trying].plain if row.trying is not None and row.trying < len(row.pieces) else message.text
        about = single_line(without_tokens(cut)[0], DOUBT_CHARS) or ", ".join(Path(name).name for name in message.media)
        try:
            self.submit(
                Outbound(
                    DOUBT + message.id,
                    message.channel,
                    message.to,
                    IN_DOUBT.format(about),
                    message.account,
                    message.thread,
                )
            )
        except StorageError as error:
            self._warn(one_line(error))

    async def _settle(self, row: Row, outcome: Outcome, reason: str) -> None:
        if outcome == "unknown":
            self._doubt(row)
        try:
            settled = self._outbox.settle(row.outbound.id, outcome, reason)
        except StorageError as error:
            self._warn(one_line(error))
            settled = Settled(row.outbound, outcome, reason, tuple(row.receipts))
        if preview := self._previews.pop(row.outbound.id, None):
            self.discard(preview)
        for waiting in self._waiters.pop(row.outbound.id, []):
            if not waiting.done():
                waiting.set_result(settled)
        if self._told is not None:
            try:
                await self._told(settled)
            except Exception as error:  # noqa: BLE001 - whoever listens must not hold up the rows behind this one
                self._warn(f"{type(error).__name__}: {one_line(error)}")


def _given_up(row: Row, error: DeliveryError) -> tuple[Outcome, str]:
    if error.kind is DeliveryFailure.UNKNOWN:
        return "unknown", one_line(error)
    return ("partial" if row.receipts else "failed"), one_line(error)


def _tells_of_doubt(message: Outbound) -> bool:
    """Say whether a message is a word of doubt: the one thing that is better said twice than not at all."""
    return message.id.startswith(DOUBT)


def _name(message: Outbound) -> str:
    return f"a message to {single_line(message.channel, 40)}:{single_line(message.to, 80)}"
