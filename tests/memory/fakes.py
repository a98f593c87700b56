"""Embedders for tests: vectors from letters, so that like words lie near each other; and one that fails on demand."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import pytest

from homarus.memory.embed.base import EmbedError

np = pytest.importorskip("numpy")

MEANINGS = [
    {"boat", "ship", "vessel", "sail", "yacht"},
    {"car", "vehicle", "automobile", "drive"},
    {"doctor", "physician", "clinic", "medic"},
    {"money", "euros", "price", "cost", "cash"},
]


class FakeEmbedder:
    provider = "fake"
    key = "k"
    remote = False
    static = False
    batch = 16

    def __init__(self, *, dims: int = 32, model: str = "m1", fail: bool = False) -> None:
        self.dims = dims
        self.model = model
        self.fail = fail
        self.calls: list[list[str]] = []

    def _word(self, word: str):
        for number, meaning in enumerate(MEANINGS):
            if word in meaning:
                word = f"meaning{number}"
        seed = int.from_bytes(sha256(word.encode()).digest()[:4], "big")
        return np.random.default_rng(seed).standard_normal(self.dims).astype(np.float32)

    def encode(self, texts: Sequence[str], *, query: bool = False):
        if self.fail:
            raise EmbedError("the fake is out of order", cure="mend it")
        self.calls.append(list(texts))
        rows = np.stack(
            [
                sum(
                    (self._word(word) for word in text.lower().replace(".", "").split()),
                    np.zeros(self.dims, np.float32),
                )
                for text in texts
            ]
        )
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


class FakeWords(FakeEmbedder):
    static = True

    def encode_words(self, words: Sequence[str]):
        return self.encode(list(words))


class FakeModel(FakeWords):
    """A sentence model on this machine: knows words, and reads sentences as a whole."""

    static = False
