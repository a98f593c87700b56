"""Divide blocks into messages that fit. Code goes on in the next message, styles are opened again, links stay whole."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.delivery.format.rich import Block, Span

# How full a message with these blocks is: 1.0 is all that a place allows.
Load = Callable[[Sequence[Block]], float]

_SENTENCE = late(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？]")
_LINE = late(r"\n")
_BLANK = late(r"\s")
_WHOLE = frozenset({"link", "url", "code"})


def cut(blocks: Sequence[Block], load: Load, limit: int, *, fill: bool = True) -> list[list[Block]]:
    """Return the blocks of each message, in order. With `fill` a long block begins in the message before it.

    No message holds more than `limit` characters, whatever its platform counts.
    """
    messages: list[list[Block]] = []
    rest = list(blocks)
    while rest:
        message, rest = _first(rest, load, limit, fill)
        if any(block.text.strip() or block.opens for block in message):
            messages.append([replace(message[0], gap=0), *message[1:]])
    return messages


def _first(blocks: list[Block], load: Load, limit: int, fill: bool) -> tuple[list[Block], list[Block]]:
    """Return what the next message holds and what is left."""
    ends = list(accumulate(len(block.text) for block in blocks[: limit + 1]))
    count = _most(min(bisect_right(ends, limit), limit), lambda size: load(blocks[:size]))
    if count == len(blocks):
        return blocks, []
    head, following = blocks[:count], blocks[count]
    # A paragraph that fits into a message of its own stays whole; so does one that would only begin in a nearly full one.
    room, whole = 0, bool(count) and (not fill or (len(following.text) <= limit and load([following]) <= 1))
    if not whole:
        room = _most(min(len(following.text), limit), lambda size: load([*head, following.part(0, size)]))
    if whole or (count and room <= ends[count - 1]):
        # A heading goes with what it stands over.
        keep = count - 1 if count > 1 and blocks[count - 1].kind == "heading" else count
        return blocks[:keep], blocks[keep:]
    at = _place(following, room) if room else 0
    if not at and count:
        return head, blocks[count:]
    # A link that no message can hold is said in letters; so is what fits only without its markup.
    if not at and (_dressed(following) if not room else _link_at_start(following) is not None):
        return _first([_in_letters(following), *blocks[1:]], load, limit, fill)
    if not room:
        return _forced(blocks)
    first, second = _split(following, at or _letter(following.text, room))
    return [*head, first], [second, *blocks[count + 1 :]]


def _most(limit: int, load: Callable[[int], float]) -> int:
    """Return the largest size that fits. A load that is known tells about how far away that is."""
    low, high, guess = 0, limit + 1, limit
    while high - low > 1:
        found = load(guess)
        low, high = (guess, high) if found <= 1 else (low, guess)
        wished = int(guess / found) if found else high
        # One end moves far, the other by a half at least: whatever the loads are, it ends soon.
        middle = (low + high) // 2
        guess = min(max(wished, low + 1), middle) if found > 1 else min(max(wished, middle), high - 1)
        guess = min(max(guess, low + 1), high - 1)
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


def _link_at_start(block: Block) -> Span | None:
    return next((span for span in block.spans if span.start == 0 and span.style == "link"), None)


def _in_letters(block: Block) -> Block:
    """Return a block without the markup that no message can hold. The words count, and where a link leads."""
    link = _link_at_start(block)
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
