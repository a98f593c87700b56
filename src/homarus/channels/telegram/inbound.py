"""What the Bot API delivers, as what the program understands. Pure: it looks at objects of aiogram and imports none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.channels.channel import Change
from homarus.core.messages import Inbound, Media, Quote

GENERAL = "1"  # the topic of a forum that has no id of its own
_CHAT_TYPES = {"private": "direct", "group": "group", "supergroup": "group", "channel": "channel"}


class Bot(Struct, frozen=True):
    """Who this account is, as far as reading a message depends on it."""

    id: int
    handle: str
    account: str = "default"
    # Direct chats are divided into topics.
    topics: bool = False


def message(update: Any, me: Bot) -> Inbound | None:
    """Return a message or channel post as an `Inbound`; service messages are none."""
    chat = update.chat
    text = update.text or update.caption or described(update)
    media = tuple(_media(update))
    if not text and not media:
        return None
    entities = update.entities or update.caption_entities or []
    command, mentioned = _called(text, entities, me)
    # Where an administrator hides behind the group, or a channel speaks in it, that chat is who speaks.
    speaker = update.sender_chat or update.from_user
    hidden = update.sender_chat is not None
    replied = update.reply_to_message
    quote = None
    # In a topic everything answers the service message that opened it.
    if replied is not None and replied.forum_topic_created is None:
        quote = _quote(replied, update.quote, me)
    return Inbound(
        id=str(update.message_id),
        channel="telegram",
        account=me.account,
        text=text,
        sender=str(speaker.id) if speaker else "",
        sender_name=_name(speaker),
        handle=(speaker.username or "") if speaker else "",
        peer=str(chat.id),
        chat_type=_CHAT_TYPES.get(chat.type, "group"),
        thread=thread_of(update, me),
        timestamp=int(update.date.timestamp() * 1000),
        mentioned=mentioned,
        from_bot=bool(speaker is not None and not hidden and speaker.is_bot),
        from_self=bool(update.from_user is not None and update.from_user.id == me.id),
        forwarded=update.forward_origin is not None,
        quote=quote,
        reply_to=quote.id if quote else "",
        media=media,
        command="" if update.forward_origin is not None else command,
    )


def album(parts: list[Inbound]) -> Inbound:
    """Return the messages of one album as one: Telegram sends a message for each picture, with the words on one of them."""
    return replace(
        parts[0],
        text="\n".join(part.text for part in parts if part.text),
        media=tuple(media for part in parts for media in part.media),
        mentioned=any(part.mentioned for part in parts),
        command=next((part.command for part in parts if part.command), ""),
    )


def tap(query: Any, me: Bot) -> Inbound | None:
    """Return a tap on a button as a message whose command is the button's value."""
    shown = query.message
    if shown is None or not query.data:
        return None
    return Inbound(
        id=f"tap-{query.id}",
        channel="telegram",
        account=me.account,
        text=query.data,
        command=query.data,
        sender=str(query.from_user.id),
        sender_name=_name(query.from_user),
        handle=query.from_user.username or "",
        peer=str(shown.chat.id),
        chat_type=_CHAT_TYPES.get(shown.chat.type, "group"),
        thread=thread_of(shown, me),
        mentioned=True,
        from_bot=query.from_user.is_bot,
        quote=Quote(str(shown.message_id), getattr(shown, "text", None) or "", str(me.id), ours=True),
        reply_to=str(shown.message_id),
    )


def changes(update: Any, me: Bot) -> Iterator[Change]:
    """Yield what an update tells beside a new message."""
    if (edited := update.edited_message or update.edited_channel_post) is not None:
        text = edited.text or edited.caption or ""
        about = _about(edited.chat, edited.from_user, me, edited.message_id)
        yield Change("edited", text=text, thread=thread_of(edited, me), **about)
    if (seen := update.message_reaction) is not None:
        about = _about(seen.chat, seen.user or seen.actor_chat, me, seen.message_id)
        old, new = ({_emoji(reaction) for reaction in side} for side in (seen.old_reaction, seen.new_reaction))
        for emoji in sorted(new - old):
            yield Change("reacted", text=emoji, **about)
        for emoji in sorted(old - new):
            yield Change("unreacted", text=emoji, **about)
    if (posted := update.message) is not None and posted.migrate_to_chat_id:
        yield Change("moved", text=str(posted.migrate_to_chat_id), **_about(posted.chat, posted.from_user, me))
    if (member := update.my_chat_member) is not None:
        gone = member.new_chat_member.status in {"left", "kicked"}
        yield Change("left" if gone else "joined", **_about(member.chat, member.from_user, me))


