"""What the gateway writes down: a log of its own doings and a ledger of who did what. Bounded, and without content or secrets."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from homarus.config.paths import expand
from homarus.config.view import Config
from homarus.core.clock import Clock, iso_ms
from homarus.core.errors import HomarusError
from homarus.core.events import RunEnded, RunEvent, RunStarted, ToolEnded
from homarus.core.redact import redacted
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.gateway.settings import LogSettings
from homarus.storage.atomic import ensure_dir
from homarus.storage.volume import NOWHERE, Kept, kept

if TYPE_CHECKING:
    from homarus.gateway.scopes import Principal

LOG, LEDGER = "gateway.log", "audit"
MAX_LOG, KEPT_LOGS = 10 << 20, 3
MAX_LINE = 4_000
KEPT_DAYS, MAX_DAY = 30, 20 << 20
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_LEVELS = {"silent": "critical", "fatal": "critical", "warn": "warning", "trace": "debug"}
_log = logging.getLogger(__name__)


class JsonLines(logging.Handler):
    """Writes each record as one line of JSON, without secrets and control characters. A full file becomes `.1`, and so on."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._fd = path, -1
        self._open()

    def _open(self) -> None:
        ensure_dir(self._path.parent)
        self._fd = os.open(self._path, _APPEND, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _is_moved(self) -> bool:
        """Say whether somebody moved the file away, as programs that rotate logs do, or removed it."""
        try:
            return self._path.stat().st_ino != os.fstat(self._fd).st_ino
        except FileNotFoundError:
            return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = msgspec.json.encode(line_of(record)) + b"\n"
            if self._is_moved():
                os.close(self._fd)
                self._open()
            if self._size + len(data) > MAX_LOG:
                self._turn()
            os.write(self._fd, data)
            self._size += len(data)
        except Exception:  # noqa: BLE001 - a disk that is full must not stop the work
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        return

    def _turn(self) -> None:
        os.close(self._fd)
        for number in range(KEPT_LOGS - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()

    def close(self) -> None:
        super().close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class LogFile:
    """What the program logs goes to the gateway's own file while it serves: as the settings are when `follow` was called last."""

    def __init__(self, config: Config) -> None:
        self._level_before = logging.getLogger().level
        self._path, self._handler = log_path(config), JsonLines(log_path(config))
        logging.getLogger().addHandler(self._handler)
        self.follow(config)

    def follow(self, config: Config) -> None:
        """Go on in the file and with the level that the settings name now. Raises where that file cannot be had."""
        root, path = logging.getLogger(), log_path(config)
        if path != self._path:
            fresh, before = JsonLines(path), self._handler
            root.addHandler(fresh)
            root.removeHandler(before)
            before.close()
            self._path, self._handler = path, fresh
        named = config.block("logging", LogSettings).level
        level = logging.getLevelNamesMapping()[_LEVELS.get(named, named).upper()]
        self._handler.setLevel(level)
        root.setLevel(min(level, self._level_before))

    def close(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._level_before)
        self._handler.close()


def log_path(config: Config) -> Path:
    named = config.block("logging", LogSettings).file
    return expand(named, config.paths.home) if named else config.paths.logs_dir / LOG


def line_of(record: logging.LogRecord) -> dict[str, str]:
    moment = datetime.fromtimestamp(record.created, UTC)
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text += f": {record.exc_info[1]!r}"
    message = redacted(single_line(text, MAX_LINE))
    return {"time": iso_ms(moment), "level": record.levelname.lower(), "logger": record.name, "message": message}


class Ledger:
    """One file a day: who connected, which calls changed something, which runs and tools there were. Never what was said."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._day = ""
        self._full = False
        self._fd = -1
        self._path = self._today = folder
        self._elsewhere: Kept = NOWHERE

    def note(self, what: str, **facts: Any) -> None:
        now = self._clock.now()
        day = now.date().isoformat()
        if day != self._day:
            self._day, self._full, self._today = day, False, self._folder / f"{day}.jsonl"
            self._forget(now)
        if self._full:
            return
        clean = {key: single_line(value, 200) if isinstance(value, str) else value for key, value in facts.items()}
        row = {
            "time": iso_ms(now),
            "what": what,
            **{key: value for key, value in clean.items() if value not in ("", None)},
        }
        try:
            (fd, size), line = self._file(self._today), msgspec.json.encode(row) + b"\n"
            with self._elsewhere as elsewhere:
                elsewhere.append(size, line, 0o600, durable=False)
                os.write(fd, line)
            self._full = size + len(line) > MAX_DAY
        except (OSError, HomarusError) as problem:  # a disk that is full must not stop the work
            _log.warning("the ledger could not be written: %s", problem)

    def _file(self, path: Path) -> tuple[int, int]:
        """Return the day's file, open, and its size; one that somebody removed is made anew."""
        if self._fd >= 0 and path == self._path:
            found = os.fstat(self._fd)
            if found.st_nlink:
                return self._fd, found.st_size
        self.close()
        ensure_dir(self._folder)
        self._fd, self._path = os.open(path, _APPEND, 0o600), path
        self._elsewhere = kept(path)
        return self._fd, os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _forget(self, now: datetime) -> None:
        oldest = f"{now - timedelta(days=KEPT_DAYS):%Y-%m-%d}.jsonl"
        for path in self._folder.glob("*.jsonl") if self._folder.is_dir() else ():
            if path.name < oldest:
                path.unlink(missing_ok=True)

    def called(self, principal: Principal, method: str, outcome: str, address: str = "") -> None:
        self.note("call", method=method, outcome=outcome, address=address, **who(principal))

    def take(self, session: SessionKey, event: RunEvent) -> None:
        """Note runs and tools; it hears every event of every session."""
        match event:
            case RunStarted():
                self.note("run", run=event.run_id, session=str(session), model=event.model)
            case RunEnded():
                self.note("run-ended", run=event.run_id, session=str(session), outcome=event.status)
            case ToolEnded():
                outcome = "error" if event.result.is_error else "ok"
                self.note("tool", tool=event.result.tool_name, session=str(session), outcome=outcome)


def who(principal: Principal) -> Mapping[str, str]:
    return {"by": principal.method, "device": principal.device_id[:16], "user": principal.user}


def read_ledger(folder: Path, limit: int) -> list[dict[str, Any]]:
    """Return the newest rows, oldest first; lines that are damaged are passed over."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.jsonl"), reverse=True) if folder.is_dir() else ():
        found = _rows(path.read_bytes()) + found
        if len(found) >= limit:
            break
    return found[-limit:]


def read_log(path: Path, limit: int, place: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """Return the newest lines of the log, or those after a place in it, and the place to go on from."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = max(0, size - limit * MAX_LINE) if place is None or place > size else place
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]  # half a line is read when it is whole
    return _rows(whole)[-limit:], start + len(whole)


def _rows(data: bytes) -> list[dict[str, Any]]:
    rows = []
    for line in data.splitlines():
        try:
            rows.append(msgspec.json.decode(line, type=dict[str, Any]))
        except ValueError:
            continue
    return rows


class Tail:
    """Follows what is appended to a file, to its last line and then on in the file that took its place: the log's after it
    was full, the ledger's of the next day. `where` names the file as it is now."""

    def __init__(self, where: Callable[[], Path], place: int | None = None) -> None:
        self._where = where
        self._file: BinaryIO | None = None
        self._rest = b""
        self._open(place)

    def _open(self, place: int | None) -> None:
        try:
            self._file = self._where().open("rb")
        except OSError:
            return  # nobody has written yet
        self._file.seek(*((0, os.SEEK_END) if place is None else (place, os.SEEK_SET)))

    def more(self) -> list[dict[str, Any]]:
        """Return the rows that came since the last call."""
        rows = self._read()
        if self._is_over():
            rows += self._read()  # what was written between the two
            self.close()
            self._open(0)
            rows += self._read()
        return rows

    def _read(self) -> list[dict[str, Any]]:
        if self._file is None:
            return []
        whole, ending, self._rest = (self._rest + self._file.read()).rpartition(b"\n")
        return _rows(whole + ending)

    def _is_over(self) -> bool:
        """Say whether another file has the name now, or this one was emptied."""
        try:
            now = self._where().stat()
        except OSError:
            return False
        if self._file is None:
            return True
        here = os.fstat(self._file.fileno())
        return (here.st_dev, here.st_ino) != (now.st_dev, now.st_ino) or here.st_size < self._file.tell()

    def close(self) -> None:
        self._rest = b""
        if self._file is not None:
            self._file.close()
            self._file = None
