"""The bytes of IRC: lines, tags, names and where a text may be cut. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from msgspec import Struct

from homarus.core.patterns import late

LINE = 512  # bytes of one line with its CR LF, after tags
TAGS = 8191
_UNFIT = late(r"[\x00\r\n]")
# Bold, colour, hex colour, reset, monospace, reverse, italic, struck, underlined; and all other controls.
_STYLES = late(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9a-fA-F]{6}(?:,[0-9a-fA-F]{6})?)?|[\x00-\x08\x0b-\x1f\x7f]")
_SPLIT = late(r"[A-Za-z0-9*-]+(?:\.[A-Za-z0-9*-]+)+ [A-Za-z0-9*-]+(?:\.[A-Za-z0-9*-]+)+")
_TAG_ESCAPE = late(r"\\(.?)")
_TAG_ESCAPES = {":": ";", "s": " ", "r": "\r", "n": "\n", "\\": "\\"}
# Beyond ASCII case, what a server may hold for one letter in two cases.
_FOLDS = {"rfc1459-strict": str.maketrans("[]\\", "{}|"), "rfc1459": str.maketrans("[]\\~", "{}|^")}
_ASCII = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class Line(Struct, frozen=True):
    """One line of a server: `@tags :source COMMAND params`."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    @property
    def last(self) -> str:
        return self.params[-1] if self.params else ""

    def param(self, number: int) -> str:
        return self.params[number] if number < len(self.params) else ""


def parse(raw: bytes) -> Line | None:
    """Return a line as it came, without its end; None where there is no command in it."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    tags: dict[str, str] = {}
    if text.startswith("@"):
        head, _, text = text[1:].partition(" ")
        for item in head.split(";"):
            name, _, value = item.partition("=")
            if name:
                tags[name] = _untagged(value)
    text = text.lstrip(" ")
    source = ""
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    head, colon, trailing = text.lstrip(" ").partition(" :")
    words = head.split()
    if not words:
        return None
    return Line(words[0].upper(), (*words[1:], *([trailing] if colon else [])), source, tags)


def _untagged(value: str) -> str:
    # A lone backslash at the end stands for nothing.
    return _TAG_ESCAPE.sub(lambda found: _TAG_ESCAPES.get(found[1], found[1]), value)


def tagged(value: str) -> str:
    """Return a value as it stands in a tag."""
    for plain, escaped in (("\\", "\\\\"), (";", "\\:"), (" ", "\\s"), ("\r", "\\r"), ("\n", "\\n")):
        value = value.replace(plain, escaped)
    return value


def line(command: str, *params: str, tags: Mapping[str, str] | None = None) -> bytes:
    """Return a line for the server. Raises ValueError for what would become another line, or one too long."""
    *middle, last = params or ("",)
    if any(not word or " " in word or word.startswith(":") for word in middle):
        raise ValueError("a parameter is empty, holds a blank or begins with a colon")
    plain = not params or (last and " " not in last and not last.startswith(":") and command not in {"PRIVMSG", "USER"})
    text = " ".join([command, *middle, *([last if plain else f":{last}"] if params else [])])
    head = "@" + ";".join(f"{name}={tagged(value)}" for name, value in tags.items()) + " " if tags else ""
    if _UNFIT.search(head + text):
        raise ValueError("a line break inside a line")
    raw = text.encode("utf-8", "replace")
    if len(raw) + 2 > LINE or len(head.encode()) > TAGS // 2:
        raise ValueError(f"a line of {len(raw) + 2} bytes, at most {LINE}")
    return head.encode("utf-8", "replace") + raw + b"\r\n"


def fold(name: str, mapping: str = "rfc1459") -> str:
    """Return a nick or channel as the server compares it; an unknown mapping folds ASCII only, which joins fewest names."""
    return name.translate(_ASCII | _FOLDS.get(mapping, {}))


def room_for(target: str, prefix: str) -> int:
    """Return how many bytes of text fit into one message, as the server passes it on with our prefix in front."""
    return LINE - len(f":{prefix} PRIVMSG {target} :\r\n".encode())


CODES = "\x02\x11\x1d\x1e"  # bold, monospace, italic, struck


def split(text: str, room: int, codes: str = "") -> list[str]:
    """Return the lines that show a text, none above `room` bytes: cut at blanks where there are some, never in a character.

    Blank lines are left out, since IRC cannot carry them; so is what a client would take for a command of its own.
    """
    found: list[str] = []
    for raw in text.replace("\r", "\n").split("\n"):
        clean = "".join([letter for letter in raw if letter == "\t" or letter >= " " or letter in codes])
        clean = clean.replace("\x7f", "").rstrip()
        if clean.strip():
            found += _cut(clean, room)
    return found


def _cut(text: str, room: int) -> Iterator[str]:
    while len(raw := text.encode("utf-8", "replace")) > room:
        end = len(raw[:room].decode("utf-8", "ignore"))
        if not end:
            raise ValueError(f"no character fits into {room} bytes")
        blank = text.rfind(" ", 1, end + 1)
        if blank > 0 and text[:blank].strip() and len(text[:blank].encode()) * 3 >= room:
            end = blank
        else:
            end = _whole(text, end)
        yield text[:end]
        text = text[end:].lstrip(" ") if blank == end else text[end:]
    if text.strip():
        yield text


def _whole(text: str, end: int) -> int:
    """Return a place not behind `end` where no mark loses its letter and no joined emoji falls apart, if there is one near."""
    for place in range(end, max(end - 16, 0), -1):
        here, before = text[place : place + 1], text[place - 1]
        modifies = unicodedata.combining(here) or here in "\u200d\ufe0e\ufe0f" or "\U0001f3fb" <= here <= "\U0001f3ff"
        if not modifies and before != "\u200d":
            return place
    return end


def unstyled(text: str) -> str:
    """Return text without colours and other controls."""
    return _STYLES.sub("", text)


def is_netsplit(reason: str) -> bool:
    """Say whether people left because two servers lost each other: the reason is their two names and nothing else."""
    return _SPLIT.fullmatch(reason) is not None
