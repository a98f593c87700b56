"""Problems of a configuration: what is wrong, where exactly, and the cure. One list for start, validate and doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

Severity: TypeAlias = Literal["error", "warning", "info"]
_ORDER = {"error": 0, "warning": 1, "info": 2}

HEADERS = ("", "where", "key", "problem", "cure")


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `line` is 0 where no line can be named."""

    severity: Severity
    file: str
    line: int
    key: str
    message: str
    cure: str = ""

    @property
    def where(self) -> str:
        """Return `file:line`, as editors and terminals understand it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        cure = f" ({self.cure})" if self.cure else ""
        return f"{self.where}: {key}{self.message}{cure}"


Notify: TypeAlias = Callable[[Problem], None]


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda p: (_ORDER[p.severity], p.file, p.line, p.key))


def has_errors(problems: Iterable[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def table_rows(problems: Iterable[Problem], *, home: str = "") -> list[tuple[str, str, str, str, str]]:
    """Return the rows of a table under `HEADERS`; paths below the home folder are shortened."""
    short = f"{home.rstrip('/')}/" if home else ""
    return [
        (
            problem.severity,
            f"~/{problem.where.removeprefix(short)}" if short and problem.where.startswith(short) else problem.where,
            problem.key or "-",
            problem.message,
            problem.cure,
        )
        for problem in ordered(problems)
    ]


def as_json(problems: Iterable[Problem]) -> list[dict[str, object]]:
    return [{**msgspec.structs.asdict(problem), "line": problem.line or None} for problem in ordered(problems)]
