"""Files that come with admitted messages: fetched from the account that brought them, kept, shown, written down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.channels.manager import ChannelManager
from homarus.channels.media import EDGE, MediaStore, received
from homarus.channels.transcribe import Transcriber
from homarus.commands.words import ATTACHED
from homarus.core.errors import DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Inbound, Media
from homarus.queue.collect import message_key
from homarus.sessions.routing import route_for

MAX_WORDS, UP_SECONDS = 100, 60.0


class Incoming:
    """What a message needs before its session hears it. A file that cannot be had is said; an account that is not up is waited for."""

    def __init__(self, home: Home, manager: ChannelManager) -> None:
        self._home = home
        self._manager = manager
        self._store = MediaStore(home.config.paths.state_dir / "media" / "inbound", home.clock)
        self._speech = Transcriber(home.config, home.models, home.env)
        self._words: dict[str, str] = {}  # what was said in files that were heard before their message was admitted
        self._said: dict[str, str] = {}  # what was said in the voices of the newest messages, for hooks

    async def sweep(self) -> None:
        await asyncio.to_thread(self._store.sweep)

    def can_hear(self, inbound: Inbound) -> bool:
        """Say whether a message is nothing but a voice that can be written down."""
        spoken = not inbound.text.strip() and any(media.kind in {"voice", "audio"} for media in inbound.media)
        return spoken and bool(self._speech.ways)

    async def spoken(self, inbound: Inbound) -> Inbound:
        """Return a voice message with its words, for the decision whether the agent is spoken to; as it was where they cannot be
        had. Nothing that was spoken is a command."""
        account = self._manager.account(inbound.channel, inbound.account)
        media = next(media for media in inbound.media if media.kind in {"voice", "audio"})
        waited = 0.0
        while (channel := self._manager.connected(inbound.channel, inbound.account)) is None and waited < UP_SECONDS:
            await self._home.clock.sleep(0.5)  # after a restart its account comes up in a moment
            waited += 0.5
        if channel is None or account is None:
            return inbound
        try:
            agent = self._home.config.agent(route_for(inbound, self._home.config).agent_id)
            item = await self._store.keep(media, channel.fetch(media), account.place.media_bytes)
            heard = await self._speech.words(item, agent) if item.kind in {"voice", "audio"} else ""
        except (HomarusError, OSError, TimeoutError):
            return inbound
        if not (words := heard.strip().lstrip("/!")):
            return inbound
        self._words[media.ref] = words
        while len(self._words) > MAX_WORDS:
            del self._words[next(iter(self._words))]
        return replace(inbound, text=words)

    def moments(self, inbound: Inbound) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the hooks' moments of a message that was taken in, in their order, with what each is about."""
        about = {"content": inbound.text, "from": inbound.sender, "messageId": inbound.id}
        yield "message:received", about
        if words := self._said.get(message_key(inbound), ""):
            about = {**about, "transcript": words}
            yield "message:transcribed", about
        body = "\n\n".join(part for part in (inbound.text, str((inbound.facts or {}).get(ATTACHED, ""))) if part)
        paths = [media.path for media in inbound.media if media.path]
        yield "message:preprocessed", {**about, "bodyForAgent": body, "mediaPaths": paths}

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
        known = {media.ref: words for media in inbound.media if (words := self._words.pop(media.ref, ""))}
        if inbound.text in known.values():
            inbound = replace(inbound, text="")  # it is said below that these words were spoken

        async def hear(media: Media) -> str:
            words = known.get(media.ref) or await self._speech.words(media, agent)
            self._said[message_key(inbound)] = f"{self._said.get(message_key(inbound), '')}\n{words}".strip()
            while len(self._said) > MAX_WORDS:
                del self._said[next(iter(self._said))]
            return words

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
