"""`homarus.Agent`: open a home, talk to an agent, watch it work. The command line goes through this, too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from homarus.config.paths import resolve_paths
from homarus.core.clock import Clock, Ids, epoch_ms
from homarus.core.errors import HomarusError
from homarus.core.events import RunEnded, RunEvent, UserAccepted
from homarus.core.messages import Image, Inbound, Trust, Usage
from homarus.core.routes import SessionKey
from homarus.delivery.directives import Directives
from homarus.delivery.sanitize import shape
from homarus.gateway.app import Runtime
from homarus.queue.modes import Overrides


class Reply(Struct, frozen=True):
    """What a turn came to. `text` is what a person may see; `raw` is what the model wrote."""

    text: str
    status: str
    error: str = ""
    raw: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    directives: Directives = Directives()

    @property
    def ok(self) -> bool:
        """Say whether the turn came to its own end."""
        return self.status == "ok"


class Agent:
    """One agent of a home, in one of its sessions. Use it in one event loop, and close it."""

    def __init__(self, runtime: Runtime, session: SessionKey) -> None:
        self.runtime = runtime
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
        name = agent or runtime.config.default_agent.id
        return cls(runtime, runtime.store(name).key(session))

    async def ask(self, text: str, **options: Any) -> Reply:
        """Run one turn to its end and return its reply."""
        ended: RunEnded | None = None
        async for event in self.run(text, **options):
            if isinstance(event, RunEnded):
                ended = event
        assert ended is not None, "a run ends"
        shaped = shape(ended.text)
        return Reply(shaped.text, ended.status, ended.error, ended.text, ended.usage, ended.seconds, shaped.directives)

    async def run(
        self,
        text: str,
        *,
        images: tuple[Image, ...] = (),
        model: str = "",
        thinking: str = "",
        message_id: str = "",
        channel: str = "terminal",
        trust: Trust = Trust.OWNER,
        queue: Overrides | None = None,
    ) -> AsyncIterator[RunEvent]:
        """Send a message and yield what happens until the turn that answers it has ended.

        The message is durable before the first event. A message that meets a running turn steers it (or waits, as the
        queue's rules say), and the events are those of that turn.
        """
        clock, ids = self.runtime.clock, self.runtime.ids
        facts = {key: value for key, value in (("model", model), ("thinking", thinking)) if value}
        inbound = Inbound(
            id=message_id or ids.uuid(),
            channel=channel,
            text=text,
            trust=trust,
            timestamp=epoch_ms(clock.now()),
            images=images,
            facts=facts or None,
        )
        events: asyncio.Queue[RunEvent] = asyncio.Queue()
        unlisten = self.runtime.listen(self.session, events.put_nowait)
        try:
            item = self.runtime.submit(self.session, inbound, overrides=queue)
            if item is None:
                raise HomarusError("the message was refused", cure="it came twice, or the queue is full")
            mine = False
            while True:
                event = await events.get()
                # The end of an earlier turn is not the end of this one.
                mine = mine or (isinstance(event, UserAccepted) and event.message.idempotency_key == item.key)
                yield event
                if isinstance(event, RunEnded) and (mine or not self._waits(item.key)):
                    return
        finally:
            unlisten()

    def _waits(self, key: str) -> bool:
        return any(item.key == key for item in self.runtime.lane(self.session).waiting)

    def steer(self, text: str) -> bool:
        """Say something to the running turn; False when none runs, and then nothing was sent."""
        lane = self.runtime.lane(self.session)
        if not lane.busy:
            return False
        inbound = Inbound(id=self.runtime.ids.uuid(), channel="terminal", text=text, trust=Trust.OWNER)
        return self.runtime.submit(self.session, inbound) is not None

    def stop(self, reason: str = "stopped by the user") -> bool:
        """End the running turn and forget what waits; False when there was nothing to stop."""
        return self.runtime.lane(self.session).stop(reason)

    async def aclose(self) -> None:
        """Close the home."""
        await self.runtime.aclose()

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
            return await agent.ask(text, **options)

    return asyncio.run(once())
