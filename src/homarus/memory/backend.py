"""Another index in place of our own: it says where the answer stands, and the notes say what stands there.

A backend gives places, never text: a passage is read from the note that it cites, with all rules of reading notes. So what
a backend has wrong or makes up is a passage that is not there, and Markdown stays the truth whichever index is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from homarus.core.text import estimate_tokens, single_line
from homarus.memory.engine import Request
from homarus.memory.files import NoteSet
from homarus.memory.read import excerpt
from homarus.memory.results import Answer, Hit

_log = logging.getLogger(__name__)
MAX_PLACES, MAX_LINES = 200, 60
_factories: dict[str, Factory] = {}


class Lines(Struct, frozen=True):
    """Lines of a note, counted from 1, and how well they fit, 0 to 1."""

    path: str
    first: int
    last: int
    score: float


class MemoryBackend(Protocol):
    def find(self, query: str, limit: int) -> Sequence[Lines]:
        """Return where a question is answered, best first. Called from any thread, one call at a time."""
        ...

    def close(self) -> None: ...


# Takes the folder of the notes and one for the backend's own files.
Factory = Callable[[Path, Path], MemoryBackend]


def register_memory_backend(name: str, factory: Factory) -> None:
    _factories[name] = factory


def find_factory(name: str) -> Factory | None:
    return _factories.get(name)


class Chosen:
    """The backend that the configuration chose. Whatever is wrong with it, our own index answers, and that is said."""

    def __init__(self, name: str, workspace: Path, folder: Path) -> None:
        self.name = name
        self.problem = ""
        self._workspace, self._folder = workspace, folder
        self._backend: MemoryBackend | None = None

    def answer(self, notes: NoteSet, request: Request) -> Answer | None:
        """Return what it found, or None with `problem` set."""
        try:
            hits = self._hits(notes, request.text, request.limit)
        except Exception as fault:  # noqa: BLE001 - it is somebody else's code
            self.problem = (
                f"the memory backend '{self.name}' failed: {single_line(f'{type(fault).__name__}: {fault}', 300)}"
            )
            _log.warning("%s", self.problem)
            return None
        self.problem = ""
        kept: list[Hit] = []
        spent = 0
        for hit in hits:
            too_much = request.budget is not None and kept and spent + hit.tokens > request.budget
            if too_much or hit.score < (request.min_score or 0.0):
                continue
            spent += hit.tokens
            kept.append(hit)
        best = max((hit.score for hit in kept), default=0.0)
        return Answer(hits=tuple(kept), mode="backend", provider=self.name, tokens=spent, confidence=best)

    def _hits(self, notes: NoteSet, query: str, limit: int) -> list[Hit]:
        if self._backend is None:
            factory = find_factory(self.name)
            if factory is None:
                raise LookupError("no plugin that runs here brings it")
            self._backend = factory(self._workspace, self._folder)
        hits: list[Hit] = []
        for lines in list(self._backend.find(query, limit))[:MAX_PLACES]:
            first, last = max(1, int(lines.first)), int(lines.last)
            found = excerpt(notes, str(lines.path), first, min(max(1, last - first + 1), MAX_LINES))
            if found.status == "ok" and found.text.strip() and len(hits) < limit:
                hit = Hit(
                    path=found.path,
                    start_line=first,
                    end_line=first + found.lines - 1,
                    score=min(1.0, max(0.0, float(lines.score))),
                    text=found.text,
                    why=(self.name,),
                    tokens=estimate_tokens(found.text),
                    origin=found.origin,
                )
                hits.append(hit)
        return hits

    def close(self) -> None:
        if self._backend is not None:
            try:
                self._backend.close()
            except Exception as fault:  # noqa: BLE001 - as above
                _log.warning("the memory backend '%s' did not close: %s", self.name, single_line(str(fault), 300))
