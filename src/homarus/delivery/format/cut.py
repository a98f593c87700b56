"""Divide blocks into messages that fit. Code goes on in the next message, styles are opened again, links stay whole."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.delivery.format.rich import Block

Fits = Callable[[Sequence[Block]], bool]

_SENTENCE = late(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？]")
_LINE = late(r"\n")
_BLANK = late(r"\s")
_WHOLE = frozenset({"link", "url", "code"})


def cut(blocks: Sequence[Block], fits: Fits, *, fill: bool = True) -> list[list[Block]]:
    """Return the blocks of each message, in order. With `fill` a long block begins in the message before it."""
    messages: list[list[Block]] = []
    rest = list(blocks)
    while rest:
        message, rest = _first(rest, fits, fill)
        if any(block.text.strip() or block.opens for block in message):
            messages.append([replace(message[0], gap=0), *message[1:]])
    return messages


def _first(blocks: list[Block], fits: Fits, fill: bool) -> tuple[list[Block], list[Block]]:
    """Return what the next message holds and what is left."""
    count = _most(len(blocks), lambda size: fits(blocks[:size]))
    if count == len(blocks):
        return blocks, []
    following = blocks[count]
    # A paragraph that fits into a message of its own stays whole; so does one that would only begin in a nearly full one.
    if count and (not fill or fits([following]) or _more_than_half(blocks[:count], following, fits)):
        # A heading goes with what it stands over.
        keep = count - 1 if count > 1 and blocks[count - 1].kind == "heading" else count
        return blocks[:keep], blocks[keep:]
    room = _most(len(following.text), lambda size: fits([*blocks[:count], following.part(0, size)]))
    at = _place(following, room) if room else 0
    if not at and count:
        return blocks[:count], blocks[count:]
    if not room:
        return _first([_in_letters(following), *blocks[1:]], fits, fill) if _dressed(following) else _forced(blocks)
    first, second = _split(following, at or _letter(following.text, room))
    return [*blocks[:count], first], [second, *blocks[count + 1 :]]


def _more_than_half(blocks: Sequence[Block], following: Block, fits: Fits) -> bool:
    used = sum(len(block.text) for block in blocks)
    return not fits([*blocks, following.part(0, min(len(following.text), max(used, 1)))])


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """Return the largest size that fits: quickly found when it is all, or small against the whole."""
    if fits(limit):
        return limit
    low, step = 0, 1
    while low + step < limit and fits(low + step):
        low += step
        step *= 2
    high = min(low + step, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _split(block: Block, at: int) -> tuple[Block, Block]:
    """Divide a block. Blanks at the break are gone; in code only the line end is."""
    text = block.text
    if block.kind == "code":
        return block.part(0, at), block.part(at + (text[at : at + 1] == "\n"), len(text))
    return block.part(0, len(text[:at].rstrip())), block.part(len(text) - len(text[at:].lstrip()), len(text))


def _place(block: Block, room: int) -> int:
    """Return where to break: after a line, a sentence or a word, best in the second half of the room."""
    text = block.text
    if room < len(text) and text[room] == "\n" and _free(block, room):
        return room
    patterns = (_LINE,) if block.kind == "code" else (_LINE, _SENTENCE, _BLANK)
    for least in (room // 2, 0):
        for pattern in patterns:
            ends = [
                found.start() if found[0].isspace() else found.end() for found in pattern.finditer(text, least, room)
            ]
            at = next((end for end in reversed(ends) if end > 0 and text[:end].strip() and _free(block, end)), 0)
            if at:
                return at
    if block.kind != "code" and room < len(text) and text[room].isspace() and _free(block, room):
        return room
    # No good place: before a link that would break, else nothing.
    return min((span.start for span in block.spans if span.style in _WHOLE and span.start < room < span.end), default=0)


def _free(block: Block, at: int) -> bool:
    return not any(span.style in _WHOLE and span.start < at < span.end for span in block.spans)


def _letter(text: str, at: int) -> int:
    """Return a place at or before `at` where no letter loses its accent and no emoji falls apart."""
    for place in range(at, max(at - 16, 0), -1):
        joined = text[place - 1] == "\u200d" or text[place : place + 1] in {"\u200d", "\ufe0f"}
        if place == len(text) or not (joined or unicodedata.combining(text[place])):
            return place
    return at


def _dressed(block: Block) -> bool:
    return block.kind != "text" or bool(block.spans or block.boxes)


def _in_letters(block: Block) -> Block:
    """Return a block without the markup that no message can hold. The words count, and where a link leads."""
    link = next((span for span in block.spans if span.start == 0 and span.style == "link"), None)
    if link is None:
        return replace(block, kind="text", spans=(), boxes=(), opens=frozenset(), info="")
    said = f" ({link.url})"
    spans = [
        span if span.start < link.end else replace(span, start=span.start + len(said), end=span.end + len(said))
        for span in block.spans
        if span is not link
    ]
    return replace(block, text=block.text[: link.end] + said + block.text[link.end :], spans=tuple(spans))


def _forced(blocks: list[Block]) -> tuple[list[Block], list[Block]]:
    """Take one letter where not even that fits, so that there is an end."""
    block = blocks[0]
    size = len(block.text) - len(block.text.lstrip("\n")) or 1
    return [block.part(0, size)], [block.part(size, len(block.text)), *blocks[1:]]
