"""`sessions.json`: one object of rows by session key. Rows are merged one by one under a lock; strangers' rows stay.

A new session of a home with many is first a line in a file beside it, until the next write of the whole: a thousand
sessions that come at once would otherwise write all rows a thousand times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ConfigError
from homarus.core.routes import MAIN, SessionKey
from homarus.sessions.codec import Json, to_ms
from homarus.sessions.places import own
from homarus.storage.atomic import ensure_dir, keep_copy, move_aside, remove, write_atomic
from homarus.storage.faults import Missing, beside, explained
from homarus.storage.jsonl import append_shared, read_lines
from homarus.storage.locks import PATIENCE
from homarus.storage.record import decode

# A file system's clock ticks slowly: two writes within a tick leave the same times.
_TICK_MS = 100
# An index that is smaller is written whole with every new session: every program that reads it finds all rows there.
MANY_BYTES = 256 * 1024

# A value that is no object is not a row, but it stays in the file.
Rows = dict[str, Any]
T = TypeVar("T")
Stamp = tuple[int, int, int, int]


class _Known(Struct, frozen=True):
    """The file as it was last seen, whole and row by row as it stands there. Nobody may change what is in here.

    The last `added` rows stand in the file of new rows.
    """

    stamp: Stamp | None
    rows: Rows
    texts: dict[str, bytes]
    added: int = 0


class SessionIndex:
    """The index of one agent. Reading never writes; what `rows` and `get` return is the caller's own copy."""

    def __init__(
        self, path: Path, agent_id: str, clock: Clock, *, wait: float = PATIENCE, main_key: str = MAIN
    ) -> None:
        self.path = path
        self._new = beside(path, ".new")
        self._names = (str(path), str(self._new))  # looked at several times a turn
        self.agent_id = agent_id
        self._clock = clock
        self._wait = wait
        self._main_key = main_key
        self._cached: _Known | None = None
        # Fields that are written with the next write, or by `flush`: by the spelling of their row.
        self._pending: dict[str, Json] = {}

    def rows(self) -> dict[str, Json]:
        return {key: _copy(row) for key, row in self._present(self._load()).items() if isinstance(row, dict)}

    def get(self, key: SessionKey) -> tuple[str, Json] | None:
        rows = self._present(self._load())
        found = next((name for name in key.spellings if name in rows), None)
        if found is None:
            found = next((name for name in rows if self._same(name, key)), None)
        return (found, _copy(rows[found])) if found is not None and isinstance(rows[found], dict) else None

    def put(self, key: SessionKey, changed: Json) -> Json:
        """Merge fields into a row, making it if need be, and return it; None removes a field."""
        return self.replace(key, lambda row: _merged(row, changed))

    def note(self, key: SessionKey, changed: Json) -> Json:
        """Merge fields into a row that is written soon, with the next change of any row or by `flush`; return it, to look at.

        For what many turns say one after another, and what a crash may take back: the file is written whole each time.
        """
        rows = self._load()
        name = next((text for text in key.spellings if text in rows), None)
        if name is None or not isinstance(rows[name], dict):
            return self.put(key, changed)
        self._pending[name] = {**self._pending.get(name, {}), **changed}
        return _merged(rows[name], self._pending[name])

    def flush(self, key: SessionKey | None = None) -> None:
        """Write what was noted; with a key, if it is noted of that row."""
        if self._pending if key is None else any(text in self._pending for text in key.spellings):
            self._write(None, lambda row: row)

    def replace(self, key: SessionKey, change: Callable[[Json], Json]) -> Json:
        """Give a row a new value, computed from its present one inside the lock.

        Every turn ends here, so it costs what one row costs: the others are neither read nor written out again as long
        as nobody else changed the file.
        """
        return self._write(key, change)

    def _write(self, key: SessionKey | None, change: Callable[[Json], Json]) -> Json:
        """Write what was noted, and one row's new value with it. Only what nobody waits for need not last at once."""
        ensure_dir(self.path.parent)
        with own(self.path, self._clock.now(), purpose="index", wait=self._wait):
            known = self._known()
            rows, form, added = (known.rows, "object", known.added) if known else self._read()
            texts = known.texts if known else _row_texts(rows)
            present = self._present(rows)
            new = {name: present[name] for name in self._pending if name in rows}
            done: Json = {}
            if key is not None:
                name = next((text for text in key.spellings if text in rows), str(key))
                old = new.get(name, rows.get(name))
                done = change(_copy(old) if isinstance(old, dict) else {})
                if name not in rows and form == "object" and self.path.stat().st_size > MANY_BYTES:
                    append_shared(self._new, {name: done})
                    more = {name: _copy(done)}
                    rows, texts = {**rows, **more}, {**texts, **_row_texts(more)}
                    self._cached = _Known(self.stamp, rows, texts, added + 1)
                    return done
                new[name] = _copy(done)
            fresh = {name: _row_text(name, row) for name, row in new.items()}
            if form != "object" or added or any(text != texts.get(name) for name, text in fresh.items()):
                self._put_aside(form)
                rows, texts = {**rows, **new}, {**texts, **fresh}
                write_atomic(self.path, _joined(texts), lasting=key is not None or added > 0)
            remove(self._new)  # all of it is in the file now
            self._pending.clear()
            self._cached = _Known(self.stamp, rows, texts)
        return done

    def _present(self, rows: Rows) -> Rows:
        if not self._pending:
            return rows
        noted = {
            name: _merged(rows[name], more) for name, more in self._pending.items() if isinstance(rows.get(name), dict)
        }
        return {**rows, **noted}

    def remove(self, keys: list[str]) -> None:
        """Take rows out, by the spelling they have in the file."""
        ensure_dir(self.path.parent)
        with own(self.path, self._clock.now(), purpose="index", wait=self._wait):
            rows, form, _added = self._read()
            before = _text(rows)
            rows = {name: row for name, row in self._present(rows).items() if name not in keys}
            if form != "object" or _text(rows) != before:
                self._put_aside(form)
                write_atomic(self.path, _joined(_row_texts(rows)))
                remove(self._new)
                self._cached = None
            self._pending.clear()

    @property
    def form(self) -> str:
        return self._read()[1]

    @property
    def stamp(self) -> Stamp | None:
        """Return what changes whenever the file or the one of new rows does; None while there is none."""
        try:
            found = os.stat(self._names[0])  # noqa: PTH116
        except OSError:
            return None
        try:
            more = os.stat(self._names[1]).st_size  # noqa: PTH116
        except OSError:
            more = 0
        return found.st_mtime_ns, found.st_size, found.st_ino, more

    def _known(self) -> _Known | None:
        """Return the file as it was last seen if it is certainly still that."""
        stamp, known = self.stamp, self._cached
        if known is None or stamp is None or known.stamp != stamp:
            return None
        if epoch_ms(self._clock.now()) - stamp[0] // 1_000_000 >= _TICK_MS:
            return known
        # A file this young may have changed within one tick of the clock, so its bytes are compared.
        with explained("read", self.path):
            there = dict(islice(known.texts.items(), len(known.texts) - known.added))
            return known if self.path.read_bytes() == _joined(there) else None

    def _load(self) -> Rows:
        stamp = self.stamp
        if stamp is None:
            return {}
        if self._cached is None or self._cached.stamp != stamp:
            rows, form, added = self._read()
            texts = _row_texts(rows) if form == "object" else {}
            self._cached = _Known(stamp if form == "object" else None, rows, texts, added)
        return self._cached.rows

    def _read(self) -> tuple[Rows, str, int]:
        """Return the rows, which form they have, and how many of them, the last ones, stand in the file of new rows."""
        rows, form = self._read_file()
        if form != "object" or not self._new.exists():
            return rows, form, 0
        lines = (line.value for line in read_lines(self._new) if isinstance(line.value, dict))
        added = {name: row for line in lines for name, row in line.items() if name not in rows}
        return {**rows, **added}, form, len(added)

    def _read_file(self) -> tuple[Rows, str]:
        try:
            with explained("read", self.path):
                data = self.path.read_bytes()
        except Missing:
            return {}, "missing"
        if not data.strip(b"\0 \t\r\n"):
            return {}, "missing"
        value = parse(data)
        if isinstance(value, list):
            return dict(_from_array(value, self.agent_id)), "array"
        if not isinstance(value, dict):
            return {}, "damaged"
        return value, "object"

    def _same(self, text: str, key: SessionKey) -> bool:
        """Say whether a row is this session's in another spelling."""
        # Cheap first: only a row that ends like the key can be.
        if not text.lower().endswith((key.thread or key.topic or key.run or key.peer or str(key)).lower()):
            return False
        try:
            return SessionKey.parse(text, default_agent=self.agent_id, main_key=self._main_key) == key
        except ConfigError:
            return False

    def _put_aside(self, form: str) -> None:
        """Keep what is about to be replaced by another form."""
        if form == "damaged":
            move_aside(self.path, "corrupt", self._clock.now())
        elif form == "array":
            keep_copy(self.path, "array")


