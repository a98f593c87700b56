"""Which wordings tell what somebody prefers, learned from the notes at hand: no list of verbs foresees how people put it. Pure.

What somebody prefers is said more than once, each time in other words, and comes out the same; what merely happens ("Anna spilled
the tea") names this thing today and that one tomorrow. So a wording counts by how often the lines put in it agree with other lines about the
same person and kind of thing; lines that are believed count more, and all are weighed anew a few times. With few lines there is nothing to
learn from, and nothing more is read than by form (`claims`) and by words of liking (`liking`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import exp, log

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.memory.bank.categories import KINDS, asked_for
from homarus.memory.bank.claims import UNREAD, Claim, is_favourite
from homarus.memory.bank.liking import LONGEST, Known, liking, said_in, sentences, subject_of, unread
from homarus.memory.terms import plain, stem, words

NEAR = 60  # days between two lines that speak of one time
MATTERS = 3  # people's likings that a group of words speaks of before it tells something
VARIED = 2  # and things that it names
SURE = 0.5  # log odds from which a wording is believed by itself; from 0 on where another line says the same
WRONG = -0.3  # and at which nothing is read from single words in it
ENOUGH = 12  # lines that agree with another, before anything is learned
ODDS = 0.5  # added to both sides of a count
ROUNDS = 4  # how often lines are weighed anew
SHARP = 3.0  # how fast belief follows odds
LITTLE = 0.2  # belief of the lines beside one, below which they tell nothing about it
MOST = 40  # lines on either side that one is compared with
# Kinds of which people like one more than another. Nobody "prefers" an illness because two lines name it.
CHOSEN = frozenset(words("drink food colour sport hobby instrument music transport season seat clothing plant"))
_DENIED = frozenset(
    words("""not no never nothing nobody without hardly cannot can don doesn won isn nicht kein keine keinen keinem nie niemals nichts ohne
