"""How much each signal counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal[
    "words", "static", "lines", "model"
]  # words alone, static word vectors, one vector a line, a sentence model
KINDS_OF_VECTORS: tuple[Kind, ...] = ("words", "static", "lines", "model")
# What a token costs: lines are packed by score minus this much per e-fold of their length.
PRICE = 0.25
# Fitted on conversations that were left out one by one, then rounded (docs/memory-ranking.md); one column per kind.
FITTED: Mapping[str, tuple[float, float, float, float]] = {
    "word": (0.40, 0.0, 0.0, 0.0),
    "window": (0.90, 0.55, 0.55, 0.65),
    "near": (0.30, 0.0, 0.60, 0.0),
    "pair": (0.15, 0.20, 0.20, 0.15),
    "soft": (0.0, 0.60, 0.0, 0.65),
    "vector": (0.0, 0.50, 0.75, 0.50),
    "vectors": (0.0, 0.45, 0.70, 0.55),
    "sentence": (0.0, 0.0, 0.0, 0.45),
    "name": (0.45, 0.45, 0.45, 0.45),
    "own": (0.20, 0.15, 0.15, 0.15),
    "date": (1.30, 1.30, 1.30, 1.30),
    "when": (0.50, 0.50, 0.50, 0.50),
    "number": (0.35, 0.35, 0.35, 0.35),
    "proper": (0.30, 0.30, 0.25, 0.25),
    "answer": (0.50, 0.30, 0.25, 0.35),
    "day": (0.50, 0.40, 0.30, 0.30),
    "length": (0.55, 0.30, 0.40, 0.15),
    "question": (-0.10, -0.10, -0.10, -0.15),
}
# What no conversation can teach; each touches only notes that have such lines.
SET_BY_HAND = {"mention": 0.3, "above": 0.3, "heading": -0.5, "exact": 2.0, "superseded": -0.6, "recent": 0.1}


def table(kind: Kind) -> Mapping[str, float]:
    """Return the weights for what there is to rank with."""
    at = KINDS_OF_VECTORS.index(kind)
    return SET_BY_HAND | {name: row[at] for name, row in FITTED.items() if row[at]}
