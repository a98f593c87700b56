"""Facts as people note them down and questions as people ask for them later: other words, the same person or thing.

`everyday` spreads a thousand facts over three hundred people and things; `crowded` gives few people many facts, so that the
name says little and meaning must choose. Of a fact's words its question repeats the name, and seldom any other.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from bench.memory import asked_facts as kinds


class Fact(NamedTuple):
    """A line, what it is about, and a question that rewords it."""

    about: str
    text: str
    question: str

    @property
    def said(self) -> str:
        """Return the line as somebody wrote it in a chat: a person about themselves, and about things anybody."""
        return (
            f"{self.about}: {self.text.removeprefix(self.about).strip()}" if self.about in kinds.PEOPLE else self.text
        )


def everyday(count: int = 1000, seed: int = 1) -> list[Fact]:
    """Return facts about three hundred people and things, one to six or so about each."""
    rnd = random.Random(seed)
    made = []
    for names, facts in kinds.GROUPS:
        for name in names:
            made += [_made(name, fact) for fact in rnd.sample(facts, rnd.randint(1, 6))]
    rnd.shuffle(made)
    return made[:count]


def crowded(people: int = 4, each: int = 50, seed: int = 1) -> list[Fact]:
    """Return many facts about few people: the name chooses no longer, meaning alone does."""
    rnd = random.Random(seed)
    found = [_made(name, fact) for name in kinds.PEOPLE[:people] for fact in rnd.sample(kinds.OF_PEOPLE, each)]
    rnd.shuffle(found)
    return found


def _made(name: str, fact: tuple[str, str]) -> Fact:
    return Fact(name, fact[0].format(x=name), fact[1].format(x=name))
