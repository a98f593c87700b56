"""Words as the index and the query see them: one folding for both, stop words, scripts without spaces, identifiers. Pure.

Also where the words of a question stand in a line, for marking, and for cutting what is shown of a long one.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase

from homarus.core.patterns import late
from homarus.core.text import STOP_WORDS

_MORE = """after all also before being between both d doing don done each else having he her him his into just ll m more
most must nor off once only other out over own re s same she such t than their them then they too up ve very"""
STOP = STOP_WORDS | frozenset(_MORE.split())

# Scripts whose vowels are marks on a letter: there a mark is part of the word. `plain` leaves no punctuation in them.
_MARKED = "\u0900-\u109f\u1780-\u17ff"
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, and CJK.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
WORD = late(rf"(?:[^\W_]|[{_MARKED}])+")
_ENDING = late(r"(?<=[^\W_])'(?:s|t|d|ll|re|ve|m)(?![^\W_])")  # English: Anna's, don't
_APART = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))  # the same for ASCII, much faster
_ARTICLE = late(r"(?<![^\W_])[وفبكل]?ال(?=[^\W_]{3})")  # Arabic writes "the" as part of the word
_RUN = late(f"[{_UNSPACED}]+")
_UNSPACED_CHAR = late(f"[{_UNSPACED}]")
_MIXED = late(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]\d|\d[A-Za-z]")
_ASCII_WORD = late(r"[A-Za-z0-9]+")
_CLASSES = bytes(
    ord("a") if chr(code).islower() else ord("A") if chr(code).isupper() else ord("0") if chr(code).isdigit() else 32
    for code in range(128)
) + bytes(32 for _ in range(128))
_PART = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# One family of forms a line: the stemmer of the index cannot bring them together by cutting endings.
_IRREGULAR = """be am is are was were been being|become became|begin began begun|bite bit bitten|blow blew blown
break broke broken|bring brought|build built|buy bought|catch caught|child children|choose chose chosen|come came
deal dealt|do did done|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen
feed fed|feel felt|fight fought|find found|fly flew flown|forget forgot forgotten|forgive forgave forgiven|foot feet
freeze froze frozen|get got gotten|give gave given|go went gone|grow grew grown|hang hung|hear heard|hide hid hidden
hold held|keep kept|know knew known|lead led|leave left|lend lent|lose lost|make made|man men|mean meant|meet met
mouse mice|pay paid|person people|ride rode ridden|ring rang rung|rise rose risen|run ran|say said|see saw seen
sell sold|send sent|shake shook shaken|shine shone|shoot shot|show shown|shrink shrank|sing sang sung|sink sank sunk
sit sat|sleep slept|speak spoke spoken|spend spent|stand stood|steal stole stolen|stick stuck|strike struck
swear swore sworn|sweep swept|swim swam swum|take took taken|teach taught|tear tore torn|tell told|think thought
throw threw thrown|tooth teeth|understand understood|wake woke woken|wear wore worn|win won|wife wives|woman women
write wrote written"""
# Two ways to write one word: here and across the ocean, in letters and in figures.
_SPELLINGS = """behaviour behavior|centre center|cheque check|colour color|cosy cozy|favourite favorite|flavour flavor|grey gray
harbour harbor|honour honor|humour humor|jewellery jewelry|labour labor|licence license|litre liter|metre meter|mum mom
neighbour neighbor|organise organize|practise practice|programme program|pyjamas pajamas|realise realize
recognise recognize|rumour rumor|theatre theater|travelling traveling|tyre tire
two 2|three 3|four 4|five 5|six 6|seven 7|eight 8|nine 9|ten 10|eleven 11|twelve 12
first 1st|second 2nd|third 3rd|fourth 4th|fifth 5th|sixth 6th|seventh 7th|eighth 8th|ninth 9th|tenth 10th"""


def _families() -> dict[str, tuple[str, ...]]:
    """Return each form with all of its family. The regular forms of an irregular word find the others too: `writing` finds `wrote`."""
    found: dict[str, tuple[str, ...]] = {}
    for group in f"{_IRREGULAR}|{_SPELLINGS}".replace("\n", "|").split("|"):
        family = tuple(group.split())
        found |= dict.fromkeys(family, family)
    for group in _IRREGULAR.replace("\n", "|").split("|"):
        first, *_ = family = tuple(group.split())
        short = first.removesuffix("e")
        for regular in (f"{first}s", f"{short}ing", f"{first}{first[-1]}ing", f"{short}ings"):
            found.setdefault(regular, (regular, *family))
    return found


_FAMILY = _families()


_SPELLED = str.maketrans("ıłøđħŧёʼʹ’آأإٱؤئىک", "ilodhtе'''ااااوييك") | {ord("œ"): "oe", ord("æ"): "ae"}


class _Folding(dict[int, int | str]):
    """What becomes of one character, for `str.translate`: accents, optional vowel points and invisible marks go."""

    def __missing__(self, code: int) -> int | str:
        found = _SPELLED[code] if code in _SPELLED else self._folded(code)
        if code < 0x3000:  # bounded: the others are not worth keeping
            self[code] = found
        return found

    def _folded(self, code: int) -> str:
        char = chr(code)
        if 0xC0 <= code < 0x400 or 0x1E00 <= code < 0x2000:
            char = unicodedata.normalize("NFD", char)[0]
            return "" if unicodedata.combining(char) else char
        kind = unicodedata.category(char)
        if 0x900 <= code <= 0x109F or 0x1780 <= code <= 0x17FF:
            return " " if kind[0] in "PS" else "" if kind == "Cf" else char
        # Elsewhere marks are optional (Arabic and Hebrew are read without points), or one character with their letter by now.
        return "" if kind[0] == "M" or kind == "Cf" or char == "ـ" else char


_FOLDING = _Folding()


def plain(text: str) -> str:
    """Return text as it is compared, in the index and in a question alike: no case, no accents, one width of characters.

    What makes another letter stays (й, Japanese voicing marks, Indic vowels), unlike in `core.text.fold`.
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).translate(_FOLDING)
    return _ARTICLE.sub("", folded) if "ال" in folded else folded


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in order. English endings after an apostrophe are cut, other words split there."""
    folded = plain(text)
    if "'" in folded:
        folded = _ENDING.sub(" ", folded)
    return folded.translate(_APART).split() if folded.isascii() else WORD.findall(folded)


def content_words(text: str) -> list[str]:
    """Return the words that carry meaning, each once, in order; all of them when nothing else is left."""
    found = list(dict.fromkeys(words(text)))
    kept = [word for word in found if word not in STOP and (len(word) > 1 or word.isdigit() or not word.isascii())]
    return kept or found


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of letters of a run without spaces; a lone letter stands for itself."""
    letters = _letters(run)
    return [one + other for one, other in pairwise(letters)] or letters


