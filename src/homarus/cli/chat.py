"""`homarus chat`: talk with an agent, on a terminal or through a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
import msgspec
from msgspec import Struct

from homarus.cli import complete
from homarus.cli.agent import TextStream, open_agent
from homarus.cli.app import App
from homarus.cli.options import pass_app
from homarus.cli.output import problem_line
from homarus.core.errors import HomarusError, StorageError
from homarus.core.events import RunEnded
from homarus.runtime.client import RunOptions
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines

if TYPE_CHECKING:
    from homarus.runtime.library import Agent


MAX_FILES = 60
MAX_SCANNED = 2_000


class Suggestion(Struct, frozen=True):
    """One completion: `text` replaces the last `length` characters; `note` says what it is."""

    text: str
    length: int
    note: str = ""


class Words(Struct, frozen=True):
    """What is known by name in one home. `arguments` are the words that may follow a command."""

    commands: Mapping[str, str] = {}
    arguments: Mapping[str, Sequence[str]] = {}
    skills: Mapping[str, str] = {}
    folder: str = "."
    home: str = ""


def suggest(before: str, words: Words) -> list[Suggestion]:
    """Return the completions for the text before the cursor, best first."""
    if before.startswith("/") and " " not in before and "\n" not in before:
        return _named(before, {f"/{name}": note for name, note in words.commands.items()})
    word = before.rpartition(" ")[2].rpartition("\n")[2]
    command = before[1:].partition(" ")[0] if before.startswith("/") else ""
    if command in words.arguments and before.count(" ") == 1:
        return _named(word, dict.fromkeys(words.arguments[command], ""))
    if word.startswith("$"):
        return _named(word, {f"${name}": note for name, note in words.skills.items()})
    if word.startswith("@"):
        return [Suggestion(found, len(word) - 1) for found in _files(word[1:], words)]
    if word.startswith(("./", "../", "~/")) or (word.startswith("/") and len(before) > len(word)):
        return [Suggestion(found, len(word)) for found in _files(word, words)]
    return []


def _named(word: str, names: Mapping[str, str]) -> list[Suggestion]:
    folded = word.lower()
    starts = [name for name in names if name.lower().startswith(folded)]
    holds = [name for name in names if folded[1:] and folded[1:] in name.lower() and name not in starts]
    return [Suggestion(name, len(word), names[name]) for name in [*starts, *holds]]


def _files(typed: str, words: Words) -> Iterator[str]:
    """Yield paths that begin as typed, folders first; hidden ones only when asked for."""
    folder, slash, name = typed.rpartition("/")
    spelled = f"{folder}{slash}"
    place = Path(spelled.replace("~", words.home, 1) if spelled.startswith("~/") else spelled or ".")
    base = place if place.is_absolute() else Path(words.folder) / place
    try:
        with os.scandir(base) as entries:
            found = [(not entry.is_dir(), entry.name) for entry, _ in zip(entries, range(MAX_SCANNED), strict=False)]
    except OSError:
        return
    fitting = [
        (plain, each)
        for plain, each in sorted(found)
        if each.lower().startswith(name.lower()) and (name.startswith(".") or not each.startswith("."))
    ]
    for plain, each in fitting[:MAX_FILES]:
        yield f"{spelled}{each}{'' if plain else '/'}"


MAX_LINES = 2_000
MAX_CHARS = 20_000


class ChatHistory:
    """The lines of earlier chats, oldest first. A line that begins with a space is not kept, as in a shell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[str]:
        """Return what is kept; a file that has grown too long is cut on the way."""
        if not self.path.exists():
            return []
        try:
            values = [line.value for line in read_lines(self.path)]
        except OSError:
            return []
        lines = [value["text"] for value in values if isinstance(value, dict) and isinstance(value.get("text"), str)]
        if len(lines) > 2 * MAX_LINES:
            kept = lines[-MAX_LINES:]
            try:
                write_atomic(self.path, b"".join(msgspec.json.encode({"text": text}) + b"\n" for text in kept))
            except StorageError:
                return kept
        return lines[-MAX_LINES:]

    def add(self, text: str) -> None:
        """Keep one line; a disk that is full must not end a conversation."""
        if not text.strip() or text.startswith(" ") or len(text) > MAX_CHARS:
            return
        try:
            ensure_dir(self.path.parent)
            with JsonlWriter.open(self.path) as file:
                file.append({"text": text}, durable=False)
        except StorageError:
            return


