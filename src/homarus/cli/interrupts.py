"""Ctrl-C while one message is answered: what that message began ends, and nothing that others said to its session."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

from homarus.core.errors import HomarusError
from homarus.core.events import Notice, RunEvent
from homarus.queue.collect import message_id
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient

REASON = "interrupted"


class Interrupts:
    """While a turn runs, the first Ctrl-C ends it cleanly; a second one, and any other, ends the program.

    It is there before the event loop, which then leaves the signal alone. `told` says what the first one came to.
    """

    def __init__(self) -> None:
        self.told = ""
        self.gave_up = False  # waiting for the end of the turn
        self._stop: Callable[[], object] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._queued = False  # with another program

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def stopping(self, agent: Agent, message: str) -> Iterator[Callable[[RunEvent], None]]:
        """End what this message began when the signal comes, or else the waiting for it. Yields what is to hear its events."""
        loop, waiting = asyncio.get_running_loop(), asyncio.current_task()
        assert waiting is not None

        def stop() -> None:
            if self._ending is not None:
                raise KeyboardInterrupt
            self.told = "stopped"
            self._ending = asyncio.ensure_future(self._end(agent, message, waiting))

        self._stop = partial(loop.call_soon_threadsafe, stop)
        try:
            yield self._heard
        except asyncio.CancelledError:
            if not self.gave_up:
                raise
            waiting.uncancel()
        finally:
            self._stop = None
            if self._ending is not None:
                self._ending.cancel()

    def _heard(self, event: RunEvent) -> None:
        self._queued = self._queued or (isinstance(event, Notice) and event.kind == "queued")

    async def _end(self, agent: Agent, message: str, waiting: asyncio.Task[object]) -> None:
        client, left = agent.client, ""
        if isinstance(client, LocalClient):
            ended = agent.stop(REASON)
            if self._queued and not ended and not _taken_back(client, message):
                left = "the program that has the session open"
        else:
            from homarus.gateway.remote import RemoteClient

            assert isinstance(client, RemoteClient)
            try:
                ended = await client.abort_turn_of(agent.key, message, REASON)
            except HomarusError:  # it went away, or is an older one
                ended = False
            left = "" if ended else "the gateway"
        if left:
            self.told = f"stopped waiting; the message stays with {left}, which answers it"
        if not ended:
            self.gave_up = True
            waiting.cancel()

    def _signalled(self, *_: object) -> None:
        if self._stop is None:
            raise KeyboardInterrupt
        self._stop()


def _taken_back(client: LocalClient, message: str) -> bool:
    """Take a message back that was left for another program; False when that one has taken it."""
    letters = client.runtime.letters
    return any(letters.withdraw(item) for _, item in letters.waiting() if message_id(item.key) == message)
