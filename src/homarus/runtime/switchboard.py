"""Chats at work in a home: what comes in goes to its session, what a turn says goes back to where it was asked.

One process serves the channels of a home, the gateway. Here the accounts, the outbox and the lanes are put together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.open_session import OpenSession
from homarus.channels.channel import Change, Manifest
from homarus.channels.discovery import load_entry, manifests
from homarus.channels.gatekeeper import Gatekeeper
from homarus.channels.guards import Seen, digest
from homarus.channels.manager import ChannelManager, Opener, Status
from homarus.channels.pairing import PairingStore
from homarus.channels.settings import default_account
from homarus.commands.groups.admin import DECISIONS
from homarus.config.view import Config
from homarus.core.errors import ConfigError, DeliveryError, DeliveryFailure, HomarusError, StorageError
from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.messages import Inbound, Outbound, Text, Trust, User
from homarus.core.routes import AT_HOME, Route, SessionKey, main_session, normalize_account_id
from homarus.core.text import human_bytes, single_line
from homarus.delivery.outbox import Outbox, Settled
from homarus.delivery.preview import Preview
from homarus.delivery.retry import RetrySettings
from homarus.delivery.sender import Sender, target_of
from homarus.delivery.settings import Mode, StreamingSettings
from homarus.queue.collect import Batch, Queued
from homarus.runtime.chat_settings import ack_reaction, chat_settings, manner_for
from homarus.runtime.chat_signs import Signs
from homarus.runtime.incoming import Incoming
from homarus.runtime.intake import Intake, answer
from homarus.runtime.outgoing import Outgoing
from homarus.runtime.owed import TOLD
from homarus.runtime.speech import Speech

if TYPE_CHECKING:
    from homarus.runtime.local import LocalClient

_log = logging.getLogger(__name__)
SHOWN = (
    "[The program was started anew in the middle of your answer. The chat has seen this much of it already; go on after it "
    "and do not repeat it.]\n"
)
MAX_ASKED = 200
SENDING, REPLY, FINAL = "message:sending", "message:reply", "answer:final"
SEND_SECONDS = 30.0  # how long somebody waits for a message to be sent that they ordered
ASK = "🔐 **May I?**\n{title}\n\n{why}\n\nAnswer with the buttons, or `/approve {id} once`, `always` or `deny`."


class Target(Struct, frozen=True):
    """Where a message of ours goes: a channel that is served, one of its accounts, and somebody there."""

    channel: str
    account: str
    to: str
    thread: str = ""


class Counts(Struct):
    """What went through since the start, by channel, for metrics."""

    received: dict[str, int] = {}
    settled: dict[tuple[str, str], int] = {}


class Switchboard:
    """The channels of one home. `join` first, `start` when everything else is up, `aclose` at the end."""

    def __init__(
        self, client: LocalClient, *, known: dict[str, Manifest] | None = None, opener: Opener | None = None
    ) -> None:
        home, brought = client.home, client.runtime.platforms
        self._client, self._home = client, home
        self.known = (manifests() if known is None else known) | {name: made[0] for name, made in brought.items()}
        own, clock = home.config.paths.own_dir, home.clock
        self.pairing = PairingStore(home.config.paths.state_dir / "credentials", clock)
        self.gatekeeper = Gatekeeper(
            home.config, home.env, self.pairing, own / "channels", clock, known=self.known, activation=self._activation
        )
        self.intake = Intake(client, self, own / "channels" / "intake.jsonl")
        open_ours = opener or load_entry
        self.manager = ChannelManager(
            home.config,
            home.env,
            own / "channels",
            self._take,
            self._changed,
            clock,
            known=self.known,
            opener=lambda manifest: brought[manifest.id][1] if manifest.id in brought else open_ours(manifest),
        )
        self.outgoing = Outgoing(own / "outgoing", home)
        self.incoming = Incoming(home, self.manager)
        self.outbox = Outbox(own / "outbox.jsonl", clock, warn=_log.warning)
        self.sender = Sender(
            self.outbox,
            self.manager.place,
            self.manager.connected,
            clock,
            retry_of=self._retry,
            file_of=self._file,
            told=self._settled,
            warn=_log.warning,
        )
        # The digests of what was shown, by chat and message: of others' messages nothing is edited or taken away.
        self._wrote = Seen(own / "channels" / "sent.jsonl")
        self.manager.came_up = self.sender.wake
        self.signs = Signs(home.config, clock, self.manager.connected, self.manager.place)
        self.counts = Counts({}, {})
        self.send_seconds = SEND_SECONDS
        self._speeches: dict[SessionKey, tuple[Speech, Batch]] = {}
        self._approvers: dict[str, set[tuple[str, str, str]]] = {}
        self._leave: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._posting: set[asyncio.Task[None]] = set()
        self._unposted: list[Outbound] = []
        self._in_order: dict[tuple[str, str, str, str], asyncio.Lock] = {}

    # Its life.

    def join(self) -> None:
        """Stand in for answers from now on, before any session is taken up."""
        runtime = self._client.runtime
        runtime.outlet = self
        self.manager.know()  # jobs may speak before the accounts are started
        self.sender.start()  # what an earlier process left goes out before what is found to be missing
        self._leave.append(runtime.listeners.watch(self._asked))

    async def start(self) -> None:
        """Bring on its way what an earlier process left, and start the accounts; none of them is waited for."""
        self.outgoing.sweep()
        await self.incoming.sweep()
        self.manager.commands = {row.name: row.help for row in self._client.router.commands.values()}
        await self.manager.start()
        self.intake.recover()

    async def reload(self) -> list[str]:
        """Take changed settings over; return the accounts that this touched, which are the changed ones alone."""
        return await self.manager.apply()

    async def drain(self, seconds: float) -> None:
        """Wait until what was said is sent, as far as that is possible now, at most so long."""

        async def sent() -> None:
            await asyncio.gather(*self._posting)
            await self.sender.idle()

        await asyncio.wait({asyncio.ensure_future(sent())}, timeout=seconds)

    async def aclose(self) -> None:
        """Stop listening, then sending; everything that is not done is on disk."""
        await self.manager.stop()
        await self.intake.aclose()
        for leave in self._leave:
            leave()
        self.signs.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._posting, return_exceptions=True)
        await self.sender.stop()
        self.outbox.close()
        self._wrote.close()
        self.gatekeeper.close()

    # In.

    async def _take(self, inbound: Inbound) -> None:
        self.counts.received[inbound.channel] = self.counts.received.get(inbound.channel, 0) + 1
        if not await self._answered(inbound):
            await self.intake.take(inbound)

    async def _answered(self, inbound: Inbound) -> bool:
        """Take the answer of somebody who was asked to approve something and is not the owner. It gives no other right."""
        words = (inbound.command or inbound.text).split()
        if len(words) not in (2, 3) or words[0] != "/approve" or inbound.chat_type != "direct":
            return False
        asked = (inbound.channel, inbound.account, inbound.sender)
        if inbound.forwarded or inbound.from_bot or inbound.from_self or asked not in self._approvers.get(words[1], ()):
            return False
        decision = DECISIONS.get(words[2].lower() if len(words) > 2 else "once")
        try:
            told = await self._client.answer(words[1], decision) if decision else "Say once, always or deny."
        except HomarusError as problem:
            told = str(problem)
        self.post(answer(inbound, f"said.{digest(inbound)}", told))
        return True

    def passing(self, inbound: Inbound) -> AbstractContextManager[Any]:
        return self.gatekeeper.passing(inbound, self.manager.identity(inbound.channel, inbound.account))

    def _activation(self, key: SessionKey) -> str:
        info = self._home.store(key.agent_id).find(key)
        return (info.entry.group_activation or "") if info else ""

    def unheard(self, inbound: Inbound) -> bool:
        if not self.incoming.can_hear(inbound) or self.gatekeeper.knows(inbound):
            return False
        identity = self.manager.identity(inbound.channel, inbound.account)
        return self.gatekeeper.explain(inbound, identity).outcome == "kept"

    async def spoken(self, inbound: Inbound) -> Inbound:
        return await self.incoming.spoken(inbound)

    async def with_media(self, inbound: Inbound) -> Inbound:
        return await self.incoming.with_files(inbound)

    def began(self, inbound: Inbound, route: Route) -> None:
        """Show that a message was read, and that somebody writes."""
        if emoji := ack_reaction(self._home.config, route, inbound):
            self.signs.react(route, inbound.id, emoji)
        self.signs.heard(route, direct=inbound.chat_type == "direct", mentioned=inbound.mentioned)
        self._tell_hooks(route, *self.incoming.moments(inbound))

    async def _changed(self, change: Change) -> None:
        """A reaction is an event of its session; whatever else happens to old messages changes nothing."""
        ours = self.wrote(change.channel, change.account, change.peer, change.message_id)
        identity = self.manager.identity(change.channel, change.account)
        noticed = self.gatekeeper.notice(change, ours=ours, identity=identity)
        if noticed is None:
            return
        from homarus.sessions.routing import route_for

        key = route_for(noticed, self._home.config).session_key
        ident = f"reaction:{change.channel}:{change.message_id}:{change.sender}:{change.text}:{change.kind}"
        self._client.runtime.automation.events.add(key, noticed.text, ident=ident, taint=("reaction",))

    # Out: what turns say.

    def speech(self, key: SessionKey, batch: Batch) -> Speech | None:
        """Return what brings the words of a turn to its chat; None for a turn that no chat asked for."""
        newest = batch.newest
        if newest is None or newest.route.place is None or newest.route.channel not in self.known:
            return None
        with self._home.opened(key) as live:
            speech = self._speech(batch, live)
            speech.catch_up()
            if speech.shown:
                told = User((Text(SHOWN + speech.shown),), idempotency_key=f"{newest.key}{TOLD}")
                if not live.writer.knows(told.idempotency_key):
                    live.writer.append_message(told)
        self._speeches[key] = speech, batch
        leave = self._attend(key, newest, batch.trust)
        speech.over = partial(self._over, key, newest, leave)
        return speech

    def _speech(self, batch: Batch, live: OpenSession) -> Speech:
        newest = batch.newest
        assert newest is not None
        place = self.manager.place(newest.route.channel, newest.route.account)
        manner = manner_for(self._home.config, newest.route, newest.inbound, live.refresh(), place)
        if self._home.tell.anybody(FINAL):
            manner = replace(manner, blocks=replace(manner.blocks, enabled=False))
        return Speech(self, batch, manner, live.writer)

    def _over(self, key: SessionKey, item: Queued, leave: Callable[[], None]) -> None:
        leave()
        self._speeches.pop(key, None)
        self.signs.over(item.route, item.inbound.id)

    def catch_up(self, items: Sequence[Queued], live: OpenSession, *, goes_on: bool) -> None:
        """Post what an earlier process had answered and not posted; say so where nobody can go on."""
        chats: dict[tuple[str, str, str, str], list[Queued]] = {}
        for item in items:
            if item.route.place is not None and item.route.channel in self.known:
                chats.setdefault(item.route.place, []).append(item)
        for waiting in chats.values():
            speech = self._speech(Batch("", tuple(waiting)), live)
            if not speech.catch_up().ended and not goes_on:
                speech.interrupted()

    def post(
        self, message: Outbound, *, pause: float = 0.0, preview: Preview | None = None, reply: bool = False
    ) -> bool:
        """Make a message durable and bring it on its way. Where hooks look at it first, it is durable when `posted` returns."""
        looked_at = self._home.tell.anybody(SENDING) or (reply and self._home.tell.anybody(REPLY))
        if self.has_taken(message.id) or not looked_at:
            return self.sender.submit(message, pause=pause, preview=preview)
        task = asyncio.ensure_future(self._post_heard(message, pause, reply=reply))
        self._posting.add(task)
        task.add_done_callback(self._posting.discard)
        return True

    async def posted(self) -> None:
        """Return when all that was posted is durable. Raises StorageError where that is not so."""
        await asyncio.gather(*self._posting)
        again, self._unposted = self._unposted, []
        for message in again:
            self.sender.submit(message)

    async def _post_heard(self, message: Outbound, pause: float, *, reply: bool) -> None:
        # What was posted to a chat first is there first, however long hooks look at it.
        async with self._in_order.setdefault(target_of(message), asyncio.Lock()):
            whole = await self._replying(message) if reply else message
            heard = await self.sending(whole) if whole is not None else None
            try:
                if heard is not None:
                    self.sender.submit(heard, pause=pause)
            except StorageError as problem:  # a full disk: it is tried once more by whoever waits for it
                _log.error("words for %s are not durable yet: %s", message.channel, problem)
                self._unposted.append(heard or message)

    async def _replying(self, message: Outbound) -> Outbound | None:
        """Return a turn's message as hooks want it; None where one cancels it. They take files away and add none."""
        facts: dict[str, Any] = {"to": message.to, "channelId": message.channel, "accountId": message.account}
        facts |= {"text": message.text, "media": list(message.media), "replyTo": message.reply_to}
        facts |= {"asVoice": message.as_voice, "cancel": False}
        told = await self._home.tell.ask(REPLY, main_session(self._home.config.default_agent.id), facts)
        if told is None:
            return message
        text, media, reply_to = (told.context.get(name) for name in ("text", "media", "replyTo"))
        left = tuple(each for each in message.media if not isinstance(media, list) or each in media)
        text = text if isinstance(text, str) else message.text
        if told.context.get("cancel") is True or not (text or left):
            return None
        reply_to = reply_to if isinstance(reply_to, str) else message.reply_to
        voice = told.context.get("asVoice") is True and bool(left)
        return replace(message, text=text, media=left, reply_to=reply_to, as_voice=voice)

    async def sending(self, message: Outbound) -> Outbound | None:
        """Return a message as hooks want it to be sent, before it is promised; None where one of them cancels it."""
        facts = {"content": message.text, "to": message.to, "channelId": message.channel, "accountId": message.account}
        told = await self._home.tell.ask(
            SENDING, main_session(self._home.config.default_agent.id), {**facts, "cancel": False}
        )
        if told is None:
            return message
        text = told.context.get("content")
        if told.context.get("cancel") is True or (message.text and text == "" and not message.media):
            return None
        return replace(message, text=text) if isinstance(text, str) else message

    def preview(self, message: Outbound, mode: Mode, settings: StreamingSettings) -> Preview | None:
        # What a hook may change or keep back is not shown before it did.
        looked_at = any(map(self._home.tell.anybody, (SENDING, REPLY, FINAL)))
        return None if looked_at else self.sender.preview(message, mode, settings)

    def discard(self, preview: Preview) -> None:
        self.sender.discard(preview)

    def attach(self, agent_id: str, path: str, readers: Trust) -> Path:
        return self.outgoing.attach(agent_id, path, readers)

    def _file(self, message: Outbound, media: str) -> str:
        path = self.outgoing.checked(message, media)
        most, size = self.manager.place(message.channel, message.account).media_bytes, Path(path).stat().st_size
        if size > most:
            why = f"{message.channel} takes files of at most {human_bytes(most)}, and this one has {human_bytes(size)}"
            raise DeliveryError(DeliveryFailure.REFUSED, why)
        return path

    def stirs(self, route: Route, kind: str) -> None:
        self.signs.stirs(route, kind)

    @property
    def config(self) -> Config:
        return self._home.config

    def wrote(self, channel: str, account: str, to: str, message_id: str) -> bool:
        """Say whether a message in a chat is one of ours."""
        return self._wrote.knows(digest(Inbound(message_id, channel, "", account=account, peer=to)))

    def answers(self, key: SessionKey) -> str:
        """Return the platform's id of the message that the running turn of a session answers."""
        _, batch = self._speeches.get(key, (None, None))
        return batch.newest.inbound.id if batch is not None and batch.newest is not None else ""

    async def _settled(self, settled: Settled) -> None:
        message = settled.outbound
        for receipt in settled.receipts:
            sent = Inbound(receipt, message.channel, "", account=message.account, peer=message.to)
            self._wrote.add(digest(sent), lasting=True)
        name = (message.channel, settled.outcome)
        self.counts.settled[name] = self.counts.settled.get(name, 0) + 1
        if settled.outcome in {"failed", "partial", "unknown"}:
            where = f"{message.channel}:{single_line(message.to, 80)}"
            _log.warning("a message to %s ended as %s: %s", where, settled.outcome, settled.reason)
        if self._home.tell.anybody("message:sent"):
            about: dict[str, Any] = {"channelId": message.channel, "accountId": message.account, "to": message.to}
            about |= {"content": message.text, "success": settled.outcome == "sent", "error": settled.reason}
            self._do(self._home.tell("message:sent", main_session(self._home.config.default_agent.id), about))

    # Out: what others say.

    def target(self, channel: str, to: str, account: str = "", thread: str = "") -> Target:
        """Return where a word leads that a person or a model wrote. Raises ConfigError where nobody is served there."""
        prefix, _, rest = to.strip().partition(":")
        if rest and (prefix in self.known or not channel) and prefix not in {"user", "channel", "group", "chat"}:
            if channel and prefix in self.known and prefix != channel:
                raise ConfigError(f"'{single_line(to, 80)}' is on {prefix}, not on {channel}", cure="name one of them")
            channel, to = prefix, rest
        if channel in AT_HOME:
            raise ConfigError("nobody can be written to there", cure=f"channels: {', '.join(self.known) or 'none'}")
        if channel not in self.known:
            known = ", ".join(sorted({status.channel for status in self.manager.status()})) or "none"
            raise ConfigError(f"no channel '{single_line(channel, 40)}' is served here", cure=f"there are: {known}")
        account = normalize_account_id(account) if account else default_account(self._home.config, channel)
        if self.manager.account(channel, account) is None:
            raise ConfigError(f"there is no account {channel}/{account}", cure="'homarus channels list' shows them")
        if not to.strip():
            raise ConfigError("nobody is named", cure="say to whom")
        return Target(channel, account, to.strip(), thread)

    def has(self, channel: str) -> bool:
        return any(status.channel == channel for status in self.manager.status())

    def reaches(self, channel: str, account: str, to: str) -> str:
        try:
            self.target(channel, to, account)
        except HomarusError as problem:
            return str(problem)
        found = self.manager.account(channel, account)
        return "" if found is not None and found.settings.enabled else f"{channel}/{account} is switched off"

    def has_taken(self, ident: str) -> bool:
        return self.outbox.row(ident) is not None or self.outbox.outcome(ident) is not None

    async def send(self, message: Outbound) -> str:
        """Bring a message of automation on its way, durably. What an earlier process brought on its way is there already."""
        if self.has_taken(message.id):
            return ""
        if why := self.reaches(message.channel, message.account, message.to):
            return why
        try:
            self.post(message)
            await self.posted()
        except HomarusError as problem:
            return str(problem)
        return ""

    def _retry(self, channel: str, account: str) -> tuple[RetrySettings, int]:
        manifest = self.known.get(channel)
        return chat_settings(self._home.config, channel, account).retry, manifest.retry_ms if manifest else 500

    # Questions to the owner.

    def _attend(self, key: SessionKey, item: Queued, trust: Trust) -> Callable[[], None]:
        """Let the questions of a turn be asked where somebody can answer them."""
        if not self._whom(item, trust):
            return lambda: None
        return self._home.toolkit.approvers.arrive(key, partial(self._client.runtime.emit, key))

    def _whom(self, item: Queued, trust: Trust) -> list[Target]:
        """Return who may be asked: the owner in a chat of two, else those whom the channel's settings name."""
        route = item.route
        if trust is Trust.OWNER and item.inbound.chat_type == "direct":
            return [Target(route.channel, route.account, route.to, route.thread)]
        asked = chat_settings(self._home.config, route.channel, route.account).exec_approvals
        return [Target(route.channel, route.account, str(who)) for who in asked.approvers] if asked.enabled else []

    def _asked(self, key: SessionKey, event: RunEvent) -> None:
        if not isinstance(event, ApprovalAsked) or key not in self._speeches:
            return
        _, batch = self._speeches[key]
        assert batch.newest is not None
        text = ASK.format(title=event.title, why=event.detail, id=event.approval_id)
        buttons = tuple((label, f"/approve {event.approval_id} {word}") for label, word in _ANSWERS)
        whom_all = self._whom(batch.newest, batch.trust)
        # Only while it is asked, and only those: everybody else's word goes the usual way.
        self._approvers[event.approval_id] = {(each.channel, each.account, each.to) for each in whom_all}
        while len(self._approvers) > MAX_ASKED:
            del self._approvers[next(iter(self._approvers))]
        for number, whom in enumerate(whom_all):
            ident = f"ask.{event.approval_id}.{number}"
            # Not for hooks: what is asked must be what would be done.
            self.sender.submit(Outbound(ident, whom.channel, whom.to, text, whom.account, whom.thread, buttons=buttons))

    def _tell_hooks(self, route: Route, *moments: tuple[str, dict[str, Any]]) -> None:
        """Tell hooks of moments that follow each other, beside everything else."""
        heard = [(event, facts) for event, facts in moments if self._home.tell.anybody(event)]

        async def tell() -> None:
            for event, facts in heard:
                about = {"channelId": route.channel, "accountId": route.account, "conversationId": route.to, **facts}
                await self._home.tell(event, route.session_key, about)

        if heard:
            self._do(tell())

    def _do(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def status(self) -> tuple[Status, ...]:
        return self.manager.status()


_ANSWERS = (("Once", "once"), ("Always", "always"), ("No", "deny"))
