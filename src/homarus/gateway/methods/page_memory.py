"""What our own page asks of memory: reasons, notes to read and edit, and what is known of whom."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from homarus.core.errors import HomarusError
from homarus.core.text import slug
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, READ
from homarus.memory.bank.facts import Fact
from homarus.memory.bank.opinions import Opinion, evolve
from homarus.memory.memory import Memory
from homarus.memory.results import parse_citation
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.boundary import BoundaryError, Root

Json = dict[str, Any]
MAX_NOTE, MAX_NOTES, MAX_FACTS = 4 << 20, 5_000, 4_000
KEPT = 20  # versions of a note that an edit replaced


class AgentParams(Params, frozen=True):
    agent: str = ""


class NoteParams(Params, frozen=True, kw_only=True):
    path: str
    agent: str = ""


class VersionParams(NoteParams, frozen=True, kw_only=True):
    version: str


class SaveParams(NoteParams, frozen=True, kw_only=True):
    text: str
    hash: str


class ExplainParams(Params, frozen=True, kw_only=True):
    query: str
    citation: str
    agent: str = ""


def _memory(call: Call, agent: str) -> Memory:
    return call.client.home.memory(call.client.home.config.agent_named(agent).id)


async def explain(call: Call, params: ExplainParams) -> Json:
    """Say what spoke for a line, signal by signal."""
    if parse_citation(params.citation)[1] is None:
        raise Refused("citation must name a line, such as memory/2026-01-31.md#L12")
    found = await asyncio.to_thread(_memory(call, params.agent).explain, params.query, params.citation)
    return dict(to_builtins(found))


async def notes(call: Call, params: AgentParams) -> Json:
    memory = _memory(call, params.agent)

    def look() -> Json:
        found = memory.notes.sweep()
        rows = [{"path": each.path, "size": each.size, "time": int(each.mtime * 1000)} for each in found[:MAX_NOTES]]
        return {"notes": rows, "more": len(found) > MAX_NOTES, "status": to_builtins(memory.status())}

    return await asyncio.to_thread(look)


async def note(call: Call, params: NoteParams) -> Json:
    memory = _memory(call, params.agent)
    return await asyncio.to_thread(_read, call, memory, params)


def _read(call: Call, memory: Memory, params: NoteParams) -> Json:
    path = parse_citation(params.path)[0]
    data = _bytes(memory, path)
    versions = [each.stem for each in sorted(_shelf(call, params, path).glob("*.md"), reverse=True)]
    facts = {"path": path, "hash": _digest(data), "exists": data is not None, "editable": _own(memory, path)}
    return {**facts, "text": (data or b"").decode("utf-8", "replace"), "versions": versions[:KEPT]}


def _bytes(memory: Memory, path: str) -> bytes | None:
    place = memory.notes.locate(path)
    if place is None:
        raise Refused("only MEMORY.md, USER.md, Markdown below memory/ and bank/, and the extra paths can be read")
    if not place[0].is_dir():
        return None
    with Root(place[0]) as root:
        found = root.read(place[1], max_bytes=MAX_NOTE)
    if found.kind == "missing":
        return None
    if found.kind != "ok" or found.truncated:
        raise Refused(f"{path} cannot be read here: it is too large, a link, or no file")
    return found.data


def _own(memory: Memory, path: str) -> bool:
    """Say whether a note is in the workspace itself; what lies elsewhere is only read."""
    place = memory.notes.locate(path)
    return place is not None and place[0] == memory.workspace


def _digest(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


def _shelf(call: Call, params: NoteParams, path: str) -> Path:
    home = call.client.home
    agent = home.config.agent_named(params.agent).id
    return home.config.paths.own_dir / "notes" / agent / hashlib.sha256(path.encode()).hexdigest()[:24]


async def version(call: Call, params: VersionParams) -> Json:
    """Return a note as it was before an edit."""
    path = parse_citation(params.path)[0]
    if slug(params.version) != params.version.lower():
        raise Refused("no such version")
    file = _shelf(call, params, path) / f"{params.version}.md"
    try:
        return {"path": path, "version": params.version, "text": file.read_text(encoding="utf-8", errors="replace")}
    except OSError:
        raise Refused("no such version") from None


async def save(call: Call, params: SaveParams) -> Json:
    """Write a note if it is still what the page showed; what stood there before is kept."""
    memory, path, data = _memory(call, params.agent), parse_citation(params.path)[0], params.text.encode()
    if len(data) > MAX_NOTE:
        raise Refused(f"{path} would be larger than {MAX_NOTE:,} bytes")

    def write() -> Json:
        old = _bytes(memory, path)
        if not _own(memory, path):
            raise Refused(f"{path} lies outside the workspace and is only read here")
        if params.hash != _digest(old):
            raise Refused(f"{path} was changed since it was opened", details={"code": "CHANGED"})
        if old is not None:
            _keep(call, params, path, old)
        ensure_dir(memory.workspace)
        with Root(memory.workspace) as root:
            if (folder := Path(path).parent.as_posix()) != ".":
                root.make_dirs(folder, mode=0o755)
            root.write(path, data, mode=0o644)
        return _read(call, memory, params)

    try:
        return await asyncio.to_thread(write)
    except BoundaryError as problem:
        raise Refused(str(problem)) from None


def _keep(call: Call, params: NoteParams, path: str, data: bytes) -> None:
    shelf = _shelf(call, params, path)
    ensure_dir(shelf)
    moment = f"{call.client.home.clock.now():%Y-%m-%dt%H-%M-%S-%f}"
    write_atomic(shelf / f"{moment}.md", data)
    for old in sorted(shelf.glob("*.md"), reverse=True)[KEPT:]:
        old.unlink(missing_ok=True)


async def knowledge(call: Call, params: AgentParams) -> Json:
    """Return the facts of the notes, whom they are about, and the opinions that follow from them."""
    memory = _memory(call, params.agent)

    def look() -> Json:
        known, pages = memory.knowledge(), memory.entity_pages()
        facts = known.facts[-MAX_FACTS:]
        opinions, _ = evolve(known.facts)
        people = sorted({name for fact in facts for name in fact.entities})
        return {
            "entities": [{"slug": x, "name": known.names.get(x, x), "page": pages.get(x, "")} for x in people],
            "facts": [_fact(fact) for fact in facts],
            "more": len(known.facts) > len(facts),
            "opinions": [_opinion(each) for each in opinions[-500:]],
        }

    return await asyncio.to_thread(look)


def _fact(fact: Fact) -> Json:
    facts = {"id": fact.id, "kind": fact.kind, "text": fact.text, "source": fact.citation, "day": _day(fact.day)}
    more = {"entities": fact.entities, "inferred": fact.inferred, "origin": fact.origin, "gone": fact.retracted}
    return {**facts, **more, "replacedBy": fact.replaced_by}


def _opinion(opinion: Opinion) -> Json:
    facts = {"id": opinion.fact.id, "text": opinion.fact.text, "subject": opinion.subject, "status": opinion.status}
    sides = {"supports": [_fact(each) for each in opinion.supports[-20:]],
             "contradicts": [_fact(each) for each in opinion.contradicts[-20:]]}  # fmt: skip
    days = {"first": _day(opinion.first), "last": _day(opinion.last)}
    points = [{"day": _day(day), "confidence": round(sure, 3)} for day, sure in opinion.curve[-120:]]
    return {
        **facts,
        **sides,
        **days,
        "points": points,
        "confidence": round(opinion.confidence, 3),
        "trend": round(opinion.trend, 3),
    }


def _day(ordinal: int | None) -> str:
    return date.fromordinal(ordinal).isoformat() if ordinal else ""


async def reflect(call: Call, params: AgentParams) -> Json:
    """Bring the pages of the bank in line with the notes."""
    from homarus.memory.bank.reflect import reflect as run

    try:
        report = await asyncio.to_thread(run, _memory(call, params.agent))
    except HomarusError as problem:
        raise Refused(str(problem)) from None
    return {"pages": [{"path": page.path, "facts": page.facts, "changed": page.changed} for page in report.pages]}


METHODS = {
    "page.memory.explain": Method(READ, explain, ExplainParams),
    "page.memory.notes": Method(READ, notes, AgentParams),
    "page.memory.note": Method(READ, note, NoteParams),
    "page.memory.version": Method(READ, version, VersionParams),
    "page.memory.save": Method(ADMIN, save, SaveParams, write=True),
    "page.memory.knowledge": Method(READ, knowledge, AgentParams),
    "page.memory.reflect": Method(ADMIN, reflect, AgentParams, write=True),
}