ni nunca jamas nada sin tampoco""")
)
_STAYS = late(r"\b(?:still|remains|stays|immer noch|nach wie vor|weiterhin|bleibt|todavia|sigue)\b")


class Said(Struct):
    """A line, what is read from it by its form, and whom it means where it names nobody."""

    day: int
    text: str
    known: tuple[Claim, ...]
    about: str = ""
    opinion: bool = False  # somebody wrote it down as one
    retained: bool = False
    teaches: bool = True  # not where the words are a stranger's, or crossed out: what these say counts for nothing else


class Mention(Struct):
    """One sentence that names somebody and one or two things of a kind, in the order in which they stand."""

    at: int
    day: int
    subject: str
    kind: str
    things: tuple[str, ...]
    wording: frozenset[str]
    denied: bool
    stays: bool
    liked: str = ""  # the thing that is preferred, where its words alone say which
    sure: bool = False  # its form says so
    odds: float = 0.0
    belief: float = 0.5

    @property
    def matter(self) -> tuple[str, str]:
        return self.subject, self.kind


def read_together(lines: Sequence[Said], people: frozenset[str]) -> list[tuple[Claim, ...]]:
    """Return the claims of each line: what it says by itself, and what all of them together tell."""
    known = Known(people, things_in(line for line in lines if line.teaches))
    read = [_liked(line, known) for line in lines]
    found: list[Mention] = []
    for at, (line, told) in enumerate(zip(lines, read, strict=True)):
        liked = {value for claim in told if claim.predicate == "prefer" and not claim.against for value in claim.value}
        about = line.about if line.retained else ""
        formal = {value for claim in line.known if claim.predicate == "prefer" for value in claim.value}
        for part in sentences(line.text) if line.day and line.teaches else ():
            for one in mentions(at, line.day, part, subject_of(part, people, about), known):
                chosen = liked & set(one.things)
                one.liked = chosen.pop() if len(chosen) == 1 else ""
                one.sure = line.opinion or one.liked in formal
                if one.liked or not liked:  # "prefers the window seat on trains" tells of seats, and nothing of trains
                    found.append(one)
    more, wrong = learned(found)
    out = []
    for at, told in enumerate(read):
        new = tuple(more.get(at, ()))
        doubtful = {"prefer", UNREAD} if at in wrong else {UNREAD} if new else set()
        out.append((*(claim for claim in told if claim.predicate not in doubtful), *new))
    return out


def things_in(lines: Iterable[Said]) -> dict[str, frozenset[str]]:
    """Return of what kind things are that no table has: "Anna's favourite drink is rooibos" says so of rooibos, for everybody.

    What somebody gave up for another thing is of one kind with it. Where notes name no kind, the first of such things stands for it.
    """
    kinds: dict[str, Counter[str]] = {}
    pairs: list[tuple[str, str]] = []
    for line in lines:
        for claim in line.known:
            if claim.predicate != "prefer" or len(claim.value) != 1:
                continue
            (value,) = claim.value
            if (
                len(claim.about) == 1
                and (claim.about <= KINDS or is_favourite(line.text))
                and not claim.about & claim.value
            ):
                kinds.setdefault(value, Counter()).update(claim.about)
            if len(claim.rivals) == 1:
                pairs.append((value, next(iter(claim.rivals))))
    found = {value: min(votes, key=lambda kind: (-votes[kind], kind)) for value, votes in sorted(kinds.items())}
    for one, other in sorted(pairs) * 2:  # twice: what is known of the second may come with a later pair
        kind = found.get(one) or found.get(other) or min(one, other)
        found.setdefault(one, kind)
        found.setdefault(other, kind)
    return {value: frozenset({kind}) for value, kind in found.items()}


def _liked(line: Said, known: Known) -> tuple[Claim, ...]:
    """Return the claims of a line with what its words say of liking: where its form says nothing, or it names two things of a kind."""
    claims = tuple(
        _of_kind(claim, known) for claim in line.known if not known.kinds(claim.subject)
    )  # "tea pleases Anna" is nothing about tea
    parts = sentences(line.text)
    told = [c for part in parts if (c := liking(part, known, line.about, opinion=line.opinion)) is not None]
    if not told and not any(claim.predicate in {"prefer", "use"} for claim in claims):
        about = line.about if line.opinion else ""
        return (*claims, *(claim for part in parts if (claim := unread(part, known, about)) is not None))
    if not told or (claims and not any(claim.rivals for claim in told)):
        return claims
    return (*(claim for claim in claims if claim.predicate not in {"prefer", "use", "is"}), *told)


def _of_kind(claim: Claim, known: Known) -> Claim:
    if claim.about or claim.predicate != "prefer" or len(claim.value) != 1:
        return claim
    return replace(claim, about=known.things.get(next(iter(claim.value)), frozenset()))


def mentions(at: int, day: int, sentence: str, subject: str, known: Known) -> list[Mention]:
    """Return what a sentence about somebody names, one entry for each kind of thing."""
    said = said_in(sentence)
    if not subject or not 2 < len(said) <= LONGEST or "?" in sentence:
        return []
    places: dict[str, dict[int, str]] = {}
    for place, word in enumerate(said):
        for kind in known.kinds(word):
            if kind in CHOSEN or kind not in KINDS:
                places.setdefault(kind, {})[place] = stem(word)
    held = set(said)
    out = []
    for kind, found in sorted(places.items()):
        things = tuple(dict.fromkeys(found.values()))
        if len(things) <= 2:
            parts = _parts(tuple(_masked(said, found, kind, known.people)))
            out.append(
                Mention(
                    at, day, subject, kind, things, parts, bool(_DENIED & held), bool(_STAYS.search(plain(sentence)))
                )
            )
    return out


def _masked(said: Sequence[str], things: Mapping[int, str], kind: str, people: Collection[str]) -> list[str]:
    out = []
    for place, word in enumerate(said):
        name = word in people or (word.endswith("s") and word[:-1] in people)
        what = "<thing>" if place in things else "<who>" if name else "<kind>" if asked_for(word) == kind else word
        out += [] if word.isdigit() else [what]
    return out


@lru_cache(maxsize=20_000)
def _parts(masked: tuple[str, ...]) -> frozenset[str]:
    """Return the words of a sentence, alone, by twos and by threes."""
    return frozenset(
        " ".join(masked[at : at + size])
        for size in (1, 2, 3)
        for at in range(len(masked) - size + 1)
        if size > 1 or not masked[at].startswith("<")
    )


def learned(found: Sequence[Mention]) -> tuple[dict[int, list[Claim]], frozenset[int]]:
    """Return what lines claim that are put in wordings that agree with others, and the lines whose wording does not: nothing is read there."""
    matters: dict[tuple[str, str], list[Mention]] = {}
    for one in sorted(found, key=lambda m: (m.day, m.at, m.kind)):
        matters.setdefault(one.matter, []).append(one)
    _weigh(matters.values())
    out: dict[int, list[Claim]] = {}
    for group in matters.values():
        for one, thing in _chosen(group):
            if not one.liked:
                rivals = frozenset(one.things) - {thing}
                claim = Claim(
                    one.subject, "prefer", frozenset({one.kind}), frozenset({thing}), rivals, strong=bool(rivals)
                )
                out.setdefault(one.at, []).append(claim)
    return out, frozenset(one.at for one in found if one.odds <= WRONG) - {one.at for one in found if one.sure}


def _weigh(matters: Collection[list[Mention]]) -> None:
    """Set the odds of each mention: how much more often lines in its words agree with others than usual. Lines that are believed count more."""
    beside = [(one, _beside(at, group)) for group in matters for at, one in enumerate(group)]
    if sum(any(agrees for agrees, _ in others) for _, others in beside) < ENOUGH:
        return
    parts = _telling([one for one, _ in beside])
    numbers = {part: at for at, part in enumerate({part: None for those in parts.values() for part in those})}
    told_by = {wording: [numbers[part] for part in those] for wording, those in parts.items()}
    places = {id(one): at for at, (one, _) in enumerate(beside)}
    near = [([places[id(o)] for _, o in others], [places[id(o)] for same, o in others if same]) for _, others in beside]
    belief = [one.belief for one, _ in beside]
    for _ in range(ROUNDS):  # numbers and lists: this is half of what a day's reflection costs
        shares: dict[frozenset[str], list[float]] = {}
        for (one, _), (those, same) in zip(beside, near, strict=True):
            believed = sum([belief[at] for at in those])
            if believed >= LITTLE:
                shares.setdefault(one.wording, []).append(sum([belief[at] for at in same]) / believed)
        agreed, counts = [0.0] * len(numbers), [0] * len(numbers)
        for wording, found in shares.items():
            good, count = sum(found), len(found)
            for part in told_by[wording]:
                agreed[part] += good
                counts[part] += count
        usual = _odds(sum(map(sum, shares.values())), sum(map(len, shares.values())))
        told = [_odds(good, count) - usual if count else -usual for good, count in zip(agreed, counts, strict=True)]
        odds = {
            wording: sum([told[part] for part in those]) / len(those) if those else 0.0
            for wording, those in told_by.items()
        }
        for one, _ in beside:
            one.odds = odds[one.wording]
            one.belief = 1.0 if one.sure else 1 / (1 + exp(-SHARP * one.odds))
        belief = [one.belief for one, _ in beside]


def _telling(mentioned: Sequence[Mention]) -> dict[frozenset[str], list[str]]:
    """Return of each wording the parts that stand in several matters, with several things, in order."""
    things: dict[str, set[tuple[str, ...]]] = {}
    about: dict[str, set[tuple[str, str]]] = {}
    by_wording: dict[frozenset[str], list[Mention]] = {}
    for one in mentioned:
        by_wording.setdefault(one.wording, []).append(one)
    for wording, those in by_wording.items():
        their_things, their_matters = {one.things for one in those}, {one.matter for one in those}
        for part in wording:
            things.setdefault(part, set()).update(their_things)
            about.setdefault(part, set()).update(their_matters)
    telling = {part for part in about if len(about[part]) >= MATTERS and len(things[part]) >= VARIED}
    return {wording: sorted(wording & telling) for wording in by_wording}


def _odds(good: float, count: int) -> float:
    return log((good + ODDS) / (count - good + ODDS))


def _beside(at: int, group: Sequence[Mention]) -> list[tuple[bool, Mention]]:
    """Return the mentions of the same time as one, the nearest of a group in order of days, each with whether it says the same in other words."""
    one = group[at]
    near = (
        other
        for other in group[max(0, at - MOST) : at + MOST + 1]
        if other.at != one.at and abs(one.day - other.day) <= NEAR
    )
    out = []
    for other in near:
        same = bool(set(one.things) & set(other.things))
        if not same or (one.wording != other.wording and not other.denied):
            out.append((same, other))
    return out


def _chosen(group: list[Mention]) -> Iterator[tuple[Mention, str]]:
    """Yield the mentions of one matter that tell what is preferred, oldest first, with that thing."""
    good = [one for one in group if one.odds > (WRONG if one.liked else 0) or one.sure]
    held, before, since = "", "", 0  # what is preferred, what was before that, and the day of the change
    for at, one in enumerate(good):
        thing = one.liked
        if not thing and len(one.things) == 1:
            sure = one.odds >= SURE or any(same for same, _ in _beside(at, good))
            thing = one.things[0] if sure else ""
        elif not thing and held in one.things:
            other = next(each for each in one.things if each != held)
            told_again = other == before and one.day - since <= NEAR
            thing = held if one.stays or told_again else other
        if thing:
            held, before, since = (thing, held, one.day) if thing != held else (held, before, since)
            yield one, thing
