"""What every request of a session holds before its messages, in tokens: the system prompt and the tools."""

from __future__ import annotations

import msgspec

from homarus.core.text import estimate_tokens
from homarus.core.tools import ToolSpec
from homarus.storage.cache import BoundedCache


class FixedTokens:
    """Counts a prompt with its tools once, and remembers it for as long as turns use the same."""

    def __init__(self) -> None:
        self._known: BoundedCache[str, tuple[tuple[ToolSpec, ...], int]] = BoundedCache(16)

    def of(self, system: str, tools: tuple[ToolSpec, ...]) -> int:
        """Return about how many tokens both take."""
        known = self._known.get(system)
        if known is None or known[0] != tools:
            schema = sum(len(spec.description) + len(msgspec.json.encode(spec.parameters)) for spec in tools)
            known = (tools, estimate_tokens(system) + schema // 4)
            self._known.put(system, known)
        return known[1]
