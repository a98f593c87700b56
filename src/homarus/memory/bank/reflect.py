"""Bring the bank in line with the notes: what the world is, what was done, who thinks what, and a page for everybody spoken of.

Offline, deterministic and repeatable: a second run on the same notes changes no byte, and a bank that was deleted comes back the same.
Every generated line cites the line of a note that says so. Only marked regions are ours; the rest of a page belongs to people, and so
does a region that somebody edited: it is kept, and what was added to it counts as the owner's word.

    bank/world.md  experience.md  opinions.md  _proposals.md  entities/<slug>.md  entities/_review.md
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from homarus.core.origin import mark_origin
from homarus.core.text import estimate_tokens, single_line, slug
from homarus.memory.bank.assist import Ask, Assisted, assist
from homarus.memory.bank.facts import Fact, Knowledge, conflicts, told
from homarus.memory.bank.grammar import parse_bullet
from homarus.memory.bank.journal import record
from homarus.memory.bank.opinions import Opinion, evolve
from homarus.memory.bank.pages import change, edited_lines, head, is_ours, read_page, refresh, with_front
from homarus.memory.bank.promote import CORE, outdated
from homarus.storage.atomic import remove

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

FOLDER = "bank/entities"
CURRENT, TIMELINE, TEXT, LISTED, RELATED = 12, 40, 300, 150, 10
PAGE = 1_100  # tokens of a page about somebody, its marks not counted: over it the timeline folds first
PROPOSED, SURE, SUPPORTED = 20, 0.75, 2  # for MEMORY.md: how many, how sure an opinion, on how many days it was said


class Page(Struct, frozen=True):
    """What happened to one page. `kept` names the regions that a person edited."""

    path: str
    name: str
    facts: int
    changed: bool
    kept: tuple[str, ...] = ()


class Report(Struct):
    """What a reflection did. `run` names it for `undo`; empty where nothing was written."""

    pages: list[Page]
    facts: int = 0
    diff: str = ""
    run: str = ""
    unclear: list[str] = field(default_factory=list)  # facts that may speak for or against an opinion
    outdated: list[str] = field(default_factory=list)  # lines of MEMORY.md that hold no more
    assisted: Assisted = field(default_factory=Assisted)  # what a model proposed, where one was asked

    @property
    def changed(self) -> bool:
        return any(page.changed for page in self.pages)


class Draft(Struct):
    """A page as it should be: its regions in order, and what stands above them where it is new."""

    path: str
    head: str
    regions: dict[str, str]
    facts: int = 0
    front: dict[str, str] = {}


def reflect(
    memory: Memory, *, dry_run: bool = False, since: date | str | None = None, ask: Ask | None = None
) -> Report:
    """Bring the bank in line with the notes; with `dry_run` only say what would change, as a diff.

    With `since` only the pages of those whom newer facts are about; each page still holds all that is known. `ask` reaches a model that
    may propose what belongs together; what the facts bear out is written to today's note first.
    """
    first = memory.day(since)
    assisted = assist(memory.workspace, memory.knowledge(), ask, memory.today(), dry_run=dry_run) if ask else Assisted()
    known, pages = memory.knowledge(), memory.entity_pages()
    by_hand = _edited(memory.workspace, pages.values())
    if by_hand:
        opinions, _ = evolve(known.facts)
        drafts = _drafts(known, opinions, pages, None)
        ours = {line for draft in drafts for body in draft.regions.values() for line in body.splitlines()}
        known.facts = [*(fact for line, fact in by_hand if line not in ours), *known.facts]
    opinions, unclear = evolve(known.facts)
    listed = [f"{fact.citation}: {fact.text}" for fact in unclear]
    stale = outdated(read_page(memory.workspace, CORE), known.facts)
    report = Report([], len(known.facts), unclear=listed, outdated=stale, assisted=assisted)
    before: dict[str, str] = {}
    for draft in _drafts(known, opinions, pages, first):
        _apply(memory.workspace, draft, report, before, dry_run=dry_run)
    if before and not dry_run:
        report.run = record(memory.workspace, before, memory.today())
    return report


def _drafts(known: Knowledge, opinions: list[Opinion], pages: dict[str, str], since: date | None) -> Iterable[Draft]:
    by_entity: dict[str, list[Fact]] = defaultdict(list)
    for fact in known.facts:
        if not fact.retracted and not fact.by_hand:  # a person's own line is on its page already
            for entity in fact.entities:
                by_entity[entity].append(fact)
    thought: dict[str, list[Opinion]] = defaultdict(list)
    for opinion in opinions:
        thought[opinion.subject].append(opinion)
    related = _related(known.facts)
    newest_first = sorted([f for f in known.facts if not f.by_hand], key=lambda f: (-(f.day or 0), f.path, f.line))
    for kind, title in (("world", "World"), ("experience", "Experience")):
        shown = [f for f in newest_first if f.kind == kind and f.holds and not (f.inferred and f.agent)]
        rows = [_row(replace(f, text=told(f, known.names))) for f in shown[:LISTED]]
        yield Draft(f"bank/{kind}.md", f"# {title}\n", {kind: _listed(rows, len(shown))}, len(shown))
    yield Draft("bank/opinions.md", "# Opinions\n", {"opinions": _opinions(opinions)}, len(opinions))
    by_page: dict[str, list[str]] = defaultdict(
        list
    )  # two names may share a page: by an alias, or because somebody renamed it
    for entity in sorted(by_entity):
        if slug(entity) == entity:  # a name that no file can have stays in the notes
            by_page[pages.get(entity) or f"{FOLDER}/{entity}.md"].append(entity)
    for path, entities in sorted(by_page.items()):
        found = list({f.citation + f.id: f for entity in entities for f in by_entity[entity]}.values())
        known_of = any(not fact.inferred for fact in found) or len(found) > 1 or path in pages.values()
        fresh = since is None or any((fact.day or 0) >= since.toordinal() for fact in found)
        if not (known_of and fresh):
            continue  # who is only mentioned once by the way has no page yet
        name = known.names.get(entities[0]) or entities[0].replace("-", " ").title()
        ordered = sorted(found, key=lambda f: (-(f.day or 0), f.path, f.line))
        held = _held([opinion for entity in entities for opinion in thought[entity]])
        current = "\n\n".join(filter(None, [_current(ordered), held, _conflicts(ordered)]))
        tied = _related_rows(entities[0], related, known)
        room = PAGE - estimate_tokens(current + tied)
        timeline = "\n\n".join(filter(None, [_timeline(ordered, room), tied]))
        front = _front(entities, found)
        yield Draft(path, head(name, front), {"current": current, "timeline": timeline}, len(found), front)
    for path in sorted(set(pages.values()) - by_page.keys()):
        yield Draft(path, "", {"current": "", "timeline": ""})  # nobody is known by that name any more
    yield Draft(f"{FOLDER}/_review.md", "# To look at\n", {"review": _review(known, pages)})
    yield Draft("bank/_proposals.md", PROPOSALS, {"proposals": _proposals(known, opinions)})


def _front(entities: list[str], facts: list[Fact]) -> dict[str, str]:
    """Return what stands at the top of a page: whether it is a person, first and last day spoken of, and how many facts."""
    person = any(
        claim.subject in entities and claim.predicate in {"prefer", "live", "work"} for f in facts for claim in f.claims
    )
    days = sorted(fact.day for fact in facts if fact.day)
    seen = {"first_seen": _iso(days[0]), "last_seen": _iso(days[-1])} if days else {}
    return {"kind": "person" if person else "unknown", **seen, "facts": str(len(facts))}


PROPOSALS = """# Proposals for MEMORY.md

