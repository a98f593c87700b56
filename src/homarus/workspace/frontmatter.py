"""Front matter: a leading block of `key: value` lines between two `---` lines, for tools and not for a model."""

from __future__ import annotations

import re

# The block must be closed within this many characters; a rule line at the top of a long page is not front matter.
_LIMIT = 20_000
_FENCE = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"[A-Za-z0-9_][\w .-]*:(?:[ \t]|$)")


def strip_front_matter(text: str) -> str:
    """Return text without its front matter; text whose first block is anything but key/value lines stays whole."""
    if not text.startswith("---"):
        return text
    found = _FENCE.match(text, 0, _LIMIT)
    if found is None or not _is_mapping(found.group(1)):
        return text
    return text[found.end() :].lstrip("\r\n")


def _is_mapping(block: str) -> bool:
    """Say whether every line is a key, a comment, or belongs to the key above it; at least one must be a key."""
    keys = 0
    for line in block.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if _KEY.match(line):
            keys += 1
        elif not keys or not (line.startswith((" ", "\t", "- ")) or line.strip() in {"}", "]", "},", "],"}):
            return False
    return keys > 0
