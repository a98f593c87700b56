"""`homarus memory retain`, `reflect`, `dream`, `timeline`, `graph`, `promote`, `forget`, `undo`: what is known for good, and how it is kept in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from homarus.agent.memories import open_memory
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.options import Number, filled, with_json
from homarus.core.errors import ToolError, Unknown
from homarus.core.text import single_line, slug
from homarus.memory.memory import Memory
from homarus.memory.settings import MemorySettings

if TYPE_CHECKING:
    from homarus.memory.bank.facts import Knowledge

F = TypeVar("F", bound=Callable[..., Any])


def place_options(function: F) -> F:
    function = click.option(
        "--agent",
        default=None,
        metavar="ID",
        help="Whose notes (default: the default agent).",
        shell_complete=complete.agents,
        callback=filled,
    )(function)
    function = click.option(
        "--workspace",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Use this folder instead of an agent's workspace.",
    )(function)
    function = click.option(
        "--extra", multiple=True, metavar="PATH", help="With --workspace: also these files or folders ('.': all of it)."
    )(function)
    return click.option("--provider", default=None, metavar="NAME", help="Embedder: none, auto, wordllama, minilm, …")(
        function
    )


def opened(
    app: App, *, agent: str | None, workspace: Path | None, provider: str | None, extra: tuple[str, ...]
) -> Memory:
    if workspace is not None:
        return Memory.open(
            workspace,
            settings=MemorySettings(extra_paths=extra),
            clock=app.clock,
            provider=provider,
            home=app.paths.home,
            models=app.paths.models_dir,
        )
    if extra:
        raise click.UsageError("--extra goes with --workspace; for an agent set memorySearch.extraPaths")

    chosen = app.config.agent_named(agent)
    return open_memory(app.config, app.env, chosen.id, clock=app.clock, provider=provider or "")


@click.command()
@click.argument("text", nargs=-1, required=True, callback=filled)
@click.option(
    "--kind",
    type=click.Choice(["world", "experience", "opinion", "observation"]),
    default="world",
    show_default=True,
    help="What sort of fact it is.",
)
@click.option(
    "--about", "entities", multiple=True, metavar="NAME", help="Whom or what it is about; may be given again."
)
@click.option("--confidence", "-c", type=Number(0, 1), default=None, help="How sure an opinion is.")
@click.option("--time", metavar="TIME", help="When it holds: 2026-03-14, 2026-03, 2026, or a..b.")
@click.option("--supersedes", metavar="FACT", help="What it replaces: ^id, or path#L12.")
@place_options
@with_json
def retain(app: App, /, text: tuple[str, ...], as_json: bool, agent: str | None, workspace: Path | None, provider: str | None,
           extra: tuple[str, ...], **fact: Any) -> None:  # fmt: skip
    """Write a fact to today's note, below '## Retain'."""
    from homarus.memory.toolset import retain_fact

    with opened(app, agent=agent, workspace=workspace, provider=provider, extra=extra) as memory:
        made = retain_fact(memory, {"text": " ".join(text), **fact})
    if made["status"] != "ok":
        raise click.UsageError(made["error"])
    if as_json:
        app.out.json(made)
        return
    app.out.line(f"{made['path']}#L{made['line']}  ^{made['id']}")
    for hint in made["hints"]:
        app.out.warn(hint)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--since", metavar="DAY", help="Only whom facts from this day on are about: YYYY-MM-DD, or 7d.")
@click.option("--model", metavar="REF", help="Let this model propose what belongs together; each proposal is checked.")
@click.option("--diff", is_flag=True, help="Show the changes line by line (always with --dry-run).")
@place_options
@with_json
def reflect(
    app: App, /, dry_run: bool, since: str | None, model: str | None, diff: bool, as_json: bool, **place: Any
) -> None:
    """Bring bank/ in line with the notes: facts, opinions with their evidence, a page for everybody spoken of.

    Text that people wrote stays as it is, and so does a generated region that somebody edited. 'homarus memory undo' takes it back.
    """
    import msgspec

    from homarus.memory.bank.reflect import reflect as run
    from homarus.memory.memory import NoDay

    with opened(app, **place) as memory:
        try:
            report = run(
                memory, dry_run=dry_run, since=since, ask=_asker(app, place["agent"], model) if model else None
            )
        except NoDay as problem:
            raise click.UsageError(str(problem)) from problem
    if as_json:
        app.out.json({**msgspec.to_builtins(report), "changed": report.changed})
        return
    for page in report.pages:
        state = ("would change" if dry_run else "written") if page.changed else "as it was"
        kept = f"; edited by hand and kept: {', '.join(page.kept)}" if page.kept else ""
        app.out.line(f"{page.path}: {page.facts} facts, {state}{kept}")
    if report.diff and (diff or dry_run):
        app.out.line(report.diff.rstrip("\n"))
    for line in report.assisted.accepted:
        app.out.line(f"{model}: {line}")
    for line in report.assisted.refused:
        app.out.warn(f"{model}, refused: {line}")
    for line in report.outdated:
        app.out.warn(f"{line} (every prompt carries that line: change it, or take it out)")
    for line in report.unclear[:20]:
        app.out.warn(f"may speak for or against an opinion: {line}")
    if not report.pages:
        app.out.line("no facts about anybody yet: write some below '## Retain' of a note")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be taken over.")
