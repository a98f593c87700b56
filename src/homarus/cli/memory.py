"""`homarus memory`: search, recall and look after the notes. Every subcommand also works on a plain folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.memory_bank import COMMANDS, opened, place_options
from homarus.cli.options import Number, filled, with_json
from homarus.cli.output import Bar, Output, clean
from homarus.core.errors import ToolError, Unknown
from homarus.core.text import human_bytes, printable
from homarus.memory.memory import Memory, NoDay
from homarus.memory.results import Answer, as_json, parse_citation
from homarus.memory.terms import query_terms, spans


@click.group("memory", cls=Group, default="status")
def command() -> None:
    """Search, recall and look after the notes of an agent. Without a word: the status.

    Notes are Markdown: MEMORY.md, USER.md, memory/ and bank/ of the workspace. The index is derived from them and may be
    deleted at any time.
    """


for made in COMMANDS:
    command.add_command(made)


@command.command()
@click.argument("query", nargs=-1, required=True, callback=filled)
@click.option(
    "-n", "--max-results", type=click.IntRange(1), default=None, help="At most this many passages (default 6)."
)
@click.option("--min-score", type=Number(0, 1), default=None, help="Leave out weaker matches (0 to 1).")
@click.option("--why", is_flag=True, help="Show what spoke for each passage.")
@place_options
@with_json
def search(
    app: App,
    /,
    query: tuple[str, ...],
    max_results: int | None,
    min_score: float | None,
    why: bool,
    as_json: bool,
    **place: Any,
) -> None:
    """Find passages and say where they stand."""
    with opened(app, **place) as memory:
        show(
            app,
            memory,
            " ".join(query),
            memory.search(" ".join(query), max_results, min_score),
            as_json=as_json,
            why=why,
        )


@command.command()
@click.argument("query", nargs=-1, required=True, callback=filled)
@click.option("-k", "--k", type=click.IntRange(1), default=25, show_default=True, help="At most this many passages.")
@click.option("--budget", type=click.IntRange(1), default=1000, show_default=True, help="Tokens to fill.")
@click.option("--since", metavar="DAY", help="Earliest day: YYYY-MM-DD, or back from today such as 30d.")
@click.option("--until", metavar="DAY", help="Latest day.")
@click.option("--as-of", metavar="DAY", help="What was known on this day.")
@click.option("--entity", "entities", multiple=True, metavar="NAME", help="Only about this person or thing.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(["world", "experience", "opinion", "observation", "note", "heading", "turn", *"WBOS"], False),
    metavar="KIND",
    help="world, experience, opinion, observation (or W, B, O, S), note, heading, turn.",
)
@click.option("--why", is_flag=True, help="Show what spoke for each passage.")
@place_options
@with_json
def recall(
    app: App,
    /,
    query: tuple[str, ...],
    k: int,
    budget: int,
    since: str | None,
    until: str | None,
    as_of: str | None,
    entities: tuple[str, ...],
    kinds: tuple[str, ...],
    why: bool,
    as_json: bool,
    **place: Any,
) -> None:
    """Collect the evidence for a question within a token budget."""
    text = " ".join(query)
    with opened(app, **place) as memory:
        try:
            answer = memory.recall(
                text, k, budget, since=since, until=until, as_of=as_of, entities=entities, kinds=kinds
            )
        except NoDay as problem:
            raise click.UsageError(str(problem)) from problem
        show(app, memory, text, answer, as_json=as_json, why=why)


@command.command()
@click.argument("path", callback=filled)
@click.option("--from", "from_", type=click.IntRange(1), default=None, help="First line.")
@click.option("--lines", type=click.IntRange(1), default=None, help="How many lines (default 120).")
@place_options
@with_json
def get(app: App, /, path: str, from_: int | None, lines: int | None, as_json: bool, **place: Any) -> None:
    """Print lines of a note, by path or by a citation such as memory/2026-01-31.md#L12."""
    with opened(app, **place) as memory:
        found = memory.get(path, from_, lines)
    if as_json:
        app.out.json({"status": found.status, "path": found.path, "from": found.from_line, "lines": found.lines, "text": found.text,
                      "truncated": found.truncated, "nextFrom": found.next_from, "error": found.error})  # fmt: skip
    elif found.status == "ok" and not found.text and found.from_line > 1:
        raise Unknown(f"{clean(path)}: the note ends before line {found.from_line}", cure="name an earlier line")
    elif found.status == "ok":
        app.out.line(found.text)
    if found.status != "ok" and as_json:
        raise click.exceptions.Exit(1)
    if found.status != "ok":
        raise ToolError(f"{path}: {found.error}", cure="'homarus memory status' shows which notes there are")


