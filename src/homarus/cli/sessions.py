"""`homarus sessions`: list, read, search and look after conversations. Reading never changes a file of yours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import filled, with_json
from homarus.cli.output import age
from homarus.cli.sessions_keep import delete, rename, resume
from homarus.cli.sessions_show import export, home_of, show, tail
from homarus.core.clock import SystemIds
from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.core.text import human_bytes
from homarus.sessions.check import check_place, check_store, mend, report
from homarus.sessions.export import moment
from homarus.sessions.home import Candidate, bring_in, candidates
from homarus.sessions.log import read_entries
from homarus.sessions.maintenance import tidy
from homarus.sessions.places import Kind, Place, Visits, archived_as
from homarus.sessions.search import SessionSearch
from homarus.sessions.store import short_id
from homarus.sessions.usage import Ledger, Total, bars

if TYPE_CHECKING:
    from homarus.sessions.store import SessionInfo


@click.group(cls=Group, default="list", short_help="List, read, search and look after conversations.")
def command() -> None:
    """Look at conversations and after them. Without a word: the list.

    A session is named by its key (agent:main:main), its id or at least its first four characters, or its
    label.

    \b
    Examples:
      homarus sessions list
      homarus sessions show main --last 20
      homarus sessions search "the plumber"
      homarus sessions rename main "the garden"
      homarus sessions resume
      homarus sessions usage --days 7
      homarus sessions cleanup --dry-run
    """


for _each in (show, tail, export, rename, delete, resume):
    command.add_command(_each)

_agent = click.option(
    "--agent",
    metavar="ID",
    default="",
    help="Only this agent's sessions.",
    shell_complete=complete.agents,
    callback=filled,
)


@command.command("list")
@_agent
@click.option("--all", "everything", is_flag=True, help="Also the archives that resets and deletions left.")
@click.option("--active", type=click.IntRange(1), metavar="MINUTES", help="Only those used in the last MINUTES.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most this many.")
@with_json
def list_(app: App, agent: str, everything: bool, active: int | None, limit: int, as_json: bool) -> None:
    """List the sessions, the newest first."""
    home = home_of(app)
    # Older versions left transcripts without a row behind; they are conversations like any other.
    infos = list(home.list([agent] if agent else (), orphans=True))
    if active is not None:
        oldest = app.clock.now().timestamp() * 1000 - active * 60_000
        infos = [info for info in infos if info.entry.updated_at >= oldest]
    for problem in home.problems:
        app.out.warn(problem)
    archives = home.archives([agent] if agent else ()) if everything else []
    if as_json:
        found: dict[str, Any] = {"count": len(infos), "sessions": [_facts(info) for info in infos[:limit]]}
        if everything:
            found["archives"] = [
                {
                    "agentId": p.agent_id,
                    "sessionId": p.session_id,
                    "shortId": short_id(p.session_id),
                    "key": called.key or None,
                    "label": called.label or None,
                    "path": str(p.path),
                }
                for p in archives
                for called in (archived_as(p),)
            ]
        app.out.json(found)
        return
    if not infos and not archives:
        app.out.hint("No sessions yet. 'homarus agent -m hello' starts one.")
        return
    rows = [
        (
            info.name,
            _short(info),
            info.title,
            _model(info),
            info.entry.total_tokens or None,
            _age(app, info),
            _where(info),
        )
        for info in infos[:limit]
    ]
    for place in archives:
        called = archived_as(place)
        rows.append((called.key or place.agent_id, short_id(place.session_id), called.label, *_put_away(place)))
    app.out.table(rows, ("session", "id", "label", "model", "tokens", "used", "kept in"))
    if len(infos) > limit:
        app.out.line(app.out.style(f"and {len(infos) - limit} more: --limit {len(infos)} shows all", "dim"))
    if archives:
        app.out.hint(app.out.style("'homarus sessions resume ID' continues what was put away", "dim"))


def _facts(info: SessionInfo) -> dict[str, Any]:
    entry = info.entry
    return {
        "key": info.name,
        "sessionId": entry.session_id,
        "shortId": _short(info),
        "agentId": info.agent_id,
        "label": info.title or None,
        "updatedAt": entry.updated_at,
        "startedAt": entry.session_started_at or None,
        "lastInteractionAt": entry.last_interaction_at or None,
        "model": entry.model,
        "modelProvider": entry.model_provider,
        "totalTokens": entry.total_tokens,
        "contextTokens": entry.context_tokens,
        "estimatedCostUsd": entry.estimated_cost_usd,
        "compactionCount": entry.compaction_count,
        "keptIn": info.place.kind.value,
        "path": str(info.place.path),
        "indexed": info.indexed,
    }


def _short(info: SessionInfo) -> str:
    return short_id(info.entry.session_id)


def _put_away(place: Place) -> tuple[None, None, str, str]:
    """Return how an archive's row of the list ends: model, tokens, when it was put away, where it is."""
    found = _MOMENT.search(place.path.name)
    return None, None, f"until {found[1]}" if found else "", "archive" if found else place.kind.value


