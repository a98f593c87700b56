"""Static word vectors from the `wordllama` wheel: 256 numbers a token, no network and no model run.

The package's own loader looks for its tokenizer in the wrong folder and then asks the network, so it is not used: the
two files are read directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from homarus.memory.embed.base import EmbedError, package_folder, read_tensors, unit_rows

FEW = 16  # texts, as of a question, that are not worth waking other threads for
CURE = "pip install 'homarus[memory]'"


class WordLlama:
    """Mean of token vectors. Microseconds a line, so it also serves inside a search."""

    provider = "wordllama"
    remote = False
    static = True
    batch = 512

    def __init__(self, folder: Path | None = None) -> None:
        import numpy as np

        place = folder or package_folder("wordllama")
        if place is None:
            raise EmbedError("wordllama is not installed", cure=CURE)
        weights = sorted((place / "weights").glob("*_256.safetensors"))
        tokenizers = sorted((place / "tokenizers").glob("*tokenizer_config.json"))
        if not weights or not tokenizers:
            raise EmbedError(f"{place} holds no 256-d weights", cure=CURE)
        # As a plain array: every access to a memmap makes another memmap.
        self._table = np.asarray(next(iter(read_tensors(weights[0]).values())))
        self._words = tokenizers[0]
        self.dims = int(self._table.shape[1])
        self.model = weights[0].stem
        self.key = "mean"

    @cached_property
    def _tokenizer(self) -> Any:
        """Read at the first text: who only asks what is in use does not pay for it."""
        try:
            from tokenizers import Tokenizer
        except ImportError as problem:
            raise EmbedError("the tokenizers package is missing", cure=CURE) from problem
        tokenizer = Tokenizer.from_file(str(self._words))
        tokenizer.no_padding()
        return tokenizer

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        """Return one row per text."""
        import numpy as np

        rows = np.zeros((len(texts), self.dims), dtype=np.float32)
        limit = len(self._table)
        for at, found in enumerate(self._tokens(texts)):
            ids = [token for token in found.ids if token < limit]
            if ids:
                rows[at] = self._table[ids].sum(0, dtype=np.float32)  # the mean but for its length, which is made 1
        return unit_rows(rows)

    def _tokens(self, texts: Sequence[str]) -> Any:
        if len(texts) > FEW:
            return self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]

    def encode_words(self, words: Sequence[str]) -> Any:
        """Return one row per word; the leading blank makes it the form that stands inside a sentence."""
        if len(words) > FEW:
            return self.encode([" " + word for word in words])
        import numpy as np

        return np.array([self._word(word) for word in words], dtype=np.float32)

    @cached_property
    def _word(self) -> Callable[[str], Any]:
        """Return what encodes a word of a question; people ask about the same things again."""
        return lru_cache(maxsize=1024)(lambda word: self.encode([" " + word])[0])
