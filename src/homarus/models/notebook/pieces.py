"""Words in pieces, as BERT's models take them: whole where they are common, else by their longest known parts. Pure.

`pieces.txt` is that vocabulary without what no English or German note holds; a piece inside a word begins with ##.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from importlib import resources

from homarus.core.patterns import late

_TOKEN = late(r"[a-z0-9]+|[^\sa-z0-9]")
LONGEST = 40  # letters of a word


def is_word(word: str) -> bool:
    """Say whether a word of small letters is a common one in English."""
    return word in vocabulary()


@lru_cache(maxsize=2048)
def pieces(text: str) -> tuple[int, ...]:
    """Return the numbers of a text's pieces, from 1; what is in no piece is left out."""
    plain = "".join(char for char in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(char) != "Mn")
    return tuple(number for token in _TOKEN.findall(plain) for number in _pieces(token[:LONGEST]))


def _pieces(token: str) -> list[int]:
    known = vocabulary()
    found: list[int] = []
    start = 0
    while start < len(token):
        mark = "##" if start else ""
        end = next((end for end in range(len(token), start, -1) if mark + token[start:end] in known), 0)
        if not end:
            return []
        found.append(known[mark + token[start:end]])
        start = end
    return found


@cache
def vocabulary() -> dict[str, int]:
    words = resources.files(__package__).joinpath("pieces.txt").read_text(encoding="ascii").split()
    return {word: number for number, word in enumerate(words, 1)}
