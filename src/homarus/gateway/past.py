"""What a session's log already says about its next turn: what its carriers said, and what its row remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.load import Config
from homarus.context.pins import pinned
from homarus.core.clock import Clock, SystemIds
from homarus.core.messages import Assistant, Message, User
from homarus.core.routes import SessionKey
from homarus.prompt.facts import RuntimeFacts, TurnFacts
from homarus.prompt.sections.turn import standing_instructions
from homarus.prompt.volatile import said_in_view
from homarus.sessions.entry import Entry
from homarus.sessions.log import load_tail
from homarus.sessions.places import visit
from homarus.sessions.row import SessionEntry
from homarus.sessions.settings import SessionSettings
from homarus.sessions.store import SessionStore
from homarus.sessions.view import project, visible


class Past(Struct, frozen=True, kw_only=True):
    """The state in which a session waits for its next turn. The default is a session that nobody has begun."""

    session_id: str = ""
    # What carriers said since the last compaction; after one, everything is said again.
    said: dict[str, str] = {}
    # What begins with the next turn: a session that is `new`, one after a `reset`, or nothing.
    occasion: str = "new"
    tokens: int | None = None
    messages: dict[str, int] = {}
    skills: Any = None
    # What the session keeps of its last run's prompt: see `prompt.kept`.
    report: Any = None
    turn: TurnFacts = TurnFacts()


def past_of(config: Config, clock: Clock, key: SessionKey) -> Past:
    """Read a session's past; nothing is changed, and a session that is not there has none."""
    main_key = config.block("session", SessionSettings).main_key
    folder = config.paths.sessions_dir(key.agent_id)
    info = SessionStore(folder, key.agent_id, clock=clock, ids=SystemIds(), main_key=main_key).find(key)
    if info is None:
        return Past()
    past = Past(
        session_id=info.entry.session_id,
        tokens=info.entry.total_tokens or None,
        skills=info.entry.skills_snapshot,
        report=info.entry.system_prompt_report,
        turn=_turn(info.entry),
        occasion="reset" if info.entry.started_by == "reset" else "new",
    )
    try:
        with visit(info.place) as source:
            return _with_log(past, load_tail(source).entries)
    except FileNotFoundError:
        return past


def _with_log(past: Past, branch: Sequence[Entry]) -> Past:
    view = visible(branch)
    counts = Counter(_role(message) for message in project(view))
    return replace(
        past,
        said=said_in_view(view),
        turn=replace(past.turn, extras=standing_instructions(pinned(branch))),
        occasion="" if counts else past.occasion,
        messages=dict(sorted(counts.items())),
    )


def _turn(row: SessionEntry) -> TurnFacts:
    chosen = [part for part in (row.provider_override, row.model_override) if part]
    return TurnFacts(
        reasoning=row.reasoning_level or "off",
        elevated=row.elevated_level or "off",
        runtime=RuntimeFacts(
            model="/".join(chosen) if row.model_override else "",
            channel=row.last_channel or row.channel or "",
            thinking=row.thinking_level or "",
        ),
    )


def _role(message: Message) -> str:
    return "user" if isinstance(message, User) else "assistant" if isinstance(message, Assistant) else "tool results"
