"""Put the sections together, in one fixed order, and keep the stable part while its inputs stay the same.

Pure: nothing here reads a file, a clock or a configuration. Equal facts give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec
from msgspec import Struct

from homarus.core.prompt import SystemPrompt
from homarus.prompt.facts import PromptFacts, StableFacts
from homarus.prompt.section import Mode, Section, Tier
from homarus.prompt.sections import conduct, conversation, home, tooling
from homarus.storage.cache import BoundedCache

Stable = tuple[str, tuple[Section, ...]]

_F, _M, _L, _N = Mode.FULL, Mode.MINIMAL, Mode.LEAN, Mode.NONE
_ANY, _MOST, _BOTH = frozenset({_F, _M, _L, _N}), frozenset({_F, _M, _L}), frozenset({_F, _M})
_FULL, _LEAN, _MINIMAL = frozenset({_F}), frozenset({_F, _L}), frozenset({_M})


class Row(Struct, frozen=True):
    """A section of the order table. `render` is handed the facts of its tier and, below the boundary, the stable ones first.

    With `once` a section of the newest user turn speaks of that turn alone.
    """

    name: str
    modes: frozenset[Mode]
    render: Callable[..., str]
    once: bool = False


STABLE = (
    Row("Identity", _ANY, conduct.identity),
    Row("Tooling", _BOTH, tooling.tooling),
    Row("Tool Call Style", _BOTH, conduct.tool_style),
    Row("Execution Bias", _FULL, conduct.execution_bias),
    Row("Provider", _ANY, conduct.provider_prefix),
    Row("Safety", _MOST, conduct.safety),
    Row("Runtime Context", _MOST, conduct.runtime_context),
    Row("Command Line", _BOTH, tooling.command_line),
    Row("Skills", _FULL, tooling.skills),
    Row("Skills", _MINIMAL, tooling.minimal_skills),
    Row("Memory Recall", _FULL, tooling.memory),
    Row("Self-Update", _FULL, tooling.self_update),
    Row("Model Aliases", _FULL, tooling.aliases),
    Row("Workspace", _MOST, home.workspace),
    Row("Documentation", _FULL, tooling.documentation),
    Row("Sandbox", _MOST, home.sandbox),
    Row("First Run", _LEAN, home.ritual),
    Row("Partial Files", _LEAN, home.truncation),
    Row("Workspace Files", _BOTH, home.files_note),
    Row("Reasoning Format", _MOST, conduct.reasoning_format),
    Row("Project Context", _MOST, home.project_context),
)
SESSION = (
    Row("Context Engine", _ANY, conversation.engine_addition),
    Row("Messaging", _FULL, conversation.messaging),
    Row("Voice", _FULL, conversation.voice),
    Row("Group Chat Context", _LEAN, conversation.group_context),
    Row("Subagent Context", _MINIMAL, conversation.subagent_context),
)
TURN = (
    Row("HEARTBEAT.md", _MOST, conversation.heartbeat_file),
    Row("Date", _MOST, conversation.date),
    Row("Memory Search Results", _LEAN, conversation.recall, once=True),
    Row("Output Directives", _LEAN, conversation.output_directives),
    Row("Silent Replies", _LEAN, conversation.silent_replies),
    Row("Authorized Senders", _FULL, conversation.senders),
    Row("Reactions", _FULL, conversation.reactions),
    Row("Heartbeats", _LEAN, conversation.heartbeats),
    Row("Model Notes", _ANY, conversation.provider_suffix),
    Row("Runtime", _BOTH, conversation.runtime_line),
    Row("Levels", _BOTH, conversation.levels),
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
        # Most turns follow one that was told the same: then nothing is digested.
        self._last: tuple[Mode, StableFacts, Stable] | None = None
        self.hits = 0

    def __len__(self) -> int:
        return len(self._kept)

    def stable(self, facts: StableFacts, mode: Mode) -> Stable:
        """Return the stable part, rendered at most once while its inputs are remembered."""
        if self._last is not None and self._last[:2] == (mode, facts):
            self.hits += 1
            return self._last[2]
        key = digest((mode, facts))
        kept = self._kept.get(key)
        if kept is not None:
            self.hits += 1
        else:
            kept = _stable(facts, mode)
            self._kept.put(key, kept)
        self._last = (mode, facts, kept)
        return kept


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
