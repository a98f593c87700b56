"""One turn from a durable message to its outcome: open the session, compose, store the message, loop, keep the counts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from homarus.agent import hooked
from homarus.agent.batch import Batch
from homarus.agent.budget import Meter
from homarus.agent.loop import Loop, LoopSettings, Run
from homarus.agent.model import ChainModel
from homarus.agent.open_session import OpenSession
from homarus.agent.outcome import Outcome, Status, note_end
from homarus.agent.oversize import in_short, too_large
from homarus.agent.prepare import Prepared, compose_turn, prepare
from homarus.agent.resume import cut_off, settle_open_calls
from homarus.agent.window import open_window, prompt_tokens
from homarus.context.pins import signed
from homarus.core.cancel import FORGETTING, HANDED_OVER, TAKEN_BACK, Cancel
from homarus.core.clock import epoch_ms
from homarus.core.errors import Cancelled, HomarusError
from homarus.core.events import Notice, RunEnded, RunEvent, RunStarted, UserAccepted
from homarus.core.mailbox import Mailbox
from homarus.core.messages import COLLECTED, Image, Part, Text, Trust, User
from homarus.core.routes import Route, SessionKey
from homarus.core.tools import ToolSpec
from homarus.models.provider import ModelRequest
from homarus.models.select import Override
from homarus.sandbox.spec import SandboxSpec
from homarus.sessions.row import SessionEntry
from homarus.tools.exec_settings import ExecRequest
from homarus.tools.tool import Taint
from homarus.workspace.bootstrap import earns_marker, marker

if TYPE_CHECKING:
    from homarus.agent.compose import ComposedPrompt
    from homarus.agent.home import Home

_log = logging.getLogger(__name__)
Prepare = Callable[["Home", "Turn", SessionEntry], Awaitable[Prepared]]


class Why(StrEnum):
    PERSON = "person"
    PARENT = "parent"  # an agent that wants a task done
    SCHEDULE = "schedule"
    HEARTBEAT = "heartbeat"


class Bounds(Struct, frozen=True, kw_only=True):
    """What a turn may do at most: on whose word it acts, where, with which tools. A child gets its parent's, never more."""

    trust: Trust
    taint: Taint
    workspace: Path
    cwd: Path
    sandbox: SandboxSpec
    depth: int = 0
    max_depth: int = 1
    lineage: tuple[str, ...] = ()
    root: SessionKey | None = None
    # What a parent had; None where there is none.
    tools: tuple[str, ...] | None = None
    # The names of the variables that a parent's commands had.
    env: tuple[str, ...] | None = None
    # What a parent's session asked for its commands, where that is stricter.
    wish: ExecRequest | None = None
    # Whether `cwd` is a workspace of its own, with its own AGENTS.md.
    own_folder: bool = False
    # What a child is told about its place; the same in every turn of its session.
    rules: str = ""
    # What counts the calls of the turn that started the child.
    above: Meter | None = None


def _settles_nothing(*_keys: str) -> None:
    return None


def _tells_nobody(_event: RunEvent) -> None:
    return None


