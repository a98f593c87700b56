"""The `memorySearch` block: every key of OpenClaw's, with its default in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from homarus.config.convert import did_you_mean, one_of
from homarus.config.keypath import KeyPath
from homarus.core.text import single_line

# Services behind a network, and where the key of each is looked for when `remote.apiKey` names none.
SERVICES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "openai-compatible": (),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "voyage": ("VOYAGE_API_KEY",),
    "ollama": (),
    "mistral": ("MISTRAL_API_KEY",),
    "lmstudio": (),
    "deepinfra": ("DEEPINFRA_API_KEY",),
}
PROVIDERS = ("auto", "none", "local", "minilm", "wordllama", *SERVICES)


class ExtraPath(Struct, frozen=True, rename="camel"):
    """A file or folder outside the usual ones, with a glob that its files must match."""

    path: str
    pattern: str = ""


class Batch(Struct, frozen=True, rename="camel"):
    """How requests to a remote embedder are grouped; `enabled` hands notes in as jobs (OpenAI, Gemini, Voyage)."""

    max_tokens: int = 8_000
    concurrency: int = 4
    enabled: bool = False
    poll_interval_ms: int = 2_000
    timeout_minutes: float = 60.0


class Remote(Struct, frozen=True, rename="camel"):
    base_url: str = ""
    api_key: str | dict[str, Any] = ""  # text, or where the secret lies
    headers: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float = 60.0
    batch: Batch = Batch()


class Local(Struct, frozen=True, rename="camel"):
    model_path: str = ""
    model_cache_dir: str = ""


class Vector(Struct, frozen=True, rename="camel"):
    """Whether vectors are kept; `extensionPath` is read and not needed."""

    enabled: bool = True
    extension_path: str = ""


class Store(Struct, frozen=True, rename="camel"):
    """Where the derived index lies; `{agentId}` in the path is replaced."""

    driver: str = "sqlite"
    path: str = ""
    vector: Vector = Vector()


class Chunking(Struct, frozen=True, rename="camel"):
    tokens: int = 400
    overlap: int = 80


class SessionDelta(Struct, frozen=True, rename="camel"):
    """How much a transcript must grow before the background indexes it; 0 switches a rule off."""

    delta_bytes: int = 100_000
    delta_messages: int = 50


class Sync(Struct, frozen=True, rename="camel"):
    on_session_start: bool = True
    on_search: bool = True
    watch: bool = True
    watch_debounce_ms: int = 1_500
    interval_minutes: int = 0
    sessions: SessionDelta = SessionDelta()


class Mmr(Struct, frozen=True, rename="camel"):
    """Diversity by maximal marginal relevance; measured to change nothing or lose, so off."""

    enabled: bool = False
    lambda_: float = field(default=0.7, name="lambda")


class TemporalDecay(Struct, frozen=True, rename="camel"):
    """Multiplies scores by age. Off: a note of six months would keep 1.6 % of its score, whatever it says."""

    enabled: bool = False
    half_life_days: float = 30.0


MIN_SCORE = 0.35  # what is weaker is left out where there is better


class Hybrid(Struct, frozen=True, rename="camel"):
    """The knobs of OpenClaw's chunk ranking; turning one chooses that ranking."""

    enabled: bool = True
    vector_weight: float = 0.7
    text_weight: float = 0.3
    candidate_multiplier: int = 4
    mmr: Mmr = Mmr()
    temporal_decay: TemporalDecay = TemporalDecay()


class QuerySettings(Struct, frozen=True, rename="camel"):
    """How results are chosen. `ranking` is ours: fused lines, or OpenClaw's chunks.

    A `min_score` that somebody set is a floor; without one weak matches are left out only where there are better ones.
    """

    max_results: int = 6
    min_score: float | None = None
    ranking: Literal["auto", "fused", "hybrid"] = "auto"
    hybrid: Hybrid = Hybrid()
    sessions_share: float = 0.5

    @property
    def ranks_chunks(self) -> bool:
        """Say whether whole chunks are ranked: asked for by name, or by knobs that only mean something there."""
        return self.ranking == "hybrid" or (self.ranking == "auto" and self.hybrid != Hybrid())


