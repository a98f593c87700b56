"""The IRC adapter at two real servers: ngircd, also over TLS, and miniircd."""

import contextlib
from pathlib import Path

import pytest
from tests.channels.contract import play
from tests.channels.foes import SCENARIOS
from tests.channels.irc.rig import IrcRig, Person
from tests.channels.platform_host import RecordingHost, running, until
from tests.live.chat_servers import inspircd, miniircd, ngircd

from homarus.channels.irc.adapter import Irc
from homarus.core.clock import SystemClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Outbound
from homarus.delivery.place import Piece

pytestmark = pytest.mark.live
SERVERS = {"ngircd": ngircd, "miniircd": miniircd, "inspircd": inspircd}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path: Path) -> None:
    async with IrcRig(tmp_path) as rig:
        await play(scenario, rig, tmp_path)


BOTS = [scenario for scenario in SCENARIOS if "bots" in scenario.needs]


@pytest.mark.parametrize("scenario", BOTS, ids=lambda scenario: scenario.__name__)
async def test_contract_where_programs_are_marked(scenario, tmp_path: Path) -> None:
    async with IrcRig(tmp_path, inspircd, frozenset({"bots"})) as rig:
        await play(scenario, rig, tmp_path)


def host_at(port: int, folder: Path, **more: object) -> RecordingHost:
    settings = {
        "host": "127.0.0.1",
        "port": port,
        "tls": False,
        "nick": "helper",
        "channels": ["#room"],
        "lineBurst": 100,
        "lineSeconds": 0.01,
    }
    return RecordingHost(folder / "account", settings | more)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_conversation(name: str, tmp_path: Path) -> None:
    async with SERVERS[name](tmp_path) as port, Person(port, "Alice") as alice:
        host = host_at(port, tmp_path)
        irc = Irc(host, SystemClock())
        alice.type("JOIN #room")
        async with running(irc):
            await until(lambda: "joined" in host.kinds)
            alice.type("PRIVMSG #room :helper: größe?", "PRIVMSG helper :in private", "PRIVMSG helper :\x01VERSION\x01", "PRIVMSG #room :\x01ACTION waits\x01")  # fmt: skip
            await until(lambda: len(host.received) == 3)
            room, private, action = host.received
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
        async with running(Irc(host, SystemClock())):
            await until(lambda: "joined" in host.kinds)
        distrusting = host_at(port, tmp_path, tls=True)
        async with running(Irc(distrusting, SystemClock())):
            await until(lambda: distrusting.troubles)
        assert "not trusted" in distrusting.troubles[0] and not distrusting.up


async def test_a_taken_nick_and_a_server_that_was_away(tmp_path: Path) -> None:
    folder = tmp_path
    async with contextlib.AsyncExitStack() as servers:
        port = await servers.enter_async_context(ngircd(folder))
        host = host_at(port, folder)
        async with Person(port, "helper"):
            irc = Irc(host, SystemClock())
            async with running(irc):
                await until(lambda: host.up)
                assert host.up[0].id == "helper_"
                await servers.aclose()
                await until(lambda: host.troubles)
                with pytest.raises(DeliveryError) as caught:
                    await irc.send(Outbound("o", "irc", "#room", ""), Piece("x", "x"), "k")
                assert caught.value.kind is DeliveryFailure.TRANSIENT


async def test_probing_needs_no_running_account(tmp_path: Path) -> None:
    async with ngircd(tmp_path) as port:
        assert (await Irc(host_at(port, tmp_path), SystemClock()).probe()).id == "helper"


async def test_a_server_that_gives_ids_and_times(tmp_path: Path) -> None:
    async with inspircd(tmp_path) as port, Person(port, "alice") as alice:
        host = host_at(port, tmp_path)
        irc = Irc(host, SystemClock())
        alice.type("CAP REQ :message-tags server-time echo-message", "JOIN #room")
        async with running(irc):
            await until(lambda: "joined" in host.kinds)
            alice.type("PRIVMSG #room :helper: one")
            await until(lambda: host.received)
            asked = host.received[0]
            mine = next(line for line in alice.seen if line.command == "PRIVMSG" and line.nick == "alice")
            assert asked.id == mine.tags["msgid"] and asked.timestamp > 1_700_000_000_000
            sent = await irc.send(Outbound("o", "irc", "#room", "", reply_to=asked.id), Piece("two", "two"), "key")
            await until(lambda: alice.said("helper"))
            answer = next(line for line in alice.seen if line.command == "PRIVMSG" and line.nick == "helper")
            assert sent == answer.tags["msgid"] != "key"
            assert answer.tags["+draft/reply"] == asked.id and "inspircd.org/bot" in answer.tags
            alice.type(f"@+draft/reply={sent} PRIVMSG #room :three")
            await until(lambda: len(host.received) == 2)
            assert host.received[1].quote is not None
            assert host.received[1].quote.ours
            await irc.typing(Outbound("o", "irc", "#room", ""))
            await until(lambda: [line for line in alice.seen if line.command == "TAGMSG"])


async def test_logins_at_the_services_of_a_network(tmp_path: Path) -> None:
    async with inspircd(tmp_path, services=True) as port:
        async with Person(port, "helper") as before:
            await until(
                lambda: before.type("PRIVMSG NickServ :REGISTER s3cret-word a@b.example") or before.notices("NickServ")
            )
            await until(lambda: [line for line in before.seen if line.command == "900"])
        async with Person(port, "alice") as alice:
            alice.type("JOIN #room", "CAP REQ :account-tag")
            host = host_at(port, tmp_path, sasl={"password": "s3cret-word"})
            irc = Irc(host, SystemClock())
            async with running(irc):
                await until(lambda: "joined" in host.kinds)
                await irc.send(Outbound("o", "irc", "#room", ""), Piece("hi", "hi"), "k")
                await until(lambda: alice.said("helper"))
                said = next(line for line in alice.seen if line.command == "PRIVMSG" and line.nick == "helper")
                assert said.tags["account"] == "helper"
            wrong = host_at(port, tmp_path, sasl={"password": "wr0ng-word"})
            with pytest.raises(ChannelError) as refused:
                await Irc(wrong, SystemClock()).run()
            assert refused.value.fatal and "wr0ng-word" not in str(refused.value)
            # Without SASL the nick service takes the password, and somebody in our place is put out.
            late = host_at(port, tmp_path, nickserv={"password": "s3cret-word"})
            async with Person(port, "helper"), running(Irc(late, SystemClock())):
                await until(lambda: late.up and late.up[-1].id == "helper")
