"""What a repair does to one session, told to a person, and the part of it that may be written into the file."""

from __future__ import annotations

from typing import Any

from homarus.core.clock import epoch_ms
from homarus.core.messages import Assistant, Message, ToolResult
from homarus.sessions.codec import is_synthetic
from homarus.sessions.log import Form, identify, load_tail
from homarus.sessions.places import Place, visit
from homarus.sessions.repair import missing_results, repair
from homarus.sessions.store import SessionInfo, SessionStore
from homarus.sessions.view import project, visible


def report(place: Place) -> dict[str, Any]:
    """Return how many messages are in view, how many are sent, and what differs."""
    with visit(place) as source:
        stored = project(visible(load_tail(source).entries))
        form = source.form.value
    sent = repair(stored)
    before, after = _count(stored), _count(sent)
    words = {"calls": "calls", "results": "results", "synthetic": "results put in for missing ones", "turns": "turns"}
    changes = [f"{words[name]}: {before[name]} -> {after[name]}" for name in words if before[name] != after[name]]
    return {"form": form, "stored": len(stored), "sent": len(sent), "changes": changes}


def mend(store: SessionStore, info: SessionInfo) -> list[str]:
    """Convert an old form and answer open calls, and return what was done. Nothing readable is removed."""
    done: list[str] = []
    path = info.place.path
    form = identify(path).form if path.exists() else Form.EMPTY
    with store.open_writer(info.key) as writer:
        if form in {Form.OLD, Form.FLAT, Form.HEADLESS, Form.CORRUPT}:
            done.append(f"{path.name} was {form.value} and is a version 3 transcript now")
        for result in missing_results(writer.open_calls, epoch_ms(store.clock.now())):
            writer.append_message(result)
            done.append(f"call {result.call_id} of {result.tool_name} has a result now")
    return done


def _count(messages: list[Message] | tuple[Message, ...]) -> dict[str, int]:
    return {
        "calls": sum(len(m.calls) for m in messages if isinstance(m, Assistant)),
        "results": sum(isinstance(m, ToolResult) for m in messages),
        "synthetic": sum(is_synthetic(m) for m in messages),
        "turns": sum(not isinstance(m, ToolResult) for m in messages),
    }
