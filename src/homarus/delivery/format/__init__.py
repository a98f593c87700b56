"""Markdown as a platform shows it: parsed once, cut where it fits, then written in the platform's dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from homarus.delivery.format.cut import cut
from homarus.delivery.format.dialects import DIALECTS, utf16, write
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
    size = _SIZES[place.unit]

    def fits(blocks: Sequence[Block]) -> bool:
        return all(
            size(text) <= place.limit and (not place.lines or text.count("\n") < place.lines)
            for text in (write(blocks, dialect)[0], *([] if dialect == plain else [write(blocks, plain)[0]]))
        )

    blocks = parse(markdown, tables=place.tables, spoilers=dialect.spoiler is not None)
    pieces = []
    for message in cut(blocks, fits, fill=place.chunk_mode == "length"):
        text, styles = write(message, dialect)
        pieces.append(Piece(text, write(message, plain)[0], styles))
    return pieces
