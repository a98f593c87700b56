"""A local GGUF embedding model through llama.cpp (`xllamacpp`), in this process. No network, no other program."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from homarus.memory.embed.base import EmbedError, unit_rows

CURE = "pip install 'homarus[local]' and set memorySearch.local.modelPath to an embedding model in GGUF"


class Gguf:
    """Loads the file at the first text. Anything that answers `handle_embeddings` can stand in for the server."""

    provider = "local"
    remote = False
    static = False
    batch = 32

    def __init__(self, path: Path, *, server: Any = None, threads: int = 2) -> None:
        if server is None and not path.is_file():
            raise EmbedError(f"{path} does not exist", cure=CURE)
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
                raise EmbedError("xllamacpp is not installed", cure=CURE) from problem
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
        """Return one row per text."""
        import numpy as np

        try:
            answer = self._open().handle_embeddings({"input": [text[:6000] or " " for text in texts]})
            rows = np.array([entry["embedding"] for entry in answer["data"]], dtype=np.float32)
        except EmbedError:
            raise
        except (RuntimeError, KeyError, TypeError, ValueError) as problem:
            raise EmbedError(f"{self._path.name} gave no vectors: {problem}", cure=CURE) from problem
        if rows.ndim != 2 or len(rows) != len(texts):
            raise EmbedError(f"{self._path.name} gave {len(rows)} vectors for {len(texts)} texts", cure=CURE)
        self.dims = int(rows.shape[1])
        return unit_rows(rows)
