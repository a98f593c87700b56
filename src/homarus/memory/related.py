"""Words that speak of the same matter, so that a question about pets finds the kitten. English; no model, no learning.

`data/related.txt` has one matter a line, written by hand from everyday life, none of it taken from a data set.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from homarus.memory.terms import forms, stem

TABLE = Path(__file__).parent / "data" / "related.txt"


def _root(word: str) -> str:
    return stem(forms(word)[0])


@cache
def _table() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, str]] = {}
    for row in TABLE.read_text(encoding="utf-8").splitlines():
        matter = {_root(word): word for word in row.split()}
        for root in matter:
            found.setdefault(root, {}).update(matter)
    return {root: tuple(word for other, word in near.items() if other != root) for root, near in found.items()}


def related(word: str) -> tuple[str, ...]:
    """Return the words that speak of the same matter as this one, in the form that is looked up."""
    return _table().get(_root(word), ())
