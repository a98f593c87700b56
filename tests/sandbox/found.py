"""Who bears the mark of a command."""

from __future__ import annotations

from homarus.sandbox.ownership import all_marked, owned


def marked(mark: str) -> list[int]:
    return [pid for pid, value in all_marked() if value == owned(mark)]
