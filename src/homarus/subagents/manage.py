"""What a parent can do with its children besides starting them: list, look, say something, cancel. Its own tree only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from homarus.agent.home import Home
from homarus.core.clock import epoch_ms
from homarus.core.errors import ToolError
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.sessions.log import load_tail
from homarus.sessions.places import visit
from homarus.subagents.book import ChildRecord
from homarus.tools.tool import ToolContext

if TYPE_CHECKING:
    from homarus.sessions.store import SessionStore
    from homarus.subagents.run import Children

MAX_LISTED, MAX_LOG = 60, 20
_SHOWN = frozenset({"user", "assistant", "call"})


async def manage(
    children: Children, home: Home, context: ToolContext, action: str, target: str, message: str
) -> dict[str, Any]:
    """Do what a model asks of its children."""
    tree = children.books.tree(context.session)
    if action == "list":
        return {"count": len(tree), "subagents": [row(home, kept) for kept in tree[-MAX_LISTED:]]}
    if action in {"cancel", "kill"} and target == "all":
        stopped = children.stop(context.session, "cancelled by its parent")
        return {"status": "cancelled", "count": len(stopped)}
    kept = pick(tree, target)
    match action:
        case "cancel" | "kill":
            if not children.cancel(kept.run.run_id, "cancelled by its parent"):
                raise ToolError(f"{kept.run.name} is not at work ({kept.status})", cure="see action list")
            return {"status": "cancelled", "runId": kept.run.run_id}
        case "steer":
            return children.steer(context, kept, message)
        case "info":
            return info(home, kept)
        case _:
            key = SessionKey.parse(kept.run.child)
            return {"runId": kept.run.run_id, "log": log(home.store(key.agent_id), key)}


def pick(tree: list[ChildRecord], target: str) -> ChildRecord:
    """Return the one child that a number, an id, a key or a label names; where two have the name, it says so."""
    word = target.strip().lstrip("#").lower()
    if word.isdecimal() and len(word) < 6 and 0 < int(word) <= len(tree):
        return tree[int(word) - 1]
    exact = [kept for kept in tree if word in {kept.run.run_id.lower(), kept.run.child.lower()}]
    found = exact or [kept for kept in tree if kept.run.label.lower() == word]
    found = found or [kept for kept in tree if len(word) >= 4 and kept.run.run_id.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(kept.run.run_id for kept in found[:5])
        raise ToolError(f"'{single_line(target, 40)}' names {len(found)} sub-agents", cure=f"use one of the ids: {ids}")
    raise ToolError(f"there is no sub-agent '{single_line(target, 40)}'", cure="see the ids with action list")


def row(home: Home, kept: ChildRecord) -> dict[str, Any]:
    """Return one child as a list shows it."""
    now = epoch_ms(home.clock.now())
    ended = kept.end.ended_ms if kept.end else now
    shown: dict[str, Any] = {
        "runId": kept.run.run_id,
        "label": kept.run.name,
        "status": kept.status,
        "childSessionKey": kept.run.child,
        "seconds": round(max(0, ended - kept.run.started_ms) / 1000, 1),
    }
    if kept.run.depth > 1:
        shown["depth"] = kept.run.depth
    if kept.end and kept.end.error:
        shown["error"] = single_line(kept.end.error, 200)
    return shown


def info(home: Home, kept: ChildRecord) -> dict[str, Any]:
    run, end = kept.run, kept.end
    found = {**row(home, kept), "task": single_line(run.task, 500), "cwd": run.cwd, "parent": run.parent}
    if end is not None:
        tokens = {"in": end.usage.prompt, "out": end.usage.output}
        found |= {"tokens": tokens, "result": end.text[:2_000], "transcript": end.transcript}
    # A failure in the row is about the child, not about this call.
    return {("problem" if name == "error" else name): value for name, value in found.items()}


def log(store: SessionStore, key: SessionKey) -> list[str]:
    """Return the last lines of what a child said and did."""
    found = store.find(key)
    if found is None:
        return []
    try:
        with visit(found.place) as source:
            from homarus.sessions.export import blocks  # with a table of HTML's names, which few turns need

            shown = [block for block in blocks(load_tail(source).entries) if block.kind in _SHOWN]
    except FileNotFoundError:
        return []
    return [f"{block.kind}: {single_line(block.text or block.title, 200)}" for block in shown[-MAX_LOG:]]
