"""The IRC adapter against a server that keeps to the book, and one that does not."""

import asyncio
import sys
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.channels.irc.server import Server
from tests.channels.platform_host import RecordingHost, running, until

from homarus.channels.discovery import manifests
from homarus.channels.irc.adapter import Gaps, Irc, address
from homarus.channels.irc.connection import Connection, IrcSettings, Pace
from homarus.channels.support import is_named
from homarus.core.clock import ManualClock, SystemClock
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Outbound
from homarus.delivery.format import render
from homarus.delivery.place import Piece

CAPS = "message-tags server-time echo-message account-tag chghost sasl=PLAIN,EXTERNAL"


def host_for(server, tmp_path, **more):
    settings = {
        "host": "127.0.0.1",
        "port": server.port,
        "tls": False,
        "nick": "helper",
        "channels": ["#Room key"],
        "lineSeconds": 0,
    }
    return RecordingHost(tmp_path, settings | more)


def to(target, **more):
    return Outbound("o1", "irc", target, "", **more)


async def joined(host):
    await until(lambda: "joined" in host.kinds)


async def test_a_message_in_a_room_and_one_in_private(tmp_path):
    async with Server(CAPS) as server:
        host = host_for(server, tmp_path)
        async with running(Irc(host, SystemClock())):
            await joined(host)
            server.push(
                "@msgid=x1;time=2026-01-02T03:04:05.678Z;account=alice :Alice!~a@home.example PRIVMSG #ROOM :Helper, \x02hi\x02"
            )
            server.push(":Alice!~a@home.example PRIVMSG helper :hello")
            server.push("@+draft/reply=x1;bot :robo!r@h PRIVMSG #room :helpers unite")
            server.push(":alice!~a@home.example PRIVMSG #room :\x01ACTION waves\x01")
            await until(lambda: len(host.received) == 4)
        room, private, robot, action = host.received
        assert (room.id, room.text, room.peer, room.chat_type, room.mentioned) == (
            "x1",
            "Helper, hi",
            "#room",
            "group",
            True,
        )
        assert (room.sender, room.sender_name, room.facts) == ("alice!~a@home.example", "Alice", {"account": "alice"})
        assert room.timestamp == 1767323045678
        assert (private.peer, private.chat_type, private.mentioned) == ("alice", "direct", False)
        assert (robot.from_bot, robot.reply_to, robot.mentioned) == (True, "x1", False)
        assert action.text == "* alice waves"
        assert len({one.id for one in host.received}) == 4
        assert server.said("JOIN")[0].params == ("#Room", "key")


async def test_what_is_no_message_stays_outside(tmp_path):
    async with Server(CAPS) as server:
        host = host_for(server, tmp_path)
        async with running(Irc(host, SystemClock())):
            await joined(host)
            for line in (
                ":alice!a@h PRIVMSG helper :\x01VERSION\x01",
                ":alice!a@h PRIVMSG helper :\x01DCC SEND x 1 2 3\x01",
                ":alice!a@h NOTICE helper :beware",
                ":helper!h@host.example PRIVMSG #room :my own echo",
                ":irc.test PRIVMSG helper :a server speaks",
                ":alice!a@h PRIVMSG helper :\x03",
                ":alice!a@h PRIVMSG helper :\x1f",
            ):
                server.push(line)
            server.push(":alice!a@h PRIVMSG helper :last")
            await until(lambda: host.received)
        assert host.texts == ["last"]
        assert not server.said("NOTICE")


async def test_text_goes_out_whole_and_its_id_comes_back(tmp_path):
    async with Server(CAPS) as server:
        host = host_for(server, tmp_path)
        irc = Irc(host, SystemClock())
        async with running(irc):
            await joined(host)
            text = "größe 👍🏽 " * 100
            sent = await irc.send(to("#room", reply_to="x9"), Piece(text, text), "k")
            lines = server.said("PRIVMSG")
            assert " ".join(line.last for line in lines).split() == text.split()
            assert server.longest <= 512 - len(":helper!helper@host.example ")
            assert sent == f"m{len(lines)}"
            assert [dict(line.tags) for line in lines[:2]] == [{"+draft/reply": "x9"}, {}]
            server.push(f"@+draft/reply={sent} :alice!a@h PRIVMSG #room :why?")
            await until(lambda: host.received)
            assert host.received[0].quote is not None
            assert host.received[0].quote.ours
            found = await irc.directory("")
            assert [one.id for one in found] == ["#room", "alice", "bob"]
            await irc.typing(to("#room"))
            await until(lambda: server.said("TAGMSG"))
            assert (await irc.probe()).id == "helper"


