"""When memory is saved before a compaction. Pure: the turn that saves it is run by whoever composes the program."""

from __future__ import annotations

from msgspec import Struct

from homarus.context.budget import Budget
from homarus.context.settings import FlushSettings, parse_bytes

MAX_FAILURES = 3


class FlushFacts(Struct, frozen=True):
    """What the decision depends on. The two counts are what makes it happen once in each cycle, across restarts."""

    tokens: int
    transcript_bytes: int
    compactions: int
    flushed_at_compaction: int | None
    failures: int = 0
    heartbeat: bool = False
    writable: bool = True
    compacting: bool = False


def due(facts: FlushFacts, budget: Budget, settings: FlushSettings) -> str:
    if not settings.enabled or facts.heartbeat or not facts.writable or facts.failures >= MAX_FAILURES:
        return ""
    if facts.flushed_at_compaction == facts.compactions:
        return ""
    if facts.compacting:
        return "compaction"
    if facts.tokens >= budget.flush_at:
        return "tokens"
    forced = parse_bytes(settings.force_flush_transcript_bytes)
    return "bytes" if forced and facts.transcript_bytes >= forced else ""


FLUSH_PROMPT = """\
The older part of this conversation will soon be condensed. Save now what should not be lost: decisions and their reasons, promises, \
facts about people and projects, open questions. Append them to memory/{date}.md, one short line each, in plain words that \
make sense without this conversation. Change no other file, and repeat nothing that is in your notes already. If there is nothing \
worth saving, answer NO_REPLY. When you have saved it, answer NO_REPLY."""
