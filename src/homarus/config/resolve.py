"""The agent roster: ids, the default agent, and each agent's settings as defaults with its own entry on top. Pure."""

from __future__ import annotations

import re
from typing import Any

MAIN = "main"
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FOREIGN = re.compile(r"[^a-z0-9_-]+")


def normalize_id(text: str, *, empty: str = MAIN) -> str:
    """Return an agent or account id as it stands in keys and folder names."""
    lowered = text.strip().lower()
    if _ID.fullmatch(lowered):
        return lowered
    return _FOREIGN.sub("-", lowered).strip("-")[:64].rstrip("-").lstrip("_") or empty


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


def merge_agent(defaults: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's settings. A model of its own without fallbacks is strict: it does not inherit any."""
    merged: dict[str, Any] = merge(defaults, entry)
    for key in ("model", "imageModel"):
        own = entry.get(key)
        if isinstance(own, dict) and own.get("primary") and "fallbacks" not in own:
            merged[key] = {**merged[key], "fallbacks": []}
    return merged