HISTORY = "chat-history"


@click.command("chat")
@click.option(
    "--agent",
    "agent_id",
    metavar="ID",
    default="",
    help="Which agent; the default one otherwise.",
    shell_complete=complete.agents,
)
@click.option(
    "--session",
    metavar="KEY",
    default="main",
    show_default=True,
    help="A session's key or name.",
    shell_complete=complete.sessions,
)
@click.option("--plain", is_flag=True, help="Line by line, as through a pipe: one message in, one answer out.")
@pass_app
def command(app: App, agent_id: str, session: str, plain: bool) -> int:
    """Talk with an agent.

    Type while it works to steer it; Esc stops it. Ctrl-O opens the last tool call, Ctrl-J makes a new line, Tab completes
    commands, $skills and @files, Ctrl-D leaves. /help says more.
    """

    return asyncio.run(talk_with(app, agent_id, session, plain=plain))


async def talk_with(app: App, agent_id: str, session: str, *, plain: bool = False) -> int:
    """Talk with an agent in a session until the person leaves."""
    async with open_agent(app, agent_id, session) as agent:
        if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return await talk_in_lines(agent, sys.stdin, app.out.out, app.out.err)
        return await _on_screen(app, agent)


async def _on_screen(app: App, agent: Agent) -> int:
    from homarus.cli.chat_screen import Screen
    from homarus.cli.chat_view import ChatView

    view = ChatView(asyncio.get_running_loop().time)
    history = ChatHistory(app.paths.own_dir / HISTORY)
    # The session is opened at once: better to hear now that another program has it than after the first long message.
    status = await agent.client.status(agent.key)
    view.model, view.window, view.used = status.model, status.window, status.used
    begun = f"{status.messages} messages so far, /new starts over" if status.messages else "a new session"
    screen = Screen(agent, view, await words_of(app, agent), history, color=app.out.color)
    await screen.run(f"🦞 {agent.key.agent_id} · {begun} · /help · Ctrl-D leaves")
    return 0


async def words_of(app: App, agent: Agent) -> Words:
    """Return everything that can be completed in this home."""
    known = await agent.client.vocabulary(agent.key)
    return Words(
        commands={**known.commands, "exit": "leave the chat"},
        arguments=known.arguments,
        skills=known.skills,
        folder=str(Path.cwd()),
        home=str(app.paths.home),
    )


LEAVING = frozenset({"/exit", "/quit", "/bye"})


async def talk_in_lines(agent: Agent, lines: TextIO, out: TextIO, err: TextIO) -> int:
    """Answer line after line until there are no more; 1 when a turn failed."""
    failed = False
    while True:
        # A thread reads, so that a slow writer at the other end of the pipe does not hold up the loop.
        line = await asyncio.to_thread(lines.readline)
        if not line or line.strip().lower() in LEAVING:
            return int(failed)
        if not line.strip():
            continue
        try:
            row = await agent.client.row(agent.key)
            shown = TextStream(out, row.response_usage, row.verbose_level)
            async for event in agent.run(line.rstrip("\n"), options=RunOptions(children="all")):
                shown.take(event)
                if isinstance(event, RunEnded) and event.status != "ok":
                    failed = True
                    print(problem_line(event.error or event.status), file=err)
        except HomarusError as problem:
            failed = True
            print(problem_line(str(problem)), file=err)
