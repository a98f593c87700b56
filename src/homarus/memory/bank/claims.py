"""What a sentence claims: whose attribute has which value. So that a later sentence about the same matter can replace it. Pure.

English, German and Spanish forms, without a model. A sentence that fits none claims nothing: it is then never replaced and never
replaces anything, which only leaves things as they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from msgspec import Struct

from homarus.memory.bank.categories import asked_for, categories_of
from homarus.memory.terms import STOP, plain, stem, words

_NAME = r"(?<!\w)(?P<s>@?[^\W\d_a-z][\w.-]*(?:\s[^\W\d_a-z][\w-]+){0,2}|I|Ich|Yo|[Hh]e|[Ss]he|[Tt]hey|[Ww]e|[Ee]r|[Ss]ie|[Éé]l|[Ee]lla)(?!\w)"
_WHOSE = (
    r"(?:(?P<s>@?[^\W\d_a-z][\w-]*(?:\s[^\W\d_a-z][\w-]+)?)(?:['’]s|['’]|s(?=\s[A-ZÄÖÜ]))"
    r"|(?P<own>[Mm]y|[Oo]ur|[Hh]is|[Hh]er|[Tt]heir|[Tt]he|[Mm]eine?|[Uu]nsere?|[Ss]eine?|[Ii]hre?|[Dd]er|[Dd]ie|[Dd]as|[Mm]i|[Ss]u|[Ee]l|[Ll]a))"
)
_NOW = (
    r"(?:\s(?:now|currently|actually|today|these days|no longer|never|does not|doesn['’]t|do not|don['’]t|did not|didn['’]t|would|only|"
    r"always|really|usually|much|still|also|has|have|jetzt|inzwischen|mittlerweile|immer|sehr|hat|ahora|actualmente|siempre|ya no|no|ha))*"
)
_BECAME = (
    r"(?:(?:has |have |was |were |is |got |will be )?(?:been )?(?:changed|moved|switched|raised|lowered|increased|dropped|rescheduled|postponed|"
    r"updated|set)(?: from (?P<old>[^.;]{1,40}?))? to|is now|are now|is|are|will be|has become|became|ist jetzt|ist|sind|lautet|wurde|beträgt|"
    r"es ahora|es|son|ahora es|ha cambiado a|cambió a|pasó a)"
)
_ATTR = r"(?P<attr>[\w'’-]+(?:\s[\w'’-]+){0,4}?)"
_VALUE = r"(?P<v>[^;!?]{1,120})"

# predicate, pattern. `prefer` and `use` need something beside them (a domain) to be comparable, the others hold one value at a time.
_FORMS: tuple[tuple[str, str], ...] = (
    (
        "live",
        rf"{_NAME}(?:\sist|\ssind)?{_NOW}(?:\s(?:von|aus)\s[\w-]+)?\s(?:nach|in)\s{_VALUE}\s(?:umgezogen|gezogen)",
    ),
    (
        "live",
        rf"{_NAME}(?:['’]s|\shas|\shave|\sis|\sist)?{_NOW}(?:\sse|\sme)?(?:\sha|\she)?\s(?:lives?|living|resides?|(?:has\s)?(?:just\s|recently\s)?(?:moved|relocated)|wohnt|lebt|zog|zieht|umgezogen|vive|vivo|mudó|mudé|mudado)(?:\s(?:now|back|jetzt|ahora))?\s(?:in|to|at|near|nach|bei|en|a)\s{_VALUE}",
    ),
    (
        "work",
        rf"{_NAME}(?:['’]s|\shas|\shave|\sis)?{_NOW}\s(?:works?|working|started|starts|employed|arbeitet|arbeite|trabaja|trabajo|joined)(?:\s(?:now|jetzt|ahora))?(?:\s(?:at|for|with|by|bei|für|en|para)|(?<=joined))\s{_VALUE}",
    ),
    (
        "prefer",
        rf"{_NAME}{_NOW}\s(?:(?:switched|changed|gone over)(?:\sfrom\s(?P<old>[^.;]{{1,40}}?))?\sto|(?:hat\s)?von\s(?P<old2>[^.;]{{1,40}}?)\s(?:auf|zu)|cambió(?:\sde\s(?P<old3>[^.;]{{1,40}}?))?\sa)\s{_VALUE}",
    ),
    (
        "prefer",
        rf"{_NAME}{_NOW}\s(?:prefers?|prefer|likes?|loves?|enjoys?|goes for|opts for|chooses|drinks|eats|takes|wants|hates?|bevorzugt?|mag|liebt?|trinkt?|isst|esse|nimmt|nehme|hasst?|will|prefer|like|drink|eat|prefier[eo]|quier[eo]|beb[eo]|come|tom[ao]|elige|odi[ao]|ama)(?:\s(?:now|jetzt|ahora|am liebsten|lieber|más|nicht|keinen?|mehr))*\s{_VALUE}",
    ),
    ("prefer", rf"(?:[Aa]\s)?{_NAME}{_NOW}\s(?:le|me)\s(?:gustan?|encantan?)(?:\s(?:ahora|más|el|la))*\s{_VALUE}"),
    (
        "use",
        rf"{_NAME}{_NOW}\s(?:uses?|using|drives?|plays?|rides?|runs on|relies on|benutzt|nutzt|verwendet|fährt|spielt|usa|conduce|toca)(?:\s(?:now|jetzt|ahora))?\s{_VALUE}",
    ),
    (
        "is",
        rf"(?:[Dd]er|[Dd]ie|[Dd]as|[Ee]l|[Ll]a|[Tt]he)\s{_ATTR}\s(?:von|de|del|of|for|para)\s{_NAME}\s{_BECAME}{_NOW}\s{_VALUE}",
    ),
    ("is", rf"{_WHOSE}\s{_ATTR}\s{_BECAME}{_NOW}\s{_VALUE}"),
    (
        "is",
        rf"\b(?:[Cc]hanged|[Mm]oved|[Ss]witched|[Rr]escheduled|[Uu]pdated|[Rr]aised|[Ll]owered|[Ss]et)\s(?:(?P<s>@?[^\W\d_a-z][\w-]*)['’]s\s|the\s|my\s|our\s)?{_ATTR}(?:\sfrom\s(?P<old>[^.;]{{1,40}}?))?\sto\s{_VALUE}",
    ),
)
# A sentence whose subject is not said: what others know of somebody, and what Spanish speakers say of themselves.
_ADVERB = r"(?:now|no longer|currently|jetzt|inzwischen|mittlerweile|ahora|actualmente|ya no|no)"
_VERBLESS = rf"^(?:{_ADVERB}\s)?(?:se (?:ha )?mud(?:ó|ado)|les? (?:gustan?|encantan?)|prefers?|likes?|loves?|lives?|works?|uses?|drives?|drinks|enjoys?|wants?|moved|switched|bevorzugt|mag|wohnt|arbeitet|trinkt|prefiere|quiere|elige|toma|vive|trabaja|bebe|usa|toca|conduce|odia|favou?rite)\b|^(?:now|no longer)\b"
_OF_ONESELF = rf"^(?:{_ADVERB}\s)?(?:me (?:he )?mud(?:é|ado)|me (?:gustan?|encantan?)|(?:prefier|quier|tom|viv|trabaj|beb|us|odi)o)\b"
_LABEL = r"^(?P<attr>[^\W\d_][\w /'’-]{1,40}?):\s+(?P<v>[^;!?]{1,80})$"
_FAVOURITE = (
    r"\b(?:favou?rite|preferred|lieblings|bevorzugte[rs]?|favorit[oa]|preferid[oa]|of choice|choice of)(?:\s|-)?"
)
_BACKED = r"\s(?:over|rather than|instead of|more than|than|statt|als|gegenüber|antes que|en vez de)\s"
_PREFERRED = r"\b(?:prefer|prefier)"  # with this word also "tea to coffee": without it, "to" says what for
_BACKED_TO = rf"{_BACKED}|\s(?:to(?!\sbe\b)|al?)\s"
_CONTEXT = (
    r"\s(?:for|on|in|at|when|while|during|with|as|to|für|beim?|im|am|an|auf|wenn|als|para|en|cuando|por|con|como)\s"
)
_AGAINST = r"(?:n['’]t|\b(?:no longer|not|never|stopped|quit|gave up|hates?|dislikes?|against|nicht|nie|kein\w*|mehr|hasst|no|nunca|dejó de|odia))\b"
_STRONG = r"\b(?:actually|no longer|not any ?more|changed|switched|instead|from now on|as of now|now|update|correction|eigentlich|nicht mehr|inzwischen|mittlerweile|jetzt|en realidad|ya no|ahora|cambi\w+)\b"
_FILLER = STOP | frozenset(
    [
        "now",
        "currently",
        "actually",
        "today",
        "new",
        "current",
        "latest",
        "old",
        "really",
        "just",
        "only",
        "also",
        "best",
        "most",
        "quite",
        "usually",
        "always",
        "again",
        "anymore",
        "last",
        "next",
        "week",
        "month",
        "year",
        "yesterday",
        "ago",
        "recently",
        "finally",
        "since",
        "longer",
        "jetzt",
        "inzwischen",
        "mittlerweile",
        "nicht",
        "kein",
        "keinen",
        "mehr",
        "neue",
        "neuer",
        "neues",
        "aktuelle",
        "der",
        "die",
        "das",
        "den",
        "dem",
        "ein",
        "eine",
        "einen",
        "einem",
        "und",
        "im",
        "am",
        "zu",
        "sehr",
        "gern",
        "gerne",
        "am",
        "liebsten",
        "lieber",
        "ahora",
        "actual",
        "nuevo",
        "nueva",
        "el",
        "la",
        "los",
        "las",
        "un",
        "una",
        "de",
        "del",
        "y",
        "en",
        "más",
        "que",
        "mucho",
        "le",
        "su",
    ]
)
_PRONOUNS = frozenset(
    [
        "he",
        "she",
        "they",
        "it",
        "er",
        "sie",
        "es",
        "él",
        "ella",
        "ellos",
        "his",
        "her",
        "their",
        "its",
        "seine",
        "sein",
        "ihre",
        "ihr",
        "su",
    ]
)
_NO_NAMES = STOP | frozenset(["ahora", "actualmente", "ya", "se", "hoy", "jetzt", "inzwischen", "mittlerweile"])
_SELF = frozenset(["i", "my", "we", "our", "ich", "meine", "mein", "unsere", "unser", "yo", "mi", "nosotros", "me"])


LONGEST, MOST = 20, 7  # words of a sentence that claims something, and of a value


UNREAD = (
    "unread"  # predicate of a sentence that may tell of a change: it replaces nothing, but what was held is in doubt
)


class Claim(Struct, frozen=True):
    """`about` holds what the value is a value of; `against` says that the value is denied; `strong` that a change is announced."""

    subject: str  # folded; empty for whoever writes
    predicate: str
    about: frozenset[str]
    value: frozenset[str]
    rivals: frozenset[str] = frozenset()
    against: bool = False
    strong: bool = False

    @property
    def keys(self) -> frozenset[str]:
        """Return what two claims about one matter have in common, at least one of it."""
        return self.about | self.value | self.rivals | frozenset({self.predicate} & {"live", "work"})


def claims(text: str, subjects: Iterable[str] = (), speaker: str = "", *, loose: bool = False) -> tuple[Claim, ...]:
    """Return what a line claims. `subjects` are those it is linked to: whom "she" or a sentence without a subject means.

    With `loose` a line that fits no form claims its numbers and names of its other words: enough to put one line before another.
    """
    linked, who = tuple(plain(name) for name in subjects), plain(speaker)
    found = _claims(text, linked, who)
    return found if found or not loose else _loose(text, who or "".join(linked[:1]))


@lru_cache(maxsize=20_000)
def _loose(text: str, subject: str) -> tuple[Claim, ...]:
    values = set(_compiled(r"\d[\d.,:]*|(?<=[a-z,] )[A-ZÄÖÜ]\w+").findall(text[:300]))
    said = frozenset(plain(value) for value in values)
    about = frozenset(stem(word) for word in _told(text[:300]) if word not in said)
    return (Claim(subject, "says", about, said),) if said and 3 <= len(about) <= 16 else ()


@lru_cache(maxsize=20_000)
def _claims(text: str, subjects: tuple[str, ...], speaker: str) -> tuple[Claim, ...]:
    found: list[Claim] = []
    for sentence in _split(text[:1_000])[:8]:
        if sentence.endswith("?") or len(sentence.split()) > LONGEST:
            continue
        before = subjects[0] if subjects else found[-1].subject if found else ""
        for piece in (sentence, _with_subject(sentence, before, speaker)):
            claim = _claim(piece, subjects, speaker) if piece else None
            if claim is not None and claim not in found:
                found.append(claim)
    return tuple(found)


def _with_subject(sentence: str, before: str, speaker: str) -> str:
    """Return a sentence that leaves its subject out with the one it means: whom the line speaks of, or whoever speaks."""
    lowered = f"{sentence[:1].lower()}{sentence[1:]}"
    if speaker and _compiled(_OF_ONESELF).match(lowered.lower()):
        return f"Yo {lowered}"
    return f"{before.title()} {lowered}" if before and _compiled(_VERBLESS).match(lowered.lower()) else ""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _split(text: str) -> list[str]:
    return [
        part.strip(" -–")
        for part in _compiled(r"(?<=\w\w\w[.!?])\s+|;\s+|\s[-–]\s|,\s(?=(?:ahora|now|jetzt)\s)").split(text)
        if part.strip()
    ]


def _claim(sentence: str, subjects: tuple[str, ...], speaker: str) -> Claim | None:
    lowered = sentence.lower()
    for predicate, pattern in _FORMS:
        match = _compiled(pattern).search(sentence)
        if match:
            groups = match.groupdict()
            said = (groups.get("s") or groups.get("own") or "").strip()
            if groups.get("s") and plain(said) in _NO_NAMES - _SELF - _PRONOUNS:
                continue
            if _compiled(r"[a-zäöüßáéíóúñ'’-]+\s[^\W\d_a-z]\w+").fullmatch(groups.get("attr") or ""):
                continue  # "Anna's sister Lena is …" is about Lena
            old = groups.get("old") or groups.get("old2") or groups.get("old3") or ""
            return _made(
                predicate, _subject(said, subjects, speaker), (groups.get("attr") or "", groups["v"], old), lowered
            )
    label = _compiled(_LABEL).match(sentence)
    # One word before a colon may be whoever speaks; a number behind it is a value.
    if label and len(label["v"].split()) <= 6 and (" " in label["attr"] or _compiled(r"\d").search(label["v"])):
        return _made("is", subjects[0] if subjects else "", (label["attr"], label["v"], ""), lowered)
    return None


def _subject(said: str, subjects: tuple[str, ...], speaker: str) -> str:
    folded = plain(said.removeprefix("@"))
    if folded in _SELF:
        return speaker or (subjects[0] if subjects else "")
    if not folded or folded in _PRONOUNS or folded in {"the", "der", "die", "das", "el", "la"}:
        return subjects[0] if subjects else ""
    return next((name for name in subjects if name.startswith(folded) or folded.startswith(name)), folded)


def _made(predicate: str, subject: str, parts: tuple[str, str, str], lowered: str) -> Claim | None:
    attr, value, old = parts
    if _compiled(_FAVOURITE).search(attr.lower()) or _compiled(_FAVOURITE).search(lowered[:60]):
        predicate, attr = "prefer", _compiled(_FAVOURITE).sub(" ", attr.lower())
    if predicate in {"prefer", "use"}:
        value = value.partition(", ")[0]  # behind the comma stands why, or who said so
    backed = _BACKED_TO if _compiled(_PREFERRED).search(lowered) else _BACKED
    value, *rest = _compiled(backed).split(value, maxsplit=1)
    value, *where = _compiled(_CONTEXT).split(value, maxsplit=1) if predicate in {"prefer", "use"} else (value,)
    values, others = _told(value), _told(" ".join([*rest, old]))
    about = {asked_for(word) or stem(word) for word in _told(" ".join([attr, *where]))}
    if predicate in {"prefer", "use"} and not about:
        about.update(*(categories_of(word) for word in (*values, *others)))
    said = frozenset(map(stem, values))
    rivals = frozenset(map(stem, others)) - said
    if not said or len(said) > MOST or (predicate == "is" and not about):
        return None
    strong = bool(_compiled(_STRONG).search(lowered))
    against = bool(_compiled(_AGAINST).search(lowered)) and not rivals
    return Claim(subject, predicate, frozenset(about), said, rivals, against, strong)


def is_favourite(text: str) -> bool:
    """Say whether a line names a kind of thing together with somebody's favourite of it."""
    return bool(_compiled(_FAVOURITE).search(text.lower()))


