"""What a question asks: words, names, dates and intents, found without a model. Pure; `today` is given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from msgspec import Struct

from homarus.memory.related import related, things
from homarus.memory.schema import LABELS
from homarus.memory.terms import STOP, plain, query_terms, words
from homarus.memory.timex import Span, find_spans

FIRST_DAY, LAST_DAY = date(1, 1, 1), date(9999, 12, 31)


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


# Intent -> the words and phrases that show it. They only ever add to a score, so a wrong guess costs little.
_INTENTS: dict[str, tuple[str, ...]] = {
    "when": _phrases(
        """when, how long, how old, what date, what day, what month, what year, what time, which date, which day,
        which month, which year, how many days, how many weeks, how many months, how many years, how many hours"""
    ),
    "how_many": _phrases("""how many, how much, how often, how old, how long, how far, how big, how tall"""),
    "who": _phrases("""who, whom, whose, which person, which friend, which people, which colleague"""),
    "where": _phrases(
        """where, which city, which country, which place, which town, which state, which street, what city, what
        country, what place, what town"""
    ),
    "preference": _phrases(
        """prefer, prefers, preferred, preference, favorite, favourite, favorites, like, likes, liked, love, loves,
        loved, enjoy, enjoys, enjoyed, hate, hates, hated, dislike, dislikes, opinion, think, thinks, feel, feels"""
    ),
    "list": _phrases(
        """all the, all of, list, which, what kind, what kinds, what type, what types, what are, what were, how
        many, activities, events, things, places, books, items, hobbies, ways, names"""
    ),
    "history": _phrases(
        """did, was, were, had, before, previously, previous, formerly, earlier, originally, at first, history, last time, in the
        past, back then, first, früher, vorher, war, hatte, antes, era, había"""
    ),
    "passage": _phrases(
        """summarise, summarize, summary, recap, overview, discuss, discussed, discussion, what order, which order, in order,
        chronological, sequence, step by step, zusammenfassung, zusammenfassen, fasse, überblick, reihenfolge, resumen, resume, resumir"""
    ),
    "changes": _phrases(
        """change, changed, changes, used to, over time, no longer, any more, anymore, geändert, verändert, cambió, cambiado"""
    ),
    "current": _phrases(
        """now, currently, still, these days, at the moment, latest, current, at present, up to date"""
    ),
}

# Words that shape a question and say nothing about its answer: "what kind of …", "which things did … mention".
_FRAMING = """kind kinds type types sort sorts many much often long mention mentioned mentions name names example examples way
ways thing things item items something someone likely considered based besides both"""
_FRAME = frozenset(_FRAMING.split())
_AUXILIARIES = "did|does|do|is|was|are|were|has|have|had|can|could|will|would|should|may|might|must"
_ASKING = frozenset(["what", "when", "where", "which", "who", "whom", "whose", "why", "how"])

_BEFORE_A_KIND = "what which many kind kinds type types sort sorts all any other list favorite favourite"
_FOR = frozenset(_BEFORE_A_KIND.split())


class Query(Struct, frozen=True):
    text: str
    terms: tuple[str, ...]  # what to look up, names included
    core: tuple[str, ...]  # the same without names; all terms when only names were given
    names: tuple[str, ...] = ()  # known names that the question speaks of, as the index spells them
    lines_of: dict[str, int] = {}  # how many lines each of these names has
    spans: tuple[Span, ...] = ()
    intents: frozenset[str] = frozenset()
    called: tuple[str, ...] = ()  # words written like names that no speaker or entity bears, names of things included
    subject: tuple[str, ...] = ()  # those of them that the question is about, by its grammar
    bare: str = ""  # the question without the names, for vectors
    foreign: bool = False  # a question in none of the words that English questions are made of
    things: dict[str, tuple[str, ...]] = {}  # for each word of `core` that names a kind what is of it
    asked: frozenset[str] = frozenset()  # the words that say what is asked for: "which foods", not "at the food market"
    related: dict[str, tuple[str, ...]] = {}  # for each word of `core` others that speak of the same matter
    phrase: str = ""  # the folded text, for exact matches
    today: date | None = None

    def has(self, intent: str) -> bool:
        return intent in self.intents


def analyse(
    text: str,
    *,
    today: date,
    years: tuple[int, ...] = (),
    names: Iterable[tuple[str, tuple[str, ...]]] = (),
    entities: tuple[str, ...] = (),
) -> Query:
    """Take a question apart. `names` are (name, aliases) as the index knows them; `entities` were asked for explicitly."""
    terms = tuple(query_terms(text))
    found = names_in(text, names)
    chosen = tuple(dict.fromkeys([*entities, *found]))
    spoken = {part for name in found for part in words(name)}
    for name, aliases in names:
        if name in found:
            spoken.update(part for alias in aliases for part in words(alias))
    prefixes = {
        term for term in terms for name in found for part in words(name) if len(term) >= 3 and part.startswith(term)
    }
    core = tuple(term for term in terms if term not in spoken and term not in prefixes)
    asks, foreign = _asks(text), _foreign(text)
    if asks:
        core = tuple(term for term in core if term not in _FRAME) or core
    called = tuple(term for term in _capitals(text) if term in core)
    subject = tuple(term for term in _subjects(text) if term in called)
    unnamed = spoken | set(subject)
    matters = {term: others for term in core if term not in called and (others := related(term))}
    return Query(
        text=text,
        terms=terms,
        core=core or terms,
        names=chosen,
        called=called,
        subject=subject,
        spans=tuple(time_spans(text, today, years)),
        intents=intents_of(text),
        bare=" ".join(word for word in text.split() if not unnamed & set(words(word))),
        foreign=foreign,
        things={term: those for term in core if (those := things(term))} if asks else {},
        asked=_asked(text),
        related=matters if asks and not foreign else {},
        phrase=" ".join(plain(text).split()).strip(" ?.!\"'"),
        today=today,
    )


def _asked(text: str) -> frozenset[str]:
    """Return the words that may say what kind of thing is asked for: plurals, and those just behind a word of asking."""
    said = words(text)
    near = [word for at, word in enumerate(said) if _FOR & set(said[max(0, at - 3) : at])]
    return frozenset([*near, *(word for word in said if word.endswith("s") and not word.endswith("ss"))])


def _capitals(text: str) -> list[str]:
    """Return the words that are written with a capital where English has none: not the first word of a sentence."""
    found = re.findall(r"(?<![.!?:])(?<!^)\s[\"'(]*([^\W\d_a-z]\w+)", text)
    return list(dict.fromkeys(part for word in found for part in words(word)))


def _subjects(text: str) -> list[str]:
    """Return the words of a name that stands where a question has its subject, or owns what is asked for: `did Anna`, `Anna's`."""
    found = re.findall(rf"\b(?:{_AUXILIARIES})\s+((?:[^\W\d_a-z]\w+\s*)+)|([^\W\d_a-z]\w+)(?:['’]s|s['’])\s", text)
    return [part for groups in found for name in groups for part in words(name)]


def _asks(text: str) -> bool:
    """Say whether a text is a question rather than a list of words to look for."""
    return text.rstrip().endswith("?") or bool(_ASKING & set(words(text)[:1]))


_ENGLISH = _ASKING | frozenset(
    [
        "the",
        "of",
        "a",
        "an",
        "and",
        "or",
        "to",
        "is",
        "are",
        "did",
        "does",
        "do",
        "has",
        "have",
        "had",
        "be",
        "been",
        "by",
        "it",
        "that",
        "this",
        "my",
        "your",
        "i",
        "he",
        "she",
    ]
)


def _foreign(text: str) -> bool:
    """Say whether a question is in another language than English, whose endings the stemmer of the index does not know."""
    said = words(text)
    return len(said) >= 3 and text.rstrip().endswith(("?", "？")) and not _ENGLISH & set(said)


def names_in(text: str, names: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """Return the known names that a text mentions: whole, by alias, by first name, or by a unique prefix of three letters."""
    said = words(text)
    spoken = set(said)
    joined = f" {' '.join(said)} "
    table = [(name, [words(form) for form in (name, *aliases)]) for name, aliases in names]
    exact = [name for name, spelled in table if any(form and f" {' '.join(form)} " in joined for form in spelled)]
    exact = [name for name in exact if plain(name) not in LABELS]
    taken = {part for name in exact for part in words(name)}
    by_first: dict[str, list[str]] = {}
    for name, spelled in table:
        if name not in exact and len(spelled[0]) > 1 and spelled[0][0] in spoken - taken - STOP:
            by_first.setdefault(spelled[0][0], []).append(name)
    exact += [owners[0] for owners in by_first.values() if len(owners) == 1]
    capital = {plain(word) for word in re.findall(r"(?<!^)\b[^\W\d_a-z]\w{2,}", text) if plain(word) not in taken}
    for start in sorted(capital):
        owners = [name for name, spelled in table if any(form and form[0].startswith(start) for form in spelled)]
        if len(owners) == 1 and owners[0] not in exact and plain(owners[0]) not in LABELS:
            exact.append(owners[0])
    return tuple(dict.fromkeys(exact))


def intents_of(text: str) -> frozenset[str]:
    said = f" {' '.join(words(text))} "
    return frozenset(name for name, signs in _INTENTS.items() if any(f" {sign} " in said for sign in signs))


def time_spans(text: str, today: date, years: tuple[int, ...] = ()) -> list[Span]:
    """Return the ranges a question speaks of; `since`, `after`, `before` and `until` open one side."""
    out = []
    lowered = plain(text)
    for span in find_spans(text, today, years):
        at = lowered.find(span.phrase)
        before = lowered[:at].rstrip().rsplit(" ", 1)[-1] if at > 0 else ""
        lead = span.phrase.split(" ", 1)[0]
        word = before if before in _OPENERS else lead
        if word in {"since", "from"}:
            span = Span(span.first, LAST_DAY, "open", span.phrase)
        elif word == "after":
            span = Span(span.last, LAST_DAY, "open", span.phrase)
        elif word in {"before", "until", "till", "by"}:
            span = Span(FIRST_DAY, span.first if word == "before" else span.last, "open", span.phrase)
        out.append(span)
    return out


_OPENERS = frozenset({"since", "from", "after", "before", "until", "till", "by"})
