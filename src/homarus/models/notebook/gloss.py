"""German by English words, one by one: what a reader needs that was raised on English. Pure.

`gloss.txt` holds a word and what it means a line. Endings, participles and compounds are tried in turn, so that the table
needs no more than the base forms. It is no translation: order and grammar stay as they were.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources

from homarus.core.patterns import late
from homarus.models.notebook.language import listed, read, stem
from homarus.models.notebook.pieces import is_word

_WORD = late(r"[^\W\d_]+")
_ENDINGS = ("e", "n", "s", "t", "en", "em", "er", "es", "st", "te", "ern", "ten", "tet")
_UMLAUTS = (("ä", "a"), ("ö", "o"), ("ü", "u"))
_SPELT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_IN_BOTH = frozenset({"was", "an", "list", "hat", "will"})
SHORTEST, PART = 3, 4  # letters of a stem, and of the part of a compound
EACH = 8  # German words for an English one, to look for
LONGEST = 48  # letters of a word; what is longer is no word, and would take long to look up


@lru_cache(maxsize=2048)
def english(text: str) -> str:
    """Return a text with its German words in English; in an English one only words that are none."""
    words = [word.lower() for word in _WORD.findall(text)]
    german = read(text).german or _may_be_german(words)

    def put(found: re.Match[str]) -> str:
        word = found[0].lower()
        return found[0] if not german and is_word(word) else meaning(word) or found[0]

    return _WORD.sub(put, text)


def in_german(text: str) -> bool:
    """Say whether a text is to be answered in German: its small words say so, or, if it has none, a word that only German has."""
    if read(text).german:
        return True
    words = [word.lower() for word in _WORD.findall(text)]
    if any(word in listed("english") and word not in _IN_BOTH for word in words):
        return False
    german = [word for word in words if word in listed("german") or (base(word) and not _is_english(word))]
    return len(german) >= (1 if len(words) <= 4 else 2)


def _is_english(word: str) -> bool:
    return (
        len(word) <= SHORTEST
        or word.startswith("todo")
        or any(is_word(word.removesuffix(ending)) for ending in ("", "s", "es", "d", "ed", "ing"))
    )


def other_language(text: str, most: int = 60) -> str:
    """Return the words of a question in the other of the two languages, for a search that knows only words."""
    if read(text).german:
        return english(text)
    found: dict[str, None] = {}
    for word in read(text).parts:
        if not (word.light or word.name):
            found.update(dict.fromkeys(_by_meaning().get(word.stem, ())[:EACH]))
    return " ".join(list(found)[:most])


@cache
def _by_meaning() -> dict[str, list[str]]:
    """Return the German words by each English one that they mean, those that mean nothing else first."""
    found: dict[str, list[str]] = {}
    without = {word.translate(_SPELT) for word in _table() if not word.isascii()}  # searches see ä as a, not as ae
    for word, said in sorted(_table().items(), key=lambda row: len(row[1])):
        for part in said.split() if word not in without else ():
            found.setdefault(stem(part), []).append(word)
    return found


def _may_be_german(words: list[str]) -> bool:
    """Say whether a few words without any small one among them, as typed into a search, are all German ones."""
    long = [word for word in words if len(word) > SHORTEST]
    return bool(long) and len(words) <= 4 and all(not is_word(word) or base(word) for word in long)


def meaning(word: str) -> str:
    """Return what a German word means, by its parts where nobody wrote it down; empty for names and words that English has too."""
    return base(word) or ("" if is_word(word) or len(word) > LONGEST else _compound(word))


@lru_cache(maxsize=4096)
def base(word: str) -> str:
    """Return what a word means as it stands, or without its ending."""
    table = _table()
    if len(word) > LONGEST or word in table:
        return table.get(word, "")
    for ending in ("", *_ENDINGS):
        stem = word.removesuffix(ending)
        if word.endswith(ending) and len(stem) >= SHORTEST:
            for form in (stem, f"{stem}e", f"{stem}en", f"{stem}n"):
                if form in table:
                    return table[form]
    for umlaut, plain in _UMLAUTS:
        if umlaut in word and (found := base(word.replace(umlaut, plain))):
            return found
    return base(word[2:]) if word.startswith("ge") and len(word) > 5 else ""


def _compound(word: str) -> str:
    """Return the meaning of two parts, or of the last one alone behind the letters of the first."""
    table = _table()
    for cut in range(len(word) - SHORTEST, PART - 1, -1):
        first = word[:cut]
        joined = first[:-1] if first.endswith(("s", "n")) and len(first) > PART else first
        head = table.get(first) or table.get(joined) or table.get(f"{first}e")
        if head and (tail := base(word[cut:])):
            return f"{head} {tail}"
    for cut in range(PART, len(word) - PART):
        if tail := base(word[cut:]):
            return f"{word[:cut]} {tail}"
    return ""


@cache
def _table() -> dict[str, str]:
    """Return the table; a word is also found as it is typed without umlauts."""
    lines = resources.files(__package__).joinpath("gloss.txt").read_text(encoding="utf-8").splitlines()
    table = dict(line.split(" ", 1) for line in lines)
    return {word.translate(_SPELT): said for word, said in table.items()} | table
