"""Prove that memory works: a line is written, found and removed again; and everything odd is named with its cure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homarus.core.clock import Ids, SystemIds
from homarus.core.errors import HomarusError
from homarus.memory.memory import Memory
from homarus.storage.atomic import create_new, ensure_dir


class Check(Struct, frozen=True):
    name: str
    level: Literal["ok", "warning", "error"]
    message: str
    cure: str = ""


def examine(memory: Memory, *, canary: bool = True, ids: Ids | None = None) -> list[Check]:
    """Return what is right and wrong with a memory. Only the canary writes, and it cleans up."""
    checks = [_workspace(memory)]
    if checks[0].level == "error":
        return checks
    try:
        memory.sync()
        checks += _index(memory)
        if canary:
            checks.append(_canary(memory, ids or SystemIds()))
    except HomarusError as problem:
        checks.append(Check("index", "error", problem.message, problem.cure))
    return checks


def _workspace(memory: Memory) -> Check:
    if not memory.workspace.is_dir():
        return Check(
            "workspace", "error", f"{memory.workspace} is no folder", "create it, or name another with --workspace"
        )
    return Check("workspace", "ok", str(memory.workspace))


def _index(memory: Memory) -> list[Check]:
    found = memory.status()
    counted = f"{found.files:,} files, {found.lines:,} lines, {found.facts:,} retained facts"
    checks = [
        Check("index", "ok", counted)
        if found.files
        else Check("index", "warning", "no notes yet", "write some to memory/")
    ]
    if found.degraded:
        checks.append(Check("degraded", "warning", found.degraded))
    if found.stale:
        checks.append(Check("stale", "warning", found.stale, "run 'homarus memory index'"))
    checks += [Check("path", "warning", problem) for problem in found.problems]
    sessions, notes = found.sources.get("sessions", 0), found.sources.get("memory", 0)
    if sessions:
        share = memory.settings.query.sessions_share
        checks.append(
            Check(
                "sources",
                "ok",
                f"{notes:,} notes, {sessions:,} transcripts; transcripts fill at most {share:.0%} of a result",
            )
        )
    return checks


def _canary(memory: Memory, ids: Ids) -> Check:
    """Write a note that cannot exist yet, find it by its words in another order, and remove it."""
    word = "canary" + "".join(chr(ord("a") + int(digit, 16)) for digit in ids.short())
    path = memory.workspace / "memory" / f"doctor-{word}.md"
    ensure_dir(path.parent, mode=0o755)
    if not create_new(path, f"The {word} sings behind the blue door.\n".encode()):
        return Check("canary", "warning", f"{path.name} exists already", "remove it and try again")
    try:
        answer = memory.search(f"blue door {word}", 3)
        place = next((rank for rank, hit in enumerate(answer, 1) if word in hit.text), 0)
    finally:
        path.unlink(missing_ok=True)
    gone = not any(word in hit.text for hit in memory.search(word, 3))
    if not place:
        return Check("canary", "error", "a fresh line was not found", "run 'homarus memory rebuild'")
    if not gone:
        return Check("canary", "error", "a removed line is still found", "run 'homarus memory rebuild'")
    return Check("canary", "ok", f"written, found at place {place} in {answer.searched_ms:.0f} ms, removed")
