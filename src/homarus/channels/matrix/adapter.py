"""Matrix as a channel: a sync that is acknowledged when everything in it is kept, and sends that show once."""

from __future__ import annotations

import asyncio
import io
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import nio

from homarus.channels.channel import Change, Channel, Host, Identity
from homarus.channels.matrix import events
from homarus.channels.matrix.session import (
    FILTER,
    POLL_MS,
    MatrixSettings,
    Seen,
    failure,
    opened,
    trouble,
)
from homarus.channels.support import Note, keep_connected, reason, refused, settings_of
from homarus.core.clock import Clock, SystemClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, installing
from homarus.core.messages import Inbound, Media, Outbound, Quote
from homarus.core.text import single_line
from homarus.delivery.place import Piece

REMEMBERED, BACKFILL, UNREAD = 1000, 1000, 200
TYPING_MS = 15_000
BYTES = "application/octet-stream"
PIECE, MAX_LOCKED = 65536, 100_000_000
Raw = Mapping[str, Any]


def make(host: Host) -> Channel:
    return Matrix(host, SystemClock())


class Matrix:
    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._settings = settings_of(host, "matrix", MatrixSettings)
        if self._settings.auto_join not in {"off", "allowlist", "always"}:
            raise ChannelError("channels.matrix.autoJoin is none of off, allowlist, always", fatal=True)
        self._client: Any = None
        self._note = Note(host.folder, "state.json")
        self._seen = Seen()
        # Bounded memories: what was said lately, reactions by their event, the last event of a room, what is still locked.
        self._said: dict[str, tuple[str, str]] = {}
        self._reactions: dict[str, tuple[str, str]] = {}
        self._latest: dict[str, str] = {}
        self._locked: dict[str, tuple[str, Any]] = {}
        self._aliases: dict[str, str] = {}

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await keep_connected(self._session, self._host, self._clock)

    async def _session(self) -> None:
        client = await opened(self._settings, self._host)
        try:
            self._seen = self._note.load(Seen) or Seen()
            direct = await client.list_direct_rooms()
            if isinstance(direct, nio.DirectRoomsResponse):
                self._know_direct(direct.rooms)
            first = True
            while True:
                fresh = not self._seen.since
                reply = await client.sync(
                    timeout=0 if first else POLL_MS,
                    sync_filter=FILTER,
                    since=self._seen.since or None,
                    full_state=first and not fresh,
                )
                if isinstance(reply, nio.ErrorResponse):
                    raise trouble(reply)
                if first:
                    self._client = client
                    self._host.connected(await self._identity(client))
                await self._take(client, reply, fresh=fresh)
                first = False
        except (aiohttp.ClientError, nio.exceptions.ProtocolError) as problem:
            raise ChannelError(f"the sync broke off: {reason(problem)}") from problem
        finally:
            self._client = None
            await client.close()

    async def _take(self, client: Any, reply: Any, *, fresh: bool) -> None:
        """Hand over all that a sync brought, and only then write down that it was read."""
        before = self._seen.since
        for event in reply.account_data_events:
            if getattr(event, "type", "") == "m.direct":
                self._know_direct(event.content)
        for room_id, info in reply.rooms.invite.items():
            await self._invited(client, room_id, [event.source for event in info.invite_state])
        for room_id, info in reply.rooms.join.items():
            await self._joined(client, room_id, info, before, fresh=fresh)
        for room_id in reply.rooms.leave:
            await self._host.changed(Change("left", "matrix", room_id, account=self._host.account, chat_type="group"))
        await self._unlock(client)
        if reply.next_batch != before:
            self._seen.since = reply.next_batch
            await asyncio.to_thread(self._note.write, self._seen)
        if client.olm:
            await self._tend_keys(client)

    def _know_direct(self, people: Any) -> None:
        for rooms in events.table(people).values():
            for room in rooms if isinstance(rooms, list) else ():
                if isinstance(room, str):
                    self._seen.is_direct(room)

    async def _invited(self, client: Any, room_id: str, state: list[Raw]) -> None:
        ours = self._settings
        wanted = ours.auto_join == "always"
        if ours.auto_join == "allowlist":
            for entry in ours.auto_join_allowlist:
                # An alias is asked for at our own server; what the invitation says of itself counts for nothing.
                known = await self._room_of_alias(client, entry) if entry.startswith("#") else entry
                wanted = wanted or entry == "*" or known == room_id
        if not wanted:
            return
        for event in state:
            content = events.table(event.get("content"))
            if event.get("state_key") == client.user_id and content.get("is_direct") is True:
                self._know_direct({"": [room_id]})
        if isinstance(told := await client.join(room_id), nio.ErrorResponse):
            self._host.troubled(f"cannot join {single_line(room_id, 80)}: {single_line(str(told.message), 100)}")

    async def _joined(self, client: Any, room_id: str, info: Any, since: str, *, fresh: bool) -> None:
        if fresh:
            return  # said before we were here for the first time
        room = self._room(client, room_id)
        found = [event for event in info.timeline.events if hasattr(event, "source")]
        start = events.joined_at([event.source for event in found], client.user_id, since_invite=room.direct)
        if start:
            await self._host.changed(Change("joined", "matrix", room_id, account=self._host.account, chat_type="group"))
        elif info.timeline.limited:
            found = await self._missed(client, room_id, info.timeline.prev_batch, since) + found
            start = events.joined_at([event.source for event in found], client.user_id, since_invite=room.direct)
        for event in found[start:]:
            if isinstance(event, nio.MegolmEvent):
                self._lock(client, room_id, event)
            else:
                await self._one(client, room, event.source)

    async def _missed(self, client: Any, room_id: str, start: str, since: str) -> list[Any]:
        """Return what was said in a room between two syncs and is in neither, oldest first."""
        missed: list[Any] = []
        while start and len(missed) < BACKFILL:
            reply = await client.room_messages(room_id, start, since, limit=100)
            if isinstance(reply, nio.ErrorResponse):
                raise trouble(reply)
            missed += [event for event in reply.chunk if hasattr(event, "source")]
            start = reply.end if reply.chunk and reply.end != start else ""
        return missed[::-1]

    async def _one(self, client: Any, room: events.Room, event: Raw) -> None:
        me, id_ = client.user_id, events.word(event.get("event_id"))
        sender = events.word(event.get("sender"))
        _remember(self._latest, room.id, id_)
        if sender == me:
            return
        if changed := events.change(event, room, self._host.account, self._reactions):
            if changed.kind == "reacted":
                _remember(self._reactions, id_, (changed.message_id, changed.text))
            await self._host.changed(changed)
        elif found := events.inbound(event, room, me, self._host.account):
            _remember(self._said, id_, (sender, found.text))
            if room.direct:
                self._seen.talks_with(sender, room.id)
            await self._host.receive(await self._quoted(client, room, found))

    async def _quoted(self, client: Any, room: events.Room, found: Inbound) -> Inbound:
        if not found.reply_to:
            return found
        if found.reply_to not in self._said:
            told = await client.room_get_event(room.id, found.reply_to)
            if isinstance(told, nio.ErrorResponse):
                return found
            event = self._readable(client, told.event)
            source = event.source if event is not None else {}
            body = events.word(events.table(source.get("content")).get("body"))
            _remember(self._said, found.reply_to, (events.word(source.get("sender")), body))
        sender, text = self._said[found.reply_to]
        ours = sender == client.user_id
        return msgspec.structs.replace(found, quote=Quote(found.reply_to, text, sender, ours=ours))

    def _room(self, client: Any, room_id: str) -> events.Room:
        known = client.rooms.get(room_id)
        if known is None:
            return events.Room(room_id)
        small = known.member_count <= 2
        names = {id_: user.display_name or "" for id_, user in known.users.items()}
        direct = small and (room_id in self._seen.direct or not known.is_named)
        return events.Room(room_id, direct, known.named_room_name() or "", names)

    # -- encryption -------------------------------------------------------------------------------------------------

    def _lock(self, client: Any, room_id: str, event: Any) -> None:
        """Put a message aside that cannot be read yet; its key often comes after it."""
        if not client.olm:
            self._host.troubled(
                f"an encrypted message in {single_line(room_id, 80)} cannot be read",
                cure="set channels.matrix.encryption",
            )
            return
        _remember(self._locked, event.event_id, (room_id, event), UNREAD)

    async def _unlock(self, client: Any) -> None:
        for id_, (room_id, event) in list(self._locked.items()):
            if (opened_event := self._readable(client, event)) is not None:
                del self._locked[id_]
                await self._one(client, self._room(client, room_id), opened_event.source)

    def _readable(self, client: Any, event: Any) -> Any:
        if not isinstance(event, nio.MegolmEvent):
            return event
        try:
            return client.decrypt_event(event) if client.olm else None
        except nio.exceptions.EncryptionError:
            return None

    async def _tend_keys(self, client: Any) -> None:
        if client.should_upload_keys:
            await client.keys_upload()
        if client.should_query_keys:
            await client.keys_query()
        if client.should_claim_keys:
            await client.keys_claim(client.get_users_for_key_claiming())
        await client.send_to_device_messages()

    # -- saying -----------------------------------------------------------------------------------------------------

    def _up(self) -> Any:
        if self._client is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "Matrix: not connected")
        return self._client

    async def _asked(self, request: Awaitable[Any]) -> Any:
        """Return an answer of the homeserver, or raise what it means for a message."""
        try:
            reply = await request
        except nio.exceptions.LocalProtocolError as problem:
            raise refused(f"Matrix: {single_line(str(problem))}") from problem
        except (aiohttp.ClientError, nio.exceptions.ProtocolError, OSError, TimeoutError) as problem:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"Matrix: {reason(problem)}") from problem
        if isinstance(reply, nio.ErrorResponse):
            raise failure(reply)
        return reply

    async def _put(self, room: str, kind: str, content: dict[str, Any], key: str) -> str:
        client = self._up()
        known = client.rooms.get(room)
        if known is not None and known.encrypted and not client.olm:
            raise refused(
                "this room is encrypted", f"set channels.matrix.encryption, and {installing('homarus[matrix-e2e]')}"
            )
        tx = events.transaction(key)
        reply = await self._asked(client.room_send(room, kind, content, tx, ignore_unverified_devices=True))
        return str(reply.event_id)

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        room = await self._target(message.to)
        await self._mark_read(room)
        if piece.file:
            content = await self._uploaded(room, piece)
        else:
            content = events.text_content(piece, quiet=message.silent)
        kind = events.MESSAGE
        if piece.poll is not None:
            kind, content = events.POLL, events.poll_content(piece.poll, piece.plain or piece.text)
        sent = await self._put(room, kind, events.related(content, message.thread, message.reply_to), key)
        _remember(self._said, sent, (self._up().user_id, piece.plain or piece.text))
        return sent

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        content = events.edited(events.text_content(piece, quiet=message.silent), sent)
        await self._put(await self._target(message.to), events.MESSAGE, content, f"edit {sent} {piece.text}")

    async def delete(self, message: Outbound, sent: str) -> None:
        room = await self._target(message.to)
        await self._asked(self._up().room_redact(room, sent, tx_id=events.transaction(f"delete {sent}")))

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        room, client = await self._target(message.to), self._up()
        if on:
            link = {"rel_type": "m.annotation", "event_id": to_message, "key": emoji}
            # A reaction that was taken back may come again: it is another event each time.
            key = f"react {to_message} {emoji} {self._clock.now().isoformat()}"
            try:
                await self._put(room, events.REACTION, {"m.relates_to": link}, key)
            except DeliveryError as problem:
                if "M_DUPLICATE_ANNOTATION" not in problem.message:
                    raise
            return
        relation = nio.api.RelationshipType.annotation
        async for event in client.room_get_event_relations(room, to_message, relation, events.REACTION):
            source = event.source
            said = events.table(events.table(source.get("content")).get("m.relates_to")).get("key")
            if source.get("sender") == client.user_id and said == emoji:
                await self._asked(client.room_redact(room, source["event_id"]))

    async def typing(self, message: Outbound) -> None:
        try:
            room = await self._target(message.to)
            await self._mark_read(room)
            await self._asked(self._up().room_typing(room, True, TYPING_MS))
        except DeliveryError:
            return

    async def _mark_read(self, room: str) -> None:
        """Tell people that their words were read: only now that the agent acts on them, and never strangers before."""
        if event := self._latest.pop(room, ""):
            try:
                await self._asked(self._up().update_receipt_marker(room, event))
            except DeliveryError:
                return

    async def _uploaded(self, room: str, piece: Piece) -> dict[str, Any]:
        client, path = self._up(), Path(piece.file)
        locked = bool(client.olm and room in client.rooms and client.rooms[room].encrypted)
        kind = mimetypes.guess_type(path.name)[0] or BYTES
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            data, keys = await asyncio.to_thread(_locked, path) if locked else (b"", {})
        except OSError as problem:
            raise refused(f"{path.name} cannot be read: {problem.strerror}") from problem

        async def upload() -> Any:
            source, name, sent_as = (io.BytesIO(data), None, None) if locked else (str(path), path.name, kind)
            return (await client.upload(lambda *_: source, sent_as or BYTES, name, filesize=size))[0]

        reply = await self._asked(upload())
        content = events.file_content(piece, path.name, kind, size)
        if locked:
            return {**content, "file": {**keys, "url": reply.content_uri}}
        return {**content, "url": reply.content_uri}

    # -- finding ----------------------------------------------------------------------------------------------------

    async def _target(self, to: str) -> str:
        """Return the room that a message goes to: the one named, the one behind an alias, or the one with a person."""
        client = self._up()
        for prefix in ("room:", "channel:", "user:"):
            to = to.removeprefix(prefix)
        if to.startswith("!"):
            return to
        if to.startswith("#") and (room := await self._room_of_alias(client, to)):
            return room
        if to.startswith("@") and ":" in to:
            return self._room_with(client, to) or await self._new_room(client, to)
        raise refused(
            f"'{single_line(to, 80)}' is no room and no person", "write !room:server, #alias:server or @person:server"
        )

    def _room_with(self, client: Any, person: str) -> str:
        known = self._seen.rooms_of.get(person, "")
        for room_id in (known, *reversed(self._seen.direct)):
            room = client.rooms.get(room_id)
            if room is not None and person in (*room.users, *room.invited_users) and room.member_count <= 2:
                return str(room_id)
        return known if known in client.rooms else ""

    async def _new_room(self, client: Any, person: str) -> str:
        locked = {"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
        reply = await self._asked(
            client.room_create(is_direct=True, invite=[person], initial_state=[locked] if client.olm else [])
        )
        self._know_direct({person: [reply.room_id]})
        self._seen.talks_with(person, reply.room_id)
        return str(reply.room_id)

    async def _room_of_alias(self, client: Any, alias: str) -> str:
        if alias not in self._aliases:
            reply = await client.room_resolve_alias(alias)
            if isinstance(reply, nio.ErrorResponse):
                return ""
            _remember(self._aliases, alias, reply.room_id)
        return self._aliases[alias]

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        client = self._up()
        locked = msgspec.json.decode(media.ref) if media.ref.startswith("{") else {}
        server, _, id_ = (locked.get("url") or media.ref).removeprefix("mxc://").partition("/")
        place = f"{quote(server, safe=':')}/{quote(id_, safe='')}"
        try:
            pieces = self._pieces(client, place)
            if not locked:
                async for piece in pieces:
                    yield piece
                return
            held = bytearray()
            async for piece in pieces:
                held += piece
                if len(held) > MAX_LOCKED:
                    raise refused(f"the file {media.name} is too big to be unlocked")
            yield await asyncio.to_thread(_unlocked, bytes(held), locked)
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"Matrix: {reason(problem)}") from problem

    async def _pieces(self, client: Any, place: str) -> AsyncIterator[bytes]:
        headers = {"Authorization": f"Bearer {client.access_token}"}
        reply = await client.send("GET", f"/_matrix/client/v1/media/download/{place}", headers=headers)
        if reply.status == 404:  # a homeserver from before 2024
            reply.close()
            reply = await client.send("GET", f"/_matrix/media/v3/download/{place}", headers=headers)
        try:
            if reply.status != 200:
                kind = DeliveryFailure.TRANSIENT if reply.status >= 500 else DeliveryFailure.REFUSED
                raise DeliveryError(kind, f"Matrix: the file is not there ({reply.status})")
            async for piece in reply.content.iter_chunked(PIECE):
                yield piece
        finally:
            reply.close()

    async def _identity(self, client: Any) -> Identity:
        told = await client.get_displayname(client.user_id)
        name = "" if isinstance(told, nio.ErrorResponse) else told.displayname or ""
        return Identity(client.user_id, single_line(name), client.user_id)

    async def probe(self) -> Identity:
        if self._client is not None:
            await self._asked(self._client.whoami())
            return await self._identity(self._client)
        client = await opened(self._settings, self._host)
        try:
            return await self._identity(client)
        finally:
            await client.close()

    async def directory(self, query: str) -> list[Identity]:
        client = self._up()
        found: dict[str, Identity] = {}
        for id_, room in client.rooms.items():
            found[id_] = Identity(id_, single_line(room.display_name or ""), room.canonical_alias or "")
            for person, user in room.users.items():
                found.setdefault(person, Identity(person, single_line(user.display_name or ""), person))
        found.pop(client.user_id, None)
        wanted = query.lower()
        return [one for one in found.values() if wanted in f"{one.id} {one.name} {one.handle}".lower()]


def _remember(memory: dict[str, Any], key: str, value: Any, most: int = REMEMBERED) -> None:
    memory.pop(key, None)
    memory[key] = value
    while len(memory) > most:
        del memory[next(iter(memory))]


def _locked(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Return a file as only those can read it who get its keys, and these."""
    from nio.crypto.attachments import encrypt_attachment

    data, keys = encrypt_attachment(path.read_bytes())
    return bytes(data), dict(keys)


def _unlocked(data: bytes, keys: Mapping[str, Any]) -> bytes:
    """Return the content of an encrypted file; what was changed on its way is refused."""
    from nio.crypto.attachments import decrypt_attachment

    try:
        return bytes(decrypt_attachment(data, keys["key"]["k"], keys["hashes"]["sha256"], keys["iv"]))
    except (KeyError, TypeError, ValueError, nio.exceptions.EncryptionError) as problem:
        raise refused("the encrypted file was damaged or its keys are wrong") from problem
