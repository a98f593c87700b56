"""Words as ideas: stems, what means the same, values by their form, and what kind of answer a question wants. Pure.

English and German. Nothing here knows a note: `evidence` compares what this says of a question with what it says of a line.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources

import msgspec
from msgspec import Struct, structs

from homarus.core.patterns import late

_TOKEN = late(r"@?[^\W_]+(?:[.:/@+_-][^\W_]+)*(?:['’][^\W_]+)?", re.UNICODE)
# All German nouns have a capital. A name stands behind a title, a verb of naming, a preposition for people or another noun;
# a word behind an article is none.
_GERMAN_NAME = late(
    r"(?=(?:\b(?:heißt|heissen|namens|Herrn?|Frau|Dr\.?|Familie|Firma|von|bei|mit|ist|sind|an|in|nach|aus|für|hat|jetzt|und|Tante|Onkel|Oma|Opa)|[A-ZÄÖÜ][\w.-]+,?|[:=])\s+([A-ZÄÖÜ][\w-]+))|\A([A-ZÄÖÜ][\w-]+)"
)
_ARTICLE = late(
    r"(?:der|die|das|den|dem|des|im|am|zum|zur|beim|vom|ins|ans|eine?[nmrs]?|keine?[nmrs]?|(?:m|d|s)eine?[nmrs]?|unsere?[nmrs]?|ihre?[nmrs]?|welche[nmrs]?|jede[nmrs]?|diese[nmrs]?|alle|viele?|mehr|\w{3,}e[nsrm]?)\Z"
)
_FOLD = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "ß": "ss", "é": "e", "è": "e", "á": "a", "í": "i", "ó": "o", "ú": "u", "ñ": "n",
                       "ł": "l", "ń": "n", "ş": "s", "ç": "c", "ı": "i", "å": "a", "ø": "o", "’": "'"})  # fmt: skip
MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni?|july?|juli?|aug(?:ust)?|sept?(?:ember)?"
    r"|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\b"
)
_DAY = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:days?)?\b|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|sonnabends?"
    r"|today|tomorrow|yesterday|heute|(?:vor)?gestern|übermorgen|tonight|weekends?|wochenende)"
)
_COUNT = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty"
    r"|hundred|thousand|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|(?:drei|vier|fünf|sech|sieb|acht|neun)zehn"
    r"|\w*(?:zwanzig|dreißig|(?:vier|fünf|sech|sieb|acht|neun)zig)|hundert|tausend)"
)
_HOLIDAY = (
    r"(?:hogmanay|new year|neujahr|christmas|xmas|easter|whitsun|pentecost|advent|thanksgiving|halloween|ramadan|eid|hanukkah|diwali|lent|carnival|boxing day"
    r"|weihnachten|ostern|silvester|pfingsten|fasching|karneval|fastnacht|weiberfastnacht|rosenmontag|aschermittwoch|heiligabend|nikolaus|martini|lichtmess"
    r"|allerheiligen|zuckerfest)"
)
_EACH = r"(?:hour|night|day|week|month|year|yard|head|person|piece|kilo|stunde|nacht|tag|woche|monat|jahr|stück|person)"
_SPAN = (
    rf"\b(?:\d+|(?<!\d )(?<!pounds )(?<!euros )(?<!dollars )(?<!times )(?<!once )(?<!twice )an?|one|eine[nm]?|{_COUNT})[\s-](?:seconds?|sec|minutes?|min|hours?|hrs?|h|days?|weeks?|fortnights?|months?|years?"
    r"|sekunden?|minuten?|stunden?|tagen?|tage|wochen?|monate?n?|jahre?n?)\b"
)
VALUES: dict[str, re.Pattern[str]] = {
    "@time": late(
        rf"\b{MONTH}|\b{_DAY}\b|\b\d{{1,2}}[:.]\d{{2}}\b|\b\d{{1,2}}\s*(?:am|pm|uhr|o'clock)\b|\b\d{{1,2}}[ap]\b|\b(?:19|20)\d\d\b|\b\d{{1,2}}\.\d{{1,2}}\.|\b\d{{1,2}}/\d{{1,4}}\b|\b\d{{1,2}}\s?[-–]\s?\d{{1,2}}\b|\b(?-i:Mo|Di|Mi|Do|Fr|Sa|So)\b"
        r"|\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2}\.(?=\s)|\b(?:kw|week) ?\d{1,2}\b|\b(?:after dark|(?:day|week|month|tag|woche)s? (?:before|ahead|vorher|zuvor)|half past|quarter|noon|midnight|within \w+ \w+|innerhalb|bedtime|breakfast|lunchtime|mornings?|evenings?|month end|mittags?|abends?|vormittags?|nachmittags?|morgens|nachts|nüchtern|spring|summer"
        rf"|{_HOLIDAY}|(?:at|till|until|by|before|um|ab|bis|half|halb) (?:{_COUNT}|\d{{1,2}})|autumn|winter|frühling|sommer|herbst|(?:next|last|this|end of|nächste[nrs]?|letzte[nrs]?|ende) \w+|(?:jahres|monats)(?:ende|anfang))\b",
        re.IGNORECASE,
    ),
    "@money": late(rf"\b(?:dollars|euros|pounds?|quid|bucks|tenner|fiver|grand|franken|francs)\b|(?:[$£€¥]|\b(?:eur|chf|usd|gbp))\s?\d|\d\s?(?:[$£€¥]|[km]\b|(?:eur|euros?|usd|cad|chf|gbp|dollars?|cents?)\b)|\d (?:an?|per|pro|je|the|die|das|im|in der) {_EACH}\b", re.IGNORECASE),
    "@sum": late(r"\d[.,]\d{3}\b|(?<![-–])\b\d{2,},\d\d\b"),
    "@figure": late(rf"\d|\b(?:one|{_COUNT}|half|halbe?[nrs]?)\b", re.IGNORECASE),
    "@phone": late(r"(?<![\d.,/-])\+?\(?\d{2,5}\)?[ /-]\d{3,}(?:[ -]\d{2,})*(?!\d|[.,]\d)"),
    "@email": late(r"[\w.+-]+@[\w-]+\.\w+"),
    "@link": late(r"https?://|\bwww\.|\b[\w-]+\.(?:com|org|net|de|io|internal)\b"),
    "@code": late(r"\[redacted|\b(?=\S*\d)(?=\S*[A-Za-z!-])\S{4,}|\b\d{4,}\b|\b\d+(?:[ -]\d+){2,}\b|[\"“„]\w+[\"”“]"),
    "@number": late(rf"\d|\b(?:one|{_COUNT}|dozen|twice|twins|triplets|half|halbe?)\b", re.IGNORECASE),
    "@often": late(
        r"\b(?:every|each|daily|weekly|monthly|yearly|nightly|once|twice|times? (?:a|per)|alternate|regularly|per (?:day|week|month|year)|\d+x"
        r"|a (?:day|week|month|year)|jede[nrs]?|alle|täglich|wöchentlich|monatlich|jährlich|\w*\s?mal|morgens|abends|twice|mornings?|(?:\w+tag|mittwoch)s|\w+days)\b",
        re.IGNORECASE,
    ),
    "@span": late(_SPAN, re.IGNORECASE),
    "@long": late(rf"{_SPAN}|\b(?:until|till|since|bis|seit|from|through)\b", re.IGNORECASE),
    "@weight": late(r"\d\s?(?:kg|kilos?|kilograms?|lbs?|pounds|stone|grams?|g|mg|tons?|tonnes?|gramm|pfund|tonnen?)\b", re.IGNORECASE),
    "@length": late(r"\d\s?(?:mm|cm|m|metres?|meters?|feet|foot|ft|inch(?:es)?|zentimeter)\b|\d['’]\d|\d\s?[x×]\s?\d", re.IGNORECASE),
    "@distance": late(r"\d\s?(?:km|kilomet(?:er|re)s?|miles?|meilen|m|metres?|meters?|minutes?|min|minuten|hours?|stunden)\b", re.IGNORECASE),
    "@area": late(r"\d\s?(?:m²|qm|sqm|sq|square|quadratmeter|ha|hectares?|hektar|acres?)(?!\w)", re.IGNORECASE),
    "@volume": late(r"\d\s?(?:l|ml|lit(?:er|re)s?|gallons?|pints?|cups?|tassen?)\b", re.IGNORECASE),
    "@percent": late(r"\d\s?(?:%|percent|per cent|prozent)", re.IGNORECASE),
    "@degrees": late(r"\d\s?(?:°|degrees|grad\b)", re.IGNORECASE),
    "@years": late(rf"\b(?:\d{{1,3}}|{_COUNT})\s*(?:years?|jahre?|yrs?)\b|\b(?:turns?|wird|is|ist)\s+(?:am \S+ \w+ )?(?:\d{{1,3}}|{_COUNT})\b|\baged? \d|,\s*\d{{1,2}}\s*(?:[,.)]|$)", re.IGNORECASE),
    "@reason": late(r"\b(?:because|since|due to|thanks to|so that|so|b/c|as|weil|wegen|denn|damit|sonst|deshalb|after|needs?|without|no)\b", re.IGNORECASE),
    "@name": late(r"(?<![.!?:]\s)(?<!^)\b[A-ZÄÖÜ][\w’'-]+|\b(?:dr|mr|mrs|ms|prof|herr|frau)\b", re.UNICODE),
    "@place": late(
        rf"\b(?:in|at|on|behind|under|next to|near|inside|above|below|beside|im|am|bei|beim|auf|unter|hinter|neben|nach|an|to|from|aus|with|von|vom|by)\s+(?!(?:the |der |den |dem |alternate |every )?(?:\d|{MONTH}|{_DAY}|(?:half|quarter|noon|night|mornings?|evenings?|afternoons?|summer|winter|spring|autumn|sommer|herbst|time|weekdays?|weekends?|stand-?by|month|week|year|abend|morgen|total|order|hold|cash|be|do|go|get|have|buy|pay|see|ask|call|bring|cancel|him|her|them|it|us|me)\b))\w|\bstr\b|\broad\b|\w+(?:straße|allee|platz)\b|\b(?:room|raum|zimmer|court|bay|shelf|locker|floor|gate|platform|gleis|unit|bed|ward|cabin|plot|desk|seat|row|regal|fach)\s+\w*\d",
        re.IGNORECASE,
    ),
}  # fmt: skip
# Figures that are part of a time are no count and no sum.
OF_A_TIME = late(
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{MONTH}|\b{MONTH}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}[:.]\d{{2}}\s*(?:uhr|h|am|pm)?\b(?!\s?[€$£])"
    r"|\b\d{1,2}\s*(?:am|pm|uhr|o'clock)\b|\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2}\.\d{1,2}\.(?:\d{2,4})?",
    re.IGNORECASE,
)
# How a question begins or what it holds -> the values that an answer must have one of.
_WANTED: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (late(r"\A\W*(?:why|warum|wieso|weshalb)\b", re.IGNORECASE), ("@reason",)),
    (late(r"(?:\A\W*|\b(?:and|also|und|until|since|by|bis|ab|seit) )(?:when|when's|wann)\b|\b(?:what (?:day|date|time|year|month|hours)|(?:on|at|in|by|until|since) (?:which|what) (?:day|date|time|year|month|week)|which (?:day|days|date|month|year|week)|what days|um wie ?viel uhr|(?:what|which) hour|an welche[mn] tage?n?|in welchem (?:jahr|monat)|welche[rsnm]? (?:tag|datum)|wie spät|until when|since when|by when)\b", re.IGNORECASE), ("@time",)),
    (late(r"\b(?:how often|wie oft|how frequently)\b", re.IGNORECASE), ("@often",)),
    (late(r"\bhow long (?:is|are|was|were) (?:the|my|our|this)\b", re.IGNORECASE), ("@span", "@length")),
    (late(r"\b(?:how long|wie lange|for how many (?:days|weeks|months|years))\b", re.IGNORECASE), ("@long", "@time")),
    (late(r"\b(?:how old|wie alt|what age)\b", re.IGNORECASE), ("@years",)),
    (late(r"\b(?:how much|wie ?viel|wie hoch|how high|what)\b.*\b(?:costs?|kostet|gekostet|charg\w+|earn|verdiene?|pay|zahlen|rent|miete|rente|gehalt|lohn|beitrag|gebühr|preis|fee|price|salary|fine|bill|rechnung)\b|\bwas (?:kostet|zahl\w+|hat .* gekostet)\b|\b(?:how expensive|wie teuer)\b", re.IGNORECASE), ("@money", "@sum")),
    (late(r"\bhow much (?:is|was|are|were|will|would)\b", re.IGNORECASE), ("@money", "@sum")),
    (late(r"\b(?:how much|how high|wie ?viel\b|wie hoch|how expensive|wie teuer|what (?:does|do|did|is|are|was)\b.*\b(?:cost|charge|pay|price)|was kostet|was zahl)", re.IGNORECASE), ("@money", "@figure")),
    (late(r"\b(?:how (?:big|large)|wie groß)\b", re.IGNORECASE), ("@area", "@length", "@volume", "@weight")),
    (late(r"\b(?:how many|wie viele|wieviele)\b", re.IGNORECASE), ("@number",)),
    (late(r"\b(?:(?:phone|telephone|mobile|cell) (?:number|no)|telefonnummer|handynummer|rufnummer)\b|['’]s (?:phone|mobile|cell)\b", re.IGNORECASE), ("@phone",)),
    (late(r"\b(?:email|e-mail|mail ?adresse)\b", re.IGNORECASE), ("@email",)),
    (late(r"\b(?:number|nummer|kennzeichen|serial|pin|code|iban|id|passwor[dt]|zählerstand|size|größe|schuhgröße)\b", re.IGNORECASE), ("@number", "@code")),
    (late(r"\b(?:who|whom|whose|who's|wer|wem|wen|wessen|name|called|heißt)\b", re.IGNORECASE), ("@name",)),
    (late(r"\b(?:where|where's|wo|wohin|woher|(?:which|what) (?:city|town|country|place|street|room|floor)|welche[rsnm]? (?:stadt|ort|land|straße|zimmer|raum|stock|etage))\b", re.IGNORECASE), ("@place", "@name")),
)  # fmt: skip


_SKIP = r"(?:(?:the|my|our|your|his|her|their|its|der|die|das|dem|den|mein\w*|unser\w*|new|neue\w?|best|[^\W\d_]+['’]s?)\s+)*"
# "which hospital", "welche Farbe", "what kind of tent"; "what is Ann's surname", "wie lautet die Nummer", "how heavy"
_FOCUS = late(
    rf"\b(?:what|which|whose|welche[rsnm]?|was für(?: eine?[nmrs]?)?)\s+(?:(?:kind|sort|type|art)s?\s+(?:of|von)?\s*)?(?!(?:is|are|was|were|am|do|does|did|has|have|had|can|could|should|will|would|must|may|of|ist|sind|war|hat|time|day|date|days|tag|zeit)\b)(?P<which>[^\W\d_][\w-]+)"
    rf"|\b(?:what(?:'s|\s+is|\s+are|\s+was)|wie\s+(?:lautet|ist|heißt|war))\s+{_SKIP}(?P<what>[^\W\d_][\w-]+)(?=\s*(?:\?|\Z|of\b|for\b|von\b|für\b|at\b|in\b))"
    rf"|\b(?:who(?:['’]s|\s+is|\s+are|\s+was)|wer\s+(?:ist|sind|war))\s+{_SKIP}(?P<who>[^\W\d_][\w-]+)(?=\s*(?:\?|\Z|of\b|for\b|von\b|vom\b|für\b|at\b|in\b|im\b|bei\b|de[rs]\b))"
    r"|\b(?:how many|wie ?viele)\s+(?P<many>[^\W\d_][\w-]+)"
    r"|\bhow\s+(?!much|many|long|often|old|do|does|did|is|are|can|far|high|big|soon|early|late|was|should|must)(?P<how>[^\W\d_]+)",
    re.IGNORECASE,
)


@cache
def listed(name: str) -> frozenset[str]:
    """Return one of the lists of words: stop, asking, german, english, named or deeds."""
    for line in _data("stopwords.txt").replace("\n ", " ").splitlines():
        if line.startswith(f"{name} "):
            return frozenset(line.split()[1:])
    raise KeyError(name)


def _data(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


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
    hard: bool = False  # what a note states or does not
    trait: bool = False  # what many things have: a price, a number, a size
    inside: tuple[str, ...] = ()  # the stems of a phrase
    kin: frozenset[int] = frozenset()  # those of its ideas that stand for somebody: mother, boss, dog
    first: str = ""  # what stands before the part of a compound by which it is known


class Reading(Struct, frozen=True):
    """What a text holds, as far as small rules can tell."""

    words: tuple[Word, ...]  # what it says, a set phrase as one
    parts: tuple[Word, ...]  # the same, and the words of its phrases
    names: frozenset[str]
    values: frozenset[str]
    text: str
    small: bool  # written without capitals: names cannot be told
    german: bool
    wanted: tuple[str, ...] = ()  # the values that an answer needs one of
    typed: bool = (
        False  # its focus is a kind of thing that has a name: a name answers, whether or not the note says what it is
    )
    focus: str = ""  # the stem of what a question names as the thing it wants: which hospital, what colour, X's surname


def fold(text: str) -> str:
    return text.lower().translate(_FOLD)


_ENGLISH_TOO = frozenset({"bin", "die", "war", "hat", "kind"})  # small words of German that say something in English
# The first that leaves enough of the word goes; a name keeps those that only a verb has.
_KEEPS_3, _KEEPS_4 = r"(?<=...)", r"(?<=....)"
_VERBS = rf"{_KEEPS_3}ings?|{_KEEPS_4}est|{_KEEPS_3}ed|"
_OTHERS = rf"{_KEEPS_3}ies|{_KEEPS_3}ungen|{_KEEPS_4}innen|{_KEEPS_4}ern|%s{_KEEPS_3}es|{_KEEPS_3}en|{_KEEPS_4}e[rmt]|{_KEEPS_3}(?<!s)s|{_KEEPS_3}e|{_KEEPS_4}n"
_ENDING = late(rf"(?:{_OTHERS % _VERBS})\Z")
_PROPER_ENDING = late(rf"(?:{_OTHERS % ''})\Z")


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return a word without the commonest endings of both languages; both sides of a comparison pass through here."""
    proper = word[:1].isupper()  # Henning is no hen
    word = fold(word).removesuffix("'s").removesuffix("'")
    if "-" in word and word.replace("-", "").isalpha():
        word = word.replace("-", "")
    if len(word) < 4 or not word.isalpha():
        return word
    if found := (_PROPER_ENDING if proper else _ENDING).search(word):
        word = word[: found.start()] + (
            "y" if found[0] == "ies" else "ung" if found[0] == "ungen" else "in" if found[0] == "innen" else ""
        )
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiousl" else word


