"""What a person decides about facts: take one back, take one over into MEMORY.md, or turn it down. All of it is written in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from homarus.core.errors import ToolError
from homarus.memory.bank.facts import Fact, told
from homarus.memory.bank.grammar import Bullet
from homarus.memory.bank.pages import change, read_page
from homarus.memory.bank.retain import retain
from homarus.memory.results import parse_citation

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

CORE, HEADING, MAX_CORE = "MEMORY.md", "## Learned", 10_000
_TAKEN = re.compile(r"<!-- \^([^\s>]+) -->\s*$")
_PROPOSED = re.compile(r"^- \[[ xX]\] `(?P<id>[^`]+)` (?P<text>.*)$", re.MULTILINE)


def find(memory: Memory, reference: str) -> Fact:
    """Return the fact that somebody names by ^id or by place."""
    path, line, _ = parse_citation(reference)
    for fact in memory.knowledge().facts:
        if fact.id == reference.removeprefix("^") or (line and (fact.path, fact.line) == (path, line)):
            return fact
    raise ToolError(
        f"there is no fact '{reference}'", cure="'homarus memory timeline --entity NAME --json' shows ids and places"
    )


def mark(memory: Memory, reference: str, name: str) -> tuple[str, int]:
    """Write to today's note that a fact is to be forgotten (`forget`) or not promoted (`reject`); its words are not repeated."""
    fact = find(memory, reference)
    said = {"forget": "was taken back and is not learned again", "reject": "is not taken over into MEMORY.md"}[name]
    bullet = Bullet("observation", f"A fact of {fact.citation.partition('#')[0]} {said}.", (), ((name, f"^{fact.id}"),))
    return retain(memory.workspace, bullet, memory.today())


def proposals(memory: Memory) -> list[str]:
    """Return the rows that are proposed now and not yet taken over."""
    taken = read_page(memory.workspace, CORE)
    rows = _PROPOSED.finditer(read_page(memory.workspace, "bank/_proposals.md"))
    return [f"{row['id']}  {row['text']}" for row in rows if f"^{row['id']}" not in taken]


def outdated(core: str, facts: Iterable[Fact]) -> list[str]:
    """Return the lines of MEMORY.md that were taken over from facts which hold no more: every prompt carries them, and only people change them."""
    gone = {fact.id: fact for fact in facts if not fact.holds}
    out = []
    for number, line in enumerate(core.splitlines(), 1):
        fact = gone.get(match[1]) if (match := _TAKEN.search(line)) else None
        if fact is not None:
            why = f"replaced by {fact.replaced_by}" if fact.replaced_by else "taken back"
            out.append(f"{CORE}#L{number} was {why}: {fact.text}")
    return out


def promote(memory: Memory, identity: str) -> str:
    """Append a fact to MEMORY.md and return the line. Words of strangers are refused, and so is what would make the file too large."""
    fact = find(memory, identity)
    if fact.origin:
        raise ToolError(
            f"the fact holds words from {', '.join(fact.origin)}", cure="check it, and take its origin mark away first"
        )
    if not fact.holds:
        raise ToolError("the fact does not hold any more", cure=f"promote what replaced it: {fact.replaced_by}")
    line = f"- {told(fact, memory.knowledge().names)} ({fact.citation}) <!-- ^{fact.id} -->"

    def add(text: str) -> str:
        if f"^{fact.id} " in text:
            return text
        if len(text) + len(line) > MAX_CORE:
            cure = "move something else to a note first: every prompt carries this file"
            raise ToolError(f"{CORE} would be larger than {MAX_CORE:,} characters", cure=cure)
        body = text.rstrip("\n") + ("\n" if text.strip() else "")
        return f"{body}{line}\n" if HEADING in body.splitlines() else f"{body}\n{HEADING}\n{line}\n".lstrip("\n")

    change(memory.workspace, CORE, add)
    return line
