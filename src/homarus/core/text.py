"""Pure text helpers: one sanitiser, one escaper, one estimator, used wherever text crosses a border."""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls except tab and newline, the line and paragraph separators, and invisible direction marks.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SPACES = re.compile(r"\s+")
_CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def single_line(text: str, limit: int = 300) -> str:
    """Return text fit for one line of a prompt, a log or a terminal: no control characters, at most `limit` long."""
    flat = _SPACES.sub(" ", _CONTROLS.sub(" ", text)).strip()
    return flat if len(flat) <= limit else flat[: max(0, limit - 1)] + "…"


def printable(text: str) -> str:
    """Return text without control characters, so that it can neither move a cursor nor forge a line of a log."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_xml(text: str) -> str:
    """Return text that is inert inside an XML element or a quoted attribute."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a model will count: four characters to one, a CJK character alone is one."""
    cjk = len(_CJK.findall(text)) if not text.isascii() else 0
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