@pytest.mark.parametrize(
    ("number", "words", "kind", "seconds"),
    [
        ("401", "No", "refused", None),
        ("404", "No", "refused", None),
        ("439", "No", "rate_limit", 30.0),
        ("439", "Target change too fast. Please wait 13 seconds.", "rate_limit", 13.0),
        ("439", "Please wait 7 secs", "rate_limit", 7.0),
        ("263", "Please wait a while and try again.", "rate_limit", 30.0),
    ],
)
async def test_a_refusal_is_told_with_what_can_be_done(tmp_path, number, words, kind, seconds):
    async with Server("") as server:
        server.refuse["bob"], server.words = number, words
        host = host_for(server, tmp_path)
        irc = Irc(host, SystemClock())
        async with running(irc):
            await joined(host)
            with pytest.raises(DeliveryError) as caught:
                await irc.send(to("bob"), Piece("x", "x"), "k")
            assert (caught.value.kind, caught.value.retry_after) == (kind, seconds)
            assert await irc.send(to("alice"), Piece("x", "x"), "k2") == "k2"


async def test_a_text_of_which_some_lines_went_through_is_not_said_again(tmp_path):
    async with Server("") as server:
        server.refuse["bob"], server.refuse_most = "263", 1
        host = host_for(server, tmp_path)
        irc = Irc(host, SystemClock())
        async with running(irc):
            await joined(host)
            with pytest.raises(DeliveryError) as caught:
                await irc.send(to("bob"), Piece("one\ntwo", "one\ntwo"), "k")
            assert caught.value.kind is DeliveryFailure.UNKNOWN


async def test_who_left_in_a_netsplit_is_asked_again_later(tmp_path):
    async with Server("") as server:
        server.refuse["bob"] = "401"
        host = host_for(server, tmp_path)
        irc = Irc(host, SystemClock())
        async with running(irc):
            await joined(host)
            server.push(":Bob!b@h QUIT :one.example two.example")
            await asyncio.sleep(0)
            with pytest.raises(DeliveryError) as caught:
                await irc.send(to("bob"), Piece("x", "x"), "k")
            assert caught.value.kind is DeliveryFailure.TRANSIENT


async def test_a_lost_connection_leaves_a_started_message_in_doubt_and_comes_back(tmp_path):
    async with Server("") as server:
        host = host_for(server, tmp_path)
        irc = Irc(host, SystemClock())
        with pytest.raises(DeliveryError) as early:
            await irc.send(to("#room"), Piece("x", "x"), "k0")
        assert early.value.kind is DeliveryFailure.TRANSIENT
        async with running(irc):
            await joined(host)
            server.deaf = True
            sending = asyncio.create_task(irc.send(to("#room"), Piece("x", "x"), "k1"))
            await until(lambda: server.said("PRIVMSG"))
            server.drop()
            with pytest.raises(DeliveryError) as caught:
                await sending
            assert caught.value.kind is DeliveryFailure.UNKNOWN
            server.deaf = False
            await until(lambda: len(host.up) == 2)
            await until(lambda: host.kinds.count("joined") == 2)
            assert await irc.send(to("#room"), Piece("y", "y"), "k2") == "k2"
        assert server.connections == 2


async def test_a_taken_nick_gets_a_variant_and_is_taken_back(tmp_path):
    async with Server("") as server:
        server.taken = {"helper"}
        host = host_for(server, tmp_path, nickserv={"password": "s3cret"})
        async with running(Irc(host, SystemClock())):
            await joined(host)
            assert host.up[0].id == "helper_"
            said = [line.last for line in server.said("PRIVMSG")]
            assert said == ["IDENTIFY helper s3cret", "GHOST helper s3cret"]
            server.push(":helper_!helper@host.example NICK helper")
            await until(lambda: host.up[-1].id == "helper")


