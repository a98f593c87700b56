"""Make foreign text harmless inside the prompt: it cannot move a boundary, close an envelope or pose as our heading.

`core.text.neutralize` does the work, once, where text comes in. What is here adds our own section titles to it, and a
seal that may be applied any number of times at the last door.
"""

from __future__ import annotations

import re
import unicodedata

from homarus.core.patterns import late
from homarus.core.text import neutralize, printable, single_line

# The titles of our sections; a heading in a file that says the same gets a backslash. A test keeps the list complete.
# fmt: off
TITLES = (
    "Tooling", "Tool Call Style", "Execution Bias", "Safety", "Runtime Context", "homarus Command Line",
    "Skills (mandatory)", "Memory Recall", "Self-Update", "Model Aliases", "Workspace", "Documentation", "Sandbox",
    "First Run", "Partial Files", "Workspace Files", "Reasoning Format", "Project Context", "Messaging", "Voice",
    "Group Chat Context", "Subagent Context",
)
# fmt: on
PATH_LIMIT = 1000

_KNOWN = frozenset(title.casefold() for title in TITLES)
# A heading, also one with a number sign or a blank that only looks like it.
_HEADING = late(r"^([^\S\n]*)([#\uff03\ufe5f][^\n]*)$", re.MULTILINE)
_SECTION = late(r"^([^\S\n]*)([#\uff03\ufe5f]{1,2}[^\S\n])", re.MULTILINE)
_COMMENT = late(r"<!--.*?-->")
_LONGEST = 500
# Letters of other alphabets that look like ours.
_ALIKE = str.maketrans(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430\u0435\u0456\u0458\u043e\u0440\u0441\u0455\u0443"
    "\u0445\u0501\u051d\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u0131",
    "ABESIJKMHOPCTYXaeijopcsyxdwABEZHIKMNOPTYXoi",
)
# Bytes of a file name that are no UTF-8 come as these; no request could be encoded with one of them in it.
_SURROGATE = late("[\ud800-\udfff]")
_TOKEN = late(r"(OPENCLAW)(_(?:CACHE_BOUNDARY|INTERNAL_CONTEXT))", re.IGNORECASE)


def seal(text: str) -> str:
    """Break our markers and titles wherever they are left. Sealing what is sealed changes nothing."""
    text = printable(text)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE.sub("\ufffd", text)
        data = text.encode()
    # In bytes it costs a tenth to find out that there is nothing to do.
    if b"openclaw_" in data.lower():
        text = _TOKEN.sub(r"\1\\\2", text)
    return _HEADING.sub(lambda at: f"{at[1]}\\{at[2]}" if _title(at[2]) in _KNOWN else at[0], text)


def _title(heading: str) -> str:
    """Return what a heading says to a reader who does not look at its bytes."""
    text = _COMMENT.sub("", heading) if "<!--" in heading else heading
    if not text.isascii():
        plain = unicodedata.normalize("NFKD", text[:_LONGEST]).translate(_ALIKE)
        text = "".join(char for char in plain if unicodedata.category(char) not in {"Cf", "Mn"})
    return " ".join(text[:_LONGEST].strip("#: \t").split()).casefold()


def under(text: str) -> str:
    """Return text from outside that stays under a heading of ours: none in it opens a section."""
    return _SECTION.sub(r"\1\\\2", body(text))


def inert(text: str) -> str:
    """Return text from outside that has not been made harmless yet; this is done once, or its breaks are broken, too."""
    # First the characters that nobody sees: taken out later, they would leave what they kept apart.
    return seal(neutralize(printable(text)))


def body(text: str) -> str:
    """Return text from outside, as it may stand under a heading of ours."""
    return inert(text.strip())


def inline(text: str, limit: int = PATH_LIMIT) -> str:
    """Return text from outside, as it may stand within a line of ours."""
    return seal(neutralize(single_line(text, limit)))