class EmbeddingCache(Struct, frozen=True, rename="camel"):
    """Vectors by text, so that an edit costs only what changed."""

    enabled: bool = True
    max_entries: int = 50_000


class Experimental(Struct, frozen=True, rename="camel"):
    """The older switch for transcripts as a source."""

    session_memory: bool = False


class PreReply(Struct, frozen=True, rename="camel"):
    """Recall before each reply, put on the newest user turn. Off by default."""

    enabled: bool = False
    budget_tokens: int = 400
    timeout_seconds: float = 2.0  # then the turn goes on without


class MemorySettings(Struct, frozen=True, rename="camel"):
    """`agents.defaults.memorySearch` (early 2026) or `memory.search` (today): the same keys."""

    enabled: bool = True
    sources: tuple[Annotated[str, one_of(("memory", "sessions"))], ...] = ("memory",)
    extra_paths: tuple[str | ExtraPath, ...] = ()
    provider: str = "auto"
    model: str = ""
    fallback: str = "none"
    remote: Remote = Remote()
    local: Local = Local()
    store: Store = Store()
    chunking: Chunking = Chunking()
    sync: Sync = Sync()
    query: QuerySettings = QuerySettings()
    cache: EmbeddingCache = EmbeddingCache()
    experimental: Experimental = Experimental()
    pre_reply: PreReply = PreReply()

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the providers that nothing here is called, so that words alone are searched."""
        for key, name in (("provider", self.provider), ("fallback", self.fallback)):
            if name and name not in PROVIDERS:
                told = f"'{single_line(name, 40)}' is none of {', '.join(PROVIDERS)}{did_you_mean(name, PROVIDERS)}"
                yield (key,), told

    @property
    def searched(self) -> frozenset[str]:
        """Return the sources that are searched when a question names none."""
        named = {"memory", "sessions"} & {name.strip().lower() for name in self.sources}
        return frozenset(named | {"sessions"} if self.experimental.session_memory else named or {"memory"})

    @property
    def with_sessions(self) -> bool:
        return "sessions" in self.searched

    @property
    def remote_owner(self) -> str:
        """Return the service that `remote` and `model` speak of: the provider if it is one, else the fallback."""
        return next((name for name in (self.provider, self.fallback) if name in SERVICES), "")

    def with_provider(self, name: str) -> Self:
        """Return the settings with another provider. What was said about one service is never told to another."""
        changed = replace(self, provider=name)
        return changed if self.remote_owner in {"", changed.remote_owner} else _apart(changed)

    def for_service(self, name: str, keys: Mapping[str, str]) -> Self:
        """Return what one service needs: its own key, address and model, never those of another."""
        own = self if name == self.remote_owner else _apart(self)
        return replace(own, remote=replace(own.remote, api_key=own.remote.api_key or keys.get(name, "")))


S = TypeVar("S", bound=MemorySettings)


def _apart(settings: S) -> S:
    return replace(settings, model="", remote=replace(settings.remote, base_url="", api_key="", headers={}))


def keys_in(variables: Mapping[str, str]) -> dict[str, str]:
    found = {name: next(filter(None, map(variables.get, names)), "") for name, names in SERVICES.items()}
    return {name: key for name, key in found.items() if key}


class CitationSettings(Struct, frozen=True, rename="camel"):
    """The top-level `memory` block, as far as it is ours."""

    citations: Literal["on", "off", "auto"] = "auto"


def database_path(settings: MemorySettings, *, state_dir: Path, agent_id: str, home: Path) -> Path:
    if not settings.store.path:
        return state_dir / "state" / "memory" / f"{agent_id}.sqlite"
    text = settings.store.path.replace("{agentId}", agent_id)
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(text).absolute()
