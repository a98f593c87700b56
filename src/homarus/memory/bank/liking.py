"""What somebody likes, however it is put: a name that the notes know, a word of liking, and a thing of a known kind. Pure.

`claims` reads sentences by their form. This reads what fits none, in any order of words: "nothing beats tea for Anna", "Otto schwört auf
Tee", "lo de Inés es el té". Where a sentence names two things of one kind, words around them tell the old one from the new one; where
nothing tells, or no word of liking stands there, it claims nothing: "Anna spilled the tea" is no preference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from homarus.core.patterns import late
from homarus.memory.bank.categories import asked_for, categories_of
from homarus.memory.bank.claims import UNREAD, Claim
from homarus.memory.terms import plain, stem, words
from homarus.memory.timex import has_time_word


def _words(text: str) -> list[str]:
    return text.split()


# Words of liking, choosing and habit in English, German and Spanish, folded; a stem stands for its forms.
_LIKING = frozenset(
    _words("""like likes loved loves love prefer prefers preferred favour favours favourite favorite enjoys enjoy adores adore fond keen fan fans
choose chooses chose picks pick opts opt swears beats craves crave person type thing choice taste soft weakness best addicted obsessed
devoted mad crazy sold into wants want sticks loyal always usually orders ordering drinks eats wears goes went takes taken taking
happiest mag magst liebt bevorzugt lieber liebsten lieblings liebling schwort steht wahlt nimmt trinkt isst tragt bestellt favorit gern
gerne vorliebe fan begeistert bleibt immer stets entscheidet schatzt verfallen schwarm geschmack wahl ding sache will mochte greift
geht prefiere gusta gustan encanta encantan favorito favorita favoritos preferido preferida elige escoge pide quiere adora apasiona
bebe come toma siempre mejor queda opta debilidad fascina pirra chifla tira eleccion suyo""")
)
# Of oneself one speaks at length and of many things: there only a short sentence with one of these counts.
_OWN = frozenset(
    _words("""like love prefer favourite favorite adore enjoy fond fan mag liebe lieber liebsten bevorzuge favorit gern gerne prefiero
gusta gustan encanta encantan favorito favorita adoro""")
)
_SHORT = 10
# A clause with one of these speaks of what is over.
_OVER = frozenset(
    _words("""not no never stopped quit gave left dropped tired done behind used once formerly goodbye enough hates hate off history nicht
kein keine keinen nie fruher einst genug satt ade hasst aufgehort geschichte vorbei no nunca antes dejo odia adios harto harta
cansado cansada historia""")
)
_WITHOUT = frozenset(_words("without ohne sin"))  # denies what comes after it, never what stands before
# Between two things of one kind: the second one is the old one; or the new one, where `_FROM` stands before the first.
_RATHER = frozenset(_words("""instead over than rather not no statt anstatt nicht als vez lugar que antes no"""))
_TO = frozenset(_words("""to for with auf zu gegen a por"""))
_FROM = frozenset(
    _words("""from traded swapped exchanged changed switched replaced von tauschte getauscht de cambio cambiado""")
)
_INSTEAD = frozenset(_words("""instead statt anstatt vez lugar"""))
_BREAK = frozenset(_words("""and but und sondern aber y sino pero"""))
_CHANGE = frozenset(
    _words("""now instead currently today nowadays switched changed longer jetzt nun inzwischen mittlerweile neuerdings seitdem stattdessen mehr
