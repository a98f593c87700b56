"""The loop of a turn: two nested whiles. It appends, asks and acts, and knows no channel, no prompt and no policy.

Everything that happens is in the session before it is told to anybody, so a crash at any line leaves a log from which
the next start goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from homarus.agent.budget import Meter, Spent
from homarus.agent.outcome import Outcome, Status
from homarus.context.pins import signed
from homarus.core.cancel import HANDED_OVER, Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.events import MessageEnded, ModelCalled, Notice, TextDelta, ThinkingDelta, UserAccepted
from homarus.core.mailbox import Mailbox
from homarus.core.messages import Assistant, Message, Part, StopReason, Text, User
from homarus.core.text import single_line
from homarus.models.provider import Stop
from homarus.sessions.writer import SessionWriter

if TYPE_CHECKING:
    from homarus.agent.batch import Batch, BatchEnd
    from homarus.agent.ports import Emit, Model, Steer, Window


EMPTY_RETRIES = 3
OVERFLOW_RETRIES = 3
CLOSING_CALLS = 2
# Of what a model streams, what others are told at once; a call is told when it begins.
_TOLD = (TextDelta, ThinkingDelta, ModelCalled, Notice)


class LoopSettings(Struct, frozen=True):
    """How this turn behaves; everything else is behind the ports."""

    # Take every waiting message at a boundary, or one at a time.
    take_all: bool = False
    # The turn owes its reader words: silence after tools asks the model once more, without tools.
    must_answer: bool = True
    # How many failed attempts the run may make before it is given up, however many keys and models are left.
    retries: int = 32


class Run(Struct, frozen=True, kw_only=True):
    """What one run of the loop works with. `settle` is told a message's key once it is durable in the session."""

    session: SessionWriter
    settings: LoopSettings
    model: Model
    window: Window
    batch: Batch
    mailbox: Mailbox[Steer]
    emit: Emit
    clock: Clock
    cancel: Cancel
    meter: Meter
    settle: Callable[[str], None] = lambda _key: None
    # Told what the model is about to be asked.
    asks: Callable[[tuple[Message, ...]], None] = lambda _messages: None
    # Makes a message what it shall be in the log, before it is in there.
    write: Callable[[Message], Awaitable[Message]] | None = None
    # Says what the last answer lacks; None where it is good enough.
    finalize: Callable[[Assistant], Awaitable[User | None]] | None = None


