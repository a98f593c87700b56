"""What a session's log already says about its next turn: what its carriers said, and what its row remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.compose import PromptRequest
from homarus.agent.toolkit import window_layers
from homarus.config.view import Config
from homarus.context.pins import pinned
from homarus.core.clock import Clock, SystemIds
from homarus.core.messages import Assistant, Message, Trust, User
from homarus.core.routes import SessionKey
from homarus.core.tools import ToolSpec
from homarus.models.ref import split_ref
from homarus.prompt.carrier import said_in_view
from homarus.prompt.facts import TurnFacts
from homarus.prompt.sections.conversation import standing_instructions
from homarus.prompt.sections.tooling import told_to
from homarus.sessions.entry import Entry
from homarus.sessions.log import load_tail
from homarus.sessions.places import visit
from homarus.sessions.row import SessionEntry
from homarus.sessions.store import SessionStore
from homarus.sessions.view import project, visible

if TYPE_CHECKING:
    from homarus.agent.home import Home
    from homarus.prompt.report import Report


class SessionState(Struct, frozen=True, kw_only=True):
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


def session_state(config: Config, clock: Clock, key: SessionKey) -> SessionState:
    """Read a session's past; nothing is changed, and a session that is not there has none."""
    info = SessionStore.of(config, key.agent_id, clock=clock, ids=SystemIds()).find(key)
    if info is None:
        return SessionState()
    past = SessionState(
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


class NextTools(Struct, frozen=True):
    """The tools of a session's next turn, and the names of those for which its model's window is too small."""

    window: int
    specs: tuple[ToolSpec, ...]
    left_out: tuple[str, ...]


def next_tools(home: Home, key: SessionKey, model: str) -> NextTools:
    """Return the tools that the owner's next turn has with a model; a window that nobody knows takes none away."""
    ref = split_ref(model or home.composer.agent(key.agent_id).model)
    window = home.models.window(home.config.agent(key.agent_id), ref) if ref else 0
    every = home.toolkit.box(key.agent_id).tools
    left = home.toolkit.box(key.agent_id, more=window_layers(home.config, key.agent_id, window)).tools
    specs = told_to(window, [tool.spec for tool in left.values()])
    return NextTools(window, specs, tuple(name for name in every if name not in left))


def prompt_report(home: Home, key: SessionKey, *, fresh: bool = False) -> Report:
    """Return the figures of the last run's prompt; `fresh`, or where there was none, those of the next turn's."""
    from homarus.prompt.report import About, last_run

    past = session_state(home.config, home.clock, key)
    tools = next_tools(home, key, past.turn.model)
    composed = home.composer.prompt_for(
        PromptRequest(
            agent_id=key.agent_id,
            session=key,
            window=tools.window,
            tools=tools.specs,
            turn=past.turn,
            trust=Trust.OWNER,
            chat_type="direct",
            sandbox=home.sandbox(key.agent_id, key),
            session_id=past.session_id,
        )
    )
    about = About(
        window=tools.window, session_tokens=past.tokens, messages=past.messages, tools_left_out=tools.left_out
    )
    report = home.composer.report_for(composed, about=about, said=past.said)
    return report if fresh else last_run(past.report, report)


def _with_log(past: SessionState, branch: Sequence[Entry]) -> SessionState:
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
        model="/".join(chosen) if row.model_override else "",
        channel=row.last_channel or row.channel or "",
        thinking=row.thinking_level or "",
    )


def _role(message: Message) -> str:
    return "user" if isinstance(message, User) else "assistant" if isinstance(message, Assistant) else "tool results"