`homarus memory promote ID` takes one over, `homarus memory promote ID --reject` turns it down for good.
"""


def _apply(workspace: Path, draft: Draft, report: Report, before: dict[str, str], *, dry_run: bool) -> None:
    kept: list[str] = []
    old = read_page(workspace, draft.path)
    empty = not any(body.strip("\n# ") and "\n" in body for body in draft.regions.values())
    if empty and (not old or not (draft.head or "<!-- reflect:begin" in old)):
        return  # no page for nothing, and none of ours on somebody's own
    text = with_front(old, draft.front) if draft.front and old else old or draft.head
    for name, body in draft.regions.items():
        done = refresh(text, name, body)
        text = done.text
        kept += [name] if done.kept else []
    if empty and is_ours(text, draft.head):
        text = ""
    report.pages.append(Page(draft.path, PurePosixPath(draft.path).stem, draft.facts, text != old, tuple(kept)))
    if text == old:
        return
    was, now = old.splitlines(keepends=True), text.splitlines(keepends=True)
    report.diff += "".join(difflib.unified_diff(was, now, draft.path if old else "/dev/null", draft.path))
    before[draft.path] = old
    if not dry_run and text:
        change(workspace, draft.path, lambda now: text if now == old else now)  # somebody was faster: next time
    elif not dry_run:
        remove(workspace / draft.path)


def _listed(rows: list[str], count: int) -> str:
    more = [f"- and {count - len(rows)} older ones"] if count > len(rows) else []
    return "\n".join(["## Facts", *rows, *more])


def _row(fact: Fact, *, sure: float | None = None, note: str = "") -> str:
    certain = sure if sure is not None else fact.confidence
    text = single_line(fact.text, TEXT) + (f" (c={certain:.2f})" if certain is not None else "")
    inferred = " (inferred)" if fact.inferred else ""
    line = f"- {text}{inferred}{note} ({fact.citation})"
    return mark_origin(line, fact.origin)  # else the page would wash it clean


def _current(facts: list[Fact]) -> str:
    """Return what holds now: what was written down or read as a claim before other lines, each newest first and said once."""
    held = [fact for fact in facts if fact.holds and not fact.repeated_by and not fact.doubted_by]
    held.sort(key=lambda fact: fact.inferred and not fact.claims)
    return "\n".join(["## Current", *map(_row, held[:CURRENT])])


def _held(opinions: list[Opinion]) -> str:
    rows = [_opinion(o) for o in sorted(opinions, key=_by_day) if o.status == "active"]
    return "\n".join(["## Opinions", *rows[:CURRENT]]) if rows else ""


def _by_day(opinion: Opinion) -> tuple[int, str, int]:
    return -opinion.last, opinion.fact.path, opinion.fact.line


def _opinion(opinion: Opinion) -> str:
    """Return an opinion with its confidence, where that is going, and the evidence both ways."""
    arrow = "↑" if opinion.trend > 0.005 else "↓" if opinion.trend < -0.005 else "→"
    doubt = [opinion.fact.doubted_by] if opinion.status == "in doubt" else []
    evidence = list(dict.fromkeys([*(f.citation for f in (*opinion.supports[-3:], *opinion.contradicts[-3:])), *doubt]))
    counts = f"[+{len(opinion.supports)} −{len(opinion.contradicts)}; {arrow}; last {_iso(opinion.last)}]"
    about = f"c={opinion.confidence:.2f},id={opinion.fact.id}"
    return f"- O({about}) @{opinion.subject}: {single_line(opinion.fact.text, TEXT)} {counts} ({', '.join(evidence)})"


_SECTIONS = (("active", "Held"), ("in doubt", "In doubt"), ("superseded", "Superseded"), ("retired", "Retired"))


def _opinions(opinions: list[Opinion]) -> str:
    parts = []
    for status, title in _SECTIONS:
        found = sorted((o for o in opinions if o.status == status), key=lambda o: (o.subject, *_by_day(o)))
        parts += ["\n".join([f"## {title}", *map(_opinion, found[: 2 * LISTED])])] if found else []
    return "\n\n".join(parts)


def _conflicts(facts: Sequence[Fact]) -> str:
    rows = [f"{_row(one)} or:\n{_row(other)}" for one, other in conflicts(facts)]
    return "\n".join(["## Open conflicts", *rows[:CURRENT]]) if rows else ""


def _timeline(facts: list[Fact], room: int) -> str:
    """Return everything by month, newest first; what is beyond the tokens left on the page is folded into one count."""
    rows: list[str] = ["## Timeline"]
    folded, month = 0, ""
    for fact in facts:
        named = _iso(fact.day)[:7] if fact.day else "undated"
        new = [*([f"### {named}"] if named != month else []), _dated(fact)]
        room -= sum(map(estimate_tokens, new))
        if folded or room < 0 or len(rows) + len(new) > TIMELINE:
            folded += 1
            continue
        rows += new
        month = named
    return "\n".join([*rows, *([f"- and {folded} older facts"] if folded else [])])


def _dated(fact: Fact) -> str:
    doubt = f"; in doubt since {fact.doubted_by}" if fact.doubted_by and fact.holds else ""
    return _row(fact, note=f"; replaced by {fact.replaced_by}" if fact.replaced_by else doubt)


def _related(facts: Iterable[Fact]) -> Counter[tuple[str, str]]:
    return Counter(pair for fact in facts for pair in combinations(sorted(set(fact.entities)), 2))


def _related_rows(entity: str, related: Counter[tuple[str, str]], known: Knowledge) -> str:
    found = [
        (count, other)
        for pair, count in related.items()
        if entity in pair and count > 1
        for other in pair
        if other != entity
    ]
    rows = [
        f"- {known.names.get(other, other)}: {count} facts together"
        for count, other in sorted(found, key=lambda x: (-x[0], x[1]))
    ]
    return "\n".join(["## Related", *rows[:RELATED]]) if rows else ""


def _review(known: Knowledge, pages: dict[str, str]) -> str:
    """Return names that may be one person: never merged by the program, `aliases:` on a page does it."""
    seen = sorted({entity for fact in known.facts for entity in fact.entities})
    rows = []
    for short in seen:
        longer = [name for name in seen if name != short and len(short) >= 3 and name.startswith(short)]
        if len(longer) == 1 and pages.get(short) != pages.get(longer[0], ""):
            rows.append(f"- {short} may be {longer[0]}: write `aliases: [{short}]` on {FOLDER}/{longer[0]}.md")
    return "\n".join(["## Perhaps the same", *rows[:LISTED]]) if rows else ""


def _proposals(known: Knowledge, opinions: list[Opinion]) -> str:
    """Return what is worth being in every prompt: held, said by the owner, sure or said on several days, able to stand alone."""
    rows = []
    for opinion in sorted(opinions, key=lambda o: (-len({f.day for f in o.supports}), *_by_day(o))):
        fact = opinion.fact
        days = len({supporting.day for supporting in opinion.supports})
        able = fact.trusted and not fact.agent and len(fact.text.split()) >= 3 and fact.id not in known.rejected
        if able and opinion.status == "active" and (opinion.confidence >= SURE or days > SUPPORTED):
            rows.append(f"- [ ] `{fact.id}` {single_line(told(fact, known.names), TEXT)} ({fact.citation})")
    return "\n".join(["## Proposed", *rows[:PROPOSED]]) if rows else ""


_TAIL = re.compile(
    r"\s*(?:\(c=[\d.]+\)\s*)?(?:\(inferred\)\s*)?(?:; (?:replaced by|in doubt since) \S+\s*)?(?:\[\+[^\]]*\]\s*)?(?:\([^()]*(?:#L|bank/)[^()]*\)\s*)?$"
)


def _edited(workspace: Path, pages: Iterable[str]) -> list[tuple[str, Fact]]:
    """Return the lines of generated regions that somebody edited, and what each says as the owner's word."""
    found: list[tuple[str, Fact]] = []
    for path in sorted({"bank/opinions.md", "bank/world.md", "bank/experience.md", *pages}):
        entity = slug(PurePosixPath(path).stem) if path.startswith(FOLDER) else ""
        for number, line in edited_lines(read_page(workspace, path)):
            bullet = parse_bullet(_TAIL.sub("", line))
            if bullet is not None:
                linked = tuple(filter(None, map(slug, bullet.entities))) or ((entity,) if entity else ())
                place: dict[str, Any] = {"path": path, "line": number, "end_line": number, "day": None}
                said: dict[str, Any] = {"id": bullet.id, "kind": bullet.kind, "text": bullet.text}
                fact = Fact(**place, **said, entities=linked, confidence=bullet.confidence)
                found.append((line, fact))
    return found


def _iso(day: int | None) -> str:
    return date.fromordinal(day).isoformat() if day else "undated"
