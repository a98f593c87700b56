"""Words that speak of the same matter, so that a question about pets finds the kitten, and things by what they are.

`data/related.txt` has one matter a line, `data/kinds.txt` one kind: how it is asked for, and what is of it. Both are written by hand
from everyday life (docs/memory-ranking.md). English; no model, no learning.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from homarus.memory.bank.categories import asked_for, members
from homarus.memory.terms import forms, stem

TABLE = Path(__file__).parent / "data" / "related.txt"
KINDS = Path(__file__).parent / "data" / "kinds.txt"


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


@cache
def _kinds() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for row in KINDS.read_text(encoding="utf-8").splitlines():
        names, _, those = row.partition(":")
        for name in names.split():
            found.setdefault(name, {}).update(dict.fromkeys(one.replace("_", " ") for one in those.split()))
    return {name: tuple(those) for name, those in found.items()}


def things(word: str) -> tuple[str, ...]:
    """Return what is of the kind that a word of a question names: `drinks` asks for tea and coffee."""
    return tuple(dict.fromkeys([*members(asked_for(word)), *_kinds().get(word, ())]))
