"""Where hooks may change a turn: whether it runs, what it is told besides, who answers, and what of it is stored.

What comes from a plugin that nobody has to trust is marked, and taints the turn like everything that strangers wrote. Without a hook
that wants to hear of it nothing here costs anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from homarus.agent.hook_events import Changed, changed, refuse
from homarus.agent.outcome import Outcome, Status
from homarus.core.cancel import Cancel
from homarus.core.clock import epoch_ms
from homarus.core.errors import Denied
from homarus.core.events import MessageEnded, ModelCalled, Notice, TextDelta
from homarus.core.messages import Assistant, Image, Message, Part, Text, Thinking, ToolResult, User
from homarus.models.provider import Stop, StreamEvent
from homarus.tools.execute import TAINTED
from homarus.tools.untrusted import MARK, wrapped

if TYPE_CHECKING:
    from homarus.agent.compose import ComposedPrompt
    from homarus.agent.home import Home
    from homarus.agent.open_session import OpenSession
    from homarus.agent.ports import Model
    from homarus.agent.prepare import Prepared
    from homarus.agent.turn import Turn

HEADING = "Added by a hook"
# What a hook is shown of each message that a model is asked with, and of how many.
MAX_SHOWN, MAX_MESSAGES = 10_000, 200
# How often a turn is asked for a better answer.
MAX_REVISIONS = 3
RUN, WRITE, FINAL = "run:before", "write:before", "answer:final"
KEPT_BACK = "[A hook kept this out of the transcript.]"
REFUSED = "This message was not passed on: {}."


async def with_addition(home: Home, turn: Turn, live: OpenSession, prepared: Prepared) -> Turn:
    """Return the turn with what hooks want the model to know in it. It rides on the message: no prompt that was cached changes."""
    for moment in ("agent:prepare", "prompt:build"):
        if not home.tell.anybody(moment):
            continue
        facts: dict[str, Any] = {"prompt": turn.text, "model": prepared.chain.primary.key}
        facts |= {"messages": _shown(live.writer.history()), "prependContext": "", "appendContext": ""}
        told = await home.tell.ask(moment, turn.session, facts)
        for name in ("prependContext", "appendContext"):
            added = changed(told, facts, name)
            if added is not None and added.text.strip():
                _taint(prepared, added)
                turn = replace(turn, notes=(*turn.notes, (HEADING, added.marked(home.ids))))
    return turn


async def guarded(home: Home, turn: Turn, live: OpenSession, prompt: ComposedPrompt | None) -> tuple[Turn, str]:
    """Ask whether a turn may run. Where not, return it without the words that nobody is to read, and what is said instead."""
    if not home.tell.anybody(RUN):
        return turn, ""
    system = prompt.prompt.system if prompt is not None else None
    facts: dict[str, Any] = {"prompt": turn.text, "runId": turn.run_id, "message": ""}
    facts |= {"messages": _shown(live.writer.history())}
    facts |= {"systemPrompt": f"{system.stable}\n\n{system.session}" if system is not None else ""}
    facts |= {"notes": [text for _, text in turn.notes], "block": False, "blockReason": ""}
    told = await home.tell.ask(RUN, turn.session, facts)
    try:
        refuse(told)
    except Denied as problem:
        words = changed(told, facts, "message")
        # Why a hook says no stays with the hook: it may tell what nobody is to read.
        plain = REFUSED.format(str(problem) if told is not None and told.failed else "a hook does not allow it")
        turn = replace(turn, text=KEPT_BACK, images=(), notes=())
        return turn, words.text if words is not None and words.text.strip() else plain
    return turn, ""


async def kept(home: Home, turn: Turn) -> Turn:
    """Return a turn with its words as hooks let them be stored, which is also how its model reads them."""
    found = await _stored(home, turn, "user", turn.text)
    if found is None:
        return turn
    images = () if found.text == KEPT_BACK else turn.images
    return replace(turn, text=found.marked(home.ids), images=images, taint=(*turn.taint, *found.sources))


def writing(home: Home, turn: Turn, prepared: Prepared) -> Callable[[Message], Awaitable[Message]] | None:
    """Return what lets hooks rewrite or keep back the words of a message before it is stored. That it was there stays: each
    call has its result, and each question its answer.
    """
    if not home.tell.anybody(WRITE):
        return None

    async def write(message: Message) -> Message:
        found = await _stored(home, turn, type(message).__name__.lower(), message.text)
        if found is None:
            return message
        _taint(prepared, found)
        gone = (Text, Thinking, Image) if found.text == KEPT_BACK else (Text,)
        left = cast("list[Part]", [part for part in message.parts if not isinstance(part, gone)])
        text = found.text if isinstance(message, Assistant) else found.marked(home.ids)
        return replace(message, parts=(Text(text), *left) if text else tuple(left))

    return write


async def _stored(home: Home, turn: Turn, role: str, text: str) -> Changed | None:
    if not home.tell.anybody(WRITE):
        return None
    facts = {"role": role, "text": text, "runId": turn.run_id, "block": False, "blockReason": ""}
    told = await home.tell.ask(WRITE, turn.session, facts)
    found = changed(told, facts, "text")
    try:
        refuse(told)
    except Denied:
        return Changed(KEPT_BACK)
    return found


def finalizing(home: Home, turn: Turn, prepared: Prepared) -> Callable[[Assistant], Awaitable[User | None]] | None:
    """Return what lets hooks ask for a better answer: what the model is told then is in no transcript, and so is the answer
    that was not good enough.
    """
    if not home.tell.anybody(FINAL):
        return None
    left = MAX_REVISIONS

    async def finalize(reply: Assistant) -> User | None:
        nonlocal left
        facts = {"runId": turn.run_id, "model": prepared.chain.primary.key, "text": reply.text, "revise": ""}
        found = await home.tell.change(FINAL, turn.session, facts, "revise") if left else None
        if found is None or not found.text.strip() or turn.cancel.cancelled:
            return None
        left -= 1
        _taint(prepared, found)
        return User((Text(found.marked(home.ids)),), epoch_ms(home.clock.now()))

    return finalize


class ToldModel:
    """A model that tells hooks of each request and its end: how long it took and what became of it, not what was said."""

    def __init__(self, model: Model, home: Home, turn: Turn) -> None:
        self._model, self._home, self._turn, self._number = model, home, turn, 0

    async def stream(
        self, messages: tuple[Message, ...], *, tools: bool, cancel: Cancel
    ) -> AsyncIterator[StreamEvent | ModelCalled | Notice]:
        clock, begun, facts = self._home.clock, 0.0, dict[str, Any]()

        def ended(outcome: str, kind: str = "") -> None:
            if facts:
                took = {"durationMs": round((clock.monotonic() - begun) * 1000), "outcome": outcome, "errorKind": kind}
                self._home.tell.soon("model:call:ended", self._turn.session, {**facts, **took})

        async with aclosing(cast("Any", self._model.stream(messages, tools=tools, cancel=cancel))) as events:
            async for event in events:
                if isinstance(event, ModelCalled):
                    ended("error")  # the attempt before it
                    self._number, begun = self._number + 1, clock.monotonic()
                    provider, _, name = event.model.partition("/")
                    facts = {"runId": self._turn.run_id, "callId": f"{self._turn.run_id}.{self._number}"}
                    facts |= {"provider": provider, "model": name, "attempt": event.attempt}
                    self._home.tell.soon("model:call:started", self._turn.session, facts)
                elif isinstance(event, Stop):
                    ended("error" if event.error else "completed", event.error.kind.value if event.error else "")
                yield event


def told_model(model: Model, home: Home, turn: Turn) -> Model:
    wanted = any(map(home.tell.anybody, ("model:call:started", "model:call:ended")))
    return ToldModel(model, home, turn) if wanted else model


async def answered(home: Home, turn: Turn, live: OpenSession, prepared: Prepared) -> Outcome | None:
    """Return the end of a turn that a hook answers instead of the model, with its words in the transcript."""
    given = await home.tell.change("agent:reply", turn.session, {"prompt": turn.text, "reply": ""}, "reply")
    if given is None or not given.text.strip() or turn.cancel.cancelled:
        return None
    _taint(prepared, given)
    return await said(home, turn, live, given.text, "before_agent_reply")


async def said(home: Home, turn: Turn, live: OpenSession, text: str, by: str) -> Outcome:
    """End a turn with words of a hook, which are stored as others let them be."""
    found = await _stored(home, turn, "assistant", text)
    if found is not None:
        text = found.text
        if found.sources:
            live.note_taint(*found.sources)
    reply = Assistant((Text(text),), epoch_ms(home.clock.now()), provider="hook", model=by)
    live.writer.append_message(reply)
    turn.emit(TextDelta(text))
    turn.emit(MessageEnded(reply))
    return Outcome(Status.OK, text)


def persisting(home: Home, turn: Turn, prepared: Prepared) -> Callable[[ToolResult], Awaitable[ToolResult]] | None:
    """Return what lets hooks shorten or rewrite the text of a result before it is stored; whose words it holds stays noted."""
    if not home.tell.anybody("tool:persist"):
        return None

    async def persist(result: ToolResult) -> ToolResult:
        facts = {"toolName": result.tool_name, "toolCallId": result.call_id, "isError": result.is_error}
        found = await home.tell.change("tool:persist", turn.session, {**facts, "result": result.text}, "result")
        if found is None:
            return result
        _taint(prepared, found)
        nonce, words = home.ids.uuid()[:8], found.text
        if found.sources or (
            MARK in result.text and MARK not in words
        ):  # what strangers wrote stays marked, however short
            words = wrapped(words, ", ".join((result.tool_name, *found.sources)), nonce)
        text = Text(words or "(no output)")
        details = {**(result.details or {}), **({TAINTED: True} if found.sources else {})}
        kept = [part for part in result.parts if not isinstance(part, Text)]
        return replace(result, parts=(text, *kept), details=details)

    return persist


def asking(home: Home, turn: Turn, prepared: Prepared) -> Callable[[tuple[Message, ...]], None]:
    """Return what tells hooks what a model is about to be asked."""

    def asked(messages: tuple[Message, ...]) -> None:
        if home.tell.anybody("model:input"):
            facts = {"runId": turn.run_id, "model": prepared.chain.primary.key, "messages": _shown(messages, 0)}
            home.tell.soon("model:input", turn.session, facts)

    return asked


def _shown(messages: Sequence[Message], most: int = MAX_MESSAGES) -> list[dict[str, str]]:
    return [{"role": type(each).__name__.lower(), "text": each.text[:MAX_SHOWN]} for each in messages[-most:]]


def _taint(prepared: Prepared, changed: Changed) -> None:
    for source in changed.sources:
        prepared.context.taint.add(source)
