"""How much each signal counts. Fitted on conversations that were left out one by one, then rounded; see docs/memory.md.

Signals are named in `signals` and `vectors`. Those that no conversation can teach (headings, exact quotations, replaced
facts) are set by hand and touch only notes that have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

# What a token costs: lines are packed by score minus this much per e-fold of their length.
PRICE = 0.25

# Signals that conversations teach; `python -m bench.memory` fits them. The others are set by hand.
FITTED = (
    *("word", "window", "near", "pair", "soft", "vector", "vectors", "sentence", "name", "own", "date", "when"),
    *("number", "proper", "answer", "day", "length", "question"),
)
_SET_BY_HAND = {"mention": 0.3, "above": 0.3, "heading": -0.5, "exact": 2.0, "superseded": -0.6, "recent": 0.1}
_COMMON = {"date": 1.3, "when": 0.5, "name": 0.45}
WORDS: Mapping[str, float] = {
    **_SET_BY_HAND,
    **_COMMON,
    "word": 0.4,
    "window": 0.9,
    "near": 0.3,
    "pair": 0.15,
    "answer": 0.5,
    "day": 0.5,
    "length": 0.55,
    "number": 0.35,
    "proper": 0.3,
    "own": 0.2,
    "question": -0.1,
}
STATIC: Mapping[str, float] = {
    **_SET_BY_HAND,
    **_COMMON,
    "window": 0.55,
    "pair": 0.2,
    "soft": 0.6,
    "vector": 0.5,
    "vectors": 0.45,
    "answer": 0.3,
    "day": 0.4,
    "length": 0.3,
    "number": 0.35,
    "proper": 0.3,
    "own": 0.15,
    "question": -0.1,
}
LINES: Mapping[str, float] = {
    **_SET_BY_HAND,
    **_COMMON,
    "window": 0.55,
    "near": 0.6,
    "pair": 0.2,
    "vector": 0.75,
    "vectors": 0.7,
    "answer": 0.25,
    "day": 0.3,
    "length": 0.4,
    "number": 0.35,
    "proper": 0.25,
    "own": 0.15,
    "question": -0.1,
}
MODEL: Mapping[str, float] = {
    **_SET_BY_HAND,
    **_COMMON,
    "pair": 0.15,
    "window": 0.65,
    "soft": 0.65,
    "vector": 0.5,
    "vectors": 0.55,
    "sentence": 0.45,
    "answer": 0.35,
    "day": 0.3,
    "length": 0.15,
    "number": 0.35,
    "proper": 0.25,
    "own": 0.15,
    "question": -0.15,
}
_TABLES: dict[str, Mapping[str, float]] = {"words": WORDS, "static": STATIC, "lines": LINES, "model": MODEL}
Kind = Literal["words", "static", "lines", "model"]


def table(kind: Kind) -> Mapping[str, float]:
    """Return the weights for what is there: words alone, static word vectors, one vector a line, a sentence model."""
    return _TABLES[kind]