_MOMENT = late(r"\.(?:reset|deleted)\.(\d{4}-\d\d-\d\d)")


def _model(info: SessionInfo) -> str | None:
    parts = (info.entry.model_provider, info.entry.model)
    return "/".join(part for part in parts if part) or None


def _where(info: SessionInfo) -> str:
    kind = info.place.kind.value
    return kind if info.indexed or kind == "database" else "file without a row"


def _age(app: App, info: SessionInfo) -> str | None:
    if not info.entry.updated_at:
        return None
    return age(app.clock.now().timestamp() - info.entry.updated_at / 1000)


@command.command()
@click.argument("query", nargs=-1, required=True, callback=filled)
@_agent
@click.option("--tools", is_flag=True, help="Look into tool results and notes as well.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many.")
@with_json
def search(app: App, query: tuple[str, ...], agent: str, tools: bool, limit: int, as_json: bool) -> None:
    """Find messages in all transcripts, archives included."""
    home = home_of(app)
    infos = [info for each in home.agents() for info in home.store(each).list(orphans=True)]
    # The index is of all sessions, whatever is asked: one that left some out would forget them.
    places = [*(info.place for info in infos), *home.archives()]
    asked = home.agents(agent)
    wanted = frozenset(place.session_id for place in places if place.agent_id in asked) if agent else None
    names = {info.entry.session_id: info.name for info in infos}
    roles = ("user", "assistant", "summary", "tool", "note") if tools else ("user", "assistant", "summary")
    with SessionSearch.of_home(app.paths.own_dir) as index:
        with app.out.waiting("reading the conversations"):
            index.refresh(places)
        hits = index.find(" ".join(query), limit=limit, roles=roles, sessions=wanted)
    for problem in home.problems:
        app.out.warn(problem)
    if as_json:
        app.out.json([{**msgspec.to_builtins(hit), "session": names.get(hit.session_id)} for hit in hits])
        return
    zone = app.clock.now().astimezone().tzinfo
    for hit in hits:
        name = names.get(hit.session_id) or Path(hit.place).name
        when = moment(hit.time, zone) if zone else ""
        app.out.line(app.out.style(f"{name}  {when}  {hit.role}  {hit.entry_id}", "cyan"))
        app.out.line(f"  {hit.snippet}")
    if not hits:
        app.out.line("Nothing found.")


@command.command()
@click.argument("session", shell_complete=complete.conversations, callback=filled)
@click.argument("name", required=False, default="")
@click.option("--at", metavar="ENTRY", help="Copy up to this entry (ids: 'sessions show --ids').")
@click.option("--label", default="", help="A name for people.")
@_agent
@with_json
def fork(app: App, session: str, name: str, at: str | None, label: str, agent: str, as_json: bool) -> None:
    """Copy a conversation into a new one that goes its own way."""
    home = home_of(app)
    place = home.place(session, agent)
    made = home.store(place.agent_id or home.default_agent).fork(place, name, at=at, label=label)
    app.out.answer(
        _facts(made), f"{made.name} begins where {session} {'was at ' + at if at else 'ends'}.", as_json=as_json
    )


