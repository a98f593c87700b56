"""`homarus agent`: one message, one turn, its answer on standard output. For scripts, pipes and quick questions."""

from __future__ import annotations

import asyncio
import base64
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO
from uuid import uuid4

import click
import msgspec
from msgspec import Struct

from homarus.agent.home import Home
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.failures import STOPPED, say
from homarus.cli.interrupts import Interrupts
from homarus.cli.options import Number, filled, with_json
from homarus.cli.output import problem_line
from homarus.core.clock import SystemIds
from homarus.core.encoding import Decoded, decode
from homarus.core.errors import HomarusError
from homarus.core.events import MessageEnded, ModelCalled, Notice, RunEnded, RunEvent, TextDelta, ToolStarted
from homarus.core.messages import Image
from homarus.core.text import human_bytes, printable
from homarus.runtime.client import Client, RunOptions
from homarus.runtime.client import newest as newest_session
from homarus.runtime.events import EARLIER
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient
from homarus.runtime.reply import Reply, ReplyFold, footer
from homarus.runtime.runtime import Runtime
from homarus.sessions.home import SessionHome
from homarus.sessions.row import SessionEntry

if TYPE_CHECKING:
    from homarus.cli.one_shot import LiveAnswer


_folder = click.Path(exists=True, file_okay=False, resolve_path=True)
add_dir = click.option(
    "--add-dir", "folders", multiple=True, type=_folder, help="A folder that this run may read and change, too."
)
which_agent = click.option(
    "--agent",
    "agent_id",
    metavar="ID",
    default="",
    help="Which agent; the default one otherwise.",
    shell_complete=complete.agents,
    callback=filled,
)
which_session = click.option(
    "--session",
    metavar="KEY",
    default="main",
    show_default=True,
    help="A session's key or name.",
    shell_complete=complete.sessions,
    callback=filled,
)
go_on = click.option("-c", "--continue", "newest", is_flag=True, help="Go on with the session that was used last.")
workspace = click.option("--workspace", "cwd", type=_folder, help="Work in this folder for this run, for example '.'.")


@click.command("agent")
@click.argument("text", required=False)
@click.option("-m", "--message", metavar="TEXT", help="What to say, as an option; '-' reads it from standard input.")
@click.option(
    "-f", "--file", "files", multiple=True, type=click.Path(path_type=Path), help="A text or picture to send along."
)
@which_agent
@which_session
@go_on
@add_dir
@workspace
@click.option(
    "--model", default="", help="A model for this message alone.", shell_complete=complete.models, callback=filled
)
@click.option(
    "--thinking",
    metavar="LEVEL",
    default="",
    help="How hard to think about this message: off … max.",
    shell_complete=complete.levels,
)
@click.option("--stream", is_flag=True, help="Print the answer while it is made; with --json, every event as a line.")
@click.option("--timeout", type=Number(min=0), metavar="SECONDS", help="How long the turn may take; 0 is for ever.")
@click.option("--local", is_flag=True, help="Run in this process, also where a gateway is running.")
@with_json
def command(
    app: App,
    text: str | None,
    message: str | None,
    files: tuple[Path, ...],
    agent_id: str,
    session: str,
    newest: bool,
    folders: tuple[str, ...],
    cwd: str | None,
    model: str,
    thinking: str,
    stream: bool,
    timeout: float | None,
    local: bool,
    as_json: bool,
) -> int:
    """Send one message to an agent and print its answer.

    What comes through a pipe goes along: cat notes.txt | homarus agent "summarise this". Commands such as /status work
    here as in a chat. Ctrl-C stops the turn and keeps what was said so far.
    """
    if text and message:
        raise click.UsageError("say it once: TEXT or -m TEXT")
    said = attach("" if message == "-" else text or message or "", files, piped())
    if not (said.words.strip() or said.files or said.images):
        raise click.UsageError("there is nothing to say: give TEXT, or text on standard input")
    options = RunOptions(
        images=said.images,
        attached=said.files,
        folders=folders,
        cwd=cwd or "",
        model=_guessed(app, agent_id, model),
        thinking=_level(thinking),
        seconds=timeout,
        children="all",
        message_id=str(uuid4()),
    )

    async def turn() -> int:
        with app.out.waiting("opening the session"):
            opened = await open_agent(app, agent_id, session, local=local, newest=newest)
        async with opened as agent:
            row = await agent.client.row(agent.key)
            # A program that reads JSON gets the figures as figures.
            fold = ReplyFold(None if as_json else row.response_usage)
            with _shown(app, agent, row, fold, as_json=as_json, stream=stream) as show:
                await _ask(agent, said.words, options, interrupts, show)
            if interrupts.gave_up:
                fold.take(RunEnded("", "aborted", error=interrupts.told))
            reply = fold.reply()
        if as_json and not stream:
            app.out.json(reply.to_json(str(agent.key)))
        elif not (as_json or stream or _watched(app)):
            for each in reply.texts:
                app.out.line(each)
        return _code(app, reply, interrupts.told)

    with Interrupts() as interrupts:
        return asyncio.run(turn())


