"""Patterns that are compiled when they are first used. A command uses few of those that the modules it imports name."""

from __future__ import annotations

import re
from typing import AnyStr, cast

_METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer", "pattern", "flags", "groups")


class _Late:
    """Stands for a compiled pattern; it becomes as fast as one with its first use."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        compiled: re.Pattern[str] | re.Pattern[bytes] = re.compile(self._text, self._flags)
        # From now on the methods are found here without asking.
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern for a module's own constant. It must be right: a mistake shows at the first use only."""
    return cast("re.Pattern[AnyStr]", _Late(text, flags))