@command.command("import")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--agent",
    metavar="ID",
    default="",
    help="Bring them in as this agent's (default: the main agent).",
    shell_complete=complete.agents,
    callback=filled,
)
@click.option("--dry-run", is_flag=True, help="Only say what would be brought in.")
@with_json
def import_(app: App, paths: tuple[Path, ...], agent: str, dry_run: bool, as_json: bool) -> None:
    """Copy sessions from another home, a database or transcript files; without PATHS, from this home's own databases.

    The sources are only read.
    """
    home = home_of(app)
    target = home.agents(agent)[0] if agent else home.default_agent
    found = [c for path in paths for c in candidates(path.absolute(), target, clock=app.clock, ids=SystemIds())]
    if not paths:
        infos = home.list([agent] if agent else ())
        found = [Candidate(info.name, info.place, info.row) for info in infos if info.place.kind is Kind.DATABASE]
    done = []
    for candidate in found:
        store = home.store(target if paths else candidate.place.agent_id)
        state, key = ("would copy", None) if dry_run else bring_in(store, candidate)
        done.append(
            {"from": candidate.place.label, "name": candidate.name, "state": state, "key": str(key) if key else None}
        )
    if as_json:
        app.out.json(done)
        return
    words = {"done": "copied", "known": "is here already:", "empty": "holds nothing:", "would copy": "would copy"}
    for one in done:
        app.out.line(f"{words[str(one['state'])]} {one['name']} ({one['from']})")
    if not done:
        app.out.line("There is nothing to bring in.")


@command.command()
@_agent
@click.option("--enforce", is_flag=True, help="Do it.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done (the default).")
@with_json
def cleanup(app: App, agent: str, enforce: bool, dry_run: bool, as_json: bool) -> None:
    """Put old sessions into the archives and remove old archives, by the rules of session.maintenance."""
    if enforce and dry_run:
        raise click.UsageError("--enforce and --dry-run exclude each other")
    home = home_of(app)
    # What a gateway has open is the gateway's to put away.
    done = app.ask_gateway("sessions.cleanup", agent=agent, allAgents=not agent, enforce=True) if enforce else None
    agents = home.agents(agent)
    report = done["agents"] if done else [tidy(app.config, home.store(each), enforce=enforce) for each in agents]
    for row in () if as_json else report:
        for removal in row["removals"]:
            verb = "put away" if enforce and not removal["path"] else "removed" if enforce else "would go"
            app.out.line(f"{verb}  {removal['what']}  ({removal['reason']})")
        for problem in row["failed"]:
            app.out.warn(problem)
        size, freed = human_bytes(row["bytes"]), human_bytes(row["freed"])
        app.out.line(f"{row['agentId']}: {row['entries']} sessions, {size}; {len(row['removals'])} to go, {freed} free")
    if as_json:
        app.out.json(report)
    elif not enforce:
        app.out.line(app.out.style("Nothing was changed. --enforce does it.", "dim"))


@command.command()
@click.argument("session", required=False, default="", shell_complete=complete.conversations, callback=filled)
@_agent
@with_json
def check(app: App, session: str, agent: str, as_json: bool) -> None:
    """Look for trouble: torn lines, unpaired calls, lost transcripts, old and unknown forms. Changes nothing."""
    home = home_of(app)
    if session:
        found = list(check_place(home.place(session, agent)))
    else:
        found = [finding for each in home.agents(agent) for finding in check_store(home.store(each))]
    if as_json:
        app.out.json(msgspec.to_builtins(found))
    else:
        colors = {"error": "red", "warning": "yellow", "info": "dim"}
        for one in found:
            mark = app.out.style(one.severity, colors[one.severity])
            app.out.hint(f"{mark}  {one.check}  {one.path}: {one.message}" + (f" ({one.cure})" if one.cure else ""))
        if not found:
            app.out.line("All sessions are in order.")
    if any(one.severity == "error" for one in found):
        raise click.exceptions.Exit(1)


@command.command()
@click.argument("session", shell_complete=complete.sessions, callback=filled)
@click.option("--write", is_flag=True, help="Convert an old form and answer open calls in the file itself.")
@_agent
@with_json
def repair(app: App, session: str, write: bool, agent: str, as_json: bool) -> None:
    """Show what a model would be sent of a damaged session, and mend the file if asked.

    What is sent is repaired each time anyway. --write keeps the original of a converted file beside it.
    """
    home = home_of(app)
    info = home.resolve(session, agent)
    done = report(info.place)
    if write:
        done["written"] = mend(home.store(info.agent_id), info)
    if as_json:
        app.out.json(done)
        return
    app.out.line(f"{done['stored']} messages are in view, {done['sent']} are sent.")
    for line in done["changes"]:
        app.out.line(f"  {line}")
    for line in done.get("written", ()):
        app.out.line(f"  written: {line}")


