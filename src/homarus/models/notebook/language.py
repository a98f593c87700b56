"""Words as ideas: stems, what means the same, values by their form, and what kind of answer a question wants. Pure.

English and German. Nothing here knows a note: `evidence` compares what this says of a question with what it says of a line.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources

from msgspec import Struct

from homarus.core.patterns import late

_STOP = frozenset(
    """a about again ah also am an and any anybody anyone are as at be been both but by can could did do does doing don't either else ever
    for had has have he her hers him his i i'd i'll i'm i've if in into is it it's its just know let may me might mine must my no
    not of off oh ok okay on or our ours out please put really shall she should so some somebody someone still such than that that's the their
    them then there these they this those to too tell under up upon us very was we were what what's whats which while will with without
    would yes yet you your yours doesn't didn't isn't can't cannot won't remind remember thing supposed kind sort whether only until till since before after during per via
    aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den denn der des dich die dir doch du
    durch ein eine einem einen einer eines er es etwas für gegen hab habe haben hast hat hatte hatten ich ihm ihn ihr ihre ihren im in
    ins ist ja jede kann können man mein meine meinem meinen meiner mich mir mit nach nein nicht nichts noch nun nur ob oder sehr sein seine sich
    sie sind so über um und uns unser unsere unserem unseren unserer vom von vor war waren was weil wenn werde werden wie wird wir zu zum
    zur bitte mal eigentlich welche welcher welches welchem welchen gab wurde worden fürs nochmal denn eben etwa seit kein keine""".split()
)
_ASKING = frozenset(
    "who who's whom whose what what's which when when's where where's why how how's wer wem wen wessen was wann wo wohin woher warum wieso "
    "wie wofür wogegen womit woran worüber".split()
)
_GERMAN = frozenset(
    """der die das den dem ein eine einen ist sind war hat habe haben wird und oder nicht mein meine meiner meinem meinen unser unsere ich wir er sie es
    mit von vom zu zum zur bei beim auf für wie wo wann wer was welche welcher welches welchem warum im am um bis nach kein keine jetzt
    noch mag muss wohin woher heißt geht hat bitte vergiss merk notiere zeig liste lösche danke hallo""".split()
)
_ENGLISH = frozenset(
    """the a an is are was were has have had my our your i we he she it and or not with from to of at by for how where when who what which why
    does do did on will can now please forget show list thanks hello""".split()
)
_TOKEN = late(r"@?[^\W_]+(?:[.:/@+_-][^\W_]+)*(?:['’][^\W_]+)?", re.UNICODE)
_FOLD = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "ß": "ss", "é": "e", "è": "e", "á": "a", "í": "i", "ó": "o", "ú": "u", "ñ": "n",
                       "ł": "l", "ń": "n", "ş": "s", "ç": "c", "ı": "i", "å": "a", "ø": "o", "’": "'"})  # fmt: skip
_MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni?|july?|juli?|aug(?:ust)?|sept?(?:ember)?"
    r"|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\b"
)
_DAY = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:days?)?\b|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|sonnabends?"
    r"|today|tomorrow|heute|tonight|weekends?|wochenende)"
)
VALUES: dict[str, re.Pattern[str]] = {
    "@time": late(
        rf"\b{_MONTH}|\b{_DAY}\b|\b\d{{1,2}}[:.]\d{{2}}\b|\b\d{{1,2}}\s*(?:am|pm|a|p|uhr|o'clock)\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}\.\d{{1,2}}\.|\b\d{{1,2}}/\d{{1,4}}\b"
        r"|\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2}\.(?=\s)|\b(?:half past|quarter|noon|midnight|christmas|easter|weihnachten|ostern|silvester|spring|summer"
        r"|autumn|winter|frühling|sommer|herbst|(?:next|last|this|end of|nächste[nrs]?|letzte[nrs]?|ende) (?:week|month|year|q\d|woche|monat|jahr|mai|märz|\w+))\b",
        re.IGNORECASE,
    ),
    "@money": late(r"[$£€¥]\s?\d|\d\s?(?:[$£€¥]|(?:eur|euros?|usd|cad|chf|gbp|dollars?|pounds?|bucks?|quid|franken|cents?)\b)", re.IGNORECASE),
    "@phone": late(r"(?<![\d.,/-])\+?\(?\d{2,5}\)?[ /-]\d{3,}(?:[ -]\d{2,})*(?![\d.,])"),
    "@email": late(r"[\w.+-]+@[\w-]+\.\w+"),
    "@link": late(r"https?://|\bwww\.|\b[\w-]+\.(?:com|org|net|de|io|internal)\b"),
    "@code": late(r"\b(?=\S*\d)(?=\S*[A-Za-z!-])\S{4,}|\b\d{4,}\b|\b\d+(?:[ -]\d+){2,}\b|[\"“„]\w+[\"”“]"),
    "@number": late(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|dozen|twice|twins|triplets|half|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|halbe?)\b", re.IGNORECASE),
    "@often": late(
        r"\b(?:every|each|daily|weekly|monthly|yearly|nightly|once|twice|times? (?:a|per)|alternate|regularly|per (?:day|week|month|year)|\d+x"
        r"|a (?:day|week|month|year)|jede[nrs]?|alle|täglich|wöchentlich|monatlich|jährlich|\d*\s?mal|morgens|abends|twice|mornings?|(?:\w+tag|mittwoch)s|\w+days)\b",
        re.IGNORECASE,
    ),
    "@long": late(
        r"\b(?:\d+|an?|one|two|three|four|five|six|eine[nm]?|zwei|drei|vier|fünf|sechs)[\s-](?:seconds?|sec|minutes?|min|hours?|hrs?|h|days?|weeks?"
        r"|months?|years?|sekunden?|minuten?|stunden?|tagen?|tage|wochen?|monate?n?|jahre?n?)\b|\b(?:until|till|since|bis|seit|from|through)\b",
        re.IGNORECASE,
    ),
    "@years": late(r"\b\d{1,3}\s*(?:years?|jahre?|yrs?)\b|\b(?:turns?|wird|is|ist)\s+\d{1,3}\b|\baged? \d", re.IGNORECASE),
    "@name": late(r"(?<![.!?:]\s)(?<!^)\b[A-ZÄÖÜ][\w’'-]+|\b(?:dr|mr|mrs|ms|prof|herr|frau)\b", re.UNICODE),
    "@place": late(
        r"\b(?:in|at|on|behind|under|next to|near|inside|above|below|beside|im|am|bei|beim|auf|unter|hinter|neben|nach|an|to|from|aus|with)\s+(?!\d)\w|\bstr\b|\broad\b|[\w]+(?:straße|allee|platz)\b",
        re.IGNORECASE,
    ),
}  # fmt: skip
# How a question begins or what it holds -> the values that an answer must have one of.
_WANTED: tuple[tuple[re.Pattern[str], tuple[str, ...], bool], ...] = (
    (late(r"\b(?:how often|wie oft|how frequently)\b", re.I), ("@often",), True),
    (late(r"\b(?:how long|wie lange|for how many (?:days|weeks|months|years))\b", re.I), ("@long", "@time"), True),
    (late(r"\b(?:how old|wie alt|what age)\b", re.I), ("@years",), True),
    (late(r"\b(?:how much|wie ?viel|wie hoch|how expensive|wie teuer|what (?:does|do|did|is|are|was)\b.*\b(?:cost|charge|pay|price)|was kostet|was zahl)", re.I), ("@money", "@number"), True),
    (late(r"\b(?:how many|wie viele|wieviele)\b", re.I), ("@number",), True),
    (late(r"\b(?:when|wann|what (?:day|date|time|year|month|hours)|(?:on|at|in|by|until|since) (?:which|what) (?:day|date|time|year|month|week)|which (?:day|days|date|month|year|week)|what days|um wie viel uhr|an welche[mn] tage?n?|in welchem (?:jahr|monat)|welche[rsnm]? (?:tag|datum)|wie spät|until when|since when|by when)\b", re.I), ("@time",), True),
    (late(r"\b(?:phone number|telephone|telefonnummer|handynummer|phone)\b", re.I), ("@phone",), True),
    (late(r"\b(?:email|e-mail|mail ?adresse)\b", re.I), ("@email",), True),
    (late(r"\b(?:number|nummer|kennzeichen|serial|pin|code|iban|id|passwor[dt]|zählerstand|size|größe|schuhgröße)\b", re.I), ("@number", "@code"), True),
    (late(r"\b(?:who|whom|whose|who's|wer|wem|wen|wessen|name|called|heißt)\b", re.I), ("@name",), False),
    (late(r"\b(?:where|where's|wo|wohin|woher|(?:which|what) (?:city|town|country|place|street|room|floor)|welche[rsnm]? (?:stadt|ort|land|straße|zimmer|raum|stock|etage))\b", re.I), ("@place", "@name"), False),
)  # fmt: skip


class Word(Struct, frozen=True):
    """One word or set phrase of a text: how it is compared, and the ideas it stands for."""

    stem: str
    ideas: frozenset[int] = frozenset()
    asks: frozenset[int] = frozenset()  # kinds of things that it asks for, in a question
    answers: frozenset[int] = frozenset()  # kinds of things that it is one of, in a note
    name: bool = False  # written like a name
    light: bool = False  # too general to matter alone
    verb: bool = False  # something one does: put in many ways
    about: frozenset[int] = frozenset()  # ideas of the first part of a compound: what it is about, not what it is
    kin: frozenset[int] = frozenset()  # those of its ideas that stand for somebody: mother, boss, dog


class Reading(Struct, frozen=True):
    """What a text holds, as far as small rules can tell."""

    words: tuple[Word, ...]  # what it says, a set phrase as one
    parts: tuple[Word, ...]  # the same, and the words of its phrases
    values: frozenset[str]
    german: bool
    wanted: tuple[str, ...] = ()  # the values that an answer needs one of
    strict: bool = False


def fold(text: str) -> str:
    return text.lower().translate(_FOLD)


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return a word without the commonest endings of both languages; both sides of a comparison pass through here."""
    word = fold(word).removesuffix("'s").removesuffix("'")
    if len(word) < 4 or not word.isalpha():
        return word
    for ending, put, least in (
        ("ies", "y", 3), ("ings", "", 3), ("ing", "", 3), ("ungen", "ung", 3), ("innen", "in", 4), ("ern", "", 4), ("est", "", 4), ("ed", "", 3), ("es", "", 3),
        ("en", "", 3), ("er", "", 4), ("em", "", 4), ("et", "", 4), ("s", "", 3), ("e", "", 3), ("n", "", 4),
    ):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= least and not (ending == "s" and word.endswith("ss")):
            word = word[: -len(ending)] + put
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiousl" else word


