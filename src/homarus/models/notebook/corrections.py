"""Whether a line takes the place of an older one: what marks a correction, and whether both say the same kind of thing of the same subject. Pure.

A link that is missing leaves an old value to be quoted as if it held; a false one calls a line former that still holds. So two lines must agree
in whose matter it is and differ in one kind of value (a time, a figure, a place, a name, a colour …).
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from homarus.core.patterns import late
from homarus.models.notebook.language import OF_A_TIME, VALUES, Reading, Word, alike, listed, read, stem

# What tells that a sentence replaces something: at its start for sure, inside it perhaps, and more so where something got another time or figure.
CORRECTS = late(
    r"\s*(?:(?:oh|ach|ok|okay|so|also|ugh|hm+|well|na|naja|small|quick|kleiner?|kurzer?|noch ein|das war|that was|that['’]s|das ist)[,:]?\s+)*(?:no(?=[,:])|no wait|change of plans?|ich habe? mich (?:vertan|geirrt|versprochen)|actually|correction|update|sorry|wait|oops|scrap that|scratch that|in fact|i was wrong|i was mistaken|hang on|hold on|eigentlich|tatsächlich|in wirklichkeit|genauer gesagt|korrektur|nein|doch|berichtigung|änderung|nachtrag|ich meinte|i meant|stimmt nicht|das stimmt (?:so )?nicht|nee|quatsch|falsch|wrong|irrtum|moment|change[d]?(?=:)|pardon|entschuldigung|my mistake|my bad|i made a mistake|i misspoke|make that|to be precise)\b",
    re.IGNORECASE,
)
_MARKED = late(r"\b(?:actually|in fact|eigentlich|tatsächlich|in wirklichkeit)\b", re.IGNORECASE)
CHANGED = late(
    r"\b(?:now|no longer|any ?more|these days|(?:has|have) (?:moved|changed|switched|become)|(?:moved|changed|switched) to|instead|, not|jetzt|nicht mehr|doch"
    r"|stattdessen|umgezogen|gewechselt|neuerdings|mittlerweile|inzwischen|not [\w ]{1,30} but|after all)\b",
    re.IGNORECASE,
)
SHIFTED = late(
    r"\b(?:verschoben|(?:vor)?verlegt|verlängert|erhöht|gestiegen|gesenkt|geändert|ab jetzt|sondern|nicht mehr|statt|postponed|rescheduled|extended|pushed back|put (?:back|off)|brought forward"
    r"|(?:has|have|was|were|been|is|got) (?:moved|changed|raised|cancelled)|(?:moved|changed) (?:to|from|again)|changed|moved(?=,)|(?:goes|gone|went|going) (?:up|down)|instead of|no longer|the old one|new slot)\b",
    re.IGNORECASE,
)
# What adds to the older line instead of replacing it.
_ADDS = late(
    r"\b(?:also|too|as well|another|besides|additionally|auch|außerdem|zusätzlich|ebenfalls|noch (?:ein\w*|zwei|drei))\b",
    re.IGNORECASE,
)
CANCELS = late(
    r"\b(?:cancell?ed|called off|is off|not happening|not taking place|fell through|abgesagt|storniert|entfällt|gestrichen|fällt (?:\w+ )*?(?:aus|flach)|findet (?:\w+ )*?nicht statt)\b",
    re.IGNORECASE,
)
_NOT = late(
    r"\b(?:not|never|without|ohne|no longer|none|isn['’]t|aren['’]t|wasn['’]t|won['’]t|can['’]t|cannot|doesn['’]t|don['’]t|didn['’]t|nicht|nie|keine?[nmrs]?|hasn['’]t|haven['’]t)\b",
    re.IGNORECASE,
)
_IT = late(
    r"\b(?:he|she|it|they|that|those|it['’]s|he['’]s|she['’]s|they['’]re|er|sie|es|das(?= (?:ist|war|sind|heißt))|his|her|their|its|seine?[nmrs]?|ihre?[nmrs]?)\b",
    re.IGNORECASE,
)
_ME = late(r"\b(?:i|my|mine|we|our|i['’]m|we['’]re|i['’]ve|ich|wir|mein\w*|unser\w*)\b", re.IGNORECASE)
_SUBJECT_ME = late(r"\b(?:i|we|i['’]m|we['’]re|i['’]ve|we['’]ve|ich|wir)\b", re.IGNORECASE)
# Verbs that say where or what something is: any of them may stand for another.
_BEING = late(
    r"\b(?:is|are|i am|was|were|be|it['’]s|he['’]s|she['’]s|they['’]re|i['’]m|lies?|stands?|hangs?|sits?|kept|lives?|stays?|moved|called|named|becomes?|turned out"
    r"|ist|sind|bin|war|waren|liegt|liegen|steht|stehen|hängt|hängen|steckt|sitzt|befindet|wohnt|wohne|lebt|lebe|zog|gezogen|umgezogen|heißt|heißen|heiße|lautet|bleibt|wird)\b",
    re.IGNORECASE,
)
# Verbs that say where somebody is at home, and what says that something is no longer where it was.
_AT_HOME = late(
    r"\b(?:live[sd]?|living|moved (?:house|in|to)|moving to|wohn\w*|lebe[nt]?|lebt|umgezogen|(?:bin|ist|sind) .{1,40} gezogen)\b",
    re.IGNORECASE,
)
_LIVING = late(r"(?:liv|mov|wohn\w*|leb\w?|umgezog|gezog)\Z")
_LEFT = late(
    r"\b(?:is|are|['’]s|['’]re|ist|sind|came|comes?|kam|kommt)\s+(?:now |jetzt |wieder |all )*(?:back|gone|away|zurück|weg|fort)(?=\W*\Z|[.,;!]| (?:from|home|again|now|in|at|with|von|vom|aus|bei|beim|im|zu)\b)",
    re.IGNORECASE,
)
_TITLE = r"(?:Dr\.?|Mr\.?|Mrs\.?|Ms\.?|Prof\.?|Herrn?|Frau)"
_TITLED = late(rf"\b{_TITLE}\s+(?:{_TITLE}\s+)?([A-ZÄÖÜ][\w-]+)")
_TITLES = frozenset(("dr", "mr", "mrs", "ms", "prof", "herr", "herrn", "frau", "i", "uhr", "euro"))
_CAPITAL = late(r"(?<=[^.!?:\s]\s)[A-ZÄÖÜ][^\W\d_]+")
_WHERE = late(
    r"(?:(?:the|my|our|der|die|das|dem|den|mein\w*|unser\w*|his|her)\s+)?([^\W\d_][\w-]*(?:\s+[^\W\d_][\w-]*)?)",
    re.IGNORECASE,
)
_OWNER = late(r"\b([A-ZÄÖÜ][\w-]+)['’](?:s\b)?|\bvon\s+([A-ZÄÖÜ][\w-]+)")
_OWNED = late(r"\b([A-ZÄÖÜ][^\W\d_]{2,})s\s+(?=[A-ZÄÖÜ])")  # Toms Nummer
_OURS = late(r"\b(?:my|our|mein\w*|unser\w*)\b", re.IGNORECASE)
_AT = late(r"(?!(?:with|by|from|of|von|vom|mit)\b)(?:next to|\w+)\s+", re.IGNORECASE)
_FIGURE = late(r"\d[\d.,:]*\d|\d")
_WORD = late(r"[^\W_][\w'’-]*")
# Words that mark a change, stemmed as in a reading.
_MARKS = frozenset(
    [
        "now",
        "actually",
        "jetzt",
        "inzwisch",
        "mittlerweil",
        "eigentlich",
        "tatsachlich",
        "neuerding",
        "longer",
        "anymore",
        "instead",
        "stattdess",
        "doch",
    ]
)
MOST = 3  # words of a value that is neither a time, a figure, a place nor a name


class Claim(Struct, frozen=True):
    """What a line says, as far as two lines are compared by it."""

    reading: Reading
    words: tuple[Word, ...]
    names: frozenset[str]
    persons: frozenset[str]  # who it is about, or whose: names and relatives, else oneself
    owners: frozenset[str]  # whose thing it is about
    verbs: frozenset[str]
    times: frozenset[str]
    figures: frozenset[str]
    places: frozenset[str]
    before: dict[str, str] = {}  # the word that stands before another


def bare(text: str) -> str:
    """Return a line without the words that only say that it corrects another."""
    rest = text
    while found := CORRECTS.match(rest):
        rest = rest[found.end() :].lstrip(" ,:;.!–—-")
    return rest or text


def sure(text: str) -> bool:
    """Say whether a line calls itself a correction."""
    return bool(CORRECTS.match(text) or _MARKED.search(text))


def corrects(text: str) -> bool:
    """Say whether a line may take the place of another by its own words."""
    return any(rule.search(text) for rule in (SHIFTED, CHANGED, CANCELS)) or sure(text)


@lru_cache(maxsize=1024)
def claim(text: str) -> Claim:
    said = bare(text)
    reading = read(said)
    words = tuple(word for word in reading.words if word.stem not in _MARKS and word.stem not in _TITLES)
    timeless = OF_A_TIME.sub(" ", said)
    times = {found[0].lower() for found in OF_A_TIME.finditer(said)}
    times |= {found[0].lower() for found in VALUES["@time"].finditer(timeless)}
    places = frozenset(filter(None, (_place(said, found.start()) for found in VALUES["@place"].finditer(said))))
    names = _names(said, reading)
    return Claim(
        reading=reading,
        words=words,
        names=names,
        persons=_persons(said, words, names - places),
        owners=_owners(said, reading.german),
        verbs=_verbs(said, words, reading.german),
        times=frozenset(times),
        figures=frozenset(_FIGURE.findall(VALUES["@time"].sub(" ", timeless))),
        places=places,
        before=_before(said),
    )


def _place(said: str, start: int) -> str:
    """Return the stem of what stands behind a word of place."""
    where = _AT.match(said, start)
    found = _WHERE.match(said, where.end()) if where else None
    if found is None:
        return ""
    first, *more = found[1].split()
    return stem(
        first if first[:1].isupper() and more and more[0].islower() else (more or [first])[0]
    )  # "nach Graz gezogen"


def _names(said: str, reading: Reading) -> frozenset[str]:
    titled = {stem(name) for name in _TITLED.findall(said)}
    capital = set() if reading.german else {stem(name) for name in _CAPITAL.findall(said)}
    known = {word.stem for word in reading.words if word.name}
    found = known | titled | capital | reading.names
    return frozenset(name for name in found if name not in _TITLES and not _valued(name))


def _persons(said: str, words: tuple[Word, ...], names: frozenset[str]) -> frozenset[str]:
    found = names | {f"#{idea}" for word in words for idea in word.kin}
    return found or frozenset({"me"} if _ME.search(said) else ())


def _owners(said: str, german: bool) -> frozenset[str]:
    found = [name for names in _OWNER.findall(said) for name in names if name]
    found += _OWNED.findall(said) if german else []
    named = [name for name in found if not any(word.ideas for word in read(name).words)]
    return frozenset(map(stem, named)) or frozenset({"me"} if _OURS.search(said) else ())


def _verbs(said: str, words: tuple[Word, ...], german: bool) -> frozenset[str]:
    """Return the stems of what is done; all verbs that say where or what something is are one."""
    small = {stem(word) for word in _WORD.findall(said) if word.islower()}
    deeds = listed("deeds")
    found = {
        word.stem
        for word in words
        if not word.kin
        and (word.stem in small if german else word.verb or word.stem in deeds or _BEING.match(word.stem))
    }
    found |= {"live"} if _AT_HOME.search(said) else set()
    return frozenset({"be"} | found if _BEING.search(said) else found)


def _before(said: str) -> dict[str, str]:
    """Return what stands directly before a word and tells it from others of its kind: the *work* phone."""
    found: dict[str, str] = {}
    tokens = _WORD.findall(said)
    for first, second in pairwise(tokens):
        plain = first.lower()
        if not (
            plain in listed("stop") or plain in listed("deeds") or plain in listed("asking") or _BEING.match(plain)
        ):
            found[stem(second)] = stem(first)
    return found


def _same(one: Word, other: Word) -> bool:
    return (
        one.stem == other.stem
        or bool(one.ideas & other.ideas)
        or bool(_LIVING.match(one.stem) and _LIVING.match(other.stem))
        or (not (one.asks & other.answers) and alike(one, other) >= 0.65)
    )


def takes_place(newer: str, older: str, *, last: bool = False) -> bool:
    """Say whether a line says the same kind of thing of the same subject as an older one, and says it differently.

    A pronoun, or a line without a subject, means the line that was told just before (`last`).
    """
    new, old = claim(newer), claim(older)
    common = [word for word in new.words if any(_same(word, told) for told in old.words)]
    mine = [word for word in new.words if word not in common]
    theirs = [word for word in old.words if not any(_same(word, said) for said in new.words)]
    matter = _matter(new, old, common)
    deed = bool(new.verbs & old.verbs - {"be"})
    last = last and sure(newer)
    loose = last and not matter and len(mine) <= MOST and bool(_IT.search(new.reading.text) or not new.verbs)
    itself = deed and all(_SUBJECT_ME.search(one.reading.text) for one in (new, old))
    if apart(newer, older) or not (matter or loose or itself) or not (loose or _enough(new, old, common)):
        return False
    if _all_names(mine, new) and (_all_names(theirs, old) or (loose and old.names)):
        return _like_verbs(new, old)
    if _clash(new, old, loose) or _told_apart(new, old, matter):
        return False
    meant = (
        loose or itself or (last and _IT.search(new.reading.text) is not None) or _subject(new) in map(_stem, common)
    )
    if CANCELS.search(new.reading.text):
        return meant and not CANCELS.search(old.reading.text)
    told = {word.stem for word in old.words}
    if all(told & set(word.inside) for word in mine) and bool(_NOT.search(newer)) != bool(_NOT.search(older)):
        return True  # one says what the other denies
    # Of a person many things hold at a time: two lines about one need a deed in common, too, or nothing but the value may differ.
    thing = loose or deed or any(word.stem in matter and not (word.name or word.kin) for word in common)
    return meant and _differ(new, old, mine, theirs, thing=thing, last=last)


def left(text: str) -> bool:
    """Say whether a line says that something is no longer where it was: "the car is back from the garage"."""
    return _LEFT.search(text) is not None


def apart(newer: str, older: str) -> bool:
    """Say whether a line only adds to what was told ("I also like tea"), or is about what somebody else has."""
    new, old = claim(newer), claim(older)
    theirs = bool(new.owners and old.owners and not new.owners & old.owners)
    return adds(newer) or (theirs and not (new.persons & old.persons) - {"me"})


def like_values(newer: str, older: str) -> bool:
    """Say whether an older line has a value of a kind that the newer one gives: a time, a figure, a place, a name. What is cancelled, or
    gives none of these, may speak of any line."""
    new, old = claim(newer), claim(older)
    # Where something is, or who has it, is one kind.
    kinds = [
        (new.times, old.times),
        (new.figures, old.figures),
        (new.places | new.names - old.names, old.places | old.names - new.names),
    ]
    given = [told for said, told in kinds if said]
    return not given or any(given) or CANCELS.search(newer) is not None


def _stem(word: Word) -> str:
    return word.stem


def _subject(one: Claim) -> str:
    """Return the first word that is neither something done nor a value: what a line speaks of."""
    return next((word.stem for word in one.words if word.stem not in one.verbs and not _valued(word.stem)), "")


def _enough(new: Claim, old: Claim, common: list[Word]) -> bool:
    """Say whether at least half of the shorter line, but for times and figures, stands in the other."""
    said, told, both = (
        len([word for word in words if not _valued(word.stem)]) for words in (new.words, old.words, common)
    )
    return 2 * both >= min(said, told)


def _valued(word: str) -> bool:
    return word[:1].isdigit() or VALUES["@time"].fullmatch(word) is not None


def adds(text: str) -> bool:
    return _ADDS.search(re.split(r"[,;:]", bare(text), maxsplit=1)[0]) is not None


def _matter(new: Claim, old: Claim, common: list[Word]) -> list[str]:
    """Return the words in common that say what it is about: not what is done, nor when, nor how many."""
    values = new.verbs | old.verbs | {"be"}
    return [word.stem for word in common if word.stem not in values and not _valued(word.stem)]


def _all_names(words: list[Word], one: Claim) -> bool:
    return 0 < len(words) <= MOST and all(word.stem in one.names for word in words) and not (one.names & one.places)


def _clash(new: Claim, old: Claim, loose: bool) -> bool:
    """Say whether the two lines are about different people."""
    whose = new.persons - {"me"} if loose else new.persons
    return bool(whose and old.persons and not whose & old.persons)


def _told_apart(new: Claim, old: Claim, matter: list[str]) -> bool:
    """Say whether one line is about another thing of the kind: the new car, the home phone."""
    mine, theirs = (one.before.get(matter[0], "") if matter else "" for one in (new, old))
    return bool(mine) and mine != theirs and bool(theirs or not any(mine == told.stem for told in old.words))


def _like_verbs(new: Claim, old: Claim) -> bool:
    return not (new.verbs and old.verbs) or bool(new.verbs & old.verbs)


def _differ(new: Claim, old: Claim, mine: list[Word], theirs: list[Word], *, thing: bool, last: bool) -> bool:
    """Say whether the two lines give one kind of value, and not the same."""
    like = _like_verbs(new, old)
    moved = "be" in new.verbs | old.verbs or SHIFTED.search(new.reading.text) is not None
    for one, other in ((new.times, old.times), (new.figures, old.figures)):
        only = len(mine) <= len(one) and len(theirs) <= len(other)
        if one - other and other - one and (like or moved) and (thing or only):
            return True
    if not like:
        return False
    if new.places - old.places and old.places - new.places:
        return True
    if thing and old.places and left(new.reading.text) and not left(old.reading.text):
        return True
    if thing and any(one.answers & other.answers for one in mine for other in theirs):
        return True
    plain = not any(one.times | one.figures | one.places | one.names for one in (new, old))
    deed = bool((new.verbs & old.verbs) - {"be"})
    return plain and 0 < len(mine) <= MOST and 0 < len(theirs) <= MOST and (deed or last)
