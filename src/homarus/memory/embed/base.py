"""What an embedder is. Adapters raise EmbedError for every failure, so that memory can go on without vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from homarus.core.errors import HomarusError


class EmbedError(HomarusError):
    """No vectors now: the answer goes on without them and says so."""


class Embedder(Protocol):
    """Turns texts into vectors of length 1. Two embedders with the same identity give the same vectors."""

    provider: str
    model: str
    key: str  # hash of everything else that changes the output: address, headers, input type
    dims: int
    remote: bool  # costs money or waits for a network: never used for notes inside a search
    batch: int  # texts per call

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        """Return a float32 array of shape (len(texts), dims), rows of length 1."""
        ...


class WordEmbedder(Embedder, Protocol):
    """An embedder that is cheap enough to give each word of the notes a vector: words are then compared one by one."""

    def encode_words(self, words: Sequence[str]) -> Any:
        """Return one row per word."""
        ...
