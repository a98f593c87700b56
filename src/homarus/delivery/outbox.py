"""The durable outbox: what is to be shown is on disk before anything is sent, until it is known what became of it.

One JSONL file, written by one process. A row is put, its pieces are tried and sent one by one, and it is settled. What a
crash leaves behind is a row whose next piece was not begun, or one that was begun and of which nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import StorageError
from homarus.core.messages import Outbound
from homarus.delivery.place import Piece
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines
from homarus.storage.record import encode

Outcome = Literal["sent", "suppressed", "partial", "failed", "unknown"]
OUTCOMES: tuple[Outcome, ...] = ("sent", "suppressed", "partial", "failed", "unknown")

MAX_FOREIGN = 200


class Bounds(Struct, frozen=True):
    """How far an outbox may grow: the file before it is cleaned up, rows that wait, and ids that are remembered."""

    file_bytes: int = 1 << 20
    pending: int = 2000
    settled: int = 5000


BOUNDS = Bounds()


class Row(Struct):
    """A message on its way. `receipts` are the platform's ids of the pieces that were shown; `trying` is the one in doubt.

    `edits` is the platform's id of a preview that becomes the first piece.
    """

    outbound: Outbound
    at: int = 0
    edits: str = ""
    receipts: list[str] = []
    trying: int | None = None
    # How it was cut when its first piece went out, so that the rest is what was left then.
    pieces: tuple[Piece, ...] = ()
    # The line that it was read from, which may hold what a later version wrote.
    raw: bytes = b""


class Settled(Struct, frozen=True):
    """What became of a message. `reason` is for people; `receipts` are the platform's ids of what was shown."""

    outbound: Outbound
    outcome: Outcome
    reason: str = ""
    receipts: tuple[str, ...] = ()


