"""Events of Matrix as data: what a person said, and what is sent for them to see. Pure.

Everything that comes in was written by a stranger's client: whatever has another form than it should is as if it were not there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from homarus.channels.channel import Change
from homarus.core.messages import Inbound, Media, Poll, Quote
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.delivery.place import Piece

MESSAGE, REACTION, REDACTION, MEMBER = "m.room.message", "m.reaction", "m.room.redaction", "m.room.member"
POLL = "org.matrix.msc3381.poll.start"
STICKER, TOMBSTONE, ENCRYPTED = "m.sticker", "m.room.tombstone", "m.room.encrypted"
VOICE = "org.matrix.msc3245.voice"
_KINDS: dict[str, Literal["image", "audio", "video", "file"]] = {
    "m.image": "image",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "file",
}
# What older clients put before an answer: the words that it answers, as a quote.
_FALLBACK = late(r"(?:> .*(?:\n|$))+\n?")


class Room(msgspec.Struct, frozen=True):
    """What an adapter knows of the room that an event stands in."""

    id: str
    direct: bool = False
    name: str = ""
    # How a member calls themselves, by their id.
    names: Mapping[str, str] = {}


def table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def relation(content: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return how an event relates to another, to which one, and which message it answers."""
    related = table(content.get("m.relates_to"))
    answered = word(table(related.get("m.in_reply_to")).get("event_id"))
    kind, target = word(related.get("rel_type")), word(related.get("event_id"))
    # In a thread, the answered message is there for clients without threads unless it is said otherwise.
    if kind == "m.thread" and related.get("is_falling_back") is True:
        answered = ""
    return kind, target, answered


def poll_content(poll: Poll, text: str) -> dict[str, Any]:
    """Return a poll as clients know it: by the name that it had before it was part of the protocol."""
    spoken = "org.matrix.msc1767.text"
    answers = [{"id": f"a{number}", spoken: option} for number, option in enumerate(poll.options)]
    asked = {
        "question": {spoken: poll.question},
        "kind": "org.matrix.msc3381.poll.disclosed",
        "max_selections": len(answers) if poll.multiple else 1,
        "answers": answers,
    }
    return {POLL: asked, spoken: text}


def inbound(event: Mapping[str, Any], room: Room, me: str, account: str) -> Inbound | None:
    """Return a message as the program takes it in; None for what is none, or is a change of one."""
    content = table(event.get("content"))
    sender, id_ = word(event.get("sender")), word(event.get("event_id"))
    kind, target, answered = relation(content)
    if event.get("type") not in {MESSAGE, STICKER} or not sender or not id_ or kind == "m.replace":
        return None
    files = media_of(event)
    text = word(content.get("body"))
    if files and word(content.get("filename")) in {"", text}:
        text = ""  # without a caption the body is the file's name
    if answered or kind == "m.thread":
        text = _FALLBACK.sub("", text, count=1) if text.startswith("> <") else text
    if content.get("msgtype") == "m.emote":
        text = f"* {room.names.get(sender, sender)} {text}"
    if not text.strip() and not files:
        return None
    return Inbound(
        id=id_,
        channel="matrix",
        text=text,
        sender=sender,
        sender_name=single_line(room.names.get(sender, "")) or sender,
        handle=sender,
        account=account,
        peer=sender if room.direct else room.id,
        chat_type="direct" if room.direct else "group",
        thread=target if kind == "m.thread" else "",
        timestamp=moment(event),
        reply_to=answered,
        quote=Quote(answered) if answered else None,
        mentioned=mentions(content, me),
        from_bot=content.get("msgtype") == "m.notice",
        from_self=sender == me,
        media=files,
        facts={"room": room.id, **({"roomName": single_line(room.name)} if room.name else {})},
    )


def change(
    event: Mapping[str, Any], room: Room, account: str, reactions: Mapping[str, tuple[str, str]]
) -> Change | None:
    """Return what an event changes. `reactions` knows the reactions seen, since taking one back names only its event."""
    content, kind = table(event.get("content")), event.get("type")
    sender = word(event.get("sender"))
    relates, target, _ = relation(content)
    new: tuple[Literal["edited", "deleted", "reacted", "unreacted", "moved"], str, str]
    if kind == MESSAGE and relates == "m.replace" and target:
        new = "edited", target, word(table(content.get("m.new_content")).get("body"))
    elif kind == REACTION and relates == "m.annotation" and target:
        new = "reacted", target, word(table(content.get("m.relates_to")).get("key"))
    elif kind == REDACTION:
        gone = word(event.get("redacts")) or word(content.get("redacts"))
        new = ("unreacted", *reactions[gone]) if gone in reactions else ("deleted", gone, "")
    elif kind == TOMBSTONE and "state_key" in event and word(content.get("replacement_room")):
        new = "moved", "", word(content.get("replacement_room"))
    else:
        return None
    peer, chat = (sender, "direct") if room.direct else (room.id, "group")
    return Change(new[0], "matrix", peer, new[1], sender, new[2], account, chat)


