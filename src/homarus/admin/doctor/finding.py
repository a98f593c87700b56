"""One finding of the doctor, and the home it examines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct

from homarus.config.view import Config
from homarus.core.clock import Clock


class Severity(StrEnum):
    """How bad it is. `ok` findings say what was looked at and found well."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Finding(Struct, frozen=True):
    """What was found. `fix` mends it and returns what it did; None when only a person can."""

    check: str
    severity: Severity
    message: str
    path: str = ""
    cure: str = ""
    fix: Callable[[], str] | None = None

    def as_json(self) -> dict[str, object]:
        """Return the finding for programs."""
        return {
            "checkId": self.check,
            "severity": self.severity.value,
            "message": self.message,
            "path": self.path or None,
            "cure": self.cure or None,
            "fixable": self.fix is not None,
        }


class Home(Struct, frozen=True):
    """The home under examination and the world around it."""

    config: Config
    env: Mapping[str, str]
    clock: Clock


Check = Callable[[Home], list[Finding]]


def ok(check: str, message: str) -> list[Finding]:
    """Return the finding of a check that found nothing wrong."""
    return [Finding(check, Severity.OK, message)]