async def _ask(
    agent: Agent, words: str, options: RunOptions, interrupts: Interrupts, show: Callable[[RunEvent], None]
) -> None:
    """Send a message and show what happens, until it is answered or a person gives it up."""
    with interrupts.stopping(agent, options.message_id):
        async for event in agent.client.run(agent.key, words, options):
            show(event)


def _code(app: App, reply: Reply[None], stopped: str) -> int:
    if stopped:
        say(stopped)
        return STOPPED
    if not reply.ok:
        app.out.problem(reply.error or reply.status)
        return 1
    return 0


def _level(word: str) -> str:
    if not word:
        return ""
    from homarus.models.levels import LEVELS, parse_level

    level = parse_level(word)
    if level is None:
        raise click.UsageError(f"'{word}' is no thinking level; there are {', '.join(LEVELS)}")
    return level


def _guessed(app: App, agent_id: str, model: str) -> str:
    """Say what a name was taken for that no list has; what can be no model at all is refused when it is sent."""
    if model:
        from homarus.models.access import Models

        with suppress(HomarusError):
            names = Models(app.config, app.env, clock=app.clock).names(app.config.agent_named(agent_id))
            if warning := names.resolve(model).warning:
                app.out.warn(warning)
    return model


def _watched(app: App) -> bool:
    """Say whether a person reads the answer on a terminal."""
    return app.out.out.isatty()


@contextmanager
def _shown(
    app: App, agent: Agent, row: SessionEntry, fold: ReplyFold, *, as_json: bool, stream: bool
) -> Iterator[Callable[[RunEvent], None]]:
    """Yield what folds events and shows them while they come: lines for a program, text for a pipe, everything for a person."""
    takers: list[Callable[[RunEvent], None]] = [fold.take]

    def show(event: RunEvent) -> None:
        for take in takers:
            take(event)

    with ExitStack() as shown:
        live = _live(app, agent, row, as_json=as_json, stream=stream)
        takers.append(shown.enter_context(live).take if live else partial(tell_beside, app.out.err))
        if stream and as_json:
            takers.append(partial(_as_line, app, live.aside if live else nullcontext))
        elif stream:
            # Tools show already where a person looks on.
            takers.append(TextStream(live or app.out.out, row.response_usage, None if live else row.verbose_level).take)
        yield show


def _live(app: App, agent: Agent, row: SessionEntry, *, as_json: bool, stream: bool) -> LiveAnswer | None:
    """Return what shows a person what is going on; None where nobody looks on."""
    if not app.out.err.isatty() and (stream or not _watched(app)):
        return None
    from homarus.cli.one_shot import LiveAnswer

    return LiveAnswer(app, agent, row, answer=_watched(app) and not (as_json or stream))


def tell_beside(err: TextIO, event: RunEvent) -> None:
    """Say on standard error what is no answer to this message and should be known all the same."""
    if not isinstance(event, Notice):
        return
    if event.kind in {"queued", "warning", "retry", "fallback"}:
        print(problem_line(event.text), file=err)
    elif event.kind == EARLIER:
        question, _, answer = event.text.partition("\n")
        print(problem_line(question), printable(answer), sep="\n", file=err)


def _as_line(app: App, aside: Callable[[], AbstractContextManager[None]], event: RunEvent) -> None:
    with aside():
        app.out.pieces([msgspec.json.encode(event).decode() + "\n"], as_json=True)
        app.out.out.flush()


async def open_agent(app: App, agent_id: str, session: str, *, local: bool = False, newest: bool = False) -> Agent:
    """Return an agent of this home in one of its sessions, or in the one in which a person talked last.

    Where a gateway serves the home it is the gateway's agent, else one in this process.
    """
    if newest and session != "main":
        raise click.UsageError("say which session: --session KEY or --continue")
    client: Client | None = None
    distant = not local and app.config.get("gateway.mode") == "remote"
    if not local and (app.paths.own_dir / "gateway.sock").exists():
        from homarus.gateway.remote import running

        client = await running(app.paths)
    if client is None and distant:
        from homarus.gateway.remote import elsewhere

        client = await elsewhere(app.config, app.env)
    client = client or LocalClient(Runtime(Home(app.config, app.env, clock=app.clock, ids=SystemIds())))
    if newest:
        session = str(await newest_session(client, agent_id))
    # What is typed means what it means to `homarus sessions`. The sessions of this home lie here, also behind a gateway.
    sessions = None if distant else SessionHome.of(app.config, clock=app.clock, ids=SystemIds())
    chosen = app.config.agent_named(agent_id).id if sessions and agent_id else ""
    key = client.resolve(agent_id, str(sessions.key(session, chosen, typed=True)) if sessions else session)
    if await client.row(key) == SessionEntry():
        if not distant:
            app.config.agent_named(key.agent_id)  # a mistyped one gets no folder of its own
        if not key.is_main:
            near = sessions.near(session, chosen) if sessions and session != str(key) else ()
            say(f"new session {key}" + (f" (did you mean {', '.join(near)}?)" if near else ""))
    return Agent(client, key)


