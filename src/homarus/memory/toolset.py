"""The memory tools as a model sees them, and what each returns. Pure adapters: the tools package decides who may call.

Results are plain JSON values with the keys that agents written for OpenClaw expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from homarus.core.errors import HomarusError
from homarus.core.text import estimate_tokens
from homarus.core.tools import ToolSpec
from homarus.memory.schema import KINDS

if TYPE_CHECKING:
    from homarus.memory.memory import Memory
    from homarus.memory.results import Hit

Citations = Literal["on", "off", "auto"]
SEARCH_TOKENS, MAX_RESULTS, MAX_K, MAX_BUDGET = 1_200, 50, 200, 8_000
WIKI = "bank/"

SEARCH = ToolSpec(
    name="memory_search",
    summary="Search notes",
    description=(
        "Search the notes (MEMORY.md, memory/*.md and, where enabled, past conversations) before answering anything about "
        "earlier work, decisions, dates, people, preferences or to-dos. Returns the matching lines with their path and line numbers."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for: a question or key words."},
            "maxResults": {"type": "integer", "minimum": 1, "description": "At most this many passages (default 6)."},
            "minScore": {"type": "number", "description": "Leave out weaker matches (0 to 1, default 0.35)."},
            "corpus": {
                "type": "string",
                "enum": ["memory", "wiki", "sessions", "all"],
                "description": "Notes, the pages below bank/, past conversations, or all of them.",
            },
        },
        "required": ["query"],
    },
)
GET = ToolSpec(
    name="memory_get",
    summary="Read lines of a note",
    description="Read lines of one note by the path that memory_search returned. Only notes can be read, nothing else.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the note, such as memory/2026-01-31.md."},
            "from": {"type": "integer", "minimum": 1, "description": "First line (default 1)."},
            "lines": {"type": "integer", "minimum": 1, "description": "How many lines (default 120)."},
            "corpus": {"type": "string", "description": "As in memory_search; the path alone decides."},
        },
        "required": ["path"],
    },
)
RECALL = ToolSpec(
    name="memory_recall",
    summary="Recall evidence within a token budget",
    description=(
        "Collect the evidence for a question from all notes, packed into a token budget and cited line by line. "
        "Understands names and dates in the question; since, until and as_of limit it hard."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The question."},
            "k": {"type": "integer", "minimum": 1, "description": "At most this many passages (default 25)."},
            "budgetTokens": {"type": "integer", "minimum": 50, "description": "Tokens to fill (default 1000)."},
            "since": {"type": "string", "description": "Earliest day, YYYY-MM-DD, or a span back such as 30d."},
            "until": {"type": "string", "description": "Latest day, YYYY-MM-DD."},
            "asOf": {"type": "string", "description": "Answer as of this day, YYYY-MM-DD."},
            "entities": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Only about these people or things.",
            },
            "kinds": {
                "type": "array",
                "items": {"type": "string", "enum": [*KINDS.values(), "note", "turn"]},
                "description": "Only facts of these kinds.",
            },
        },
        "required": ["query"],
    },
)
RETAIN = ToolSpec(
    name="memory_retain",
    summary="Write a fact down",
    description=(
        "Write one self-contained fact to today's note, so that it can be recalled later. Name who or what it is about; "
        "write a full sentence that makes sense on its own."
    ),
    parameters={
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The fact, one sentence."},
            "kind": {
                "type": "string",
                "enum": list(KINDS.values()),
                "description": "world (how things are), experience (what you did), opinion (what someone prefers or thinks), observation.",
            },
            "entities": {"type": "array", "items": {"type": "string"}, "description": "Who or what it is about."},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "For opinions."},
            "time": {"type": "string", "description": "When it holds: YYYY-MM-DD, YYYY-MM, YYYY, or a..b."},
            "supersedes": {
                "type": "string",
                "description": "Citation (path#L12) or ^id of the fact this one replaces.",
            },
        },
        "required": ["text"],
    },
)
SPECS = (SEARCH, GET, RECALL, RETAIN)


def cites(mode: Citations, *, direct: bool) -> bool:
    """Say whether sources are shown: `auto` shows them in direct chats only."""
    return mode == "on" or (mode == "auto" and direct)


def search(
    memory: Memory, arguments: dict[str, Any], *, citations: Citations = "auto", direct: bool = True
) -> dict[str, Any]:
    """Run `memory_search`. A failure is a result too: the model is told what happened and what to do.

    Past conversations were private: where several people read along (`direct` is False) they are not searched.
    """
    query = str(arguments.get("query") or "")
    limit = min(MAX_RESULTS, _whole(arguments.get("maxResults"), memory.settings.query.max_results))
    corpus = str(arguments.get("corpus") or "all").lower()
    if corpus == "sessions" and not direct:
        return {"results": [], "disabled": True, "error": "past conversations are not shown where others read along"}
    sources = {"memory": ("memory",), "wiki": ("memory",), "sessions": ("sessions",)}.get(corpus, ())
    try:
        answer = memory.search(
            query,
            MAX_RESULTS if corpus == "wiki" else limit,
            _share(arguments.get("minScore")),
            sources=sources or (() if direct else ("memory",)),
        )
    except HomarusError as problem:
        return {"results": [], "disabled": True, "error": problem.message, "action": problem.cure or "try again later"}
    found = [hit for hit in answer if hit.path.startswith(WIKI)][:limit] if corpus == "wiki" else list(answer)
    shown = cites(citations, direct=direct)
    results: list[dict[str, Any]] = []
    spent = 0
    for hit in found:
        result = _result(hit, shown)
        spent += estimate_tokens(result["snippet"])
        if spent > SEARCH_TOKENS and results:
            break
        results.append(result)
    return {
        "results": results,
        "provider": answer.provider,
        "model": answer.model,
        **({"fallback": {"from": answer.fallback}} if answer.fallback else {}),
        "citations": citations,
        "mode": "fts-only" if answer.mode == "lexical" else answer.mode,
        **({"stale": True, "warning": answer.stale} if answer.stale else {}),
        **({"degraded": answer.degraded} if answer.degraded else {}),
        **({"partial": True} if len(results) < len(found) else {}),
        "debug": {"searchMs": round(answer.searched_ms, 1)},
    }


def _whole(given: Any, default: int) -> int:
    """Read a number that a model wrote; what is none, or less than one, is the default or one."""
    try:
        return max(1, int(float(given))) if given not in (None, "") else default
    except (TypeError, ValueError, OverflowError):
        return default


def _share(given: Any) -> float | None:
    """Read a score that a model wrote; what is none leaves the choice to the settings."""
    try:
        value = float(given) if given not in (None, "") else None
    except (TypeError, ValueError):
        return None
    return value if value is None or value == value else None


def _text(given: Any) -> str | None:
    return str(given).strip() or None if given is not None else None


def _names(given: Any) -> tuple[str, ...]:
    """Read a list of names; models also write one name without a list."""
    return tuple(str(name) for name in ([given] if isinstance(given, str) else given or ()) if str(name).strip())


def _result(hit: Hit, shown: bool) -> dict[str, Any]:
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        **({"textScore": hit.text_score} if hit.text_score is not None else {}),
        **({"vectorScore": hit.vector_score} if hit.vector_score is not None else {}),
        "snippet": f"{hit.text}\n\nSource: {hit.citation}" if shown else hit.text,
        "source": hit.source,
        "corpus": hit.source,
        **({"citation": hit.citation} if shown else {}),
        **({"origin": list(hit.origin)} if hit.origin else {}),
    }


def get(memory: Memory, arguments: dict[str, Any]) -> dict[str, Any]:
    from homarus.memory.results import DEFAULT_LINES

    start, count = arguments.get("from"), arguments.get("lines")
    found = memory.get(
        str(arguments.get("path") or ""),
        _whole(start, 1) if start is not None else None,
        _whole(count, DEFAULT_LINES) if count is not None else None,
    )
    return {
        "status": found.status,
        "path": found.path,
        "text": found.text,
        "from": found.from_line,
        "lines": found.lines,
        **({"truncated": True, "nextFrom": found.next_from} if found.truncated else {}),
        **({"error": found.error} if found.error else {}),
        **({"origin": list(found.origin)} if found.origin else {}),
    }


def recall(memory: Memory, arguments: dict[str, Any], *, direct: bool = True) -> dict[str, Any]:
    from homarus.memory.memory import NoDay
    from homarus.memory.results import as_json

    try:
        answer = memory.recall(
            str(arguments.get("query") or ""),
            min(MAX_K, _whole(arguments.get("k"), 25)),
            min(MAX_BUDGET, max(50, _whole(arguments.get("budgetTokens"), 1000))),
            since=_text(arguments.get("since")),
            until=_text(arguments.get("until")),
            as_of=_text(arguments.get("asOf")),
            entities=_names(arguments.get("entities")),
            kinds=_names(arguments.get("kinds")),
            sources=() if direct else ("memory",),
        )
    except NoDay as problem:
        return {"items": [], "error": str(problem)}
    except HomarusError as problem:
        return {"items": [], "disabled": True, "error": problem.message, "action": problem.cure or "try again later"}
    return {
        "items": [as_json(hit) for hit in answer],
        "tokens": answer.tokens,
        "mode": answer.mode,
        **({"stale": answer.stale} if answer.stale else {}),
        **({"degraded": answer.degraded} if answer.degraded else {}),
    }


def retain_fact(memory: Memory, arguments: dict[str, Any], *, origin: Sequence[str] = ()) -> dict[str, Any]:
    """Run `memory_retain`: append to today's note, durably, and say where it stands.

    `origin` names the untrusted sources that were read before this was written: the fact may be their words.
    """
    # The descriptions are needed in every run, the grammar of facts only here.
    from homarus.memory.bank.grammar import Bullet, lint
    from homarus.memory.bank.retain import retain

    text = " ".join(str(arguments.get("text") or "").split())
    if not text:
        return {"status": "error", "error": "text is empty: write the fact as one sentence"}
    kind = str(arguments.get("kind") or "world").lower()
    kind = KINDS.get(kind.upper(), kind)
    if kind not in KINDS.values():
        return {"status": "error", "error": f"kind must be one of {', '.join(KINDS.values())}"}
    attrs = [
        (key, str(arguments[name]))
        for key, name in (("c", "confidence"), ("t", "time"), ("sup", "supersedes"))
        if arguments.get(name) not in (None, "")
    ]
    if any(char in value for _, value in attrs for char in "(),\n"):
        return {"status": "error", "error": "confidence, time and supersedes take no brackets or commas"}
    names = tuple(name.strip().removeprefix("@") for name in _names(arguments.get("entities")))
    bullet = Bullet(kind, text, tuple(name.replace("{", "").replace("}", "") for name in names), tuple(attrs))
    try:
        path, line = retain(memory.workspace, bullet, memory.today(), origin)
    except HomarusError as problem:
        return {"status": "error", "error": problem.message, "action": problem.cure}
    told = {"origin": list(origin)} if origin else {}
    return {"status": "ok", "path": path, "line": line, "id": bullet.id, "hints": list(lint(bullet)), **told}