@place_options
@with_json
def dream(app: App, /, dry_run: bool, as_json: bool, **place: Any) -> None:
    """Take over into MEMORY.md what was asked for again and again; DREAMS.md says what and why.

    A line of a daily note must have been asked for often enough, by enough different questions (memory.dreaming). By night,
    by itself: set memory.dreaming.schedule. 'homarus memory undo' takes a night back.
    """
    import msgspec

    from homarus.memory.bank.dream import Gates
    from homarus.memory.bank.dream import dream as run

    with opened(app, **place) as memory:
        night = run(memory, app.config.block("memory.dreaming", Gates), dry_run=dry_run)
    if as_json:
        app.out.json(msgspec.to_builtins(night))
        return
    for earned in night.promoted:
        asked = f"asked {earned.asked} times by {earned.questions} questions"
        app.out.line(
            f"{earned.score:.2f}  {earned.line.text.strip()}  {app.out.style(earned.line.citation, 'dim')}  ({asked})"
        )
    for citation, why in night.refused:
        app.out.line(app.out.style(f"left where it is: {citation}: {why}", "dim"))
    for citation, why in night.waiting[:10] if dry_run else ():
        app.out.line(app.out.style(f"not yet: {citation}: {why}", "dim"))
    done = "would be taken over" if dry_run else "taken over into MEMORY.md"
    app.out.line(
        f"{len(night.promoted)} lines {done}; {night.staged} things of two days, themes: {', '.join(night.themes) or 'none'}"
    )


@click.command()
@click.option("--entity", required=True, metavar="NAME", help="Whom or what.")
@click.option("--as-of", metavar="DAY", help="Only what was known and held on this day.")
@place_options
@with_json
def timeline(app: App, /, entity: str, as_of: str | None, as_json: bool, **place: Any) -> None:
    """Show what is known about somebody or something, oldest first, and what replaced what."""
    from datetime import date

    import msgspec

    from homarus.memory.memory import NoDay

    with opened(app, **place) as memory:
        known, pages = memory.knowledge(), memory.entity_pages()
        try:
            day = memory.day(as_of)
        except NoDay as problem:
            raise click.UsageError(str(problem)) from problem
    name = slug(entity)
    meant = {name, *(other for other in known.spoken_of if name in pages and pages.get(other) == pages[name])}
    if not meant & known.spoken_of:
        raise _nobody(entity, known)
    facts = [f for f in (known.as_of(day.toordinal()) if day else known.facts) if meant & set(f.entities)]
    if as_json:
        app.out.json([{**msgspec.to_builtins(f), "claims": len(f.claims), "citation": f.citation} for f in facts])
        return
    for fact in facts:
        when = date.fromordinal(fact.day).isoformat() if fact.day else "undated   "
        gone = "  (forgotten)" if fact.retracted else f"  (replaced by {fact.replaced_by})" if fact.replaced_by else ""
        app.out.line(
            f"{app.out.style(when, 'cyan')}  {fact.text}{app.out.style(gone, 'dim')}  {app.out.style(fact.citation, 'dim')}"
        )
    if not facts:
        app.out.line(f"nothing was known about '{single_line(entity, 80)}' on {day}")


def _nobody(entity: str, known: Knowledge) -> Unknown:
    """Return the error for a name that no fact is about, with those that come near."""
    import difflib

    names = {known.names.get(one, one).lower(): known.names.get(one, one) for one in sorted(known.spoken_of)}
    wanted = entity.strip().lower()
    near = [name for word, name in names.items() if len(wanted) >= 3 and wanted in word]
    near += [names[word] for word in difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)]
    hint = (
        f"did you mean {', '.join(dict.fromkeys(near[:3]))}?"
        if near
        else "'homarus memory graph' shows who is spoken of"
    )
    return Unknown(f"nothing is known about '{single_line(entity, 80)}'", cure=hint)


