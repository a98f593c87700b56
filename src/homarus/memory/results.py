"""What memory answers with: hits that say where they stand, and how far the answer can be trusted. Values only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from homarus.core.patterns import late

_CITED = late(r"(?s)(.*?)#L([0-9]+)(?:-L?([0-9]+))?")
_FAR = 1_000_000_000  # no note has as many lines
UNKNOWN = 0.45  # less confidence than this means that the notes do not say (docs/memory-ranking.md)
DEFAULT_LINES = 120  # of a note, when nobody says how many


class Hit(Struct, frozen=True, kw_only=True):
    """A cited range of lines. `text` holds the lines that matched, never just the head of a chunk."""

    path: str
    start_line: int
    end_line: int
    score: float
    text: str
    kind: str = "note"
    timestamp: str | None = None
    entities: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    source: str = "memory"
    text_score: float | None = None
    vector_score: float | None = None
    bare_score: float | None = None  # the same for the question without its names
    also: tuple[str, ...] = ()
    tokens: int = 0
    confidence: float | None = None  # of an opinion: what the bank makes of all evidence, else what its line says
    evidence: str = ""  # how much speaks for and against it, and since when
    origin: tuple[str, ...] = ()  # whose words are in it, where not the owner's or the agent's own
    superseded_by: str = ""  # where something newer is said about the same matter

    @property
    def citation(self) -> str:
        return cite(self.path, self.start_line, self.end_line)


class Answer(Struct, frozen=True, kw_only=True):
    """The hits of one question, best first. `degraded` and `stale` are empty when all is well, and say why when not."""

    hits: tuple[Hit, ...]
    mode: str = "lexical"
    provider: str = "none"
    model: str = ""
    fallback: str = ""
    degraded: str = ""
    stale: str = ""
    tokens: int = 0
    searched_ms: float = 0.0
    confidence: float = 1.0  # how likely the notes answer the question at all, 0 to 1

    @property
    def verdict(self) -> str:
        """Return `unknown` where the notes probably do not say; what was found then stands near the question at best."""
        return "known" if self.confidence >= UNKNOWN else "unknown"

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]

    def __bool__(self) -> bool:
        return bool(self.hits)


class Excerpt(Struct, frozen=True, kw_only=True):
    """Lines of a note as `memory_get` returns them. `status` is ok, not_found or error."""

    status: str
    path: str
    text: str = ""
    from_line: int = 1
    lines: int = 0
    truncated: bool = False
    next_from: int | None = None
    error: str = ""
    origin: tuple[str, ...] = ()  # as of a hit


class Status(Struct, frozen=True, kw_only=True):
    """The state of an index, for people and for `doctor`."""

    workspace: str = ""
    database: str = ""
    exists: bool = False
    files: int = 0
    lines: int = 0
    chunks: int = 0
    facts: int = 0
    sources: dict[str, int] = {}
    provider: str = "none"
    model: str = ""
    vectors: int = 0
    cached_embeddings: int = 0
    bytes: int = 0
    watch: str = ""  # how a process that stays hears of changes; "off" by the settings
    degraded: str = ""
    stale: str = ""
    problems: tuple[str, ...] = ()


def cite(path: str, first: int, last: int) -> str:
    return f"{path}#L{first}" if last <= first else f"{path}#L{first}-L{last}"


def parse_citation(text: str) -> tuple[str, int | None, int | None]:
    """Return path, first and last line of a citation; None for a line that it does not give. Absurd numbers are cut."""
    match = _CITED.fullmatch(text.strip())
    if match is None:
        return text.strip().partition("#L")[0], None, None
    first, last = (min(_FAR, int(given[:10])) if given else None for given in match.groups()[1:])
    return match[1], first, last


def as_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as `memory_recall` and the command line show it."""
    return {
        "kind": hit.kind,
        "timestamp": hit.timestamp,
        "entities": list(hit.entities),
        "content": hit.text,
        "source": hit.citation,
        "score": round(hit.score, 4),
        "why": list(hit.why),
        **({"also": list(hit.also)} if hit.also else {}),
        **({"supersededBy": hit.superseded_by} if hit.superseded_by else {}),
        **({"confidence": hit.confidence} if hit.confidence is not None else {}),
        **({"evidence": hit.evidence} if hit.evidence else {}),
        **({"origin": list(hit.origin)} if hit.origin else {}),
    }
