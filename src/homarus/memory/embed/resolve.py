"""Choose the embedder that the settings ask for. Never fails a search: what cannot be had is said, not raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from homarus.memory.embed.base import Embedder, EmbedError
from homarus.memory.settings import SERVICES, MemorySettings


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
        """Return where model files lie."""
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
        """Return what is in use now."""
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
    if models and (models / "minilm" / "minilm-int8.onnx").is_file() and find_spec("onnxruntime"):
        try:
            return Choice(build("minilm", settings, means))
        except EmbedError:
            pass
    if find_spec("wordllama") and find_spec("numpy") and find_spec("tokenizers"):
        try:
            return Choice(build("wordllama", settings, means))
        except EmbedError:
            pass
    return Choice()


def build(name: str, settings: MemorySettings, means: Means) -> Embedder:
    """Make one embedder; EmbedError says why it cannot be."""
    if not find_spec("numpy"):
        raise EmbedError("numpy is not installed", cure="pip install 'homarus[memory]'")
    models = means.folder(settings)
    makers: dict[str, Callable[[], Embedder]] = {
        "wordllama": _wordllama,
        "minilm": lambda: _minilm(settings, models),
        "local": lambda: _local(settings, models),
    }
    if name in makers:
        return makers[name]()
    if name in SERVICES:
        from homarus.memory.embed.remote import make

        return make(name, settings.for_service(name, means.keys))
    raise EmbedError(
        f"no embedder is called '{name}'", cure=f"use none, auto, wordllama, minilm, local, {', '.join(SERVICES)}"
    )


def _wordllama() -> Embedder:
    from homarus.memory.embed.wordllama import WordLlama

    return WordLlama()


def _minilm(settings: MemorySettings, models: Path | None) -> Embedder:
    from homarus.memory.embed.minilm import CURE, MiniLM

    given = settings.local.model_path
    folder = Path(given).expanduser() if given else models / "minilm" if models else None
    if folder is None:
        raise EmbedError("no folder with the MiniLM file is known", cure=CURE)
    return MiniLM(folder if folder.is_dir() or not folder.suffix else folder.parent)


def _local(settings: MemorySettings, models: Path | None) -> Embedder:
    from homarus.memory.embed.gguf import Gguf

    given = settings.local.model_path
    if not given:
        raise EmbedError("no GGUF file is named", cure="set memorySearch.local.modelPath to an embedding model")
    path = Path(given).expanduser()
    return Gguf(path if path.is_absolute() or models is None else models / path)
