"""Trouble in transcripts and indexes: torn lines, unpaired calls, orphans, old forms. Looking changes nothing; `mend` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, StorageError
from homarus.core.messages import Assistant, Message, ToolResult
from homarus.sessions.codec import is_synthetic
from homarus.sessions.entry import NEWEST_READABLE, MessageEntry
from homarus.sessions.log import Form, Transcript, damaged_lines, identify, load_tail, read_entries
from homarus.sessions.places import Kind, Place, owner_of, visit
from homarus.sessions.repair import missing_results, open_calls, repair
from homarus.sessions.store import SessionInfo, SessionStore, short_id
from homarus.sessions.view import project, visible


class Finding(Struct, frozen=True):
    """One thing that is not as it should be. `severity` is info, warning or error."""

    severity: str
    check: str
    path: str
    message: str
    cure: str = ""


def check_store(store: SessionStore) -> Iterator[Finding]:
    """Yield what is wrong with an agent's sessions. Nothing is changed, not even what is easy to mend."""
    yield from _check_index(store)
    infos = store.list(orphans=True)
    if store.problem:
        yield Finding("error", "database", str(store.database), store.problem, "see the message")
    for info in infos:
        if not info.indexed and info.place.kind is Kind.FILE:
            cure = f"'homarus sessions resume {short_id(info.entry.session_id)}' continues it"
            yield Finding("info", "orphan", str(info.place.path), "no row of the index names this transcript", cure)
        if info.indexed and not info.place.path.exists():
            yield Finding("info", "no-transcript", info.name, "has no transcript yet, or lost it")
        elif info.place.kind is Kind.FILE or info.place.path.exists():
            yield from check_place(info.place)


def check_place(place: Place) -> Iterator[Finding]:
    name = str(place.path) if place.kind is not Kind.DATABASE else f"{place.path}#{place.session_id}"
    try:
        with visit(place) as source:
            yield from _check_source(source, name)
    except StorageError as error:
        yield Finding("error", "unreadable", name, error.message, error.cure)
    if place.kind is Kind.FILE and (pid := owner_of(place.path)) is not None:
        yield Finding("info", "in-use", name, f"process {pid} is writing it")


def _check_index(store: SessionStore) -> Iterator[Finding]:
    path = str(store.index.path)
    form = store.index.form
    if form == "array":
        yield Finding("warning", "array-index", path, "has the old list form", "the next change converts it")
    elif form == "damaged":
        cure = "restore it from a backup; sessions are still shown by their transcripts"
        yield Finding("error", "damaged-index", path, "cannot be read", cure)
    for name, row in store.index.rows().items():
        try:
            store.key(name)
        except ConfigError as error:
            yield Finding("warning", "bad-key", path, error.message, "rename the row")
        if not isinstance(row.get("sessionId"), str):
            yield Finding("warning", "bad-row", path, f"row '{name}' has no sessionId", "remove the row")


def _check_source(source: Transcript, name: str) -> Iterator[Finding]:
    if source.form is Form.CORRUPT:
        yield Finding("error", "corrupt", name, "holds no readable line", "it is moved aside when the session goes on")
        return
    if source.form is Form.HEADLESS:
        yield Finding("warning", "no-header", name, "has lost its first line", "the next message gives it a new one")
    elif source.form in {Form.FLAT, Form.OLD}:
        what = "the flat form" if source.form is Form.FLAT else f"version {source.header.version}"
        yield Finding("info", "old-form", name, f"is in {what}", "the next message converts it and keeps the original")
    if source.header.version > NEWEST_READABLE:
        message = f"is of version {source.header.version}, which this program only reads"
        yield Finding("warning", "unknown-version", name, message, "use a newer homarus")
    yield from _check_lines(source, name)
    spoken = project(visible(load_tail(source).entries))
    calls = sum(len(m.calls) for m in spoken if isinstance(m, Assistant))
    results = sum(isinstance(m, ToolResult) for m in spoken)
    waiting = open_calls(spoken)
    if waiting:
        names = ", ".join(call.name for call in waiting)
        yield Finding("warning", "open-call", name, f"ends with calls that have no result: {names}", _MENDED)
    elif calls != results:
        yield Finding("warning", "unpaired", name, f"{calls} calls in view have {results} results", _MENDED)
    if spoken and not repair(spoken):
        yield Finding("warning", "empty-history", name, "nothing of it can be sent to a model")


_MOST_LINES = 20
_MENDED = "what is sent to a model is repaired each time; the file stays as it is"


def _check_lines(source: Transcript, name: str) -> Iterator[Finding]:
    told = 0
    for line in damaged_lines(source.path):
        if line.torn:
            what = f"its last line is cut at byte {line.offset}"
            yield Finding("info", "torn-line", name, what, "normal after a crash")
        elif (told := told + 1) <= _MOST_LINES:
            what = f"the line at byte {line.offset} is no record"
            yield Finding("warning", "damaged-line", name, what, "it is skipped")
    if told > _MOST_LINES:
        what = f"{told - _MOST_LINES} more lines are no records"
        yield Finding("warning", "damaged-line", name, what, "they are skipped")
    seen: set[str] = set()
    doubled = lost = 0
    for entry in read_entries(source):
        doubled += entry.id in seen
        lost += entry.linked and entry.parent_id is not None and entry.parent_id not in seen
        seen.add(entry.id)
        if isinstance(entry, MessageEntry) and not entry.role:
            yield Finding("warning", "no-role", name, f"message {entry.id} has no role", "it is skipped")
    if doubled:
        yield Finding("warning", "double-id", name, f"{doubled} entries repeat an id", "the last of each counts")
    if lost:
        yield Finding("warning", "lost-parent", name, f"{lost} entries hang on none before them", "they follow by time")


def report(place: Place) -> dict[str, Any]:
    """Return how many messages are in view, how many are sent, and what differs."""
    with visit(place) as source:
        stored = project(visible(load_tail(source).entries))
        form = source.form.value
    sent = repair(stored)
    before, after = _count(stored), _count(sent)
    words = {"calls": "calls", "results": "results", "synthetic": "results put in for missing ones", "turns": "turns"}
    changes = [f"{words[name]}: {before[name]} -> {after[name]}" for name in words if before[name] != after[name]]
    return {"form": form, "stored": len(stored), "sent": len(sent), "changes": changes}


def mend(store: SessionStore, info: SessionInfo) -> list[str]:
    """Convert an old form and answer open calls, and return what was done. Nothing readable is removed."""
    done: list[str] = []
    path = info.place.path
    form = identify(path).form if path.exists() else Form.EMPTY
    with store.open_writer(info.key) as writer:
        if form in {Form.OLD, Form.FLAT, Form.HEADLESS, Form.CORRUPT}:
            done.append(f"{path.name} was {form.value} and is a version 3 transcript now")
        for result in missing_results(writer.open_calls, epoch_ms(store.clock.now())):
            writer.append_message(result)
            done.append(f"call {result.call_id} of {result.tool_name} has a result now")
    return done


def _count(messages: Sequence[Message]) -> dict[str, int]:
    return {
        "calls": sum(len(m.calls) for m in messages if isinstance(m, Assistant)),
        "results": sum(isinstance(m, ToolResult) for m in messages),
        "synthetic": sum(is_synthetic(m) for m in messages),
        "turns": sum(not isinstance(m, ToolResult) for m in messages),
    }