_PURPOSES = {"compaction": "summaries for compactions", "flush": "saving memory before them"}


@command.command()
@click.argument("session", required=False, default="", shell_complete=complete.conversations, callback=filled)
@_agent
@click.option("--days", type=click.IntRange(0), metavar="N", help="Only the last N days.")
@click.option(
    "--by",
    type=click.Choice(["day", "model", "session", "agent", "purpose"]),
    default="day",
    show_default=True,
    help="One line for each of these.",
)
@with_json
def usage(app: App, session: str, agent: str, days: int | None, by: str, as_json: bool) -> None:
    """Add up what sessions took: tokens, the share that came from the provider's cache, and money."""
    zone = app.clock.now().astimezone().tzinfo
    assert zone is not None
    since = int(app.clock.now().timestamp() * 1000) - days * 86_400_000 if days is not None else 0
    ledger = Ledger(by, zone, since=since)  # type: ignore[arg-type]  # click allows only these words
    with app.out.waiting("adding up"):
        _fill(app, ledger, session, agent)
    rows, total = ledger.rows(), ledger.sum()
    if as_json:
        aside = [_sums(row) for row in ledger.aside.values()]
        app.out.json({"by": by, "rows": [_sums(row) for row in rows], "total": _sums(total), "aside": aside})
        return
    if not rows:
        app.out.line("No answer in these sessions says what it took.")
        return
    app.out.table([_cells(row) for row in [*rows, total]], (by, "calls", "input", "output", "cached", "share", "cost"))
    for row in ledger.aside.values() if by != "purpose" else ():
        what = _PURPOSES.get(row.name, row.name)
        app.out.line(f"Of this, {what}: {row.calls} calls, {row.tokens:,} tokens, ${row.cost:.4f}.")
    if by == "day":
        _chart(app, rows)


def _fill(app: App, ledger: Ledger, session: str, agent: str) -> None:
    home = home_of(app)
    if session:
        found = [(session, home.place(session, agent))]
    else:
        agents = home.agents(agent)
        found = [(info.name, info.place) for each in agents for info in home.store(each).list(orphans=True)]
        found += [(place.label, place) for each in agents for place in home.store(each).archives()]
    with Visits() as visits:
        for name, place in found:
            try:
                with visits.visit(place) as source:
                    ledger.add(name, place.agent_id, read_entries(source))
            except StorageError as error:
                app.out.warn(f"not counted: {error}")


def _sums(total: Total) -> dict[str, object]:
    return {
        "name": total.name,
        "calls": total.calls,
        "input": total.input,
        "output": total.output,
        "cacheRead": total.cache_read,
        "cacheWrite": total.cache_write,
        "totalTokens": total.tokens,
        "cacheShare": round(total.cache_share, 4),
        "cost": round(total.cost, 6),
    }


def _cells(total: Total) -> tuple[object, ...]:
    share = f"{total.cache_share:.0%}"
    prompt = total.input + total.cache_write
    return (total.name, total.calls, prompt, total.output, total.cache_read, share, f"${total.cost:.4f}")


def _chart(app: App, rows: list[Total]) -> None:
    rows = rows[-31:]
    width = 20
    tokens = bars([row.tokens for row in rows], width)
    costs = bars([row.cost for row in rows], width)
    app.out.line()
    app.out.line(app.out.style(f"{'':10}  {'tokens':{width}}  {'cost':{width}}  cache", "bold"))
    for row, token_bar, cost_bar in zip(rows, tokens, costs, strict=True):
        share = bars([row.cache_share, 1.0], 8)[0]
        app.out.line(
            f"{row.name:10}  {app.out.style(f'{token_bar:{width}}', 'blue')}  "
            f"{app.out.style(f'{cost_bar:{width}}', 'yellow')}  {app.out.style(f'{share:8}', 'green')} {row.cache_share:.0%}"
        )
