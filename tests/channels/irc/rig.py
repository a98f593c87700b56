"""IRC for the contract: ngircd, and people with terminals."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.channels.platform_host import until
from tests.live.chat_servers import Wire, ngircd

from homarus.channels.discovery import load_entry, manifests
from homarus.channels.irc import wire

ROOM = "#kitchen"


class Person:
    """Somebody with a terminal."""

    def __init__(self, port: int, nick: str) -> None:
        self.port, self.nick = port, nick
        self.seen: list[wire.Line] = []
        self.longest = 0

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.type(f"NICK {self.nick}", f"USER {self.nick} 0 * :{self.nick}")
        self._task = asyncio.create_task(self._read())
        await until(lambda: [line for line in self.seen if line.command in {"376", "422"}])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def type(self, *lines: str) -> None:
        self._writer.write("".join(f"{line}\r\n" for line in lines).encode())

    def said(self, by: str, to: str = "") -> list[str]:
        found = [line for line in self.seen if line.command == "PRIVMSG" and line.nick == by]
        return [line.last for line in found if not to or line.param(0) == to]

    def notices(self, by: str) -> list[str]:
        return [line.last for line in self.seen if line.command == "NOTICE" and line.nick == by]

    async def _read(self) -> None:
        while raw := await self._reader.readline():
            self.longest = max(self.longest, len(raw))
            line = wire.parse(raw.rstrip(b"\r\n"))
            if line and line.command == "PING":
                self.type(f"PONG :{line.last}")
            elif line:
                self.seen.append(line)


class Hurried(Wire):
    """A wire on which the next so many messages are refused, as servers do that bear only so many recipients in a time."""

    hurried = 0

    async def _upward(
        self, reader: asyncio.StreamReader, out: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                said = wire.parse(line.rstrip(b"\r\n"))
                if self.hurried and said and said.command == "PRIVMSG":
                    self.hurried -= 1
                    words = "Target change too fast. Please wait 0 seconds."
                    back.write(f":irc.example.net 439 helper {said.param(0)} :{words}\r\n".encode())
                    continue
                out.write(line)
                await out.drain()
        self._open.discard(out)
        out.close()


class IrcRig:
    features = frozenset({"group", "mention", "drop", "busy"})
    wrong: dict[str, Any] = {}
    without = {
        "login": "ngircd knows no accounts; a wrong password is in test_adapter, and at real services in tests/live",
        "thread": "it has no threads",
        "edit": "what was said stays said",
        "react": "it has no reactions",
        "media": "it carries no files",
        "fail": "a server that fails closes the connection: it has no number for that",
        "repeat": "no line comes twice",
        "forward": "it does not say that words were passed on",
        "bots": "ngircd marks no programs; inspircd does, see tests/live/test_irc.py",
    }

    def __init__(
        self, folder: Path, server: Callable[[Path], Any] = ngircd, more: frozenset[str] = frozenset()
    ) -> None:
        self.features = IrcRig.features | more
        self.folder, self._server = folder, server
        self.manifest = manifests()["irc"]
        self.opener = load_entry
        self.people: dict[str, Person] = {}

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        self.port = await self._stack.enter_async_context(self._server(self.folder))
        self.wire = await self._stack.enter_async_context(Hurried(self.port))
        for who in ("ada", "bob", "eve"):
            self.people[who] = await self._stack.enter_async_context(Person(self.port, who))
            self.people[who].type(f"JOIN {ROOM}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def settings(self) -> dict[str, Any]:
        own = {"host": "127.0.0.1", "port": self.wire.port, "tls": False, "nick": "helper", "channels": [ROOM]}
        return own | {"lineBurst": 100, "lineSeconds": 0.01}

    def person(self, who: str) -> str:
        return f"{who}!~{who}@127.0.0.1"

    def chat(self, who: str, to: str) -> str:
        return who if to == "direct" else ROOM

    async def write(self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b"") -> str:  # fmt: skip
        person, target = self.people[who], "helper" if to == "direct" else ROOM
        # The server keeps nothing for somebody who is not there.
        await until(
            lambda: (
                [line.command for line in person.seen if line.nick == "helper" and line.command in {"JOIN", "QUIT"}][
                    -1:
                ]
                == ["JOIN"]
            )
        )
        person.type(f"PRIVMSG {target} :{'helper: ' if mention else ''}{text}")
        return ""

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return self.people[who].said("helper", who if to == "direct" else ROOM)

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return []

    async def react(self, who: str, message: str, emoji: str) -> None:
        raise NotImplementedError

    async def spoof(self, text: str) -> None:
        """When ada is away eve takes her nick; what a server says of her connection she cannot take."""
        ada, eve = self.people["ada"], self.people["eve"]
        await until(lambda: any(line.command == "JOIN" and line.nick == "helper" for line in eve.seen))
        ada.type("NICK away")
        await until(lambda: any(line.command == "NICK" and line.last == "away" for line in eve.seen))
        eve.type("NICK ada", f"PRIVMSG helper :{text}", "NICK eve")
        await until(lambda: any(line.command == "NICK" and line.last == "eve" for line in ada.seen))
        ada.type("NICK ada")

    async def forward(self, text: str) -> None:
        raise NotImplementedError

    async def bot(self, text: str) -> None:
        bob = self.people["bob"]
        if not any(line.command == "MODE" for line in bob.seen if "B" in line.last):
            bob.type("MODE bob +B")
        await self.write("bob", text, "group")

    async def repeat(self) -> None:
        raise NotImplementedError

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        self.wire.hurried = times

    async def drop(self) -> None:
        seen = sum(line.command == "QUIT" for line in self.people["ada"].seen)
        self.wire.cut()
        await until(lambda: sum(line.command == "QUIT" for line in self.people["ada"].seen) > seen)

    def reactions(self) -> list[str]:
        return []