class Turn(Struct, frozen=True, kw_only=True):
    """The inputs of one turn. `keys` are the messages that it answers; each is stored at most once."""

    run_id: str
    agent_id: str
    session: SessionKey
    route: Route
    text: str
    why: Why = Why.PERSON
    keys: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    trust: Trust = Trust.OWNER
    # `direct`, `group`, `channel` or `room`; what is private stays out of a chat of which nobody says that it is direct.
    chat_type: str = ""
    # Who wrote what it answers, as their channel names them.
    senders: tuple[str, ...] = ()
    # What stands behind it that nobody trusted wrote: a message of another session hands its own on.
    taint: tuple[str, ...] = ()
    # What a parent left a child; None for a turn that no other turn asked for.
    bounds: Bounds | None = None
    model: Override | None = None
    thinking: str = ""
    provenance: dict[str, Any] | None = None
    # Levels of this turn alone (reasoning, elevated, verbose, fast, exec_…), over those of the session.
    levels: dict[str, str] = {}
    # How long it may take, where the caller says so; 0 is for ever.
    seconds: float | None = None
    # The tools that it may use at most, where the caller says so.
    tools: tuple[str, ...] | None = None
    # Of the workspace the model sees what the caller works on, and nothing else.
    light: bool = False
    # Keys of what rides along with its message besides: stored with it, so that it is told once.
    heard: tuple[str, ...] = ()
    # Facts of this turn alone that the model should know, under a heading each.
    notes: tuple[tuple[str, str], ...] = ()
    # What the program that sends it wants the model to know, for as long as it says so.
    instructions: str = ""
    # The JSON Schema that the answer must fit, and what else the model must be able to do.
    output_schema: str = ""
    needs: tuple[str, ...] = ()
    # Functions of whoever sent the message: see `RunOptions.tools`.
    caller_tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = ""
    # Folders that the owner lends to this turn, to read and to change, and the one in which it works.
    folders: tuple[str, ...] = ()
    cwd: str = ""
    # How many generations of sub-agents it may start.
    generations: int = 1
    # Whether what is said to it is heard before the next call of a tool, or only before the next call of the model.
    steer_boundary: Literal["tool", "model"] = "tool"
    # Take every waiting message at a boundary, or one at a time.
    steer_all: bool = False
    # What is said to it while it runs. The queue's items know more than the loop asks for.
    mailbox: Mailbox[Any] = field(default_factory=Mailbox)
    cancel: Cancel = field(default_factory=Cancel)
    # Called with the keys of messages once they are in the transcript.
    settle: Callable[..., None] = _settles_nothing
    emit: Callable[[RunEvent], None] = _tells_nobody

    @property
    def heartbeat(self) -> bool:
        return self.why is Why.HEARTBEAT

    @property
    def interactive(self) -> bool:
        """Say whether somebody reads along: without a reader there is no first-run ritual."""
        return self.why in {Why.PERSON, Why.PARENT}


