"""IRC as a channel: who said what where becomes an `Inbound`, and a piece becomes lines that a server passes on whole."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

from homarus.channels.channel import Change, Channel, Host, Identity
from homarus.channels.irc import wire
from homarus.channels.irc.connection import Connection, IrcSettings
from homarus.channels.irc.wire import Line
from homarus.channels.support import Note, is_named, keep_connected, refused, secret, settings_of, side_by_side
from homarus.core.clock import Clock, SystemClock, epoch_ms
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Inbound, Media, Outbound, Quote
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.delivery.place import Piece

WAITING = 5000  # messages that wait to be kept: one who floods crowds nobody else out
REMEMBERED = 500
REJOIN_SECONDS, REJOIN_MOST, SPLIT_SECONDS = 60.0, 3600.0, 600.0
GHOST_SECONDS = 2.0  # until the services have put out whoever has our nick
TALKING_MS, TALKERS = 600_000, 20  # who had an answer of ours in this time is told of a gap, so many at most
AGAIN_MS = 15_000  # a program that falls again and again tells nobody faster than this
GAP = (
    "⚠️ My connection broke off a while ago. What you wrote to me since then may not have reached me: "
    "if I did not answer it, please say it again."
)
# No list of targets, no mask, no status message, nothing that begins a text.
_TARGET = late(r"[^\x00-\x20\x7f,:$@%~*?][^\x00-\x20\x7f,*?]*")
_NO_JOIN = frozenset(("403", "405", "407", "437", "471", "473", "474", "475", "476", "477", "489", "520"))


def make(host: Host) -> Channel:
    return Irc(host, SystemClock())


class Gaps:
    """Who was talking to us when a connection ended without a farewell. IRC keeps nothing for somebody who is away and tells
    nobody that a line was not read, so they are told that theirs may be lost. It survives the process."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._note, self._clock = Note(folder, "talking.json"), clock
        held = self._note.read()
        chats = held.get("chats")
        self._open = held.get("open") is True
        # For each chat: when it had our last word, since when it is to be told of a gap, when it was told of one.
        self._chats: dict[str, list[int]] = {
            str(chat): [*map(int, row)]
            for chat, row in (chats.items() if isinstance(chats, dict) else ())
            if isinstance(row, list) and len(row) == 3 and all(isinstance(value, int) for value in row)
        }

    def _write(self) -> None:
        self._note.write({"open": self._open, "chats": self._chats})

    @property
    def _now(self) -> int:
        return epoch_ms(self._clock.now())

    def opened(self) -> None:
        now = self._now
        for row in self._chats.values() if self._open else ():
            if not row[1] and now - row[0] < TALKING_MS:
                row[1] = now
        self._chats = {chat: row for chat, row in self._chats.items() if row[1] or now - row[0] < TALKING_MS}
        self._open = True
        self._write()

    def closed(self) -> None:
        """A farewell was said, and all that was heard is kept."""
        self._open = False
        self._write()

    def spoke(self, chat: str) -> None:
        row, now = self._chats.setdefault(chat, [0, 0, 0]), self._now
        if now - row[0] > TALKING_MS // 10:
            row[0] = now
            while len(self._chats) > TALKERS:
                del self._chats[min(self._chats, key=lambda name: self._chats[name][0])]
            self._write()

    def due(self) -> tuple[list[str], float]:
        """Return who is to be told now, and in how many seconds to look again; 0 for not at all."""
        now, owed = self._now, {chat: row for chat, row in self._chats.items() if row[1]}
        ready = [chat for chat, row in owed.items() if now - row[2] >= AGAIN_MS]
        later = [row[2] + AGAIN_MS - now for chat, row in owed.items() if chat not in ready]
        return ready, min(later, default=0) / 1000

    def told(self, chat: str) -> None:
        self._chats[chat][1:] = [0, self._now]
        self._write()


