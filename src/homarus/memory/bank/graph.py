"""What is known, as one page to look at: who and what hangs together, facts over time, opinions with how sure they were when.

The page stands alone: no script, nothing from elsewhere, and it says so to the browser. Every text in it is somebody's, and escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from html import escape
from itertools import combinations
from math import cos, hypot, pi, sin, sqrt

from homarus.memory.bank.facts import Fact, Knowledge
from homarus.memory.bank.opinions import Opinion, evolve

MOST, ROUNDS = 60, 120  # entities that are drawn, steps of finding their places
WIDTH, HEIGHT, EDGE = 960, 640, 60
MARK = "<!-- homarus memory graph -->"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --soft: #66707d; --line: #c9d0d8; --paper: #fff; --mark: #b3261e; --sure: #1f6f4a }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #98a2ae; --line: #3a424c; --paper: #14181d; --mark: #ff8a80; --sure: #7bd3a6 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; border-bottom: 1px solid var(--line) }
svg text { fill: currentColor; font-size: 13px } svg line { stroke: var(--line) } svg circle { fill: var(--sure); fill-opacity: .75 }
svg a:hover text, svg a:focus text { text-decoration: underline } .curve polyline { fill: none; stroke: var(--sure); stroke-width: 2 }
table { border-collapse: collapse; width: 100% } td { padding: .2rem .7rem .2rem 0; vertical-align: top } td:first-child { white-space: nowrap }
.soft, td:first-child, cite { color: var(--soft); font-style: normal; font-size: .88em } .gone { text-decoration: line-through; color: var(--soft) }
.foreign { color: var(--mark) } .opinion { display: flex; gap: 1rem; align-items: center; margin: .5rem 0 } .opinion p { margin: 0; flex: 1 }
details { margin-left: 1rem } a { color: inherit }
"""