class Thesaurus(Struct):
    ideas: dict[str, set[int]]
    asks: dict[str, set[int]]
    answers: dict[str, set[int]]
    values: dict[int, set[str]]  # idea -> the values that are a member of it
    spelled: dict[int, list[str]]  # idea -> its words as they are written
    light: set[int]
    verbs: set[int]
    kin: set[int]
    phrases: dict[str, tuple[tuple[str, ...], ...]]  # first stem -> the stems of the phrases that begin with it


@cache
def thesaurus() -> Thesaurus:
    """Read the table of words, once."""
    made = Thesaurus({}, {}, {}, {}, {}, set(), set(), set(), {})
    text = resources.files(__package__).joinpath("thesaurus.txt").read_text(encoding="utf-8")
    phrases: dict[str, list[tuple[str, ...]]] = {}

    def key(entry: str) -> str:
        parts = tuple(stem(part) for part in entry.split("_"))
        if len(parts) > 1:
            phrases.setdefault(parts[0], []).append(parts)
        return " ".join(parts)

    rows = [row for line in text.splitlines() if line and line[0] != "#" for row in _rows(line)]
    for idea, line in enumerate(rows):
        heads, _, members = line.lstrip("~&^ ").partition("<")
        if line[0] in "~&^":
            {"~": made.light, "&": made.kin, "^": made.verbs}[line[0]].add(idea)
        made.spelled[idea] = [entry.replace("_", " ") for entry in (members or heads).split() if entry[0] != "@"]
        for entry in heads.split():
            # The heads of a line with members are what is asked for; they need not mean the same.
            (made.asks if members else made.ideas).setdefault(key(entry), set()).add(idea)
        for entry in members.split():
            if entry.startswith("@"):
                made.values.setdefault(idea, set()).add(entry)
            else:
                made.answers.setdefault(key(entry), set()).add(idea)
    made.phrases = {first: tuple(sorted(found, key=len, reverse=True)) for first, found in phrases.items()}
    return made


