"""The lanes of one process: one for each session that is talked in, opened when it is needed and let go when it is idle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from homarus.core.errors import Locked
from homarus.core.messages import Inbound
from homarus.core.routes import Route, SessionKey, SessionKind
from homarus.core.text import single_line
from homarus.queue.inbox import Inbox, inbox_path
from homarus.queue.lane import SessionLane
from homarus.storage.atomic import remove

_log = logging.getLogger(__name__)
MAX_LANES = 64


class Lanes:
    """Holds at most `MAX_LANES` lanes that are idle, and every lane that is not."""

    def __init__(
        self,
        inboxes: Path,
        open_: Callable[[SessionKey, Inbox], SessionLane],
        is_ours: Callable[[SessionKey], bool],
    ) -> None:
        self._inboxes = inboxes
        self._open = open_
        self._is_ours = is_ours
        self._lanes: dict[SessionKey, SessionLane] = {}

    def get(self, key: SessionKey) -> SessionLane | None:
        """Return the lane of a session that this process has talked in, without opening one."""
        return self._lanes.get(key)

    @property
    def busy(self) -> list[SessionKey]:
        """Return the sessions in which a turn runs."""
        return [key for key, lane in self._lanes.items() if lane.busy]

    @property
    def known(self) -> list[SessionKey]:
        """Return the sessions that this process has talked in."""
        return list(self._lanes)

    @property
    def idle(self) -> bool:
        """Say whether nothing runs and nothing waits in any session."""
        return all(lane.idle_now for lane in self._lanes.values())

    def lane(self, key: SessionKey) -> SessionLane:
        """Return the lane of a session, opening it if need be."""
        lane = self._lanes.get(key)
        if lane is not None and lane.idle_now and not self._is_ours(key):
            # Its session was let go, and another process may have it by now, or have had it: then the inbox holds something else.
            self._lanes.pop(key).release()
            lane = None
        if lane is None:
            lane = self._lanes[key] = self._open(key, Inbox(inbox_path(self._inboxes, key)))
            self._trim()
        return lane

    def recover(self) -> int:
        """Open every session in which an earlier process left messages unanswered; return how many there are.

        A session that another process writes is that one's business.
        """
        paths = sorted(self._inboxes.glob("*.jsonl")) if self._inboxes.is_dir() else []
        keys = {item.route.session_key for path in paths for item in Inbox(path).pending}
        opened = 0
        for key in keys:
            try:
                self.lane(key)
            except Locked as held:
                _log.warning("%s stays as it is: %s", key, held)
            else:
                opened += 1
        return opened

    def drop(self, key: SessionKey) -> None:
        """Let go of the lane of a session that goes away, and of its inbox; not while something waits in it."""
        lane = self._lanes.get(key)
        if lane is not None and not lane.idle_now:
            return
        if lane is not None:
            del self._lanes[key]
            lane.release()
        path = inbox_path(self._inboxes, key)
        if not Inbox(path).pending:
            remove(path)

    async def close(self) -> None:
        """End what runs; what waits stays in its inbox."""
        for lane in list(self._lanes.values()):
            await lane.close()

    def _trim(self) -> None:
        surplus = len(self._lanes) - MAX_LANES
        for key in [key for key, lane in self._lanes.items() if lane.idle_now][: max(0, surplus)]:
            self._lanes.pop(key).release()


def route_of(key: SessionKey, inbound: Inbound) -> Route:
    """Return where the answer to a message goes: back to where it came from."""
    return Route(key.agent_id, key, inbound.channel, inbound.account, inbound.peer or inbound.sender, inbound.thread)


def speaker(inbound: Inbound) -> str:
    """Return by what name the agent is told who speaks; it cannot end the brackets that it stands in."""
    return single_line(inbound.sender_name or inbound.sender, 60).translate(str.maketrans("[]", "()"))


def lane_of(key: SessionKey) -> str:
    """Return the global lane in which a session's turns wait for a place."""
    if key.kind is SessionKind.HEARTBEAT:
        return "background"  # it never keeps a reply waiting
    return "subagent" if key.is_subagent else "cron-nested" if key.is_cron else "main"
