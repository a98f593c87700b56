"""The Discord adapter against a gateway and REST server on loopback, through hikari."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hikari", reason="needs hikari: pip install 'homarus[discord]'")

from tests.channels.discord.fake_discord import (
    ALICE,
    BOT,
    DM,
    FORUM,
    GENERAL,
    GUILD,
    THREAD,
    TOKEN,
    FakeDiscord,
    Refuse,
    serving,
)
from tests.channels.platform_host import RecordingHost, outbound, running, until, words

from homarus.channels.discord.adapter import Discord
from homarus.channels.support import Pauses
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Media, Poll
from homarus.delivery.place import Button, Piece


@pytest.fixture
async def fake():
    async with serving() as server:
        yield server


@pytest.fixture
def host(tmp_path: Path) -> RecordingHost:
    host = RecordingHost(tmp_path / "account", {"token": TOKEN})
    host.commands = {"status": "Say how it goes", "new": "Begin anew", "Bad Name!": "is left out"}
    return host


def discord(host: RecordingHost, fake: FakeDiscord) -> Discord:
    return Discord(host, Pauses(0.01, 0.02), rest_url=f"{fake.base}/api")


def to(chat: str, **more: Any) -> Any:
    return outbound(chat, "discord", **more)


async def test_a_direct_message_comes_in_and_its_writer_can_be_answered(fake, host):
    channel = discord(host, fake)
    async with running(channel):
        await until(lambda: host.up)
        assert (host.up[0].id, host.up[0].handle) == ("100", "lobster")
        await fake.say("hello <@100>", mentions=[BOT])
        await until(lambda: host.received)
        got = host.received[0]
        assert (got.channel, got.text, got.sender, got.peer, got.chat_type) == (
            "discord",
            "hello @Lobster",
            "11",
            "11",
            "direct",
        )
        assert (got.sender_name, got.handle, got.mentioned, got.space) == ("Alice", "alice", True, "")
        await channel.send(to(got.peer), words("hi"), "k")
        await channel.typing(to(got.peer))
    assert [held["channel_id"] for held in fake.shown.values()] == [DM]
    assert fake.asked("POST", f"/channels/{DM}/typing") == [None]


async def test_guilds_threads_roles_replies_and_files(fake, host):
    said = fake.message("earlier", GENERAL, BOT)
    file = {"id": "1", "filename": "v.ogg", "size": 3, "url": f"{fake.base}/files/v", "proxy_url": "x", "content_type": "audio/ogg",
            "waveform": "AA", "duration_secs": 1.0}  # fmt: skip
    fake.files["v"] = b"OGG"
    channel = discord(host, fake)
    async with running(channel):
        await until(lambda: host.up)
        await fake.say("in the channel", GENERAL)
        await fake.say("in a thread", THREAD)
        await fake.say("in a thread nobody told of", "651")
        await fake.say(
            "an answer",
            GENERAL,
            type=19,
            message_reference={"message_id": said["id"], "channel_id": GENERAL},
            referenced_message=said,
        )
        await fake.say("", GENERAL, attachments=[file])
        await until(lambda: len(host.received) == 5)
        plain, threaded, unknown, answer, voice = host.received
        assert (plain.peer, plain.chat_type, plain.space, plain.roles, plain.parent) == (
            GENERAL,
            "channel",
            GUILD,
            ("77",),
            "",
        )
        assert plain.sender_name == "Al"
        assert (threaded.peer, threaded.parent) == (THREAD, GENERAL)
        assert (unknown.peer, unknown.parent) == ("651", GENERAL)
        assert answer.quote is not None
        assert (answer.quote.text, answer.quote.ours, answer.reply_to) == ("earlier", True, said["id"])
        assert voice.media[0].kind == "voice"
        assert b"".join([chunk async for chunk in channel.fetch(voice.media[0])]) == b"OGG"
        for elsewhere in (
            "https://evil.example/x",
            "http://cdn.discordapp.com/x",
            "https://discordapp.com.evil.example/x",
        ):
            with pytest.raises(DeliveryError, match="outside of Discord"):
                _ = [chunk async for chunk in channel.fetch(Media(ref=elsewhere))]


async def test_bots_webhooks_oneself_and_what_nobody_said(fake, host):
    async with running(discord(host, fake)):
        await until(lambda: host.up)
        await fake.say("beep", GENERAL, author=ALICE | {"id": "12", "bot": True})
        await fake.say("hook", GENERAL, webhook_id="99")
        await fake.say("me", GENERAL, author=BOT)
        await fake.say("pinned", GENERAL, type=6)
        forward = {"message": {"type": 0, "content": "/status", "embeds": [], "attachments": [], "timestamp": "2026-11-16T04:00:00+00:00",
                               "edited_timestamp": None, "mentions": [], "mention_roles": [], "flags": 0, "components": []}}  # fmt: skip
        await fake.say(
            "", DM, message_reference={"type": 1, "message_id": "1", "channel_id": "2"}, message_snapshots=[forward]
        )
        await until(lambda: len(host.received) == 4)
    bot, hook, me, forwarded = host.received
    assert bot.from_bot
    assert hook.from_bot
    assert me.from_self
    assert (forwarded.text, forwarded.forwarded, forwarded.command) == ("/status", True, "")


async def test_a_full_disk_loses_nothing_and_keeps_the_order(fake, host):
    async with running(discord(host, fake)):
        await until(lambda: host.up)
        host.disk_full = 2
        for text in ("one", "two", "three"):
            await fake.say(text)
        await until(lambda: len(host.received) == 3)
    assert [got.text for got in host.received] == ["one", "two", "three"]
    assert any("no space left" in trouble for trouble in host.troubles)


async def test_a_lost_connection_is_resumed_with_what_was_said_meanwhile(fake, host):
    async with running(discord(host, fake)):
        await until(lambda: host.up)
        await until(lambda: fake.heartbeats)
        await fake.drop()
        await fake.say("while you were away")
        await until(lambda: host.received)
        await until(lambda: len(host.up) == 2)
    assert fake.resumed == 1
    assert len(fake.identified) == 1
    assert any("connection was lost" in trouble for trouble in host.troubles)


async def test_what_was_said_while_the_program_was_down_is_read_when_it_is_back(fake, host):
    async with running(discord(host, fake)):
        await until(lambda: host.up)
        await fake.say("hello")
        await fake.say("in the room", GENERAL)
        await until(lambda: len(host.received) == 2)
    host.received.clear(), host.up.clear()
    fake._socket = None
    for chat in (fake.said[0]["channel_id"], GENERAL):
        for word in ("one", "two"):
            fake.said.append(fake.message(f"{word} in {chat}", chat))
    async with running(discord(host, fake)):
        await until(lambda: len(host.received) >= 4)
        # The last note of a chat may be a little old: whoever takes messages in knows those that come again.
        fresh = [got for got in host.received if got.text not in {"hello", "in the room"}]
    for chat, kind in ((fake.said[0]["channel_id"], "direct"), (GENERAL, "channel")):
        found = [got for got in fresh if got.text.endswith(f" {chat}")]
        assert [got.text.split()[0] for got in found] == ["one", "two"]
        assert {got.chat_type for got in found} == {kind}
        assert {bool(got.space) for got in found} == {kind == "channel"}


async def test_a_poll_of_discords_own(fake, host):
    async with running(channel := discord(host, fake)):
        await until(lambda: host.up)
        poll = Poll("Tea?", ("yes", "no"), multiple=True)
        await channel.send(outbound("user:11", "discord"), Piece("Tea? 1. yes", "Tea?", poll=poll), "k")
    asked = next(iter(fake.shown.values()))["asked"]
    assert asked["poll"]["question"] == {"text": "Tea?"} and asked["poll"]["allow_multiselect"] is True
    assert [row["poll_media"]["text"] for row in asked["poll"]["answers"]] == ["yes", "no"]
    assert not asked.get("content")


async def test_changes_are_told(fake, host):
    emoji = {"id": None, "name": "👍"}
    async with running(discord(host, fake)):
        await until(lambda: host.up)
        said = await fake.say("first", GENERAL)
        await fake.event(
            "MESSAGE_UPDATE", said | {"content": "second", "edited_timestamp": "2026-11-16T04:01:00+00:00"}
        )
        await fake.event(
            "MESSAGE_UPDATE", said | {"content": "second", "edited_timestamp": None}
        )  # only a preview was added
        await fake.event("MESSAGE_REACTION_ADD", {"user_id": "11", "channel_id": GENERAL, "message_id": said["id"], "guild_id": GUILD, "emoji": emoji,
                                                  "member": {"user": ALICE, "roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}, "type": 0, "burst": False})  # fmt: skip
        await fake.event(
            "MESSAGE_REACTION_ADD",
            {"user_id": "11", "channel_id": DM, "message_id": "5", "emoji": emoji, "type": 0, "burst": False},
        )
        await fake.event(
            "MESSAGE_REACTION_REMOVE",
            {
                "user_id": "11",
                "channel_id": GENERAL,
                "message_id": said["id"],
                "guild_id": GUILD,
                "emoji": emoji,
                "type": 0,
                "burst": False,
            },
        )
        await fake.event("MESSAGE_DELETE", {"id": said["id"], "channel_id": GENERAL, "guild_id": GUILD})
        await until(lambda: len(host.changes) == 5)
    assert [(change.kind, change.text, change.peer) for change in host.changes] == [
        ("edited", "second", GENERAL), ("reacted", "👍", GENERAL), ("reacted", "👍", DM), ("unreacted", "👍", GENERAL), ("deleted", "", GENERAL)]  # fmt: skip


async def test_slash_commands_and_buttons(fake, host):
    base = {"application_id": "100", "context": 0, "token": "t", "version": 1, "channel_id": GENERAL, "guild_id": GUILD, "locale": "en-US", "guild_locale": "en-US",
            "entitlements": [], "authorizing_integration_owners": {}, "attachment_size_limit": 1, "app_permissions": "0",
            "channel": {"id": GENERAL, "type": 0, "name": "general", "permissions": "0"},
            "member": {"user": ALICE, "roles": ["77"], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0,
                       "permissions": "0", "nick": None, "avatar": None, "pending": False, "premium_since": None, "communication_disabled_until": None}}  # fmt: skip
    async with running(discord(host, fake)):
        await until(lambda: host.up)
        await fake.event(
            "INTERACTION_CREATE",
            base
            | {
                "id": "70001",
                "type": 2,
                "data": {
                    "id": "1",
                    "name": "status",
                    "type": 1,
                    "options": [{"name": "text", "type": 3, "value": "all"}],
                },
            },
        )
        shown = fake.message("Shall I?", GENERAL, BOT)
        await fake.event(
            "INTERACTION_CREATE",
            base
            | {
                "id": "70002",
                "type": 3,
                "data": {"custom_id": "/approve 1 deny", "component_type": 2},
                "message": shown,
            },
        )
        await until(lambda: len(host.received) == 2)
        await until(lambda: fake.asked("POST", "/interactions/70002/t/callback"))
    command, tap = host.received
    assert (command.command, command.sender, command.roles) == ("/status all", "11", ("77",))
    assert (tap.command, tap.reply_to) == ("/approve 1 deny", shown["id"])
    assert fake.asked("POST", "/interactions/70001/t/callback")[0]["data"]["flags"] == 64
    rows = fake.asked("PUT", "/applications/100/commands")[0]
    assert [row["name"] for row in rows] == ["status", "new"]


async def test_the_menu_is_only_set_when_it_changed(fake, host):
    for _ in range(2):
        host.up.clear()
        async with running(discord(host, fake)):
            await until(lambda: host.up)
    assert len(fake.asked("PUT", "/applications/100/commands")) == 1
    assert json.loads((host.folder / "chats.json").read_bytes())["menu"]


async def test_sending_the_same_key_twice_shows_it_once_and_pings_nobody(fake, host):
    channel = discord(host, fake)
    piece = Piece(text="**hi** @everyone", plain="hi", buttons=((Button("Yes", "/yes"), Button("Long", "x" * 101)),))
    async with running(channel):
        await until(lambda: host.up)
        first = await channel.send(to(f"channel:{GENERAL}", reply_to="3", silent=True), piece, "key")
        again = await channel.send(to(GENERAL), piece, "key")
        other = await channel.send(to("user:12"), words("hi"), "other")
        await channel.edit(to(GENERAL), first, words("edited"))
        await channel.react(to(GENERAL), first, "👍")
        await channel.react(to(GENERAL), first, "👍", on=False)
        await channel.delete(to("user:12"), other)
    assert first == again
    asked = fake.shown[first]["asked"]
    assert asked["allowed_mentions"] == {"parse": ["users"]}
    assert asked["flags"] == (1 << 2) | (1 << 12)
    assert asked["message_reference"]["fail_if_not_exists"] is False
    assert [button["label"] for button in asked["components"][0]["components"]] == ["Yes"]
    assert fake.shown[first]["content"] == "edited"
    assert other not in fake.shown
    assert ("PUT", f"/channels/{GENERAL}/messages/{first}/reactions/👍/@me", None) in fake.calls


async def test_a_forum_gets_a_post_with_a_title_and_files_go_up(fake, host, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"content")
    channel = discord(host, fake)
    async with running(channel):
        await until(lambda: host.up)
        await until(lambda: channel._bot.cache.get_guild_channel(int(FORUM)))
        sent = await channel.send(to(FORUM), Piece(text="# News\nbody", plain="News\nbody"), "k")
        await channel.edit(to(FORUM), sent, words("better"))
        await channel.send(to(GENERAL), Piece(text="see", plain="see", file=str(tmp_path / "a.txt")), "f")
    post = fake.asked("POST", f"/channels/{FORUM}/threads")[0]
    assert (post["name"], post["message"]["content"]) == ("News", "# News\nbody")
    assert fake.shown[sent.partition("/")[0]]["content"] == "better"
    assert fake.asked("POST", f"/channels/{GENERAL}/messages")[0]["uploaded"] == [b"content"]


async def test_every_refusal_says_what_can_be_done(fake, host):
    channel = discord(host, fake)
    path = f"POST /channels/{GENERAL}/messages"
    fake.next["send"] = [Refuse(429, "You are being rate limited.", retry_after=1.5, **{"global": False}), Refuse(403, "Missing Permissions", 50013),
                       Refuse(502, "bad gateway"), "drop"]  # fmt: skip
    problems = []
    async with running(channel):
        await until(lambda: host.up)
        for _ in range(4):
            with pytest.raises(DeliveryError) as refused:
                await channel.send(to(GENERAL), words("x"), "k")
            problems.append(refused.value)
        with pytest.raises(DeliveryError, match="Unknown Channel"):
            await channel.send(to("404"), words("x"), "k")
        with pytest.raises(DeliveryError, match="nobody"):
            await channel.send(to("@alice"), words("x"), "k")
        assert len(fake.asked(*path.split())) == 4  # each was asked once: nobody but the outbox tries again
        await channel.send(to(GENERAL), words("x"), "k")
    assert [problem.kind.value for problem in problems] == ["rate_limit", "refused", "unknown", "unknown"]
    assert problems[0].retry_after == 1.5
    assert len(fake.shown) == 1  # the lost answer's message, found again by its key


@pytest.mark.parametrize(("code", "cure"), [(4004, "token is wrong"), (4014, "Message Content Intent")])
async def test_what_no_patience_cures_ends_the_account(fake, host, code, cure):
    fake.close_code = code
    with pytest.raises(ChannelError, match=cure) as closed:
        await discord(host, fake).run()
    assert closed.value.fatal
    assert TOKEN not in str(closed.value)


async def test_a_wrong_token_is_fatal_and_a_server_that_is_away_is_not(fake, host, tmp_path):
    wrong = RecordingHost(tmp_path / "wrong", {"token": "MTAw.wrong.x"})
    with pytest.raises(ChannelError) as refused:
        await discord(wrong, fake).run()
    assert refused.value.fatal
    with pytest.raises(ChannelError, match="DISCORD_BOT_TOKEN"):
        await discord(RecordingHost(tmp_path / "none", {}), fake).run()
    away = Discord(host, Pauses(0.01, 0.02), rest_url="http://127.0.0.1:9/api")
    async with running(away):
        await until(lambda: len(host.troubles) > 1)
        with pytest.raises(DeliveryError) as nobody:
            await away.send(to(GENERAL), words("x"), "k")
    assert nobody.value.kind is DeliveryFailure.TRANSIENT


async def test_a_probe_tells_of_the_missing_intent(fake, host):
    assert (await discord(host, fake).probe()).note == ""
    fake.content_intent = False
    assert "Message Content Intent is off" in (await discord(host, fake).probe()).note


async def test_the_directory_lists_channels_and_members(fake, host):
    channel = discord(host, fake)
    async with running(channel):
        await until(lambda: host.up)
        await until(lambda: channel._bot.cache.get_guild_channel(int(GENERAL)))
        assert [found.id for found in await channel.directory("#gen")] == [f"channel:{GENERAL}"]
        assert [found.id for found in await channel.directory("ali")] == ["user:11"]