@command.command()
@click.argument("query", callback=filled)
@click.argument("citation")
@place_options
@with_json
def explain(app: App, /, query: str, citation: str, as_json: bool, **place: Any) -> None:
    """Say how a line (path#L12) scores for a query, signal by signal."""
    if parse_citation(citation)[1] is None:
        hint = " (they are the other way round)" if parse_citation(query)[1] is not None else ""
        raise click.UsageError(
            f"'{citation}' is no place such as memory/2026-01-31.md#L12: the query comes first, then the place{hint}"
        )
    with opened(app, **place) as memory:
        there = memory.get(citation, None, None)
        found = memory.explain(query, citation)
    if there.status != "ok":
        raise Unknown(f"{clean(citation)}: {there.error}", cure="'homarus memory search' says where passages stand")
    if as_json:
        app.out.json(msgspec.to_builtins(found))
        return
    where = f"rank {found.rank} of {found.candidates}" if found.rank else f"not among {found.candidates} candidates"
    app.out.line(f"{app.out.style(found.citation, 'cyan')}  {where}, score {found.score:.3f}")
    if found.text:
        app.out.line(found.text)
    for note in found.notes:
        app.out.line(note)
    if found.parts:
        app.out.table(
            [(name, f"{value:.3f}", f"{added:+.3f}") for name, value, added in found.parts], ("signal", "value", "adds")
        )
    if found.terms:
        app.out.table(found.terms, ("word", "lines", "here"))


@command.command()
@place_options
@with_json
def status(app: App, /, as_json: bool, **place: Any) -> None:
    """Show what the index holds and whether it is up to date."""
    with opened(app, **place) as memory:
        found = memory.status()
    if as_json:
        app.out.json(msgspec.to_builtins(found))
        return
    rows = [
        ("workspace", found.workspace),
        (
            "index",
            f"{found.database} ({human_bytes(found.bytes)})" if found.exists else f"{found.database} (not built yet)",
        ),
        (
            "notes",
            f"{found.files:,} files, {found.lines:,} lines, {found.chunks:,} chunks, {found.facts:,} retained facts",
        ),
        ("sources", ", ".join(f"{name} {count:,}" for name, count in sorted(found.sources.items())) or "none"),
        ("embedder", f"{found.provider} {found.model}".strip()),
        ("vectors", f"{found.vectors:,} lines, {found.cached_embeddings:,} cached"),
        ("watched by", found.watch),
        ("state", found.stale or "up to date"),
    ]
    rows += [("degraded", found.degraded)] if found.degraded else []
    rows += [("problem", problem) for problem in found.problems]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        app.out.line(f"{app.out.style(name.ljust(width), 'bold')}  {value}")


@command.command()
@click.option("--force", is_flag=True, help="Read every note again.")
@place_options
@with_json
def index(app: App, /, force: bool, as_json: bool, **place: Any) -> None:
    """Bring the index in line with the notes."""
    _index(app, force, as_json, place)


@command.command()
@place_options
@with_json
def rebuild(app: App, /, as_json: bool, **place: Any) -> None:
    """Build the whole index again; searches elsewhere see the old one until it is done."""
    _index(app, True, as_json, place)