def _told(text: str) -> list[str]:
    return [word for word in words(text) if word not in _FILLER]


def same_matter(one: Claim, other: Claim) -> bool:
    """Say whether two claims are about one thing that has one value at a time."""
    kinds = {one.predicate, other.predicate}
    if one.subject != other.subject or UNREAD in kinds:
        return False
    if one.rivals & (other.value | other.rivals) or other.rivals & (one.value | one.rivals):
        return len(kinds) == 1 or kinds <= {"prefer", "use"}
    if len(kinds) > 1:
        return kinds <= {"prefer", "use", "is"} and bool(one.about) and one.about == other.about
    if one.predicate in {"live", "work"}:
        return True
    if one.predicate == "says":
        shared = len(one.about & other.about)
        return shared >= 3 and shared * 2 >= len(one.about | other.about)
    if (one.against or other.against) and one.value & other.value:
        return True
    if (
        one.predicate == "prefer" and not one.about and not other.about
    ):  # dark mode, light mode: one word is shared, one differs
        return len(one.value) == len(other.value) == 2 and len(one.value & other.value) == 1
    return bool(one.about & other.about) and len(one.about & other.about) * 2 >= max(len(one.about), len(other.about))


def differs(one: Claim, other: Claim) -> bool:
    """Say whether two claims about one matter cannot both hold now."""
    if one.against != other.against:
        return bool(one.value & other.value)
    smaller, larger = sorted((one.value, other.value), key=len)
    return not smaller <= larger


