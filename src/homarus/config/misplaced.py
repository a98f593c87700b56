"""Rules that stand where nothing reads them: above their block, in another one, or behind a dot of a key. Pure.

A right name in the wrong place is as lost as a mistyped one. Where it is plain what was meant the program stops; a block
that nobody knows and that holds what looks like rules is named to every command.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from homarus.config.blocks import BLOCKS
from homarus.config.keypath import KeyPath, format_path
from homarus.config.known import BY_HAND, NO_EFFECT, TOP, Node, is_named, known_tree, near
from homarus.config.restrict import may_restrict

# A key, where it belongs, and whether it may be a rule that is lost. Without a place it is one that nobody knows.
Misplaced = tuple[KeyPath, str, bool]

_OF_TOOLS = frozenset({"allow", "alsoAllow", "deny", "elevated", "exec", "fs"})
_OF_AGENT = frozenset({"budget", "modelPolicy", "sandbox", "subagents"})
_RULES = frozenset({*_OF_AGENT, "dmPolicy", "groupPolicy", "tools", "workspaceAccess", "workspaceOnly"})
_OF_AGENTS = frozenset({"defaults", "entries", "list"})
_EMPTY: tuple[Any, ...] = (None, {})


def misplaced(document: dict[str, Any]) -> Iterator[Misplaced]:
    """Yield what stands in the wrong place of a canonical document."""
    for key in document.keys() - TOP:
        home = f"tools.{key}" if key in _OF_TOOLS else f"agents.defaults.{key}" if key in _OF_AGENT else ""
        yield from _judged((key,), document[key], home)
    agents = document.get("agents")
    agents = agents if isinstance(agents, dict) else {}
    for key in agents.keys() - _OF_AGENTS - {"agents"}:
        home = f"agents.defaults.{key}" if key in _OF_AGENT else f"tools.{key}" if key in _OF_TOOLS else ""
        home = "tools" if key == "tools" else home or (f"agents.entries.{key}" if isinstance(agents[key], dict) else "")
        yield from _judged(("agents", key), agents[key], home)
    owners: dict[KeyPath, Any] = {("agents", "defaults"): agents.get("defaults")}
    owners |= {("agents", "entries", name): entry for name, entry in (agents.get("entries") or {}).items()}
    for path, owner in owners.items():
        for key in _OF_TOOLS & owner.keys() if isinstance(owner, dict) else ():
            yield from _judged((*path, key), owner[key], format_path((*path, "tools", key)))
    yield from _walked(document, ())


def _judged(path: KeyPath, value: Any, home: str) -> Iterator[Misplaced]:
    key = str(path[-1])
    if value in _EMPTY or is_named(path) or (len(path) < 3 and near(key, TOP if len(path) == 1 else _OF_AGENTS)):
        return  # nothing is lost, or it is known, or said to be mistyped
    # A strange block may have a `deny` of its own; strange settings of an agent are its rules.
    if key in _RULES | _OF_TOOLS or _holds_rules(value, _RULES if len(path) == 1 else _RULES | _OF_TOOLS):
        yield path, home, bool(home)


def _holds_rules(value: Any, names: frozenset[str]) -> bool:
    if isinstance(value, dict):
        return any((key in names and inner not in _EMPTY) or _holds_rules(inner, names) for key, inner in value.items())
    return isinstance(value, list) and any(_holds_rules(inner, names) for inner in value)


def unnamed(listed: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield the agents of a list whose name is mistyped, so that their rules would be those of the agent without one."""
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(item, dict) and not item.get("id") and not item.get("agentId"):
            for key in item:
                if key not in ("id", "agentId") and (meant := near(key, ("id", "agentId"))):
                    yield ("agents", "list", index, key), meant


def _walked(value: Any, path: KeyPath) -> Iterator[Misplaced]:
    """Yield keys that name a place by dots, which is read at the top only, and blocks in a block of their own name."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walked(inner, (*path, index))
    elif isinstance(value, dict):
        for key, inner in value.items():
            first, *rest = key.split(".")
            if path and rest and (first in _names() or path == ("channels",)):
                place: KeyPath = (*path, first, *rest)
                if first in _read_at(path):
                    yield (*path, key), format_path(place), may_restrict(place)
            elif key in path and isinstance(inner, dict) and inner and key not in (known := _read_at(path)) and known:
                # As when an included file says once more what it is included as.
                place = path[: path.index(key) + 1]
                yield (*path, key), format_path(place), may_restrict(place)
            else:
                yield from _walked(inner, (*path, key))


def _read_at(path: KeyPath) -> set[str]:
    """Return the keys that are read in the object at a path; none where people choose them, or only one reader knows them."""
    node: Node | None = known_tree()
    for step in path:
        if node is not None and not isinstance(step, int):
            node = node.child(step)
    return set() if node is None or node.free or node.names == {"*"} else node.names - {"*"}


@cache
def _names() -> set[str]:
    return {step for line in (*BLOCKS, *BY_HAND, *NO_EFFECT) for step in line.partition("#")[0].split(".")}
