"""Everything the renderer may know, as values sorted by how long they hold.

A stable section is handed `StableFacts` alone, so that no clock, sender or channel can reach it even by mistake. Where
the facts come from is the business of `gather.py` and of the composition root.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homarus.core.tools import ToolSpec
from homarus.prompt.gather import Machine
from homarus.prompt.section import Section
from homarus.sandbox.spec import SandboxSpec
from homarus.workspace.inject import ContextFile


class StableFacts(Struct, frozen=True):
    """What is the same for every session of an agent of one kind, until somebody edits the files behind it."""

    workspace: str
    cwd: str = ""
    tools: tuple[ToolSpec, ...] = ()
    workspace_notes: tuple[str, ...] = ()
    docs: str = ""
    skills: str = ""
    skills_in_minimal: bool = False
    citations: Literal["on", "off", "auto"] = "auto"
    aliases: tuple[tuple[str, str], ...] = ()
    # Where commands run, when they do not run on the host itself, and whether one may leave it.
    sandbox: SandboxSpec | None = None
    elevated: bool = False
    ritual: str = "none"
    files: tuple[ContextFile, ...] = ()
    # The names of files that come on a user turn instead.
    told: tuple[str, ...] = ()
    files_cut: bool = False
    reasoning_tags: bool = False
    provider_prefix: str = ""
    tool_style: str = ""
    execution_bias: str = ""

    def has(self, *names: str) -> bool:
        """Say whether one of these tools is there; names are compared as the model must write them."""
        present = {tool.name for tool in self.tools}
        return any(name in present for name in names)


class SessionFacts(Struct, frozen=True):
    engine_addition: str = ""
    messaging_hints: tuple[str, ...] = ()
    voice: str = ""
    extra: str = ""


class TurnFacts(Struct, frozen=True):
    """What may differ from one turn to the next."""

    heartbeat_file: ContextFile | None = None
    today: str = ""
    zone: str = ""
    recall: str = ""
    reply_tags: bool = False
    media: bool = False
    voice_tag: bool = False
    silent: bool = False
    owners: tuple[str, ...] = ()
    reactions: Literal["", "minimal", "extensive"] = ""
    heartbeat_prompt: str = ""
    provider_suffix: str = ""
    # The items of the runtime line; an empty one is left out.
    agent: str = ""
    machine: Machine = Machine()
    repo: str = ""
    model: str = ""
    default_model: str = ""
    channel: str = ""
    capabilities: tuple[str, ...] = ()
    thinking: str = ""
    # What the user sees, and what commands may do just now.
    reasoning: str = "off"
    elevated: str = "off"
    extras: tuple[Section, ...] = ()


class PromptFacts(Struct, frozen=True):
    """The whole input of one render."""

    stable: StableFacts
    session: SessionFacts = SessionFacts()
    turn: TurnFacts = TurnFacts()
