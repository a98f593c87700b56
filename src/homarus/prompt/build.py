"""Put the sections together, in one fixed order, and keep the stable part while its inputs stay the same.

Pure: nothing here reads a file, a clock or a configuration. Equal facts give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec
from msgspec import Struct

from homarus.core.prompt import SystemPrompt
from homarus.prompt.facts import PromptFacts, SessionFacts, StableFacts, TurnFacts
from homarus.prompt.section import Mode, Section, Tier
from homarus.prompt.sections import conduct, conversation, home, knowledge, tooling
from homarus.storage.cache import BoundedCache

Stable = tuple[str, tuple[Section, ...]]

_F, _M, _L, _N = Mode.FULL, Mode.MINIMAL, Mode.LEAN, Mode.NONE
_ANY, _MOST, _BOTH = frozenset({_F, _M, _L, _N}), frozenset({_F, _M, _L}), frozenset({_F, _M})
_FULL, _LEAN, _MINIMAL = frozenset({_F}), frozenset({_F, _L}), frozenset({_M})


class StableRow(Struct, frozen=True):
    """A row of the order table above the boundary: it sees stable facts and nothing else."""

    name: str
    modes: frozenset[Mode]
    render: Callable[[StableFacts], str]


class SessionRow(Struct, frozen=True):
    name: str
    modes: frozenset[Mode]
    render: Callable[[StableFacts, SessionFacts], str]


class TurnRow(Struct, frozen=True):
    """A row that rides on the newest user turn; with `once` it speaks of that turn alone."""

    name: str
    modes: frozenset[Mode]
    render: Callable[[StableFacts, TurnFacts], str]
    once: bool = False


STABLE = (
    StableRow("Identity", _ANY, conduct.identity),
    StableRow("Tooling", _BOTH, tooling.tooling),
    StableRow("Tool Call Style", _BOTH, conduct.tool_style),
    StableRow("Execution Bias", _FULL, conduct.execution_bias),
    StableRow("Provider", _ANY, conduct.provider_prefix),
    StableRow("Safety", _MOST, conduct.safety),
    StableRow("Runtime Context", _MOST, conduct.runtime_context),
    StableRow("Command Line", _BOTH, tooling.command_line),
    StableRow("Skills", _FULL, knowledge.skills),
    StableRow("Skills", _MINIMAL, knowledge.minimal_skills),
    StableRow("Memory Recall", _FULL, knowledge.memory),
    StableRow("Self-Update", _FULL, tooling.self_update),
    StableRow("Model Aliases", _FULL, knowledge.aliases),
    StableRow("Workspace", _MOST, home.workspace),
    StableRow("Documentation", _FULL, knowledge.documentation),
    StableRow("Sandbox", _MOST, home.sandbox),
    StableRow("First Run", _LEAN, home.ritual),
    StableRow("Partial Files", _LEAN, home.truncation),
    StableRow("Workspace Files", _BOTH, home.files_note),
    StableRow("Reasoning Format", _MOST, conduct.reasoning_format),
    StableRow("Project Context", _MOST, home.project_context),
)
SESSION = (
    SessionRow("Context Engine", _ANY, conversation.engine_addition),
    SessionRow("Messaging", _FULL, conversation.messaging),
    SessionRow("Voice", _FULL, conversation.voice),
    SessionRow("Group Chat Context", _LEAN, conversation.group_context),
    SessionRow("Subagent Context", _MINIMAL, conversation.subagent_context),
)
TURN = (
    TurnRow("HEARTBEAT.md", _MOST, conversation.heartbeat_file),
    TurnRow("Date", _MOST, conversation.date),
    TurnRow("Memory Search Results", _LEAN, conversation.recall, once=True),
    TurnRow("Output Directives", _LEAN, conversation.output_directives),
    TurnRow("Silent Replies", _LEAN, conversation.silent_replies),
    TurnRow("Authorized Senders", _FULL, conversation.senders),
    TurnRow("Reactions", _FULL, conversation.reactions),
    TurnRow("Heartbeats", _LEAN, conversation.heartbeats),
    TurnRow("Model Notes", _ANY, conversation.provider_suffix),
    TurnRow("Runtime", _BOTH, conversation.runtime_line),
    TurnRow("Levels", _BOTH, conversation.levels),
)


class Prompt(Struct, frozen=True):
    """A rendered prompt. `system` is byte-identical from turn to turn; `volatile` is what the carrier may say."""

    system: SystemPrompt
    sections: tuple[Section, ...]
    volatile: tuple[Section, ...]


class PrefixCache:
    """The stable parts of the last few prompts, by the sha256 of everything they were made from."""

    def __init__(self, max_entries: int = 64) -> None:
        # A part is kept twice: joined, and in sections for the report.
        self._kept: BoundedCache[bytes, Stable] = BoundedCache(max_entries, 32_000_000, lambda kept: 2 * len(kept[0]))
        self.hits = 0

    def __len__(self) -> int:
        return len(self._kept)

    def stable(self, facts: StableFacts, mode: Mode) -> Stable:
        """Return the stable part, rendered at most once while its inputs are remembered."""
        key = digest((mode, facts))
        kept = self._kept.get(key)
        if kept is not None:
            self.hits += 1
            return kept
        rendered = _stable(facts, mode)
        self._kept.put(key, rendered)
        return rendered


def build(facts: PromptFacts, mode: Mode | str = Mode.FULL, *, cache: PrefixCache | None = None) -> Prompt:
    """Render a prompt. The system part depends on `facts.stable`, `facts.session` and the mode alone."""
    mode = Mode(mode)
    text, stable = cache.stable(facts.stable, mode) if cache is not None else _stable(facts.stable, mode)
    below = _present(
        Section(row.name, row.render(facts.stable, facts.session), Tier.SESSION) for row in SESSION if mode in row.modes
    )
    riding = _present(
        Section(row.name, row.render(facts.stable, facts.turn), Tier.VOLATILE, row.once)
        for row in TURN
        if mode in row.modes
    )
    extras = () if mode is Mode.NONE else facts.turn.extras
    return Prompt(SystemPrompt(text, _join(below)), stable + below, extras + riding)


def digest(inputs: object) -> bytes:
    try:
        return sha256(msgspec.msgpack.encode(inputs)).digest()
    except UnicodeEncodeError:
        # A file name that is no UTF-8; its representation is text in any case.
        return sha256(repr(inputs).encode()).digest()


def _stable(facts: StableFacts, mode: Mode) -> Stable:
    sections = _present(Section(row.name, row.render(facts), Tier.STABLE) for row in STABLE if mode in row.modes)
    return _join(sections), sections


def _present(sections: Iterable[Section]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section.text)


def _join(sections: Iterable[Section]) -> str:
    return "\n\n".join(section.text for section in sections)
