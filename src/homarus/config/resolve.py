"""How values lie over each other: included files, agent defaults and agent entries. Pure."""

from __future__ import annotations

from typing import Any


def merge(base: Any, over: Any) -> Any:
    """Lay one value over another: objects merge key by key, `null` erases, everything else replaces."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif key in merged:
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def merge_include(base: Any, over: Any) -> Any:
    """Lay a file over what it includes, by the rule such files were written for: lists are joined, the rest as above.

    A `null` stays as it is here, because what it erases is decided later, between defaults and entries.
    """
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        merged[key] = merge_include(merged[key], value) if key in merged else value
    return merged


def merge_agent(defaults: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's settings. A model of its own without fallbacks is strict: it does not inherit any."""
    merged: dict[str, Any] = merge(defaults, entry)
    for key in ("model", "imageModel"):
        own = entry.get(key)
        if isinstance(own, dict) and own.get("primary") and "fallbacks" not in own and isinstance(merged[key], dict):
            merged[key] = {**merged[key], "fallbacks": []}
    return merged