async def test_login_before_anybody_sees_us(tmp_path):
    secret = "p" * 290  # with the names in front, the answer fills a piece of 400 characters
    file = tmp_path / "password"
    file.write_text(secret + "\n")
    async with Server(CAPS, {"helper": secret}) as server:
        host = host_for(server, tmp_path, sasl={"passwordFile": str(file)}, nickserv={"password": "unused"})
        async with running(Irc(host, SystemClock())):
            await joined(host)
        assert not server.said("PRIVMSG")
        assert [line.command for line in server.heard].index("AUTHENTICATE") < [
            line.params for line in server.heard
        ].index(("END",))


async def test_login_by_certificate(tmp_path):
    async with Server(CAPS) as server:
        host = host_for(server, tmp_path, sasl={"mechanism": "external"})
        async with running(Irc(host, SystemClock())):
            await joined(host)
        assert [line.last for line in server.said("AUTHENTICATE")] == ["EXTERNAL", "+"]


@pytest.mark.parametrize(
    ("caps", "settings", "words"),
    [
        (CAPS, {"sasl": {"password": "wr0ng-word"}}, "sasl"),
        ("", {"sasl": {"password": "wr0ng-word"}}, "no SASL"),
        ("", {"passwordFile": "/nowhere/wr0ng-word-file"}, "passwordFile"),
        ("", {"nick": "two words"}, "cannot be sent"),
        ("", {"senderIdentity": "face"}, "senderIdentity"),
        ("", {"channels": 7}, "channels"),
    ],
)
async def test_what_cannot_get_better_ends_it_and_keeps_secrets(tmp_path, caps, settings, words):
    async with Server(caps, {"helper": "right"}) as server:
        host = host_for(server, tmp_path, **settings)
        with pytest.raises(ChannelError) as caught:
            async with asyncio.timeout(30):
                await Irc(host, SystemClock()).run()
        assert caught.value.fatal and words in str(caught.value)
        assert "wr0ng-word" not in str(caught.value).replace("wr0ng-word-file", "")
        assert "wr0ng-word" not in repr(IrcSettings("h", "n", password="wr0ng-word"))


async def test_a_closed_room_is_told_and_the_rest_works(tmp_path):
    async with Server("") as server:
        server.refuse["#closed"] = "473"
        host = host_for(server, tmp_path, channels=["#closed", "#room", " "])
        async with running(Irc(host, SystemClock())):
            await joined(host)
            await until(lambda: host.troubles)
            assert "#closed" in host.troubles[0]
            server.push(":op!o@h KICK #room helper :out\x1b[2J")
            await until(lambda: "left" in host.kinds)
            assert "\x1b" not in host.troubles[-1]


async def test_what_the_disk_refuses_waits_and_keeps_its_place(tmp_path):
    async with Server("") as server:
        host = host_for(server, tmp_path)
        host.disk_full = 1
        async with running(Irc(host, SystemClock())):
            await joined(host)
            server.push(":a!a@h PRIVMSG helper :one")
            server.push(":a!a@h PRIVMSG helper :two")
            await until(lambda: len(host.received) == 2)
        assert host.texts == ["one", "two"]


async def test_people_who_are_logged_in_can_be_known_by_their_account(tmp_path):
    async with Server(CAPS) as server:
        host = host_for(server, tmp_path, senderIdentity="account")
        async with running(Irc(host, SystemClock())):
            await joined(host)
            server.push("@account=Alice :x!~a@h PRIVMSG helper :in")
            server.push(":account:Alice!~a@h PRIVMSG helper :a nick that poses")
            server.push("@account=* :x!~a@h PRIVMSG helper :out")
            await until(lambda: len(host.received) == 3)
        assert [one.sender for one in host.received] == ["account:Alice", "account:alice!~a@h", "x!~a@h"]


