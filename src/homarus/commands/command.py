"""What a command is, what it is told, and what it may ask of the program. The commands themselves are in the groups."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from homarus.agent.budget import Spent
from homarus.subagents.book import Kept
from homarus.commands.settings import Caller
from homarus.agent.open_session import Live
from homarus.config.view import Config
from homarus.context.compact import Compacted
from homarus.core.clock import Clock
from homarus.core.patterns import late
from homarus.core.routes import SessionKey
from homarus.core.tools import ToolSpec
from homarus.models.access import Models
from homarus.prompt.report import Report
from homarus.sessions.row import SessionEntry
from homarus.sessions.store import SessionStore
from homarus.skills.commands import SkillCommand

_WHOLE = late(r"\s*/([A-Za-z][\w-]*)(?:\s*:)?(?:[ \t]+|(?=\n)|$)(.*)", re.DOTALL)


class Need(StrEnum):
    """Who may give a command."""

    AUTHORISED = "authorised"
    OWNER = "owner"


class QueueState(Struct, frozen=True):
    """What the session's lane is doing, in words: the queue itself is not known here."""

    busy: bool = False
    waiting: int = 0
    rules: str = ""


class Host(Protocol):
    """What commands may ask of the program; the composition root answers."""

    @property
    def version(self) -> str:
        """Return the program's version."""
        ...

    @property
    def config(self) -> Config:
        """Return the configuration."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        ...

    @property
    def models(self) -> Models:
        """Return the models of this home."""
        ...

    def store(self, agent_id: str) -> SessionStore:
        """Return an agent's sessions."""
        ...

    def workspace(self, agent_id: str) -> Path:
        """Return an agent's folder."""
        ...

    def opened(self, key: SessionKey) -> AbstractContextManager[Live]:
        """Open a session for writing while the context lasts, making it if need be."""
        ...

    def queue(self, key: SessionKey, channel: str) -> QueueState:
        """Return what the session's lane is doing."""
        ...

    async def stop(self, key: SessionKey, reason: str) -> bool:
        """Forget what waits, end what runs, and return whether there was anything to end."""
        ...

    async def start_over(self, key: SessionKey, event: str, caller: Caller) -> list[str]:
        """Give the session a fresh transcript; return what hooks want to say about it."""
        ...

    async def tell_hooks(self, event: str, key: SessionKey, caller: Caller) -> list[str]:
        """Tell the hooks of an event and return what they want to say."""
        ...

    async def compact(self, key: SessionKey, focus: str) -> Compacted:
        """Summarise the older part of a session now."""
        ...

    def report(self, key: SessionKey, *, fresh: bool = False) -> Report:
        """Return the figures of the last run's prompt; `fresh`, or where there was none, those of the next turn's."""
        ...

    def tools(self, key: SessionKey) -> tuple[ToolSpec, ...]:
        """Return the tools of the session's next turn."""
        ...

    def skills(self, agent_id: str) -> tuple[SkillCommand, ...]:
        """Return the skills that a person may call by name."""
        ...

    async def use_skill(self, key: SessionKey, text: str, caller: Caller) -> CommandReply | None:
        """Return what a message that calls a skill comes to, or None where it calls none."""
        ...

    def children(self, key: SessionKey) -> Sequence[Kept]:
        """Return the sub-agents of a session and theirs, each parent before its children."""
        ...

    def stop_child(self, run_id: str) -> bool:
        """Stop one sub-agent and everything below it; False when it is not at work."""
        ...

    def spent_today(self, agent_id: str) -> Spent:
        """Return what an agent used today."""
        ...

    async def approve(self, approval_id: str, decision: str) -> str:
        """Answer a pending question of the running turn; return what became of it, in words."""
        ...

    async def aside(self, key: SessionKey, question: str) -> str:
        """Answer a question from the session's history without adding a line to it."""
        ...

    def configure(self, path: str, value: Any, *, remove: bool = False) -> str:
        """Change one key of the configuration file; return what was done, in words."""
        ...

    @property
    def overrides(self) -> dict[str, Any]:
        """Return the settings that hold in this process instead of those in the file."""
        ...

    def override(self, values: Mapping[str, Any]) -> None:
        """Let these settings, and no others, hold in this process instead of those in the file."""
        ...

    async def call_tool(self, key: SessionKey, name: str, arguments: dict[str, Any], caller: Caller) -> str:
        """Run one tool as a turn of the session would, behind the same gate; return its output."""
        ...

    async def restart(self) -> str:
        """Start the program anew where it runs as a service; return what became of it, in words."""
        ...


class CommandContext(Struct, frozen=True, kw_only=True):
    """One call of a command. `table` is every command that is on, for those that list them."""

    name: str
    args: str
    session: SessionKey
    caller: Caller
    host: Host
    table: Mapping[str, Command]

    @property
    def entry(self) -> SessionEntry:
        """Return the session's row, the default one if there is none yet."""
        info = self.host.store(self.session.agent_id).find(self.session)
        return info.entry if info else SessionEntry()

    @property
    def words(self) -> list[str]:
        """Return the arguments, split at spaces."""
        return self.args.split()

    def save(self, **fields: Any) -> None:
        """Keep a choice in the session's row."""
        with self.host.opened(self.session) as live:
            live.store.update(self.session, **fields)


class CommandReply(Struct, frozen=True, kw_only=True):
    """What a command came to. With a `prompt` the conversation goes on with that text, under these run settings."""

    text: str = ""
    prompt: str = ""
    facts: dict[str, Any] = {}
    # Say it to the running turn and not as a message of its own.
    steer: bool = False


Handler = Callable[[CommandContext], Awaitable[CommandReply]]


class Command(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    run: Handler
    help: str
    usage: str = ""
    group: str = "session"
    aliases: tuple[str, ...] = ()
    need: Need = Need.AUTHORISED
    # The key of `commands` that switches it on; empty for those that are always on.
    switch: str = ""
    # Words that may follow, for completion.
    words: tuple[str, ...] = ()


def said(text: str) -> CommandReply:
    """Return a reply of one text."""
    return CommandReply(text=text)


def split_command(text: str) -> tuple[str, str] | None:
    """Split a whole message `/name args` or `/name: args`; only the name is folded. None for any other text."""
    match = _WHOLE.fullmatch(text)
    return (match[1].lower(), match[2].strip()) if match else None