class Loop:
    """One turn's loop. `run` may be called once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._started = run.clock.monotonic()
        self._text = ""
        self._acted = False
        self._retries = 0

    async def run(self) -> Outcome:
        """Ask and act until the model has nothing more to do and nobody has more to say."""
        while True:
            while True:
                await self._take_steering()
                if outcome := self._over():
                    return outcome
                reply = await self._ask()
                if isinstance(reply, Outcome):
                    return reply
                if not reply.calls:
                    break
                end = await self._run.batch.run(reply, waiting=self._interrupted)
                self._acted = True
                if outcome := self._after(end):
                    return outcome
            if not self._run.mailbox:
                return await self._close()

    async def _take_steering(self) -> None:
        """Put what waits into the session, each message exactly once, at the point where the model will see it."""
        if not self._run.mailbox:
            return
        items = self._run.mailbox.take(everything=self._run.settings.take_all)
        items += self._run.mailbox.take_more(lambda item: item.kept)
        for item in items:
            self._run.batch.heard(item)
            if not self._run.session.knows(item.key):
                parts: tuple[Part, ...] = (Text(item.text), *item.images)
                provenance = signed(item.facts.get("provenance"), item.trust)
                now = epoch_ms(self._run.clock.now())
                message = User(parts, now, idempotency_key=item.key, provenance=provenance)
                if self._run.write is not None:
                    message = cast("User", await self._run.write(message))
                self._run.session.append_message(message)
                self._run.emit(UserAccepted(message, steered=True))
            self._run.settle(item.key)

    def _interrupted(self) -> bool:
        """Say whether somebody wants to be heard before more calls begin; a report of a sub-agent can wait for them."""
        return bool(self._run.mailbox) and any(not item.kept for item in self._run.mailbox.waiting)

    def _over(self) -> Outcome | None:
        """Return the end of a turn that may not go on: stopped, or out of budget."""
        if self._run.cancel.cancelled:
            return self._ended(Status.ABORTED, self._run.cancel.reason)
        if self._retries > self._run.settings.retries:
            return self._ended(Status.ERROR, f"given up after {self._retries} failed attempts in one run")
        reached = self._run.meter.reached(self._run.clock.monotonic() - self._started)
        if reached is None:
            return None
        return self._ended(Status.TIMEOUT if reached.what == "seconds" else Status.ERROR, reached.text)

    async def _ask(self) -> Assistant | Outcome:
        """Call the model until it says something that can be stored, and store it."""
        empty = overflows = 0
        draft: tuple[Message, ...] = ()  # an answer that was not good enough, and what it lacks
        while True:
            messages = await self._run.window.assemble(self._run.cancel)
            stop = await self._stream((*messages, *draft), tools=True, again=bool(draft))
            reply = stop.message
            if stop.error is not None and stop.error.kind is ModelFailure.CONTEXT_OVERFLOW:
                overflows += 1
                if overflows <= OVERFLOW_RETRIES and await self._run.window.overflowed(stop.error, self._run.cancel):
                    continue
                return await self._failed(reply, _too_long(stop.error))
            if stop.error is not None or reply.stop_reason in {StopReason.ERROR, StopReason.ABORTED}:
                return await self._failed(reply, stop.error)
            if _is_empty(reply) and empty < EMPTY_RETRIES and not self._acted:
                empty += 1
                self._run.emit(Notice("the model answered nothing; asking again", "retry"))
                continue
            if self._run.finalize is not None and not (reply.calls or self._run.mailbox):
                lacks = await self._run.finalize(reply)
                if lacks is not None and self._over() is None:
                    draft = (reply, lacks)
                    continue
            await self._store(reply)
            return reply

    async def _stream(self, messages: tuple[Message, ...], *, tools: bool, again: bool = False) -> Stop:
        stop: Stop | None = None
        self._run.asks(messages)
        async for event in self._run.model.stream(messages, tools=tools, cancel=self._run.cancel):
            if isinstance(event, Stop):
                stop = event
            elif isinstance(event, _TOLD):
                if again and isinstance(event, ModelCalled):
                    event = ModelCalled(event.model, event.attempt + 1)
                self._retries += isinstance(event, ModelCalled) and event.attempt > 1
                self._run.emit(event)
        assert stop is not None, "a stream ends with one Stop"
        self._run.meter.add(stop.message.usage)
        return stop

    async def _store(self, reply: Assistant) -> None:
        if self._run.write is not None:
            reply = cast("Assistant", await self._run.write(reply))
        # Calls that only read may run again after a power cut: the sync of their first result then serves both.
        calls = reply.calls
        again = bool(calls) and self._run.batch.may_run_again(calls)
        self._run.session.append_message(reply, durable=not again)
        self._text = reply.text or self._text
        self._run.emit(MessageEnded(reply))

    async def _failed(self, reply: Assistant, error: ModelError | None) -> Outcome:
        """Keep what the model had said before it failed or was stopped; a reader was shown it already.

        Of a turn that is handed over nothing is kept: whoever goes on with it asks again.
        """
        if self._run.cancel.reason == HANDED_OVER:
            return self._ended(Status.ABORTED, HANDED_OVER)
        if reply.parts or reply.stop_reason is not StopReason.ABORTED:
            await self._store(reply)
        if self._run.cancel.cancelled or (error is not None and error.kind is ModelFailure.ABORTED):
            return self._ended(Status.ABORTED, self._run.cancel.reason)
        timeout = error is not None and error.kind is ModelFailure.TIMEOUT
        return self._ended(Status.TIMEOUT if timeout else Status.ERROR, str(error) if error else reply.error)

    def _after(self, end: BatchEnd) -> Outcome | None:
        if self._run.cancel.cancelled:
            return self._ended(Status.ABORTED, self._run.cancel.reason)
        if end.stuck:
            return self._ended(Status.ERROR, end.stuck)
        if end.ended_by:
            return Outcome(Status.OK, self._text or end.text, spent=self._now_spent(), ended_by_tool=end.ended_by)
        return None

    async def _close(self) -> Outcome:
        """End a turn that came to rest; one that acted and then said nothing is asked for words, without tools."""
        tries = 0
        while self._run.settings.must_answer and self._acted and not self._text.strip() and tries < CLOSING_CALLS:
            tries += 1
            messages = await self._run.window.assemble(self._run.cancel)
            stop = await self._stream(messages, tools=False)
            if stop.error is not None:
                return await self._failed(stop.message, stop.error)
            if not _is_empty(stop.message):
                await self._store(stop.message)
        if self._acted and not self._text.strip() and (failed := self._run.batch.failed):
            # Whoever reads along would otherwise see nothing at all.
            self._run.emit(Notice(f"{failed.tool_name} failed: {single_line(failed.text, 200)}", "reply"))
        return Outcome(Status.OK, self._text, spent=self._now_spent())

    def _ended(self, status: Status, error: str) -> Outcome:
        return Outcome(status, self._text, error, self._now_spent())

    def _now_spent(self) -> Spent:
        return self._run.meter.spent.after(self._run.clock.monotonic() - self._started)


def _too_long(error: ModelError) -> ModelError:
    return ModelError(
        error.kind,
        f"what is asked now does not fit the model's window, even without what was said before: {error.message}",
        status=error.status,
        cure="send less at once, choose a model with a larger window ('/model'), or start over ('/new'); nothing is lost",
    )


def _is_empty(reply: Assistant) -> bool:
    return not reply.calls and not reply.text.strip()
