"""Words as the index and the query see them: stop words, CJK bigrams, parts of identifiers. Pure; knows no database."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from homarus.core.patterns import late
from homarus.core.text import STOP_WORDS

STOP = STOP_WORDS | frozenset(
    [
        "after",
        "all",
        "also",
        "before",
        "being",
        "between",
        "both",
        "d",
        "doing",
        "don",
        "done",
        "each",
        "else",
        "having",
        "he",
        "her",
        "him",
        "his",
        "into",
        "just",
        "ll",
        "m",
        "more",
        "most",
        "must",
        "nor",
        "off",
        "once",
        "only",
        "other",
        "out",
        "over",
        "own",
        "re",
        "s",
        "same",
        "she",
        "such",
        "t",
        "than",
        "their",
        "them",
        "then",
        "they",
        "too",
        "up",
        "ve",
        "very",
    ]
)

WORD = late(r"[^\W_]+(?:'[^\W\d_]+)?")
_APART = "".join(
    chr(code) if chr(code).isalnum() else " " for code in range(128)
)  # the same for ASCII, in a third of the time
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
_CJK_RUN = late(f"[{_CJK}]+")
_CJK_CHAR = late(f"[{_CJK}]")
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
_FAMILY: dict[str, tuple[str, ...]] = {}
for _group in _IRREGULAR.replace("\n", "|").split("|"):
    _forms = tuple(_group.split())
    for _form in _forms:
        _FAMILY[_form] = _forms


def plain(text: str) -> str:
    """Return text as the index compares it: no case, no accents on letters that take them, one width of characters.

    Marks that make another letter (Japanese, Korean, Indic scripts) stay, unlike in `core.text.fold`.
    """
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFKC", text).casefold()
    return "".join(
        unicodedata.normalize("NFD", char)[0] if "\u00c0" <= char < "\u2000" else char
        for char in composed
        if not "\u0300" <= char <= "\u036f"
    )


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in order; possessive endings are cut."""
    folded = plain(text).replace("’", "'")
    if "'" in folded:
        return [word.partition("'")[0] for word in WORD.findall(folded)]
    return folded.translate(_APART).split() if folded.isascii() else WORD.findall(folded)


def content_words(text: str) -> list[str]:
    """Return the words that carry meaning, each once, in order; all of them when nothing else is left."""
    found = list(dict.fromkeys(words(text)))
    kept = [word for word in found if word not in STOP and (len(word) > 1 or word.isdigit() or not word.isascii())]
    return kept or found


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of a run of CJK characters; a lone character stands for itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def query_terms(text: str) -> list[str]:
    """Return what to look up for a query: content words, with CJK runs as the bigrams that the index holds."""
    terms: dict[str, None] = {}
    for word in content_words(text):
        if word.isascii() or not _CJK_RUN.search(word):
            terms[word] = None
            continue
        for run in _CJK_RUN.findall(word):
            terms.update(dict.fromkeys(bigrams(run)))
        terms.update(dict.fromkeys(part for part in _CJK_RUN.sub(" ", word).split() if part))
    return list(terms)


def forms(word: str) -> tuple[str, ...]:
    """Return the word and its irregular forms (`went` for `go`); the index's stemmer handles the regular ones."""
    return _FAMILY.get(word, (word,))


def search_text(text: str) -> str:
    """Return the text the full-text index stores for a line, so that every script and identifier can be found.

    Plain English passes through unchanged. CJK runs become bigrams, `camelCase` and `abc123` also get their parts.
    """
    if text.isascii():
        extra = _identifier_parts(text)
        return f"{text} {extra}" if extra else text
    wide = unicodedata.normalize("NFKC", text)
    spaced = _CJK_RUN.sub(lambda run: " " + " ".join(bigrams(run[0]) + _ends(run[0])) + " ", wide)
    extra = _identifier_parts(text)
    return f"{spaced} {extra}" if extra else spaced


def _ends(run: str) -> list[str]:
    # A one-character query word must find a longer run: its single characters are indexed as well.
    return list(dict.fromkeys(run)) if len(run) > 1 else []


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
    return text.count(" ") + 1 if text.isascii() else max(text.count(" ") + 1, len(_CJK_CHAR.findall(text)) // 2)


def stem(word: str) -> str:
    """Return a word without the commonest English endings: close enough to the stemmer of the index to compare words."""
    for ending in ("ingly", "edly", "ings", "ing", "ies", "ed", "es", "ly", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=4096)
def match_expression(word: str) -> str:
    """Return the FTS5 expression for a word: always quoted, so that no word is ever an operator."""
    return " OR ".join('"' + form.replace('"', '""') + '"' for form in forms(word))
