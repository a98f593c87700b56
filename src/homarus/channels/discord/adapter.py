"""One bot: hikari keeps the gateway connection and speaks REST; what it hears is handed over in the order it came.

Discord takes a key (`nonce`) with a message and shows the same key once for a few minutes. That covers an answer that got
lost, and not a program that was down for an hour, so a send that a crash cut off stays in doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from homarus.channels.channel import Change, Host, Identity
from homarus.channels.discord import inbound as read
from homarus.channels.discord.wire import FATAL, explained, paced, poll_of
from homarus.channels.support import Note, Pauses, download, not_kept, noted, proxy_for
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Media, Outbound
from homarus.core.text import single_line
from homarus.delivery.place import Piece

NONCE = 25  # the longest that Discord takes
CUSTOM_ID = 100
MENU = 100
# What was said while we were away is read in so many chats, so much of each, and no older than this.
GAP_CHATS, GAP_MESSAGES, GAP_SECONDS = 200, 100, 24 * 3600
NOTE_SECONDS = 5.0
WAITING = 1000  # events that may wait for a disk; Discord is not read any faster
_COMMAND = re.compile(r"[-_a-z0-9]{1,32}")
_CDN = ("discordapp.com", "discordapp.net", "discord.com")


def open_channel(host: Host) -> Discord:
    return Discord(host)


class Discord:
    def __init__(self, host: Host, pauses: Pauses | None = None, rest_url: str | None = None) -> None:
        self._host = host
        self._settings = host.settings
        self._pauses = pauses or Pauses()
        self._rest_url = rest_url
        self._bot: Any = None
        self._me = 0
        self._identity = Identity("")
        self._waiting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(WAITING)
        self._where: dict[int, read.Where] = {}
        # The direct chat with each person who wrote: their id is what the program knows them by.
        self._notes = Note(host.folder, "chats.json")
        held = self._notes.read()
        self._chats: dict[str, str] = {str(user): str(chat) for user, chat in dict(held.get("direct") or {}).items()}
        self._menu = str(held.get("menu") or "")
        # The newest message of each chat that was taken in, and its guild.
        rows: Any = held.get("heard")
        self._heard: dict[str, tuple[str, str]] = {
            str(chat): (str(row[0]), str(row[1]))
            for chat, row in (rows.items() if isinstance(rows, dict) else ())
            if isinstance(row, list) and len(row) == 2 and str(row[0]).isdigit()
        }
        self._noted = -NOTE_SECONDS

    # ---- coming in

    async def run(self) -> None:
        worker = asyncio.ensure_future(self._work())
        try:
            while True:
                try:
                    await self._connection()
                except DeliveryError as problem:
                    if problem.kind is DeliveryFailure.REFUSED:
                        raise ChannelError(problem.message, fatal=True, cure=problem.cure) from None
                    self._host.troubled(problem.message, cure=problem.cure)
                    await self._pauses.wait(problem.retry_after or 0.0)
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    async def _connection(self) -> None:
        """Be connected until Discord closes for good. hikari resumes a lost connection by itself."""
        self._bot = bot = self._made()
        self._subscribe(bot)
        try:
            with explained():
                await bot.start(check_for_updates=False)
                await bot.join()
        finally:
            with contextlib.suppress(Exception):  # whatever is left of it, a new one is made
                await bot.close()
            self._bot = None

    def _made(self) -> Any:
        import hikari
        from hikari.impl import CacheSettings, ProxySettings

        intents = (
            hikari.Intents.GUILDS
            | hikari.Intents.GUILD_MESSAGES
            | hikari.Intents.GUILD_MESSAGE_REACTIONS
            | hikari.Intents.DM_MESSAGES
            | hikari.Intents.DM_MESSAGE_REACTIONS
            | hikari.Intents.MESSAGE_CONTENT
        )
        parts = hikari.api.CacheComponents
        return hikari.GatewayBot(
            self._token(),
            banner=None,
            logs=None,
            suppress_optimization_warning=True,
            intents=intents,
            auto_chunk_members=False,
            cache_settings=CacheSettings(
                components=parts.GUILDS | parts.GUILD_CHANNELS | parts.GUILD_THREADS | parts.ME
            ),
            # When something is sent again is decided outside.
            max_retries=0,
            max_rate_limit=0.0,
            proxy_settings=ProxySettings(url=proxy_for("https://discord.com/", self._settings)),
            rest_url=self._rest_url,
        )

    def _token(self) -> str:
        token = str(self._settings.get("token") or "").strip().removeprefix("Bot ")
        if not token:
            cure = "set channels.discord.token, or DISCORD_BOT_TOKEN for the default account"
            raise ChannelError(f"discord: account '{self._host.account}' has no token", fatal=True, cure=cure)
        return token

    def _subscribe(self, bot: Any) -> None:
        import hikari

        def on(kind: Any, handle: Callable[[Any], Awaitable[None]]) -> None:
            async def heard(event: Any) -> None:
                # Up to here events come in their order; from here on the queue keeps it.
                await self._waiting.put(lambda: handle(event))

            bot.event_manager.subscribe(kind, heard)

        on(hikari.ShardReadyEvent, self._ready)
        on(hikari.ShardResumedEvent, self._resumed)
        on(hikari.ShardDisconnectedEvent, self._lost)
        on(hikari.MessageCreateEvent, self._said)
        on(hikari.MessageUpdateEvent, self._edited)
        on(hikari.MessageDeleteEvent, self._deleted)
        on(hikari.ReactionAddEvent, lambda event: self._reacted(event, on=True))
        on(hikari.ReactionDeleteEvent, lambda event: self._reacted(event, on=False))
        on(hikari.InteractionCreateEvent, self._called)
        on(hikari.GuildJoinEvent, lambda event: self._guild("joined", event))
        on(hikari.GuildLeaveEvent, lambda event: self._guild("left", event))

    async def _work(self) -> None:
        """Hand over what was heard, one by one; what cannot be kept is tried again, for Discord does not repeat it."""
        while True:
            step = await self._waiting.get()
            while True:
                try:
                    await step()
                    break
                except DeliveryError as problem:  # an answer to Discord that it did not take
                    noted(self._host, self._identity, problem.message, problem.cure)
                    break
                except (HomarusError, OSError) as problem:
                    not_kept(self._host, self._identity, problem)
                    await self._pauses.wait()
                except Exception as problem:  # an event that nobody foresaw must not hold up the others
                    logging.getLogger(__name__).warning("an event of Discord was passed over", exc_info=True)
                    noted(self._host, self._identity, f"discord: an event was passed over ({type(problem).__name__})")
                    break

    async def _ready(self, event: Any) -> None:
        self._me = int(event.my_user.id)
        self._pauses.reset()
        self._identity = _identity(event.my_user)
        try:
            await self._list_commands(event.application_id)
        except DeliveryError as problem:  # a menu that cannot be set keeps nobody from talking
            self._host.troubled(f"the slash commands were not set: {problem.message}", cure=problem.cure)
        self._host.connected(self._identity)
        await self._catch_up()

    async def _catch_up(self) -> None:
        """Fetch what was said while nobody listened: a session that cannot be resumed tells nothing of it. What was taken in
        already is known as a repeat."""
        for chat, (last, guild) in list(self._heard.items()):
            try:
                after = max(int(last), _snowflake(time.time() - GAP_SECONDS))
                found = await self._rest().fetch_messages(int(chat), after=after).limit(GAP_MESSAGES)
            except Exception as problem:  # noqa: BLE001 - a chat that is gone or closed to us keeps no other from being read
                logging.getLogger(__name__).info("discord: the gap of a chat is not read: %s", problem)
                continue
            for held in sorted(found, key=lambda message: int(message.id)):
                await self._receive(held, int(guild) if guild else None)

    async def _resumed(self, event: Any) -> None:
        self._host.connected(self._identity)

    async def _lost(self, event: Any) -> None:
        self._host.troubled("discord: the connection was lost, a new one is made")

    async def _said(self, event: Any) -> None:
        await self._receive(event.message, event.message.guild_id)

    async def _receive(self, held: Any, guild: int | None) -> None:
        where = await self._place(held.channel_id, guild)
        if guild is None and not held.author.is_bot:
            self._learn(str(held.author.id), str(held.channel_id))
        said = read.message(held, self._me, self._host.account, where, guild)
        if said is not None:
            await self._host.receive(said)
        chat, known = str(held.channel_id), self._heard.pop(str(held.channel_id), ("0", ""))
        self._heard[chat] = (str(max(int(known[0]), int(held.id))), str(guild or ""))
        while len(self._heard) > GAP_CHATS:
            del self._heard[next(iter(self._heard))]
        # Of a chat that is known, a note that is a little old costs a few repeats.
        if (now := time.monotonic()) - self._noted > NOTE_SECONDS or known[0] == "0":
            self._noted = now
            self._keep()

    async def _edited(self, event: Any) -> None:
        held = event.message
        # Discord also "edits" a message when it adds a preview to it; only the author's edits have a time.
        if held.author and held.edited_timestamp and held.content:
            about = self._about(held.author.id, held.channel_id, held.guild_id)
            await self._host.changed(Change("edited", message_id=str(held.id), text=held.content, **about))

    async def _deleted(self, event: Any) -> None:
        about = self._about(None, event.channel_id, getattr(event, "guild_id", None))
        await self._host.changed(Change("deleted", message_id=str(event.message_id), **about))

    async def _reacted(self, event: Any, *, on: bool) -> None:
        if int(event.user_id) == self._me:
            return
        about = self._about(event.user_id, event.channel_id, getattr(event, "guild_id", None))
        emoji = str(event.emoji_name or event.emoji_id or "")
        kind: Any = "reacted" if on else "unreacted"
        await self._host.changed(Change(kind, message_id=str(event.message_id), text=emoji, **about))

    async def _guild(self, kind: Any, event: Any) -> None:
        await self._host.changed(
            Change(kind, "discord", str(event.guild_id), account=self._host.account, chat_type="channel")
        )

    async def _called(self, event: Any) -> None:
        """Take a slash command or a tap in, then tell Discord, which otherwise shows that the bot did not answer."""
        import hikari

        interaction = event.interaction
        where = await self._place(interaction.channel_id, interaction.guild_id)
        if isinstance(interaction, hikari.ComponentInteraction):
            said = read.called(interaction, self._host.account, where, interaction.custom_id)
            answer: Any = (hikari.ResponseType.DEFERRED_MESSAGE_UPDATE,)
            options: dict[str, Any] = {}
        elif isinstance(interaction, hikari.CommandInteraction):
            words = [str(option.value) for option in interaction.options or ()]
            command = " ".join([f"/{interaction.command_name}", *words])
            said = read.called(interaction, self._host.account, where, command)
            answer = (hikari.ResponseType.MESSAGE_CREATE, "✓")
            options = {"flags": hikari.MessageFlag.EPHEMERAL}
        else:
            return
        if interaction.guild_id is None:
            self._learn(said.sender, str(interaction.channel_id))
        await self._host.receive(said)
        with explained():
            await interaction.create_initial_response(*answer, **options)

    async def _list_commands(self, application: Any) -> None:
        """Register the slash commands, if they are others than the last time: Discord counts these calls by the day."""
        import hikari

        native = dict(self._settings.get("commands") or {}).get("native", "auto")
        wanted = {} if native is False else dict(self._host.commands)
        named = {name.lstrip("/").lower(): single_line(text, 100) or name for name, text in wanted.items()}
        menu = [(name, text) for name, text in named.items() if _COMMAND.fullmatch(name)][:MENU]
        mark = hashlib.sha256(repr((int(application), menu)).encode()).hexdigest()
        if mark == self._menu:
            return
        rest = self._bot.rest
        rows = []
        for name, text in menu:
            row = rest.slash_command_builder(name, text)
            row.add_option(hikari.CommandOption(type=hikari.OptionType.STRING, name="text", description="what follows"))
            rows.append(row)
        with explained():
            await rest.set_application_commands(application, rows)
        self._menu = mark
        self._keep()

    def _about(self, user: Any, chat: Any, guild: Any) -> dict[str, str]:
        direct = guild is None
        peer = (
            next((user_id for user_id, held in self._chats.items() if held == str(chat)), str(chat)) if direct else chat
        )
        return {
            "channel": "discord",
            "peer": str(peer),
            "sender": str(user) if user is not None else "",
            "account": self._host.account,
            "chat_type": "direct" if direct else "channel",
        }

    async def _place(self, chat: Any, guild: Any) -> read.Where:
        """Return what a channel is. One that Discord does not tell has no parent, so nothing is inherited from it."""
        import hikari

        if guild is None:
            return read.Where("direct")
        if (known := self._where.get(int(chat))) is not None:
            return known
        held = self._bot.cache.get_guild_channel(chat) or self._bot.cache.get_thread(chat)
        if held is None:
            try:
                held = await self._bot.rest.fetch_channel(chat)
            except hikari.HikariError:
                return read.Where()
        if isinstance(held, hikari.GuildThreadChannel):
            where = read.Where(parent=str(held.parent_id))
        elif held.type in {hikari.ChannelType.GUILD_FORUM, hikari.ChannelType.GUILD_MEDIA}:
            where = read.Where("forum")
        else:
            where = read.Where("closed" if held.type is hikari.ChannelType.GROUP_DM else "channel")
        if len(self._where) > WAITING:
            self._where.clear()
        self._where[int(chat)] = where
        return where

    def _learn(self, user: str, chat: str) -> None:
        if self._chats.get(user) != chat:
            self._chats[user] = chat
            self._keep()

    def _keep(self) -> None:
        self._notes.write({"direct": self._chats, "menu": self._menu, "heard": self._heard})

    # ---- going out

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        import hikari

        rest = self._rest()
        with explained(once=True):
            chat = await self._chat(message.to, rest)
            options: dict[str, Any] = {"user_mentions": True, "role_mentions": False, "mentions_everyone": False}
            flags = hikari.MessageFlag.NONE
            if self._settings.get("suppressEmbeds", True):
                flags |= hikari.MessageFlag.SUPPRESS_EMBEDS
            if message.silent:
                flags |= hikari.MessageFlag.SUPPRESS_NOTIFICATIONS
            if flags:
                options["flags"] = flags
            if piece.poll is not None:
                options["poll"] = poll_of(piece.poll)
            if piece.file:
                options["attachment"] = hikari.File(piece.file)
            if rows := _buttons(piece, rest):
                options["components"] = rows
            text = piece.text if piece.text and piece.poll is None else hikari.UNDEFINED
            if (await self._place(chat, 0)).kind == "forum" and chat not in self._chats.values():
                post = await paced(lambda: rest.create_forum_post(int(chat), _title(piece), text, **options))
                return f"{post.id}/{post.id}"
            if message.reply_to.isdigit():
                options |= {"reply": int(message.reply_to), "reply_must_exist": False}
            nonce = hashlib.sha256(f"{self._host.account}:{key}".encode()).hexdigest()[:NONCE]
            sent = await paced(lambda: rest.create_message(int(chat), text, nonce=nonce, **options))
            return str(sent.id)

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        import hikari

        rest = self._rest()
        with explained():
            chat, number = await self._sent(message, sent, rest)
            options: dict[str, Any] = {"components": _buttons(piece, rest), "mentions_everyone": False}
            if self._settings.get("suppressEmbeds", True):
                options["flags"] = hikari.MessageFlag.SUPPRESS_EMBEDS
            options |= {"user_mentions": True, "role_mentions": False}
            await paced(lambda: rest.edit_message(chat, number, piece.text, **options))

    async def delete(self, message: Outbound, sent: str) -> None:
        rest = self._rest()
        with explained():
            where = await self._sent(message, sent, rest)
            await paced(lambda: rest.delete_message(*where))

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        rest = self._rest()
        with explained():
            where = await self._sent(message, to_message, rest)
            await paced(lambda: rest.add_reaction(*where, emoji) if on else rest.delete_my_reaction(*where, emoji))

    async def typing(self, message: Outbound) -> None:
        with contextlib.suppress(DeliveryError), explained():
            rest = self._rest()
            await rest.trigger_typing(int(await self._chat(message.to, rest)))

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        place = urlsplit(media.ref)
        own = urlsplit(self._rest_url or "").netloc
        inside = any(place.hostname == name or (place.hostname or "").endswith(f".{name}") for name in _CDN)
        if not (place.scheme == "https" and inside) and not (own and place.netloc == own):
            raise DeliveryError(DeliveryFailure.REFUSED, "discord: the file lies outside of Discord")
        async for chunk in download(media.ref, "discord", cure="links to files expire after a day"):
            yield chunk

    async def probe(self) -> Identity:
        import hikari

        token = self._token()
        app = hikari.RESTApp(url=self._rest_url, max_retries=0, max_rate_limit=0.0)
        await app.start()
        try:
            with explained():
                async with app.acquire(token, hikari.TokenType.BOT) as rest:
                    me = await rest.fetch_my_user()
                    flags = (await rest.fetch_application()).flags
        finally:
            await app.close()
        wanted = hikari.ApplicationFlags.MESSAGE_CONTENT_INTENT | hikari.ApplicationFlags.MESSAGE_CONTENT_INTENT_LIMITED
        return _identity(me, "" if flags & wanted else f"Message Content Intent is off: {FATAL[4014]}")

    async def directory(self, query: str) -> list[Identity]:
        """Channels of the bot's servers, and their members by the beginning of a name."""
        rest, cache = self._rest(), self._bot.cache
        wanted = query.strip().lstrip("#@").lower()
        found = [
            Identity(f"channel:{channel.id}", f"#{channel.name}")
            for channel in cache.get_guild_channels_view().values()
            if channel.type.name in {"GUILD_TEXT", "GUILD_NEWS", "GUILD_FORUM"} and wanted in channel.name.lower()
        ]
        if wanted:
            with explained():
                for guild in list(cache.get_guilds_view())[:10]:
                    members = await rest.search_members(guild, wanted)
                    found += [Identity(f"user:{m.user.id}", m.display_name, m.user.username) for m in members]
        return found

    # ---- the wire

    def _rest(self) -> Any:
        if self._bot is None or not self._bot.is_alive:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "discord: not connected")
        return self._bot.rest

    async def _chat(self, to: str, rest: Any) -> str:
        """Return the channel behind a target: `channel:<id>`, `user:<id>`, a bare id of a channel or of somebody who wrote."""
        kind, _, bare = to.rpartition(":")
        if not bare.isdigit():
            cure = "name channel:<id> or user:<id>"
            raise DeliveryError(DeliveryFailure.REFUSED, f"discord: '{single_line(to, 80)}' is nobody", cure=cure)
        if bare in self._chats:
            return self._chats[bare]
        if kind != "user":
            return bare
        chat = await rest.create_dm_channel(int(bare))
        self._learn(bare, str(chat.id))
        return str(chat.id)

    async def _sent(self, message: Outbound, sent: str, rest: Any) -> tuple[int, int]:
        chat, _, number = sent.rpartition("/")
        if not number.isdigit():
            raise DeliveryError(DeliveryFailure.REFUSED, "discord: that is the id of no message")
        return int(chat or await self._chat(message.to, rest)), int(number)


def _snowflake(seconds: float) -> int:
    """Return the id that a message of this moment would have."""
    return max(0, int(seconds * 1000) - 1_420_070_400_000) << 22


def _identity(me: Any, note: str = "") -> Identity:
    return Identity(str(me.id), me.display_name or me.username, me.username, note)


def _buttons(piece: Piece, rest: Any) -> list[Any]:
    """Return rows of buttons. A value that Discord has no room for cannot be tapped; the words tell what to type."""
    import hikari

    rows = []
    for row in piece.buttons:
        built = rest.build_message_action_row()
        fit = [one for one in row if len(one.value) <= CUSTOM_ID][:5]
        for one in fit:
            built.add_interactive_button(hikari.ButtonStyle.SECONDARY, one.value, label=one.label[:80])
        rows += [built] if fit else []
    return rows[:5]


def _title(piece: Piece) -> str:
    lines = [line.strip(" #*_`") for line in piece.plain.splitlines()]
    return single_line(next((line for line in lines if line), "") or "Post", 100)
