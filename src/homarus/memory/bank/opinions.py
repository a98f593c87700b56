"""How sure an opinion is, from all the evidence for and against it. Deterministic: days are replayed in order, each as one reflection.

Support moves confidence towards 1, contradiction towards 0, in small steps; more on one day counts little, and words of strangers
nothing. What somebody takes back, or says otherwise later, is superseded at once, and kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import sqrt

from msgspec import Struct, field

from homarus.memory.bank.claims import Claim, differs, same_matter
from homarus.memory.bank.facts import Fact
from homarus.memory.terms import content_words, stem

SAID, INFERRED, INDIRECT = (
    0.6,
    0.5,
    0.4,
)  # where a new opinion starts: the owner wrote it, the agent, a line mentions it
SUPPORT, CONTRADICT = 0.10, 0.15
AGENT, REPEATED = 0.6, 0.25  # what the agent's words count, and a second word on the same day
STEP, LEAP = 0.15, 0.4  # most that a day changes; with a strong contradiction on two days
ALIKE, SAME = 0.35, 0.6  # cosine of words from which two statements are about one thing, and say the same
IDLE, PERIOD, DRIFT = 180, 30, 0.05
LOW, HIGH = 0.02, 0.98
RETIRED, AGAINST = 0.25, 2
CERTAIN = 0.7
_VERBS = frozenset(
    map(
        stem,
        [
            "prefer",
            "prefers",
            "like",
            "likes",
            "love",
            "loves",
            "want",
            "wants",
            "think",
            "thinks",
            "hate",
            "hates",
            "enjoy",
            "enjoys",
            "now",
            "longer",
        ],
    )
)


class Opinion(Struct):
    fact: Fact
    subject: str
    confidence: float
    first: int
    last: int
    status: str = "active"  # active | in doubt | superseded | retired
    supports: list[Fact] = field(default_factory=list)
    contradicts: list[Fact] = field(default_factory=list)
    strong_days: set[int] = field(default_factory=set)
    trend: float = 0.0  # of the last day with evidence
    curve: list[tuple[int, float]] = field(default_factory=list)  # how sure it was at the end of each day with evidence


def evolve(facts: Iterable[Fact]) -> tuple[list[Opinion], list[Fact]]:
    """Return all opinions of these facts (oldest first), and the facts that may speak for or against one: nobody can tell."""
    opinions: list[Opinion] = []
    unclear: list[Fact] = []
    days: dict[int, list[Fact]] = {}
    for fact in facts:
        if fact.entities and not fact.retracted and fact.trusted:
            days.setdefault(fact.day or 0, []).append(fact)
    for day in sorted(days):
        _reflect(day, days[day], opinions, unclear)
    newest = max(days, default=0)
    for opinion in opinions:
        _drift(opinion, newest)
        if opinion.fact.replaced_by and opinion.status == "active":
            opinion.status = "superseded"
        if opinion.fact.doubted_by and opinion.status == "active":
            opinion.status = "in doubt"
    return opinions, unclear


def _reflect(day: int, facts: list[Fact], opinions: list[Opinion], unclear: list[Fact]) -> None:
    before = {id(opinion): opinion.confidence for opinion in opinions}
    seen: set[int] = set()
    for fact in facts:
        matched = False
        for opinion in opinions:
            if (
                opinion.status != "active"
                or opinion.subject not in fact.entities
                or (opinion.fact.id == fact.id and opinion.first == day)
            ):
                continue
            if fact.kind == "opinion" and _merges(fact, opinion):
                opinion.status = "superseded"
                continue
            speaks = _polarity(opinion.fact, fact)
            if speaks is None:
                continue
            if speaks == 0:
                unclear.append(fact)
                continue
            matched = matched or speaks > 0
            _weigh(opinion, fact, speaks, day, first=id(opinion) not in seen)
            seen.add(id(opinion))
        if fact.kind == "opinion" and not matched:
            opinions.append(_new(fact, day, opinions))
    for opinion in opinions:
        if id(opinion) not in before:
            opinion.curve.append((day, opinion.confidence))
        elif id(opinion) in seen:
            most = LEAP if len(opinion.strong_days) >= 2 else STEP
            start = before[id(opinion)]
            opinion.confidence = _within(start + max(-most, min(most, opinion.confidence - start)))
            opinion.trend = opinion.confidence - start
            opinion.curve.append((day, opinion.confidence))
            if opinion.confidence < RETIRED and len(opinion.contradicts) >= AGAINST and opinion.status == "active":
                opinion.status = "retired"


def _new(fact: Fact, day: int, opinions: list[Opinion]) -> Opinion:
    merged = [opinion for opinion in opinions if _merges(fact, opinion)]
    if merged:  # one sentence for what several said: their evidence is its evidence
        supports = {f.citation: f for o in merged for f in o.supports}
        against = [f for o in merged for f in o.contradicts]
        sure, first = max(o.confidence for o in merged), min(o.first for o in merged)
        return Opinion(
            fact, fact.entities[0], sure, first, day, supports=[*supports.values(), fact], contradicts=against
        )
    given = fact.confidence
    start = given if given is not None else INDIRECT if fact.inferred else INFERRED if fact.agent else SAID
    replaces = fact.supersedes or any(claim.strong for claim in fact.claims)
    if replaces and any(o.status == "superseded" and o.subject in fact.entities and o.last == day for o in opinions):
        start = max(CERTAIN, start)
    return Opinion(fact, fact.entities[0], _within(start), day, day, supports=[fact])


def _merges(fact: Fact, opinion: Opinion) -> bool:
    """Say whether a fact puts this opinion and others into one sentence."""
    return "+" in fact.supersedes and f"^{opinion.fact.id}" in fact.supersedes.split("+")


def _weigh(opinion: Opinion, fact: Fact, speaks: int, day: int, *, first: bool) -> None:
    weight = (AGENT if fact.agent else 1.0) * (1.0 if first else REPEATED)
    opinion.last = day
    if speaks > 0:
        opinion.supports.append(fact)
        opinion.confidence += SUPPORT * (1 - opinion.confidence) * weight
        return
    opinion.contradicts.append(fact)
    opinion.confidence -= CONTRADICT * opinion.confidence * weight
    if any(claim.strong for claim in fact.claims):
        opinion.strong_days.add(day)
    if opinion.fact.replaced_by or _takes_back(fact):
        opinion.status = "superseded"


def _takes_back(fact: Fact) -> bool:
    return any(claim.against and claim.strong for claim in fact.claims)


def _polarity(opinion: Fact, fact: Fact) -> int | None:
    """Return 1 for support, -1 for contradiction, 0 where it may be either, None where a fact is about something else."""
    if fact.supersedes and fact.supersedes in {f"^{opinion.id}", opinion.citation}:
        return -1
    pairs = [(one, other) for one in opinion.claims for other in fact.claims if same_matter(one, other)]
    if pairs:
        return -1 if any(differs(one, other) for one, other in pairs) else 1
    if _matters(opinion.claims) and _matters(fact.claims):
        return None  # two matters that are both known are not one because they are put in the same words
    near = cosine(opinion.text, fact.text) if fact.kind == "opinion" else 0.0
    if near < ALIKE:
        return None
    if _denies(opinion.claims) != _denies(fact.claims) or _numbers(opinion.text) != _numbers(fact.text):
        return -1
    return 1 if near >= SAME else 0


def _matters(found: Iterable[Claim]) -> bool:
    return any(claim.predicate == "prefer" and claim.about for claim in found)


def _denies(found: Iterable[Claim]) -> bool:
    return any(claim.against for claim in found)


def _numbers(text: str) -> set[str]:
    return {word for word in content_words(text) if word.isdigit()}


def cosine(one: str, other: str) -> float:
    """Return how alike two statements are by their words, verbs of liking left out."""
    first, second = _told(one), _told(other)
    return len(first & second) / sqrt(len(first) * len(second)) if first and second else 0.0


@lru_cache(maxsize=10_000)
def _told(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in content_words(text)) - _VERBS


def _drift(opinion: Opinion, newest: int) -> None:
    """Move an opinion that nobody spoke of for long towards one half: it is stale, not false."""
    periods = max(0, newest - opinion.last - IDLE) // PERIOD
    opinion.confidence = _within(0.5 + (opinion.confidence - 0.5) * (1 - DRIFT) ** periods)


def _within(value: float) -> float:
    return min(HIGH, max(LOW, value))
