"""One connection to an IRC server: registration, what the server says of itself, pacing, and lines that are known to have arrived.

It knows nothing of messages to the agent; every line that is not about the connection goes to `handle`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping

from homarus.channels.irc import wire
from homarus.channels.irc.wire import Line
from homarus.channels.support import Block, reason, refused, secret, tls_context
from homarus.core.clock import Clock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.patterns import late
from homarus.core.text import single_line

WANTED = ("message-tags", "server-time", "echo-message", "account-tag", "chghost")
CONNECT_SECONDS, ANSWER_SECONDS, SILENCE_SECONDS = 60.0, 60.0, 120.0
NICK_TRIES = 5
# Numbers of a server that say why a message did not arrive: no such nick, channel or recipient, not allowed to, over a limit.
REFUSALS = frozenset(
    (401, 402, 403, 404, 405, 407, 408, 411, 412, 413, 414, 415, 416, 417, 442, 461, 477, 482, 486, 492, 531, 716)
)
HURRIED = frozenset((263, 439))
HURRIED_SECONDS = 30.0  # where the server does not say for how long to wait
_SECONDS = late(r"\b(\d{1,4})\s*s(?:ec(?:ond)?s?)?\b")


class Sasl(Block, frozen=True):
    enabled: bool = True
    mechanism: str = "PLAIN"
    username: str = ""
    password: str = ""
    password_file: str = ""


class NickServ(Block, frozen=True):
    enabled: bool = True
    service: str = "NickServ"
    password: str = ""
    password_file: str = ""
    register: bool = False
    register_email: str = ""


class IrcSettings(Block, frozen=True):
    """`channels.irc`, as far as this adapter reads it."""

    host: str
    nick: str
    port: int = 0
    tls: bool = True
    username: str = ""
    realname: str = ""
    password: str = ""
    password_file: str = ""
    channels: tuple[str, ...] = ()
    sasl: Sasl | None = None
    nickserv: NickServ = NickServ()
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    sender_identity: str = "hostmask"
    line_burst: int = 5
    line_seconds: float = 2.0
    formatting: str = "plain"


class Pace:
    """At most `burst` lines at once, and one more every `seconds`: servers throw out whoever is faster."""

    def __init__(self, clock: Clock, burst: int, seconds: float) -> None:
        self._clock = clock
        self._ahead = max(0, burst - 1) * seconds
        self._seconds = seconds
        self._free = clock.monotonic() - self._ahead

    async def take(self) -> None:
        now = self._clock.monotonic()
        self._free = max(self._free, now - self._ahead) + self._seconds
        if (wait := self._free - self._seconds - now) > 0:
            await self._clock.sleep(wait)


class Connection:
    """From the first byte to the last of one TCP connection. `serve` reads it; `say` and `ask` may be called meanwhile."""

    def __init__(self, settings: IrcSettings, clock: Clock, handle: Callable[[Line], None]) -> None:
        self.settings = settings
        self.nick = settings.nick
        self.caps: set[str] = set()
        self.supports: dict[str, str] = {}
        self.logged_in = False
        self.ready = False
        self._clock = clock
        self._handle = handle
        self._prefix = ""
        self._offered: dict[str, str] = {}
        self._pace = Pace(clock, settings.line_burst, settings.line_seconds)
        self._turn = asyncio.Lock()
        self._tokens = 0
        self._awaited: dict[str, asyncio.Future[None]] = {}
        self._target = ""
        self._refusals: list[Line] = []
        self._echoed: list[str] = []
        self._listeners: list[Callable[[Line], None]] = []
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    # -- life -------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect and register. Raises `ChannelError`, fatal where the server will say no again."""
        ours = self.settings
        context = tls_context(ours.ca_file, ours.cert_file, ours.key_file) if ours.tls else None
        port = ours.port or (6697 if ours.tls else 6667)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._reader, self._writer = await asyncio.open_connection(
                    ours.host, port, ssl=context, server_hostname=ours.host if context else None
                )
        except (OSError, TimeoutError, UnicodeError) as problem:
            cure = "check host, port and tls" if not isinstance(problem, TimeoutError) else ""
            raise ChannelError(f"cannot reach {ours.host}:{port}: {reason(problem)}", cure=cure) from problem
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._register()
        except TimeoutError:
            raise ChannelError(f"{ours.host}:{port} did not finish the registration in time") from None

    async def close(self, farewell: str = "") -> None:
        """Say goodbye where there is somebody to hear it, and let go."""
        if not hasattr(self, "_writer"):
            return
        self.ready = False
        for waiting in self._awaited.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the connection is gone"))
                waiting.exception()  # it is noticed where it is awaited, or nobody waits
        self._awaited.clear()
        try:
            if farewell and not self._writer.is_closing():
                self.write("QUIT", farewell)
                async with asyncio.timeout(1):
                    await self._writer.drain()
        except (OSError, TimeoutError):
            pass
        self._writer.transport.abort() if not farewell else self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    async def serve(self) -> None:
        """Read until the connection ends; a server that falls silent is asked for a sign of life."""
        asked = False
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    line = await self._next()
            except TimeoutError:
                if asked:
                    raise ChannelError("the server does not answer any more") from None
                asked = True
                self.write("PING", "alive")
                continue
            if line is None:
                return
            asked = False
            self._take(line)

    # -- saying things ----------------------------------------------------------------------------------------------

    def write(self, command: str, *params: str, tags: Mapping[str, str] | None = None) -> None:
        self._writer.write(wire.line(command, *params, tags=tags))

    async def post(self, command: str, *params: str) -> None:
        """Send one line at the pace that servers bear."""
        await self._pace.take()
        self.write(command, *params)

    async def say(self, target: str, text: str, tags: Mapping[str, str] | None = None) -> str:
        """Send a text and return its id once the server went through it; '' where the server gives none.

        A ping behind the text comes back after every complaint about it, so that its answer says that all is well.
        """
        codes = wire.CODES if self.settings.formatting == "codes" else ""
        lines = wire.split(text, self.room(target), codes)
        async with self._turn:
            self._target, self._refusals, self._echoed = self.fold(target), [], []
            written = False
            try:
                for number, part in enumerate(lines):
                    await self._pace.take()
                    self.write("PRIVMSG", target, part, tags=None if number else tags)
                    written = True
                    await self._writer.drain()
                await self.barrier()
            except (OSError, TimeoutError) as problem:
                kind = DeliveryFailure.UNKNOWN if written else DeliveryFailure.TRANSIENT
                raise DeliveryError(kind, f"IRC: {reason(problem)}") from problem
            finally:
                self._target = ""
            if self._refusals:
                raise _refusal(self._refusals, len(lines))
            return self._echoed[-1] if self._echoed else ""

    async def barrier(self) -> None:
        """Wait until the server went through all that was sent so far."""
        if not self.ready:
            raise ConnectionResetError("the connection is gone")
        self._tokens += 1
        token = f"homarus-{self._tokens}"
        waiting = self._awaited[token] = asyncio.get_running_loop().create_future()
        try:
            await self._pace.take()
            self.write("PING", token)
            async with asyncio.timeout(ANSWER_SECONDS):
                await waiting
        finally:
            self._awaited.pop(token, None)

    async def ask(self, command: str, *params: str) -> list[Line]:
        """Return all that the server says until it went through a question."""
        heard: list[Line] = []
        async with self._turn:
            self._listeners.append(heard.append)
            try:
                await self.post(command, *params)
                await self.barrier()
            finally:
                self._listeners.remove(heard.append)
        return heard

    def room(self, target: str) -> int:
        """Return how many bytes of text one message to `target` holds; the longest prefix counts until ours is known."""
        longest = f"{self.nick}!~{'u' * self._length('USERLEN', 10)}@{'h' * self._length('HOSTLEN', 63)}"
        return wire.room_for(target, self._prefix or longest)

    def fold(self, name: str) -> str:
        return wire.fold(name, self.supports.get("CASEMAPPING", "rfc1459"))

    def is_channel(self, target: str) -> bool:
        return target[:1] != "" and target[0] in self.supports.get("CHANTYPES", "#&+!")

    def _length(self, name: str, least: int) -> int:
        given = self.supports.get(name, "")
        return max(least, min(int(given), 255)) if given.isdecimal() else least

    # -- hearing ----------------------------------------------------------------------------------------------------

    async def _next(self) -> Line | None:
        """Return the next line; None at the end of the connection."""
        whole = True
        while True:
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return None
            except asyncio.LimitOverrunError as problem:
                await self._reader.readexactly(problem.consumed)
                whole = False  # no server sends such a line, and its end is none
                continue
            if whole and (line := wire.parse(raw.rstrip(b"\r\n"))):
                return line
            whole = True

    def _take(self, line: Line) -> None:
        command = line.command
        if command == "PING":
            self.write("PONG", line.last)
        elif command == "PONG":
            if (waiting := self._awaited.get(line.last)) and not waiting.done():
                waiting.set_result(None)
        elif command == "005":
            for word in line.params[1:-1]:
                name, _, value = word.partition("=")
                self.supports[name] = value
        elif command == "ERROR":
            raise ChannelError(f"the server closed the connection: {single_line(line.last)}")
        elif command == "396":
            self._prefix = ""  # another host from now on; the longest counts until it was seen
        elif self._target and command.isdecimal() and int(command) in REFUSALS | HURRIED and self._is_about(line):
            self._refusals.append(line)
        self._follow(line)
        for listener in self._listeners:
            listener(line)
        self._handle(line)

    def _follow(self, line: Line) -> None:
        """Keep our own name and prefix, and the ids of what we said."""
        if not line.source or self.fold(line.nick) != self.fold(self.nick):
            return
        if "!" in line.source:
            self._prefix = line.source
        if line.command == "NICK":
            self.nick = line.last
            self._prefix = self._prefix and f"{self.nick}!{self._prefix.partition('!')[2]}"
        elif line.command == "CHGHOST":
            self._prefix = f"{self.nick}!{line.param(0)}@{line.param(1)}"
        elif line.command == "PRIVMSG" and self.fold(line.param(0)) == self._target and line.tags.get("msgid"):
            self._echoed.append(line.tags["msgid"])

    def _is_about(self, line: Line) -> bool:
        # Numbers that name nobody (no text to send, too many targets) are about what was just sent; 263 names the command.
        if line.command == "263":
            return line.param(1).upper() == "PRIVMSG"
        return self._target in {self.fold(word) for word in line.params[1:-1]} or len(line.params) <= 2

    # -- registration -----------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        ours = self.settings
        try:
            self.write("CAP", "LS", "302")
            if password := secret(ours.password, ours.password_file, "password"):
                self.write("PASS", password)
            self.write("NICK", self.nick)
            self.write("USER", ours.username or self.nick, "0", "*", ours.realname or ours.nick)
        except ValueError as problem:
            raise ChannelError(
                f"channels.irc: nick, username, realname or password cannot be sent: {problem}", fatal=True
            ) from None
        tries = 0
        while line := await self._next():
            if line.command == "001":
                if self._wants_sasl() and not self.logged_in:
                    raise ChannelError("the server offers no SASL", fatal=True, cure="remove channels.irc.sasl")
                self.nick = line.param(0) or self.nick
                self.ready = True
                self._take(line)
                return
            if line.command in {"433", "436", "437"} or (line.command == "432" and tries):
                tries += 1
                if tries > NICK_TRIES:
                    raise ChannelError(f"the nick {ours.nick} and its variants are taken", cure="choose another nick")
                self.nick = f"{ours.nick}_" if tries == 1 else f"{ours.nick[:8]}{tries}"
                self.write("NICK", self.nick)
            else:
                self._step(line)
        raise ChannelError("the server closed the connection during the registration")

    def _step(self, line: Line) -> None:
        """Take one line of the registration."""
        command, cure = line.command, ""
        if command == "CAP":
            self._negotiate(line)
        elif command == "AUTHENTICATE":
            self._authenticate()
        elif command in {"900", "903", "907"}:
            self.logged_in = True
            if command != "900":
                self.write("CAP", "END")
        elif command in {"902", "904", "905", "906", "908", "432", "464", "465"}:
            cure = {"432": "choose another nick", "464": "correct channels.irc.password", "465": ""}.get(
                command, "correct channels.irc.sasl"
            )
            raise ChannelError(f"the server refuses us: {single_line(line.last)}", fatal=True, cure=cure)
        else:
            self._take(line)

    def _wants_sasl(self) -> bool:
        return self.settings.sasl is not None and self.settings.sasl.enabled

    def _negotiate(self, line: Line) -> None:
        kind = line.param(1).upper()
        if kind == "LS":
            for word in line.last.split():
                name, _, value = word.partition("=")
                self._offered[name] = value
            if line.param(2) == "*" and len(line.params) > 3:
                return  # more follows
            wanted = [name for name in (*WANTED, *(["sasl"] if self._wants_sasl() else [])) if name in self._offered]
            self.write("CAP", "REQ", " ".join(wanted)) if wanted else self.write("CAP", "END")
        elif kind == "ACK":
            self.caps |= {name.lstrip("-~=") for name in line.last.split() if not name.startswith("-")}
            sasl = self.settings.sasl
            if sasl and "sasl" in self.caps and not self.logged_in:
                self.write("AUTHENTICATE", sasl.mechanism.upper())
            else:
                self.write("CAP", "END")
        elif kind == "NAK":
            self.write("CAP", "END")

    def _authenticate(self) -> None:
        sasl = self.settings.sasl or Sasl()
        answer = b""
        if sasl.mechanism.upper() == "PLAIN":
            name = sasl.username or self.settings.nick
            password = secret(sasl.password, sasl.password_file, "sasl.password")
            answer = b"\0".join([name.encode(), name.encode(), password.encode()])
        for piece in sasl_pieces(answer):
            self.write("AUTHENTICATE", piece)


def sasl_pieces(answer: bytes) -> list[str]:
    """Return an answer in pieces of 400 characters; one that fills its last piece is closed by a `+`, as is an empty one."""
    text = base64.b64encode(answer).decode()
    pieces = [text[at : at + 400] for at in range(0, len(text), 400)]
    return pieces if pieces and len(pieces[-1]) < 400 else [*pieces, "+"]


def _refusal(refusals: list[Line], said: int) -> DeliveryError:
    """Return what became of a text of so many lines. What was shown in part must not come again from its beginning."""
    line = refusals[-1]
    what = f"IRC: {single_line(line.last)} ({line.command})"
    if int(line.command) not in HURRIED:
        return refused(what)
    if len(refusals) < said:
        return DeliveryError(DeliveryFailure.UNKNOWN, f"{what}, and some lines of it went through")
    told = _SECONDS.search(line.last)
    return DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=float(told[1]) if told else HURRIED_SECONDS)