@click.command()
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("memory-graph.html"),
    show_default=True,
    help="The file to write; an older page there is replaced.",
)
@place_options
@with_json
def graph(app: App, /, to: Path, as_json: bool, **place: Any) -> None:
    """Draw what is known as a page: names, facts over time, opinions with how sure they were when.

    The page stands alone and runs nothing: open it in a browser, print it, keep it.
    """
    from homarus.core.errors import HomarusError
    from homarus.memory.bank.graph import MARK, page
    from homarus.storage.atomic import write_atomic

    with opened(app, **place) as memory:
        known = memory.knowledge()
        title = f"What the notes in {memory.workspace.name} say"
    to = to.absolute()
    if to.exists() and MARK not in to.read_text("utf-8", "replace")[:500]:
        raise HomarusError(f"{to} is another file, not a page of this command", cure="name another one with --to")
    write_atomic(to, page(known, title).encode())
    if as_json:
        app.out.json({"file": str(to), "facts": len(known.facts), "names": len(known.spoken_of)})
    else:
        app.out.line(f"{len(known.facts)} facts about {len(known.spoken_of)} names: {to}")


@click.command()
@click.argument("fact", callback=filled)
@place_options
@with_json
def forget(app: App, /, fact: str, as_json: bool, **place: Any) -> None:
    """Take a fact back, by ^id or path#L12: it leaves the bank, counts no more, and is not learned again.

    The line in the note stays; a mark in today's note says that it was taken back.
    """
    _mark(app, fact, "forget", as_json, place)


@click.command()
@click.argument("fact", required=False, callback=filled)
@click.option("--reject", is_flag=True, help="Turn the proposal down for good.")
@place_options
@with_json
def promote(app: App, /, fact: str | None, reject: bool, as_json: bool, **place: Any) -> None:
    """Take a proposed fact over into MEMORY.md, by its id; without one the proposals are shown."""
    from homarus.memory.bank.promote import promote as take_over
    from homarus.memory.bank.promote import proposals

    if fact and reject:
        _mark(app, fact, "reject", as_json, place)
        return
    with opened(app, **place) as memory:
        if fact:
            line = take_over(memory, fact.removeprefix("^"))
            app.out.json({"line": line}) if as_json else app.out.line(f"MEMORY.md: {line}")
            return
        found = proposals(memory)
    if as_json:
        app.out.json(found)
        return
    for row in found:
        app.out.line(row)
    if not found:
        app.out.hint("nothing to propose; 'homarus memory reflect' looks again")


@click.command()
@click.argument("run", required=False, default="", callback=filled)
@click.option("--list", "show", is_flag=True, help="Show the runs that can be undone.")
@place_options
@with_json
def undo(app: App, /, run: str, show: bool, as_json: bool, **place: Any) -> None:
    """Put bank/ back as it was before a reflection (the last one, if none is named). Pages changed since are left alone."""
    from homarus.memory.bank.journal import runs
    from homarus.memory.bank.journal import undo as put_back

    with opened(app, **place) as memory:
        if show:
            found = runs(memory.workspace)
            app.out.json(found) if as_json else app.out.line("\n".join(found) or "no reflection can be undone")
            return
        name, done, left = put_back(memory.workspace, run)
    if as_json:
        app.out.json({"run": name, "restored": done, "left": left})
        return
    app.out.line(f"{name}: {len(done)} pages are as they were before")
    for path in left:
        app.out.warn(f"{path} was changed since and stays as it is")


def _asker(app: App, agent: str | None, model: str) -> Callable[[str], str]:
    """Return what asks one model one thing; a failure of it is an error, because somebody named that model."""
    import asyncio

    from homarus.core.cancel import Cancel
    from homarus.core.messages import Text, User
    from homarus.core.prompt import SystemPrompt
    from homarus.models.access import Models
    from homarus.models.provider import ModelRequest, Stop
    from homarus.models.select import Override

    async def ask(text: str) -> str:
        models = Models(app.config, app.env, clock=app.clock)
        chosen = app.config.agent_named(agent)
        chain = await models.chain(chosen, override=Override(model))
        for warning in chain.warnings:
            app.out.warn(warning)
        request = ModelRequest("", SystemPrompt("You put notes in order."), (User((Text(text),)),), max_tokens=2_000)
        stop: Stop | None = None
        deadline = models.registry.clock.monotonic() + 120
        async for event in models.client(chosen).stream(request, chain, cancel=Cancel(), deadline=deadline):
            stop = event if isinstance(event, Stop) else stop
        await models.aclose()
        if stop is None or stop.error is not None:
            raise stop.error if stop and stop.error else ToolError(f"{model} gave no answer")
        return stop.message.text

    return lambda text: asyncio.run(ask(text))


def _mark(app: App, fact: str, name: str, as_json: bool, place: dict[str, Any]) -> None:
    from homarus.memory.bank.promote import mark

    with opened(app, **place) as memory:
        path, line = mark(memory, fact, name)
    app.out.json({"path": path, "line": line}) if as_json else app.out.line(f"noted in {path}#L{line}")


COMMANDS = (retain, reflect, dream, timeline, graph, forget, promote, undo)