def _rows(line: str) -> list[str]:
    return [pair.replace("=", " ") for pair in line.split()] if "=" in line else [line]


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    """Take a text apart. The same function reads questions and notes, so that both are compared alike."""
    tokens = [(found.group().strip("'"), found.start()) for found in _TOKEN.finditer(text)]
    plain = [token.lower() for token, _ in tokens]
    german = sum(word in _GERMAN for word in plain) > sum(word in _ENGLISH for word in plain) or (
        bool(re.search("[äöüß]", text)) and sum(word in _ENGLISH for word in plain) < 2
    )
    stems = [stem(token) for token, _ in tokens]
    table = thesaurus()
    words: dict[str, Word] = {}
    inside: dict[str, Word] = {}
    at = 0
    while at < len(tokens):
        phrase = next((p for p in table.phrases.get(stems[at], ()) if tuple(stems[at : at + len(p)]) == p), None)
        if phrase:
            key = " ".join(phrase)
            words.setdefault(key, _word(key, name=False))
            inside.update((part, _word(part, name=False)) for part, said in zip(phrase, plain[at:], strict=False) if said not in _STOP)
            at += len(phrase)
            continue
        token, start = tokens[at]
        if plain[at] not in _STOP and plain[at] not in _ASKING and (len(token) > 1 or token.isdigit()):
            first = not text[:start].strip(" \"'“„(-*") or text[:start].rstrip()[-1:] in ".!?:"
            known = stems[at] in table.ideas or stems[at] in table.asks or stems[at] in table.answers
            named = token[0].isupper() and not (known and (first or german))
            for part in _parts(token):
                words.setdefault(part, _word(part, name=named))
        at += 1
    wanted, strict = next(((values, hard) for rule, values, hard in _WANTED if rule.search(text)), ((), False))
    found = frozenset(name for name, rule in VALUES.items() if rule.search(text))
    return Reading(tuple(words.values()), tuple((inside | words).values()), found, german, wanted, strict)


