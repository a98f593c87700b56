"""What a process that was killed left of its children: what was cut off ends, what is owed is told. Nothing runs again.

A child had finished when its log ends with an answer to its task; then that is its result. Of any other nobody knows what
it would have come to, and its parent is told what it had said so far.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.agent.resume import cut_off
from homarus.core.clock import epoch_ms
from homarus.core.messages import Assistant, StopReason, Usage
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.sessions.codec import keys_of
from homarus.sessions.entry import MessageEntry
from homarus.sessions.log import load_tail
from homarus.sessions.places import visit
from homarus.subagents.book import ChildBook, ChildBooks, ChildRecord
from homarus.subagents.child import CHANNEL, INTERRUPTED, ChildEnd, ChildRun


def take_up(
    books: ChildBooks, key: SessionKey, home: Home, put_away: Callable[[ChildRun, ChildEnd], None], *, quiet: bool
) -> list[ChildRecord]:
    """End what was cut off of the children of a session that this process has just opened; return what its parent is owed.

    `quiet` says that the session is itself a child that nobody waits for.
    """
    book = books.own(key)
    for kept in book.open:
        _settle(books, kept, book, home, put_away, quiet=quiet)
    return list(book.owed)


def _settle(
    books: ChildBooks,
    kept: ChildRecord,
    book: ChildBook,
    home: Home,
    put_away: Callable[[ChildRun, ChildEnd], None],
    *,
    quiet: bool,
) -> None:
    """End a run that was cut off, and the runs below it."""
    key = SessionKey.parse(kept.run.child)
    done = not books.exists(key) or not books.count(key)
    if not done:
        below = books.fresh(key)
        for grandchild in below.open:
            _settle(books, grandchild, below, home, put_away, quiet=True)
        for grandchild in below.owed:
            below.told(grandchild.run.run_id)
        below.close()
    end = replace(_end_of(home, kept.run, done=done), quiet=quiet)
    book.end(end)
    put_away(kept.run, end)


def _end_of(home: Home, run: ChildRun, *, done: bool) -> ChildEnd:
    """Read from a child's log how it ended; `done` says that nothing below it was open."""
    # Nobody knows any more what it had read.
    end = ChildEnd(
        run_id=run.run_id,
        status="unknown",
        error=INTERRUPTED,
        ended_ms=epoch_ms(home.clock.now()),
        taint=(*run.taint, CHANNEL),
    )
    info = home.store(SessionKey.parse(run.child).agent_id).find(SessionKey.parse(run.child))
    if info is None:
        return end
    row = info.entry
    usage = Usage(row.input_tokens, row.output_tokens, row.cache_read, row.cache_write)
    end = replace(end, usage=usage, session_id=row.session_id, transcript=str(info.place.path))
    try:
        with visit(info.place) as source:
            messages = [entry for entry in load_tail(source).entries if isinstance(entry, MessageEntry)]
    except FileNotFoundError:
        return end
    task = f"{CHANNEL}:default:{run.run_id}"
    begun = next((at for at, entry in enumerate(messages) if task in keys_of(entry.body)), None)
    own = messages[begun:] if begun is not None else []
    said = [message for entry in own if isinstance(message := entry.message, Assistant)]
    text = next((text for message in reversed(said) if (text := shape(message.text).text)), "")
    whole = bool(said) and said[-1].stop_reason in {StopReason.STOP, StopReason.LENGTH}
    if done and whole and not cut_off(own):
        return replace(end, status="ok", error="", text=text)
    return replace(end, text=text)