class Thesaurus(Struct):
    ideas: dict[str, set[int]]
    asks: dict[str, set[int]]
    answers: dict[str, set[int]]
    values: dict[int, set[str]]  # idea -> the values that are a member of it
    spelled: dict[int, str]  # idea -> its words as they are written, with commas: few are asked for
    light: set[int]
    verbs: set[int]
    hard: set[int]
    traits: set[int]
    kin: set[int]
    phrases: dict[str, tuple[tuple[str, ...], ...]]  # first stem -> the stems of the phrases that begin with it


@cache
def thesaurus() -> Thesaurus:
    """Return the table of words. `scripts/make_thesaurus.py` makes it of `thesaurus.txt`: to take every stem here costs 40 ms."""
    return msgspec.json.decode(_data("thesaurus.json"), type=Thesaurus)


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    """Take a text apart. The same function reads questions and notes, so that both are compared alike."""
    tokens = [(found.group().strip("'"), found.start()) for found in _TOKEN.finditer(text)]
    plain = [token.lower() for token, _ in tokens]
    german = sum(word in listed("german") for word in plain) > sum(word in listed("english") for word in plain) or (
        bool(re.search("[äöüß]", text)) and sum(word in listed("english") for word in plain) < 2
    )
    stems = [stem(token) for token, _ in tokens]
    table = thesaurus()
    words: dict[str, Word] = {}
    inside: dict[str, Word] = {}
    at = 0
    while at < len(tokens):
        phrase = next((p for p in table.phrases.get(stems[at], ()) if tuple(stems[at : at + len(p)]) == p), None)
        token, start = tokens[at]
        apposed = at + 1 < len(tokens) and _maybe_name(tokens[at + 1][0], stems[at + 1])
        if phrase:
            words.setdefault(" ".join(phrase), _word(" ".join(phrase), name=False))
            said = zip(phrase, plain[at:], strict=False)
            inside.update((part, _word(part, name=False)) for part, word in said if word not in listed("stop"))
        elif not (token in ("Frau", "Herr", "Herrn") and apposed) and _counts(plain[at], german):
            first = not text[:start].strip(" \"'“„(-*") or text[:start].rstrip()[-1:] in ".!?:"
            common = not _maybe_name(token, stems[at]) or (german and _noun(token, tokens[at - 1][0] if at else ""))
            named = token[0].isupper() and not (common and (first or german)) and not VALUES["@time"].fullmatch(token)
            for part in _parts(token):
                word = _word(part, name=named)
                if word.kin and ((apposed and text[start + len(token)] == " ") or (at and _kin(tokens[at - 1][0]))):
                    word = structs.replace(word, light=True)  # "husband Gerald" is Gerald, "eldest son" the eldest
                if _deed(token, text, german) and not (word.ideas or word.asks or word.name):
                    word = structs.replace(word, verb=True)
                words.setdefault(part, word)
        at += len(phrase or (0,))
    names = frozenset(word.stem for word in words.values() if word.name)
    if german:
        found = {name or first for name, first in _GERMAN_NAME.findall(text)}
        names = frozenset(stem(name) for name in found if _counts(name.lower())) - frozenset(table.ideas)
    names = frozenset(name for name in names if not VALUES["@time"].fullmatch(name))
    focus = _focus(text)
    wanted = next((values for rule, values in _WANTED if rule.search(text)), ())
    typed = _named(focus) and (not wanted or "@name" in wanted)
    timeless = OF_A_TIME.sub(" ", text)
    return Reading(
        words=tuple(words.values()),
        parts=tuple((inside | words).values()),
        names=names,
        values=frozenset(
            name
            for name, rule in VALUES.items()
            if rule.search(timeless if name in ("@figure", "@number", "@sum") else text)
        ),
        text=text,
        small=text.lower() == text,
        german=german,
        wanted=("@name",) if typed else wanted,
        typed=typed,
        focus=focus,
    )


