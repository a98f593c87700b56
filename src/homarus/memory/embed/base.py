"""What an embedder is, and arrays that several need. Adapters raise EmbedError for every failure: memory goes on without vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
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


_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "<i1", "U8": "<u1"}
_MAX_HEADER = 100 << 20


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the arrays of a file, mapped from disk; a file that is something else is refused."""
    import numpy as np

    try:
        with path.open("rb") as handle:
            size = int.from_bytes(handle.read(8), "little")
            if not 2 <= size <= _MAX_HEADER:
                raise EmbedError(f"{path} is no safetensors file", cure="install the package that holds it again")
            header = json.loads(handle.read(size))
        data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
        return {
            name: data[slice(*entry["data_offsets"])].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise EmbedError(f"cannot read {path}: {problem}", cure="install the package that holds it again") from problem


def unit_rows(rows: Any) -> Any:
    """Return rows scaled to length 1; a row of zeros stays, and what is no number counts as zero: it would poison every sum."""
    import numpy as np

    rows = np.where(np.isfinite(rows), rows, 0.0)
    return (rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)).astype(np.float32)


def package_folder(name: str) -> Path | None:
    """Return where an installed package lies, without importing it."""
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None or not spec.origin:
        return None
    return Path(spec.origin).parent