class Paper(Protocol):
    """What can be written to."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...


class TextStream:
    """Writes a turn's visible text as it comes; what the model says to the program never shows."""

    def __init__(self, out: Paper, usage: str | None = None, verbose: str | None = None) -> None:
        from homarus.delivery.stream import StreamFilter

        self._new_filter = StreamFilter
        self._out = out
        self._usage = usage
        self._verbose = verbose in {"on", "full"}
        self._filter = StreamFilter()
        self._shown = False

    def take(self, event: RunEvent) -> None:
        """Write what one event shows."""
        match event:
            case Notice(kind="reply"):
                self._write(event.text)
                self._end()
            case ModelCalled():
                # A new attempt: what an earlier one had shown stays shown, and this one begins anew.
                self._end()
            case TextDelta():
                self._write(self._filter.feed(event.text))
            case MessageEnded():
                self._write(self._filter.finish())
                self._end()
            case ToolStarted() if self._verbose:
                self._write(f"[{event.name}]\n")
                self._shown = False
            case RunEnded():
                if line := footer(self._usage, event):
                    self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        if text := printable(text):
            self._shown = True
            self._out.write(text)
            self._out.flush()

    def _end(self) -> None:
        if self._shown:
            self._out.write("\n")
            self._out.flush()
        self._filter, self._shown = self._new_filter(), False


STANDARD_INPUT = "standard input"
MAX_TEXT = 1 << 20
PATIENCE_SECONDS = 2.0  # after which a person is told what the program waits for
MAX_IMAGE = 10 << 20
MAX_NAMES = 300  # of a folder
_SENDABLE = "send text (as UTF-8, where it is in another encoding), PNG, JPEG, GIF or WebP"
_PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class Attached(Struct, frozen=True):
    """The words of a message, the texts that go with them, and the pictures. Only the words can be orders to the program."""

    words: str
    files: str = ""
    images: tuple[Image, ...] = ()


def attach(words: str, files: tuple[Path, ...], piped: bytes = b"") -> Attached:
    """Put a message together. Text alone is the message itself; beside words it is named."""
    blocks, images = list[str](), list[Image]()

    def add(name: str, data: bytes) -> None:
        if kind := picture(data):
            images.append(Image(base64.b64encode(data).decode("ascii"), kind))
        else:
            made = _text(name, data)
            blocks.extend(filter(None, (made.note(name), _block(name, made.text))))

    if piped.strip() and not (words.strip() or files or picture(piped)):
        made, piped = _text(STANDARD_INPUT, piped), b""
        words = made.text.rstrip("\n")
        blocks.extend(filter(None, (made.note(STANDARD_INPUT),)))
    if piped.strip():
        add(STANDARD_INPUT, piped)
    for path in files:
        if path.is_dir():
            blocks.append(_block(f"{path}/", _listing(path)))
        else:
            add(str(path), _read(path))
    return Attached(words, "\n\n".join(blocks), tuple(images))


def _text(name: str, data: bytes) -> Decoded:
    """Return data as text; what is none, or one that can only be guessed at, is refused."""
    made = decode(data)
    if made is None:
        raise HomarusError(f"{name} is neither text nor a picture", cure=_SENDABLE)
    return made


def piped() -> bytes:
    """Return what comes through a pipe or from a file; a terminal and a program that keeps its end open say nothing."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return b""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # a test's own stream
        return sys.stdin.buffer.read()
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return b""
    if stat.S_ISFIFO(mode) and not select.select([sys.stdin], [], [], PATIENCE_SECONDS)[0]:
        say("waiting for standard input, which is open (end it, or add < /dev/null)")
    data = sys.stdin.buffer.read(MAX_IMAGE + 1)
    most = MAX_IMAGE if picture(data) else MAX_TEXT
    if len(data) > most:
        raise HomarusError(
            f"standard input holds more than {human_bytes(most)}",
            cure="send a part of it, or name the file in the message",
        )
    return data


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_IMAGE:
            raise HomarusError(f"{path} is larger than {human_bytes(MAX_IMAGE)}", cure="name a smaller file")
        data = path.read_bytes()
    except OSError as problem:
        raise HomarusError(f"cannot read {path}: {problem.strerror}", cure="check the name") from None
    if len(data) > MAX_TEXT and not picture(data):
        raise HomarusError(f"{path} is larger than {human_bytes(MAX_TEXT)}", cure="send a part of it")
    return data


def _listing(folder: Path) -> str:
    try:
        names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in folder.iterdir())
    except OSError as problem:
        raise HomarusError(f"cannot read {folder}: {problem.strerror}", cure="check the name") from None
    more = [f"… {len(names) - MAX_NAMES:,} more"] if len(names) > MAX_NAMES else []
    return "\n".join([*names[:MAX_NAMES], *more])


def picture(data: bytes) -> str:
    """Return the kind of picture that a file is by how it begins, or nothing."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES.items() if data.startswith(magic)), "")


def _block(name: str, text: str) -> str:
    safe = name.replace('"', "'").replace("\n", " ")
    return f'<file name="{safe}">\n{text.rstrip()}\n</file>'
