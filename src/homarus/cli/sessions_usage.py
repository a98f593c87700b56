"""`homarus sessions usage`: tokens, cache share and cost, as a table and a small chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from homarus.cli.app import App
from homarus.cli.options import json_option, pass_app

if TYPE_CHECKING:
    from homarus.sessions.usage import Ledger, Total

_PURPOSES = {"compaction": "summaries for compactions", "flush": "saving memory before them"}


@click.command()
@click.argument("session", required=False, default="")
@click.option("--agent", metavar="ID", default="", help="Only this agent's sessions.")
@click.option("--days", type=int, metavar="N", help="Only the last N days.")
@click.option(
    "--by", type=click.Choice(["day", "model", "session", "agent", "purpose"]), default="day", show_default=True
)
@json_option
@pass_app
def usage(app: App, session: str, agent: str, days: int | None, by: str, as_json: bool) -> None:
    """Add up what sessions took: tokens, the share that came from the provider's cache, and money."""
    from homarus.sessions.usage import Ledger

    zone = app.clock.now().astimezone().tzinfo
    assert zone is not None
    since = int(app.clock.now().timestamp() * 1000) - days * 86_400_000 if days is not None else 0
    ledger = Ledger(by, zone, since=since)  # type: ignore[arg-type]  # click allows only these words
    _fill(app, ledger, session, agent)
    rows, total = ledger.rows(), ledger.sum()
    if as_json:
        aside = [_facts(row) for row in ledger.aside.values()]
        app.out.json({"by": by, "rows": [_facts(row) for row in rows], "total": _facts(total), "aside": aside})
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
    from homarus.cli.sessions import home_of
    from homarus.core.errors import StorageError
    from homarus.sessions.log import read_entries
    from homarus.sessions.places import Visits

    home = home_of(app)
    if session:
        found = [(session, home.archive(session) or home.resolve(session, agent).place)]
    else:
        agents = [agent] if agent else home.agents()
        found = [(info.name, info.place) for each in agents for info in home.store(each).list(orphans=True)]
        found += [(place.label, place) for each in agents for place in home.store(each).archives()]
    with Visits() as visits:
        for name, place in found:
            try:
                with visits.visit(place) as source:
                    ledger.add(name, place.agent_id, read_entries(source))
            except StorageError as error:
                app.out.warn(f"not counted: {error}")


def _facts(total: Total) -> dict[str, object]:
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
    from homarus.sessions.usage import bars

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
