"""What an embedder is, which one the settings ask for, and arrays that several need.

Adapters raise EmbedError for every failure; what cannot be had is said, and memory goes on without vectors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from homarus.core.errors import HomarusError, installing
from homarus.memory.settings import SERVICES, MemorySettings


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
        """Return a float32 array of shape (len(texts), dims), rows of length 1.

        An embedder that also has `encode_words` gives each word of the notes a vector: words are then compared one by one.
        """
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


class Choice(Struct):
    """The embedder in use, and what had to be given up for it."""

    embedder: Embedder | None = None
    fallback: str = ""  # the provider that was asked for and did not work
    degraded: str = ""


class Means(Struct, frozen=True):
    """What embedders are made from, beside the settings."""

    models: Path | None = None
    keys: Mapping[str, str] = {}

    def folder(self, settings: MemorySettings) -> Path | None:
        given = settings.local.model_cache_dir
        return Path(given).expanduser() if given else self.models


class Embedders:
    """The embedder of one memory, looked for at the first question and given up together by all who share it."""

    def __init__(
        self,
        settings: MemorySettings,
        models: Path | None = None,
        embedder: Embedder | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        """`keys` are those of services by their names, for where the settings give none."""
        self._settings = settings
        self._means = Means(models, keys or {})
        self._choice = Choice(embedder) if embedder is not None else None

    @property
    def choice(self) -> Choice:
        if self._choice is None:
            self._choice = choose(self._settings, self._means)
        return self._choice

    def give_up(self, choice: Choice, problem: EmbedError) -> None:
        """Go on with the fallback, or by words alone; every answer from now on says so."""
        if self._choice is not choice:
            return  # another who shares it was faster
        wanted = choice.embedder.provider if choice.embedder else self._settings.provider
        self._choice = (
            stand_in(self._settings, self._means, wanted, problem)
            if not choice.fallback
            else Choice(fallback=choice.fallback, degraded=f"{choice.degraded}; {problem}; searching by words alone")
        )


def choose(settings: MemorySettings, means: Means = Means()) -> Choice:  # noqa: B008 - frozen
    """Return the embedder of the settings, or the fallback, or none; with the reason whenever it is not the first."""
    wanted = settings.provider or "auto"
    if wanted == "none" or not settings.store.vector.enabled:
        return Choice()
    if wanted == "auto":
        return _auto(settings, means)
    try:
        return Choice(build(wanted, settings, means))
    except EmbedError as problem:
        return stand_in(settings, means, wanted, problem)


def stand_in(settings: MemorySettings, means: Means, wanted: str, problem: EmbedError) -> Choice:
    """Return what the settings name as fallback; otherwise words alone."""
    reason = f"{wanted} gives no vectors: {problem}"
    if settings.fallback not in {"", "none", wanted}:
        try:
            return Choice(build(settings.fallback, settings, means), fallback=wanted, degraded=reason)
        except EmbedError as second:
            reason = f"{reason}; nor does {settings.fallback}: {second}"
    return Choice(fallback=wanted, degraded=f"{reason}; searching by words alone")


def _auto(settings: MemorySettings, means: Means) -> Choice:
    """Take the best that is on this machine; nothing is downloaded and no key is used without being asked for."""
    models = means.folder(settings)
    minilm = models and (models / "minilm" / "minilm-int8.onnx").is_file() and find_spec("onnxruntime")
    for name, there in (("minilm", minilm), ("wordllama", find_spec("wordllama") and find_spec("tokenizers"))):
        try:
            if there:
                return Choice(build(name, settings, means))
        except EmbedError:
            pass
    return Choice()


def build(name: str, settings: MemorySettings, means: Means) -> Embedder:
    """Make one embedder; EmbedError says why it cannot be."""
    if not find_spec("numpy"):
        raise EmbedError("numpy is not installed", cure=installing("homarus[memory]"))
    models, given = means.folder(settings), settings.local.model_path
    if name in {"wordllama", "minilm", "local"}:
        from homarus.memory.embed import local

        if name == "wordllama":
            return local.WordLlama()
        place = Path(given).expanduser() if given else models / "minilm" if models and name == "minilm" else None
        if place is None:
            cure = local.CURE if name == "minilm" else "set memorySearch.local.modelPath to an embedding model"
            raise EmbedError(
                "no folder with the MiniLM file is known" if name == "minilm" else "no GGUF file is named", cure=cure
            )
        if name == "minilm":
            return local.MiniLM(place if place.is_dir() or not place.suffix else place.parent)
        return local.Gguf(place if place.is_absolute() or models is None else models / place)
    if name in SERVICES:
        from homarus.memory.embed.remote import make

        return make(name, settings.for_service(name, means.keys))
    raise EmbedError(
        f"no embedder is called '{name}'", cure=f"use none, auto, wordllama, minilm, local, {', '.join(SERVICES)}"
    )