async def test_over_long_lines_of_a_server_say_nothing(tmp_path):
    async with Server("") as server:
        host = host_for(server, tmp_path)
        async with running(Irc(host, SystemClock())):
            await joined(host)
            server.push(":a!a@h PRIVMSG helper :" + "x" * 200_000 + ":a!a@h PRIVMSG helper :forged")
            server.push(":a!a@h PRIVMSG helper :next")
            await until(lambda: host.received)
        assert host.texts == ["next"]


@pytest.mark.parametrize("target", ["", "a,b", "#a b", "$*.example", "@#room", ":x", "a\r\nQUIT", "*!*@*", "x\x07"])
def test_nothing_goes_to_many_or_to_nobody(target):
    with pytest.raises(DeliveryError):
        address(target)


@pytest.mark.parametrize("target", ["#room", "&local", "+plain", "alice", "alice!~a@host", "[a]|b"])
def test_people_and_rooms_are_addresses(target):
    assert address(target) == target.partition("!")[0]


@pytest.mark.parametrize(("text", "named"), [("helper: hi", True), ("hi helper", True), ("(helper)", True), ("helpers", False),
                                             ("helper_", False), ("xhelper helper", True), ("", False)])  # fmt: skip
def test_a_nick_is_a_word(text, named):
    assert is_named(text, "helper") is named


async def test_lines_go_out_no_faster_than_servers_bear():
    from datetime import UTC, datetime

    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    pace = Pace(clock, 3, 2.0)
    for _ in range(3):
        await pace.take()
    assert clock.monotonic() == 0
    for _ in range(4):
        await pace.take()
    assert clock.monotonic() == 8
    clock.advance(100)
    before = clock.monotonic()
    for _ in range(3):
        await pace.take()
    assert clock.monotonic() == before


def test_the_room_of_a_line_counts_the_longest_prefix_until_ours_is_known():
    line = Connection(IrcSettings("h", "helper"), SystemClock(), lambda _: None)
    assert line.room("#room") == 512 - len(":helper!~" + "u" * 10 + "@" + "h" * 63 + " PRIVMSG #room :\r\n")


def test_the_tests_of_irc_need_no_library():
    assert "irc" not in sys.modules


async def test_whoever_was_talking_is_told_of_a_gap_once_also_by_another_process(tmp_path):
    async with Server() as server:
        host = host_for(server, tmp_path)
        for lost in (False, True):
            async with running(irc := Irc(host, SystemClock())):
                host.changes.clear()
                await joined(host)
                await irc.send(to("Ann"), Piece("hi", "hi"), f"k{lost}")
                await irc.send(to("#room"), Piece("hi", "hi"), f"r{lost}")
                if lost:
                    server.drop()
                    await until(lambda: server.said("NOTICE"))
        assert [line.param(0) for line in server.said("NOTICE")] == ["ann"]
        # A process that was killed leaves the note that it was there.
        gaps = Gaps(tmp_path, SystemClock())
        gaps.opened()
        later = ManualClock(SystemClock().now() + timedelta(seconds=60))
        again = Gaps(tmp_path, later)
        assert again.due() == ([], 0)
        again.opened()
        assert again.due() == (["ann"], 0)
        again.told("ann")
        Gaps(tmp_path, later).opened()
        owed, seconds = (at_once := Gaps(tmp_path, later)).due()
        assert owed == [] and 0 < seconds <= 15  # a program that falls again and again is no flood
        assert at_once.due()[0] == []


async def test_markup_is_left_out_or_shown_with_codes(tmp_path):
    async with Server() as server:
        for formatting, shown in (("plain", "loud"), ("codes", "\x02loud\x02")):
            host = host_for(server, tmp_path, formatting=formatting)
            async with running(irc := Irc(host, SystemClock())):
                await joined(host)
                await irc.send(to("ann"), Piece("\x02loud\x02\x01", "loud"), formatting)
            assert server.said("PRIVMSG")[-1].last == shown
    assert render("**loud**", account_place("codes"))[0].text == "\x02loud\x02"
    assert render("**loud**", account_place("plain"))[0].text == "loud"


def account_place(formatting):
    manifest = manifests()["irc"]
    return replace(manifest.place, dialect=manifest.dialects.get(formatting, manifest.place.dialect))
