"""The Telegram adapter against a Bot API server on loopback, through aiogram."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("aiogram", reason="needs aiogram: pip install 'homarus[telegram]'")

from tests.channels.platform_host import RecordingHost, outbound, running, until, words
from tests.channels.telegram.bot_api import ALICE, DM, FORUM, GROUP, ME, TOKEN, BotApi, Refuse, serving

from homarus.channels.support import Pauses
from homarus.channels.telegram import inbound as read
from homarus.channels.telegram.adapter import Telegram
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Media, Poll
from homarus.delivery.place import Button, Piece


@pytest.fixture
async def api():
    async with serving() as server:
        yield server


@pytest.fixture
def host(api: BotApi, tmp_path: Path) -> RecordingHost:
    host = RecordingHost(tmp_path / "account", {"botToken": TOKEN, "apiRoot": api.base})
    host.commands = {"status": "Say how it goes", "new": "Begin anew", "Bad Name!": "is left out"}
    return host


def telegram(host: RecordingHost) -> Telegram:
    return Telegram(host, lambda: Pauses(0.01, 0.02), poll_seconds=1)


def to(chat: str, **more: Any) -> Any:
    return outbound(chat, "telegram", **more)


async def test_a_direct_message_comes_in_with_who_wrote_it_and_what_it_answers(api, host):
    api.say("hello", reply_to_message={"message_id": 7, "date": 1, "chat": DM, "from": ME, "text": "earlier"})
    async with running(telegram(host)):
        await until(lambda: host.received)
    got = host.received[0]
    assert (got.channel, got.text, got.sender, got.peer, got.chat_type) == ("telegram", "hello", "11", "11", "direct")
    assert (got.sender_name, got.handle, got.timestamp) == ("Alice A", "alice", 1_790_000_000_000)
    assert got.quote is not None
    assert (got.quote.id, got.quote.text, got.quote.ours) == ("7", "earlier", True)
    assert not got.mentioned
    assert not got.from_self


async def test_what_was_taken_in_is_never_asked_for_again_and_what_was_not_is(api, host):
    host.disk_full = 2
    api.say("one")
    last = api.say("two")
    async with running(telegram(host)):
        await until(lambda: len(host.received) == 2)
        await until(lambda: not api.pending)
    assert [got.text for got in host.received] == ["one", "two"]
    assert any("no space left" in trouble for trouble in host.troubles)
    assert json.loads((host.folder / "offset.json").read_bytes()) == {"bot": 4242, "next": last + 1}
    # After a restart it begins where it stopped, also when Telegram still has everything.
    api.update(message={"message_id": 99, "date": 1, "chat": DM, "from": ALICE, "text": "three"})
    api.calls.clear()
    async with running(telegram(host)):
        await until(lambda: len(host.received) == 3)
    assert api.asked("getUpdates")[0]["offset"] == last + 1


async def test_the_offset_of_another_bot_is_not_believed(api, host):
    (host.folder / "offset.json").write_text('{"bot": 1, "next": 999999}')
    api.say("hello")
    async with running(telegram(host)):
        await until(lambda: host.received)


async def test_an_update_that_cannot_be_read_holds_up_no_other(api, host):
    api.update(message={"message_id": "not a number"})
    api.say("after it")
    async with running(telegram(host)):
        await until(lambda: host.received)
    assert host.received[0].text == "after it"
    assert any("passed over" in trouble for trouble in host.troubles)


async def test_groups_mentions_commands_and_strange_speakers(api, host):
    def entity(kind: str, offset: int, length: int, **more: Any) -> list[dict[str, Any]]:
        return [{"type": kind, "offset": offset, "length": length, **more}]

    api.say("👍 @lobsterbot hi", GROUP, entities=entity("mention", 3, 11))
    api.say("/status@LobsterBot now", GROUP, entities=entity("bot_command", 0, 18))
    api.say("/status@OtherBot", GROUP, entities=entity("bot_command", 0, 16))
    api.say(
        "/status",
        DM,
        entities=entity("bot_command", 0, 7),
        forward_origin={"type": "hidden_user", "date": 1, "sender_user_name": "x"},
    )
    api.say(
        "from the shadows",
        GROUP,
        sender_chat=GROUP,
        **{"from": {"id": 1087968824, "is_bot": True, "first_name": "Group"}},
    )
    api.say("beep", GROUP, **{"from": {"id": 77, "is_bot": True, "first_name": "Bot"}})
    api.say("mine", GROUP, **{"from": ME})
    async with running(telegram(host)):
        await until(lambda: len(host.received) == 7)
    named, ours, other, forwarded, hidden, bot, self_said = host.received
    assert named.mentioned
    assert (named.chat_type, named.peer, named.sender) == ("group", "-200", "11")
    assert (ours.command, ours.mentioned) == ("/status now", True)
    assert (other.command, other.mentioned) == ("", False)
    assert (forwarded.command, forwarded.forwarded) == ("", True)
    assert (hidden.sender, hidden.from_bot) == ("-200", False)
    assert bot.from_bot
    assert self_said.from_self


async def test_topics_are_threads_and_the_general_one_is_left_out_when_sending(api, host):
    created = {"name": "t", "icon_color": 1}
    api.say("in five", FORUM, message_thread_id=5, is_topic_message=True,
            reply_to_message={"message_id": 5, "date": 1, "chat": FORUM, "from": ALICE, "forum_topic_created": created})  # fmt: skip
    api.say("in general", FORUM)
    api.say("a reply thread, no topic", GROUP, message_thread_id=9)
    api.say("direct", DM, message_thread_id=3, is_topic_message=True)
    channel = telegram(host)
    async with running(channel):
        await until(lambda: len(host.received) == 4)
        assert [got.thread for got in host.received] == ["5", "1", "", ""]
        assert host.received[0].quote is None
        await channel.send(to("-100300", thread="1"), words("general"), "k")
        await channel.send(to("-100300:topic:5"), words("five"), "k")
        await channel.typing(to("-100300", thread="1"))
    assert [form.get("message_thread_id") for form in api.asked("sendMessage")] == [None, 5]
    assert api.asked("sendChatAction")[0]["message_thread_id"] == 1


async def test_direct_topics_count_only_where_the_bot_has_them(api, host):
    api.me["has_topics_enabled"] = True
    api.say("direct", DM, message_thread_id=3, is_topic_message=True)
    async with running(telegram(host)):
        await until(lambda: host.received)
    assert host.received[0].thread == "3"


async def test_albums_files_and_things_without_words(api, host):
    photo = [{"file_id": "small", "file_unique_id": "a", "width": 1, "height": 1},
             {"file_id": "large", "file_unique_id": "b", "width": 9, "height": 9, "file_size": 5}]  # fmt: skip
    api.say(photo=photo, media_group_id="g", caption="two pictures")
    api.say(photo=photo, media_group_id="g")
    api.say(voice={"file_id": "v", "file_unique_id": "v", "duration": 1, "mime_type": "audio/ogg"})
    api.say(
        document={"file_id": "d", "file_unique_id": "d", "file_name": "../../x.pdf", "mime_type": "application/pdf"}
    )
    api.say(location={"latitude": 52.5, "longitude": 13.4})
    api.files["photos/large.jpg"] = b"JPEG"
    channel = telegram(host)
    async with running(channel):
        await until(lambda: len(host.received) == 4)
        album, voice, document, place = host.received
        assert (album.text, [media.ref for media in album.media]) == ("two pictures", ["large", "large"])
        assert voice.media[0].kind == "voice"
        assert document.media[0].name == "../../x.pdf"  # made safe where files are kept, not here
        assert place.text == "[location: 52.5, 13.4]"
        assert b"".join([chunk async for chunk in channel.fetch(album.media[0])]) == b"JPEG"
        with pytest.raises(DeliveryError, match="20 MB"):
            _ = [chunk async for chunk in channel.fetch(Media(ref="huge"))]
        with pytest.raises(DeliveryError, match="HTTP 404") as gone:
            _ = [chunk async for chunk in channel.fetch(Media(ref="gone"))]
        assert TOKEN not in str(gone.value)


async def test_taps_edits_reactions_and_a_group_that_moves(api, host):
    shown = {"message_id": 5, "date": 1, "chat": GROUP, "from": ME, "text": "Shall I?"}
    api.update(
        callback_query={
            "id": "q",
            "from": ALICE,
            "chat_instance": "c",
            "data": "/approve 1 allow-once",
            "message": shown,
        }
    )
    api.update(edited_message={"message_id": 6, "date": 1, "edit_date": 2, "chat": DM, "from": ALICE, "text": "better"})
    api.update(message_reaction={"chat": DM, "message_id": 6, "date": 1, "user": ALICE, "old_reaction": [{"type": "emoji", "emoji": "👀"}],
                                 "new_reaction": [{"type": "emoji", "emoji": "👍"}]})  # fmt: skip
    api.say(chat=GROUP, migrate_to_chat_id=-100200)
    channel = telegram(host)
    async with running(channel):
        await until(lambda: len(host.changes) == 4)
        await until(lambda: api.asked("answerCallbackQuery"))
        await channel.send(to("-200"), words("to the old id"), "k")
    tap = host.received[0]
    assert (tap.command, tap.sender, tap.reply_to) == ("/approve 1 allow-once", "11", "5")
    assert [(change.kind, change.text) for change in host.changes] == [
        ("edited", "better"), ("reacted", "👍"), ("unreacted", "👀"), ("moved", "-100200")]  # fmt: skip
    assert api.shown("-100200") == ["to the old id"]


async def test_a_move_that_only_sending_tells_is_told_and_the_next_try_goes_there(api, host):
    channel = telegram(host)
    api.next["moved"] = []
    async with running(channel):
        with pytest.raises(DeliveryError) as moved:
            await channel.send(to("-200"), words("hi"), "k")
        assert moved.value.kind is DeliveryFailure.TRANSIENT
        await channel.send(to("-200"), words("hi"), "k")
        await until(lambda: host.changes)
    assert host.changes[0].kind == "moved"
    assert api.shown("-100200") == ["hi"]


async def test_sending_with_markup_reply_buttons_and_without_previews(api, host):
    channel = telegram(host)
    long = "/approve " + "x" * 80
    piece = Piece(text="<b>hi</b> &lt;", plain="hi <", buttons=((Button("Yes", "/yes"), Button("Long", long)),))
    async with running(channel):
        sent = await channel.send(to("11", reply_to="3", silent=True), piece, "k")
        await channel.edit(to("11"), sent, words("plain < now"))
        await channel.edit(to("11"), sent, words("plain < now"))  # not modified: as good as done
        await channel.react(to("11"), "3", "👍")
        await channel.react(to("11"), "3", "👍", on=False)
        with pytest.raises(DeliveryError, match="REACTION_INVALID"):
            await channel.react(to("11"), "3", "🦞")
        form = api.asked("sendMessage")[0]
        assert form["parse_mode"] == "HTML"
        assert form["link_preview_options"] == {"is_disabled": True}
        assert form["reply_parameters"] == {"message_id": 3, "allow_sending_without_reply": True}
        assert form["disable_notification"] is True
        assert form["reply_markup"]["inline_keyboard"][0][1]["copy_text"] == {"text": long}
        assert "parse_mode" not in api.asked("editMessageText")[0]
        assert api.shown("11") == ["plain < now"]
        await channel.delete(to("tg:user:11"), sent)
        assert api.shown("11") == []
        for nonsense in (
            channel.edit(to("11"), "x", words("y")),
            channel.delete(to("11"), ""),
            channel.react(to("11"), "-1", "👍"),
        ):
            with pytest.raises(DeliveryError, match="no message"):
                await nonsense


@pytest.mark.parametrize(
    ("name", "voice", "method"),
    [("a.png", False, "sendPhoto"), ("a.ogg", True, "sendVoice"), ("a.gif", False, "sendAnimation"),
     ("a.mp4", False, "sendVideo"), ("a.mp3", False, "sendAudio"), ("a.pdf", False, "sendDocument")],
)  # fmt: skip
async def test_files_go_out_as_what_they_are(api, host, tmp_path, name, voice, method):
    (tmp_path / name).write_bytes(b"bytes")
    channel = telegram(host)
    async with running(channel):
        await channel.send(to("11"), Piece(text="see", plain="see", file=str(tmp_path / name), as_voice=voice), "k")
    form = api.asked(method)[0]
    assert form["caption"] == "see"
    assert b"bytes" in form.values()


async def test_every_refusal_says_what_can_be_done(api, host):
    channel = telegram(host)
    api.next["sendMessage"] = [Refuse(429, "Too Many Requests: retry after 7", retry_after=7), Refuse(503, "Service Unavailable"),
                               Refuse(403, "Forbidden: bot was blocked by the user"), "html", "drop"]  # fmt: skip
    kinds = []
    async with running(channel):
        for _ in range(5):
            with pytest.raises(DeliveryError) as refused:
                await channel.send(to("11"), words("x"), "k")
            kinds.append(refused.value)
        with pytest.raises(DeliveryError) as markup:
            await channel.send(to("11"), Piece(text="<blink>x</blink>", plain="x"), "k")
        with pytest.raises(DeliveryError, match="must write to the bot first"):
            await channel.send(to("404"), words("x"), "k")
        api.next["editMessageText"] = ["drop"]
        sent = await channel.send(to("11"), words("y"), "k")
        with pytest.raises(DeliveryError) as unanswered_edit:
            await channel.edit(to("11"), sent, words("z"))
    assert [problem.kind.value for problem in kinds] == ["rate_limit", "transient", "refused", "unknown", "unknown"]
    assert kinds[0].retry_after == 7
    assert markup.value.kind is DeliveryFailure.MARKUP
    assert unanswered_edit.value.kind is DeliveryFailure.TRANSIENT  # an edit may happen twice


async def test_a_server_that_is_not_there_surely_took_nothing(tmp_path):
    with socket.socket() as held:  # nobody else gets the port, and nobody listens on it
        held.bind(("127.0.0.1", 0))
        host = RecordingHost(tmp_path, {"botToken": TOKEN, "apiRoot": f"http://127.0.0.1:{held.getsockname()[1]}"})
        channel = telegram(host)
        with pytest.raises(DeliveryError) as nobody:
            await channel.send(to("11"), words("x"), "k")
        assert nobody.value.kind is DeliveryFailure.TRANSIENT
        assert TOKEN not in repr(nobody.value)
        async with running(channel):
            await until(lambda: len(host.troubles) > 2)


async def test_another_poller_is_told_and_outlasted(api, host):
    api.next["getUpdates"] = [Refuse(409, "Conflict: terminated by other getUpdates request")] * 2
    api.say("still here")
    async with running(telegram(host)):
        await until(lambda: host.received)
    assert any("stop the other program" in trouble for trouble in host.troubles)
    assert len(host.up) == 2


async def test_a_left_over_webhook_is_taken_away_and_the_menu_is_set(api, host):
    api.webhook = {"url": "https://old.example"}
    host.settings["customCommands"] = [{"command": "/Backup", "description": "Keep a copy"}]
    api.say("hello")
    async with running(telegram(host)):
        await until(lambda: host.received)
    menu = {entry["command"]: entry["description"] for entry in api.asked("setMyCommands")[0]["commands"]}
    assert menu == {"status": "Say how it goes", "new": "Begin anew", "backup": "Keep a copy"}


async def test_a_wrong_token_ends_the_account_and_is_never_shown(api, tmp_path):
    for token in ("4242:wrong", "no token at all"):
        with pytest.raises(ChannelError) as wrong:
            await telegram(RecordingHost(tmp_path, {"botToken": token, "apiRoot": api.base})).run()
        assert wrong.value.fatal
        assert token not in str(wrong.value)
    with pytest.raises(ChannelError, match="TELEGRAM_BOT_TOKEN"):
        await telegram(RecordingHost(tmp_path, {})).run()


async def test_the_token_file_wins_and_must_be_a_file(api, host, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "link").symlink_to(tmp_path / "token")
    host.settings |= {"botToken": "9:wrong", "tokenFile": str(tmp_path / "token")}
    assert (await telegram(host).probe()).handle == "LobsterBot"
    for bad in ("link", "missing", "."):
        host.settings["tokenFile"] = str(tmp_path / bad)
        with pytest.raises(ChannelError, match="cannot be read"):
            await telegram(host).probe()


async def test_a_probe_tells_of_privacy_mode_and_leaves_nothing_open(api, host):
    me = await telegram(host).probe()
    assert (me.id, me.name, me.handle) == ("4242", "Lobster", "LobsterBot")
    assert "privacy mode is on" in me.note
    api.me["can_read_all_group_messages"] = True
    assert (await telegram(host).probe()).note == ""


async def test_the_directory_knows_whom_it_is_asked_for_by_name(api, host):
    channel = telegram(host)
    async with running(channel):
        assert [found.id for found in await channel.directory("@alice")] == ["11"]
        assert await channel.directory("@nobody") == []
        assert await channel.directory("alice; drop") == []


async def test_a_webhook_takes_only_calls_with_the_secret_and_answers_after_it_was_kept(api, host):
    import aiohttp

    host.settings |= {"webhookUrl": "https://bot.example/hook", "webhookPort": 0, "webhookSecret": "s3cret"}
    update = {"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": DM, "from": ALICE, "text": "called"}}
    signed = {"X-Telegram-Bot-Api-Secret-Token": "s3cret"}
    channel = telegram(host)
    async with running(channel), aiohttp.ClientSession() as http:
        await until(lambda: channel.port)
        url = f"http://127.0.0.1:{channel.port}/telegram-webhook"
        assert api.webhook["url"] == "https://bot.example/hook"
        assert "message_reaction" in api.webhook["allowed_updates"]

        async def post(headers: dict[str, str], body: Any, where: str = url) -> int:
            for _ in range(500):
                try:
                    async with http.post(where, headers=headers, data=body) as response:
                        return response.status
                except aiohttp.ClientConnectionError:
                    continue
            raise AssertionError("the port never opened")

        assert await post({}, json.dumps(update).encode()) == 401
        assert await post({"X-Telegram-Bot-Api-Secret-Token": "ü"}, b"{}") == 401
        assert await post(signed, b"not json") == 400
        assert await post(signed, io.BytesIO(b"x" * (5 << 20))) == 413
        assert await post(signed, b"{}", url.replace("telegram-webhook", "other")) == 404
        assert not host.received
        host.disk_full = 1
        assert await post(signed, json.dumps(update).encode()) == 500
        assert await post(signed, json.dumps(update).encode()) == 200
    assert [got.text for got in host.received] == ["called"]


async def test_a_webhook_without_a_secret_is_refused(host):
    host.settings["webhookUrl"] = "https://bot.example/hook"
    with pytest.raises(ChannelError, match="webhookSecret") as refused:
        await telegram(host).run()
    assert refused.value.fatal


_ENTITY = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["mention", "bot_command", "bold"]),
        "offset": st.integers(0, 40),
        "length": st.integers(1, 40),
    }
)


@given(st.text(min_size=1, max_size=60), st.lists(_ENTITY, max_size=4))
def test_whatever_entities_a_text_has_it_is_read_and_only_our_commands_are_commands(text, entities):
    from aiogram.types import Message

    raw = {"message_id": 1, "date": 1, "chat": DM, "from": ALICE, "text": text, "entities": entities}
    got = read.message(Message.model_validate(raw), read.Bot(4242, "LobsterBot"))
    assert got is not None
    assert got.text == text
    assert not got.command or any(entity["type"] == "bot_command" and entity["offset"] == 0 for entity in entities)
    assert "@" not in got.command.partition(" ")[0] or "@" in text


async def test_a_poll_of_telegrams_own(api, host):
    async with running(channel := telegram(host)):
        await until(lambda: host.up)
        poll = Poll("Tea?", ("yes", "no"))
        piece = Piece("<b>Tea?</b>", "Tea?", poll=poll)
        assert await channel.send(outbound("11", "telegram"), piece, "k")
    [asked] = api.asked("sendPoll")
    assert asked["question"] == "Tea?" and [row["text"] for row in asked["options"]] == ["yes", "no"]
    assert asked["is_anonymous"] is False


async def test_files_that_a_server_of_ones_own_keeps_on_this_machine(api, host, tmp_path):
    folder = tmp_path / "bot-api"
    folder.mkdir()
    (folder / "photo.jpg").write_bytes(b"picture")
    (tmp_path / "secret").write_text("no")
    (folder / "link.jpg").symlink_to(tmp_path / "secret")
    api.local = str(folder)
    host.settings["trustedLocalFileRoots"] = [str(folder)]
    async with running(channel := telegram(host)):
        await until(lambda: host.up)
        assert b"".join([part async for part in channel.fetch(Media(ref="photo"))]) == b"picture"
        for wrong in ("link", "../secret"):
            with pytest.raises(DeliveryError) as caught:
                _ = [part async for part in channel.fetch(Media(ref=wrong))]
            assert caught.value.kind is DeliveryFailure.REFUSED
        host.settings["trustedLocalFileRoots"] = []
        with pytest.raises(DeliveryError, match="own disk"):
            _ = [part async for part in channel.fetch(Media(ref="photo"))]
