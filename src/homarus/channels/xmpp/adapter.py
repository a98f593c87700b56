"""XMPP as a channel: one connection, the rooms that are joined over it, and the archive that says what was missed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import slixmpp
from slixmpp.exceptions import IqError, IqTimeout, PresenceError, XMPPError
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath
from slixmpp.xmlstream.xmlstream import NotConnectedError

from homarus.channels.channel import Change, Channel, Host, Identity
from homarus.channels.support import Note, is_named, keep_connected, reason, refused, settings_of, side_by_side
from homarus.channels.xmpp import stanzas
from homarus.channels.xmpp.session import ANSWER_SECONDS, Session, XmppSettings
from homarus.channels.xmpp.stanzas import Said
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, SystemClock, epoch_ms
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Inbound, Media, Outbound, Quote
from homarus.core.text import single_line
from homarus.delivery.place import Piece
from homarus.net.egress import Egress, Limits

REMEMBERED, WAITING, ARCHIVE = 1000, 5000, 1000
MARGIN = timedelta(minutes=10)


class State(msgspec.Struct):
    """`state.json`: since when we are here, and when something was last taken in, from the archive and from each room."""

    first: datetime | None = None
    seen: datetime | None = None
    rooms: dict[str, datetime] = {}

    def since(self, seen: datetime) -> datetime:
        """Return from when on to ask again. Servers count in seconds, by clocks of their own; ids tell what is known."""
        return max(seen - MARGIN, self.first or seen)


def make(host: Host) -> Channel:
    return Xmpp(host, SystemClock())


class Xmpp:
    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._settings = ours = settings_of(host, "xmpp", XmppSettings)
        try:
            self._me = slixmpp.JID(ours.jid)
            self._rooms = {slixmpp.JID(room.split()[0]).bare: room.split()[1:2] for room in ours.rooms if room.strip()}
        except slixmpp.InvalidJID:
            raise ChannelError(
                "channels.xmpp: jid or rooms hold no address", fatal=True, cure="write agent@example.org"
            ) from None
        if ours.tls not in {"auto", "direct", "starttls", "none"} or not self._me.local:
            raise ChannelError(
                "channels.xmpp: jid is incomplete, or tls is none of auto, direct, starttls, none", fatal=True
            )
        self._nick = ours.nick or self._me.local
        self._client: Any = None
        self._note = Note(host.folder, "state.json")
        self._state = State()
        self._heard: asyncio.Queue[Said] = asyncio.Queue(WAITING)
        self._joined: set[str] = set()
        # What waits for its answer: messages to rooms come back from the room, what is refused comes back as an error.
        self._awaited: dict[str, asyncio.Future[ET.Element]] = {}
        # Bounded memories: ids that servers gave to what people call otherwise, and those people's, our own messages, reactions.
        self._ids: dict[str, str] = {}
        self._theirs: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._authors: dict[str, str] = {}
        self._reactions: dict[str, frozenset[str]] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await side_by_side(keep_connected(self._session, self._host, self._clock), self._keep())

    async def _session(self) -> None:
        self._state = self._note.load(State) or State()
        session = Session(self._settings, self._me)
        client = session.client
        # Not the library's own events: they leave out what has no body, as reactions and errors.
        client.register_handler(Callback("homarus", MatchXPath(f"{{{stanzas.CLIENT}}}message"), self._arrived))
        client.add_event_handler("groupchat_presence", self._presence)
        joining: list[asyncio.Task[None]] = []
        try:
            await session.open()
            client.send_presence()
            # Before anything is handed over: an answer to it may be there at once.
            self._client = client
            self._host.connected(Identity(self._me.bare, self._nick, self._me.bare))
            await self._catch_up(client)
            try:
                await client.plugin["xep_0280"].enable(timeout=int(ANSWER_SECONDS))
            except (IqError, IqTimeout):
                pass  # then what goes to another client of this account stays there
            joining = [asyncio.create_task(self._join(client, room, words)) for room, words in self._rooms.items()]
            raise ChannelError(f"the connection ended: {single_line(await session.ended)}")
        except (XMPPError, NotConnectedError) as problem:
            raise ChannelError(f"the server says no: {single_line(str(problem))}") from problem
        finally:
            self._client = None
            self._joined.clear()
            for task in joining:
                task.cancel()
            await asyncio.gather(*joining, return_exceptions=True)
            for waiting in self._awaited.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError("the connection is gone"))
                    waiting.exception()
            await session.close()

    async def _join(self, client: Any, room: str, password: list[str]) -> None:
        """Enter a room, and again when it let us out; what was said since we were last there comes along."""
        pause = 5.0
        while True:
            if room not in self._joined:
                seen = self._state.rooms.get(room)
                history: dict[str, Any] = {"since": self._state.since(seen)} if seen else {"maxstanzas": 0}
                try:
                    await client.plugin["xep_0045"].join_muc_wait(
                        slixmpp.JID(room),
                        self._nick,
                        password=password[0] if password else None,
                        timeout=ANSWER_SECONDS,
                        **history,
                    )
                    self._state.rooms.setdefault(room, self._clock.now())
                    self._joined.add(room)
                    pause = 5.0
                    await self._host.changed(
                        Change("joined", "xmpp", room, account=self._host.account, chat_type="group")
                    )
                except PresenceError as problem:
                    self._host.troubled(f"cannot enter {room}: {single_line(problem.text or problem.condition, 100)}")
                except TimeoutError:
                    self._host.troubled(f"{room} does not answer")
            await self._clock.sleep(pause)
            pause = min(pause * 2, 600.0)

    def _presence(self, presence: Any) -> None:
        room = presence["from"].bare
        if presence["type"] == "unavailable" and 110 in presence["muc"]["status_codes"] and room in self._joined:
            self._joined.discard(room)
            self._host.troubled(f"put out of {room}")

    async def _catch_up(self, client: Any) -> None:
        """Take in what came while we were away, from the server's archive where it has one."""
        if self._state.seen is None:
            self._state.first = self._state.seen = self._clock.now().replace(microsecond=0)
            return
        since = self._state.since(self._state.seen)
        try:
            async for result in client.plugin["xep_0313"].iterate(start=since, total=ARCHIVE):
                found = result["mam_result"]
                forwarded = found["forwarded"]
                said = stanzas.read(forwarded["stanza"].xml)
                stamp = forwarded["delay"]["stamp"]
                ids = {**said.ids, self._me.bare: found["id"]}
                await self._heard.put(
                    msgspec.structs.replace(said, ids=ids, delayed=epoch_ms(stamp) if stamp else said.delayed)
                )
        except (IqError, IqTimeout):
            return  # no archive: the server keeps what it could not deliver, or nothing

    # -- hearing ----------------------------------------------------------------------------------------------------

    def _arrived(self, stanza: Any) -> None:
        copied = stanza.xml.find(
            f"{{{stanzas.CARBONS}}}received/{{{stanzas.FORWARD}}}forwarded/{{{stanzas.CLIENT}}}message"
        )
        if copied is None:
            self._take(stanza.xml)
        # What went to another client of this account is copied to us by our own server; others only say so.
        elif stanza["from"].bare in {"", self._me.bare}:
            self._take(copied)

    def _take(self, xml: ET.Element) -> None:
        said = stanzas.read(xml)
        waiting = self._awaited.get(said.id)
        if waiting is not None and not waiting.done() and (said.error or self._is_ours(said)):
            waiting.set_result(xml)
            return
        if said.error and said.id in self._said:  # a server far away said so after ours had taken it
            self._host.troubled(f"{single_line(said.bare, 80)} did not get a message: {said.error}")
            return
        try:
            self._heard.put_nowait(said)
        except asyncio.QueueFull:
            self._host.troubled(f"more than {WAITING} messages wait to be kept; new ones are lost")

    def _is_ours(self, said: Said) -> bool:
        if said.type == "groupchat":
            return said.bare in self._rooms and said.nick == self._nick_in(said.bare)
        return bool(said.bare == self._me.bare)

    def _nick_in(self, room: str) -> str:
        if self._client is None:
            return self._nick
        return str(self._client.plugin["xep_0045"].our_nicks[None].get(room, self._nick))

    async def _keep(self) -> None:
        """Hand over what was heard, in order; what cannot be kept waits here."""
        while True:
            said = await self._heard.get()
            pause = 1.0
            while True:
                try:
                    await self._one(said)
                    break
                except (HomarusError, OSError) as problem:
                    self._host.troubled(f"a message could not be kept: {single_line(str(problem))}")
                    await self._clock.sleep(pause)
                    pause = min(pause * 2, 60.0)

    async def _one(self, said: Said) -> None:
        group = said.type == "groupchat"
        if said.error or said.type not in {"chat", "normal", "groupchat"} or said.subject or self._is_ours(said):
            return
        if not said.sender or (group and (said.bare not in self._rooms or not said.nick)):
            return
        peer = said.bare if group or said.bare not in self._rooms else said.sender
        id_ = self._id_of(said, group)
        if id_ is None:
            return
        if changes := self._changes(said, peer):
            for change in changes:
                await self._host.changed(change)
        elif stanzas.text_of(said).strip() or said.files:
            _remember(self._authors, id_, said.sender)
            await self._host.receive(self._inbound(said, id_, peer))
        await self._seen(said, group)

    def _id_of(self, said: Said, group: bool) -> str | None:
        """Return by what a message is known; None if its author's client sent it before, as after a connection that broke.

        Servers give a name of their own to each sending, so in private it is the author's where that is good for ever. A room
        is asked by the name that it gave.
        """
        given = said.ids.get(said.bare if group else self._me.bare, "")
        id_ = ("" if group else said.origin) or given or said.id or os.urandom(12).hex()
        if said.id:
            known = self._ids.get(key := f"{said.sender} {said.id}")
            if said.origin and known not in {None, id_}:
                return None
            _remember(self._ids, key, id_)
            if not group:
                _remember(self._theirs, id_, said.id)
        return id_

    async def _seen(self, said: Said, group: bool) -> None:
        moment = datetime.fromtimestamp(said.delayed / 1000, UTC) if said.delayed else self._clock.now()
        if group:
            self._state.rooms[said.bare] = max(moment, self._state.rooms.get(said.bare, moment))
        else:
            self._state.seen = max(moment, self._state.seen or moment)
        await asyncio.to_thread(self._note.write, self._state)

    def _who(self, said: Said) -> str:
        """Return who really speaks in a room: the address that the room knows, or a mark that the room gave them.

        A nick is chosen by whoever bears it, so where there is nothing better it says so.
        """
        if said.bare not in self._rooms:
            return said.bare
        known = self._client.plugin["xep_0045"].get_jid_property(said.bare, said.nick, "jid") if self._client else None
        if known:
            return str(slixmpp.JID(known).bare)
        return f"occupant:{said.bare}/{said.occupant}" if said.occupant else f"nick:{said.sender}"

    def _inbound(self, said: Said, id_: str, peer: str) -> Inbound:
        group = said.type == "groupchat"
        name = said.nick if said.bare in self._rooms else said.bare
        ours = said.answers in self._said
        return Inbound(
            id=id_,
            channel="xmpp",
            text=stanzas.text_of(said),
            sender=self._who(said),
            sender_name=single_line(name, 100),
            handle=single_line(name, 100),
            account=self._host.account,
            peer=peer,
            chat_type="group" if group else "direct",
            timestamp=said.delayed or epoch_ms(self._clock.now()),
            reply_to=said.answers,
            quote=Quote(said.answers, self._said.get(said.answers, ""), ours=ours) if said.answers else None,
            mentioned=group and is_named(said.body.casefold(), self._nick_in(said.bare).casefold()),
            media=stanzas.media_of(said),
        )

    def _changes(self, said: Said, peer: str) -> list[Change]:
        chat = "group" if said.type == "groupchat" else "direct"
        who, account = self._who(said), self._host.account
        if said.replaces or said.retracts:
            # People name their own message by the id they gave it; we know it by the one that the room gave it.
            named = said.replaces or said.retracts
            id_ = self._ids.get(f"{said.sender} {named}", named)
            text = said.body if said.replaces else ""
            return [Change("edited" if said.replaces else "deleted", "xmpp", peer, id_, who, text, account, chat)]
        if not said.reacts_to:
            return []
        key = f"{said.sender} {said.reacts_to}"
        before = self._reactions.get(key, frozenset())
        _remember(self._reactions, key, said.reactions)
        new = [("reacted", emoji) for emoji in sorted(said.reactions - before)]
        old = [("unreacted", emoji) for emoji in sorted(before - said.reactions)]
        return [Change(kind, "xmpp", peer, said.reacts_to, who, emoji, account, chat) for kind, emoji in (*new, *old)]  # type: ignore[arg-type]

    # -- saying -----------------------------------------------------------------------------------------------------

    def _to(self, message: Outbound) -> tuple[str, bool]:
        """Return where a message goes, and whether that is a room."""
        if self._client is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "XMPP: not connected")
        try:
            jid = slixmpp.JID(message.to)
        except slixmpp.InvalidJID:
            raise refused(
                f"'{single_line(message.to, 80)}' is no address", "write person@server or room@server"
            ) from None
        room = jid.bare in self._rooms and not jid.resource
        if room and jid.bare not in self._joined:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"XMPP: not in {jid.bare}")
        if not jid.local:
            raise refused(f"'{single_line(message.to, 80)}' is no person and no room")
        return str(jid), room

    async def _put(self, to: str, room: bool, id_: str, parts: list[ET.Element]) -> ET.Element | None:
        """Send a message and wait until it is known what became of it: a room sends it back, a server answers after it."""
        client = self._client
        stanza = client.make_message(mto=to, mtype="groupchat" if room else "chat")
        stanza["id"] = id_
        stanza.xml.extend([*parts, stanzas.element("origin-id", stanzas.STANZA_ID, id=id_)])
        waiting: asyncio.Future[ET.Element]
        waiting = self._awaited[id_] = asyncio.get_running_loop().create_future()
        try:
            stanza.send()
            if room:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await waiting
            else:
                await client.plugin["xep_0199"].send_ping(slixmpp.JID(self._me.domain), timeout=int(ANSWER_SECONDS))
        except IqError:
            pass  # a server that knows no ping still answered
        except (OSError, TimeoutError, IqTimeout, NotConnectedError) as problem:
            raise DeliveryError(DeliveryFailure.UNKNOWN, f"XMPP: {reason(problem)}") from problem
        finally:
            self._awaited.pop(id_, None)
        back = waiting.result() if waiting.done() else None
        if back is not None and (why := stanzas.read(back).error):
            raise DeliveryError(stanzas.failure(back), f"XMPP: {why}")
        return back

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        to, room = self._to(message)
        id_ = stanzas.message_id(key)
        text = piece.text or piece.plain
        answers, author = message.reply_to, self._authors.get(message.reply_to, "")
        parts = [stanzas.reply(self._theirs.get(answers, answers), author)] if answers else []
        if piece.file:
            if text:
                await self._put(to, room, stanzas.message_id(f"{key} caption"), [stanzas.body(text), *parts])
            url = await self._uploaded(Path(piece.file))
            parts, text = [stanzas.file_address(url)], url
        back = await self._put(to, room, id_, [stanzas.body(text), *parts])
        given = stanzas.read(back).ids.get(to.lower(), "") if back is not None else ""
        for one in filter(None, (id_, given)):
            _remember(self._said, one, piece.plain or piece.text)
        return id_

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        to, room = self._to(message)
        replace = stanzas.element("replace", stanzas.REPLACE, id=sent)
        await self._put(to, room, os.urandom(16).hex(), [stanzas.body(piece.text or piece.plain), replace])

    async def delete(self, message: Outbound, sent: str) -> None:
        to, room = self._to(message)
        retract = stanzas.element("retract", stanzas.RETRACT, id=sent)
        store = stanzas.element("store", stanzas.HINTS)
        await self._put(to, room, os.urandom(16).hex(), [retract, store])

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        to, room = self._to(message)
        key = f" {to_message}"
        ours = self._reactions.get(key, frozenset())
        ours = ours | {emoji} if on else ours - {emoji}
        store = stanzas.element("store", stanzas.HINTS)
        await self._put(
            to, room, os.urandom(16).hex(), [stanzas.reactions(self._theirs.get(to_message, to_message), ours), store]
        )
        _remember(self._reactions, key, ours)

    async def typing(self, message: Outbound) -> None:
        try:
            to, room = self._to(message)
            stanza = self._client.make_message(mto=to, mtype="groupchat" if room else "chat")
            stanza.xml.append(stanzas.element("composing", stanzas.STATES))
            stanza.xml.append(stanzas.element("no-store", stanzas.HINTS))
            stanza.send()
        except (DeliveryError, OSError):
            return

    async def _uploaded(self, path: Path) -> str:
        from slixmpp.plugins.xep_0363 import FileTooBig, FileUploadError, UploadServiceNotFound

        try:
            with path.open("rb") as file:
                return str(
                    await self._client.plugin["xep_0363"].upload_file(
                        path.name, input_file=file, timeout=ANSWER_SECONDS
                    )
                )
        except UploadServiceNotFound:
            raise refused("the server takes no files", "ask its operator for HTTP upload (XEP-0363)") from None
        except FileTooBig:
            raise refused(f"{path.name} is too big for the server") from None
        except OSError as problem:
            raise refused(f"{path.name} cannot be sent: {reason(problem)}") from problem
        except (FileUploadError, IqError, IqTimeout, TimeoutError) as problem:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"XMPP: {reason(problem)}") from problem

    # -- finding ----------------------------------------------------------------------------------------------------

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        """Fetch a file from where its sender says it is: a public address, or a host that the settings name."""
        egress = Egress(own=frozenset(self._settings.file_hosts))
        limits = Limits(max_bytes=int(self._settings.media_max_mb * 1_000_000), seconds=120.0)
        try:
            found = await egress.fetch(media.ref, limits=limits, cancel=Cancel())
        except HomarusError as problem:
            raise refused(f"the file {media.name} cannot be fetched: {problem.message}") from problem
        if found.status != 200 or found.truncated:
            raise refused(f"the file {media.name} is {'too big' if found.truncated else 'not there'} ({found.status})")
        yield found.body

    async def probe(self) -> Identity:
        if self._client is not None:
            await self._client.plugin["xep_0199"].send_ping(slixmpp.JID(self._me.domain), timeout=int(ANSWER_SECONDS))
        else:
            session = Session(self._settings, self._me)
            try:
                await session.open()
            finally:
                await session.close()
        return Identity(self._me.bare, self._nick, self._me.bare)

    async def directory(self, query: str) -> list[Identity]:
        if self._client is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "XMPP: not connected")
        await self._client.get_roster(timeout=int(ANSWER_SECONDS))
        found = {room: Identity(room, room) for room in sorted(self._joined)}
        for jid in self._client.client_roster:
            name = single_line(self._client.client_roster[jid]["name"] or "", 100)
            found.setdefault(jid, Identity(jid, name, jid))
        found.pop(self._me.bare, None)
        return [one for one in found.values() if query.lower() in f"{one.id} {one.name}".lower()]


def _remember(memory: dict[str, Any], key: str, value: Any) -> None:
    memory.pop(key, None)
    memory[key] = value
    while len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