class TurnRunner:
    """Runs turns of all agents of one home. Tests look at what a turn was given by putting a `prepare` of their own in front."""

    def __init__(self, home: Home, prepare: Prepare = prepare) -> None:
        self._home = home
        self._prepare = prepare

    async def run(self, turn: Turn) -> Outcome:
        """Run a turn to its end. Exactly one `RunEnded` is emitted, whatever happens."""
        started = self._home.clock.monotonic()
        outcome = await _outcome_of(self._in_session(turn))
        seconds = self._home.clock.monotonic() - started
        turn.emit(RunEnded(turn.run_id, outcome.status, outcome.text, outcome.error, outcome.spent.usage, seconds))
        return outcome

    async def _in_session(self, turn: Turn) -> Outcome:
        with self._home.opened(turn.session) as live:
            if turn.cancel.reason in {*FORGETTING, TAKEN_BACK} and not _is_stored(turn, live):
                # It was ended while it waited for its place or for another thing to end, so it goes the way of all that waits.
                forgotten = Outcome(Status.ABORTED, error=turn.cancel.reason)
                note_end(live.writer, forgotten, turn.keys)
                turn.settle(*turn.keys)
                return forgotten
            live.writer.begin_run(turn.run_id)
            outcome = await _outcome_of(self._opened(turn, live))
            if cut_off(live.writer.branch) and outcome.error != HANDED_OVER:
                note_end(live.writer, outcome)
            return outcome

    async def _opened(self, turn: Turn, live: OpenSession) -> Outcome:
        """Resolve what this turn runs with, settle what a crash left, store the message, and loop."""
        turn = await hooked.kept(self._home, turn)
        try:
            prepared = await self._prepare(self._home, turn, live.refresh())
            turn.emit(RunStarted(turn.run_id, str(turn.session), live.writer.session_id, prepared.chain.primary.key))
            _carry_taint(live, prepared)
            await settle_open_calls(live.writer, prepared.box, prepared.context)
            if live.occasion:
                facts = {"sessionId": live.writer.session_id, "reason": live.occasion}
                self._home.tell.soon("session:start", turn.session, facts)
            turn = await hooked.with_addition(self._home, turn, live, prepared)
            prompt = compose_turn(self._home, turn, live, prepared)
        except Exception:
            # Its turn cannot begin, and the message is in the transcript all the same: what was accepted is not lost.
            turn, _ = await hooked.guarded(self._home, turn, live, None)
            self._accept(turn, live, None)
            raise
        turn, refused = await hooked.guarded(self._home, turn, live, prompt)
        if refused:
            self._accept(turn, live, None)
            prepared.context.taint.tell(None)
            return await hooked.said(self._home, turn, live, refused, "before_agent_run")
        fixed = prompt_tokens(prompt.prompt.system.text, prepared.specs)
        if problem := too_large(turn, prepared, fixed):
            self._accept(replace(turn, text=in_short(turn.text), images=()), live, None)
            prepared.context.taint.tell(None)
            raise problem
        self._accept(turn, live, prompt)
        if turn.images and not prepared.context.vision:
            said = f"{prepared.chain.primary.key} does not see pictures; /model chooses another, agents.defaults.imageModel one for them"
            turn.emit(Notice(said, "warning"))
        try:
            before = live.compactions
            outcome = await self._loop(turn, live, prepared, prompt)
        finally:
            prepared.context.taint.tell(None)  # a child's lives on, and its log may be closed by then
        self._keep(turn, live, prepared, prompt, outcome, compacted=live.compactions != before)
        timed_out = prepared.limit.expired and outcome.status is Status.ABORTED
        return replace(outcome, status=Status.TIMEOUT) if timed_out else outcome

    def _accept(self, turn: Turn, live: OpenSession, prompt: ComposedPrompt | None) -> None:
        """Store the user's message with what rides on it; it is durable before the model hears of it.

        A message that is stored already belongs to a turn that a crash cut off, and this turn goes on with it.
        """
        session = live.writer
        if not _is_stored(turn, live):
            context, said = prompt.carrier(live.said) if prompt else ("", live.said)
            parts: tuple[Part, ...] = (Text(turn.text), *turn.images)
            heard = turn.heard if prompt else ()
            key, more = turn.keys[0] if turn.keys else "", [*turn.keys[1:], *heard]
            provenance = signed(turn.provenance, turn.trust)
            provenance = {**(provenance or {}), COLLECTED: more} if more else provenance
            message = User(parts, epoch_ms(self._home.clock.now()), context, key, provenance)
            session.append_message(message)
            live.now_said(said)
            turn.emit(UserAccepted(message))
            turn.settle(*heard)
        turn.settle(*turn.keys)

    async def _loop(self, turn: Turn, live: OpenSession, prepared: Prepared, prompt: ComposedPrompt) -> Outcome:
        model = chain_model(live, prepared, prompt)
        window = open_window(self._home, turn, live, prepared, prompt, model)
        write = hooked.writing(self._home, turn, prepared)
        batch = Batch(
            live.writer,
            prepared.box,
            prepared.context,
            guard=prepared.guard,
            emit=turn.emit,
            clock=self._home.clock,
            boundary=turn.steer_boundary,
            persist=hooked.persisting(self._home, turn, prepared),
            write=write,
        )
        run = Run(
            session=live.writer,
            settings=LoopSettings(take_all=turn.steer_all, must_answer=not turn.heartbeat, retries=prepared.retries),
            model=hooked.told_model(model, self._home, turn),
            window=window,
            batch=batch,
            mailbox=turn.mailbox,
            emit=turn.emit,
            clock=self._home.clock,
            cancel=turn.cancel,
            settle=turn.settle,
            asks=hooked.asking(self._home, turn, prepared),
            meter=prepared.meter,
            write=write,
            finalize=hooked.finalizing(self._home, turn, prepared),
        )
        try:
            with prepared.limit:
                outcome = await hooked.answered(self._home, turn, live, prepared) or await Loop(run).run()
            if outcome.ok:
                await window.accepted()
        except Cancelled as stop:
            outcome = Outcome(Status.ABORTED, error=stop.message)
        return outcome

    def _keep(
        self,
        turn: Turn,
        live: OpenSession,
        prepared: Prepared,
        prompt: ComposedPrompt,
        outcome: Outcome,
        *,
        compacted: bool = False,
    ) -> None:
        """Write down what the turn used and how it ended, in the session's row."""
        now = self._home.clock.now()
        usage, entry, ref = outcome.spent.usage, live.entry, prepared.chain.primary
        earned = earns_marker(
            carried=prompt.context.carried, ok=outcome.ok, heartbeat=turn.heartbeat, compacted=compacted
        )
        if earned and not live.completed:
            note = marker(now, run_id=turn.run_id, session_id=live.writer.session_id)
            live.writer.append("custom", {key: value for key, value in note.items() if key != "type"}, durable=False)
        fields: dict[str, Any] = {
            "aborted_last_run": outcome.status is Status.ABORTED,
            "input_tokens": entry.input_tokens + usage.input,
            "output_tokens": entry.output_tokens + usage.output,
            "cache_read": entry.cache_read + usage.cache_read,
            "cache_write": entry.cache_write + usage.cache_write,
            "estimated_cost_usd": round(entry.estimated_cost_usd + usage.cost.total, 8),
            "context_tokens": prepared.window_tokens,
            "model_provider": ref.provider,
            "model": ref.model,
            "skills_snapshot": prepared.skills.to_json(),
        }
        if size := live.context_size:
            fields |= {"total_tokens": size, "total_tokens_fresh": True}
        if turn.interactive:
            fields["last_interaction_at"] = epoch_ms(now)
        if not turn.heartbeat:
            fields["system_prompt_report"] = self._home.composer.kept_report(prompt, entry.system_prompt_report)
        keep = live.note if outcome.ok else live.update  # how it failed is known at once, also after a crash
        keep(**fields)
        prepared.meter.took(outcome.spent.seconds)


