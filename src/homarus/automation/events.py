"""System events: what happened beside a conversation, told to the model with the next turn of its session.

They wait on disk, in one file per session, and several processes may add to it. An event counts once, however often it is
added, and is settled when the message that carried it is in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from pathlib import Path
from typing import TypeVar

from homarus.core.clock import Clock, Ids, epoch_ms
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import Route, SessionKey
from homarus.core.text import single_line
from homarus.queue.collect import Queued
from homarus.queue.inbox import Inbox, inbox_path
from homarus.storage.atomic import ensure_dir
from homarus.storage.locks import alone_in
from homarus.tools.untrusted import harmless, wrapped

HEADING = "System Events"
CHANNEL = "system"
MAX_WAITING = 20
MAX_CHARS = 4_000
T = TypeVar("T")


class SystemEvents:
    """The events of one home."""

    def __init__(self, folder: Path, clock: Clock, ids: Ids) -> None:
        self._folder = folder
        self._clock = clock
        self._ids = ids

    def add(
        self,
        session: SessionKey,
        text: str,
        *,
        ident: str = "",
        trust: Trust = Trust.OWNER,
        taint: Iterable[str] = (),
        wake: bool = False,
    ) -> bool:
        """Keep an event for the next turn of a session, durably; False when it is known, or says what the newest one says."""
        facts = {"taint": list(taint), "wake": wake}
        inbound = Inbound(
            id=ident or self._ids.uuid(),
            channel=CHANNEL,
            text=harmless(text).strip()[:MAX_CHARS],
            trust=trust,
            timestamp=epoch_ms(self._clock.now()),
            facts=facts,
        )
        item = Queued(f"event:{inbound.id}", inbound, Route(session.agent_id, session, CHANNEL))

        def put(box: Inbox) -> bool:
            waiting = box.pending
            if not inbound.text or (not ident and waiting and waiting[-1].text == inbound.text):
                return False
            if not box.accept(item):
                return False
            box.settle(*(old.key for old in waiting[: max(0, len(waiting) + 1 - MAX_WAITING)]))
            return True

        return self._with(session, put)

    def waiting(self, session: SessionKey) -> tuple[Queued, ...]:
        """Return what waits to be told, oldest first. A session without events costs one look."""
        if not inbox_path(self._folder, session).exists():
            return ()
        return self._with(session, lambda box: box.pending)

    def settle(self, session: SessionKey, *keys: str) -> None:
        """Note that these were told."""
        if inbox_path(self._folder, session).exists():
            self._with(session, lambda box: box.settle(*keys))

    def sessions(self) -> dict[SessionKey, tuple[Queued, ...]]:
        """Return every session for which something waits."""
        paths = sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else []
        found = [Inbox(path).pending for path in paths]
        return {items[0].route.session_key: items for items in found if items}

    def _with(self, session: SessionKey, work: Callable[[Inbox], T]) -> T:
        ensure_dir(self._folder)
        with alone_in(self._folder):
            box = Inbox(inbox_path(self._folder, session))
            try:
                return work(box)
            finally:
                box.close()


def told(events: Iterable[Queued], zone: tzinfo, nonce: str) -> str:
    """Return the events as the model reads them; words of strangers are marked as such."""
    from datetime import datetime

    lines = []
    for item in events:
        when = datetime.fromtimestamp(item.inbound.timestamp / 1000, zone)
        text = item.text
        if item.trust is not Trust.OWNER:
            text = wrapped(text, next(iter(item.taint), "event"), nonce)
        elif "\n" not in text:
            text = single_line(text, MAX_CHARS)
        lines.append(f"- [{when:%Y-%m-%d %H:%M %Z}] {text}")
    return "\n".join(lines)
