"""Files that come with admitted messages: fetched from the account that brought them, kept, shown, written down."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.channels.manager import ChannelManager
from homarus.channels.media import EDGE, MediaStore, received
from homarus.channels.transcribe import Transcriber
from homarus.commands.words import ATTACHED
from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.core.messages import Inbound, Media
from homarus.sessions.routing import route_for


class Incoming:
    """What a message needs before its session hears it. A file that cannot be had is said; an account that is not up is waited for."""

    def __init__(self, home: Home, manager: ChannelManager) -> None:
        self._home = home
        self._manager = manager
        self._store = MediaStore(home.config.paths.state_dir / "media" / "inbound", home.clock)
        self._speech = Transcriber(home.config, home.models, home.env)

    async def sweep(self) -> None:
        await asyncio.to_thread(self._store.sweep)

    async def with_files(self, inbound: Inbound) -> Inbound:
        """Return a message with its files. Raises DeliveryError while its account cannot be asked for them."""
        account = self._manager.account(inbound.channel, inbound.account)
        if account is None or not account.settings.enabled:
            return replace(_beside(inbound, "[Its files are lost: the account is gone.]"), media=())
        channel = self._manager.connected(inbound.channel, inbound.account)
        if channel is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"{inbound.channel}/{inbound.account} is not connected")
        agent = self._home.config.agent(route_for(inbound, self._home.config).agent_id)
        edge = agent.get("imageMaxDimensionPx")

        async def hear(media: Media) -> str:
            return await self._speech.words(media, agent)

        got = await received(
            inbound,
            channel.fetch,
            self._store,
            account.place.media_bytes,
            edge=edge if isinstance(edge, int) and edge > 0 else EDGE,
            hear=hear,
        )
        return _beside(got.inbound, got.about)


def _beside(inbound: Inbound, about: str) -> Inbound:
    """Return a message with something said of it that is no word of its sender's."""
    facts = dict(inbound.facts or {})
    facts[ATTACHED] = "\n\n".join(part for part in (str(facts.get(ATTACHED, "")), about) if part)
    return replace(inbound, facts={key: value for key, value in facts.items() if value} or None)
