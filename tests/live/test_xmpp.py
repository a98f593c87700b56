"""The XMPP adapter at a real server (prosody), with people who use clients of their own."""

from pathlib import Path

import pytest
from tests.channels.contract import play
from tests.channels.foes import SCENARIOS
from tests.channels.platform_host import RecordingHost, running, until

pytest.importorskip("slixmpp", reason="needs slixmpp (PyPI)")
from tests.channels.xmpp.rig import ROOM, Person, XmppRig
from tests.live.chat_servers import prosody

from homarus.channels.xmpp import stanzas
from homarus.channels.xmpp.adapter import Xmpp
from homarus.core.clock import SystemClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Outbound
from homarus.delivery.place import Piece

pytestmark = pytest.mark.live


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path: Path) -> None:
    async with XmppRig(tmp_path) as rig:
        await play(scenario, rig, tmp_path)


def to(address: str, **more: str) -> Outbound:
    return Outbound("o", "xmpp", address, "", **more)


async def test_a_room(tmp_path: Path) -> None:
    async with XmppRig(tmp_path) as rig:
        host = RecordingHost(tmp_path / "account", rig.settings())
        xmpp = Xmpp(host, SystemClock())
        async with running(xmpp):
            await until(lambda: "joined" in host.kinds)
            asked = await rig.write("ada", "how big?", "group", mention=True)
            await until(lambda: host.received)
            heard = host.received[0]
            assert (heard.id, heard.peer, heard.sender, heard.chat_type, heard.mentioned) == (
                asked,
                ROOM,
                "ada@localhost",
                "group",
                True,
            )
            sent = await xmpp.send(to(ROOM, reply_to=asked), Piece("*10* kW", "10 kW"), "key")
            await until(lambda: rig.shown("ada", "group"))
            assert rig.people["ada"].seen[-1].answers == asked
            theirs = next(said.ids[ROOM] for said in rig.people["ada"].seen if said.id == sent)
            await rig.write("ada", "really?", "group", answers=theirs)
            await until(lambda: len(host.received) == 2)
            assert host.received[1].quote is not None
            assert host.received[1].quote.ours
            await rig.people["ada"].say(ROOM, stanzas.reactions(theirs, ["👍"]), group=True)
            await rig.people["ada"].say(ROOM, stanzas.reactions(theirs, []), group=True)
            await until(lambda: "unreacted" in host.kinds)
            await xmpp.edit(to(ROOM), sent, Piece("11 kW", "11 kW"))
            await until(lambda: rig.shown("bob", "group") == ["11 kW"])
            await xmpp.react(to(ROOM), asked, "👀")
            await until(lambda: rig.reactions() == ["👀"])
            await xmpp.typing(to(ROOM))
            assert ROOM in {one.id for one in await xmpp.directory("")}
            assert (await xmpp.probe()).id == "helper@localhost"
            # A client that sends again after a broken connection gives the same id; the room gives another.
            for words in ("once", "once"):
                await rig.people["ada"].say(ROOM, stanzas.body(words), group=True, id_="same")
            await rig.write("ada", "last", "group")
            await until(lambda: "last" in host.texts)
            assert host.texts[2:] == ["once", "last"]
        assert host.troubles == []


async def test_where_addresses_are_hidden_nobody_is_known_by_a_nick(tmp_path: Path) -> None:
    async with prosody(tmp_path, "helper", "ada", anonymous=True) as port:
        settings = {
            "jid": "helper@localhost",
            "password": "secret",
            "host": "127.0.0.1",
            "port": port,
            "caFile": str(tmp_path / "cert.pem"),
            "rooms": [ROOM],
        }
        host = RecordingHost(tmp_path / "account", settings)
        async with Person("ada", port, str(tmp_path / "cert.pem")) as ada, running(Xmpp(host, SystemClock())):
            await until(lambda: "joined" in host.kinds)
            await ada.say(ROOM, stanzas.body("hello"), group=True)
            await until(lambda: host.received)
            assert host.received[0].sender.startswith(("occupant:", "nick:"))


async def test_what_came_while_we_were_away_and_what_is_refused(tmp_path: Path) -> None:
    async with XmppRig(tmp_path) as rig:
        host = RecordingHost(tmp_path / "account", rig.settings())
        async with running(Xmpp(host, SystemClock())):
            await until(lambda: "joined" in host.kinds)
            await rig.write("ada", "one")
            await rig.write("ada", "here", "group")
            await until(lambda: len(host.received) == 2)
            await until(lambda: (host.folder / "state.json").exists())
        await rig.people["ada"].say("helper@localhost", stanzas.body("two"))
        await rig.people["ada"].say(ROOM, stanzas.body("there"), group=True)
        xmpp = Xmpp(host, SystemClock())
        async with running(xmpp):
            await until(lambda: {"two", "there"} <= set(host.texts))
            for address, kind in (
                ("nobody@localhost", DeliveryFailure.REFUSED),
                ("not an address", DeliveryFailure.REFUSED),
            ):
                with pytest.raises(DeliveryError) as caught:
                    await xmpp.send(to(address), Piece("x", "x"), "k")
                assert caught.value.kind is kind, address
            for status, kind in ((429, DeliveryFailure.RATE_LIMIT), (503, DeliveryFailure.TRANSIENT)):
                rig.refuse(status)
                with pytest.raises(DeliveryError) as caught:
                    await xmpp.send(to("ada@localhost"), Piece("x", "x"), "k")
                assert caught.value.kind is kind
            await xmpp.send(to("ada@localhost"), Piece("a\x00\x1bb", "ab"), "k2")
            await until(lambda: "ab" in rig.shown("ada"))
        ids = [one.id for one in host.received]
        assert len({one.text for one in host.received}) == 4 and len(set(ids)) == 4
        wrong = RecordingHost(tmp_path / "wrong", {**rig.settings(), "password": "wr0ng-word"})
        with pytest.raises(ChannelError) as refused:
            await Xmpp(wrong, SystemClock()).run()
        assert refused.value.fatal and "wr0ng-word" not in str(refused.value)
        for broken, words in (({"port": 1}, "cannot reach"), ({"caFile": ""}, "cannot reach")):
            away = RecordingHost(tmp_path / "away", {**rig.settings(), **broken})
            async with running(Xmpp(away, SystemClock())):
                await until(lambda away=away: away.troubles)
            assert words in away.troubles[0]
