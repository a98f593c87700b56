"""What signal-cli delivers, as what the program understands. Pure: envelopes are plain JSON.

A message of Signal is known by the moment it was sent and by who sent it, so both are its id here: `<timestamp>:<author>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from homarus.channels.channel import Change
from homarus.core.messages import Inbound, Media, Quote

_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Me(Struct, frozen=True):
    number: str
    uuid: str = ""
    account: str = "default"

    def is_me(self, number: Any, uuid: Any) -> bool:
        return bool(
            (number and number == self.number) or (uuid and self.uuid and str(uuid).lower() == self.uuid.lower())
        )


def person(number: Any, uuid: Any) -> str:
    """Return by what somebody is known: their number, and where they hide it, their id."""
    return str(number) if number else f"uuid:{str(uuid).lower()}" if uuid else ""


def message_id(stamp: Any, author: str) -> str:
    return f"{int(stamp)}:{author}"


def split_id(held: str) -> tuple[int, str]:
    """Return moment and author of a message's id; no author where somebody gave the moment alone."""
    stamp, _, author = held.partition(":")
    return (int(stamp) if stamp.isdigit() else 0), author


def target(to: str) -> dict[str, Any]:
    """Return a chat as signal-cli names it: `+15551234567`, `uuid:<id>`, `username:<name>` or a group's base64 id."""
    bare = to.removeprefix("signal:")
    if bare.startswith("group:"):
        return {"groupId": bare.removeprefix("group:")}
    if bare.startswith("username:"):
        return {"username": [bare.removeprefix("username:")]}
    bare = bare.removeprefix("uuid:")
    return {"recipient": [bare]} if bare.startswith("+") or _UUID.fullmatch(bare) else {"groupId": bare}


def message(envelope: Mapping[str, Any], me: Me, sender: str, *, files: bool = True) -> Inbound | None:
    """Return a message as an `Inbound`; receipts, typing and what carries nothing are none."""
    data = envelope.get("dataMessage") or {}
    text = _readable(data)
    group = (data.get("groupInfo") or {}).get("groupId")
    peer = str(group or sender)
    media = tuple(_media(data, peer)) if files else ()
    if data.get("reaction") or data.get("remoteDelete") or not (text or media) or not sender:
        return None
    stamp = int(data.get("timestamp") or envelope["timestamp"])
    quoted = data.get("quote") or {}
    author = person(quoted.get("authorNumber"), quoted.get("authorUuid")) or str(quoted.get("author") or "")
    quote = None
    if quoted.get("id"):
        ours = me.is_me(quoted.get("authorNumber") or quoted.get("author"), quoted.get("authorUuid"))
        quote = Quote(message_id(quoted["id"], author), str(quoted.get("text") or ""), author, ours)
    return Inbound(
        id=message_id(stamp, sender),
        channel="signal",
        account=me.account,
        text=text,
        sender=sender,
        sender_name=str(envelope.get("sourceName") or ""),
        peer=peer,
        chat_type="group" if group else "direct",
        timestamp=stamp,
        mentioned=any(me.is_me(named.get("number"), named.get("uuid")) for named in data.get("mentions") or ()),
        from_self=me.is_me(envelope.get("sourceNumber"), envelope.get("sourceUuid")),
        quote=quote,
        reply_to=quote.id if quote else "",
        media=media,
    )


def change(envelope: Mapping[str, Any], me: Me, sender: str) -> Change | None:
    """Return what an envelope tells beside a new message."""
    edited = envelope.get("editMessage") or {}
    data = edited.get("dataMessage") or envelope.get("dataMessage") or {}
    group = (data.get("groupInfo") or {}).get("groupId")
    about = {
        "channel": "signal",
        "peer": str(group or sender),
        "sender": sender,
        "account": me.account,
        "chat_type": "group" if group else "direct",
    }
    if edited.get("targetSentTimestamp"):
        held = message_id(edited["targetSentTimestamp"], sender)
        return Change("edited", message_id=held, text=_readable(data), **about)
    if gone := (data.get("remoteDelete") or {}).get("timestamp"):
        return Change("deleted", message_id=message_id(gone, sender), **about)
    if not (seen := data.get("reaction")):
        return None
    author = person(seen.get("targetAuthorNumber"), seen.get("targetAuthorUuid")) or str(seen.get("targetAuthor") or "")
    if me.is_me(seen.get("targetAuthorNumber") or seen.get("targetAuthor"), seen.get("targetAuthorUuid")):
        author = me.number
    held = message_id(seen["targetSentTimestamp"], author)
    kind: Any = "unreacted" if seen.get("isRemove") else "reacted"
    return Change(kind, message_id=held, text=str(seen.get("emoji") or ""), **about)


def _readable(data: Mapping[str, Any]) -> str:
    """Return the text with names where Signal has a placeholder, and words for what carries none."""
    units = str(data.get("message") or "").encode("utf-16-le")
    for named in sorted(data.get("mentions") or (), key=lambda one: -int(one.get("start") or 0)):
        start, length = int(named.get("start") or 0) * 2, int(named.get("length") or 1) * 2
        name = str(named.get("name") or named.get("number") or named.get("uuid") or "")
        units = units[:start] + f"@{name}".encode("utf-16-le") + units[start + length :]
    text = units.decode("utf-16-le", "replace")
    cards = [str((card.get("name") or {}).get("display") or "") for card in data.get("contacts") or ()]
    extra = [f"[contact: {name}]" for name in cards if name]
    extra += ["[sticker]"] if data.get("sticker") else []
    return "\n".join(part for part in (text, *extra) if part)


def _media(data: Mapping[str, Any], peer: str) -> Iterator[Media]:
    for file in data.get("attachments") or ():
        if not file.get("id"):
            continue
        mime = str(file.get("contentType") or "application/octet-stream")
        first = mime.partition("/")[0]
        kind: Any = "voice" if file.get("voiceNote") else first if first in {"image", "audio", "video"} else "file"
        name = str(file.get("filename") or file["id"])
        yield Media(kind, mime, name, int(file.get("size") or 0), f"{file['id']} {peer}")
