"""A small IRC server with what the real ones of the tests lack: SASL, ids and echoes of messages, and bad manners on demand."""

from __future__ import annotations

import asyncio
import base64
from typing import Self

from homarus.channels.irc import wire
from homarus.channels.irc.wire import Line


class Server:
    def __init__(self, caps: str = "", passwords: dict[str, str] | None = None) -> None:
        self.caps = caps
        self.passwords = passwords or {}
        self.taken: set[str] = set()
        self.support = "CASEMAPPING=rfc1459 CHANTYPES=#&"
        self.heard: list[Line] = []
        self.longest = 0
        self.deaf = False  # hears and answers nothing any more
        self.refuse: dict[str, str] = {}  # target -> number
        self.words, self.refuse_most, self.refused = "No", 1000, 0
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self._sent = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.drop()
        await self._server.wait_closed()

    def drop(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    def push(self, text: str) -> None:
        for writer in self.writers:
            writer.write(text.encode() + b"\r\n")

    def said(self, command: str) -> list[Line]:
        return [line for line in self.heard if line.command == command]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        client = _Client(self, writer)
        try:
            while raw := await reader.readline():
                self.longest = max(self.longest, len(raw.partition(b" ")[2] if raw.startswith(b"@") else raw))
                line = wire.parse(raw.rstrip(b"\r\n"))
                if line is not None:
                    self.heard.append(line)
                    if not self.deaf:
                        client.take(line)
        except ConnectionError:
            pass
        finally:
            writer.close()


class _Client:
    def __init__(self, server: Server, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self._writer = writer
        self.nick, self.user, self.negotiating, self.registered = "*", "", False, False
        self.answer = ""

    def say(self, text: str) -> None:
        self._writer.write(text.encode() + b"\r\n")

    @property
    def mask(self) -> str:
        return f"{self.nick}!{self.user}@host.example"

    def take(self, line: Line) -> None:
        action = getattr(self, f"do_{line.command.lower()}", None)
        if action:
            action(line)
        if not self.registered and self.nick != "*" and self.user and not self.negotiating:
            self.registered = True
            self.say(f":irc.test 001 {self.nick} :Welcome")
            self.say(f":irc.test 005 {self.nick} {self.server.support} :are supported by this server")
            self.say(f":irc.test 376 {self.nick} :End of MOTD")

    def do_cap(self, line: Line) -> None:
        if line.param(0) == "LS" and self.server.caps:
            self.negotiating = True
            first, _, rest = self.server.caps.partition(" ")
            self.say(f":irc.test CAP * LS * :{first}")
            self.say(f":irc.test CAP * LS :{rest}")
        elif line.param(0) == "REQ":
            self.say(f":irc.test CAP * ACK :{line.last}")
        elif line.param(0) == "END":
            self.negotiating = False

    def do_authenticate(self, line: Line) -> None:
        if line.last in {"PLAIN", "EXTERNAL"}:
            self.answer = ""
            self.say("AUTHENTICATE +")
            return
        self.answer += "" if line.last == "+" else line.last
        if len(line.last) == 400:
            return
        parts = base64.b64decode(self.answer).decode().split("\0")
        external = not self.answer and not self.server.passwords
        if external or (len(parts) == 3 and self.server.passwords.get(parts[1]) == parts[2]):
            self.say(f":irc.test 900 * * {parts[-2] if len(parts) > 1 else 'cert'} :You are now logged in")
            self.say(":irc.test 903 * :SASL authentication successful")
        else:
            self.say(":irc.test 904 * :SASL authentication failed")

    def do_nick(self, line: Line) -> None:
        if line.last in self.server.taken:
            self.say(f":irc.test 433 {self.nick} {line.last} :Nickname is already in use")
            return
        if self.registered:
            self.say(f":{self.mask} NICK {line.last}")
        self.nick = line.last

    def do_user(self, line: Line) -> None:
        self.user = line.param(0)

    def do_ping(self, line: Line) -> None:
        self.say(f":irc.test PONG irc.test {line.last}")

    def do_join(self, line: Line) -> None:
        if number := self.server.refuse.get(line.param(0)):
            self.say(f":irc.test {number} {self.nick} {line.param(0)} :Cannot join")
        else:
            self.say(f":{self.mask} JOIN {line.param(0)}")

    def do_names(self, line: Line) -> None:
        self.say(f":irc.test 353 {self.nick} = {line.param(0)} :@Alice +bob {self.nick}")
        self.say(f":irc.test 366 {self.nick} {line.param(0)} :End")

    def do_privmsg(self, line: Line) -> None:
        if number := self.server.refuse.get(line.param(0)):
            self.server.refused += 1
            about = "PRIVMSG" if number == "263" else line.param(0)
            if self.server.refused <= self.server.refuse_most:
                self.say(f":irc.test {number} {self.nick} {about} :{self.server.words}")
        elif "echo-message" in self.server.caps:
            self.server._sent += 1
            self.say(f"@msgid=m{self.server._sent} :{self.mask} PRIVMSG {line.param(0)} :{line.last}")
