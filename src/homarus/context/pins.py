"""Standing instructions of the owner: they survive every compaction word for word. Pure.

A pin is made with `/pin`, or found: a sentence of the owner's that says always, never, from now on, not without asking.
Destructive tools are held back by policy, not by this; a pin keeps the owner's words in front of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from homarus.core.messages import Message, Trust, User
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.sessions.entry import Compaction, Custom, Entry

PIN = "homarus.pin"
UNPIN = "homarus.unpin"
MAX_PINS = 40
MAX_CHARS = 500
_SENTENCE = late(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_STANDING = late(
    r"""(?xi)
      \b (?: from \s now \s on | always | never | under \s no \s circumstances | without \s (?:my|asking|checking|confirm\w*)
      | (?:do\ not|don['’]t|must\ not|mustn['’]t|stop) \b .* \b (?:until|unless|without|before|anymore|any\ more)
      | (?:only|unless) \b .* \b (?: i | my ) \b .* \b (?: say | tell | ask | approve | confirm | okay | ok | permission )
      | (?:ask|check\ with|confirm\ with) \s me \s (?:first|before)
      | remember \s to | make \s sure \s (?:to|that|you) \s always ) \b
    """
)
_QUESTION = late(r"\?\s*$")


def pinned(entries: Sequence[Entry]) -> list[str]:
    """Return the pins that hold at the end of a branch, oldest first: made by hand, or carried by a compaction."""
    found: dict[str, None] = {}
    for entry in entries:
        if isinstance(entry, Compaction):
            found.update(dict.fromkeys(carried(entry)))
        elif isinstance(entry, Custom) and entry.custom_type == PIN:
            found.update(dict.fromkeys(_texts(entry)))
        elif isinstance(entry, Custom) and entry.custom_type == UNPIN:
            for text in _texts(entry):
                found.pop(text, None)
    return list(found)[-MAX_PINS:]


def kept(notes: Sequence[Entry], gone: Iterable[Message]) -> list[str]:
    """Return the pins that must outlive these messages: those that hold, and what the owner laid down in them."""
    unpinned = (note for note in notes if isinstance(note, Custom) and note.custom_type == UNPIN)
    dropped = {text for note in unpinned for text in _texts(note)}
    return merge(pinned(notes), [text for text in found_in(gone) if text not in dropped])


def _texts(entry: Custom) -> list[str]:
    data = entry.data.get("data")
    text = data.get("text") if isinstance(data, dict) else None
    return [clean(text)] if isinstance(text, str) else []


def carried(entry: Compaction) -> list[str]:
    details: Any = entry.data.get("details")
    pins = details.get("pins") if isinstance(details, dict) else None
    return [clean(pin) for pin in pins if isinstance(pin, str)] if isinstance(pins, list) else []


def found_in(messages: Iterable[Message]) -> list[str]:
    """Return the sentences in which the owner laid down how things are to be done, word for word."""
    found: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, User) or (message.provenance or {}).get("kind") not in {None, "user", "owner"}:
            continue
        for match in _SENTENCE.finditer(message.text):
            sentence = match[0].strip()
            if _STANDING.search(sentence) and not _QUESTION.search(sentence) and len(sentence.split()) >= 3:
                found[clean(sentence)] = None
    return list(found)


def merge(by_hand: Sequence[str], automatic: Sequence[str]) -> list[str]:
    """Return all pins within bounds; what was pinned by hand is the last to give way."""
    room = max(0, MAX_PINS - len(by_hand))
    extra = [pin for pin in automatic if pin not in by_hand]
    return [*list(by_hand)[-MAX_PINS:], *(extra[-room:] if room else [])]


def clean(text: str) -> str:
    return single_line(text, MAX_CHARS)


def signed(provenance: dict[str, Any] | None, trust: Trust) -> dict[str, Any] | None:
    """Return what is stored of where a message came from: nobody but the owner lays down how things are done."""
    return provenance if trust is Trust.OWNER else {"kind": "sender", "trust": trust.value, **(provenance or {})}
