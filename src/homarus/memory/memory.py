"""Memory over a workspace of Markdown: the one class that callers use. Everything it keeps can be rebuilt."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import date, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from homarus.core.clock import Clock, SystemClock, epoch_ms
from homarus.core.errors import Locked, StorageError, installing
from homarus.memory import read
from homarus.memory.backend import Chosen
from homarus.memory.bank.facts import Knowledge, gather
from homarus.memory.changes import Freshness, watched, way
from homarus.memory.database import WAIT_INDEX_MS, WAIT_SEARCH_MS, IndexDatabase, empty_index
from homarus.memory.embed.base import Embedder, Embedders, EmbedError
from homarus.memory.engine import Engine, Request
from homarus.memory.files import NoteSet
from homarus.memory.results import Answer, Excerpt, Hit, Status
from homarus.memory.settings import MemorySettings
from homarus.memory.sync import Progress, Report, Synchroniser
from homarus.storage.sqlite import Damaged, explain

T = TypeVar("T")
Day = date | str | None
FOLDER, DATABASE = ".memory", "index.sqlite"


class NoDay(ValueError):
    """What was given as a day is none."""


class Memory:
    """Recall over the notes of one workspace.

    Markdown is the truth: `search` looks at the files first, so a line written a moment ago is found. A failure of the
    index never loses a note and never answers silently: `degraded` and `stale` of each answer say what is missing.
    """

    def __init__(
        self,
        workspace: Path,
        database: Path,
        *,
        settings: MemorySettings | None = None,
        clock: Clock | None = None,
        tz: tzinfo | None = None,
        sessions: Path | None = None,
        embedder: Embedder | None = None,
        home: Path | None = None,
        models: Path | None = None,
        keys: Mapping[str, str] | None = None,
        backend: Chosen | None = None,
    ) -> None:
        self.workspace = workspace
        self.settings = settings or MemorySettings()
        self.clock = clock or SystemClock()
        self.tz = tz
        self.notes = NoteSet(workspace, self.settings.extra_paths, home=home)
        self._database = IndexDatabase(
            database, self.clock.now, below=workspace if database.is_relative_to(workspace) else None
        )
        delta = self.settings.sync.sessions
        self._sync = Synchroniser(self.notes, sessions=sessions, chunking=self.settings.chunking, delta=delta)
        self._fresh = Freshness(self.notes, self._sync.sessions, self.clock.monotonic)
        self._engine = Engine(self.settings, Embedders(self.settings, models, embedder, keys))
        self._backend = backend
        self._lock = threading.RLock()
        self._stale = ""
        self.problems: tuple[str, ...] = ()  # what the last look at the files found odd

    @classmethod
    def open(
        cls,
        workspace: str | Path,
        *,
        database: Path | None = None,
        settings: MemorySettings | None = None,
        provider: str | Embedder | None = None,
        **given: Any,
    ) -> Self:
        """Open the memory of a workspace; nothing is read before the first use. `given` goes to the constructor.

        `provider` is an embedder, or the name of one: none, auto, wordllama, minilm, openai, gemini, voyage, ollama or
        local. Without it the settings decide, and without settings `auto`: the best that is installed, else none.
        """
        folder, chosen = Path(workspace).absolute(), settings or MemorySettings()
        if isinstance(provider, str):
            chosen, provider = chosen.with_provider(provider), None
        return cls(folder, database or folder / FOLDER / DATABASE, settings=chosen, embedder=provider, **given)

    def sync(self, *, force: bool = False, background: bool = False, progress: Progress | None = None) -> Report:
        """Index what changed since the last time. Waits for another writer.

        `force` builds the whole index again; searches elsewhere see the old one until the new one is complete.
        `background` leaves transcripts that grew only a little for later, by the delta rules of the settings.
        """
        with self._lock:
            return self._healed(lambda: self._sync_once(force, background, progress))

    def _sync_once(self, force: bool, background: bool, progress: Progress | None) -> Report:
        report = self._index(wait=WAIT_INDEX_MS, rebuild=force, background=background, progress=progress)
        conn, _ = self._database.connection()
        # In the background an embedder, which may be large, is loaded only if it has work.
        if not background or report.changed or read.lacks_vectors(conn):
            self._engine.embed(conn, epoch_ms(self.clock.now()), progress)
        return report

    def search(
        self, query: str, max_results: int | None = None, min_score: float | None = None, *, sources: Iterable[str] = ()
    ) -> Answer:
        """Return the best passages for a query; an exact match is never hidden by `min_score`."""
        limit = max(1, max_results if max_results is not None else self.settings.query.max_results)
        return self._answer(self._request(query, limit, min_score=min_score, sources=self._sources(sources)))

    def recall(
        self,
        query: str,
        k: int = 25,
        budget_tokens: int = 1000,
        *,
        since: Day = None,
        until: Day = None,
        as_of: Day = None,
        entities: Sequence[str] = (),
        kinds: Sequence[str] = (),
        sources: Iterable[str] = (),
    ) -> Answer:
        """Return the evidence for a question, packed into a token budget.

        Only `since`, `until`, `as_of`, `entities`, `kinds` and `sources` remove anything; dates in the question itself rank softly.
        `as_of` shows what was known on that day: later notes are left out, and so is what had been superseded by then.
        """
        request = self._request(
            query,
            max(1, k),
            budget=max(1, budget_tokens),
            since=self.day(since),
            until=self.day(until),
            as_of=self.day(as_of),
            entities=(entities,) if isinstance(entities, str) else tuple(entities),
            kinds=(kinds,) if isinstance(kinds, str) else tuple(kinds),
            sources=self._sources(sources),
        )
        return self._answer(request)

    def ranking(self, query: str, limit: int = 100) -> tuple[Hit, ...]:
        """Return single lines by score alone, unmerged and unpacked: what the packing starts from."""
        request = self._request(query, limit)
        return self._read(lambda conn: self._engine.ranking(conn, request))

    @property
    def identity(self) -> tuple[str, str]:
        """Return provider and model of the vectors in use; `none` without any."""
        return self._engine.identity

    def vectors(self, texts: Sequence[str]) -> tuple[str, list[list[float]]]:
        """Return what the embedder makes of texts, and its name. Raises EmbedError, also where there is none."""
        choice = self._engine.embedders.choice
        if choice.embedder is None:
            raise EmbedError(choice.degraded or "there is no embedder here", cure=installing("homarus[memory]"))
        rows = choice.embedder.encode(texts, query=False)
        return f"{choice.embedder.provider}/{choice.embedder.model}", [[float(x) for x in row] for row in rows]

    def get(self, path: str, from_: int | None = None, lines: int | None = None) -> Excerpt:
        """Return lines of a note, by the path that a hit cites. Nothing outside the notes can be read."""
        return read.excerpt(self.notes, path, from_, lines)

    def explain(self, query: str, citation: str) -> read.Explanation:
        """Say how a line (`path#L12`) was scored for a query, signal by signal, and where it ranks."""
        request = self._request(query, 1)
        return self._read(lambda conn: self._engine.explain(conn, request, citation))

    def knowledge(self) -> Knowledge:
        """Return what the notes say as facts: retained ones, and what plain lines claim about somebody."""
        return self._read(gather)

    def daily_lines(self, first: int, last: int) -> list[read.NoteLine]:
        return self._read(lambda conn: read.daily_lines(conn, first, last))

    def entity_pages(self) -> dict[str, str]:
        return self._read(read.entity_pages)

    def status(self) -> Status:
        """Return what the index holds; looks at the files, but indexes nothing."""
        with self._lock, ExitStack() as held:
            exists = self._database.path.exists()
            conn = self._database.connection()[0] if exists else held.enter_context(closing(empty_index()))
            provider, model = self._engine.identity
            return msgspec.structs.replace(
                read.counts(conn),
                workspace=str(self.workspace),
                database=str(self._database.path),
                exists=exists,
                provider=provider,
                model=model,
                watch=way(self.watched()) if self.settings.sync.watch else "off",
                degraded=self._database.problem or self._engine.degraded(conn, count=True),
                stale=self._stale or self._sync.stale(conn),
                problems=self.problems,
            )

    def watched(self) -> list[Path]:
        return watched(self.notes, self._sync.sessions)

    def twin(self) -> Memory:
        """Return a second memory over the same notes and index: one can work while the other answers."""
        twin = Memory(
            self.workspace,
            self._database.path,
            settings=self.settings,
            clock=self.clock,
            tz=self.tz,
            sessions=self._sync.sessions,
            home=self.notes.home,
        )
        twin._engine = Engine(self.settings, self._engine.embedders)
        return twin

    def today(self) -> date:
        """Return the day that relative phrases count from, in the user's time zone."""
        return self.clock.now().astimezone(self.tz).date()

    def day(self, given: Day) -> date | None:
        """Read a day: a date, ISO text, or a span back from today such as `30d`, `6w`, `3m`, `1y`."""
        if given is None or isinstance(given, date):
            return given
        text = given.strip().lower()
        units = {"d": 1, "w": 7, "m": 30, "y": 365}
        if len(text) > 1 and text[-1] in units and text[:-1].isascii() and text[:-1].isdigit():
            return date.fromordinal(max(1, self.today().toordinal() - int(text[:-1][:7]) * units[text[-1]]))
        try:
            return date.fromisoformat(text)
        except ValueError as problem:
            cure = "write YYYY-MM-DD, or a span back from today such as 30d, 6w, 3m, 1y"
            raise NoDay(f"'{given}' is no day; {cure}") from problem

    def close(self) -> None:
        with self._lock:
            self._fresh.close()
            self._database.close()
            if self._backend is not None:
                self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, text: str, limit: int, **given: Any) -> Request:
        return Request(text=text, today=self.today(), limit=limit, **given)

    def _sources(self, named: Iterable[str]) -> frozenset[str]:
        """Return what a question is limited to; empty for everything that is indexed."""
        searched = self.settings.searched
        return frozenset(named) or (frozenset() if "memory" in searched else searched)

    def _answer(self, request: Request) -> Answer:
        started = self.clock.monotonic()
        answer = self._by_backend(request)
        if answer is None:
            answer = self._read(lambda conn: self._engine.answer(conn, request))
            problem = self._backend.problem if self._backend else ""
            degraded = problem or self._database.problem or answer.degraded
            answer = msgspec.structs.replace(answer, stale=self._stale, degraded=degraded)
        return msgspec.structs.replace(
            answer,
            searched_ms=(self.clock.monotonic() - started) * 1000,
        )

    def _by_backend(self, request: Request) -> Answer | None:
        """Ask the index that the configuration chose instead of ours. Ours answers what only it can narrow."""
        narrowed = request.since or request.until or request.as_of or request.entities or request.kinds
        if self._backend is None or narrowed or (request.sources and "memory" not in request.sources):
            return None
        with self._lock:
            return self._backend.answer(self.notes, request)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a question against one state of an index that is as fresh as the files."""
        with self._lock:
            return self._healed(lambda: self._read_once(work))

    def _healed(self, work: Callable[[], T]) -> T:
        """Run something on the index; one that turns out to be damaged is moved aside and built anew."""
        try:
            return work()
        except (sqlite3.Error, Damaged) as error:
            self._database.heal(error)
        try:
            return work()
        except sqlite3.Error as error:
            raise explain(error, self._database.path) from error

    def _read_once(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._refresh()
        self._database.wait(self._database.read_wait_ms)
        with self._database.snapshot() as (conn, changed):
            self._forget(changed)
            return work(conn)

    def _connected(self) -> tuple[sqlite3.Connection, bool]:
        conn, changed = self._database.connection()
        self._forget(changed)
        return conn, changed

    def _forget(self, changed: bool) -> None:
        if changed:
            self._sync.forget()
            self._engine.forget()

    def _refresh(self) -> None:
        """Index what changed since the last question, or note why that is not possible now."""
        if self._connected()[1]:
            self._fresh.doubt()
        if not (self.settings.sync.on_search and self._fresh.maybe_changed()):
            return
        self._stale = ""
        started = self.clock.monotonic()
        try:
            if not self._index(wait=WAIT_SEARCH_MS).changed:
                self._fresh.took(self.clock.monotonic() - started)
            conn, _ = self._database.connection()
            self._engine.embed(conn, epoch_ms(self.clock.now()), None, quick=True)
        except (StorageError, sqlite3.Error) as error:
            problem = explain(error, self._database.path) if isinstance(error, sqlite3.Error) else error
            if isinstance(problem, Damaged):
                raise
            busy = "another process is writing the index; the newest notes may be missing"
            self._stale = busy if isinstance(problem, Locked) else f"the index could not be updated: {problem}"
            self._fresh.doubt()

    def _index(
        self, *, wait: int, rebuild: bool = False, background: bool = False, progress: Progress | None = None
    ) -> Report:
        conn, _ = self._connected()
        self._database.wait(wait)
        now = epoch_ms(self.clock.now())
        report = self._sync.run(conn, now, rebuild=rebuild, background=background, progress=progress)
        if report.changed or rebuild:
            self._engine.forget()
        self.problems = tuple(report.problems)
        self._stale = ""
        return report