def _letters(run: str) -> list[str]:
    if run >= "\u3000":
        return list(run)
    found: list[str] = []
    for char in run:
        if found and unicodedata.category(char)[0] == "M":
            found[-1] += char
        else:
            found.append(char)
    return found


def query_terms(text: str) -> list[str]:
    """Return what to look up for a query: content words, with runs without spaces as the pairs that the index holds."""
    terms: dict[str, None] = {}
    for word in content_words(text):
        if word.isascii() or not _RUN.search(word):
            terms[word] = None
            continue
        for run in _RUN.findall(word):
            terms.update(dict.fromkeys(bigrams(run)))
        terms.update(dict.fromkeys(part for part in _RUN.sub(" ", word).split() if part))
    return list(terms)


def forms(word: str) -> tuple[str, ...]:
    """Return the word and its irregular forms (`went` for `go`); the index's stemmer handles the regular ones."""
    return _FAMILY.get(word, (word,))


def slips(word: str) -> list[str]:
    """Return what an English word may have been meant for: a letter too many, one too few, or two in the wrong order.

    No other letter in place of one: that gives other words (`reward` for `regard`) as often as the one that was meant.
    """
    parts = [(word[:at], word[at:]) for at in range(1, len(word) + 1)]
    short = [head + tail[1:] for head, tail in parts if tail]
    swapped = [head + tail[1] + tail[0] + tail[2:] for head, tail in parts if len(tail) > 1]
    longer = [head + letter + tail for head, tail in parts for letter in ascii_lowercase]
    return sorted({*short, *swapped, *longer} - {word})


def search_text(text: str) -> str:
    """Return the text the full-text index stores for a line: folded as a question is, so that every word can be found.

    Plain English passes through unchanged. Runs without spaces become pairs and single letters, `camelCase` and `abc123`
    also get their parts.
    """
    extra = _identifier_parts(text)
    if not text.isascii():
        spaced = " ".join(WORD.findall(plain(text)))  # words as we see them: FTS5 has its own idea of rare characters
        text = _RUN.sub(lambda run: f" {' '.join(dict.fromkeys(bigrams(run[0]) + _letters(run[0])))} ", spaced)
    return f"{text} {extra}" if extra else text


