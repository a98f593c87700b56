"""Problems of a configuration: what is wrong, where exactly, and the cure. The same list for start, validate and doctor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

Severity: TypeAlias = Literal["error", "warning", "info"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `line` is 0 where no line can be named."""

    severity: Severity
    file: str
    line: int
    key: str
    message: str
    cure: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        key = f"{self.key}: " if self.key else ""
        cure = f" ({self.cure})" if self.cure else ""
        return f"{where}: {key}{self.message}{cure}"


Notify: TypeAlias = Callable[[Problem], None]