def _parts(token: str) -> tuple[str, ...]:
    """Return the stems of a token; one with a hyphen or slash also stands for its parts."""
    pieces = [piece for piece in re.split(r"[-/]", token) if len(piece) > 2 and piece.isalpha()]
    whole = stem(token)
    return (whole, *(stem(piece) for piece in pieces)) if len(pieces) > 1 and whole not in thesaurus().ideas else (whole,)


@lru_cache(maxsize=8192)
def _word(key: str, name: bool) -> Word:
    table = thesaurus()
    ideas, asks, answers = (set(found.get(key, ())) for found in (table.ideas, table.asks, table.answers))
    about: set[int] = set()
    if not (ideas or asks or answers) and key.startswith("ge"):
        ideas |= table.ideas.get(key[2:], set()) | table.ideas.get(stem(key[2:]), set())  # a German participle
    if not ideas and len(key) >= 8 and key.isalpha():
        for cut in range(4, len(key) - 3):
            head, last = stem(key[cut:]), {stem(key[:cut]), stem(key[:cut].removesuffix("s"))}
            ideas |= table.ideas.get(head, set()) - table.light - table.verbs
            answers |= table.answers.get(head, set())
            about |= {idea for first in last for idea in table.ideas.get(first, ())} - table.light - table.verbs
    light = bool((ideas | asks) & table.light)
    verb = bool(ideas) and ideas <= table.verbs
    kin = frozenset(ideas & table.kin)
    return Word(key, frozenset(ideas), frozenset(asks), frozenset(answers), name, light, verb, frozenset(about), kin)


def alike(asked: Word, told: Word) -> float:
    """Return how far a word of a note speaks of what a word of a question asks for, from 0 to 1."""
    if asked.stem == told.stem:
        return 1.0
    if asked.ideas & told.ideas:
        return 0.9
    if asked.asks & told.answers:
        return 0.85
    short, long = sorted((asked.stem, told.stem), key=len)
    if len(short) >= 5 and short.isalpha() and long.endswith(short):
        return 0.8
    if asked.ideas & told.about or asked.about & told.ideas:
        return 0.65
    if len(short) >= 5 and short.isalpha() and long.startswith(short):
        return 0.65 if len(long) - len(short) > 3 else 0.8
    if len(short) >= 4 and short.isalpha() and long.startswith(short) and len(long) - len(short) <= 3:
        return 0.7
    return 0.0


def valued(asked: Word, values: frozenset[str]) -> bool:
    """Say whether a value of a note, by its form alone, is what a word of a question asks for."""
    table = thesaurus()
    return any(table.values.get(idea, set()) & values for idea in asked.asks)


def related(text: str, most: int = 120) -> str:
    """Return other words for what a question asks about, for a search that knows only words."""
    table = thesaurus()
    found: dict[str, None] = {}
    for word in read(text).words:
        if not word.light:
            for idea in sorted(word.ideas | word.asks):
                found.update(dict.fromkeys(table.spelled[idea]))
    return " ".join(list(found)[:most])
