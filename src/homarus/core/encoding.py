"""Which bytes are text, and in which encoding. Pure.

UTF-8 needs no mark and no word. Another encoding is taken where its mark says so, or, for Windows-1252, where the bytes
read as text in it; whoever passes the text on says which it was.
"""

from __future__ import annotations

import codecs

from msgspec import Struct

from homarus.core.patterns import late

# The longer marks first: that of UTF-16 begins one of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", ""),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
_WESTERN = "Windows-1252"
DAMAGED = "UTF-8 with damaged places"
# What no text has; tabs, line ends and the colours of a terminal it may have.
_CONTROLS = late(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f]")
_MULTIBYTE = late(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# Words of letters beyond ASCII alone, which Western languages do not have: Cyrillic, Greek, or two bytes for each letter.
_FOREIGN = late(rb"(?:(?!(.)\1\1\1)[\x80-\xff]){4}")


class Decoded(Struct, frozen=True):
    """A text, and the encoding that was taken where it was not UTF-8."""

    text: str
    encoding: str = ""

    def note(self, name: str) -> str:
        """Return a line that says how a text was read, or nothing where there is nothing to say."""
        return f"[{' '.join(name.split())} was read as {self.encoding}]" if self.encoding else ""


def decode(data: bytes) -> Decoded | None:
    """Return bytes as the text that they are, or None where they are no text, or one whose encoding nobody can tell.

    A text that is mostly UTF-8 stays so: a place in it was damaged, or cut off.
    """
    for mark, codec, name in _MARKS:
        if data.startswith(mark):
            return _strict(data, codec, name)
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd") - data.count("\ufffd".encode())
    if not damaged:
        return None if "\0" in text else Decoded(text)
    if len(_MULTIBYTE.findall(data)) > damaged:
        return _readable(Decoded(text, DAMAGED))
    return None if _FOREIGN.search(data) else _strict(data, "cp1252", _WESTERN)


def _strict(data: bytes, codec: str, name: str) -> Decoded | None:
    try:
        return _readable(Decoded(data.decode(codec), name))
    except UnicodeDecodeError:
        return None


def _readable(made: Decoded) -> Decoded | None:
    """Return what was taken for a text, or None where it has characters that no text has."""
    return None if _CONTROLS.search(made.text) else made
