"""What Discord delivers, as what the program understands. Pure: it looks at objects of hikari and imports none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from homarus.core.messages import Inbound, Media, Quote

_MENTION = re.compile(r"<@!?(\d+)>")
# Ordinary messages and replies; everything else tells of boosts, pins and the like.
_SPOKEN = {0, 19}


class Where(Struct, frozen=True):
    """What a channel is: `direct`, `channel`, `forum` or `closed` (a group of friends, where no bot belongs)."""

    kind: str = "channel"
    # The channel that a thread hangs under.
    parent: str = ""


def message(held: Any, me: int, account: str, where: Where, guild: Any = None) -> Inbound | None:
    """Return a message as an `Inbound`; what nobody said is none. One that was fetched does not say its guild."""
    guild = held.guild_id or guild
    if int(held.type or 0) not in _SPOKEN or where.kind == "closed":
        return None
    forwarded = [snapshot for snapshot in held.message_snapshots or () if snapshot]
    source = forwarded[0] if forwarded else held
    text = _readable(source)
    media = tuple(_media(source))
    if not text and not media:
        return None
    author, member = held.author, held.member or None
    direct = guild is None
    return Inbound(
        id=str(held.id),
        channel="discord",
        account=account,
        text=text,
        sender=str(author.id),
        sender_name=(member.display_name if member else author.display_name) or author.username,
        handle=author.username,
        peer=str(author.id if direct else held.channel_id),
        chat_type="direct" if direct else "channel",
        parent=where.parent,
        space="" if direct else str(guild),
        roles=_roles(member, guild),
        timestamp=int(held.timestamp.timestamp() * 1000),
        mentioned=me in (held.user_mentions or {}) and not forwarded,
        from_bot=bool(author.is_bot or held.webhook_id),
        from_self=int(author.id) == me,
        forwarded=bool(forwarded),
        quote=None if forwarded else _quote(held, me),
        reply_to=str(held.message_reference.id or "") if held.message_reference and not forwarded else "",
        media=media,
    )


def called(interaction: Any, account: str, where: Where, command: str) -> Inbound:
    """Return a slash command or a tap on a button as a message whose `command` is what was asked for."""
    user, member = interaction.user, interaction.member
    direct = interaction.guild_id is None
    shown = getattr(interaction, "message", None)
    return Inbound(
        id=f"call-{interaction.id}",
        channel="discord",
        account=account,
        text=command,
        command=command,
        sender=str(user.id),
        sender_name=(member.display_name if member else user.display_name) or user.username,
        handle=user.username,
        peer=str(user.id if direct else interaction.channel_id),
        chat_type="direct" if direct else "channel",
        parent=where.parent,
        space="" if direct else str(interaction.guild_id),
        roles=_roles(member, interaction.guild_id),
        timestamp=int(interaction.id.created_at.timestamp() * 1000),
        mentioned=True,
        from_bot=bool(user.is_bot),
        quote=Quote(str(shown.id), shown.content or "", ours=True) if shown else None,
        reply_to=str(shown.id) if shown else "",
    )


def _roles(member: Any, guild: Any) -> tuple[str, ...]:
    """Return what somebody was given there; the role that has the server's id is everybody's and says nothing."""
    return tuple(str(role) for role in member.role_ids if role != guild) if member else ()


def _readable(source: Any) -> str:
    """Return the text with names in the place of ids, and words for stickers."""
    users = source.user_mentions or {}

    def name(found: re.Match[str]) -> str:
        user = users.get(int(found[1]))
        return f"@{user.display_name or user.username}" if user else found[0]

    text = _MENTION.sub(name, source.content or "")
    stickers = [f"[sticker {sticker.name}]" for sticker in source.stickers or ()]
    return "\n".join(part for part in (text, *stickers) if part)


def _quote(held: Any, me: int) -> Quote | None:
    said = held.referenced_message or None
    if said is None:
        return None
    author = said.author or None
    return Quote(
        str(said.id),
        _readable(said),
        str(author.id) if author else "",
        ours=bool(author and int(author.id) == me),
    )


def _media(source: Any) -> Iterator[Media]:
    for file in source.attachments or ():
        mime = (file.media_type or "application/octet-stream").partition(";")[0]
        first = mime.partition("/")[0]
        kind: Any = "voice" if file.waveform else first if first in {"image", "audio", "video"} else "file"
        yield Media(kind, mime, file.filename, file.size, file.url)
