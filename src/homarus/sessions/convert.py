"""Making a transcript of an older or damaged form ready for appending. The original always stays beside it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from homarus.core.clock import iso_ms
from homarus.core.errors import StorageError
from homarus.sessions.entry import NEWEST_READABLE, Header, new_header, to_header
from homarus.sessions.log import Form, Source, identify, read_entries
from homarus.storage.atomic import create_new, move_aside, write_atomic
from homarus.storage.faults import beside, explained
from homarus.storage.jsonl import read_lines
from homarus.storage.record import encode


def make_appendable(path: Path, session_id: str, cwd: str, now: datetime) -> Source:
    """Return a file that entries can be appended to: this one, converted if need be, or an empty one in its place."""
    source = identify(path)
    if source.header.version > NEWEST_READABLE:
        raise StorageError(
            f"{path} has transcript version {source.header.version}, newer than this program writes",
            cure="use a newer homarus, or start a new session",
        )
    if source.form is Form.CORRUPT:
        move_aside(path, "corrupt", now)
        return identify(path)
    if source.form in {Form.OLD, Form.FLAT, Form.HEADLESS}:
        lines, label = _converted(source, session_id, cwd, now)
        _keep_original(path, label)
        write_atomic(path, b"\n".join(lines) + b"\n")
        return identify(path)
    return source


def _converted(source: Source, session_id: str, cwd: str, now: datetime) -> tuple[list[bytes], str]:
    if source.form is Form.HEADLESS:
        header, lines = None, []
        for line in read_lines(source.path):
            found = to_header(line.value)
            if found and header is None:
                header = found
            else:
                lines.append(line.raw)
        return [_header_line(header or _header_for(source, session_id, cwd, now)), *lines], "headless"
    label = "flat" if source.form is Form.FLAT else f"v{source.header.version}"
    entries = list(read_entries(source))
    header = _header_for(source, session_id, cwd, now, started=next((e.timestamp for e in entries if e.time), ""))
    return [_header_line(header), *(entry.raw for entry in entries)], label


def _header_for(source: Source, session_id: str, cwd: str, now: datetime, started: str = "") -> Header:
    found = source.header
    fresh = new_header(session_id, found.timestamp or started or iso_ms(now), found.cwd or cwd)
    fresh.data.update({name: value for name, value in found.data.items() if name not in fresh.data})
    return fresh


def _header_line(header: Header) -> bytes:
    return encode(header.data)


def _keep_original(path: Path, label: str) -> None:
    with explained("read", path):
        content = path.read_bytes()
    for number in range(1000):
        if create_new(beside(path, f".{label}.bak" + (f".{number}" if number else "")), content):
            return
    raise StorageError(f"cannot keep a copy of {path}", cure="remove old .bak files beside it")