def _focus(text: str) -> str:
    found = _FOCUS.search(text)
    return stem(found[found.lastgroup or 0]) if found else ""


def _named(focus: str) -> bool:
    """Say whether what a question wants is of a kind that has a name: which hospital, welche Krankenkasse."""
    known = _stems("named")
    return focus in known or any(focus[cut:] in known for cut in range(3, len(focus) - 3))


@cache
def _stems(name: str) -> frozenset[str]:
    return frozenset(stem(form) for word in listed(name) for form in (word, word.capitalize()))


def _deed(token: str, text: str, german: bool) -> bool:
    """Say whether a word is something one does or how something is: German writes only nouns with a capital."""
    if german:
        return token.islower() and text != text.lower()
    return stem(token) in _stems("deeds")


def _counts(word: str, german: bool = True) -> bool:
    if not german and word in _ENGLISH_TOO:
        return True
    return word not in listed("stop") and word not in listed("asking") and (len(word) > 1 or word.isdigit())


def _maybe_name(token: str, stemmed: str) -> bool:
    """Say whether a word that is written with a capital is none that the thesaurus knows: then it may be a name."""
    table = thesaurus()
    return token[0].isupper() and not any(stemmed in known for known in (table.ideas, table.asks, table.answers))


def _kin(token: str) -> bool:
    return token.isalpha() and bool(_word(stem(token), name=False).kin)


