"""Markdown as a platform shows it: parsed once, cut where it fits, then written in the platform's dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from homarus.delivery.format.cut import cut
from homarus.delivery.format.dialects import DIALECTS, Bodies, utf16, write
from homarus.delivery.format.rich import Block, parse
from homarus.delivery.place import Piece, Place

_SIZES: dict[str, Callable[[str], int]] = {
    "characters": len,
    "utf16": utf16,
    "bytes": lambda text: len(text.encode("utf-8", "replace")),
}


def render(markdown: str, place: Place) -> list[Piece]:
    """Return what a platform shows of a text, message by message. No message is longer than the place allows.

    Words are cut, markup never is: code is closed and opened again, a style goes on in the next message, and a link stays in one.
    Markup counts. Where not even one letter fits with its markup, the markup goes.
    """
    dialect, plain = DIALECTS.get(place.dialect, DIALECTS["plain"]), DIALECTS["plain"]
    size, limit = _SIZES[place.unit], max(1, place.limit)
    known, known_plain = Bodies(dialect), Bodies(plain)

    def load(blocks: Sequence[Block]) -> float:
        """Return how full a message is. The words alone must fit too, for a platform that refuses the markup."""
        texts = [write(blocks, known)[0], *([] if dialect is plain else [write(blocks, known_plain)[0]])]
        lines = [(text.count("\n") + 1) / place.lines for text in texts] if place.lines else []
        return max(*(size(text) / limit for text in texts), *lines, 0.0)

    blocks = parse(markdown, tables=place.tables, spoilers=dialect.spoiler is not None)
    pieces = []
    for message in cut(blocks, load, limit, fill=place.chunk_mode == "length"):
        text, styles = write(message, known)
        pieces.append(Piece(text, write(message, known_plain)[0], styles))
    return pieces
