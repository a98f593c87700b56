"""Changes of the agent roster and its bindings, worked out over the document that the user wrote. Pure.

An operation names a place in the user's own file, in the spelling that file uses; making it there, and keeping the
comments, is the work of `config.write`. The order matters: operations are made one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homarus.config.keypath import KeyPath
from homarus.config.write import Operation
from homarus.core.errors import Unknown
from homarus.core.routes import DEFAULT_AGENT, normalize_agent_id

Document = Mapping[str, Any]


def places(document: Document, agent_id: str) -> list[KeyPath]:
    """Return where the roster names an agent, the strongest place first; the same id may stand in both rosters."""
    entries, listed = _rosters(document)
    found: list[KeyPath] = [("agents", "entries", name) for name in entries if normalize_agent_id(name) == agent_id]
    for index, item in enumerate(listed):
        if _id_of(item) == agent_id:
            found.append(("agents", "list", index))
    return found


def add_agent(document: Document, agent_id: str, settings: Mapping[str, Any]) -> list[Operation]:
    """Return the changes that add an agent. The agent that was there before, even unnamed, stays the default one."""
    entries, listed = _rosters(document)
    if places(document, agent_id) or (not entries and not listed and agent_id == DEFAULT_AGENT):
        raise Unknown(f"there is already an agent '{agent_id}'", cure="'homarus agents list' shows them all")
    changes: list[Operation] = []
    if listed and not entries:
        return [Operation("set", ("agents", "list", len(listed)), {"id": agent_id, **settings})]
    if not entries:
        changes.append(Operation("set", ("agents", "entries", DEFAULT_AGENT), {"default": True}))
    changes.append(Operation("set", ("agents", "entries", agent_id), dict(settings)))
    return changes


def delete_agent(document: Document, agent_id: str) -> list[Operation]:
    """Return the changes that take an agent and everything bound to it out of the configuration."""
    found = places(document, agent_id)
    if not found:
        raise Unknown(
            f"the configuration names no agent '{agent_id}'", cure="'homarus agents list' shows those it names"
        )
    # From the end, so that the places in a list stay right.
    changes = [Operation("unset", path) for path in reversed(found)]
    rows = enumerate(_bindings(document))
    bound = [index for index, row in rows if isinstance(row, dict) and _bound_to(row) == agent_id]
    return [*changes, *(Operation("unset", ("bindings", index)) for index in reversed(bound))]


def pin_workspace(document: Document, agent_id: str, workspace: str) -> list[Operation]:
    """Return the change that names an agent's folder, so that it keeps it when it becomes the default agent."""
    found = places(document, agent_id)
    return [Operation("set", (*found[0], "workspace"), workspace)] if found else []


def bind(document: Document, agent_id: str, match: Mapping[str, Any]) -> list[Operation]:
    """Return the change that leads what matches to an agent; one match cannot lead to two."""
    rows = _bindings(document)
    for row in rows:
        if isinstance(row, dict) and row.get("match") == match:
            owner = _bound_to(row)
            if owner == agent_id:
                return []
            raise Unknown(
                f"{describe_match(match)} is bound to '{owner}'", cure=f"'homarus agents unbind {owner} …' frees it"
            )
    return [Operation("set", ("bindings", len(rows)), {"agentId": agent_id, "match": dict(match)})]


def unbind(document: Document, agent_id: str, match: Mapping[str, Any] | None) -> list[Operation]:
    """Return the changes that remove an agent's bindings: those that hold all that `match` says, or every one."""
    wanted = match or {}
    gone = [
        index
        for index, row in enumerate(_bindings(document))
        if isinstance(row, dict)
        and _bound_to(row) == agent_id
        and isinstance(row.get("match"), dict)
        and all(row["match"].get(key) == value for key, value in wanted.items())
    ]
    if not gone:
        what = f"{describe_match(wanted)} is not" if wanted else "nothing is"
        raise Unknown(f"{what} bound to '{agent_id}'", cure="'homarus agents list' shows the bindings")
    return [Operation("unset", ("bindings", index)) for index in reversed(gone)]


def set_identity(document: Document, agent_id: str, values: Mapping[str, str], *, force: bool) -> list[Operation]:
    """Return the changes of an agent's `identity` block: every value, or only those that the block names already."""
    found = places(document, agent_id)
    changes: list[Operation] = []
    if not found:
        # The unnamed default agent: it gets an entry only if that is asked for.
        return [Operation("set", ("agents", "entries", agent_id, "identity"), dict(values))] if force else []
    path = found[0]
    entry = _at(document, path)
    known = entry.get("identity") if isinstance(entry, dict) else None
    for key, value in values.items():
        if force or (isinstance(known, dict) and key in known):
            changes.append(Operation("set", (*path, "identity", key), value))
    return changes


def describe_match(match: Mapping[str, Any]) -> str:
    peer = match.get("peer")
    parts = [str(match.get("channel", "any channel"))]
    if match.get("accountId"):
        parts.append(f"account {match['accountId']}")
    if isinstance(peer, dict):
        parts.append(f"{peer.get('kind', 'peer')}:{peer.get('id', '*')}")
    known = {"channel", "accountId", "peer"}
    return " ".join([*parts, *(f"{key}={value}" for key, value in match.items() if key not in known)])


def _rosters(document: Document) -> tuple[dict[str, Any], list[Any]]:
    agents = document.get("agents")
    table: dict[str, Any] = agents if isinstance(agents, dict) else {}
    entries, listed = table.get("entries"), table.get("list")
    return entries if isinstance(entries, dict) else {}, listed if isinstance(listed, list) else []


def _bindings(document: Document) -> list[Any]:
    rows = document.get("bindings")
    return rows if isinstance(rows, list) else []


def _bound_to(row: Mapping[str, Any]) -> str:
    return normalize_agent_id(str(row.get("agentId", "")))


def _id_of(item: Any) -> str | None:
    name = (item.get("id") or item.get("agentId")) if isinstance(item, dict) else None
    return normalize_agent_id(name) if isinstance(name, str) else None


def _at(document: Any, path: KeyPath) -> Any:
    for step in path:
        document = document[step]
    return document
