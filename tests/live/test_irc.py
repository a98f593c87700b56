"""The IRC adapter at two real servers: ngircd, also over TLS, and miniircd."""

import asyncio
import contextlib
from pathlib import Path
from typing import Self

import pytest
from tests.channels.recorder import Recorder, Running, until
from tests.live.chat_servers import miniircd, ngircd

from homarus.channels.irc import wire
from homarus.channels.irc.adapter import Irc
from homarus.core.clock import SystemClock
from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.core.messages import Outbound
from homarus.delivery.place import Piece

pytestmark = pytest.mark.live
SERVERS = {"ngircd": ngircd, "miniircd": miniircd}


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

    def said(self, by: str) -> list[str]:
        return [line.last for line in self.seen if line.command == "PRIVMSG" and line.nick == by]

    async def _read(self) -> None:
        while raw := await self._reader.readline():
            self.longest = max(self.longest, len(raw))
            line = wire.parse(raw.rstrip(b"\r\n"))
            if line and line.command == "PING":
                self.type(f"PONG :{line.last}")
            elif line:
                self.seen.append(line)


def host_at(port: int, folder: Path, **more: object) -> Recorder:
    settings = {
        "host": "127.0.0.1",
        "port": port,
        "tls": False,
        "nick": "helper",
        "channels": ["#room"],
        "lineBurst": 100,
        "lineSeconds": 0.01,
    }
    return Recorder(folder / "account", settings | more)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_conversation(name: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as port, Person(port, "Alice") as alice:
        host = host_at(port, tmp_path)
        irc = Irc(host, SystemClock())
        alice.type("JOIN #room")
        async with Running(irc):
            await until(lambda: "joined" in host.changed_kinds())
            alice.type("PRIVMSG #room :helper: größe?", "PRIVMSG helper :in private", "PRIVMSG helper :\x01VERSION\x01", "PRIVMSG #room :\x01ACTION waits\x01")  # fmt: skip
            await until(lambda: len(host.inbound) == 3)
            room, private, action = host.inbound
            assert (room.peer, room.mentioned, room.text) == ("#room", True, "helper: größe?")
            assert private.peer == "alice" and private.sender.startswith("alice!")
            assert action.text == "* Alice waits"
            text = "日本語 größe 👍🏽 " * 60
            await irc.send(Outbound("o", "irc", "#room", ""), Piece(text, text), "k1")
            await irc.send(Outbound("o", "irc", "alice", ""), Piece("one\ntwo", "one\ntwo"), "k2")
            await until(lambda: alice.said("helper")[-2:] == ["one", "two"])
            assert "".join("".join(alice.said("helper")[:-2]).split()) == "".join(text.split())
            assert 450 < alice.longest <= 512
            with pytest.raises(DeliveryError) as caught:
                await irc.send(Outbound("o", "irc", "nobody", ""), Piece("x", "x"), "k3")
            assert caught.value.kind is DeliveryFailure.REFUSED
            assert {one.id for one in await irc.directory("")} == {"#room", "alice"}
            assert (await irc.probe()).id == "helper"
        await until(lambda: [line for line in alice.seen if line.command == "QUIT"])


async def test_over_tls_with_a_certificate_that_is_named(tmp_path: Path) -> None:
    async with ngircd(tmp_path, tls=True) as port:
        host = host_at(port, tmp_path, tls=True, caFile=str(tmp_path / "cert.pem"))
        async with Running(Irc(host, SystemClock())):
            await until(lambda: "joined" in host.changed_kinds())
        distrusting = host_at(port, tmp_path, tls=True)
        async with Running(Irc(distrusting, SystemClock())):
            await until(lambda: distrusting.troubles)
        assert "not trusted" in distrusting.troubles[0] and not distrusting.identities


async def test_a_taken_nick_and_a_server_that_was_away(tmp_path: Path) -> None:
    folder = tmp_path
    async with contextlib.AsyncExitStack() as servers:
        port = await servers.enter_async_context(ngircd(folder))
        host = host_at(port, folder)
        async with Person(port, "helper"):
            irc = Irc(host, SystemClock())
            async with Running(irc):
                await until(lambda: host.identities)
                assert host.identities[0].id == "helper_"
                await servers.aclose()
                await until(lambda: host.troubles)
                with pytest.raises(DeliveryError) as caught:
                    await irc.send(Outbound("o", "irc", "#room", ""), Piece("x", "x"), "k")
                assert caught.value.kind is DeliveryFailure.TRANSIENT


async def test_probing_needs_no_running_account(tmp_path: Path) -> None:
    async with ngircd(tmp_path) as port:
        assert (await Irc(host_at(port, tmp_path), SystemClock()).probe()).id == "helper"