async def _outcome_of(work: Awaitable[Outcome]) -> Outcome:
    """Return what a turn comes to, whatever goes wrong: the one who waits is told."""
    try:
        return await work
    except Cancelled as stop:
        return Outcome(Status.ABORTED, error=stop.message)
    except HomarusError as problem:
        return Outcome(Status.ERROR, error=str(problem))
    except Exception as problem:  # noqa: BLE001 - see above
        _log.exception("a turn failed")
        return Outcome(Status.ERROR, error=f"unexpected failure: {type(problem).__name__}: {problem}")


def _is_stored(turn: Turn, live: OpenSession) -> bool:
    """Say whether the transcript has a turn's messages already, as it does of one that a crash cut off."""
    return bool(turn.keys) and all(live.writer.knows(key) for key in turn.keys)


def _carry_taint(live: OpenSession, prepared: Prepared) -> None:
    """What an earlier turn has read is in view of this one: its words can act as well now as then."""
    taint, before = prepared.context.taint, live.taint
    if new := [source for source in taint.sources if source not in before]:
        live.note_taint(*new)
    for source in before:
        taint.add(source)
    taint.tell(live.note_taint)


def chain_model(live: OpenSession, prepared: Prepared, prompt: ComposedPrompt) -> ChainModel:
    """Return the model of a turn, with its fallbacks behind it and its prompt in front."""
    request = ModelRequest(
        model=prepared.chain.primary.key,
        system=prompt.prompt.system,
        messages=(),
        tools=prepared.specs,
        thinking=prepared.thinking,
        session_id=live.writer.session_id,
        params=prepared.params or None,
        tool_choice=prepared.tool_choice or None,
    )
    return ChainModel(
        prepared.client,
        prepared.chain,
        request,
        pin=prepared.pin,
        deadline=prepared.limit.moment,
        tagged=prompt.request.provider.reasoning_tags,
    )
