"""What a command is, what it is told, and what it may ask of the program. The commands themselves are in the groups."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from homarus.agent.home import Home
from homarus.commands.settings import Caller
from homarus.config.keypath import parse_path
from homarus.config.load import load_config
from homarus.context.compact import Compacted
from homarus.core.messages import Inbound, ToolResult, Trust
from homarus.core.patterns import late
from homarus.core.routes import SessionKey
from homarus.queue.collect import Queued
from homarus.queue.modes import Overrides
from homarus.sessions.row import SessionEntry
from homarus.subagents.run import Children

_WHOLE = late(r"\s*/([A-Za-z][\w-]*)(?:\s*:)?(?:[ \t]+|(?=\n)|$)(.*)", re.DOTALL)


class Need(StrEnum):
    """Who may give a command."""

    AUTHORISED = "authorised"
    OWNER = "owner"


class QueueState(Struct, frozen=True):
    """What the session's lane is doing, in words."""

    busy: bool = False
    waiting: int = 0
    rules: str = ""


class SessionClient(Protocol):
    """What commands ask of the running program, beyond what its home holds. The client contract of `runtime` fills it."""

    @property
    def home(self) -> Home: ...

    @property
    def children(self) -> Children: ...

    def submit(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Queued | None:
        """Accept a message into its session's lane; None when it was refused. It is durable when this returns."""
        ...

    def queue(self, key: SessionKey, channel: str) -> QueueState: ...

    async def stop(self, key: SessionKey, reason: str) -> bool:
        """Forget what waits, end what runs, and return whether there was anything to end.

        Raises Locked where another process has the session open: nobody here can say that nothing runs there.
        """
        ...

    async def start_over(self, key: SessionKey, event: str, caller: Caller) -> list[str]:
        """Give the session a fresh transcript; return what hooks want to say about it."""
        ...

    async def renew(self, key: SessionKey, channel: str, *, threaded: bool = False) -> str:
        """Start a session over that is past its time, as the configuration says; return why, or nothing."""
        ...

    async def tell_hooks(self, event: str, key: SessionKey, caller: Caller) -> list[str]:
        """Tell the hooks of an event and return what they want to say."""
        ...

    async def compact(self, key: SessionKey, focus: str) -> Compacted:
        """Summarise the older part of a session now."""
        ...

    async def answer(self, approval_id: str, decision: str) -> str:
        """Answer a question of a running turn; return what became of it, in words."""
        ...

    async def aside(self, key: SessionKey, question: str) -> str:
        """Answer a question from the session's history without adding a line to it."""
        ...

    async def call_tool(self, key: SessionKey, name: str, arguments: dict[str, Any], trust: Trust) -> ToolResult:
        """Run one tool as a turn of the session would, behind the same gate."""
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
    client: SessionClient
    table: Mapping[str, Command]

    @property
    def home(self) -> Home:
        return self.client.home

    @property
    def entry(self) -> SessionEntry:
        """Return the session's row, the default one if there is none yet."""
        info = self.home.store(self.session.agent_id).find(self.session)
        return info.entry if info else SessionEntry()

    @property
    def words(self) -> list[str]:
        return self.args.split()

    def save(self, **fields: Any) -> None:
        """Keep a choice in the session's row."""
        with self.home.opened(self.session) as live:
            live.store.update(self.session, **fields)

    def configure(self, path: str, value: Any, *, remove: bool = False) -> str:
        """Change one key of the configuration file, for what starts after this; return what was done, in words."""
        from homarus.config.write import Operation, change

        step = Operation("unset" if remove else "set", parse_path(path), value)
        config = load_config(self.home.config.paths, self.home.env)  # others may have written meanwhile
        done = change(config, self.home.env, [step])
        where = ", ".join(str(item.path) for item in done)
        if not done:
            return "Nothing changed."
        return f"{path} is {'removed' if remove else 'set'} in {where}; it holds from the next start."


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
    return CommandReply(text=text)


def split_command(text: str) -> tuple[str, str] | None:
    """Split a whole message `/name args` or `/name: args`; only the name is folded. None for any other text."""
    match = _WHOLE.fullmatch(text)
    return (match[1].lower(), match[2].strip()) if match else None
