"""What Slack delivers, as what the program understands. Pure: payloads are plain JSON."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from homarus.channels.channel import Change
from homarus.core.messages import Inbound, Media, Quote

# Messages that somebody wrote; the other kinds tell of joins, topics and the like.
_SPOKEN = {"", "file_share", "thread_broadcast", "me_message", "bot_message"}
_CHAT_TYPES = {"im": "direct", "mpim": "group", "channel": "channel", "group": "channel"}
_MARK = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")
# Names of Slack's own that differ from those of Unicode.
_EMOJI = {
    "👍": "+1", "👎": "-1", "❤": "heart", "🎉": "tada", "🚀": "rocket", "😂": "joy", "🙏": "pray", "✅": "white_check_mark",
    "❌": "x", "⏳": "hourglass_flowing_sand", "⚡": "zap", "🤔": "thinking_face", "🦞": "lobster", "😢": "cry", "😄": "smile",
}  # fmt: skip


class Bot(Struct, frozen=True):
    """Who this account is, as far as reading a message depends on it."""

    user: str
    bot: str = ""
    team: str = ""
    account: str = "default"


def people_in(event: Mapping[str, Any]) -> set[str]:
    """Return the ids of people whose names a message needs: its writer and those it mentions."""
    named = {found[2] for found in _MARK.finditer(str(event.get("text") or "")) if found[1] == "@" and not found[3]}
    return named | ({str(event["user"])} if event.get("user") else set())


def message(event: Mapping[str, Any], me: Bot, names: Mapping[str, str]) -> Inbound | None:
    """Return a `message` or `app_mention` event as an `Inbound`; both come for one message, with one id."""
    if str(event.get("subtype") or "") not in _SPOKEN:
        return None
    text = readable(str(event.get("text") or ""), names)
    media = tuple(_media(event))
    sender = str(event.get("user") or event.get("bot_id") or "")
    if not (text or media) or not sender:
        return None
    chat_type = _chat_type(event)
    stamp, thread = str(event["ts"]), str(event.get("thread_ts") or "")
    answered = thread if thread != stamp else ""
    bot_id = str(event.get("bot_id") or "")
    return Inbound(
        id=stamp,
        channel="slack",
        account=me.account,
        text=text,
        sender=sender,
        sender_name=names.get(sender, "") or str(event.get("username") or ""),
        peer=sender if chat_type == "direct" else str(event["channel"]),
        chat_type=chat_type,
        thread=answered,
        space=str(event.get("team") or me.team),
        timestamp=int(float(stamp) * 1000),
        mentioned=f"<@{me.user}>" in str(event.get("text") or ""),
        from_bot=bool(bot_id),
        from_self=sender == me.user or bool(bot_id and bot_id == me.bot),
        # Whoever answers in a thread answers the message that opened it.
        quote=Quote(
            answered, sender=str(event.get("parent_user_id") or ""), ours=event.get("parent_user_id") == me.user
        )
        if answered
        else None,
        reply_to=answered,
        media=media,
    )


def change(event: Mapping[str, Any], me: Bot) -> Change | None:
    """Return what an event tells beside a new message."""
    if event["type"] in {"reaction_added", "reaction_removed"}:
        item = event.get("item") or {}
        about = {
            "channel": "slack",
            "peer": str(item.get("channel", "")),
            "account": me.account,
            "chat_type": "channel",
        }
        if event.get("user") == me.user or not item.get("ts"):
            return None
        return Change(
            "reacted" if event["type"] == "reaction_added" else "unreacted",
            message_id=str(item["ts"]),
            sender=str(event.get("user") or ""),
            text=f":{event.get('reaction', '')}:",
            **about,
        )
    about = {
        "channel": "slack",
        "peer": str(event.get("channel") or ""),
        "account": me.account,
        "chat_type": _chat_type(event),
    }
    if event["type"] in {"member_joined_channel", "member_left_channel"}:
        joined = event["type"] == "member_joined_channel"
        return Change("joined" if joined else "left", **about) if event.get("user") == me.user else None
    if event.get("subtype") == "message_deleted":
        return Change("deleted", message_id=str(event.get("deleted_ts") or ""), **about)
    if event.get("subtype") != "message_changed":
        return None
    new, old = event.get("message") or {}, event.get("previous_message") or {}
    # Slack also "changes" a message when it adds a preview to it or counts an answer.
    if new.get("user") == me.user or new.get("text") == old.get("text"):
        return None
    sender, text = str(new.get("user") or ""), readable(str(new.get("text") or ""), {})
    return Change("edited", message_id=str(new.get("ts") or ""), sender=sender, text=text, **about)


def called(payload: Mapping[str, Any], me: Bot, command: str, call_id: str) -> Inbound:
    """Return a slash command or a tap on a button as a message whose `command` is what was asked for."""
    user = payload.get("user") or {}
    sender = str(payload.get("user_id") or user.get("id") or "")
    chat = str(payload.get("channel_id") or (payload.get("channel") or {}).get("id") or "")
    shown = payload.get("message") or {}
    direct = chat.startswith("D")
    thread = str(shown.get("thread_ts") or "")
    return Inbound(
        id=call_id,
        channel="slack",
        account=me.account,
        text=command,
        command=command,
        sender=sender,
        sender_name=str(payload.get("user_name") or user.get("username") or ""),
        peer=sender if direct else chat,
        chat_type="direct" if direct else "channel",
        thread=thread if thread != shown.get("ts") else "",
        space=str(payload.get("team_id") or (payload.get("team") or {}).get("id") or me.team),
        mentioned=True,
        quote=Quote(str(shown["ts"]), str(shown.get("text") or ""), ours=True) if shown.get("ts") else None,
        reply_to=str(shown.get("ts") or ""),
    )


def readable(text: str, names: Mapping[str, str]) -> str:
    """Return Slack's markup of people, channels and links as people read it."""

    def plain(found: re.Match[str]) -> str:
        mark, target, label = found[1], found[2], found[3] or ""
        if mark == "@":
            return f"@{label or names.get(target, target)}"
        if mark == "#":
            return f"#{label or target}"
        if mark == "!":
            return f"@{label.lstrip('@') or target.partition('^')[0]}"
        return target if not label or label == target else f"{label} ({target})"

    return html.unescape(_MARK.sub(plain, text))


def emoji_name(emoji: str) -> str:
    """Return what Slack calls an emoji: it knows names only."""
    bare = emoji.strip(": \ufe0f")
    if bare in _EMOJI or not bare or bare.isascii():
        return _EMOJI.get(bare, bare)
    return unicodedata.name(bare[0], "").lower().replace(" ", "_").replace("-", "_")


def _chat_type(event: Mapping[str, Any]) -> str:
    known = _CHAT_TYPES.get(str(event.get("channel_type") or ""))
    return known or ("direct" if str(event.get("channel") or "").startswith("D") else "channel")


def _media(event: Mapping[str, Any]) -> Iterator[Media]:
    for file in event.get("files") or ():
        url = file.get("url_private_download") or file.get("url_private")
        if not url:
            continue
        mime = str(file.get("mimetype") or "application/octet-stream")
        first = mime.partition("/")[0]
        kind: Any = (
            "voice"
            if file.get("subtype") == "slack_audio"
            else first
            if first in {"image", "audio", "video"}
            else "file"
        )
        yield Media(kind, mime, str(file.get("name") or ""), int(file.get("size") or 0), str(url))
