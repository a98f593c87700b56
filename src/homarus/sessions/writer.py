"""The one writer of a session: what it appended is on disk when the call returns, and the file stays valid throughout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeGuard

from homarus.core.clock import Clock, Ids, epoch_ms, iso_ms
from homarus.core.errors import Cancelled, StorageError
from homarus.core.messages import Assistant, Message, ToolCall, ToolResult, User
from homarus.sessions.branch import forget_old_images
from homarus.sessions.codec import Json, is_synthetic
from homarus.sessions.entry import (
    RUNTIME_CONTEXT,
    Compaction,
    Custom,
    Entry,
    MessageEntry,
    Reset,
    has_images,
    new_entry,
    new_header,
    new_message,
)
from homarus.sessions.legacy import make_appendable
from homarus.sessions.log import WINDOW, Form, identify, load_tail, to_entries
from homarus.sessions.places import WORK, own
from homarus.sessions.repair import CUT, STRICT, Rules, missing_results, open_calls
from homarus.sessions.taint import tainted_by
from homarus.sessions.view import History, View, project, visible
from homarus.storage.atomic import ensure_dir
from homarus.storage.jsonl import JsonlWriter, read_lines_reversed
from homarus.storage.record import encode

_REMEMBERED_KEYS = 4096
_SEARCHED_BYTES = 32 << 20


class SessionWriter:
    """An open session. Nobody else can write it while this object lives, and it holds no more than a context needs.

    Opening changes nothing that is readable: an older form is converted with the original kept, a torn last line stays
    as it is and the next entry starts on a fresh line. A session that another process owns is waited for (`wait`
    seconds, in this thread) or refused.
    """

    def __init__(
        self,
        path: Path,
        session_id: str,
        *,
        clock: Clock,
        ids: Ids,
        cwd: str = "",
        window: int = WINDOW,
        wait: float = 0.0,
    ) -> None:
        self.path = path
        self.clock = clock
        self._ids = ids
        self._window = window
        # Returns what must be stored again when the oldest part of the branch is dropped from memory; see `_slide`.
        self.carry: Callable[[Sequence[Entry]], Iterable[tuple[str, Json]]] = lambda _dropped: ()
        self._run = ""
        self.branch: list[Entry] = []
        self.complete = True
        self._file: JsonlWriter | None = None  # opened by the first append: looking at a session makes no file
        ensure_dir(path.parent)
        self._lock = own(path, clock.now(), wait=wait)
        try:
            source = make_appendable(path, session_id, cwd, clock.now())
            self._new = source.form is Form.EMPTY
            self.header = new_header(session_id, iso_ms(clock.now()), cwd) if self._new else source.header
            self._load()
        except BaseException:
            self._lock.release()
            raise

    def _load(self) -> None:
        tail = load_tail(identify(self.path), limit=self._window, lean=True)
        self._hold(list(tail.entries), complete=tail.complete)
        self._leaf = self.branch[-1].id if self.branch else None
        # A short id is new only among ids that we know; where most of the file was not read, ids are long.
        self._ids_seen: set[str] | None = None
        start = max(0, self.branch[0].offset) if self.branch else 0
        if start <= 65536 + self.size - start:
            self._ids_seen = {entry.id for entry in self.branch}
            self._ids_seen.update([entry.parent_id or "" for entry in self.branch])
        self._keys: dict[str, None] = {}
        self._remember([key for entry in self.branch if _is_user(entry) for key in entry.keys])
        self._histories: dict[Rules, History] = {}
        self._pictures = any(has_images(entry) for entry in self.branch)
        spoken = project(self.view)
        self._open_calls = open_calls(spoken)
        self._frame = _last_frame(spoken)

    @property
    def session_id(self) -> str:
        return self.header.id

    @property
    def leaf(self) -> str | None:
        return self._leaf

    @property
    def view(self) -> View:
        return visible(self.branch)

    @property
    def notes(self) -> Sequence[Entry]:
        """Return the boundaries and the custom entries of the branch, oldest first: far fewer than there are messages."""
        return self._notes

    @property
    def boundary(self) -> Compaction | Reset | None:
        return self._boundary

    @property
    def has_images(self) -> bool:
        return self._pictures

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        return tuple(self._open_calls)

    @property
    def size(self) -> int:
        if self._file is not None:
            return self._file.size
        return self.path.stat().st_size if self.path.exists() else 0

    def history(self, rules: Rules = STRICT) -> tuple[Message, ...]:
        """Return what a model is sent: valid for its provider, and equal before a message and after a restart."""
        known = self._histories.get(rules)
        if known is None:
            known = self._histories[rules] = History(self.view, rules)
        return known.messages

    def knows(self, idempotency_key: str) -> bool:
        """Say whether a message with this key is in the session already: a retry must not be stored twice."""
        return bool(idempotency_key) and idempotency_key in self._keys

    def holds(self, idempotency_key: str) -> bool:
        """Say the same, and look behind the last compaction too: a turn that was cut off may have begun before it."""
        if not idempotency_key or self.knows(idempotency_key):
            return bool(idempotency_key)
        mark, size = encode(idempotency_key).strip(b'"'), 0
        for line in read_lines_reversed(self.path, decoded=False) if self.path.exists() else ():
            if mark in line.raw:
                entries = to_entries(line)
                if any(_is_user(entry) and idempotency_key in entry.keys for entry in entries):
                    self._remember((idempotency_key,))
                    return True
            size += len(line.raw)
            if size > _SEARCHED_BYTES:
                break
        return False

    def widen(self, tokens: int) -> None:
        """Hold as much as a request to a model with this window can take, where that is more than was held before."""
        wanted = 4 * tokens
        if wanted > self._window:
            self._window = wanted
            if not self.complete:
                self._load()

    def begin_run(self, run_id: str) -> None:
        """Make this run the only one that may append; a run that it superseded is refused from now on."""
        self._run = run_id

    def append_message(self, message: Message, *, durable: bool = True, run_id: str = "") -> Entry:
        """Store a message and return its entry. Calls that would be left without a result get one first."""
        if run_id:
            self._check_run(run_id)
        now = self.clock.now()
        written, moment = iso_ms(now), message.timestamp or epoch_ms(now)
        spoken: list[Message] = [message]
        if isinstance(message, ToolResult):
            self._check_result(message)
        elif self._open_calls:
            spoken = [*missing_results(self._open_calls, epoch_ms(now)), message]
        fresh: list[tuple[bytes, Entry]] = []
        above = self._leaf
        for said in spoken:
            stored = new_message(self._new_id(), above, written, said, said.timestamp or moment)
            fresh.append(stored)
            above = stored[1].id
        if isinstance(message, User) and message.context:
            carrier: Json = {"customType": RUNTIME_CONTEXT, "content": message.context, "display": False}
            entry = new_entry("custom_message", self._new_id(), above, written, carrier)
            fresh.append((entry.raw, entry))
        self._write(fresh, durable)
        for said in spoken:
            self._follow(said)
        return stored[1]

    def append(self, kind: str, fields: Json, *, durable: bool = True, run_id: str = "") -> Entry:
        """Store an entry that is no message: a model change, a label, a note, a compaction, a reset."""
        if kind in {"message", "leaf", "session"}:
            raise ValueError(f"{kind} entries have their own method")
        self._check_run(run_id)
        entry = self._entry(kind, fields, self._leaf)
        self._write([(entry.raw, entry)], durable)
        return entry

    def compact(self, summary: str, first_kept: str, tokens_before: int, **more: Any) -> Entry:
        """Store a summary of everything before `first_kept`; nothing of it is removed from the file."""
        kept = first_kept or None
        if taint := tainted_by(self._notes):
            # A summary of untrusted words is no more to be trusted than they were.
            more["details"] = {**(more.get("details") or {}), "taint": list(taint)}
        fields = {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": tokens_before, **more}
        return self.append("compaction", fields)

    def move_leaf(self, target: str) -> None:
        """Continue from another entry, as an undo does. What came after it stays in the file, on a branch of its own."""
        # Readers that do not know this line follow its parent, and so come to the same place.
        self._append([self._entry("leaf", {"targetId": target}, target).raw], durable=True)
        self._load()
        if self._leaf != target:
            raise StorageError(f"{self.path} has no entry {target} to go back to", cure="take an id from this branch")

    @contextmanager
    def at_work(self, doing: str) -> Iterator[None]:
        """Let other processes know what is done with the session while the context lasts; turns they see by themselves."""
        self._lock.say(**{WORK: doing})
        try:
            yield
        finally:
            self._lock.say(**{WORK: None})

    def close(self) -> None:
        """Let go of the file and of the right to write it; a second call does nothing."""
        self.close_file()
        self._lock.release()

    def close_file(self) -> None:
        """Let go of the file alone; the next entry opens it again."""
        if self._file:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_run(self, run_id: str) -> None:
        if self._run and run_id not in ("", self._run):
            raise Cancelled(f"run {run_id} was superseded by run {self._run}")

    def _check_result(self, result: ToolResult) -> None:
        if any(call.id == result.call_id for call in self._open_calls):
            return
        before = self._frame.get(result.call_id)
        if before is not None and is_synthetic(before) and not is_synthetic(result):
            return  # a real result replaces one that stood in for it
        what = "already has its result" if before else "is not open"
        raise StorageError(f"call {result.call_id} {what} in {self.path.name}", cure="append each result once")

    def _entry(self, kind: str, fields: Json, parent: str | None) -> Entry:
        return new_entry(kind, self._new_id(), parent, iso_ms(self.clock.now()), fields)

    def _new_id(self) -> str:
        if self._ids_seen is None:
            return self._ids.uuid()
        ident = self._ids.short()
        while ident in self._ids_seen:
            ident = self._ids.short()
        self._ids_seen.add(ident)
        return ident

    def _append(self, lines: list[bytes], durable: bool) -> None:
        if not self._lock.held:
            raise StorageError(f"{self.path} was closed", cure="open the session again")
        if self._file is None:
            self._file = JsonlWriter.open(self.path)
        if self._new:
            lines = [encode(self.header.data), *lines]
        self._file.append_many(lines, durable=durable)
        self._new = False

    def _write(self, fresh: list[tuple[bytes, Entry]], durable: bool) -> None:
        """Append to the file first; what is in memory follows only when that succeeded."""
        self._append([line for line, _ in fresh], durable)
        asked = pictured = False
        for _, entry in fresh:
            self.branch.append(entry)
            self._weight += entry.weight
            self._leaf = entry.id
            for seen in self._histories.values():
                if not seen.extend(entry):
                    self._histories = {}  # made anew when somebody asks
                    break
            if isinstance(entry, MessageEntry):
                asked = asked or entry.role == "user"
            elif isinstance(entry, Custom):
                self._notes.append(entry)
            elif isinstance(entry, Compaction | Reset):
                self._hold(list(self.view.entries), complete=True)
            pictured = pictured or (entry.raw != b"" and has_images(entry))
        if self._weight > self._window * 5 // 4:
            self._slide()
        if self._pictures and asked:
            self._fade()
        self._pictures = self._pictures or pictured

    def _fade(self) -> None:
        """Drop the pictures of older turns from memory; a model is shown words in their place by then."""
        kept = forget_old_images(self.branch)
        if any(old is not new for old, new in zip(self.branch, kept, strict=True)):
            self.branch, self._histories = kept, {}
        self._pictures = any(has_images(entry) for entry in self.branch)

    def _hold(self, branch: list[Entry], *, complete: bool) -> None:
        """Hold this part of the branch, and know its notes and the last boundary among them."""
        self.branch, self.complete = branch, complete
        self._weight = sum([entry.weight for entry in branch])
        self._notes = [entry for entry in self.branch if isinstance(entry, Custom | Compaction | Reset)]
        bounds = (entry for entry in reversed(self._notes) if not isinstance(entry, Custom))
        self._boundary = next(bounds, None)

    def _slide(self) -> None:
        """Drop the oldest part of a branch that nobody compacts from memory, up to the start of a turn: no request can hold it.

        What must outlive it (`carry`) is stored again, so that the next start reads it too.
        """
        size, place = 0, len(self.branch)
        while place > 0 and size < self._window:
            place -= 1
            size += self.branch[place].weight
        starts = (i for i in range(place, len(self.branch)) if _is_user(self.branch[i]))
        keep = next(starts, place)
        if keep:
            carried = list(self.carry(self.branch[:keep]))
            self._hold(self.branch[keep:], complete=False)
            self._ids_seen = None
            self._histories = {}
            for kind, fields in carried:
                self.append(kind, fields)

    def _remember(self, keys: Iterable[str]) -> None:
        self._keys.update(dict.fromkeys(keys))
        while len(self._keys) > _REMEMBERED_KEYS:
            del self._keys[next(iter(self._keys))]

    def _follow(self, message: Message) -> None:
        if isinstance(message, ToolResult):
            for place, call in enumerate(self._open_calls):
                if call.id == message.call_id:
                    del self._open_calls[place]
                    break
            self._frame[message.call_id] = message
            return
        if isinstance(message, User) and message.idempotency_key:
            self._remember(message.keys)
        self._open_calls = []
        if isinstance(message, Assistant) and (calls := message.calls):
            self._frame = {}
            if message.stop_reason not in CUT:
                self._open_calls = list(calls)


def _is_user(entry: Entry) -> TypeGuard[MessageEntry]:
    return isinstance(entry, MessageEntry) and entry.role == "user"


def _last_frame(messages: Sequence[Message]) -> dict[str, ToolResult]:
    found: dict[str, ToolResult] = {}
    for message in messages:
        if isinstance(message, Assistant) and message.calls:
            found = {}
        elif isinstance(message, ToolResult):
            found[message.call_id] = message
    return found