class Outbox:
    """Rows by id, oldest first. An id is put once, also after a crash and for a while after it was settled."""

    def __init__(
        self, path: Path, clock: Clock, *, warn: Callable[[str], None] = lambda _: None, bounds: Bounds = BOUNDS
    ) -> None:
        self._path = path
        self._bounds = bounds
        self._clock = clock
        self._warn = warn
        self._rows: dict[str, Row] = {}
        self._settled: dict[str, Outcome] = {}
        self._previews: dict[str, tuple[Outbound, str]] = {}
        self._foreign: list[bytes] = []  # records of a later version
        self._writer: JsonlWriter | None = None
        self._least = 0  # bytes that the last clean-up could not save
        self._replay()

    def pending(self) -> tuple[Row, ...]:
        """Return what is not settled, oldest first."""
        return tuple(self._rows.values())

    def row(self, id_: str) -> Row | None:
        return self._rows.get(id_)

    def outcome(self, id_: str) -> Outcome | None:
        """Return what became of a message, as far as it is remembered."""
        return self._settled.get(id_)

    def put(self, outbound: Outbound) -> bool:
        """Make a message durable and return True, or return False when its id is known. Raises where it cannot be kept."""
        if outbound.id in self._rows or outbound.id in self._settled:
            return False
        if not outbound.id:
            raise ValueError("an outbound message needs an id")
        if len(self._rows) >= self._bounds.pending:
            cure = "see which channel is down with 'homarus channels status'"
            raise StorageError(f"the outbox holds {len(self._rows)} messages that could not be sent", cure=cure)
        at = epoch_ms(self._clock.now())
        self._append({"put": msgspec.to_builtins(outbound), "at": at})
        self._rows[outbound.id] = Row(outbound, at)
        return True

    def trying(self, id_: str, n: int) -> None:
        """Note, before it is sent, that a piece is on its way. Raises where that cannot be noted: then it must not be sent."""
        row = self._rows[id_]
        self._append({"trying": id_, "n": n})
        row.trying = n

    def cut(self, id_: str, pieces: tuple[Piece, ...]) -> None:
        """Note how a message was cut. One piece needs no note: nothing of it was shown before all of it was."""
        self._append({"cut": id_, "pieces": msgspec.to_builtins(pieces)}, durable=False)
        self._rows[id_].pieces = pieces

    def attach(self, id_: str, preview: str) -> None:
        """Note that a message that was shown as a preview becomes the first piece of this one."""
        self._append({"attached": id_, "to": preview}, durable=False)
        self._rows[id_].edits = preview

    def preview(self, message: Outbound, receipt: str) -> None:
        """Note that a preview was shown, so that it is found when nobody ends it; without an id, that it is gone."""
        if receipt:
            self._append(
                {"preview": message.id, "message": msgspec.to_builtins(message), "receipt": receipt}, durable=False
            )
            self._previews[message.id] = (message, receipt)
        elif self._previews.pop(message.id, None) is not None:
            self._append({"preview": message.id}, durable=False)

    def previews(self) -> tuple[tuple[Outbound, str], ...]:
        """Return the previews that are shown, each with the platform's id of it."""
        return tuple(self._previews.values())

    def detach(self, id_: str) -> None:
        """Note that a preview cannot become the first piece, which is sent like any other."""
        self._append({"detached": id_}, durable=False)
        self._rows[id_].edits = ""

    def missed(self, id_: str, n: int) -> None:
        """Note that a piece that was tried surely did not arrive."""
        row = self._rows[id_]
        row.trying = None
        self._append({"missed": id_, "n": n}, durable=False)

    def sent(self, id_: str, n: int, receipt: str) -> None:
        """Note that a piece was shown. If that cannot be written it still counts for as long as this process lives."""
        row = self._rows[id_]
        row.trying = None
        row.receipts.append(receipt)
        self._append({"sent": id_, "n": n, "receipt": receipt})

    def settle(self, id_: str, outcome: Outcome, reason: str = "") -> Settled:
        """End a row and return what became of it."""
        row = self._rows.pop(id_)
        self._remember(id_, outcome)
        settled = Settled(row.outbound, outcome, reason, tuple(row.receipts))
        self._append({"settled": id_, "outcome": outcome}, durable=False)
        if self._writer is not None and self._writer.size > max(self._bounds.file_bytes, 2 * self._least):
            try:
                self._shrink()
            except StorageError as problem:
                self._warn(f"the outbox could not be cleaned up: {problem}")
        return settled

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _append(self, record: dict[str, Any], *, durable: bool = True) -> None:
        """Write a note. One whose loss in a power cut only costs certainty waits for the next that must be on the disk."""
        if self._writer is None:
            ensure_dir(self._path.parent)
            self._writer = JsonlWriter.open(self._path)
        elif not self._writer.is_named:
            # Somebody removed or replaced the file. What is known here is the truth.
            self._shrink()
            self._writer = JsonlWriter.open(self._path)
        self._writer.append(record, durable=durable)

    def _remember(self, id_: str, outcome: Outcome) -> None:
        self._settled[id_] = outcome
        while len(self._settled) > self._bounds.settled:
            del self._settled[next(iter(self._settled))]

    def _replay(self) -> None:
        """Read the file. One that a crash cut is written anew; one that is damaged is moved aside, and what it told is kept."""
        if not self._path.exists():
            return
        torn = damaged = False
        try:
            for line in read_lines(self._path):
                if line.torn and line.value is None:
                    torn = True
                elif not isinstance(line.value, dict):
                    damaged = True
                    # The lost note may have been of any of these: they are in doubt now.
                    for row in self._rows.values():
                        row.trying = len(row.receipts)
                elif not self._apply(line.value, line.raw):
                    self._foreign = [*self._foreign, line.raw][-MAX_FOREIGN:]
        except StorageError as problem:
            damaged = True
            self._warn(f"{problem}; what could be read of the outbox is kept")
        if damaged:
            aside = move_aside(self._path, "corrupt", self._clock.now())
            self._warn(f"the outbox was damaged; the old file is {aside}")
        if damaged or torn:
            self._shrink()

    def _apply(self, record: dict[str, Any], raw: bytes) -> bool:
        """Take one record in; False when a later version wrote it."""
        try:
            if "put" in record:
                outbound = msgspec.convert(record["put"], Outbound)
                if outbound.id not in self._settled:
                    self._rows.setdefault(outbound.id, Row(outbound, int(record.get("at", 0)), raw=raw))
                return True
            if "preview" in record:
                self._previews.pop(record["preview"], None)
                if "receipt" in record:
                    shown = msgspec.convert(record["message"], Outbound)
                    self._previews[record["preview"]] = (shown, str(record["receipt"]))
                return True
            kind = next(
                (
                    name
                    for name in ("trying", "sent", "missed", "cut", "attached", "detached", "settled")
                    if name in record
                ),
                "",
            )
            id_ = record.get(kind)
            if not kind or not isinstance(id_, str):
                return False
            if kind == "settled":
                self._rows.pop(id_, None)
                outcome = record.get("outcome")
                self._remember(id_, outcome if outcome in OUTCOMES else "unknown")
            elif (row := self._rows.get(id_)) is not None:
                _advance(row, kind, record)
        except (msgspec.ValidationError, TypeError, ValueError):
            return False
        return True

    def _shrink(self) -> None:
        """Write the file anew: the ids of what was settled, and every row that is not, as it stands."""
        self.close()
        lines = [*self._foreign]
        lines += [encode({"settled": id_, "outcome": outcome}) for id_, outcome in self._settled.items()]
        for id_, row in self._rows.items():
            lines.append(row.raw or encode({"put": row.outbound, "at": row.at}))
            lines += [encode({"attached": id_, "to": row.edits})] if row.edits else []
            lines += [encode({"cut": id_, "pieces": row.pieces})] if row.pieces else []
            lines += [encode({"sent": id_, "n": n, "receipt": receipt}) for n, receipt in enumerate(row.receipts)]
            lines += [encode({"trying": id_, "n": row.trying})] if row.trying is not None else []
        for message, receipt in self._previews.values():
            lines.append(encode({"preview": message.id, "message": message, "receipt": receipt}))
        content = b"".join(line + b"\n" for line in lines)
        write_atomic(self._path, content)
        self._least = len(content)


def _advance(row: Row, kind: str, record: dict[str, Any]) -> None:
    if kind == "cut":
        row.pieces = msgspec.convert(record["pieces"], tuple[Piece, ...])
        return
    if kind == "attached":
        row.edits = str(record["to"])
        return
    if kind == "detached":
        row.edits = ""
        return
    n = int(record["n"])
    if kind == "trying":
        row.trying = n
        return
    if kind == "sent" and n == len(row.receipts):
        row.receipts.append(str(record["receipt"]))
    row.trying = None