def _index(app: App, force: bool, as_json: bool, place: dict[str, Any]) -> None:
    started = app.clock.monotonic()
    with opened(app, **place) as memory, Bar(app.out.err, "indexing") as bar:
        report = memory.sync(force=force, progress=bar.update)
    seconds = app.clock.monotonic() - started
    if as_json:
        app.out.json({**msgspec.to_builtins(report), "seconds": round(seconds, 3)})
        return
    app.out.line(f"{report.files:,} notes: {report.indexed:,} indexed, {report.removed:,} removed, in {seconds:.2f} s")
    for problem in report.problems:
        app.out.warn(problem)


@command.command()
@click.option("--canary/--no-canary", default=True, help="Write a line, find it, remove it.")
@place_options
@with_json
def doctor(app: App, /, canary: bool, as_json: bool, **place: Any) -> None:
    """Check the notes and the index, and prove that what is written is found."""
    from homarus.memory.doctor import examine

    with opened(app, **place) as memory:
        checks = examine(memory, canary=canary)
    if as_json:
        app.out.json(msgspec.to_builtins(checks))
    else:
        marks = {"ok": ("ok", "green"), "warning": ("look", "yellow"), "error": ("bad", "red")}
        for check in checks:
            word, color = marks[check.level]
            cure = f" ({check.cure})" if check.cure else ""
            app.out.hint(f"{app.out.style(word.ljust(4), color)}  {check.name}: {check.message}{cure}")
    if any(check.level == "error" for check in checks):
        raise click.exceptions.Exit(1)


@command.command("export-minilm")
@click.option(
    "--to", "target", type=click.Path(path_type=Path, file_okay=False), help="Folder (default: the models folder)."
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with model.safetensors.",
)
@with_json
def export_minilm(app: App, target: Path | None, source: Path | None, as_json: bool) -> None:
    """Make the int8 MiniLM files once, for recall and for the notebook's reader; afterwards they run on onnxruntime alone."""
    from homarus.memory.embed.export import export

    made = export(target or app.paths.models_dir / "minilm", source)
    app.out.answer({"path": str(made)}, f"wrote {made}", as_json=as_json)


@command.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="LoCoMo-format JSON.")
@click.option("--limit", type=click.IntRange(1), default=None, help="Score only the first N questions of each set.")
@click.option("--provider", default="auto", show_default=True, metavar="NAME", help="Embedder to measure with.")
@with_json
def bench(app: App, /, data: Path | None, limit: int | None, provider: str, as_json: bool) -> None:
    """Score recall without a model judging: are the evidence lines of each question returned within a token budget?"""
    from homarus.memory.evaluate import run

    with Bar(app.out.err, "scoring") as bar:
        scores = run(
            data, provider=provider, limit=limit, clock=app.clock, progress=bar.update, models=app.paths.models_dir
        )
    if as_json:
        app.out.json(scores)
        return
    columns = ("recall@500tok", "recall@1000tok", "recall@2000tok", "recall@10", "mrr")
    rows = [
        (name, group["n"], *(f"{group[column]:.3f}" for column in columns)) for name, group in scores["groups"].items()
    ]
    app.out.table(rows, ("questions", "n", *columns))
    app.out.line(f"{scores['provider']}: {scores['lines']:,} lines, p50 {scores['p50_ms']:.1f} ms a question")


def show(app: App, memory: Memory, query: str, answer: Answer, *, as_json: bool, why: bool) -> None:
    if as_json:
        app.out.json(to_json(answer))
    else:
        print_answer(app.out, query, answer, memory.problems, why=why)


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
        if hit.confidence is not None:
            sure = f"  sure {hit.confidence:.2f}" + (f" ({hit.evidence})" if hit.evidence else "")
            out.line(out.style(sure, "dim"))
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
