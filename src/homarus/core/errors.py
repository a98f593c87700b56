"""Errors that say who acts next. Catch them narrowly, at the hop that can act."""

from __future__ import annotations

import sys
from enum import StrEnum


class HomarusError(Exception):
    """Base of every error we raise on purpose. `cure` tells the reader what to do about it."""

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message} ({self.cure})" if self.cure else self.message


def installing(what: str, prefix: str = sys.prefix, base: str = sys.base_prefix) -> str:
    """Return the command that installs a package, or an extra such as `homarus[mcp]`, where this program finds it.

    A program of pipx or of uv has a folder of its own, and so has a virtual environment, whether it is the active one or
    not: a plain `pip` would install beside it.
    """
    quoted = f"'{what}'" if "[" in what else what
    if "/pipx/" in prefix:
        return f"pipx runpip homarus install {quoted}"
    if "/uv/tools/" in prefix:
        return f"uv pip install --python {prefix} {quoted}"
    return f"{'pip' if prefix == base else f'{prefix}/bin/pip'} install {quoted}"


class ConfigError(HomarusError):
    """The operator acts: a file or a setting is wrong. Names file, key and cure."""


class Unknown(ConfigError):
    """The caller acts: what was named is not there, is taken, or cannot be. The files are right, so to a script this is a plain failure."""


class StorageError(HomarusError):
    """The operator acts: a durable file could not be read or written. Nothing was half-written."""


class Locked(StorageError):
    """Another process owns this file. Carries its pid where it is known; `ours` says that it is one of homarus."""

    def __init__(self, message: str, *, pid: int | None = None, cure: str = "", ours: bool = True) -> None:
        super().__init__(message, cure=cure)
        self.pid = pid
        self.ours = ours


class Fenced(StorageError):
    """Nobody acts: this home belongs to another worker by now. Nothing was written, and nothing may be sent."""


class ModelFailure(StrEnum):
    """What kind of failure a model call ended with; decided in the provider, read by the failover."""

    AUTH = "auth"
    AUTH_PERMANENT = "auth_permanent"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    NO_CONNECTION = "no_connection"
    # A certificate, a proxy, a missing name, or nobody at home on this machine: the same again until somebody acts.
    UNREACHABLE = "unreachable"
    SERVER = "server_error"
    MODEL_NOT_FOUND = "model_not_found"
    CONTEXT_OVERFLOW = "context_overflow"
    REQUEST_TOO_LARGE = "request_too_large"
    THINKING_LEVEL = "thinking_level"
    FORMAT = "format"
    REFUSAL = "refusal"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class ModelError(HomarusError):
    """The failover acts: try again, rotate, compact or stop, by `kind`."""

    def __init__(
        self,
        kind: ModelFailure,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        cure: str = "",
    ) -> None:
        super().__init__(message, cure=cure)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after


class ToolError(HomarusError):
    """The model acts: the text tells it how to call the tool right."""


class Denied(HomarusError):
    """Nobody acts: policy said no, and asking again will not change it."""


class Cancelled(HomarusError):
    """The run stops: somebody asked for it."""


class DeliveryFailure(StrEnum):
    """Why a platform did not take a message; decided by its channel, read by the retry."""

    RATE_LIMIT = "rate_limit"
    # It did not arrive: no connection, or the server said "not now".
    TRANSIENT = "transient"
    # The platform refuses the markup, not the words.
    MARKUP = "markup"
    # The same again until somebody acts: a wrong token, a chat that is gone, a file that is too big.
    REFUSED = "refused"
    # It may have arrived, and the platform cannot say. It is never sent again by itself.
    UNKNOWN = "unknown"


class DeliveryError(HomarusError):
    """The outbox acts: try again, send plain text, give up, or say that nobody knows, by `kind`."""

    def __init__(
        self, kind: DeliveryFailure, message: str, *, retry_after: float | None = None, cure: str = ""
    ) -> None:
        super().__init__(message, cure=cure)
        self.kind = kind
        self.retry_after = retry_after


class ChannelError(HomarusError):
    """The operator acts: an account cannot be served. `fatal` when trying again cannot help (a wrong token)."""

    def __init__(self, message: str, *, fatal: bool = False, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.fatal = fatal
