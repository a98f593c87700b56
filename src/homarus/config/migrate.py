"""Every spelling of every era to one canonical form: numbered, pure, in memory only.

Nothing here is written back to the user's file. Unknown keys pass through untouched. Each move is remembered, so that
a problem with a canonical key is reported at the line where the user wrote it, in the spelling that the user chose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from homarus.config.keypath import KeyPath, lookup
from homarus.config.resolve import merge, normalize_id

_GONE = object()


class Draft:
    """A document on its way to the canonical form, with the origin of everything that moved."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.root: dict[str, Any] = _copy(document)
        self.origins: dict[KeyPath, KeyPath] = {}
        self.notes: list[tuple[KeyPath, str, str]] = []

    def get(self, *path: str) -> Any:
        """Return the value at a path, or None."""
        return lookup(self.root, path)

    def table(self, *path: str) -> dict[str, Any]:
        """Return the object at a path, or an empty one where there is none."""
        value = lookup(self.root, path)
        return value if isinstance(value, dict) else {}

    def pop(self, path: KeyPath) -> Any:
        """Take a value out of the document."""
        parent = lookup(self.root, path[:-1])
        return parent.pop(path[-1], _GONE) if isinstance(parent, dict) else _GONE

    def lay_under(self, path: KeyPath, value: Any, origin: KeyPath) -> None:
        """Put a value at a path where the document says nothing of its own; objects merge, what is there wins."""
        here = self.root
        for index, step in enumerate(path[:-1]):
            inner = here.setdefault(str(step), {})
            if not isinstance(inner, dict):
                self.notes.append((path[: index + 1], "hides an older spelling below it", "make it an object"))
                return
            here = inner
        last = str(path[-1])
        here[last] = merge(value, here[last]) if last in here else value
        self.origins.setdefault(path, origin)

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move a value to its canonical place; a value that already stands there wins."""
        value = self.pop(old)
        if value is not _GONE:
            self.lay_under(new, value, old)


class Migration(NamedTuple):
    """One numbered step. Its function changes the draft and nothing else."""

    number: int
    about: str
    apply: Callable[[Draft], None]


def migrate(document: dict[str, Any]) -> Draft:
    """Run all steps in order over a copy of the document."""
    draft = Draft(document)
    for step in MIGRATIONS:
        step.apply(draft)
    return draft


def _dotted(draft: Draft) -> None:
    for key in [key for key in draft.root if "." in key.strip(".")]:
        draft.move((key,), tuple(part.strip() for part in key.split(".") if part.strip()))


def _single_agent(draft: Draft) -> None:
    if isinstance(draft.root.get("agent"), dict):
        draft.move(("agent",), ("agents", "defaults"))


def _roster(draft: Draft) -> None:
    agents = draft.root.get("agents")
    if not isinstance(agents, dict):
        return
    listed = agents.pop("list", None)
    named = agents.get("entries")
    entries: dict[str, Any] = {}
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        where: KeyPath = ("agents", "list", index)
        if not isinstance(item, dict):
            draft.notes.append((where, "an agent must be an object", 'write { id: "name" }'))
            continue
        _add_agent(draft, entries, item.get("id") or item.get("agentId") or "", item, where)
    for name, item in named.items() if isinstance(named, dict) else ():
        where = ("agents", "entries", name)
        if isinstance(item, dict):
            agent_id = normalize_id(name)
            over = entries.pop(agent_id, None)
            _add_agent(draft, entries, name, merge(over, item) if over else item, where)
        elif item is not None:
            draft.notes.append((where, "an agent must be an object", "write { } for an agent without settings"))
    agents["entries"] = entries


def _add_agent(draft: Draft, entries: dict[str, Any], name: Any, item: dict[str, Any], where: KeyPath) -> None:
    agent_id = normalize_id(name if isinstance(name, str) else str(name))
    if agent_id in entries:
        draft.notes.append((where, f"a second agent with the id '{agent_id}' is left out", "give it another id"))
        return
    entries[agent_id] = {key: value for key, value in item.items() if key not in ("id", "agentId")}
    draft.origins[("agents", "entries", agent_id)] = where


def _models(draft: Draft) -> None:
    agents = draft.table("agents")
    owners = [agents.get("defaults"), *draft.table("agents", "entries").values()]
    for owner in owners:
        for key in ("model", "imageModel"):
            if isinstance(owner, dict) and isinstance(owner.get(key), str):
                owner[key] = {"primary": owner[key]}


def _memory_search(draft: Draft) -> None:
    # The newer place wins, and per-agent settings need it among the defaults that entries are merged over.
    value = draft.pop(("memory", "search"))
    if isinstance(value, dict):
        old = draft.pop(("agents", "defaults", "memorySearch"))
        draft.lay_under(("agents", "defaults", "memorySearch"), value, ("memory", "search"))
        if isinstance(old, dict):
            draft.lay_under(("agents", "defaults", "memorySearch"), old, ("agents", "defaults", "memorySearch"))


def _reset(draft: Draft) -> None:
    draft.move(("session", "idleMinutes"), ("session", "reset", "idleMinutes"))
    draft.move(("session", "resetByType", "dm"), ("session", "resetByType", "direct"))


MIGRATIONS = (
    Migration(1, "a dotted key at the top level is a path", _dotted),
    Migration(2, "agent.* becomes agents.defaults.*", _single_agent),
    Migration(3, "agents.list[] becomes agents.entries.<id>", _roster),
    Migration(4, "a model name becomes { primary }", _models),
    Migration(5, "memory.search becomes agents.defaults.memorySearch", _memory_search),
    Migration(6, "session.idleMinutes and resetByType.dm", _reset),
)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value