def gives_up(newer: Iterable[Claim], older: Iterable[Claim]) -> bool:
    """Say whether a line names what an older one claims as the thing that is given up."""
    held = tuple(older)
    return any(one.rivals & other.value and one.subject == other.subject for one in newer for other in held)


def replaced(dated: Iterable[tuple[int, tuple[Claim, ...]]]) -> dict[int, int]:
    """Return for items given as (day, claims), by their position, which later one replaced each; the newest that says so."""
    days, groups = _by_matter(dated)
    out: dict[int, int] = {}
    compared: set[tuple[int, int, int, int]] = set()  # two claims share many keys, and are compared once
    for group in groups:
        for place, (at, claim) in enumerate(group):
            for later, other in group[:place]:
                if days[later] == days[at] or (at in out and (days[later], later) <= (days[out[at]], out[at])):
                    break
                pair = (at, later, id(claim), id(other))
                if pair not in compared:
                    compared.add(pair)
                    if same_matter(claim, other) and differs(claim, other):
                        out[at] = later
                        break
    return out


def _by_matter(dated: Iterable[tuple[int, tuple[Claim, ...]]]) -> tuple[list[int], list[list[tuple[int, Claim]]]]:
    """Return the day of each item, and groups of claims that may be about one matter, each with the newest first."""
    days: list[int] = []
    groups: dict[tuple[str, str], list[tuple[int, Claim]]] = {}
    for at, (day, found) in enumerate(dated):
        days.append(day)
        for claim in found:
            for key in claim.keys:
                groups.setdefault((claim.subject, key), []).append((at, claim))
    for group in groups.values():
        group.sort(key=lambda item: (days[item[0]], item[0]), reverse=True)
    return days, list(groups.values())


def repeated(dated: Iterable[tuple[int, tuple[Claim, ...]]]) -> dict[int, int]:
    """Return for items given as (day, claims), by their position, which later one says the same: the newest."""
    out: dict[int, int] = {}
    for group in _by_matter(dated)[1]:
        for place, (at, claim) in enumerate(group):
            later = next((o for o, other in group[:place] if _says_the_same(claim, other) and o != at), None)
            if later is not None and (at not in out or later > out[at]):
                out[at] = later
    return out


def _says_the_same(one: Claim, other: Claim) -> bool:
    return one.against == other.against and same_matter(one, other) and not differs(one, other)
