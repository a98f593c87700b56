"""Pure text helpers: one sanitiser, one escaper, one estimator, used wherever text crosses a border."""

from __future__ import annotations

import re
import unicodedata
from zlib import crc32

from homarus.core.patterns import late

# C0 and C1 controls except tab and newline, the line and paragraph separators, marks that turn the direction of writing,
# and the invisible letters of the tag block.
_HIDDEN = "\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f"
_CONTROLS = late(f"[\x00-\x08\x0b-\x1f{_HIDDEN}]")
_UNESCAPED = late(f"[{_HIDDEN}]")
_ASCII_CONTROLS = bytes([*range(0x09), *range(0x0B, 0x20), 0x7F])
_SPACES = late(r"\s+")
_CJK = late("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
# In UTF-8, whatever begins at U+2E80 or later.
_FROM_2E80 = late(rb"[\xe3-\xf4]|\xe2[\xba-\xbf]")

# What only the prompt itself may say. Group 1 and 2 meet where the break goes; the backslashes between them count.
_TOKENS = late(r"(?ai:(OPENCLAW\\*)(_(?:CACHE_BOUNDARY|INTERNAL_CONTEXT)))")
_FENCES = late(r"(<\\*)(?ai:(/?file [0-9a-f]{8}>))")
_POSES = late(
    r"""(?xai) ([ \t]*\\*)           # an indent, and the breaks that are already there
    ( \#{1,6} [ \t\xa0\u2000-\u200a\u202f\u205f\u3000]+ (?: (?:dynamic [ \t]+)? project [ \t]+ context [ \t#]* [\s\x1c-\x1e\x85\u2028\u2029]* $   # the heading over all files
                       | ~?/ \S* [/.] \S* )                                    # the heading over one file
    | \[ (?: MISSING\] | UNREADABLE: | \.\.\.truncated, | …truncated ) )        # what stands in a file's place
    """
)
# How such a line begins, and what else it holds.
_HELD = {"#": ("project", "/"), "[": ("missing]", "unreadable:", "truncated")}
# What such lines hold, in bytes, where looking for it costs least; the last headings begin with blanks beyond ASCII.
_HINTS = {
    b"#": (b"context", b"# /", b"# ~", b"#  ", b"#\t", b"#\xc2\xa0", b"#\xe2\x80", b"#\xe2\x81", b"#\xe3\x80"),
    b"[": (b"[missing]", b"[unreadable:", b"truncated"),
}


def single_line(text: str, limit: int = 300) -> str:
    """Return text fit for one line of a prompt, a log or a terminal: no control characters, at most `limit` long."""
    # What is printable as it stands holds no control, and no blank but the space.
    plain = text.isprintable() and "  " not in text
    flat = (text if plain else _SPACES.sub(" ", _CONTROLS.sub(" ", text))).strip()
    return flat if len(flat) <= limit else flat[: max(0, limit - 1)] + "…"


def printable(text: str) -> str:
    """Return text without control characters, so that it can neither move a cursor nor forge a line of a log."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        if len(text.encode().translate(None, _ASCII_CONTROLS)) == len(text):
            return text
    elif text.replace("\n", "").replace("\t", "").isprintable():  # no control is, whatever else is not
        return text
    return _CONTROLS.sub("", text)


def escaped_json(text: str) -> str:
    """Return JSON in which also those controls are escaped that JSON allows as they are: a terminal would obey them."""
    return text if text.isascii() and "\x7f" not in text else _UNESCAPED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + ((code - 0x10000) >> 10):04x}\\u{0xDC00 + ((code - 0x10000) & 0x3FF):04x}"


def escape_xml(text: str) -> str:
    """Return text that is inert inside an XML element or a quoted attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def unescape_xml(text: str) -> str:
    """Return what `escape_xml` was given."""
    return text.replace("&quot;", '"').replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")


def neutralize(text: str) -> str:
    """Return text in which nothing can move the prompt's cache line, close a fence or pose as a line of the prompt.

    Text that came from a file, a message or a tool passes through here exactly once on its way into a prompt. A
    backslash breaks what only the prompt may say: the words of the cache boundary and of the internal-context
    delimiters wherever they stand, the lines that `fence` writes, and, at the start of a line, `# Project Context`,
    a heading that is a file path (`## /home/…/SOUL.md`), `[MISSING]`, `[UNREADABLE:` and the marks of a cut.
    All other text comes back unchanged, as the same object. No two texts become one: what was broken already gets
    one more backslash, so the original can be told from the result.
    """
    lowered = text.encode("utf-8", "surrogatepass").lower()
    if b"<" in lowered and b"file " in lowered:
        text = _FENCES.sub(r"\1\\\2", text)
    if b"openclaw_" in lowered or b"openclaw\\" in lowered:
        text = _TOKENS.sub(r"\1\\\2", text)
    # Most texts hold none of these, and looking for them costs a hundredth of going through the lines.
    if not any(first in lowered and any(hint in lowered for hint in hints) for first, hints in _HINTS.items()):
        return text
    lines = text.splitlines(keepends=True)
    posing = [number for number, line in enumerate(lines) if poses(line)]
    for number in posing:
        lines[number] = _POSES.sub(r"\1\\\2", lines[number], count=1)
    return "".join(lines) if posing else text


def poses(line: str) -> bool:
    """Say whether a line, standing alone, could be taken for a line of the prompt; whoever cuts a text asks here."""
    begun = line.lstrip(" \t").lstrip("\\").lower()
    return any(word in begun for word in _HELD.get(begun[:1], ())) and _POSES.match(line) is not None


def fence(text: str, label: str) -> str:
    """Return neutralised text between two lines that nothing inside it can forge; `label` tells equal texts apart.

    The same text and label always give the same lines, so a fence never breaks a cached prefix.
    """
    mark = f"{crc32(text.encode('utf-8', 'replace'), crc32(label.encode('utf-8', 'replace'))):08x}"
    return f"<file {mark}>\n{text}\n</file {mark}>"


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a model will count: four characters to one, a CJK character alone is one."""
    if text.isascii():
        return -(-len(text) // 4)
    # The wide class takes milliseconds to compile, and most texts that are not ASCII have nothing but dashes and accents.
    wide = _FROM_2E80.search(text.encode("utf-8", "surrogatepass"))
    cjk = len(_CJK.findall(text)) if wide else 0
    return -(-(len(text) + 3 * cjk) // 4)


def fold(text: str) -> str:
    """Return text for comparing: case and diacritics removed."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def slug(text: str, limit: int = 64) -> str:
    """Return a name that is safe as a file name and as an identifier: lowercase letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", fold(text)).strip("-")[:limit].rstrip("-")


def human_bytes(count: float) -> str:
    """Return a size as people say it: 1,2 or 3 digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


# English words that say how a sentence is built, and nothing of what it is about. Users add their own.
_STOP_WORDS = """
a about again an and any are as at be been but by can could did do does for from had has have here how i if in is it
its may me might my no not now of on or our shall should so some that the there these this those to us was we were
what when where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
