"""What a changed configuration asks of a running gateway: take it over, restart one part, or restart. Pure."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from homarus.config.edit import same
from homarus.config.keypath import KeyPath

Reload: TypeAlias = Literal["none", "hot", "part", "restart"]
_MISSING: Any = object()

# The longest prefix that matches decides. What no line names is read anew by each turn or request.
_RULES: dict[KeyPath, Reload] = {
    ("$schema",): "none",
    ("meta",): "none",
    ("wizard",): "none",
    ("channels",): "part",
    ("cron",): "part",
    ("agents", "defaults", "heartbeat"): "part",
    ("hooks",): "part",
    ("hooks", "path"): "restart",
    ("hooks", "internal"): "restart",
    ("session", "mainKey"): "restart",
    **{(name,): "restart" for name in ("browser", "commands", "diagnostics", "discovery", "env", "plugins", "secrets")},
    **{("commands", name): "hot" for name in ("allowFrom", "ownerAllowFrom")},
    ("gateway",): "restart",
    **{
        ("gateway", name): "hot"
        for name in (
            *("auth", "controlUi", "http", "reload", "remote", "tools", "trustedProxies"),
            *("channelHealthCheckMinutes", "channelMaxRestartsPerHour", "channelStaleEventThresholdMinutes"),
        )
    },
}
# How deep a change is named: one channel restarts alone, so its name belongs to the path.
_PART_DEPTH = {"channels": 2, "agents": 3}


class Change(msgspec.Struct, frozen=True):
    path: KeyPath
    reload: Reload


def plan_reload(old: dict[str, Any], new: dict[str, Any]) -> tuple[Change, ...]:
    """Compare two canonical documents and return every difference once, at the depth at which it can be acted on."""
    found = {Change(path[: _depth(path)], _rule(path)) for path in _differences(old, new, ())}
    return tuple(sorted(found, key=lambda change: tuple(map(str, change.path))))


def _rule(path: KeyPath) -> Reload:
    if path[:2] == ("agents", "entries") and path[3:4] == ("heartbeat",):
        return "part"
    for size in range(len(path), 0, -1):
        if path[:size] in _RULES:
            return _RULES[path[:size]]
    return "hot"


def _depth(path: KeyPath) -> int:
    return _PART_DEPTH.get(str(path[0]), len(path)) if _rule(path) == "part" else len(path)


def _differences(old: Any, new: Any, path: KeyPath) -> list[KeyPath]:
    # A block that comes or goes is as many changes as it has keys: each may ask for something else.
    if old is _MISSING and isinstance(new, dict) and new:
        old = {}
    elif new is _MISSING and isinstance(old, dict) and old:
        new = {}
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if same(old, new) else [path]
    return [
        where
        for key in {**old, **new}
        for where in _differences(old.get(key, _MISSING), new.get(key, _MISSING), (*path, key))
    ]
