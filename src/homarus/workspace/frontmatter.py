"""Front matter of a workspace file: for tools and editors, not for a model. Reading its values is `core.frontmatter`."""

from __future__ import annotations

from homarus.core.frontmatter import split
from homarus.core.patterns import late

_KEY = late(r"[A-Za-z0-9_][\w .-]*:(?:[ \t]|$)")


def strip_front_matter(text: str) -> str:
    """Return text without its front matter; text whose first block is anything but key/value lines stays whole."""
    if not text.startswith("---"):
        return text
    header, body = split(text)
    return text if header is None or not _is_mapping(header) else body.lstrip("\r\n")


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