class Irc:
    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._settings = settings_of(host, "irc", IrcSettings)
        if self._settings.sender_identity not in {"hostmask", "account"}:
            raise ChannelError("channels.irc.senderIdentity is neither 'hostmask' nor 'account'", fatal=True)
        if self._settings.formatting not in {"plain", "codes"}:
            raise ChannelError("channels.irc.formatting is neither 'plain' nor 'codes'", fatal=True)
        self._line: Connection | None = None
        self._heard: asyncio.Queue[Inbound | Change] = asyncio.Queue(WAITING)
        self._keeping = False
        self._joined: set[str] = set()
        self._said: deque[str] = deque(maxlen=REMEMBERED)
        # People whom a netsplit took, and when: they come back.
        self._split: dict[str, float] = {}
        # Ids of our own making are good for one connection, where the server gives none.
        self._epoch, self._count = "", 0
        self._gaps = Gaps(host.folder, clock)

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await side_by_side(keep_connected(self._session, self._host, self._clock), self._keep())

    async def _session(self) -> None:
        services = self._settings.nickserv
        password = secret(services.password, services.password_file, "nickserv.password") if services.enabled else ""
        line = Connection(self._settings, self._clock, self._take)
        self._epoch, self._count = os.urandom(6).hex(), 0
        self._joined.clear()
        farewell, tending = "", list[asyncio.Task[None]]()
        try:
            await line.open()
            self._line = line
            self._gaps.opened()
            self._host.connected(Identity(line.nick, line.nick, line.nick))
            tending = [asyncio.create_task(work) for work in (self._tend(line, password), self._tell_of_gap(line))]
            await line.serve()
        except asyncio.CancelledError:
            farewell = "bye"
            raise
        finally:
            self._line = None
            for task in tending:
                task.cancel()
            await asyncio.gather(*tending, return_exceptions=True)
            await line.close(farewell)
            if farewell and self._heard.empty() and not self._keeping:
                self._gaps.closed()

    async def _tell_of_gap(self, line: Connection) -> None:
        """Tell whoever was talking to us that something of it may be lost. In rooms they saw us go."""
        try:
            while True:
                ready, again = self._gaps.due()
                for chat in ready:
                    await line.post("NOTICE", chat, GAP)
                    await line.barrier()
                    self._gaps.told(chat)
                if not again and not ready:
                    return
                await self._clock.sleep(again)
        except (OSError, TimeoutError, ValueError):
            return  # it is still to be told, at the next connection

    async def _tend(self, line: Connection, password: str) -> None:
        """Log in to the services, join, and later join again and take our nick back, as long as the connection holds."""
        try:
            await line.barrier()  # now all is known that the server says of itself
            if mode := line.supports.get("BOT"):
                await line.post("MODE", line.nick, f"+{mode}")
            if password and not line.logged_in:
                await self._identify(line, password)
            pause = REJOIN_SECONDS
            while True:
                if line.fold(line.nick) != line.fold(self._settings.nick):
                    if password:
                        ghost = f"GHOST {self._settings.nick} {password}"
                        await line.post("PRIVMSG", self._settings.nickserv.service, ghost)
                        await self._clock.sleep(GHOST_SECONDS)
                    await line.post("NICK", self._settings.nick)
                rooms = [room.split()[:2] for room in self._settings.channels if room.strip()]
                missing = [room for room in rooms if line.fold(room[0]) not in self._joined]
                for room in missing:
                    await line.post("JOIN", *room)
                await self._clock.sleep(pause)
                pause = min(pause * 2, REJOIN_MOST) if missing else REJOIN_SECONDS
        except ValueError as problem:
            self._host.troubled(f"cannot join or log in: {problem}", cure="look at channels.irc.channels and nickserv")
        except (OSError, TimeoutError):
            return  # the connection is gone, which its reader tells

    async def _identify(self, line: Connection, password: str) -> None:
        services = self._settings.nickserv
        if services.register and services.register_email:
            await line.post("PRIVMSG", services.service, f"REGISTER {password} {services.register_email}")
        # Under another nick than the registered one, the service must be told whose password it is.
        whose = "" if line.fold(line.nick) == line.fold(self._settings.nick) else f"{self._settings.nick} "
        await line.post("PRIVMSG", services.service, f"IDENTIFY {whose}{password}")

    async def _keep(self) -> None:
        """Hand over what was heard, in order. What cannot be kept waits here, since nobody will say it again."""
        while True:
            heard = await self._heard.get()
            self._keeping, pause = True, 1.0
            while self._keeping:
                try:
                    if isinstance(heard, Change):
                        await self._host.changed(heard)
                    else:
                        await self._host.receive(heard)
                    self._keeping = False
                except (HomarusError, OSError) as problem:
                    self._host.troubled(f"a message could not be kept: {single_line(str(problem))}")
                    await self._clock.sleep(pause)
                    pause = min(pause * 2, 60.0)

    # -- hearing ----------------------------------------------------------------------------------------------------

    def _take(self, heard: Line) -> None:
        line = self._line
        if line is None:
            return
        ours = line.fold(heard.nick) == line.fold(line.nick)
        command, room = heard.command, line.fold(heard.param(0))
        if command == "PRIVMSG" and "!" in heard.source and not ours:
            if found := self._inbound(line, heard):
                self._put(found)
        elif command == "JOIN" and ours:
            self._joined.add(room)
            self._put(Change("joined", "irc", room, account=self._host.account, chat_type="group"))
        elif command == "NICK" and line.fold(heard.last) == line.fold(line.nick):
            self._host.connected(Identity(line.nick, line.nick, line.nick))
        elif (command == "PART" and ours) or (command == "KICK" and line.fold(heard.param(1)) == line.fold(line.nick)):
            self._joined.discard(room)
            self._put(Change("left", "irc", room, account=self._host.account, chat_type="group"))
            if command == "KICK":
                self._host.troubled(f"kicked out of {single_line(room, 60)}: {single_line(heard.last, 100)}")
        elif command in _NO_JOIN and len(heard.params) > 2 and line.is_channel(heard.param(1)):
            self._host.troubled(f"cannot join {single_line(heard.param(1), 60)}: {single_line(heard.last, 100)}")
        elif command == "QUIT" and wire.is_netsplit(heard.last):
            now = self._clock.monotonic()
            self._split = {nick: gone for nick, gone in self._split.items() if now - gone < SPLIT_SECONDS}
            if len(self._split) < REMEMBERED:
                self._split[line.fold(heard.nick)] = now

    def _put(self, heard: Inbound | Change) -> None:
        try:
            self._heard.put_nowait(heard)
        except asyncio.QueueFull:
            self._host.troubled(f"more than {WAITING} messages wait to be kept; new ones are lost")

    def _inbound(self, line: Connection, heard: Line) -> Inbound | None:
        text = heard.last
        if text.startswith("\x01"):
            command, _, rest = text.strip("\x01").partition(" ")
            if command.upper() != "ACTION":
                return None  # questions of programs to programs
            text = f"* {heard.nick} {rest}"
        text = wire.unstyled(text).strip()
        if not text:
            return None
        nick, account = line.fold(heard.nick), heard.tags.get("account", "")
        target = heard.param(0)
        # A message to those who speak in a channel (`@#room`) belongs to that channel.
        bare = target.lstrip(line.supports.get("STATUSMSG", "")) if line.supports.get("STATUSMSG") else target
        group = line.is_channel(bare)
        answers = heard.tags.get("+draft/reply", "") or heard.tags.get("+reply", "")
        self._count += 1
        by_account = self._settings.sender_identity == "account" and account not in {"", "*"}
        return Inbound(
            id=heard.tags.get("msgid", "") or f"{self._epoch}-{self._count}",
            channel="irc",
            text=text,
            sender=f"account:{account}" if by_account else f"{nick}!{heard.source.partition('!')[2]}",
            sender_name=heard.nick,
            handle=heard.nick,
            account=self._host.account,
            peer=line.fold(bare) if group else nick,
            chat_type="group" if group else "direct",
            timestamp=self._moment(heard),
            mentioned=group and is_named(line.fold(text), line.fold(line.nick)),
            # Servers give the mark names of their own (`draft/bot`); what clients put in begins with a plus.
            from_bot=any(name.rpartition("/")[2] == "bot" for name in heard.tags if not name.startswith("+")),
            reply_to=answers,
            quote=Quote(answers, ours=answers in self._said) if answers else None,
            facts={"account": account} if account else None,
        )

    def _moment(self, heard: Line) -> int:
        try:
            return epoch_ms(datetime.fromisoformat(heard.tags["time"]))
        except (KeyError, ValueError, OverflowError):
            return epoch_ms(self._clock.now())

    # -- saying -----------------------------------------------------------------------------------------------------

    def _up(self) -> Connection:
        if self._line is None or not self._line.ready:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "IRC: not connected")
        return self._line

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        line = self._up()
        target = address(message.to)
        if piece.file:
            raise refused("IRC carries no files", "put the file where it has an address, and send that")
        tags = {"+draft/reply": message.reply_to} if message.reply_to and "message-tags" in line.caps else None
        if tags and f"{self._epoch}-" in message.reply_to:
            tags = None  # an id of our own making says nothing to others
        try:
            text = piece.text if self._settings.formatting == "codes" else piece.plain or piece.text
            sent = await line.say(target, text, tags)
        except ValueError as problem:
            raise refused(f"IRC: {problem}") from None
        except DeliveryError as problem:
            gone = self._split.get(line.fold(target))
            if problem.kind is DeliveryFailure.REFUSED and gone is not None:
                raise DeliveryError(
                    DeliveryFailure.TRANSIENT, f"{problem.message}, lost in a netsplit", retry_after=60.0
                ) from None
            raise
        self._said.append(sent or key)
        if not line.is_channel(target):
            self._gaps.spoke(line.fold(target))
        return sent or key

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        raise refused("IRC cannot change what was said")

    async def delete(self, message: Outbound, sent: str) -> None:
        raise refused("IRC cannot take back what was said")

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        raise refused("IRC has no reactions")

    async def typing(self, message: Outbound) -> None:
        line = self._line
        if line is None or "message-tags" not in line.caps or "*" in line.supports.get("CLIENTTAGDENY", ""):
            return
        try:
            line.write("TAGMSG", address(message.to), tags={"+typing": "active"})
        except (DeliveryError, ValueError, OSError):
            return

    def fetch(self, media: Media) -> AsyncIterator[bytes]:
        raise refused("IRC carries no files")

    async def probe(self) -> Identity:
        line = self._line
        if line is not None:
            await line.ask("WHOIS", line.nick)
            return Identity(line.nick, line.nick, line.nick)
        line = Connection(self._settings, self._clock, lambda _: None)
        try:
            await line.open()
            return Identity(line.nick, line.nick, line.nick)
        finally:
            await line.close("bye")

    async def directory(self, query: str) -> list[Identity]:
        """Return the rooms we are in, and who is there."""
        line = self._up()
        found = {room: Identity(room, room) for room in sorted(self._joined)}
        signs = line.supports.get("PREFIX", "(ov)@+").partition(")")[2]
        for room in sorted(self._joined):
            for reply in await line.ask("NAMES", room):
                if reply.command == "353":
                    for name in reply.last.split():
                        nick = name.lstrip(signs).partition("!")[0]
                        found.setdefault(line.fold(nick), Identity(line.fold(nick), nick, nick))
        found.pop(line.fold(line.nick), None)
        return [one for one in found.values() if query.lower() in one.id.lower()]


def address(to: str) -> str:
    """Return a nick or channel that a message can go to; raises for what would reach somebody else, or many."""
    target = to.partition("!")[0]
    if not _TARGET.fullmatch(target):
        raise refused(f"'{single_line(to, 60)}' is no nick and no channel of IRC", "write #channel or a nick")
    return target