def mentions(content: Mapping[str, Any], me: str) -> bool:
    """Say whether a message names us: by its list of people, by a link to us, or by our whole id in the text."""
    named = table(content.get("m.mentions")).get("user_ids")
    if isinstance(named, list) and me in named:
        return True
    styled = word(content.get("formatted_body")).replace("%40", "@").replace("%3A", ":")
    # What only begins with our id is the id of somebody else.
    ours = re.compile(rf"(?<!\w){re.escape(me)}(?![\w-]|[.:]\w)")
    return ours.search(word(content.get("body"))) is not None or ours.search(styled) is not None


def media_of(event: Mapping[str, Any]) -> tuple[Media, ...]:
    content = table(event.get("content"))
    kind = _KINDS.get(word(content.get("msgtype"))) or ("image" if event.get("type") == STICKER else None)
    locked = table(content.get("file"))
    address = word(locked.get("url")) or word(content.get("url"))
    if kind is None or not address.startswith("mxc://"):
        return ()
    info = table(content.get("info"))
    size = info.get("size")
    return (
        Media(
            kind="voice" if VOICE in content else kind,
            mime_type=word(info.get("mimetype")),
            name=single_line(word(content.get("filename")) or word(content.get("body")), 200),
            size=size if isinstance(size, int) and size > 0 else 0,
            ref=msgspec.json.encode(locked).decode() if locked else address,
        ),
    )


def moment(event: Mapping[str, Any]) -> int:
    sent = event.get("origin_server_ts")
    return sent if isinstance(sent, int) and 0 <= sent < 1 << 53 else 0


def joined_at(events: list[Mapping[str, Any]], me: str, *, since_invite: bool) -> int:
    """Return where in a timeline our own stay begins; what was said before that was not said to us.

    In a direct chat it begins with the invitation: people write before the invited one has come in.
    """
    start = 0
    for number, event in enumerate(events):
        if event.get("type") != MEMBER or event.get("state_key") != me:
            continue
        before = table(event.get("prev_content")) or table(table(event.get("unsigned")).get("prev_content"))
        now, was = word(table(event.get("content")).get("membership")), word(before.get("membership"))
        if (now == "join" and was != "join" and not (since_invite and was == "invite")) or (
            since_invite and now == "invite"
        ):
            start = number + 1
    return start


# -- what is sent ---------------------------------------------------------------------------------------------------


def transaction(key: str) -> str:
    """Return the id under which a server shows an event once, however often it is sent."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:40]


def text_content(piece: Piece, *, quiet: bool = False) -> dict[str, Any]:
    plain = piece.plain or piece.text
    content: dict[str, Any] = {"msgtype": "m.notice" if quiet else "m.text", "body": plain, "m.mentions": {}}
    if piece.text and piece.text != plain:
        content |= {"format": "org.matrix.custom.html", "formatted_body": piece.text}
    return content


def related(content: dict[str, Any], thread: str, reply_to: str) -> dict[str, Any]:
    """Return a content that stands in a thread, answers a message, or both."""
    if thread:
        link: dict[str, Any] = {"rel_type": "m.thread", "event_id": thread, "is_falling_back": not reply_to}
        link["m.in_reply_to"] = {"event_id": reply_to or thread}
    elif reply_to:
        link = {"m.in_reply_to": {"event_id": reply_to}}
    else:
        return content
    return {**content, "m.relates_to": link}


def edited(content: dict[str, Any], sent: str) -> dict[str, Any]:
    """Return a content that takes the place of a sent one; clients that do not know edits show it with a star."""
    star: dict[str, Any] = {name: f"* {content[name]}" for name in ("body", "formatted_body") if name in content}
    return {**content, **star, "m.new_content": content, "m.relates_to": {"rel_type": "m.replace", "event_id": sent}}


def file_content(piece: Piece, name: str, mime_type: str, size: int) -> dict[str, Any]:
    """Return the content of a file, still without its address."""
    major = mime_type.partition("/")[0]
    kind = f"m.{major}" if major in {"image", "audio", "video"} else "m.file"
    content: dict[str, Any] = {
        "msgtype": kind,
        "body": name,
        "filename": name,
        "info": {"mimetype": mime_type, "size": size},
    }
    if piece.text or piece.plain:
        words = text_content(piece)
        content |= {key: words[key] for key in ("body", "format", "formatted_body") if key in words}
    if piece.as_voice and major == "audio":
        content |= {VOICE: {}, "org.matrix.msc1767.audio": {}}
    return content | {"m.mentions": {}}
