"""Embedders on this machine, none of which ever asks the network. Each is imported when it is chosen.

`WordLlama`: static word vectors from the `wordllama` wheel, 256 numbers a token. The package's own loader looks for its tokenizer
in the wrong folder and then asks the network, so its two files are read directly. `MiniLM`: all-MiniLM-L6-v2 as int8 ONNX, the best
offline recall for 23 MB, from `minilm-int8.onnx` with `tokenizer.json` beside it, made once by `homarus memory export-minilm` or given
by the user; needs onnxruntime and tokenizers, never torch. `Gguf`: an embedding model through llama.cpp (`xllamacpp`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from homarus.core.errors import installing
from homarus.memory.embed.base import EmbedError, package_folder, read_tensors, unit_rows

FEW = 16  # texts, as of a question, that are not worth waking other threads for
WORDS_CURE = installing("homarus[memory]")


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
            raise EmbedError("wordllama is not installed", cure=WORDS_CURE)
        weights = sorted((place / "weights").glob("*_256.safetensors"))
        tokenizers = sorted((place / "tokenizers").glob("*tokenizer_config.json"))
        if not weights or not tokenizers:
            raise EmbedError(f"{place} holds no 256-d weights", cure=WORDS_CURE)
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
            raise EmbedError("the tokenizers package is missing", cure=WORDS_CURE) from problem
        tokenizer = Tokenizer.from_file(str(self._words))
        tokenizer.no_padding()
        return tokenizer

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
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


CURE = f"{installing('homarus[memory-minilm]')} and run 'homarus memory export-minilm'"
MODEL, TOKENIZER = "minilm-int8.onnx", "tokenizer.json"
MAX_TOKENS = 256


class MiniLM:
    """Sentence vectors of 384 numbers; about 400 lines a second on two cores."""

    provider = "minilm"
    remote = False
    static = False
    batch = 64

    def __init__(self, folder: Path, *, threads: int = 2) -> None:
        model, tokenizer = folder / MODEL, folder / TOKENIZER
        if not model.is_file() or not tokenizer.is_file():
            raise EmbedError(f"{folder} holds no {MODEL} with {TOKENIZER}", cure=CURE)
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as problem:
            raise EmbedError(f"{problem.name} is not installed", cure=CURE) from problem
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._names = {entry.name for entry in self._session.get_inputs()}
        self.dims = int(self._session.get_outputs()[0].shape[-1])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        self.model = "all-MiniLM-L6-v2-int8"
        self.key = f"{model.stat().st_size}"

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        """Return one row per text; texts of like length run together, so that little is padded."""
        import numpy as np

        found = self._tokenizer.encode_batch(list(texts))
        order = sorted(range(len(found)), key=lambda at: len(found[at].ids))
        rows = np.zeros((len(texts), self.dims), dtype=np.float32)
        for start in range(0, len(order), 32):
            part = order[start : start + 32]
            width = max(len(found[at].ids) for at in part)
            ids = np.zeros((len(part), width), dtype=np.int64)
            mask = np.zeros((len(part), width), dtype=np.int64)
            for row, at in enumerate(part):
                ids[row, : len(found[at].ids)] = found[at].ids
                mask[row, : len(found[at].ids)] = 1
            rows[part] = self._run(ids, mask)
        return unit_rows(rows)

    def encode_words(self, words: Sequence[str]) -> Any:
        """Return one row per word, each read alone: related words then lie near each other."""
        return self.encode(words)

    def _run(self, ids: Any, mask: Any) -> Any:
        import numpy as np

        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        out = self._session.run(None, {name: value for name, value in feeds.items() if name in self._names})[0]
        if out.ndim == 2:
            return out
        weights = mask[:, :, None].astype(np.float32)  # a model that ends before pooling
        return (out * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)


GGUF_CURE = f"{installing('homarus[local]')} and set memorySearch.local.modelPath to an embedding model in GGUF"


class Gguf:
    """Loads the file at the first text. Anything that answers `handle_embeddings` can stand in for the server."""

    provider = "local"
    remote = False
    static = False
    batch = 32

    def __init__(self, path: Path, *, server: Any = None, threads: int = 2) -> None:
        if server is None and not path.is_file():
            raise EmbedError(f"{path} does not exist", cure=GGUF_CURE)
        self.model = path.name
        self.key = str(path.stat().st_size) if path.is_file() else ""
        self.dims = 0
        self._path = path
        self._threads = threads
        self._server = server

    def _open(self) -> Any:
        if self._server is None:
            try:
                import xllamacpp
            except ImportError as problem:
                raise EmbedError("xllamacpp is not installed", cure=GGUF_CURE) from problem
            params = xllamacpp.CommonParams()
            params.model.path = str(self._path)
            params.embedding = True
            params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
            params.n_ctx = params.n_batch = params.n_ubatch = 2048
            params.cpuparams.n_threads = self._threads
            params.n_parallel = 1
            params.no_extra_bufts = True
            params.warmup = False
            params.verbosity = -1
            params.api_keys = [secrets.token_urlsafe(32)]  # its server listens on loopback: nobody else may ask it
            self._server = xllamacpp.Server(params)
        return self._server

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        import numpy as np

        try:
            answer = self._open().handle_embeddings({"input": [text[:6000] or " " for text in texts]})
            rows = np.array([entry["embedding"] for entry in answer["data"]], dtype=np.float32)
        except EmbedError:
            raise
        except (RuntimeError, KeyError, TypeError, ValueError) as problem:
            raise EmbedError(f"{self._path.name} gave no vectors: {problem}", cure=GGUF_CURE) from problem
        if rows.ndim != 2 or len(rows) != len(texts):
            raise EmbedError(f"{self._path.name} gave {len(rows)} vectors for {len(texts)} texts", cure=GGUF_CURE)
        self.dims = int(rows.shape[1])
        return unit_rows(rows)
