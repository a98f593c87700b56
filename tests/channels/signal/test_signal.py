"""The Signal adapter against a daemon of signal-cli on loopback."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.platform_host import RecordingHost, outbound, running, until, words
from tests.channels.signal.fake_daemon import ACCOUNT, ALICE, ALICE_UUID, BOT_UUID, GROUP, FakeDaemon, RpcError, serving
from tests.ports import own_port

from homarus.channels.signal import inbound as read
from homarus.channels.signal.adapter import Signal
from homarus.channels.support import Pauses
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.delivery.place import Piece, Style

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
async def daemon():
    async with serving() as server:
        yield server


@pytest.fixture
def host(daemon: FakeDaemon, tmp_path: Path) -> RecordingHost:
    return RecordingHost(tmp_path / "account", {"account": ACCOUNT, "accountUuid": BOT_UUID, "httpUrl": daemon.base})


def signal(host: RecordingHost) -> Signal:
    return Signal(host, Pauses(0.01, 0.02))


def to(chat: str, **more: Any) -> Any:
    return outbound(chat, "signal", **more)


async def test_direct_messages_groups_quotes_and_mentions(daemon, host):
    async with running(signal(host)):
        await until(lambda: host.up)
        stamp = await daemon.say("hello")
        quote = {"id": 5, "author": ACCOUNT, "authorNumber": ACCOUNT, "authorUuid": BOT_UUID, "text": "earlier"}
        mention = {"name": "Lobster", "uuid": BOT_UUID, "start": 3, "length": 1}
        await daemon.say("👍 \ufffc look", group=GROUP, mentions=[mention], quote=quote)
        await daemon.envelope(typingMessage={"action": "STARTED"}, timestamp=1)
        await daemon.envelope(receiptMessage={"isRead": True}, timestamp=1)
        await daemon.envelope(syncMessage={"sentMessage": {"message": "mine"}}, timestamp=1)
        await daemon.say("me", source={"sourceNumber": ACCOUNT, "sourceUuid": BOT_UUID})
        await until(lambda: len(host.received) == 3)
    direct, group, mine = host.received
    assert (direct.text, direct.sender, direct.peer, direct.chat_type) == ("hello", ALICE, ALICE, "direct")
    assert (direct.id, direct.timestamp, direct.sender_name) == (f"{stamp}:{ALICE}", stamp, "Alice")
    assert (group.text, group.peer, group.chat_type, group.mentioned) == ("👍 @Lobster look", GROUP, "group", True)
    assert group.quote is not None
    assert (group.quote.id, group.quote.ours) == (f"5:{ACCOUNT}", True)
    assert mine.from_self


async def test_who_hides_their_number_is_known_by_it_all_the_same(daemon, host):
    hidden = {"source": ALICE_UUID, "sourceNumber": None, "sourceUuid": ALICE_UUID.upper()}
    async with running(signal(host)):
        await until(lambda: host.up)
        await daemon.say("before anybody knew", source=hidden)
        await daemon.say("openly")
        await until(lambda: len(host.received) == 2)
    async with running(signal(host)):  # also after a restart
        await until(lambda: len(host.up) == 2)
        await daemon.say("hidden again", source=hidden)
        await until(lambda: len(host.received) == 3)
    assert [got.sender for got in host.received] == [f"uuid:{ALICE_UUID}", ALICE, ALICE]


async def test_what_cannot_be_kept_is_tried_again_before_anything_else(daemon, host):
    async with running(signal(host)):
        await until(lambda: host.up)
        host.disk_full = 2
        await daemon.say("one")
        await daemon.event({"envelope": {"dataMessage": "nonsense", "sourceNumber": ALICE}})
        await daemon.event([1, 2])
        await daemon.say("two")
        await until(lambda: len(host.received) == 2)
    assert [got.text for got in host.received] == ["one", "two"]
    assert sum("passed over" in trouble for trouble in host.troubles) == 2


async def test_a_lost_stream_is_opened_again(daemon, host):
    async with running(signal(host)):
        await until(lambda: host.up)
        await daemon.drop()
        await daemon.say("while you were away")
        await until(lambda: host.received)
    assert len(host.up) == 2


async def test_changes_are_told(daemon, host):
    target = {
        "emoji": "👍",
        "targetAuthor": ACCOUNT,
        "targetAuthorNumber": ACCOUNT,
        "targetAuthorUuid": BOT_UUID,
        "targetSentTimestamp": 5,
    }
    async with running(signal(host)):
        await until(lambda: host.up)
        await daemon.say(reaction={**target, "isRemove": False})
        await daemon.say(reaction={**target, "isRemove": True}, group=GROUP)
        await daemon.say(remoteDelete={"timestamp": 6})
        await daemon.envelope(
            editMessage={"targetSentTimestamp": 7, "dataMessage": {"message": "better", "timestamp": 8}}, timestamp=8
        )
        await until(lambda: len(host.changes) == 4)
    assert [(one.kind, one.message_id, one.text, one.peer) for one in host.changes] == [
        ("reacted", f"5:{ACCOUNT}", "👍", ALICE), ("unreacted", f"5:{ACCOUNT}", "👍", GROUP),
        ("deleted", f"6:{ALICE}", "", ALICE), ("edited", f"7:{ALICE}", "better", ALICE)]  # fmt: skip
    assert host.received == []


async def test_files_come_and_go(daemon, host, tmp_path):
    daemon.files["abc"] = bytes(range(256)) * 900
    (tmp_path / "ü.txt").write_bytes(b"content")
    channel = signal(host)
    async with running(channel):
        await until(lambda: host.up)
        await daemon.say(
            attachments=[{"id": "abc", "contentType": "audio/aac", "size": 3, "voiceNote": True}], group=GROUP
        )
        await until(lambda: host.received)
        media = host.received[0].media[0]
        assert media.kind == "voice"
        assert b"".join([chunk async for chunk in channel.fetch(media)]) == daemon.files["abc"]
        await channel.send(to(ALICE), Piece(text="see", plain="see", file=str(tmp_path / "ü.txt")), "k")
        del daemon.files["abc"]
        with pytest.raises(DeliveryError, match="Could not find"):
            _ = [chunk async for chunk in channel.fetch(media)]
    assert daemon.asked("getAttachment")[0] == {"account": ACCOUNT, "id": "abc", "groupId": GROUP}
    assert daemon.asked("send")[0]["attachments"] == ["data:text/plain;filename=%C3%BC.txt;base64,Y29udGVudA=="]


async def test_files_are_left_alone_where_the_owner_says_so(daemon, host):
    host.settings["ignoreAttachments"] = True
    async with running(signal(host)):
        await until(lambda: host.up)
        await daemon.say("text", attachments=[{"id": "abc", "contentType": "image/png"}])
        await daemon.say("", attachments=[{"id": "abc", "contentType": "image/png"}])
        await daemon.say("after")
        await until(lambda: len(host.received) == 2)
    assert host.received[0].media == ()


async def test_sending_styles_quotes_edits_and_reactions(daemon, host):
    channel = signal(host)
    piece = Piece(text="👍 bold", plain="👍 bold", styles=(Style(3, 4, "BOLD"),))
    async with running(channel):
        await until(lambda: host.up)
        sent = await channel.send(to(GROUP, reply_to=f"5:uuid:{ALICE_UUID}"), piece, "k")
        await channel.send(to(ALICE, reply_to="6"), words("hi"), "k")
        await channel.send(to(GROUP, reply_to="7"), words("nobody knows who wrote 7"), "k")
        await channel.edit(to(GROUP), sent, words("better"))
        await channel.react(to(GROUP), f"5:{ALICE}", "👍")
        await channel.react(to(ALICE), "6", "👍", on=False)
        with pytest.raises(DeliveryError, match="no message"):
            await channel.delete(to(GROUP), "nonsense")
        with pytest.raises(DeliveryError, match="who wrote that message"):
            await channel.react(to(GROUP), "5", "👍")
        first, second, third, edited = daemon.asked("send")
        assert first["textStyle"] == ["3:4:BOLD"]
        assert (first["groupId"], first["quoteTimestamp"], first["quoteAuthor"]) == (GROUP, 5, ALICE_UUID)
        assert (second["recipient"], second["quoteAuthor"]) == ([ALICE], ALICE)
        assert "quoteTimestamp" not in third
        assert edited["editTimestamp"] == int(sent.partition(":")[0])
        assert [(one["targetAuthor"], one["remove"]) for one in daemon.reactions] == [(ALICE, False), (ALICE, True)]
        await channel.delete(to(GROUP), sent)
        assert daemon.texts(groupId=GROUP) == ["nobody knows who wrote 7"]


async def test_people_learn_that_they_were_read_only_when_they_are_answered(daemon, host):
    host.settings["sendReadReceipts"] = True
    channel = signal(host)
    async with running(channel):
        await until(lambda: host.up)
        stamp = await daemon.say("hello")
        await daemon.say("a stranger", source={"sourceNumber": "+1999", "sourceUuid": "x"})
        await until(lambda: len(host.received) == 2)
        await channel.typing(to(ALICE))
        await channel.send(to(ALICE), words("hi"), "k")
    assert daemon.asked("sendReceipt") == [
        {"account": ACCOUNT, "recipient": ALICE, "targetTimestamp": [stamp], "type": "read"}
    ]


async def test_every_refusal_says_what_can_be_done(daemon, host):
    channel = signal(host)
    bad = {"timestamp": 1, "results": [{"type": "UNREGISTERED_FAILURE"}]}
    slow = {"timestamp": 1, "results": [{"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": 9}]}
    partly = {"timestamp": 1, "results": [{"type": "SUCCESS"}, {"type": "UNREGISTERED_FAILURE"}]}
    daemon.next["send"] = [
        RpcError(-1, "no"),
        RpcError(-3, "io"),
        RpcError(-4, "untrusted"),
        RpcError(-5, "RateLimitException"),
        bad,
        slow,
        503,
        500,
        "drop",
        partly,
    ]
    problems = []
    async with running(channel):
        await until(lambda: host.up)
        for _ in range(9):
            with pytest.raises(DeliveryError) as refused:
                await channel.send(to(ALICE), words("x"), "k")
            problems.append(refused.value)
        await channel.send(to(ALICE), words("x"), "k")  # some of a group got it
        daemon.next["send"] = ["drop"]
        with pytest.raises(DeliveryError) as edit:
            await channel.edit(to(ALICE), "1:x", words("y"))
    kinds = [problem.kind.value for problem in problems]
    assert kinds == [
        "refused",
        "unknown",
        "refused",
        "rate_limit",
        "refused",
        "rate_limit",
        "transient",
        "unknown",
        "unknown",
    ]
    assert "safety number" in problems[2].cure
    assert problems[5].retry_after == 9
    assert edit.value.kind is DeliveryFailure.TRANSIENT


async def test_a_daemon_that_is_away_is_waited_for_and_one_without_the_account_is_not(daemon, host, tmp_path):
    away = RecordingHost(tmp_path / "away", {"account": ACCOUNT, "httpUrl": "http://127.0.0.1:9"})
    channel = signal(away)
    async with running(channel):
        await until(lambda: len(away.troubles) > 1)
        with pytest.raises(DeliveryError) as nobody:
            await channel.send(to(ALICE), words("x"), "k")
    assert nobody.value.kind is DeliveryFailure.TRANSIENT
    assert "daemon --http" in away.troubles[0]
    daemon.accounts = ["+1999"]
    with pytest.raises(ChannelError, match="signal-cli link") as unlinked:
        await signal(host).run()
    assert unlinked.value.fatal
    daemon.accounts = None  # serves a single account, and has no list
    assert (await signal(host).probe()).id == ACCOUNT


@pytest.mark.parametrize(
    "settings", [{}, {"account": "me"}, {"account": ACCOUNT, "transport": {"kind": "container", "url": "http://x"}}]
)
async def test_settings_that_cannot_work_end_the_account(tmp_path, settings):
    with pytest.raises(ChannelError) as wrong:
        await signal(RecordingHost(tmp_path, settings)).run()
    assert wrong.value.fatal


async def test_a_daemon_of_ours_is_started_and_ended(tmp_path):
    port = own_port()
    program, pid = tmp_path / "signal-cli", tmp_path / "pid"
    script = Path(__file__).with_name("fake_daemon.py")
    program.write_text(
        f'#!/bin/sh\necho $$ > {pid}\necho "$@" > {tmp_path}/args\nexec {sys.executable} {script} "$@"\n'
    )
    program.chmod(0o700)
    transport = {"kind": "managed-native", "cliPath": str(program), "configPath": "/keys", "httpPort": port}
    host = RecordingHost(tmp_path / "account", {"account": ACCOUNT, "transport": transport})
    async with running(signal(host)):
        await until(lambda: host.received)
        assert host.received[0].text == "from the daemon"
    assert f"--config /keys -a {ACCOUNT} daemon --http 127.0.0.1:{port}" in (tmp_path / "args").read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    program.write_text("#!/bin/sh\necho 'User +15550001 is not registered.' >&2\nexit 1\n")
    async with running(signal(host)):
        await until(lambda: any("not registered" in trouble for trouble in host.troubles))
    host.settings["transport"] = {**transport, "cliPath": str(tmp_path / "missing")}
    with pytest.raises(ChannelError, match="install signal-cli"):
        await signal(host).run()


async def test_the_directory(daemon, host):
    channel = signal(host)
    async with running(channel):
        await until(lambda: host.up)
        assert [found.id for found in await channel.directory("ali")] == [ALICE]
        assert [found.id for found in await channel.directory("club")] == [f"group:{GROUP}"]
        assert [found.id for found in await channel.directory("carol")] == ["uuid:cccc"]


def test_targets():
    assert read.target("+1555") == {"recipient": ["+1555"]}
    assert read.target(f"uuid:{ALICE_UUID}") == {"recipient": [ALICE_UUID]}
    assert read.target(f"signal:group:{GROUP}") == read.target(GROUP) == {"groupId": GROUP}
    assert read.target("username:alice.01") == {"username": ["alice.01"]}


_JSON = st.recursive(st.none() | st.booleans() | st.integers(-9, 9**9) | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
    st.sampled_from(["message", "mentions", "start", "length", "groupInfo", "groupId", "quote", "id", "attachments", "reaction"]), inner, max_size=4), max_leaves=8)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["dataMessage", "editMessage", "timestamp", "sourceName"]), _JSON))
def test_whatever_an_envelope_holds_it_is_a_message_or_an_error_that_is_caught(envelope):
    json.dumps(envelope)
    try:
        read.message(envelope, read.Me(ACCOUNT), ALICE)
        read.change(envelope, read.Me(ACCOUNT), ALICE)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
