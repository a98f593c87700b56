"""Ctrl-C while one message is answered: what that message began ends, and nothing that others said to its session."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

from homarus.core.errors import HomarusError
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

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def stopping(self, agent: Agent, message: str) -> Iterator[None]:
        """End what this message began when the signal comes, or else the waiting for it."""
        loop, waiting = asyncio.get_running_loop(), asyncio.current_task()
        assert waiting is not None

        def stop() -> None:
            if self._ending is not None:
                raise KeyboardInterrupt
            self.told = "stopped"
            self._ending = asyncio.ensure_future(self._end(agent, message, waiting))

        self._stop = partial(loop.call_soon_threadsafe, stop)
        try:
            yield
        except asyncio.CancelledError:
            if not self.gave_up:
                raise
            waiting.uncancel()
        finally:
            self._stop = None
            if self._ending is not None:
                self._ending.cancel()

    async def _end(self, agent: Agent, message: str, waiting: asyncio.Task[object]) -> None:
        client = agent.client
        if isinstance(client, LocalClient):
            ended = agent.stop(REASON)  # what another program holds is asked back, and what comes of that is an event
        else:
            from homarus.gateway.remote import RemoteClient

            assert isinstance(client, RemoteClient)
            try:
                ended = await client.abort_turn_of(agent.key, message, REASON)
            except HomarusError:  # it went away, or is an older one
                ended = False
            if not ended:
                self.told = "stopped waiting; the message stays with the gateway, which answers it"
        if not ended:
            self.gave_up = True
            waiting.cancel()

    def _signalled(self, *_: object) -> None:
        if self._stop is None:
            raise KeyboardInterrupt
        self._stop()
