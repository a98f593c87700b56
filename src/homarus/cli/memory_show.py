"""How memory's answers look on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from homarus.cli.output import Output
from homarus.core.text import printable
from homarus.memory.results import Answer, as_json
from homarus.memory.terms import query_terms, spans


def to_json(answer: Answer) -> dict[str, Any]:
    """Return an answer for programs; the flags are always there."""
    return {
        "results": [
            {
                **as_json(hit),
                "path": hit.path,
                "startLine": hit.start_line,
                "endLine": hit.end_line,
                "corpus": hit.source,
            }
            for hit in answer
        ],
        "mode": answer.mode,
        "provider": answer.provider,
        "model": answer.model,
        "degraded": answer.degraded,
        "stale": answer.stale,
        "tokens": answer.tokens,
        "confidence": answer.confidence,
        "verdict": answer.verdict,
        "searchMs": round(answer.searched_ms, 2),
    }


def print_answer(out: Output, query: str, answer: Answer, problems: Sequence[str] = (), *, why: bool = False) -> None:
    """Print cited passages with the words of the query marked; where there are none, what may be the reason."""
    terms = query_terms(query)
    for hit in answer:
        day = f"  {out.style(hit.timestamp, 'dim')}" if hit.timestamp else ""
        out.line(f"{out.style(hit.citation, 'cyan')}{day}  {out.style(f'{hit.score:.2f}', 'dim')}")
        for line in printable(hit.text).split("\n"):
            out.line("  " + marked(out, line, terms))
        if hit.also:
            out.line(out.style(f"  also: {', '.join(hit.also)}", "dim"))
        if hit.superseded_by:
            out.line(out.style(f"  replaced by {hit.superseded_by}", "dim"))
        if hit.origin:
            out.line(out.style(f"  from: {printable(', '.join(hit.origin))}", "dim"))
        if why:
            out.line(out.style(f"  why: {'; '.join(hit.why)}", "dim"))
    if answer and answer.verdict == "unknown":
        out.line(out.style("the notes probably do not say; this is what stands nearest", "yellow"))
    if not answer:
        out.line("nothing found")
        for problem in problems:
            out.warn(problem)
    if answer.degraded:
        out.warn(answer.degraded)
    if answer.stale:
        out.warn(answer.stale)


def marked(out: Output, line: str, terms: list[str]) -> str:
    """Return a line with the words of the query in bold, where colours are on."""
    if not out.color:
        return line
    pieces, at = [], 0
    for start, end in spans(line, terms):
        pieces += [line[at:start], out.style(line[start:end], "bold", "yellow")]
        at = end
    return "".join([*pieces, line[at:]])
