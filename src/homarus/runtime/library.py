"""`homarus.Agent`: open a home, talk to an agent, watch it work. The command line goes through this, too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from homarus.config.paths import resolve_paths
from homarus.core.clock import Clock, Ids
from homarus.core.events import RunEvent
from homarus.core.routes import SessionKey
from homarus.runtime.client import Client, LocalClient, RunOptions
from homarus.runtime.reply import Reply, ReplyFold
from homarus.runtime.runtime import Runtime

if TYPE_CHECKING:
    from homarus.commands.router import IntakeResult


class Agent:
    """One agent of a home, in one of its sessions. Use it in one event loop, and close it."""

    def __init__(self, client: Client, session: SessionKey) -> None:
        self.client = client
        self.session = session

    @classmethod
    def open(
        cls,
        home: str | Path | None = None,
        *,
        agent: str = "",
        session: str = "main",
        env: Mapping[str, str] | None = None,
        profile: str | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> Agent:
        """Open an agent. `home` is a state folder such as `~/.openclaw`; without it the environment decides."""
        variables = dict(os.environ if env is None else env)
        if home is not None:
            variables["OPENCLAW_STATE_DIR"] = str(Path(home).expanduser().absolute())
        runtime = Runtime.open(resolve_paths(variables, profile=profile), variables, clock=clock, ids=ids)
        client = LocalClient(runtime)
        return cls(client, client.resolve(agent, session))

    async def ask(self, text: str, **options: Any) -> Reply:
        """Send one message and return what came of it: the turn's reply, or what the program says to a command."""
        fold = ReplyFold()
        async for event in self.run(text, **options):
            fold.take(event)
        return fold.reply()

    def run(self, text: str, **options: Any) -> AsyncIterator[RunEvent]:
        """Send a message and yield what happens until it is answered: see `Client.run`, and `RunOptions` for the options."""
        return self.client.run(self.session, text, RunOptions(**options))

    async def send(self, text: str, **options: Any) -> IntakeResult:
        """Hand a message in and return at once; what happens then is told to those who `listen`."""
        return await self.client.send(self.session, text, RunOptions(**options))

    def listen(self, listener: Callable[[RunEvent], None]) -> Callable[[], None]:
        """Tell a listener everything that happens in this session; returns what takes it off again."""
        return self.client.listen(self.session, listener)

    def steer(self, text: str) -> bool:
        """Say something to the running turn; False when none runs, and then nothing was sent."""
        return self.client.steer(self.session, text)

    def stop(self, reason: str = "stopped by the user") -> bool:
        """End the running turn and its sub-agents, and forget what waits; False when there was nothing to stop."""
        return self.client.abort(self.session, reason)

    async def aclose(self) -> None:
        await self.client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def ask(text: str, home: str | Path | None = None, **options: Any) -> Reply:
    """Open a home, ask once, and close it: for programs without an event loop."""
    settings = {key: options.pop(key) for key in ("agent", "session", "env", "profile") if key in options}

    async def once() -> Reply:
        async with Agent.open(home, **settings) as agent:
            return await agent.ask(text, **{"children": "all", **options})

    return asyncio.run(once())