def thread_of(update: Any, me: Bot) -> str:
    """Return the topic: of a forum, or of a direct chat where this bot has them. Elsewhere the id only marks replies."""
    topic = update.message_thread_id if hasattr(update, "message_thread_id") else None
    if update.chat.type == "private":
        return str(topic) if topic and me.topics else ""
    if update.chat.is_forum:
        return str(topic) if topic and update.is_topic_message else GENERAL
    return ""


def described(update: Any) -> str:
    """Return words for what carries none, so that the agent knows what it was sent."""
    if (place := update.venue) is not None:
        spot = place.location
        return f"[place: {place.title}, {place.address} ({spot.latitude}, {spot.longitude})]"
    if (spot := update.location) is not None:
        return f"[location: {spot.latitude}, {spot.longitude}]"
    if (card := update.contact) is not None:
        return f"[contact: {' '.join(filter(None, (card.first_name, card.last_name)))}, {card.phone_number}]"
    if (poll := update.poll) is not None:
        return f"[poll: {poll.question} — {' / '.join(option.text for option in poll.options)}]"
    if (dice := update.dice) is not None:
        return f"[{dice.emoji} {dice.value}]"
    return f"[sticker {update.sticker.emoji or ''}]" if update.sticker is not None else ""


def _called(text: str, entities: Any, me: Bot) -> tuple[str, bool]:
    """Return the command that the text is, if it is one of ours, and whether this bot is addressed by name."""
    command, mentioned = "", False
    for entity in entities:
        if entity.type == "text_mention":
            mentioned = mentioned or (entity.user is not None and entity.user.id == me.id)
        if entity.type not in {"mention", "bot_command"}:
            continue
        word = _part(text, entity.offset, entity.length)
        name, at, handle = word.partition("@")
        ours = bool(me.handle) and handle.lower() == me.handle.lower()
        mentioned = mentioned or ours
        if entity.type == "bot_command" and entity.offset == 0 and (ours or not at):
            command = name + text[len(word) :]
    return command, mentioned


def _part(text: str, start: int, length: int) -> str:
    """Return a part of a text, as Telegram counts: in units of UTF-16."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[start * 2 : (start + length) * 2].decode("utf-16-le", "replace")


def _quote(replied: Any, part: Any, me: Bot) -> Quote:
    author = replied.sender_chat or replied.from_user
    return Quote(
        id=str(replied.message_id),
        text=(part.text if part is not None else "") or replied.text or replied.caption or described(replied),
        sender=str(author.id) if author else "",
        ours=replied.from_user is not None and replied.from_user.id == me.id,
    )


def _media(update: Any) -> Iterator[Media]:
    if update.photo:
        # The sizes come smallest first.
        yield _file("image", update.photo[-1], "image/jpeg", "photo.jpg")
    elif update.animation is not None:  # a document stands beside it, for old clients
        yield _file("video", update.animation, "video/mp4", "animation.mp4")
    elif (sticker := update.sticker) is not None and not (sticker.is_animated or sticker.is_video):
        yield _file("image", sticker, "image/webp", "sticker.webp")
    kinds: tuple[tuple[str, Literal["audio", "voice", "video", "file"], str, str], ...] = (
        ("voice", "voice", "audio/ogg", "voice.ogg"),
        ("audio", "audio", "audio/mpeg", "audio.mp3"),
        ("video", "video", "video/mp4", "video.mp4"),
        ("video_note", "video", "video/mp4", "note.mp4"),
        ("document", "file", "application/octet-stream", "document"),
    )
    for field, kind, mime, name in kinds:
        held = getattr(update, field)
        if held is not None and not (field == "document" and update.animation is not None):
            yield _file(kind, held, mime, name)


def _file(kind: Literal["image", "audio", "voice", "video", "file"], held: Any, mime: str, name: str) -> Media:
    mime = getattr(held, "mime_type", None) or mime
    if kind == "file" and mime.startswith("image/"):
        kind = "image"  # a picture sent uncompressed
    return Media(kind, mime, getattr(held, "file_name", None) or name, held.file_size or 0, held.file_id)


def _about(chat: Any, who: Any, me: Bot, message_id: int | str = "") -> dict[str, str]:
    return {
        "channel": "telegram",
        "peer": str(chat.id),
        "message_id": str(message_id),
        "sender": str(who.id) if who is not None else "",
        "account": me.account,
        "chat_type": _CHAT_TYPES.get(chat.type, "group"),
    }


def _emoji(reaction: Any) -> str:
    return getattr(reaction, "emoji", "") or getattr(reaction, "custom_emoji_id", "") or reaction.type


def _name(who: Any) -> str:
    if who is None:
        return ""
    return getattr(who, "title", "") or who.full_name or ""