umgestiegen ahora hoy actualmente cambio ya""")
)
LONGEST = 30  # words of a sentence that is read


NONE: frozenset[str] = frozenset()


class Known(Struct):
    """Whom and what the notes at hand speak of: the folded names of people, and things of kinds that no table of ours has, by their stems."""

    people: frozenset[str]
    things: Mapping[str, frozenset[str]] = {}
    _kinds: dict[str, frozenset[str]] = {}

    def kinds(self, word: str) -> frozenset[str]:
        """Return of which kinds of thing a word is."""
        found = self._kinds.get(word)
        if found is None:
            found = categories_of(word) or self.things.get(stem(word), NONE)
            found = self._kinds[word] = NONE if word in self.people else found
        return found


@lru_cache(maxsize=20_000)
def said_in(sentence: str) -> tuple[str, ...]:
    """Return the words of a sentence; notes are read again and again."""
    return tuple(words(sentence))


def liking(sentence: str, known: Known, about: str = "", *, opinion: bool = False) -> Claim | None:
    """Return whose liking for what a sentence states, by the folded names of people; None where that is not clear.

    `about` is whom it means where it names nobody; an `opinion` somebody wrote down as such needs no word of liking.
    """
    said = said_in(sentence)
    if about and not opinion and (len(said) > _SHORT or not _OWN & set(said)):
        about = ""
    if not (1 if opinion else 2) < len(said) <= LONGEST or "?" in sentence:
        return None
    subject = subject_of(sentence, known.people, about)
    if not subject or not any(map(known.kinds, said)):
        return None
    told = [[(word, known.kinds(word)) for word in clause if word not in known.people] for clause in _clauses(sentence)]
    fond = [at for at, clause in enumerate(told) if opinion or any(_is_liking(word) for word, _ in clause)]
    kinds = _kinds(told, fond) if fond else NONE
    if not kinds:
        return None
    new: list[str] = []
    old: list[str] = []
    for clause in told:
        _sort(clause, kinds, new, old)
    values, rivals = frozenset(map(stem, new)), frozenset(map(stem, old))
    strong = bool(_CHANGE & set(said))
    if len(values) == 1 and not values & rivals:
        return Claim(subject, "prefer", kinds, values, rivals, strong=strong)
    return Claim(subject, "prefer", kinds, rivals, against=True, strong=strong) if rivals and not new else None


def unread(sentence: str, known: Known, about: str = "") -> Claim | None:
    """Return of whom and of what kind of thing a sentence speaks that may tell of a change, in words that say nothing to us.

    It names somebody and two things of one kind, or one thing and a word of change. What was held before is in doubt then.
    """
    said = said_in(sentence)
    subject = subject_of(sentence, known.people, about)
    if not subject or not 2 < len(said) <= LONGEST or "?" in sentence:
        return None
    things: dict[str, set[str]] = {}
    for word in said:
        for kind in known.kinds(word):
            things.setdefault(kind, set()).add(stem(word))
    most = max(map(len, things.values()), default=0)
    kinds = frozenset(kind for kind, found in things.items() if len(found) == most)
    if most < (1 if _CHANGE & set(said) else 2):
        return None
    return Claim(subject, UNREAD, kinds, frozenset().union(*(things[kind] for kind in kinds)))


@lru_cache(maxsize=20_000)
def subject_of(sentence: str, people: frozenset[str], otherwise: str = "") -> str:
    """Return whom a sentence is about: the one it names, also with an `s` behind the name; nobody where it names two."""
    found = {
        word if word in people else word[:-1]
        for word in said_in(sentence)
        if word in people or (word.endswith("s") and word[:-1] in people)
    }
    return otherwise if not found else found.pop() if len(found) == 1 else ""


def _is_liking(word: str) -> bool:
    return word in _LIKING or word.startswith("liebling")


Clause = list[tuple[str, frozenset[str]]]  # words, each with the kinds of thing it is of


def _kinds(clauses: list[Clause], fond: list[int]) -> frozenset[str]:
    """Return the kinds of thing that the clauses of liking are about: the one that is named, else of which most things are there.

    Of equals the one that is spoken of closest by: in "if Otto may choose, then tea, as all at the table knew" no table.
    """
    held: Counter[str] = Counter()
    apart: dict[str, int] = {}
    for at, clause in enumerate(clauses):
        for kind in (kind for _, kinds in clause for kind in kinds):
            held[kind] += 1
            apart[kind] = min([apart.get(kind, len(clauses)), *(abs(at - one) for one in fond)])
    near = Counter(kind for at in fond for _, kinds in clauses[at] for kind in kinds)
    named = {asked_for(word.removeprefix("lieblings")) for clause in clauses for word, _ in clause}
    worth = {kind: (kind in named, near[kind], held[kind], -apart[kind]) for kind in held}
    return frozenset(kind for kind in worth if worth[kind] == max(worth.values()))


@lru_cache(maxsize=5_000)
def _clauses(sentence: str) -> list[list[str]]:
    out: list[list[str]] = [[]]
    for part in re.split(r"[,;:–]", sentence):
        out.append([])
        for word in words(part):
            if word in _BREAK:
                out.append([])
            else:
                out[-1].append(word)
    return out


def _sort(clause: Clause, kinds: frozenset[str], new: list[str], old: list[str]) -> None:
    """Add the things of these kinds in a clause to those that are liked, or to those that were."""
    said = [word for word, _ in clause]
    places = [at for at, (_, found) in enumerate(clause) if kinds & found]
    if len(places) == 1:
        over = _OVER & set(said) or _WITHOUT & set(said[: places[0]])
        (old if over else new).append(said[places[0]])
    elif len(places) == 2:
        first, second = places
        between = set(said[first + 1 : second])
        if between & _RATHER:
            new.append(said[first])
            old.append(said[second])
        elif (between & _TO and _FROM & set(said[:first])) or _INSTEAD & set(said[:first]):
            old.append(said[first])
            new.append(said[second])
        else:
            new += [said[first], said[second]]  # both, or nobody knows which


_BETWEEN = late(r"(?<=\w\w[.!])\s+")
_WORDS = late(r"[^\W\d_][^\W_]+")
BEGINS = 0.15  # share of its places where somebody's name begins a sentence; other words that German writes with a capital seldom do


def people_in(texts: Iterable[str], linked: Iterable[str] = ()) -> frozenset[str]:
    """Return the names that notes use, folded: always with a capital, here and there inside a sentence, and often where one begins.

    Found by how the notes at hand write a word, as no list has all names. `linked` are those that somebody marked as such.
    """
    low: set[str] = set()
    first: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for text in texts:
        for match in _WORDS.finditer(text):
            word, before = match[0], text[: match.start()].rstrip(" \"'“„(*_-")
            if word[0].islower():
                low.add(plain(word))
            else:
                (inside if before and before[-1] not in ".!?:;–¿¡" else first)[plain(word)] += 1
    names = {
        word for word, count in inside.items() if first[word] >= BEGINS * (count + first[word]) and word not in low
    }
    names = {word for word in names if not (categories_of(word) or asked_for(word) or has_time_word(word))}
    names.update(name for name in map(plain, linked) if name.isalpha())
    return frozenset(name for name in names if not (name[-1] == "s" and name[:-1] in names))


@lru_cache(maxsize=20_000)
def sentences(text: str) -> tuple[str, ...]:
    return tuple(part for part in _BETWEEN.split(text[:1_000]) if part.strip())
