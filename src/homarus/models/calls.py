"""How the last real call of each model ended: a small note, so that whoever looks at a home need not call a model to know.

It is kept in `homarus/model-calls.json` of the state folder. A note that cannot be read or written is no note; nothing fails by it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from homarus.core.errors import ModelError, StorageError
from homarus.core.errors import ModelFailure as F
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir, write_atomic

FILE = "model-calls.json"
MAX_MODELS, MAX_WORDS = 100, 300
# How often it is written down that a model that answered answers still.
EVERY_MS = 10 * 60 * 1000
# These say something about one request, and nothing about whether the model answers others.
_OF_THE_REQUEST = frozenset({F.ABORTED, F.REFUSAL, F.CONTEXT_OVERFLOW, F.REQUEST_TOO_LARGE, F.THINKING_LEVEL})


class LastCall(Struct, frozen=True, omit_defaults=True):
    """When a model was last called, in milliseconds since 1970, and why it did not answer; nothing where it did."""

    at: int
    failure: str = ""

    def __str__(self) -> str:
        when = f"{datetime.fromtimestamp(self.at / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"
        return f"when it was last asked ({when}) it failed: {self.failure}" if self.failure else f"last answered {when}"


class CallBook:
    """The last call of each model, by `provider/model`."""

    def __init__(self, own_dir: Path) -> None:
        self._path = own_dir / FILE
        self._rows: dict[str, LastCall] | None = None

    def of(self, model: str) -> LastCall | None:
        """Return how the last call of a model ended, as far as any process has noted it; None where nobody called it."""
        return self._read().get(model)

    def note(self, model: str, error: ModelError | None, now: int) -> None:
        """Note how a call ended. What says nothing new, or nothing about the model, is not written."""
        if error is not None and error.kind in _OF_THE_REQUEST:
            return
        self.write(model, error.message if error is not None else "", now)

    def write(self, model: str, failure: str, now: int) -> None:
        """Note why a model did not answer; nothing where it did."""
        call = LastCall(now, single_line(failure.removeprefix(f"{model}: "), MAX_WORDS))
        known = self._rows if self._rows is not None else self._read()
        before = known.get(model)
        if before is not None and before.failure == call.failure and 0 <= now - before.at < EVERY_MS:
            return
        known = {**self._read(), model: call}
        latest = sorted(known, key=lambda name: known[name].at)[-MAX_MODELS:]
        self._rows = {name: known[name] for name in latest}
        if not self._path.parent.parent.is_dir():
            return  # there is no home yet, and a call makes none
        try:
            ensure_dir(self._path.parent)
            write_atomic(self._path, msgspec.json.encode(self._rows), lasting=False)
        except StorageError:
            return

    def _read(self) -> dict[str, LastCall]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, LastCall])
        except (OSError, ValueError):
            return {}
