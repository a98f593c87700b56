"""Make foreign text harmless inside the prompt: it cannot move a boundary, close an envelope or pose as our heading.

`core.text.neutralize` does the work, once, where text comes in. What is here adds our own section titles to it, and a
seal that may be applied any number of times at the last door.
"""

from __future__ import annotations

import re

from homarus.core.patterns import late
from homarus.core.text import neutralize, printable, single_line

# The titles of our sections; a heading in a file that says the same gets a backslash. A test keeps the list complete.
TITLES = (
    "Tooling",
    "Tool Call Style",
    "Execution Bias",
    "Safety",
    "Runtime Context",
    "homarus Command Line",
    "Skills (mandatory)",
    "Memory Recall",
    "Self-Update",
    "Model Aliases",
    "Workspace",
    "Documentation",
    "Sandbox",
    "First Run",
    "Partial Files",
    "Workspace Files",
    "Reasoning Format",
    "Project Context",
    "Messaging",
    "Voice",
    "Group Chat Context",
    "Subagent Context",
)
PATH_LIMIT = 1000

_NAMES = "|".join(map(re.escape, TITLES))
_TITLE = late(rf"^([ \t]*)(#{{1,6}}[ \t]+(?:{_NAMES})[ \t#:]*)$", re.IGNORECASE | re.MULTILINE)
# Bytes of a file name that are no UTF-8 come as these; no request could be encoded with one of them in it.
_SURROGATE = late("[\ud800-\udfff]")
_TOKEN = late(r"(OPENCLAW)(_(?:CACHE_BOUNDARY|INTERNAL_CONTEXT))", re.IGNORECASE)


def seal(text: str) -> str:
    """Break our markers and titles wherever they are left. Sealing what is sealed changes nothing."""
    text = printable(text)
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    if "openclaw" in text.lower():
        text = _TOKEN.sub(r"\1\\\2", text)
    return _TITLE.sub(r"\1\\\2", text)


def body(text: str) -> str:
    """Return text from outside, as it may stand under a heading of ours."""
    return seal(neutralize(text.strip()))


def inline(text: str, limit: int = PATH_LIMIT) -> str:
    """Return text from outside, as it may stand within a line of ours."""
    return seal(neutralize(single_line(text, limit)))