def page(known: Knowledge, title: str) -> str:
    """Return the page. The same knowledge gives the same bytes."""
    counted = Counter(name for fact in known.facts for name in fact.entities)
    names = [name for name, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))]
    opinions, _ = evolve(known.facts)
    body = [f"<h1>{escape(title)}</h1>", f"<p class=soft>{_totals(known, opinions)}</p>"]
    if names:
        body.append(_drawing(known, names[:MOST], counted))
    for name in names:
        about = [fact for fact in known.facts if name in fact.entities]
        held = [opinion for opinion in opinions if opinion.subject == name]
        body.append(_entity(known.names.get(name, name), name, about, held))
    return (
        f'<!doctype html>{MARK}\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{STYLE}</style></head>\n'
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _totals(known: Knowledge, opinions: Sequence[Opinion]) -> str:
    days = [fact.day for fact in known.facts if fact.day]
    span = f", {_day(min(days))} to {_day(max(days))}" if days else ""
    active = sum(opinion.status == "active" for opinion in opinions)
    return f"{len(known.facts)} facts{span}; {len(known.spoken_of)} names; {active} opinions that hold"


def _entity(shown: str, name: str, facts: Sequence[Fact], opinions: Sequence[Opinion]) -> str:
    rows = "\n".join(_row(fact) for fact in facts)
    held = "\n".join(_opinion(opinion) for opinion in opinions)
    return f'<section id="{_anchor(name)}"><h2>{escape(shown)}</h2>\n{held}\n<table>{rows}</table></section>'


def _row(fact: Fact) -> str:
    gone = "" if fact.holds else ' class="gone"'
    why = f" replaced by {escape(fact.replaced_by)}" if fact.replaced_by else " forgotten" if fact.retracted else ""
    foreign = f' <span class="foreign">words of {escape(", ".join(fact.origin))}</span>' if fact.origin else ""
    return (
        f"<tr><td>{_day(fact.day)}</td><td><span{gone}>{escape(fact.text)}</span>{foreign} "
        f"<cite>{escape(fact.citation)}{why}</cite></td></tr>"
    )


def _opinion(opinion: Opinion) -> str:
    gone = "" if opinion.status in {"active", "in doubt"} else ' class="gone"'
    state = "" if opinion.status == "active" else f", {opinion.status}"
    evidence = [("for", fact) for fact in opinion.supports] + [("against", fact) for fact in opinion.contradicts]
    rows = "".join(
        f"<tr><td>{_day(fact.day)} {side}</td><td>{escape(fact.text)} <cite>{escape(fact.citation)}</cite></td></tr>"
        for side, fact in sorted(evidence, key=lambda pair: (pair[1].day or 0, pair[1].citation, pair[0]))
    )
    told = f"{len(opinion.supports)} for, {len(opinion.contradicts)} against"
    return (
        f'<div class="opinion">{_curve(opinion)}<p><span{gone}>{escape(opinion.fact.text)}</span> '
        f'<span class="soft">{opinion.confidence:.0%}{state}</span></p></div>'
        f'<details><summary class="soft">{told}</summary><table>{rows}</table></details>'
    )


def _curve(opinion: Opinion) -> str:
    """Draw how sure an opinion was, from its first day to its last: up is sure."""
    first, last = opinion.curve[0][0], max(opinion.curve[-1][0], opinion.curve[0][0] + 1)
    spots = [*opinion.curve, (last, opinion.curve[-1][1])]
    points = " ".join(f"{4 + 152 * (day - first) / (last - first):.0f},{40 - 36 * sure:.0f}" for day, sure in spots)
    told = ", ".join(f"{_day(day)} {sure:.0%}" for day, sure in opinion.curve)
    return (
        f'<svg class="curve" width="160" height="44" role="img" aria-label="{escape(told)}"><title>{escape(told)}</title>'
        f'<line x1="4" y1="22" x2="156" y2="22"/><polyline points="{points}"/></svg>'
    )


def _drawing(known: Knowledge, names: Sequence[str], counted: Counter[str]) -> str:
    ties: Counter[tuple[str, str]] = Counter()
    drawn = set(names)
    for fact in known.facts:
        ties.update(combinations(sorted(drawn & set(fact.entities)), 2))
    spots = places(names, ties)
    lines = "".join(
        f'<line x1="{spots[a][0]:.0f}" y1="{spots[a][1]:.0f}" x2="{spots[b][0]:.0f}" y2="{spots[b][1]:.0f}" stroke-width="{min(5, count)}"/>'
        for (a, b), count in sorted(ties.items())
    )
    dots = "".join(
        f'<a href="#{_anchor(name)}"><circle cx="{spots[name][0]:.0f}" cy="{spots[name][1]:.0f}" r="{4 + 2 * sqrt(counted[name]):.0f}">'
        f"<title>{escape(known.names.get(name, name))}: {counted[name]} facts</title></circle>"
        f'<text x="{spots[name][0]:.0f}" y="{spots[name][1] - 8 - 2 * sqrt(counted[name]):.0f}" text-anchor="middle">'
        f"{escape(known.names.get(name, name)[:30])}</text></a>"
        for name in names
    )
    top = max(0, min(y for _, y in spots.values()) - EDGE)  # few names leave no empty sheet
    tall = min(HEIGHT, max(y for _, y in spots.values()) + EDGE) - top
    return f'<svg viewBox="0 {top:.0f} {WIDTH} {tall:.0f}" role="img" aria-label="who and what is named together">{lines}{dots}</svg>'


def places(names: Sequence[str], ties: Counter[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Return where each name stands: what is told together draws together, all else keeps apart. Always the same."""
    at = {
        name: [WIDTH / 2 + 260 * cos(2 * pi * i / len(names)), HEIGHT / 2 + 200 * sin(2 * pi * i / len(names))]
        for i, name in enumerate(names)
    }
    ideal = sqrt(WIDTH * HEIGHT / len(names)) * 0.7
    for round_ in range(ROUNDS):
        moved = {name: [(WIDTH / 2 - x) * 0.02, (HEIGHT / 2 - y) * 0.03] for name, (x, y) in at.items()}
        for one, other in combinations(names, 2):
            dx, dy = at[one][0] - at[other][0], at[one][1] - at[other][1]
            far = hypot(dx, dy) or 1.0
            tied = ties.get((one, other) if one < other else (other, one), 0)
            force = ideal * ideal / far / far - (far / ideal * 0.25 * min(3, tied) if tied else 0.0)
            for name, sign in ((one, 1), (other, -1)):
                moved[name][0] += sign * force * dx / far * 10
                moved[name][1] += sign * force * dy / far * 10
        most = 40 * (1 - round_ / ROUNDS) + 1
        for name, (dx, dy) in moved.items():
            shrink = min(1.0, most / (hypot(dx, dy) or 1.0))
            at[name][0] = min(WIDTH - EDGE, max(EDGE, at[name][0] + dx * shrink))
            at[name][1] = min(HEIGHT - EDGE / 2, max(EDGE / 2, at[name][1] + dy * shrink))
    return {name: (x, y) for name, (x, y) in at.items()}


def _anchor(name: str) -> str:
    return escape(f"e-{name}")


def _day(day: int | None) -> str:
    return date.fromordinal(day).isoformat() if day else "undated"
