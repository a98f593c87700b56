"""One turn from a durable message to its outcome: open the session, compose, store the message, loop, keep the counts.

This is the only place that opens a session for writing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.live import Live, OpenSessions
from homarus.agent.loop import Loop, LoopSettings, Run
from homarus.agent.model import ChainModel
from homarus.agent.outcome import Outcome, Status
from homarus.agent.resume import settle_open_calls
from homarus.agent.services import Prepared, Speech, TurnServices
from homarus.agent.windows import Scene, Windows, speech_for
from homarus.context.pins import signed
from homarus.context.window import SessionWindow
from homarus.core.cancel import Cancel
from homarus.core.clock import epoch_ms
from homarus.core.errors import Cancelled, HomarusError
from homarus.core.events import RunEnded, RunStarted, UserAccepted
from homarus.core.later import later, made_later
from homarus.core.mailbox import Mailbox
from homarus.core.messages import Image, Part, Text, Trust, User
from homarus.core.routes import Route, SessionKey
from homarus.models.provider import ModelRequest
from homarus.models.select import Override
from homarus.sessions.codec import COLLECTED
from homarus.workspace.bootstrap import earns_marker, marker

if TYPE_CHECKING:
    from homarus.agent import batch as batches
    from homarus.agent.ports import Emit
else:
    batches = later("homarus.agent.batch")


_log = logging.getLogger(__name__)


class Turn(Struct, frozen=True, kw_only=True):
    """The frozen inputs of one turn. `keys` are the messages that it answers; each is stored at most once."""

    run_id: str
    agent_id: str
    session: SessionKey
    route: Route
    text: str
    keys: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    trust: Trust = Trust.OWNER
    # `direct`, `group`, `channel` or `room`; what is private stays out of a chat of which nobody says that it is direct.
    chat_type: str = ""
    # Who wrote what it answers, as their channel names them.
    senders: tuple[str, ...] = ()
    # What stands behind it that nobody trusted wrote: a message of another session hands its own on.
    taint: tuple[str, ...] = ()
    model: Override | None = None
    thinking: str = ""
    heartbeat: bool = False
    # A turn that nobody reads along with: no first-run ritual.
    interactive: bool = True
    provenance: dict[str, Any] | None = None
    # Levels of this turn alone (reasoning, elevated, verbose, fast, exec_…), over those of the session.
    levels: dict[str, str] = {}
    # How long it may take, where the caller says so; 0 is for ever.
    seconds: float | None = None
    # Facts of this turn alone that the model should know, under a heading each.
    notes: tuple[tuple[str, str], ...] = ()


class Given(Struct, frozen=True):
    """What the queue gives a turn: its input while it runs, its stop, and whom to tell."""

    mailbox: Mailbox[Any]  # of `Steer`s; a mailbox is invariant, and the queue's items know more than the loop asks for
    cancel: Cancel
    settle: Callable[..., None]
    emit: Emit


class Staged(Struct, frozen=True):
    """Everything of a turn but the turn itself: for what a person may ask of a session besides an answer."""

    live: Live
    prepared: Prepared
    model: ChainModel
    window: SessionWindow


class TurnRunner:
    """Runs turns of all agents of one process."""

    def __init__(self, services: TurnServices) -> None:
        self._services = services
        self.open = OpenSessions()
        self._windows = Windows(services)

    async def run(self, turn: Turn, given: Given) -> Outcome:
        """Run a turn to its end. Exactly one `RunEnded` is emitted, whatever happens."""
        started = self._services.clock.monotonic()
        try:
            outcome = await self._opened(turn, given)
        except Cancelled as stop:
            outcome = Outcome(Status.ABORTED, error=stop.message)
        except HomarusError as problem:
            outcome = Outcome(Status.ERROR, error=str(problem))
        except Exception as problem:  # noqa: BLE001 - whatever went wrong, the one who waits is told
            _log.exception("a turn failed")
            outcome = Outcome(Status.ERROR, error=f"unexpected failure: {type(problem).__name__}: {problem}")
        seconds = self._services.clock.monotonic() - started
        given.emit(RunEnded(turn.run_id, outcome.status, outcome.text, outcome.error, outcome.spent.usage, seconds))
        return outcome

    @asynccontextmanager
    async def staged(self, turn: Turn, given: Given) -> AsyncIterator[Staged]:
        """Open a session with everything that a turn in it would have; nothing is stored by that."""
        services = self._services
        store = services.store(turn.agent_id)
        live = self.open.take(turn.session, lambda: Live(store, turn.session, str(services.workspace(turn.agent_id))))
        try:
            entry = live.refresh()
            prepared = await services.prepare(turn, entry, given.cancel, given.emit)
            scene = Scene(turn, given, live, prepared, services.compose(speech_for(turn, live, prepared)))
            model = _model(scene)
            yield Staged(live, prepared, model, self._windows.open(scene, model))
        finally:
            self.open.give_back(turn.session)

    async def _opened(self, turn: Turn, given: Given) -> Outcome:
        services = self._services
        store = services.store(turn.agent_id)
        live = self.open.take(turn.session, lambda: Live(store, turn.session, str(services.workspace(turn.agent_id))))
        try:
            live.writer.begin_run(turn.run_id)
            return await self._prepared(turn, given, live)
        finally:
            self.open.give_back(turn.session)

    async def _prepared(self, turn: Turn, given: Given, live: Live) -> Outcome:
        """Resolve what this turn runs with, settle what a crash left, store the message, and loop."""
        services, session = self._services, live.writer
        entry = live.refresh()
        try:
            prepared = await services.prepare(turn, entry, given.cancel, given.emit)
            given.emit(RunStarted(turn.run_id, str(turn.session), session.session_id, prepared.chain.primary.key))
            _carry_taint(live, prepared)
            await settle_open_calls(session, prepared.box, prepared.context)
            speech = services.compose(speech_for(turn, live, prepared))
        except Exception:
            # Its turn cannot begin, and the message is in the transcript all the same: what was accepted is not lost.
            self._accept(turn, given, live, None)
            raise
        self._accept(turn, given, live, speech)
        scene = Scene(turn, given, live, prepared, speech)
        try:
            outcome, compacted = await self._loop(scene)
        finally:
            prepared.context.taint.tell(None)  # a child's lives on, and its log may be closed by then
        self._keep(scene, outcome, compacted=compacted)
        timed_out = prepared.limit.expired and outcome.status is Status.ABORTED
        return replace(outcome, status=Status.TIMEOUT) if timed_out else outcome

    def _accept(self, turn: Turn, given: Given, live: Live, speech: Speech | None) -> None:
        """Store the user's message with what rides on it; it is durable before the model hears of it.

        A message that is stored already belongs to a turn that a crash cut off, and this turn goes on with it.
        """
        session = live.writer
        known = bool(turn.keys) and all(session.knows(key) for key in turn.keys)
        if not known:
            context, said = speech.carrier(live.said) if speech else ("", live.said)
            parts: tuple[Part, ...] = (Text(turn.text), *turn.images)
            key, more = (turn.keys[0], list(turn.keys[1:])) if turn.keys else ("", [])
            provenance = signed(turn.provenance, turn.trust)
            provenance = {**(provenance or {}), COLLECTED: more} if more else provenance
            message = User(parts, epoch_ms(self._services.clock.now()), context, key, provenance)
            session.append_message(message)
            live.now_said(said)
            given.emit(UserAccepted(message))
        given.settle(*turn.keys)

    async def _loop(self, scene: Scene) -> tuple[Outcome, bool]:
        services, given, prepared, session = self._services, scene.given, scene.prepared, scene.live.writer
        model = _model(scene)
        window = self._windows.open(scene, model)
        batch = made_later(
            lambda: batches.Batch(
                session,
                prepared.box,
                prepared.context,
                guard=prepared.guard,
                emit=given.emit,
                clock=services.clock,
                boundary=prepared.steer_boundary,
            )
        )
        run = Run(
            session=session,
            settings=LoopSettings(
                take_all=prepared.steer_all, must_answer=not scene.turn.heartbeat, retries=prepared.retries
            ),
            model=model,
            window=window,
            batch=batch,
            mailbox=given.mailbox,
            emit=given.emit,
            clock=services.clock,
            cancel=given.cancel,
            settle=given.settle,
            meter=prepared.meter,
        )
        before = scene.live.compactions
        try:
            with prepared.limit:
                outcome = await Loop(run).run()
            if outcome.ok:
                await window.accepted()
        except Cancelled as stop:
            outcome = Outcome(Status.ABORTED, error=stop.message)
        return outcome, scene.live.compactions != before

    def _keep(self, scene: Scene, outcome: Outcome, *, compacted: bool) -> None:
        """Write down what the turn used and how it ended, in the session's row."""
        turn, live, prepared, speech = scene.turn, scene.live, scene.prepared, scene.speech
        now = epoch_ms(self._services.clock.now())
        usage, entry, ref = outcome.spent.usage, live.entry, prepared.chain.primary
        earned = earns_marker(carried=speech.carried, ok=outcome.ok, heartbeat=turn.heartbeat, compacted=compacted)
        if earned and not live.completed:
            note = marker(self._services.clock.now(), run_id=turn.run_id, session_id=live.writer.session_id)
            live.writer.append("custom", {key: value for key, value in note.items() if key != "type"}, durable=False)
        fields: dict[str, Any] = {
            "aborted_last_run": outcome.status is Status.ABORTED,
            "input_tokens": entry.input_tokens + usage.input,
            "output_tokens": entry.output_tokens + usage.output,
            "cache_read": entry.cache_read + usage.cache_read,
            "cache_write": entry.cache_write + usage.cache_write,
            "context_tokens": prepared.window_tokens,
            "model_provider": ref.provider,
            "model": ref.model,
            "skills_snapshot": speech.skills,
        }
        if size := live.context_size:
            fields |= {"total_tokens": size, "total_tokens_fresh": True}
        if not turn.heartbeat:
            fields["last_interaction_at"] = now
            fields["system_prompt_report"] = speech.report(entry.system_prompt_report)
        keep = live.note if outcome.ok else live.update  # how it failed is known at once, also after a crash
        keep(**fields)
        prepared.meter.took(outcome.spent.seconds)


def _carry_taint(live: Live, prepared: Prepared) -> None:
    """What an earlier turn has read is in view of this one: its words can act as well now as then."""
    taint, before = prepared.context.taint, live.taint
    if new := [source for source in taint.sources if source not in before]:
        live.note_taint(*new)
    for source in before:
        taint.add(source)
    taint.tell(live.note_taint)


def _model(scene: Scene) -> ChainModel:
    prepared = scene.prepared
    request = ModelRequest(
        model=prepared.chain.primary.key,
        system=scene.speech.system,
        messages=(),
        tools=prepared.specs,
        thinking=prepared.thinking,
        session_id=scene.live.writer.session_id,
        params=prepared.params or None,
    )
    return ChainModel(prepared.client, prepared.chain, request, pin=prepared.pin, deadline=prepared.limit.moment)