def _merged(row: Json, changed: Json) -> Json:
    return {name: value for name, value in {**row, **changed}.items() if value is not None}


def _copy(value: T) -> T:
    """Return the caller's own copy of JSON, in a fifteenth of the time that `copy.deepcopy` takes."""
    try:
        return cast("T", msgspec.json.decode(msgspec.json.encode(value)))
    except (UnicodeEncodeError, TypeError, OverflowError):
        return deepcopy(value)


def _joined(texts: Mapping[str, bytes]) -> bytes:
    """Return the file that holds these rows, one object with an indent of two."""
    return b"{\n%b\n}" % b",\n".join(texts.values()) if texts else b"{}"


def _row_text(name: str, row: Any) -> bytes:
    # A line break inside a value is written as an escape: every one that is there belongs to the layout.
    return b"  %b: %b" % (_text(name), _text(row).replace(b"\n", b"\n  "))


def _row_texts(rows: Rows) -> dict[str, bytes]:
    return {name: _row_text(name, row) for name, row in rows.items()}


def _text(value: Any) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2)
    except (UnicodeEncodeError, TypeError, OverflowError):
        # Half an emoji out of another program's row.
        return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace")


def parse(data: bytes) -> Any:
    """Return the value of JSON, or of JSON with comments and trailing commas; None when it is neither."""
    value, problem = decode(data)
    if not problem:
        return value
    import pyjson5

    try:
        return pyjson5.decode(data.decode("utf-8", "replace"))
    except (pyjson5.Json5DecoderException, RecursionError):
        return None


def _from_array(items: list[Any], agent_id: str) -> Iterator[tuple[str, Json]]:
    """Yield rows for the list form, which names sessions by id."""
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str) or not item["id"].strip():
            continue
        agent = item.get("agent_id")
        owner = agent if isinstance(agent, str) and agent else agent_id
        row: Json = {
            "sessionId": item["id"],
            "updatedAt": to_ms(item.get("updated_at")),
            "sessionStartedAt": to_ms(item.get("created_at")),
        }
        if isinstance(item.get("name"), str):
            row["label"] = item["name"]
        known = {"id", "name", "created_at", "updated_at", "agent_id"}
        row |= {name: value for name, value in item.items() if name not in known}
        yield f"agent:{owner}:explicit:{item['id']}".lower(), row
