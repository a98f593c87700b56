"""Where transcripts lie: files of any kind, archives, and databases of other programs. Finding them changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from msgspec import Struct

from homarus.core.errors import ConfigError
from homarus.core.patterns import late
from homarus.sessions.log import Source, identify, opened, session_id_of

if TYPE_CHECKING:
    from homarus.sessions.importers.sqlite import AgentDatabase

INDEX = "sessions.json"
_ARCHIVE = late(r".+\.jsonl\.(reset|deleted)\..+?(\.zst)?", re.DOTALL)
# What OpenClaw keeps beside transcripts under a name that looks like one.
_BESIDE = (".trajectory.", ".checkpoint.")
_SAFE_ID = late(r"[^/\\\x00-\x1f]{1,200}")


class Kind(StrEnum):
    """What holds a transcript."""

    FILE = "file"
    ARCHIVE = "archive"
    DATABASE = "database"


class Place(Struct, frozen=True):
    """One transcript, wherever it is."""

    agent_id: str
    session_id: str
    kind: Kind
    path: Path

    @property
    def label(self) -> str:
        """Return a short name of the place for people."""
        return f"{self.path.name}#{self.session_id}" if self.kind is Kind.DATABASE else self.path.name


class Visits:
    """Opens one transcript after another for reading; a database that holds many of them is opened once."""

    def __init__(self) -> None:
        self._databases: dict[Path, AgentDatabase] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for database in self._databases.values():
            database.close()

    def database(self, path: Path) -> AgentDatabase:
        """Return the open database."""
        if path not in self._databases:
            from homarus.sessions.importers.sqlite import AgentDatabase

            self._databases[path] = AgentDatabase(path)
        return self._databases[path]

    @contextmanager
    def visit(self, place: Place) -> Iterator[Source]:
        """Open a transcript as if it were a plain file."""
        if place.kind is not Kind.DATABASE:
            with opened(place.path) as source:
                yield source
            return
        import shutil
        import tempfile

        folder = tempfile.mkdtemp(prefix="homarus-read-")
        try:
            plain = Path(folder, "transcript.jsonl")
            with plain.open("wb") as file:
                for line in self.database(place.path).lines(place.session_id):
                    file.write(line + b"\n")
            yield identify(plain)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def visit(place: Place) -> Iterator[Source]:
    """Open one transcript for reading, wherever it is."""
    with Visits() as visits, visits.visit(place) as source:
        yield source


def transcript_name(session_id: str, thread: str = "") -> str:
    """Return the file name of a session's transcript; a topic has one of its own."""
    if not _SAFE_ID.fullmatch(session_id) or session_id in {".", ".."} or session_id.startswith("."):
        raise ConfigError(f"{session_id!r} cannot be a session id", cure="use letters, digits and dashes")
    return f"{session_id}-topic-{quote(thread, safe='')}.jsonl" if thread else f"{session_id}.jsonl"


def transcript_path(folder: Path, session_id: str, session_file: str | None = None, thread: str = "") -> Path:
    """Return where a session's transcript lies, or will: also after the home was moved, and never outside of it."""
    fresh = folder / transcript_name(session_id, thread)
    candidates = [fresh, folder / transcript_name(session_id)]
    named = Path(session_file) if session_file else None
    if named and named.suffix == ".jsonl":
        inside = folder.parent.parent in named.parents and ".." not in named.parts
        candidates = [folder / named.name, *([named] if inside else []), *candidates]
    return next((path for path in dict.fromkeys(candidates) if path.is_file()), fresh)


def files_in(folder: Path, agent_id: str) -> Iterator[Place]:
    """Yield every transcript file and archive in an agent's folder, in the order of their names."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return
    for name in names:
        path = folder / name
        if any(mark in name for mark in _BESIDE):
            continue
        if name.endswith(".jsonl"):
            yield Place(agent_id, session_id_of(path), Kind.FILE, path)
        elif _ARCHIVE.fullmatch(name):
            yield Place(agent_id, session_id_of(path), Kind.ARCHIVE, path)
