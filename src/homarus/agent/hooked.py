"""Where hooks may change a turn: what it is told besides, the answer instead of the model's, and results before they are stored.

What comes from a plugin that nobody has to trust is marked, and taints the turn like everything that strangers wrote. Without a hook
that wants to hear of it nothing here costs anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homarus.agent.outcome import Outcome, Status
from homarus.core.clock import epoch_ms
from homarus.core.events import MessageEnded, TextDelta
from homarus.core.messages import Assistant, Message, Text, ToolResult
from homarus.tools.execute import TAINTED
from homarus.tools.untrusted import MARK, wrapped

if TYPE_CHECKING:
    from homarus.agent.home import Home
    from homarus.agent.hook_events import Changed
    from homarus.agent.open_session import OpenSession
    from homarus.agent.prepare import Prepared
    from homarus.agent.turn import Turn

HEADING = "Added by a hook"
# What a hook is shown of each message that a model is asked with.
MAX_SHOWN = 10_000


async def with_addition(home: Home, turn: Turn, prepared: Prepared) -> Turn:
    """Return the turn with what hooks want the model to know in it. It rides on the message: no prompt that was cached changes."""
    facts = {"prompt": turn.text, "model": prepared.chain.primary.key, "prependContext": ""}
    added = await home.tell.change("prompt:build", turn.session, facts, "prependContext")
    if added is None or not added.text.strip():
        return turn
    _taint(prepared, added)
    text = wrapped(added.text, ", ".join(added.sources), home.ids.uuid()[:8]) if added.sources else added.text
    return replace(turn, notes=(*turn.notes, (HEADING, text)))


async def answered(home: Home, turn: Turn, live: OpenSession, prepared: Prepared) -> Outcome | None:
    """Return the end of a turn that a hook answers instead of the model, with its words in the transcript."""
    given = await home.tell.change("agent:reply", turn.session, {"prompt": turn.text, "reply": ""}, "reply")
    if given is None or not given.text.strip() or turn.cancel.cancelled:
        return None
    _taint(prepared, given)
    reply = Assistant((Text(given.text),), epoch_ms(home.clock.now()), provider="hook", model="before_agent_reply")
    live.writer.append_message(reply)
    turn.emit(TextDelta(given.text))
    turn.emit(MessageEnded(reply))
    return Outcome(Status.OK, given.text)


def persisting(home: Home, turn: Turn, prepared: Prepared) -> Callable[[ToolResult], Awaitable[ToolResult]] | None:
    """Return what lets hooks shorten or rewrite the text of a result before it is stored; whose words it holds stays noted."""
    if not home.tell.anybody("tool:persist"):
        return None

    async def persist(result: ToolResult) -> ToolResult:
        facts = {"toolName": result.tool_name, "toolCallId": result.call_id, "isError": result.is_error}
        changed = await home.tell.change("tool:persist", turn.session, {**facts, "result": result.text}, "result")
        if changed is None:
            return result
        _taint(prepared, changed)
        nonce, said = home.ids.uuid()[:8], changed.text
        if changed.sources or (
            MARK in result.text and MARK not in said
        ):  # what strangers wrote stays marked, however short
            said = wrapped(said, ", ".join((result.tool_name, *changed.sources)), nonce)
        text = Text(said or "(no output)")
        details = {**(result.details or {}), **({TAINTED: True} if changed.sources else {})}
        kept = [part for part in result.parts if not isinstance(part, Text)]
        return replace(result, parts=(text, *kept), details=details)

    return persist


def asking(home: Home, turn: Turn, prepared: Prepared) -> Callable[[tuple[Message, ...]], None]:
    """Return what tells hooks what a model is about to be asked."""

    def asked(messages: tuple[Message, ...]) -> None:
        if home.tell.anybody("model:input"):
            shown = [{"role": type(each).__name__.lower(), "text": each.text[:MAX_SHOWN]} for each in messages]
            facts = {"runId": turn.run_id, "model": prepared.chain.primary.key, "messages": shown}
            home.tell.soon("model:input", turn.session, facts)

    return asked


def _taint(prepared: Prepared, changed: Changed) -> None:
    for source in changed.sources:
        prepared.context.taint.add(source)
