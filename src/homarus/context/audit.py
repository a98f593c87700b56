"""Check a summary before it replaces anything: does it still say what the work is, and the names it hangs on? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from homarus.core.messages import Assistant, Message, User
from homarus.core.patterns import late
from homarus.core.prompt import SUMMARY_HEADINGS
from homarus.core.text import fold

HEADINGS = SUMMARY_HEADINGS
MAX_IDENTIFIERS = 12
MIN_CHARS = 80
_WORD = late(r"[^\W\d_]{4,}|\w*\d\w*", re.UNICODE)
_IDENTIFIERS = late(
    r"""(?x)
      https?://[^\s<>"')\]]+                                   # addresses
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
    | \b[A-Z][A-Z0-9]{1,9}-\d{1,7}\b                           # tickets
    | [\w.+-]+@[\w-]+\.[\w.-]+\w                               # mail
    | (?:~|\.{1,2})?/(?:[\w.@+-]+/)*[\w@+-]+\.\w{1,8}\b           # files
    | \b[0-9a-f]{7,40}\b(?=[^\w]|$)                             # commits
    | \b\d{4,}\b
    """
)
# What looks like an identifier and is none: years, quarters and months, norms.
_COMMON = late(
    r"""(?x)
      (?:1\d|20|21)\d\d
    | (?:FY|CY|Q[1-4]|H[12]|C?K?W\d{1,2}|JAN|FEB|MAR|APR|MAY|JUNE?|JULY?|AUG|SEPT?|OCT|NOV|DEC)-(?:\d\d)?\d\d
    | (?:UTF|SHA|ISO|AES|RSA|COVID|GPT)-\d+
    """
)
_STOP = frozenset(
    [
        "this",
        "that",
        "with",
        "from",
        "have",
        "will",
        "would",
        "could",
        "should",
        "about",
        "what",
        "when",
        "where",
        "which",
        "there",
        "their",
        "your",
        "please",
    ]
)


def identifiers(messages: Sequence[Message]) -> list[str]:
    """Return the names that must survive word for word: what people wrote and what models used, newest first."""
    seen: dict[str, None] = {}
    for message in reversed(messages):
        if isinstance(message, User | Assistant):
            for match in _IDENTIFIERS.finditer(message.text):
                name = match[0].rstrip(".,;:")
                if _is_name(name):
                    seen.setdefault(name)
        if len(seen) >= MAX_IDENTIFIERS:
            break
    return list(seen)[:MAX_IDENTIFIERS]


def _is_name(text: str) -> bool:
    # A plain word of hexadecimal letters ("defaced") is no commit; a year, a quarter and the name of a norm name nothing.
    if _COMMON.fullmatch(text):
        return False
    return any(char.isdigit() for char in text) or not text.isalpha()


def problems(summary: str, *, ask: str, names: Iterable[str], headings: Sequence[str] = HEADINGS) -> list[str]:
    """Return what is wrong with a summary, as sentences that a model can act on; nothing when it may be used."""
    found = []
    if len(summary.strip()) < MIN_CHARS:
        found.append("it is too short to stand for the conversation")
    lines = {
        line.strip().lstrip("#").strip().rstrip(":").lower()
        for line in summary.splitlines()
        if line.lstrip()[:1] == "#"
    }
    missing = [heading for heading in headings if heading.lower() not in lines]
    if missing:
        found.append(f"these headings are missing: {', '.join('## ' + heading for heading in missing)}")
    if ask and not reflects(summary, ask):
        found.append(f"it does not say what the user asked for last: {ask[:300]!r}")
    lost = [name for name in names if name not in summary]
    if lost:
        found.append(f"these must appear exactly as written: {', '.join(lost)}")
    return found


def reflects(summary: str, ask: str) -> bool:
    """Say whether a summary speaks of what was asked: a third of its telling words, at least one."""
    words = {word for word in map(fold, _WORD.findall(ask)) if word not in _STOP}
    if not words:
        return True
    present = set(map(fold, _WORD.findall(summary)))
    hits = sum(word in present or any(other.startswith(word[:5]) for other in present) for word in words)
    return hits >= max(1, len(words) // 3)