def _identifier_parts(text: str) -> str:
    # One pass in C that turns every letter into its class: most lines are dismissed in a microsecond.
    classes = text.encode("utf-8", "surrogatepass").translate(_CLASSES)
    if not (
        b"aA" in classes
        or b"AAa" in classes
        or b"a0" in classes
        or b"A0" in classes
        or b"0a" in classes
        or b"0A" in classes
    ):
        return ""
    parts: list[str] = []
    for word in _ASCII_WORD.findall(text):
        if _MIXED.search(word):
            pieces = _PART.findall(word)
            if len(pieces) > 1:
                parts += pieces
    return " ".join(parts)


def measure(text: str) -> int:
    """Return how many words a text has, about; a script without spaces counts two characters as one."""
    return text.count(" ") + 1 if text.isascii() else max(text.count(" ") + 1, len(_UNSPACED_CHAR.findall(text)) // 2)


def stem(word: str) -> str:
    """Return a word without the commonest English endings: close enough to the stemmer of the index to compare words."""
    for ending in ("ingly", "edly", "ings", "ing", "ies", "ed", "es", "ly", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=4096)
def match_expression(word: str) -> str:
    """Return the FTS5 expression for a word: always quoted, so that no word is ever an operator."""
    found = " OR ".join('"' + form.replace('"', '""') + '"' for form in forms(word))
    # The stemmer of the index knows English: of other words the beginning stands for all forms.
    inflected = not word.isascii() and len(word) >= 5 and not _RUN.search(word)
    return f'{found} OR "{beginning(word)}"*' if inflected else found


def beginning(word: str) -> str:
    """Return the part of a word that its forms share, about: what an ending leaves of it."""
    return word[: max(4, len(word) - (2 if len(word) < 8 else 3))]


def is_inflected(word: str) -> bool:
    """Say whether a word of another language than English has forms to look for: it is long enough, and no number."""
    return len(word) >= 5 and word.isalpha() and not _RUN.search(word)


def kernel(word: str) -> str:
    """Return what the forms of a word share where many endings follow one another, as in Turkish: more is cut of a longer word."""
    return word[: max(4, round(len(word) * 0.67))]


LIMIT = 700
ENDING = 4  # letters that may follow the stem of a word


def excerpt(text: str, terms: Iterable[str], limit: int = LIMIT) -> str:
    """Return at most `limit` characters of a line, around most of the words looked for; short lines pass unchanged."""
    if len(text) <= limit:
        return text
    places = [start for start, _ in spans(text, terms)]
    if not places:
        return text[:limit].rstrip() + "…"
    # Places rise: how many lie within reach of one is where the reach ends among them.
    counts = [bisect_left(places, at + limit * 3 // 4) - index for index, at in enumerate(places)]
    start = max(0, places[counts.index(max(counts))] - limit // 8)
    if start:
        start = text.find(" ", start, start + 60) + 1 or start
    piece = text[start : start + limit].strip()
    return ("…" if start else "") + piece + ("…" if start + limit < len(text) else "")


def spans(text: str, terms: Iterable[str]) -> list[tuple[int, int]]:
    """Return where words of the question begin and end in a text, by stem; for marking and for cutting. They never overlap.

    Looked for one by one: a pattern of all words takes longer to compile than this takes for all lines that are shown.
    """
    folded = plain(text)
    if len(folded) != len(text):  # something was composed or expanded: places must be those of the text
        folded = "".join([low if len(low := char.lower()) == 1 else char for char in text])
    found = sorted([(start, -end) for word in _stems(tuple(terms)) for start, end in _places(folded, word)])
    kept: list[tuple[int, int]] = []
    for start, end in found:
        if not kept or start >= kept[-1][1]:
            kept.append((start, -end))
    return kept


@lru_cache(maxsize=256)
def _stems(terms: tuple[str, ...]) -> frozenset[str]:
    return frozenset(stem(form) for term in terms for form in forms(term))


def _places(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Yield words that start with a stem and end soon after; other scripts have no words, and match anywhere."""
    latin = word.isascii()
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not latin:
            yield start, end
        elif not (start and _in_word(text[start - 1])):
            last = min(end + ENDING, len(text))
            while end < last and text[end].isalnum():
                end += 1
            if end == len(text) or not _in_word(text[end]):
                yield start, end
        start = text.find(word, start + 1)


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"
