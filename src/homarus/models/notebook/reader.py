"""How surely a line of a note answers a question, read word by word by a small network. Nothing but Python.

`match.py` counts what question and line have in common; that cannot tell "the flight costs 210" from "the flight is at two"
for somebody who asks when. This network can, somewhat: each word is seen with its neighbours, looks for its like in the other text, and
is compared with what it found there. `python -m bench.fit_small` taught it on what invented people tell and ask.
German is read by its English words (`gloss.py`).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import resources
from operator import mul
from typing import Protocol

import msgspec
from msgspec import Struct

from homarus.models.notebook.gloss import english
from homarus.models.notebook.pieces import pieces

Row = Sequence[float]
MOST_ASKED, MOST_TOLD = 32, 40  # pieces of a question and of a line that are read
ASKED_SIZE, TOLD_SIZE = 4, 6  # by what the sums over them are divided


class Reader(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def most(self) -> int:
        """How many lines are worth its time."""
        ...

    def read(self, question: str, lines: Sequence[str]) -> list[float]:
        """Return for each line the logarithm of the odds that it answers the question. Those that fit best come first."""
        ...


def _product(a: Row, b: Row) -> float:
    return float(sum(map(mul, a, b)))


dot: Callable[[Row, Row], float] = getattr(math, "sumprod", _product)  # Python 3.12 has a fast one


class Layer(Struct, frozen=True):
    """A matrix by rows, and what is added."""

    rows: tuple[Row, ...]
    base: Row

    def __call__(self, values: Row) -> list[float]:
        return [dot(row, values) + base for row, base in zip(self.rows, self.base, strict=True)]


class Net(Struct, frozen=True):
    """The weights. `words` holds a row of small whole numbers for each piece; 0 is none."""

    words: array[int]
    width: int
    scale: float
    before: Layer  # a word's neighbours and itself, as they change it
    here: Layer
    after: Layer
    asks: Layer  # a word by itself, in a question and in a line
    tells: Layer
    look: Layer  # what a word of the question looks for
    asked: Layer  # a word beside what it found
    told: Layer
    both: Layer
    verdict: Layer

    def word(self, piece: int) -> list[float]:
        start = piece * self.width
        return [value * self.scale for value in self.words[start : start + self.width]]


@cache
def net() -> Net:
    """Read the weights: a line that says what follows, then whole numbers of one byte, each part with a scale of its own."""
    head, _, body = resources.files(__package__).joinpath("reader.bin").read_bytes().partition(b"\n")
    parts: dict[str, tuple[int, float, array[int]]] = {}
    at = 0
    for name, height, width, scale in msgspec.json.decode(head, type=list[tuple[str, int, int, float]]):
        parts[name] = width, scale, array("b", body[at : at + height * width])
        at += height * width

    def rows(name: str) -> list[Row]:
        width, scale, values = parts[name]
        return [[value * scale for value in values[at : at + width]] for at in range(0, len(values), width)]

    layers = {name: Layer(tuple(rows(name)), rows(f"{name} base")[0]) for name in parts if f"{name} base" in parts}
    width, scale, words = parts["words"]
    return Net(words, width, scale, **layers)


class SmallReader:
    """The one that is always there."""

    name = "small"
    most = 6

    def read(self, question: str, lines: Sequence[str]) -> list[float]:
        asked = _seen(pieces(english(question))[:MOST_ASKED], asks=True)
        looks = [net().look(word) for word in asked]
        return [_answers(asked, looks, _seen(pieces(english(line))[:MOST_TOLD], asks=False)) for line in lines]


def near(question: str, lines: Sequence[str]) -> list[float]:
    """Return how near each line comes to a question word by word, by what the words mean. It reads nothing, and is quick."""
    asked = [_unit(piece) for piece in dict.fromkeys(pieces(english(question))[:MOST_ASKED])]
    weights = [weight for _, weight in asked]
    found = []
    for line in lines:
        told = [_unit(piece)[0] for piece in pieces(english(line))[:MOST_TOLD]]
        best = [max((dot(word, other) for other in told), default=0.0) for word, _ in asked]
        found.append(dot(best, weights) / (sum(weights) or 1.0))
    return found


@lru_cache(maxsize=4096)
def _unit(piece: int) -> tuple[Row, float]:
    """Return a word's direction, and its weight: common words are short, and weigh little."""
    word = net().word(piece)
    weight = dot(word, word)
    return [value / (math.sqrt(weight) or 1.0) for value in word], weight


class Seen(Struct, frozen=True):
    """A word by itself, in a question and in a line, and what it does to the one behind it, to itself and to the one before it."""

    asks: Row
    tells: Row
    before: Row
    here: Row
    after: Row


@lru_cache(maxsize=512)
def _word(piece: int) -> Seen:
    known = net()
    word = known.word(piece)
    return Seen(known.asks(word), known.tells(word), known.before(word), known.here(word), known.after(word))


def _seen(text: Sequence[int], *, asks: bool) -> list[Row]:
    """Return the words of a text, each with what its neighbours make of it; an empty text is one word that says nothing."""
    nothing = _word(0)
    words = [_word(piece) for piece in text] or [nothing]
    return [
        [
            mine + max(0.0, b + h + a)
            for mine, b, h, a in zip(
                word.asks if asks else word.tells, left.before, word.here, right.after, strict=True
            )
        ]
        for left, word, right in zip([nothing, *words], words, [*words[1:], nothing], strict=False)
    ]


def _answers(asked: Sequence[Row], looks: Sequence[Row], told: Sequence[Row]) -> float:
    """Let each word find its like in the other text, compare the two, and judge by the sum and the strongest of it all."""
    known = net()
    likeness = [[dot(look, word) for word in told] for look in looks]
    met = [_mixed(row, told) for row in likeness]
    back = [_mixed(row, asked) for row in zip(*likeness, strict=True)]
    seen = []
    for layer, words, found, size in ((known.asked, asked, met, ASKED_SIZE), (known.told, told, back, TOLD_SIZE)):
        compared = [_positive(layer(_beside(*pair))) for pair in zip(words, found, strict=True)]
        columns = list(zip(*compared, strict=True))
        seen += [sum(column) / size for column in columns] + [max(column) for column in columns]
    return known.verdict(_positive(known.both(seen)))[0]


def _mixed(likeness: Sequence[float], words: Sequence[Row]) -> list[float]:
    """Return the mean of the words, each as heavy as it is alike."""
    most = max(likeness)
    shares = [math.exp(each - most) for each in likeness]
    total = sum(shares)
    return [dot(column, shares) / total for column in zip(*words, strict=True)]


def _beside(word: Row, found: Row) -> list[float]:
    return [*word, *found, *map(mul, word, found), *(abs(a - b) for a, b in zip(word, found, strict=True))]


def _positive(values: Sequence[float]) -> list[float]:
    return [value if value > 0 else 0.0 for value in values]
