"""What a process that was killed left of its children: what was cut off ends, what is owed is told. Nothing runs again.

A child had finished when its log ends with an answer to its task; then that is its result. Of any other nobody knows what
it would have come to, and its parent is told what it had said so far.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from homarus.agent.resume import cut_off
from homarus.core.messages import Assistant, StopReason, Usage
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.sessions.codec import keys_of
from homarus.sessions.entry import MessageEntry
from homarus.sessions.log import load_tail
from homarus.sessions.places import visit
from homarus.sessions.store import SessionStore
from homarus.subagents.book import ChildBook, ChildBooks, ChildRecord
from homarus.subagents.child import CHANNEL, INTERRUPTED, ChildEnd, ChildRun
from homarus.subagents.report import report_key


class World(Struct, frozen=True, kw_only=True):
    """What settling asks of the program. `alone` says that the session is itself a child that nobody waits for."""

    now: int
    alone: bool
    stored: Callable[[str], bool]
    store: Callable[[str], SessionStore]
    tell: Callable[[ChildRun, ChildEnd], object]
    put_away: Callable[[ChildRun, ChildEnd], None]


class Remains(Struct, frozen=True):
    """What is left of a run. It had finished when its log ends with an answer to its task."""

    finished: bool = False
    text: str = ""
    usage: Usage = Usage()
    session_id: str = ""
    transcript: str = ""


def take_up(books: ChildBooks, key: SessionKey, world: World) -> None:
    """Settle the children of a session that this process has just opened."""
    book = books.own(key)
    for kept in book.open:
        _settle(books, kept, book, world, quiet=world.alone)
    for kept in book.owed:
        if world.alone or world.stored(report_key(kept.run.run_id)):
            book.told(kept.run.run_id)
        elif kept.end is not None:
            world.tell(kept.run, kept.end)


def _settle(books: ChildBooks, kept: ChildRecord, book: ChildBook, world: World, *, quiet: bool) -> None:
    """End a run that was cut off, and the runs below it."""
    key = SessionKey.parse(kept.run.child)
    done = not books.exists(key) or not books.count(key)
    if not done:
        below = books.fresh(key)
        for grandchild in below.open:
            _settle(books, grandchild, below, world, quiet=True)
        for grandchild in below.owed:
            below.told(grandchild.run.run_id)
        below.close()
    left = remains_of(world.store(key.agent_id), kept.run, done=done)
    end = ChildEnd(
        run_id=kept.run.run_id,
        status="ok" if left.finished else "unknown",
        text=left.text,
        error="" if left.finished else INTERRUPTED,
        ended_ms=world.now,
        usage=left.usage,
        # Nobody knows any more what it had read.
        taint=(*kept.run.taint, CHANNEL),
        session_id=left.session_id,
        transcript=left.transcript,
        quiet=quiet,
    )
    book.end(end)
    world.put_away(kept.run, end)


def remains_of(store: SessionStore, run: ChildRun, *, done: bool) -> Remains:
    """Read a child's log; `done` says that nothing below it was open."""
    info = store.find(SessionKey.parse(run.child))
    if info is None:
        return Remains()
    row = info.entry
    usage = Usage(row.input_tokens, row.output_tokens, row.cache_read, row.cache_write)
    found = Remains(usage=usage, session_id=row.session_id, transcript=str(info.place.path))
    try:
        with visit(info.place) as source:
            messages = [entry for entry in load_tail(source).entries if isinstance(entry, MessageEntry)]
    except FileNotFoundError:
        return found
    task = f"{CHANNEL}:default:{run.run_id}"
    begun = next((at for at, entry in enumerate(messages) if task in keys_of(entry.body)), None)
    own = messages[begun:] if begun is not None else []
    said = [message for entry in own if isinstance(message := entry.message, Assistant)]
    text = next((text for message in reversed(said) if (text := shape(message.text).text)), "")
    whole = bool(said) and said[-1].stop_reason in {StopReason.STOP, StopReason.LENGTH}
    return Remains(done and whole and not cut_off(own), text, usage, found.session_id, found.transcript)
