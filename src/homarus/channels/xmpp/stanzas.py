"""Stanzas of XMPP as data: what a message says, and what is put into one. Pure.

Read from the XML itself: whatever a stranger leaves out or writes otherwise is as if it were not there.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

from msgspec import Struct

from homarus.core.clock import epoch_ms
from homarus.core.errors import DeliveryFailure
from homarus.core.messages import Media
from homarus.core.text import single_line

CLIENT = "jabber:client"
DELAY, OOB, REPLACE = "urn:xmpp:delay", "jabber:x:oob", "urn:xmpp:message-correct:0"
REACTIONS, REPLY, FALLBACK = "urn:xmpp:reactions:0", "urn:xmpp:reply:0", "urn:xmpp:fallback:0"
STANZA_ID, OCCUPANT, STATES = "urn:xmpp:sid:0", "urn:xmpp:occupant-id:0", "http://jabber.org/protocol/chatstates"
RETRACT, HINTS = "urn:xmpp:message-retract:1", "urn:xmpp:hints"
CARBONS, FORWARD = "urn:xmpp:carbons:2", "urn:xmpp:forward:0"
_HURRIED = frozenset(("resource-constraint", "policy-violation"))


class Said(Struct, frozen=True):
    """What one message stanza holds."""

    type: str
    sender: str
    to: str = ""
    # The id that its author gave it, and the ones that servers gave it, by server.
    # An origin is one that is never given twice, by a client that says so.
    id: str = ""
    origin: str = ""
    ids: dict[str, str] = {}
    body: str = ""
    subject: bool = False
    delayed: int = 0
    replaces: str = ""
    retracts: str = ""
    reacts_to: str = ""
    reactions: frozenset[str] = frozenset()
    answers: str = ""
    occupant: str = ""
    files: tuple[str, ...] = ()
    error: str = ""

    @property
    def bare(self) -> str:
        return self.sender.partition("/")[0].lower()

    @property
    def nick(self) -> str:
        return self.sender.partition("/")[2]


def read(xml: ET.Element) -> Said:
    answer = xml.find(f"{{{REPLY}}}reply")
    answers = answer.get("id", "") if answer is not None else ""
    reactions = xml.find(f"{{{REACTIONS}}}reactions")
    occupant = xml.find(f"{{{OCCUPANT}}}occupant-id")
    origin = _id_of(xml, f"{{{STANZA_ID}}}origin-id")
    delay = xml.find(f"{{{DELAY}}}delay")
    body = _text(xml.find(f"{{{CLIENT}}}body"))
    return Said(
        type=xml.get("type", "normal"),
        sender=xml.get("from", ""),
        to=xml.get("to", ""),
        id=xml.get("id", "") or origin,
        origin=origin,
        ids={one.get("by", "").lower(): one.get("id", "") for one in xml.findall(f"{{{STANZA_ID}}}stanza-id")},
        body=_unquoted(xml, body) if answers else body,
        subject=xml.find(f"{{{CLIENT}}}subject") is not None and not body,
        delayed=_moment(delay.get("stamp", "")) if delay is not None else 0,
        replaces=_id_of(xml, f"{{{REPLACE}}}replace"),
        retracts=_id_of(xml, f"{{{RETRACT}}}retract"),
        reacts_to=reactions.get("id", "") if reactions is not None else "",
        reactions=frozenset(_words(reactions.findall(f"{{{REACTIONS}}}reaction")))
        if reactions is not None
        else frozenset(),
        answers=answers,
        occupant=occupant.get("id", "") if occupant is not None else "",
        files=tuple(_words(xml.findall(f"{{{OOB}}}x/{{{OOB}}}url"))),
        error=_error(xml),
    )


def _text(element: ET.Element | None) -> str:
    return (element.text or "") if element is not None else ""


def _words(elements: Iterable[ET.Element]) -> list[str]:
    return [word for element in elements if (word := _text(element).strip())]


def _id_of(xml: ET.Element, path: str) -> str:
    found = xml.find(path)
    return found.get("id", "") if found is not None else ""


def _moment(stamp: str) -> int:
    try:
        return max(0, epoch_ms(datetime.fromisoformat(stamp)))
    except (ValueError, OverflowError):
        return 0


def _error(xml: ET.Element) -> str:
    """Return why a message came back: the words of the server, or the name of the condition."""
    error = xml.find(f"{{{CLIENT}}}error")
    if xml.get("type") != "error":
        return ""
    if error is None:
        return "undefined-condition"
    text = _text(error.find("{urn:ietf:params:xml:ns:xmpp-stanzas}text"))
    condition = next((child.tag.rpartition("}")[2] for child in error if not child.tag.endswith("}text")), "")
    return single_line(f"{text} ({condition})" if text else condition or "undefined-condition", 200)


def failure(xml: ET.Element) -> DeliveryFailure:
    """Return what can be done about a message that came back: `wait` is the server's word for asking again later."""
    error = xml.find(f"{{{CLIENT}}}error")
    conditions = {child.tag.rpartition("}")[2] for child in error} if error is not None else set()
    if error is not None and error.get("type") == "wait":
        return DeliveryFailure.RATE_LIMIT if conditions & _HURRIED else DeliveryFailure.TRANSIENT
    return DeliveryFailure.TRANSIENT if "internal-server-error" in conditions else DeliveryFailure.REFUSED