def _noun(token: str, before: str) -> bool:
    """Say whether a German word with a capital is a common noun, by its ending or by what stands before it."""
    ending = re.search(r"(?:ung|heit|keit|schaft|tion|nis|tät|chen|lein|ment|ling|ei)(?:en|s)?\Z", token)
    owned = before[:1].isupper() and before.endswith("s")
    return bool(ending or owned or _ARTICLE.match(before.lower()))


def _parts(token: str) -> tuple[str, ...]:
    """Return the stems of a token; one with a hyphen or slash also stands for its parts."""
    pieces = [piece for piece in re.split(r"[-/]", token) if len(piece) > 2 and piece.isalpha()]
    whole = stem(token)
    return (
        (whole, *(stem(piece) for piece in pieces)) if len(pieces) > 1 and whole not in thesaurus().ideas else (whole,)
    )


@lru_cache(maxsize=8192)
def _word(key: str, name: bool) -> Word:
    table = thesaurus()
    ideas, asks, answers = (set(found.get(key, ())) for found in (table.ideas, table.asks, table.answers))
    about: set[int] = set()
    prefix = ""
    if not (ideas or asks or answers) and key.startswith("ge"):
        ideas |= table.ideas.get(key[2:], set()) | table.ideas.get(stem(key[2:]), set())  # a German participle
    if not ideas and 8 <= len(key) <= 40 and key.isalpha():
        for cut in range(4, len(key) - 3):
            if cut < 5 and len(key) - cut < 5:
                continue
            if stem(key[cut:]) in table.ideas:
                prefix = key[:cut]
            head, last = stem(key[cut:]), {stem(key[:cut]), stem(key[:cut].removesuffix("s"))}
            ideas |= table.ideas.get(head, set()) - table.light - table.verbs
            answers |= table.answers.get(head, set())
            about |= {idea for first in last for idea in table.ideas.get(first, ())} - table.light - table.verbs
    light = bool((ideas | asks) & table.light)
    verb = bool(ideas) and ideas <= table.verbs
    kin = frozenset(ideas & table.kin)
    hard = not light and bool((ideas | asks) & table.hard)
    trait = bool((ideas | asks) & table.traits)
    inside = tuple(part for part in key.split() if part not in listed("stop")) if " " in key else ()
    return Word(
        key,
        frozenset(ideas),
        frozenset(asks),
        frozenset(answers),
        name,
        light,
        verb,
        frozenset(about),
        hard,
        trait,
        inside,
        kin,
        prefix,
    )


