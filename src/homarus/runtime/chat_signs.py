"""Small signs in a chat that somebody is there: a reaction to what was read, "is typing". Never worth a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from homarus.channels.channel import Channel
from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.messages import Outbound
from homarus.core.routes import Route
from homarus.core.text import single_line
from homarus.delivery.place import Place
from homarus.delivery.settings import DeliverySettings
from homarus.runtime.chat_settings import MessagesSettings

_log = logging.getLogger(__name__)
LONGEST_SECONDS = 600.0  # a turn that writes for longer is not believed to be writing
SIGN_SECONDS = 10.0
MAX_REACTIONS = 1000


class Signs:
    """The signs of all chats of one process."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        channel_of: Callable[[str, str], Channel | None],
        place_of: Callable[[str, str], Place],
    ) -> None:
        self._config, self._clock = config, clock
        self._channel_of, self._place_of = channel_of, place_of
        self._typing: dict[Route, asyncio.Task[None]] = {}
        self._modes: dict[Route, str] = {}
        self._reactions: dict[tuple[Route, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in (*self._typing.values(), *self._tasks):
            task.cancel()

    # Reactions.

    def react(self, route: Route, message: str, emoji: str) -> None:
        if self._place_of(route.channel, route.account).react:
            while len(self._reactions) >= MAX_REACTIONS:
                del self._reactions[next(iter(self._reactions))]
            self._reactions[route, message] = emoji
            self._do(self._reacted(route, message, emoji, on=True))

    async def _reacted(self, route: Route, message: str, emoji: str, *, on: bool) -> None:
        if (channel := self._channel_of(route.channel, route.account)) is not None:
            await channel.react(_to(route), message, emoji, on=on)

    # Typing.

    def heard(self, route: Route, *, direct: bool, mentioned: bool) -> None:
        """A message was taken in: whoever wrote it sees at once that it is read, unless the settings say otherwise."""
        settings = self._config.agent(route.agent_id).block("", DeliverySettings)
        mode = settings.typing_mode or ("instant" if direct or mentioned else "message")
        self._modes[route] = mode
        if mode == "instant":
            self._begin(route)

    def stirs(self, route: Route, kind: str) -> None:
        """A model begins to think or to write there."""
        mode = self._modes.get(route, "")
        if mode == kind or (mode == "thinking" and kind == "message"):
            self._begin(route)

    def over(self, route: Route, message: str) -> None:
        """A turn has ended there."""
        self._modes.pop(route, None)
        if (task := self._typing.pop(route, None)) is not None:
            task.cancel()
        emoji = self._reactions.pop((route, message), "")
        if emoji and self._config.block("messages", MessagesSettings).remove_ack_after_reply:
            self._do(self._reacted(route, message, emoji, on=False))

    def _begin(self, route: Route) -> None:
        if route not in self._typing and self._place_of(route.channel, route.account).typing:
            self._typing[route] = asyncio.get_running_loop().create_task(self._types(route))

    async def _types(self, route: Route) -> None:
        every = self._config.agent(route.agent_id).block("", DeliverySettings).typing_interval_seconds
        until = self._clock.monotonic() + LONGEST_SECONDS
        try:
            while self._clock.monotonic() < until:
                if (channel := self._channel_of(route.channel, route.account)) is not None:
                    await _quietly(channel.typing(_to(route)), route)
                await self._clock.sleep(every)
        finally:
            if self._typing.get(route) is asyncio.current_task():
                del self._typing[route]

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work, None))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _to(route: Route) -> Outbound:
    return Outbound("", route.channel, route.to, "", route.account, route.thread)


async def _quietly(work: Awaitable[None], _route: Route | None) -> None:
    try:
        async with asyncio.timeout(SIGN_SECONDS):
            await work
    except Exception as problem:  # noqa: BLE001 - a sign that cannot be shown is no reason for anything
        _log.debug("a sign was not shown: %s", single_line(str(problem), 200))
