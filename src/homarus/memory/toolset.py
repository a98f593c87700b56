"""The memory tools as a model sees them, what each returns, and what is recalled before a reply.

Pure adapters: the tools package decides who may call. Results are plain JSON values with the keys that agents written for OpenClaw expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from homarus.core.errors import HomarusError
from homarus.core.text import estimate_tokens
from homarus.core.tools import ToolSpec
from homarus.memory.files import CORE_FILES
from homarus.memory.schema import KINDS

if TYPE_CHECKING:
    from homarus.memory.memory import Memory
    from homarus.memory.results import Hit

Citations = Literal["on", "off", "auto"]
SEARCH_TOKENS, MAX_RESULTS, MAX_K, MAX_BUDGET = 1_200, 50, 200, 8_000
REASONS = 2  # all that speak for a passage cost a model as much as the passage; people have `memory explain`
WIKI = "bank/"

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_TEXTS = {"type": "array", "items": _TEXT}


def _spec(name: str, order: int, summary: str, description: str, **properties: dict[str, Any]) -> ToolSpec:
    """Return a tool whose first parameter is required. Every prompt carries it: a parameter is described where its name is not enough."""
    parameters = {"type": "object", "properties": properties, "required": [next(iter(properties))]}
    return ToolSpec(name=name, order=order, summary=summary, description=description, parameters=parameters)


SEARCH = _spec(
    "memory_search",
    310,
    "Search notes",
    "Search notes and past conversations before answering about earlier work, decisions, dates, people or to-dos.",
    query=_TEXT,
    maxResults=_COUNT,
    minScore={"type": "number"},
    corpus={"type": "string", "enum": ["memory", "wiki", "sessions", "all"]},
)
GET = _spec(
    "memory_get",
    280,
    "Read lines of a note",
    "Read lines of a note by the path that memory_search gave.",
    **{"path": _TEXT, "from": _COUNT, "lines": _COUNT, "corpus": _TEXT},
)
RECALL = _spec(
    "memory_recall",
    290,
    "Recall evidence within a token budget",
    "Collect cited evidence for a question within a token budget. Dates are YYYY-MM-DD; since also takes 30d.",
    query=_TEXT,
    k=_COUNT,
    budgetTokens={"type": "integer", "minimum": 50},
    since=_TEXT,
    until=_TEXT,
    asOf=_TEXT,
    entities=_TEXTS,
    kinds={"type": "array", "items": {"type": "string", "enum": [*KINDS.values(), "note", "turn"]}},
)
RETAIN = _spec(
    "memory_retain",
    300,
    "Write a fact down",
    "Write one self-contained fact, a full sentence that names whom it is about, to today's note. "
    "supersedes: path#L12 or ^id of the fact it replaces.",
    text=_TEXT,
    kind={"type": "string", "enum": list(KINDS.values())},
    entities=_TEXTS,
    confidence={"type": "number", "minimum": 0, "maximum": 1},
    time=_TEXT,
    supersedes=_TEXT,
)
SPECS = (SEARCH, GET, RECALL, RETAIN)


def cites(mode: Citations, *, direct: bool) -> bool:
    """Say whether sources are shown: `auto` shows them in direct chats only."""
    return mode == "on" or (mode == "auto" and direct)


def search(
    memory: Memory,
    arguments: dict[str, Any],
    *,
    citations: Citations = "auto",
    direct: bool = True,
    counts: bool = False,
) -> dict[str, Any]:
    """Run `memory_search`. A failure is a result too: the model is told what happened and what to do.

    Past conversations were private: where several people read along (`direct` is False) they are not searched. A question
    that `counts` is noted for dreaming; strangers' questions do not.
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
    if counts:
        from homarus.memory.bank.signals import note

        # A line that came along without a score was not asked for.
        note(memory.workspace, query, [hit for hit in found if hit.score > 0], memory.today().toordinal())
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
        "confidence": answer.confidence,
        "verdict": answer.verdict,
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
        **({"bareScore": hit.bare_score} if hit.bare_score is not None else {}),
        "snippet": f"{hit.text}\n\nSource: {hit.citation}" if shown else hit.text,
        "source": hit.source,
        "corpus": hit.source,
        **({"kind": hit.kind} if hit.kind == "heading" else {}),
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
        "items": [as_json(hit) | {"why": list(hit.why[:REASONS])} for hit in answer],
        "tokens": answer.tokens,
        "mode": answer.mode,
        "confidence": answer.confidence,
        "verdict": answer.verdict,
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
    if wrong := _unusable(memory, dict(attrs)):
        return {"status": "error", "error": wrong}
    names = tuple(name.strip().removeprefix("@") for name in _names(arguments.get("entities")))
    bullet = Bullet(kind, text, tuple(name.replace("{", "").replace("}", "") for name in names), tuple(attrs))
    try:
        path, line = retain(memory.workspace, bullet, memory.today(), origin)
    except HomarusError as problem:
        return {"status": "error", "error": problem.message, "action": problem.cure}
    told = {"origin": list(origin)} if origin else {}
    return {"status": "ok", "path": path, "line": line, "id": bullet.id, "hints": list(lint(bullet)), **told}


