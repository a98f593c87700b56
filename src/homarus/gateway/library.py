"""`homarus.Agent`: open a home, talk to an agent, watch it work. The command line goes through this, too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.budget import add_usage
from homarus.config.paths import resolve_paths
from homarus.core.clock import Clock, Ids, epoch_ms
from homarus.core.errors import HomarusError
from homarus.core.events import Notice, RunEnded, RunEvent, RunStarted
from homarus.core.messages import Image, Inbound, Trust, Usage
from homarus.core.routes import SessionKey
from homarus.delivery.markup import Directives
from homarus.delivery.sanitize import shape
from homarus.gateway.app import Runtime
from homarus.gateway.feed import EventFeed
from homarus.gateway.follow import Following
from homarus.gateway.intake.conversation import Conversation
from homarus.gateway.intake.handled import Handled
from homarus.queue.modes import Overrides

if TYPE_CHECKING:
    from homarus.gateway.intake.desk import Decider

# The kind of a `Notice` in which the program itself answers, as it does to a command.
REPLY = "reply"


class Reply(Struct, frozen=True):
    """What a message came to. `text` is what a person may see; `raw` is what the model wrote."""

    text: str
    status: str
    error: str = ""
    raw: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    directives: Directives = Directives()
    run_id: str = ""
    model: str = ""

    @property
    def ok(self) -> bool:
        """Say whether the turn came to its own end."""
        return self.status == "ok"


class Agent:
    """One agent of a home, in one of its sessions. Use it in one event loop, and close it."""

    def __init__(self, runtime: Runtime, session: SessionKey, *, decider: Decider | None = None) -> None:
        self.runtime = runtime
        self.session = session
        self.conversation = Conversation(runtime, decider or runtime.toolkit)

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
        return cls(runtime, runtime.store(runtime.config.agent_named(agent).id).key(session))

    async def ask(self, text: str, **options: Any) -> Reply:
        """Send one message and return what came of it: the turn's reply, or what the program says to a command."""
        ended, raw = RunEnded("", "ok"), ""
        said: list[str] = []
        model = ""
        async for event in self.run(text, **options):
            if isinstance(event, RunEnded):
                # Of several turns, as those that sub-agents' reports start, the last one that says something answers.
                raw = event.text if shape(event.text).text or not raw else raw
                usage, seconds = add_usage(ended.usage, event.usage), ended.seconds + event.seconds
                ended = replace(event, usage=usage, seconds=seconds)
            elif isinstance(event, RunStarted):
                model = event.model
            elif isinstance(event, Notice) and event.kind == REPLY:
                said.append(event.text)
        shaped = shape(raw)
        visible = "\n\n".join([*said, *([shaped.text] if shaped.text else [])])
        return Reply(
            visible,
            ended.status,
            ended.error,
            raw,
            ended.usage,
            ended.seconds,
            shaped.directives,
            ended.run_id,
            model,
        )

    async def run(
        self,
        text: str,
        *,
        images: tuple[Image, ...] = (),
        model: str = "",
        thinking: str = "",
        seconds: float | None = None,
        message_id: str = "",
        channel: str = "terminal",
        trust: Trust = Trust.OWNER,
        queue: Overrides | None = None,
        children: Literal["waited", "all"] = "waited",
    ) -> AsyncIterator[RunEvent]:
        """Send a message and yield what happens until the turn that answers it has ended.

        The message is durable before the first event of its turn. One that meets a running turn steers it (or waits, as
        the queue's rules say), and the events are those of that turn. What the program says itself, as to a command,
        comes as a `Notice` of the kind `reply`. The last event is always a `RunEnded`.

        A turn that waits for its sub-agents is not the answer: the events go on with the turns that their reports start.
        With `children="all"` they also do for sub-agents that no turn waits for; a program that ends after this wants that.
        """
        facts = {"model": model, "thinking": thinking, "seconds": seconds}
        inbound = self._inbound(text, message_id, channel, trust)
        given = {key: value for key, value in facts.items() if value not in {"", None}}
        inbound = replace(inbound, images=images, facts=given or None)
        events = EventFeed()
        unlisten = self.runtime.listen(self.session, events.put)
        try:
            handled = await self.conversation.handle(self.session, inbound, overrides=queue)
            for reply in handled.replies:
                yield Notice(reply, REPLY)
            if handled.refused:
                raise HomarusError(handled.refused)
            if handled.item is None:
                yield RunEnded("", "ok")
                return
            lane, owed = self.runtime.lane(self.session), partial(self.runtime.owed, self.session)
            everyone = children == "all"
            async for event in Following(lane, handled.item.key, events, owed, everyone=everyone):
                yield event
        finally:
            unlisten()

    async def send(self, text: str, *, message_id: str = "", channel: str = "terminal") -> Handled:
        """Hand a message in and return at once; what happens then is told to those who `listen`."""
        return await self.conversation.handle(self.session, self._inbound(text, message_id, channel, Trust.OWNER))

    def listen(self, listener: Callable[[RunEvent], None]) -> Callable[[], None]:
        """Tell a listener everything that happens in this session; returns what takes it off again."""
        return self.runtime.listen(self.session, listener)

    def _inbound(self, text: str, message_id: str, channel: str, trust: Trust) -> Inbound:
        moment = epoch_ms(self.runtime.clock.now())
        return Inbound(
            id=message_id or self.runtime.ids.uuid(), channel=channel, text=text, trust=trust, timestamp=moment
        )

    def steer(self, text: str) -> bool:
        """Say something to the running turn; False when none runs, and then nothing was sent."""
        lane = self.runtime.lane(self.session)
        if not lane.busy:
            return False
        return self.runtime.submit(self.session, self._inbound(text, "", "terminal", Trust.OWNER)) is not None

    def stop(self, reason: str = "stopped by the user") -> bool:
        """End the running turn and its sub-agents, and forget what waits; False when there was nothing to stop."""
        lane = self.runtime.open_lane(self.session)
        stopped = lane.stop(reason) if lane is not None else False
        return bool(self.runtime.children.stop(self.session, reason)) or stopped

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
            return await agent.ask(text, **{"children": "all", **options})

    return asyncio.run(once())
