"""Facts as people note them down and questions as people ask for them later: other words, the same person or thing.

`everyday` spreads a thousand facts over three hundred people and things; `crowded` gives four people fifty facts each, so
that the name says nothing and meaning alone must choose. Nobody looked at a ranking when these were written.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from bench.memory import asked_facts as kinds


class Fact(NamedTuple):
    """A line, what it is about, and a question that rewords it."""

    about: str
    text: str
    question: str

    @property
    def said(self) -> str:
        """Return the line as the person it is about would say it in a conversation."""
        return f"{self.about}: {self.text.removeprefix(self.about).lstrip(',').strip()}"


def everyday(count: int = 1000, seed: int = 1) -> list[Fact]:
    """Return facts about three hundred people and things, a few of which much is known about."""
    rnd = random.Random(seed)
    groups: list[tuple[Sequence[str], Sequence[tuple[str, str]]]] = [
        (kinds.PEOPLE, kinds.OF_PEOPLE),
        (kinds.THINGS, kinds.OF_THINGS),
        (kinds.PLACES, kinds.OF_PLACES),
        (kinds.PETS, kinds.OF_PETS),
        (kinds.PROJECTS, kinds.OF_PROJECTS),
    ]
    every = [(name, fact) for names, facts in groups for name in names for fact in rnd.sample(facts, len(facts))]
    first: dict[str, tuple[str, tuple[str, str]]] = {}
    for name, fact in every:
        first.setdefault(name, (name, fact))
    chosen = list(first.values())
    rest = [pair for pair in every if pair not in set(chosen)]
    # Of two people one is known well: much is written about few, and little about most.
    known = {name: 1 / (1 + rnd.randrange(30)) for name in first}
    rest.sort(key=lambda pair: rnd.random() ** (1 / known[pair[0]]), reverse=True)
    chosen += rest[: max(0, count - len(chosen))]
    rnd.shuffle(chosen)
    return [_made(name, fact) for name, fact in chosen[:count]]


def crowded(seed: int = 1) -> list[Fact]:
    """Return fifty facts about each of four people."""
    rnd = random.Random(seed)
    found = [_made(name, fact) for name in kinds.PEOPLE[:4] for fact in kinds.OF_PEOPLE]
    rnd.shuffle(found)
    return found


def _made(name: str, fact: tuple[str, str]) -> Fact:
    return Fact(name, fact[0].format(x=name), fact[1].format(x=name))
