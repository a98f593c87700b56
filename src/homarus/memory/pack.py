"""Fill a token budget with the best lines: neighbours merge into one cited range, repeats collapse. Pure.

LineCache are taken by score; what is left of the budget goes to the lines around those taken, so that an answer can be read
on its own. The cost of a range never exceeds the budget it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from homarus.core.text import estimate_tokens
from homarus.memory.candidates import LineRow
from homarus.memory.schema import CONTINUED, RETAIN
from homarus.memory.terms import words

DUPLICATE = 0.8
COMPARED = 400  # characters of a line that are compared with others
MISSES = 12  # lines that did not fit before we stop looking for shorter ones
EQUAL = 0.75  # share of the best line's score that a neighbour needs to be shown with it, where nobody gave a budget
MARK = 3  # characters a bullet and a newline take in the file


class Range(Struct):
    """Lines of one file that are shown together."""

    file: int
    best: int  # index of the line it stands for
    members: list[int]  # indexes into the rows, in file order
    also: list[int] = []

    def add(self, index: int, rows: Sequence[LineRow]) -> None:
        self.members.append(index)
        self.members.sort(key=lambda member: rows[member].id)


def cost(text: str) -> int:
    """Return what a line costs a model, list mark and newline included."""
    return estimate_tokens(text + " " * MARK)


def _said(text: str) -> set[str]:
    return set(words(text[:COMPARED]))


class Packer:
    def __init__(
        self,
        rows: Sequence[LineRow],
        texts: Callable[[int], str],
        *,
        k: int,
        budget: int,
        scores: Sequence[float] | None = None,
    ) -> None:
        """`scores` keep weak lines out of the ranges of strong ones: then a hit is the lines that answer, and no more."""
        self.rows = rows
        self._scores = scores
        self.texts = texts
        self.k = k
        self.budget = budget
        self.spent = 0
        self.ranges: list[Range] = []
        self._owner: dict[int, Range] = {}
        self._words: list[tuple[set[str], Range]] = []
        self._by_line: dict[tuple[int, int], Range] = {}
        self._flags = {row.id: row.flags for row in rows}

    def fill(self, order: Sequence[int]) -> None:
        """Take lines in this order until ranges or tokens run out."""
        missed = 0
        for index in order:
            row = self.rows[index]
            if row.id in self._owner:
                continue
            beside = self._joined(index)
            if beside is None and len(self.ranges) >= self.k:
                continue
            text = self.texts(row.id)
            price = cost(text)
            if self.spent + price > self.budget:
                missed += 1
                if missed >= MISSES:
                    break
                continue
            said = _said(text)
            if self._collapse(index, said):
                continue
            self._take(index, beside, price, said)

    def surround(self, by_id: Mapping[int, int], scores: Sequence[float]) -> None:
        """Spend the rest of the budget on lines next to the chosen ones, the better-scored first."""
        near = {
            by_id[neighbour]
            for chosen in list(self._owner)
            for neighbour in (chosen - 1, chosen + 1)
            if neighbour in by_id and neighbour not in self._owner
        }
        for index in sorted(near, key=lambda at: -scores[at]):
            row = self.rows[index]
            beside = self._beside(row)
            text = self.texts(row.id)
            price = cost(text)
            sliced = (row.file, row.line) in self._by_line
            if beside and not sliced and row.kind not in {"heading", "path"} and self.spent + price <= self.budget:
                self._take(index, beside, price, _said(text))

    def _beside(self, row: LineRow) -> Range | None:
        # Slices of one long line share its number, and a line is cited once.
        sliced = self._by_line.get((row.file, row.line))
        return sliced or self._neighbour(row, -1) or self._neighbour(row, 1)

    def _neighbour(self, row: LineRow, step: int) -> Range | None:
        """Return the range of the line before or after. A retained fact stands alone: only its continuation belongs to it."""
        other = self._owner.get(row.id + step)
        if other is None or not (row.flags | self._flags[row.id + step]) & RETAIN:
            return other
        later = self._flags[max(row.id, row.id + step)]
        return other if later & CONTINUED or self._by_line.get((row.file, row.line)) is other else None

    def _joined(self, index: int) -> Range | None:
        """Return the range that a line is shown with, if there is one that it is good enough for."""
        row = self.rows[index]
        beside = self._beside(row)
        if beside is None or (row.file, row.line) in self._by_line or self._equal(index, beside.best):
            return beside
        return None

    def _equal(self, one: int, other: int) -> bool:
        if self._scores is None:
            return True
        low, high = sorted((self._scores[one], self._scores[other]))
        return low >= EQUAL * high

    def _take(self, index: int, beside: Range | None, price: int, said: set[str]) -> None:
        row = self.rows[index]
        self.spent += price
        if beside is None:
            beside = Range(row.file, index, [index], [])
            self.ranges.append(beside)
        else:
            beside.add(index, self.rows)
        self._owner[row.id] = self._by_line[row.file, row.line] = beside
        for step in (-1, 1):
            # Looked up anew at each step: a merge may have given the other neighbour to another range.
            beside, other = self._owner[row.id], self._neighbour(row, step)
            if other is not None and other is not beside and self._equal(beside.best, other.best):
                self._merge(beside, other)
        self._words.append((said, self._owner[row.id]))

    def _merge(self, first: Range, second: Range) -> None:
        """Join two ranges that now touch; the better one keeps its place."""
        keep, drop = (first, second) if self.ranges.index(first) < self.ranges.index(second) else (second, first)
        for member in drop.members:
            keep.add(member, self.rows)
            row = self.rows[member]
            self._owner[row.id] = self._by_line[row.file, row.line] = keep
        keep.also += drop.also
        self._words = [(said, keep if owner is drop else owner) for said, owner in self._words]
        self.ranges.remove(drop)

    def _collapse(self, index: int, said: set[str]) -> bool:
        """Say whether the line only repeats one already taken; it is then named there."""
        if len(said) < 4:
            return False
        for other, owner in self._words:
            small, large = sorted((len(said), len(other)))
            if small >= DUPLICATE * large and len(said & other) >= DUPLICATE * len(said | other):
                owner.also.append(index)
                return True
        return False
