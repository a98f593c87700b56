"""Cut Markdown that is still being written into blocks that stand for themselves. Where it is cut does not depend on how it came.

A block ends at the first paragraph that ends beyond the lower bound. Where none ends before the upper bound, it ends at the
last line, sentence or word before it; code is then closed, and opened again in the next block.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from homarus.core.patterns import late

Break = Literal["paragraph", "newline", "sentence"]

_FENCE = late(r"(?m)^([ \t]*)(`{3,}|~{3,})([^\n]*)(?:\n|\Z)")
_BREAKS = {
    "paragraph": late(r"\n[ \t]*\n"),
    "newline": late(r"\n"),
    "sentence": late(r"(?<=[.!?…])[\"'”’)\]*_]*\s|(?<=[。！？])"),
    "word": late(r"\s"),
}
_ORDER: dict[Break, tuple[str, ...]] = {
    "paragraph": ("newline", "sentence", "word"),
    "newline": ("newline", "word"),
    "sentence": ("newline", "sentence", "word"),
}
_EMPTY = late(r"\A(?:[ \t]*\n)+")
# What would lose its meaning if it were cut: a link, an address, code and emphasis on one line.
_WHOLE = late(
    r"!?\[[^\]\n]{1,300}\]\([^()\s]{1,2000}(?:\s\"[^\"\n]*\")?\)|https?://\S+|`[^`\n]+`"
    r"|\*\*[^*\n]{1,300}\*\*|__[^_\n]{1,300}__|~~[^~\n]{1,300}~~|(?<!\*)\*[^*\s][^*\n]{0,300}\*"
)
# A line that may become a fence is not cut before it is known.
_AHEAD = 64


class Fence(NamedTuple):
    """Code in the text: from the start of its opening line to the end of its closing one, or to the end of the text."""

    start: int
    body: int
    end: int
    opening: str
    closing: str
    closed: bool


def fences(text: str) -> list[Fence]:
    """Return the code of a text, in order. A fence without an end reaches to the end."""
    found: list[Fence] = []
    at: tuple[int, int, str, str] | None = None
    for line in _FENCE.finditer(text):
        indent, marks, rest = line[1], line[2], line[3]
        if at is None:
            # A backtick after a backtick fence makes it code in a sentence.
            if not (marks[0] == "`" and "`" in rest):
                at = line.start(), line.end(), line[0].rstrip("\n"), indent + marks
        elif marks.startswith(at[3].lstrip()) and not rest.strip():
            found.append(Fence(at[0], at[1], line.end(3), at[2], at[3], True))
            at = None
    if at is not None:
        found.append(Fence(at[0], at[1], len(text), at[2], at[3], False))
    return found


class Chunker:
    """Takes text as it comes and gives out blocks of at most `most` characters, at least `least` where that is possible."""

    def __init__(self, least: int = 800, most: int = 1200, prefer: Break = "paragraph") -> None:
        self._most = max(1, most)
        self._least = max(1, min(least, self._most))
        self._prefer = prefer
        self._text = ""
        self._begins = True

    @property
    def waiting(self) -> str:
        return self._text

    def clear(self) -> None:
        self._text, self._begins = "", True

    def feed(self, text: str) -> list[str]:
        """Take more text and return the blocks that are complete."""
        self._text += text
        return self._drain(last=False)

    def flush(self) -> list[str]:
        """Return the rest, in as many blocks as it takes."""
        blocks = self._drain(last=True)
        rest = self._text
        self.clear()
        return [*blocks, rest.rstrip()] if rest.strip() else blocks

    def _drain(self, *, last: bool) -> list[str]:
        blocks: list[str] = []
        while len(self._trimmed()) > self._least:
            window = self._text[: self._most + _AHEAD]
            code = fences(window)
            at = self._wished(window, code)
            if not at:
                if len(self._text) <= self._most if last else len(self._text) < self._most + _AHEAD:
                    break
                at = self._best(window, code)
            block, self._text = self._cut(at, code)
            if block.strip():
                blocks.append(block)
        return blocks

    def _trimmed(self) -> str:
        """Return the text, without empty lines where a block begins, also those that came later than its end."""
        if self._begins:
            self._text = _EMPTY.sub("", self._text, count=1)
            self._begins = not self._text.strip()
        return self._text

    def _wished(self, window: str, code: list[Fence]) -> int:
        """Return the first break of the kind that was asked for, or 0."""
        kinds = [self._prefer] if self._prefer != "sentence" else ["paragraph", "newline", "sentence"]
        ends = [self._first(kind, window, code) for kind in kinds]
        return min((end for end in ends if end), default=0)

    def _first(self, kind: str, window: str, code: list[Fence]) -> int:
        for found in _BREAKS[kind].finditer(window, self._least):
            end = _end(kind, found.start(), found.end())
            if end > self._most:
                return 0
            # What a window may have cut in half is looked at again when more of it is there.
            if found.end() < len(window) and _outside(end, code) and self._unbroken(end):
                return end
        return 0

    def _best(self, window: str, code: list[Fence]) -> int:
        """Return the last good place before the upper bound; in code, the last line that leaves room to close it."""
        held = next((fence for fence in code if fence.start < self._most < fence.end), None)
        room = self._most - len(held.closing) - 1 if held else 0
        line = window.rfind("\n", held.body, room + 1) if held else -1
        if at := self._last(self._least, window, code):
            return at
        if held and line > held.body:
            return line
        return self._last(1, window, code) or (room if held and room > held.body else self._most)

    def _last(self, least: int, window: str, code: list[Fence]) -> int:
        """Return the last break of the best kind there is between two bounds, or 0."""
        for kind in _ORDER[self._prefer]:
            found = _BREAKS[kind].finditer(window, least, self._most + 1)
            for end in reversed([_end(kind, one.start(), one.end()) for one in found]):
                if least <= end <= self._most and _outside(end, code) and window[:end].strip() and self._unbroken(end):
                    return end
        return 0

    def _cut(self, at: int, code: list[Fence]) -> tuple[str, str]:
        text = self._text
        held = next((fence for fence in code if fence.body <= at < fence.end and fence.start < at), None)
        self._begins = held is None or at + 1 + len(held.closing) > self._most
        if held is None or self._begins:
            return text[:at].rstrip(), text[at + text[at : at + 1].isspace() :]
        rest = text[at:].removeprefix("\n")
        # What goes on must be shorter than what there was, whatever an opening line holds.
        opening = held.opening if len(held.opening) + 1 < at else held.closing
        if len(opening) + 1 >= at:
            return text[:at], rest
        return f"{text[:at]}\n{held.closing}", f"{opening}\n{rest}"

    def _unbroken(self, at: int) -> bool:
        """Say whether a place is outside of everything that means something only as a whole."""
        start = self._text.rfind("\n", 0, at) + 1
        end = self._text.find("\n", at)
        line = self._text[start : end if end >= 0 else len(self._text)]
        return not any(found.start() < at - start < found.end() for found in _WHOLE.finditer(line))


def _end(kind: str, start: int, end: int) -> int:
    """Return where a block ends at such a break: a sentence keeps its marks, everything else goes."""
    return end if kind == "sentence" else start


def _outside(at: int, code: list[Fence]) -> bool:
    return not any(fence.start < at < fence.end for fence in code)
