"""E-mail as a channel: letters whose author our own server vouches for, and answers in their thread."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from homarus.channels.channel import Channel, Host, Identity
from homarus.channels.email import letters
from homarus.channels.email.letters import Thread
from homarus.channels.email.servers import (
    FAILURES,
    IMAP_PORTS,
    SMTP_PORTS,
    EmailSettings,
    Mailbox,
    each_piece,
    post,
    smtp,
    trouble,
)
from homarus.channels.support import Note, keep_connected, reason, refused, settings_of
from homarus.core.clock import Clock, SystemClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, StorageError
from homarus.core.messages import Media, Outbound
from homarus.core.text import single_line
from homarus.delivery.place import Piece

THREADS = 2000
# A watch is short, since what comes in the instant before it may go untold; a step is how long stopping may take.
WATCH_SECONDS, STEP_SECONDS = 120.0, 1.0
Result = TypeVar("Result")


class State(msgspec.Struct):
    """`state.json`: up to where the mailbox was read, and the threads that answers go into."""

    validity: int = 0
    uid: int = 0
    read_at: datetime | None = None
    threads: dict[str, Thread] = {}

    def keep(self, peer: str, root: str, thread: Thread) -> None:
        key = f"{peer} {root}"
        self.threads.pop(key, None)
        self.threads[key] = thread
        while len(self.threads) > THREADS:
            del self.threads[next(iter(self.threads))]


def make(host: Host) -> Channel:
    return Email(host, SystemClock())


class Email:
    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._settings = ours = settings_of(host, "email", EmailSettings)
        if not letters.is_address(ours.address):
            raise ChannelError("channels.email.address is no address", fatal=True, cure="write agent@example.org")
        for key, value, known in (("imapTls", ours.imap_tls, IMAP_PORTS), ("smtpTls", ours.smtp_tls, SMTP_PORTS)):
            if value not in known:
                raise ChannelError(f"channels.email.{key} is none of {', '.join(known)}", fatal=True)
        self._note = Note(host.folder, "state.json")
        self._state: State | None = None
        self._mailbox: Mailbox | None = None
        # The IMAP connection belongs to one thread. It lives as long as a connection does.
        self._thread: ThreadPoolExecutor | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        if not self._settings.authserv_id and not self._settings.dangerously_trust_from:
            self._host.troubled(
                "no letter can be taken in, since nobody says who wrote it",
                cure="set channels.email.authservId to the name that your mail server gives itself in Authentication-Results",
            )
        await keep_connected(self._session, self._host, self._clock, first=2.0)

    async def _session(self) -> None:
        self._thread = ThreadPoolExecutor(1, "homarus-imap")
        box, polite = None, False
        try:
            self._state = self._note.load(State) or State()
            box = await self._there(partial(Mailbox, self._settings))
            self._mailbox = box
            self._host.connected(Identity(self._settings.address, self._settings.name, self._settings.address))
            todo = await self._begin(box)
            while True:
                for uid in todo:
                    await self._one(box, uid)
                await self._wait(box)
                todo = await self._there(partial(box.after, self._state.uid))
        except asyncio.CancelledError:
            polite = True
            raise
        except FAILURES as problem:
            raise trouble(self._settings.imap_host, problem) from problem
        finally:
            self._mailbox = None
            thread, self._thread = self._thread, None
            if box is not None:
                # Queued behind whatever the thread still does, which ends within a step.
                await asyncio.shield(asyncio.wrap_future(thread.submit(partial(box.close, politely=polite))))
            thread.shutdown(wait=False)

    async def _there(self, work: Callable[[], Result]) -> Result:
        """Do something with the mailbox, in its thread."""
        if self._thread is None:
            raise EOFError("the connection is gone")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _save(self) -> None:
        await asyncio.to_thread(self._note.write, self._known())

    async def _begin(self, box: Mailbox) -> list[int]:
        """Return the letters that came while we were away; at the very first time, none."""
        state, now = self._known(), self._clock.now()
        if state.validity == box.validity:
            return await self._there(partial(box.after, state.uid))
        missed: list[int] = []
        if state.read_at is not None:
            # The server numbered its letters anew. What is handed over a second time is known by its id.
            missed = await self._there(partial(box.since, (state.read_at - timedelta(days=1)).date()))
        state.validity, state.read_at = box.validity, now
        state.uid = (missed[0] if missed else await self._there(lambda: box.next_uid)) - 1
        await self._save()
        return missed

    async def _wait(self, box: Mailbox) -> None:
        # Servers need not tell of what came before the watch began.
        await self._there(box.ask)
        if await self._there(partial(box.after, self._known().uid)):
            return
        if not await self._there(box.watch):
            await self._clock.sleep(self._settings.poll_seconds)
            await self._there(box.ask)
            return
        end = self._clock.monotonic() + WATCH_SECONDS
        while self._clock.monotonic() < end:
            if await self._there(partial(box.news, STEP_SECONDS)):
                break
        await self._there(box.unwatch)

    def _known(self) -> State:
        if self._state is None:
            self._state = self._note.load(State) or State()
        return self._state

    # -- hearing ----------------------------------------------------------------------------------------------------

    async def _one(self, box: Mailbox, uid: int) -> None:
        """Take one letter in, and only then write down that it was read."""
        state, raw = self._known(), await self._there(partial(box.read, uid))
        if raw is not None:
            taken = await asyncio.to_thread(self._judged, raw, uid)
            if isinstance(taken, str):
                self._host.troubled(taken)
            elif taken is not None:
                inbound, thread = taken
                state.keep(inbound.peer, inbound.thread, thread)
                await self._host.receive(inbound)
                if self._settings.mark_seen:
                    await self._there(partial(box.mark_seen, uid))
        state.uid, state.read_at = uid, self._clock.now()
        await self._save()

    def _judged(self, raw: bytes, uid: int) -> Any:
        """Return a letter with its thread, a sentence on why it is left out, or nothing where that is no news."""
        ours, letter = self._settings, letters.read(raw)
        author = letters.address_of(letter)
        if not author[0]:
            return "a letter without one clear author was left out"
        if author[0] == ours.address.lower():
            return None
        who = single_line(author[0], 100)
        if why := letters.unanswered(letter, author[0]):
            return f"a letter from {who} was left out: {why}" if "reports" in why else None
        if not ours.dangerously_trust_from and not letters.verified(letter, author[0], ours.authserv_id):
            return f"a letter that says to be from {who} was left out: {ours.authserv_id or 'no server'} does not vouch for it"
        inbound = letters.inbound(letter, raw, author, self._host.account, f"{self._known().validity}/{uid}")
        where = letters.threading(letter, raw)
        ids = (*where.before, where.id)
        return inbound, Thread(letters.field(letter, "Subject"), (ids[0], *ids[1:][-letters.MAX_IDS :]), author[0])

    # -- saying -----------------------------------------------------------------------------------------------------

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        theirs = message.to.strip().lower()
        if not letters.is_address(theirs):
            raise refused(f"'{single_line(message.to, 100)}' is no address", "write one address, as alice@example.org")
        state, ours = self._known(), self._settings
        id_ = letters.message_id(key, ours.address)
        thread = state.threads.get(f"{theirs} {message.thread}", Thread(peer=theirs)) if message.thread else Thread()
        if message.reply_to in thread.ids:
            thread = msgspec.structs.replace(thread, ids=thread.ids[: thread.ids.index(message.reply_to) + 1])
        text = piece.plain or piece.text
        letter = letters.letter_for(text, id_, (ours.name, ours.address, theirs), thread, self._clock.now())
        if piece.text and piece.text != text:
            letter.add_alternative(f"<!DOCTYPE html><html><body>{piece.text}</body></html>", subtype="html")
        if piece.file:
            await asyncio.to_thread(_attach, letter, Path(piece.file))
        await asyncio.to_thread(post, ours, letter, theirs)
        kept = Thread(str(letter["Subject"]), (*thread.ids, id_)[-letters.MAX_IDS :], theirs)
        state.keep(theirs, message.thread or id_, kept)
        try:
            await self._save()
        except StorageError as problem:
            self._host.troubled(f"a thread could not be kept: {problem.message}")
        return id_

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        raise refused("a letter cannot be changed")

    async def delete(self, message: Outbound, sent: str) -> None:
        raise refused("a letter cannot be taken back")

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        raise refused("letters have no reactions")

    async def typing(self, message: Outbound) -> None:
        return

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        box = self._mailbox
        if box is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "e-mail: not connected")
        validity, uid, number = (int(word) for word in media.ref.split("/"))
        try:
            raw = await asyncio.to_thread(self._again, uid) if validity == box.validity else None
        except FAILURES as problem:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"e-mail: {reason(problem)}") from problem
        data = await asyncio.to_thread(lambda: letters.file_bytes(letters.read(raw), number)) if raw else None
        if data is None:
            raise refused(f"the letter with {media.name} is gone")
        for piece in each_piece(data):
            yield piece

    def _again(self, uid: int) -> bytes | None:
        """Read a letter over a connection of its own: the first one may be waiting for news."""
        box = Mailbox(self._settings)
        try:
            return box.read(uid)
        finally:
            box.close(politely=True)

    async def probe(self) -> Identity:
        def both() -> None:
            Mailbox(self._settings).close(politely=True)
            try:
                smtp(self._settings).quit()
            except FAILURES as problem:
                raise trouble(self._settings.smtp_host, problem) from problem

        await asyncio.to_thread(both)
        return Identity(self._settings.address, self._settings.name, self._settings.address)

    async def directory(self, query: str) -> list[Identity]:
        people = dict.fromkeys(thread.peer for thread in self._known().threads.values() if thread.peer)
        return [Identity(one, "", one) for one in people if query.lower() in one]


def _attach(letter: Any, path: Path) -> None:
    kind, _, minor = (mimetypes.guess_type(path.name)[0] or "application/octet-stream").partition("/")
    try:
        letter.add_attachment(path.read_bytes(), maintype=kind, subtype=minor, filename=single_line(path.name, 200))
    except OSError as problem:
        raise refused(f"{path.name} cannot be read: {problem.strerror}") from problem