def _unquoted(xml: ET.Element, body: str) -> str:
    """Return a body without the part that is there only for clients that know no answers."""
    for fallback in xml.findall(f"{{{FALLBACK}}}fallback"):
        part = fallback.find(f"{{{FALLBACK}}}body")
        if fallback.get("for") != REPLY or part is None:
            continue
        try:
            start, end = int(part.get("start", "0")), int(part.get("end", str(len(body))))
        except ValueError:
            continue
        if 0 <= start <= end <= len(body):
            return body[:start] + body[end:]
    return body


def media_of(said: Said) -> tuple[Media, ...]:
    """Return the files that a message names outright; an address in its words is just words."""
    found = []
    for url in said.files[:20]:
        parts = urlsplit(url) if url.startswith(("https://", "http://")) and len(url) < 4000 else None
        if parts is None:
            continue
        name = single_line(unquote(parts.path.rpartition("/")[2]), 200)
        mime = mimetypes.guess_type(name)[0] or ""
        major = mime.partition("/")[0]
        kind: Literal["image", "audio", "video", "file"] = "file"
        if major in {"image", "audio", "video"}:
            kind = major  # type: ignore[assignment]
        found.append(Media(kind, mime, name, ref=url))
    return tuple(found)


def text_of(said: Said) -> str:
    """Return the words of a message; an address that only repeats its file is none."""
    body = said.body.strip()
    return "" if body in said.files else said.body


# -- what is sent ---------------------------------------------------------------------------------------------------


def message_id(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]


def sendable(text: str) -> str:
    """Return text without what XML cannot carry: one such character ends the whole connection."""
    return "".join(letter for letter in text if _is_legal(ord(letter)))


def _is_legal(code: int) -> bool:
    return code in {9, 10, 13} or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


def element(name: str, namespace: str, text: str = "", **attributes: str) -> ET.Element:
    made = ET.Element(f"{{{namespace}}}{name}", {key: sendable(value) for key, value in attributes.items()})
    if text:
        made.text = sendable(text)
    return made


def body(text: str) -> ET.Element:
    return element("body", CLIENT, text)


def reply(message: str, person: str) -> ET.Element:
    return element("reply", REPLY, id=message, **({"to": person} if person else {}))


def reactions(message: str, emojis: Iterable[str]) -> ET.Element:
    """Return all the reactions that we have on a message: each new list takes the place of the last."""
    made = element("reactions", REACTIONS, id=message)
    made.extend(element("reaction", REACTIONS, emoji) for emoji in sorted(emojis))
    return made


def file_address(url: str) -> ET.Element:
    made = ET.Element(f"{{{OOB}}}x")
    made.append(element("url", OOB, url))
    return made
