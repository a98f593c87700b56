"""The Slack adapter against a Web API and a socket on loopback, through slack_sdk."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("slack_sdk", reason="needs slack_sdk: pip install 'homarus[slack]'")
pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'homarus[slack]'")

from tests.channels.platform_host import RecordingHost, outbound, running, until, words
from tests.channels.slack.fake_slack import ALICE, APP_TOKEN, BOT_TOKEN, DM, GENERAL, ME, FakeSlack, Refuse, serving

from homarus.channels.slack.adapter import Slack
from homarus.channels.slack.inbound import emoji_name, readable
from homarus.channels.support import Call, Pauses
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Media
from homarus.delivery.place import Button, Piece


@pytest.fixture
async def fake():
    async with serving() as server:
        yield server


@pytest.fixture
def host(tmp_path: Path) -> RecordingHost:
    return RecordingHost(tmp_path / "account", {"botToken": BOT_TOKEN, "appToken": APP_TOKEN})


def slack(host: RecordingHost, fake: FakeSlack) -> Slack:
    return Slack(host, Pauses(0.01, 0.02), base=f"{fake.base}/api/", ping_seconds=0.1)


def to(chat: str, **more: Any) -> Any:
    return outbound(chat, "slack", **more)


async def test_a_message_is_acknowledged_when_it_is_safe_and_not_before(fake, host):
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        host.disk_full = 1
        await fake.say("hello &amp; <https://x.example|there>")
        await until(lambda: host.troubles)
        assert fake.acknowledged == {}
        await fake.redeliver()
        await until(lambda: fake.acknowledged)
    [got] = host.received
    assert (got.channel, got.text, got.sender, got.peer, got.chat_type) == (
        "slack",
        "hello & there (https://x.example)",
        ALICE,
        ALICE,
        "direct",
    )
    assert (got.sender_name, got.space, got.timestamp) == ("Alice", "T0", 1_790_000_000_000)


async def test_channels_threads_mentions_and_other_speakers(fake, host):
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        stamp = await fake.say(f"<@{ME}> look", GENERAL)
        await fake.event(
            {"type": "app_mention", "channel": GENERAL, "user": ALICE, "text": f"<@{ME}> look", "ts": stamp}
        )
        await fake.say("in a thread", GENERAL, thread_ts="1.1", parent_user_id=ME)
        await fake.say("beep", GENERAL, user=None, bot_id="B9", subtype="bot_message", username="Beeper")
        await fake.say("mine", GENERAL, user=ME, bot_id="B0")
        await fake.say("joined", GENERAL, subtype="channel_join")
        await fake.say("to all", "G0MPIM")
        await until(lambda: len(fake.acknowledged) == 7)
    named, again, threaded, bot, mine, several = host.received
    assert named.mentioned
    assert named.text == "@Alice look"  # every name comes from Slack, also the bot's own
    assert (named.chat_type, named.peer) == ("channel", GENERAL)
    assert named.id == again.id == stamp  # one message that came as two events
    assert (threaded.thread, threaded.quote and threaded.quote.ours) == ("1.1", True)
    assert (bot.from_bot, bot.sender, bot.sender_name) == (True, "B9", "Beeper")
    assert mine.from_self
    assert several.chat_type == "group"


async def test_what_a_program_sent_twice_counts_once_and_what_slack_delivers_again_is_for_the_program_to_know(
    fake, host
):
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        await fake.say("once", client_msg_id="c1")
        await fake.say("once", client_msg_id="c1")
        await fake.event(fake.last | {"ts": "1790000000.000001"})
        await until(lambda: len(fake.acknowledged) == 3)
    assert [got.id for got in host.received] == ["1790000000.000001"] * 2


async def test_files_are_fetched_from_slack_with_the_token_and_from_nobody_else(fake, host):
    fake.files["a.png"] = b"PNG"
    file = {
        "id": "F9",
        "name": "a.png",
        "mimetype": "image/png",
        "size": 3,
        "url_private_download": f"{fake.base}/files/a.png",
    }
    channel = slack(host, fake)
    async with running(channel):
        await until(lambda: host.up)
        await fake.say("", files=[file], subtype="file_share")
        await until(lambda: host.received)
        media = host.received[0].media[0]
        assert (media.kind, media.name) == ("image", "a.png")
        assert b"".join([chunk async for chunk in channel.fetch(media)]) == b"PNG"
        for elsewhere in ("https://evil.example/x", "http://files.slack.com/x", "https://slack.com.evil.example/x"):
            with pytest.raises(DeliveryError, match="outside of Slack"):
                _ = [chunk async for chunk in channel.fetch(Media(ref=elsewhere))]
        host.settings["botToken"] = "xoxb-other"
        with pytest.raises(DeliveryError, match="files:read"):
            _ = [chunk async for chunk in channel.fetch(media)]


async def test_slash_commands_and_buttons(fake, host):
    host.settings["slashCommand"] = {"name": "lobster"}
    call = {"user_id": ALICE, "user_name": "alice", "channel_id": GENERAL, "team_id": "T0"}
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        own = await fake.envelope(
            "slash_commands", call | {"command": "/lobster", "text": "status all", "trigger_id": "1"}
        )
        await fake.envelope("slash_commands", call | {"command": "/new", "text": "", "trigger_id": "2"})
        tapped = {
            "user": {"id": ALICE, "username": "alice"},
            "channel": {"id": DM},
            "team": {"id": "T0"},
            "message": {"ts": "5.5", "text": "Shall I?"},
        }
        await fake.envelope(
            "interactive",
            tapped | {"type": "block_actions", "actions": [{"value": "/approve 1 deny", "action_ts": "6.6"}]},
        )
        await until(lambda: len(fake.acknowledged) == 3)
    assert [got.command for got in host.received] == ["/status all", "/new", "/approve 1 deny"]
    assert (host.received[2].peer, host.received[2].chat_type, host.received[2].reply_to) == (ALICE, "direct", "5.5")
    assert fake.acknowledged[own] == {"response_type": "ephemeral", "text": "✓"}


async def test_changes_are_told(fake, host):
    item = {"type": "message", "channel": GENERAL, "ts": "5.5"}
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        changed = {
            "type": "message",
            "subtype": "message_changed",
            "channel": GENERAL,
            "channel_type": "channel",
            "ts": "9.9",
        }
        await fake.event(
            changed | {"message": {"user": ALICE, "text": "new", "ts": "5.5"}, "previous_message": {"text": "old"}}
        )
        await fake.event(
            changed | {"message": {"user": ALICE, "text": "same", "ts": "5.5"}, "previous_message": {"text": "same"}}
        )
        await fake.event(
            {
                "type": "message",
                "subtype": "message_deleted",
                "channel": GENERAL,
                "channel_type": "channel",
                "deleted_ts": "5.5",
                "ts": "9.9",
            }
        )
        await fake.event({"type": "reaction_added", "user": ALICE, "reaction": "eyes", "item": item})
        await fake.event({"type": "reaction_removed", "user": ALICE, "reaction": "eyes", "item": item})
        await fake.event({"type": "reaction_added", "user": ME, "reaction": "eyes", "item": item})
        await until(lambda: len(fake.acknowledged) == 6)
    assert [(change.kind, change.text) for change in host.changes] == [
        ("edited", "new"), ("deleted", ""), ("reacted", ":eyes:"), ("unreacted", ":eyes:")]  # fmt: skip
    assert host.received == []


async def test_an_event_that_cannot_be_read_is_passed_over_and_not_asked_for_again(fake, host):
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        await fake.event({"type": "message", "channel": DM, "user": ALICE, "text": "no time"})
        await fake.say("after it")
        await until(lambda: host.received)
        await until(lambda: not fake.waiting)
    assert any("passed over" in trouble for trouble in host.troubles)


async def test_a_lost_socket_is_opened_again_with_what_was_said_meanwhile(fake, host):
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        await fake.drop()
        await fake.say("while you were away")
        await until(lambda: host.received)
        await until(lambda: len(host.up) == 2)
    assert any("connection was lost" in trouble for trouble in host.troubles)


async def test_when_slack_asks_for_a_new_socket_nothing_is_lost(fake, host):
    async with running(slack(host, fake)):
        await until(lambda: host.up)
        first = fake.socket
        await first.send_json({"type": "disconnect", "reason": "refresh_requested"})
        await until(lambda: fake.socket is not first)
        await fake.say("on the new one")
        await until(lambda: host.received)


async def test_sending_editing_and_threads(fake, host):
    channel = slack(host, fake)
    piece = Piece(text="*hi*", plain="hi", buttons=((Button("Yes", "/yes"),),))
    async with running(channel):
        await until(lambda: host.up)
        sent = await channel.send(to(GENERAL, thread="1.1"), piece, "k")
        await channel.send(to(f"user:{ALICE}"), words("<plain>"), "k")
        await channel.edit(to(GENERAL), sent, words("better"))
        await channel.react(to(GENERAL), sent, "👀")
        await channel.react(to(GENERAL), sent, "👀")  # it is there already: as good as done
        await channel.react(to(GENERAL), sent, "👀", on=False)
        with pytest.raises(DeliveryError, match="no emoji of that name"):
            await channel.react(to(GENERAL), sent, ":nonsense:")
        await channel.typing(to(GENERAL))
        first, second = fake.asked("chat.postMessage")
        assert (first["thread_ts"], first["mrkdwn"], first["unfurl_links"]) == ("1.1", True, False)
        assert first["blocks"][1]["elements"][0]["value"] == "/yes"
        assert (second["channel"], second["mrkdwn"], second["text"]) == ("D0ALICE", False, "<plain>")
        assert fake.messages[sent]["text"] == "better"
        assert fake.messages[sent]["blocks"] == []
        await channel.delete(to(GENERAL), sent)
        assert sent not in fake.messages


async def test_a_file_goes_up_in_three_steps(fake, host, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"content")
    channel = slack(host, fake)
    async with running(channel):
        await until(lambda: host.up)
        sent = await channel.send(
            to(GENERAL, thread="1.1"), Piece(text="see", plain="see", file=str(tmp_path / "a.txt")), "k"
        )
        await channel.delete(to(GENERAL), sent)
    [held] = fake.messages.values()
    assert (held["text"], held["thread_ts"], held["file"]) == ("see", "1.1", b"content")
    assert fake.asked("files.delete") == [{"file": "F1"}]


async def test_every_refusal_says_what_can_be_done(fake, host):
    channel = slack(host, fake)
    fake.next["chat.postMessage"] = [
        Refuse("ratelimited", 429, {"Retry-After": "7"}), Refuse("not_in_channel"), Refuse("missing_scope", needed="chat:write"),
        Refuse("fatal_error"), Refuse(status=503), Refuse(status=502), Refuse("invalid_blocks"), "drop"]  # fmt: skip
    problems = []
    async with running(channel):
        await until(lambda: host.up)
        for _ in range(8):
            with pytest.raises(DeliveryError) as refused:
                await channel.send(to(GENERAL), words("x"), "k")
            problems.append(refused.value)
        fake.next["chat.update"] = [Refuse("internal_error")]
        with pytest.raises(DeliveryError) as edit:
            await channel.edit(to(GENERAL), "1.1", words("x"))
    assert [problem.kind.value for problem in problems] == [
        "rate_limit", "refused", "refused", "unknown", "transient", "unknown", "markup", "unknown"]  # fmt: skip
    assert problems[0].retry_after == 7
    assert "/invite" in problems[1].cure
    assert "chat:write" in problems[2].message
    assert edit.value.kind is DeliveryFailure.TRANSIENT  # an edit may happen twice
    assert not any(BOT_TOKEN in str(problem) for problem in problems)
    assert len(fake.asked("chat.postMessage")) == 8


@pytest.mark.parametrize("key", ["botToken", "appToken"])
async def test_a_wrong_token_ends_the_account(fake, host, key):
    host.settings[key] = "xoxb-wrong"
    with pytest.raises(ChannelError, match="invalid_auth") as wrong:
        async with asyncio.timeout(60):
            await slack(host, fake).run()
    assert wrong.value.fatal
    del host.settings[key]
    with pytest.raises(ChannelError, match="SLACK_BOT_TOKEN"):
        await slack(host, fake).run()


async def test_a_server_that_is_away_is_waited_for(host):
    channel = Slack(host, Pauses(0.01, 0.02), base="http://127.0.0.1:9/api/")
    async with running(channel):
        await until(lambda: len(host.troubles) > 1)
        with pytest.raises(DeliveryError) as nobody:
            await channel.send(to(GENERAL), words("x"), "k")
    assert nobody.value.kind is DeliveryFailure.TRANSIENT


async def test_probe_and_directory(fake, host):
    channel = slack(host, fake)
    assert (await channel.probe()).id == ME
    async with running(channel):
        await until(lambda: host.up)
        assert [found.id for found in await channel.directory("#gen")] == [GENERAL]
        assert [found.id for found in await channel.directory("alice")] == [ALICE]


def test_names_of_emoji():
    assert [emoji_name(emoji) for emoji in ("👍", ":eyes:", "👀", "❤️", "🔥")] == ["+1", "eyes", "eyes", "heart", "fire"]


@given(st.text())
def test_whatever_people_write_is_readable(text):
    assert isinstance(readable(text, {}), str)
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert readable(escaped, {}) == text


SECRET = "8f742231b10e8888abcd99yyyzzz85a5"


def signature(body: bytes, stamp: int, secret: str = SECRET) -> dict[str, str]:
    made = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": str(stamp), "x-slack-signature": f"v0={made}"}


async def test_signed_requests_in_the_place_of_a_socket(fake, host):
    host.settings = {"botToken": BOT_TOKEN, "mode": "http", "signingSecret": SECRET, "webhookPort": 0}
    event = {"type": "message", "channel": DM, "channel_type": "im", "user": ALICE, "text": "hello", "ts": "1.000001"}
    body = json.dumps({"type": "event_callback", "team_id": "T0", "event": event}).encode()
    now = int(time.time())
    json_kind, form_kind = {"content-type": "application/json"}, {"content-type": "application/x-www-form-urlencoded"}
    async with running(channel := slack(host, fake)):
        await until(lambda: host.up)

        async def call(given: bytes, headers: dict[str, str]) -> tuple[int, str]:
            status, answer = await channel.called(Call("POST", headers, "", given))
            return status, answer.decode()

        # Nobody else's signature counts, nor an old one, nor one of another body, nor none.
        for wrong in (signature(body, now, "other"), signature(body, now - 400), signature(b"{}", now), {}):
            assert (await call(body, json_kind | wrong))[0] == 401
        assert host.received == []
        asked = json.dumps({"type": "url_verification", "challenge": "c4"}).encode()
        assert await call(asked, json_kind | signature(asked, now)) == (200, "c4")
        host.disk_full = 1
        assert (await call(body, json_kind | signature(body, now)))[0] == 503
        again = json_kind | signature(body, now) | {"x-slack-retry-num": "1"}
        assert (await call(body, again))[0] == 200
        assert [got.text for got in host.received] == ["hello"]
        slash = urlencode({"command": "/openclaw", "text": "status", "user_id": ALICE, "channel_id": DM,
                           "team_id": "T0", "trigger_id": "t1", "channel_name": "directmessage"}).encode()  # fmt: skip
        status, told = await call(slash, form_kind | signature(slash, now))
        assert (status, json.loads(told)["text"]) == (200, "✓")
        assert host.received[-1].command == "/status"
        tap = {"type": "block_actions", "user": {"id": ALICE}, "channel": {"id": DM}, "team": {"id": "T0"},
               "actions": [{"value": "/approve x once", "action_ts": "9.9"}]}  # fmt: skip
        tapped = urlencode({"payload": json.dumps(tap)}).encode()
        assert (await call(tapped, form_kind | signature(tapped, now)))[0] == 200
        assert host.received[-1].command == "/approve x once"
        assert (await call(b"{", json_kind | signature(b"{", now)))[0] == 400
        assert await channel.send(to(ALICE), words("hi"), "k")


@pytest.mark.parametrize("settings", [{"mode": "http"}, {"mode": "carrier pigeon", "appToken": APP_TOKEN}, {}])
async def test_a_mode_that_lacks_something_says_so(fake, host, settings):
    host.settings = {"botToken": BOT_TOKEN, **settings}
    with pytest.raises(ChannelError) as caught:
        await slack(host, fake).run()
    assert caught.value.fatal