def _unusable(memory: Memory, attrs: dict[str, str]) -> str:
    """Say what is wrong with the attributes of a fact; empty where nothing is."""
    from homarus.memory.results import parse_citation
    from homarus.memory.timex import parse_time

    if any(char in value for value in attrs.values() for char in "(),\n"):
        return "confidence, time and supersedes take no brackets or commas"
    if "t" in attrs and parse_time(attrs["t"]) is None:
        return f"time '{attrs['t']}' is none of 2026-03-14, 2026-03, 2026, or two of these as a..b"
    try:
        sure = float(attrs.get("c", 0))
    except ValueError:
        sure = -1.0
    if not 0 <= sure <= 1:
        return f"confidence '{attrs['c']}' is no number from 0 to 1"
    old = attrs.get("sup", "")
    path, line, _ = parse_citation(old)
    if old.startswith("^"):
        known = any(fact.id == old[1:] for fact in memory.knowledge().facts)
    else:
        known = not old or bool(line and memory.get(path, line, 1).text)
    return "" if known else f"there is no {old}: name what is replaced as ^id of a fact, or as path#L12"


LEAD = "A heading that is a path with lines, here and in later turns, is followed by that passage of the notes."
LEAST = 0.35  # unasked text must earn its place
HEADING = 8  # tokens of what stands around a passage
MOST, ASKED = 12, 600


def pre_reply(memory: Memory, message: str, *, session_id: str = "") -> tuple[tuple[str, str], ...]:
    """Return (citation, text) of passages that bear on a message, best first; nothing where the settings ask for none.

    What the prompt shows anyway is left out: the core files, and the conversation that goes on now. So are the words of
    strangers: nobody asked for them, and they would taint the turn.
    """
    settings = memory.settings.pre_reply
    if not settings.enabled or not message.strip():
        return ()
    answer = memory.recall(_asked(message), k=MOST, budget_tokens=settings.budget_tokens)
    here = f"sessions/{session_id}"
    spent = 0
    chosen: list[tuple[str, str]] = []
    for hit in answer:
        if hit.origin or hit.score < LEAST or hit.path in CORE_FILES or (session_id and hit.path.startswith(here)):
            continue
        spent += estimate_tokens(f"{hit.citation}\n{hit.text}") + HEADING
        if spent > settings.budget_tokens:
            break
        chosen.append((hit.citation, hit.text))
    return tuple(chosen)


def _asked(message: str) -> str:
    """Return what of a message is asked with: of a long one, how it begins and how it ends."""
    text = " ".join(message.split())
    return text if len(text) <= ASKED else f"{text[: ASKED // 2]} {text[-ASKED // 2 :]}"
