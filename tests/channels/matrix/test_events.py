"""Events of Matrix: what a stranger's client may send, and what ours does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.channels.matrix import events
from homarus.channels.matrix.events import Room
from homarus.core.messages import Poll, Quote
from homarus.delivery.place import Piece

ME = "@helper:example.org"
ROOM = Room("!r:example.org", names={"@alice:example.org": "Alice"})


def event(content, **more):
    base = {"type": "m.room.message", "sender": "@alice:example.org", "event_id": "$1", "origin_server_ts": 5}
    return base | {"content": content} | more


def text(body, **more):
    return event({"msgtype": "m.text", "body": body} | more)


def test_a_message_in_a_room_and_one_between_two():
    found = events.inbound(text("hi"), ROOM, ME, "work")
    assert found is not None
    assert (found.peer, found.chat_type, found.sender, found.sender_name) == (
        "!r:example.org",
        "group",
        "@alice:example.org",
        "Alice",
    )
    assert (found.account, found.timestamp, found.mentioned, found.from_self) == ("work", 5, False, False)
    found = events.inbound(text("hi"), Room("!d:x", direct=True), ME, "default")
    assert found is not None
    assert (found.peer, found.chat_type, found.facts) == ("@alice:example.org", "direct", {"room": "!d:x"})


@pytest.mark.parametrize(
    ("content", "mentioned"),
    [
        ({"body": "x", "m.mentions": {"user_ids": [ME]}}, True),
        ({"body": "x", "m.mentions": {"user_ids": ["@other:example.org"], "room": True}}, False),
        ({"body": "x", "m.mentions": {"user_ids": ME}}, False),
        ({"body": f"{ME}: hello"}, True),
        ({"body": f"{ME}.evil says"}, False),
        ({"body": f"ask {ME}."}, True),
        ({"body": "@helper:example.organisation"}, False),
        ({"body": "x", "formatted_body": '<a href="https://matrix.to/#/%40helper%3Aexample.org">h</a>'}, True),
        ({"body": "helper"}, False),
    ],
)
def test_who_is_named(content, mentioned):
    assert events.mentions(content, ME) is mentioned


def test_answers_lose_the_quote_of_older_clients_and_threads_are_told_from_answers():
    answer = text("> <@bob:x> first\n> second\n\nyes", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}})
    found = events.inbound(answer, ROOM, ME, "default")
    assert found is not None
    assert (found.text, found.reply_to, found.quote, found.thread) == ("yes", "$0", Quote("$0"), "")
    link = {"rel_type": "m.thread", "event_id": "$t", "is_falling_back": True, "m.in_reply_to": {"event_id": "$0"}}
    found = events.inbound(text("in it", **{"m.relates_to": link}), ROOM, ME, "default")
    assert found is not None
    assert (found.thread, found.reply_to) == ("$t", "")
    found = events.inbound(text("> <quoting by hand"), ROOM, ME, "default")
    assert found is not None
    assert found.text == "> <quoting by hand"


def test_a_file_with_and_without_a_caption_and_one_that_is_locked():
    plain = event(
        {"msgtype": "m.image", "body": "a.png", "url": "mxc://x/1", "info": {"mimetype": "image/png", "size": 9}}
    )
    found = events.inbound(plain, ROOM, ME, "default")
    assert found is not None
    assert (found.text, found.media[0].name, found.media[0].kind, found.media[0].ref) == (
        "",
        "a.png",
        "image",
        "mxc://x/1",
    )
    named = event({"msgtype": "m.file", "body": "look at this", "filename": "a.bin", "url": "mxc://x/1"})
    found = events.inbound(named, ROOM, ME, "default")
    assert found is not None
    assert (found.text, found.media[0].name) == ("look at this", "a.bin")
    locked = event({"msgtype": "m.audio", "body": "v", "file": {"url": "mxc://x/2", "iv": "i"}, events.VOICE: {}})
    found = events.inbound(locked, ROOM, ME, "default")
    assert found is not None
    assert found.media[0].kind == "voice" and found.media[0].ref.startswith('{"url"')
    assert events.media_of(event({"msgtype": "m.image", "body": "x", "url": "http://inside.example/"})) == ()


def test_what_is_no_new_message():
    edit = text("* b", **{"m.new_content": {"body": "b"}, "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}})
    assert events.inbound(edit, ROOM, ME, "default") is None
    changed = events.change(edit, ROOM, "default", {})
    assert changed is not None
    assert (changed.kind, changed.message_id, changed.text, changed.peer) == ("edited", "$0", "b", "!r:example.org")
    reaction = event({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "👍"}}, type="m.reaction")
    changed = events.change(reaction, ROOM, "default", {})
    assert changed is not None
    assert (changed.kind, changed.text) == ("reacted", "👍")
    back = event({}, type="m.room.redaction", redacts="$r")
    taken = events.change(back, ROOM, "default", {"$r": ("$0", "👍")})
    gone = events.change(back, ROOM, "default", {})
    assert taken is not None and gone is not None
    assert (taken.kind, taken.message_id) == ("unreacted", "$0") and (gone.kind, gone.message_id) == ("deleted", "$r")
    moved = events.change(
        event({"replacement_room": "!n:x"}, type="m.room.tombstone", state_key=""), ROOM, "default", {}
    )
    assert moved is not None
    assert (moved.kind, moved.text) == ("moved", "!n:x")
    assert events.change(event({"replacement_room": "!n:x"}, type="m.room.tombstone"), ROOM, "default", {}) is None


def test_a_notice_is_a_bots_and_an_emote_names_who():
    notice = events.inbound(event({"msgtype": "m.notice", "body": "x"}), ROOM, ME, "default")
    emote = events.inbound(event({"msgtype": "m.emote", "body": "waves"}), ROOM, ME, "default")
    assert notice is not None and emote is not None
    assert notice.from_bot and emote.text == "* Alice waves"


def member(now, was=""):
    return {
        "type": "m.room.member",
        "state_key": ME,
        "content": {"membership": now},
        "unsigned": {"prev_content": {"membership": was}},
    }


def test_what_was_said_before_we_came_was_not_said_to_us():
    timeline = [
        text("old"),
        member("invite"),
        text("hello?"),
        member("join", "invite"),
        text("there you are"),
        member("join", "join"),
    ]
    assert events.joined_at(timeline, ME, since_invite=False) == 4
    assert events.joined_at(timeline, ME, since_invite=True) == 2
    assert events.joined_at([text("a")], ME, since_invite=True) == 0


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "body",
                    "msgtype",
                    "m.relates_to",
                    "rel_type",
                    "event_id",
                    "m.in_reply_to",
                    "m.mentions",
                    "user_ids",
                    "file",
                    "url",
                    "info",
                    "size",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    json,
    st.sampled_from(["m.room.message", "m.reaction", "m.room.redaction", "m.sticker", "m.room.member", 7]),
    json,
    json,
)
def test_no_event_breaks_anything(content, kind, sender, id_):
    strange = {"type": kind, "content": content, "sender": sender, "event_id": id_, "state_key": ME, "redacts": id_}
    found = events.inbound(strange, ROOM, ME, "default")
    assert found is None or (found.sender and found.id)
    events.change(strange, ROOM, "default", {})
    events.joined_at([strange], ME, since_invite=True)


def test_what_is_sent():
    content = events.text_content(Piece("<b>hi</b>", "hi"))
    assert content == {
        "msgtype": "m.text",
        "body": "hi",
        "format": "org.matrix.custom.html",
        "formatted_body": "<b>hi</b>",
        "m.mentions": {},
    }
    assert "format" not in events.text_content(Piece("hi", "hi"))
    assert events.related(content, "$t", "$r")["m.relates_to"] == {
        "rel_type": "m.thread", "event_id": "$t", "is_falling_back": False, "m.in_reply_to": {"event_id": "$r"}
    }  # fmt: skip
    assert events.related(content, "$t", "")["m.relates_to"]["is_falling_back"] is True
    edit = events.edited(content, "$s")
    assert edit["body"] == "* hi" and edit["m.new_content"] == content and edit["m.relates_to"]["event_id"] == "$s"
    voice = events.file_content(Piece(file="/x/a.ogg", as_voice=True), "a.ogg", "audio/ogg", 3)
    assert voice["msgtype"] == "m.audio" and events.VOICE in voice and voice["body"] == "a.ogg"
    caption = events.file_content(Piece("look", "look", file="/x/a.zip"), "a.zip", "application/zip", 3)
    assert (caption["msgtype"], caption["body"], caption["filename"]) == ("m.file", "look", "a.zip")


@given(st.text(), st.text())
def test_the_same_piece_has_one_transaction(one, other):
    assert events.transaction(one).isalnum()
    same = one.encode("utf-8", "replace") == other.encode("utf-8", "replace")
    assert (events.transaction(one) == events.transaction(other)) is same


def test_a_poll_is_one_that_clients_know_and_says_the_same_in_words():
    content = events.poll_content(Poll("Tea?", ("yes", "no")), "Tea?\n1. yes\n2. no")
    asked = content[events.POLL]
    assert asked["question"]["org.matrix.msc1767.text"] == "Tea?"
    assert [(answer["id"], answer["org.matrix.msc1767.text"]) for answer in asked["answers"]] == [
        ("a0", "yes"),
        ("a1", "no"),
    ]
    assert asked["max_selections"] == 1
    assert events.poll_content(Poll("?", ("a", "b", "c"), multiple=True), "")[events.POLL]["max_selections"] == 3
    assert content["org.matrix.msc1767.text"].endswith("2. no")