# Ends of compounds that say when, not what: a parents' evening is no evening like others.
_WHEN = frozenset({"abend", "morg", "nacht", "zeit", "jahr", "woch", "monat", "stund"})


def alike(asked: Word, told: Word) -> float:
    """Return how far a word of a note speaks of what a word of a question asks for, from 0 to 1."""
    if asked.stem == told.stem:
        return 1.0
    if asked.ideas & told.ideas:
        # A journeyman's exam is not the interim exam: two compounds with one head are of one kind, and not the same.
        return 0.4 if asked.first and told.first and asked.first[:4] != told.first[:4] else 0.9
    if asked.asks & told.answers:
        return 0.85
    short, long = sorted((asked.stem, told.stem), key=len)
    if not (short.isalpha() and long.isalpha()):
        return 0.65 if asked.ideas & told.about or asked.about & told.ideas else 0.0
    if (len(short) >= 5 or (len(short) == 4 and len(long) >= 8)) and long.endswith(short):
        return 0.3 if short in _WHEN else 0.8
    if asked.ideas & told.about or asked.about & told.ideas:
        return 0.65
    if asked.name and len(short) >= 3 and long.startswith(short) and len(long) - len(short) <= 3:
        return 0.8  # Marens, Maren
    if len(short) >= 5 and long.startswith(short):
        return 0.65 if len(long) - len(short) > 3 else 0.8
    same = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if same >= 5 and same >= 0.6 * len(long):
        return 0.65  # subscribe, subscription
    if (
        len(short) >= 4
        and short.isalpha()
        and long.startswith(short)
        and (len(long) - len(short) <= 3 or len(long) >= 9)
    ):
        return 0.65
    return 0.0


def inside(phrase: Word) -> list[Word]:
    return [_word(part, name=False) for part in phrase.inside]


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
                found.update(dict.fromkeys(filter(None, table.spelled[idea].split(","))))
    return " ".join(list(found)[:most])
