"""`homarus agent`: one message, one turn, its answer on standard output. For scripts, pipes and quick questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from homarus.cli.app import App
from homarus.cli.attach import attach, piped_text
from homarus.cli.failures import say
from homarus.cli.options import json_option, pass_app
from homarus.core.events import Notice, RunEvent

if TYPE_CHECKING:
    from homarus.runtime.library import Agent
    from homarus.sessions.row import SessionEntry

INTERRUPTED = 130


@click.command("agent")
@click.argument("text", required=False)
@click.option("-m", "--message", metavar="TEXT", help="What to say, as an option; '-' reads it from standard input.")
@click.option(
    "-f", "--file", "files", multiple=True, type=click.Path(path_type=Path), help="A text or picture to send along."
)
@click.option("--agent", "agent_id", metavar="ID", default="", help="Which agent; the default one otherwise.")
@click.option("--session", metavar="KEY", default="main", show_default=True, help="A session's key or name.")
@click.option("--model", default="", help="A model for this message alone.")
@click.option("--thinking", metavar="LEVEL", default="", help="How hard to think about this message: off … max.")
@click.option("--stream", is_flag=True, help="Print the answer while it is made; with --json, every event as a line.")
@click.option("--timeout", type=float, metavar="SECONDS", help="How long the turn may take; 0 is for ever.")
@click.option("--local", is_flag=True, help="Run in this process, also where a gateway is running.")
@json_option
@pass_app
def command(
    app: App,
    text: str | None,
    message: str | None,
    files: tuple[Path, ...],
    agent_id: str,
    session: str,
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
    del local  # a turn always runs in this process as long as nothing else serves this home
    import asyncio

    from homarus.runtime.client import RunOptions
    from homarus.runtime.reply import ReplyFold

    if text and message:
        raise click.UsageError("say it once: TEXT or -m TEXT")
    said = attach("" if message == "-" else text or message or "", files, piped_text())
    if not said.text.strip() and not said.images:
        raise click.UsageError("there is nothing to say: give TEXT, or text on standard input")
    options = RunOptions(images=said.images, model=model, thinking=_level(thinking), seconds=timeout, children="all")

    async def turn() -> int:
        async with open_agent(app, agent_id, session) as agent:
            row = await agent.client.row(agent.key)
            # A program that reads JSON gets the figures as figures.
            fold = ReplyFold(None if as_json else row.response_usage)
            with _shown(app, agent, row, as_json=as_json, stream=stream) as show, interrupts.stopping(agent):
                async for event in agent.client.run(agent.key, said.text, options):
                    fold.take(event)
                    show(event)
            reply = fold.reply()
        if as_json and not stream:
            app.out.json(reply.to_json(str(agent.key)))
        elif not (as_json or stream or _watched(app)):
            for each in reply.texts:
                app.out.line(each)
        if interrupts.heard:
            say("stopped")
            return INTERRUPTED
        if not reply.ok:
            app.out.problem(reply.error or reply.status)
            return 1
        return 0

    with _Interrupts() as interrupts:
        return asyncio.run(turn())


def _level(word: str) -> str:
    if not word:
        return ""
    from homarus.models.levels import LEVELS, parse_level

    level = parse_level(word)
    if level is None:
        raise click.UsageError(f"'{word}' is no thinking level; there are {', '.join(LEVELS)}")
    return level


def _watched(app: App) -> bool:
    """Say whether a person reads the answer on a terminal."""
    return app.out.out.isatty()


@contextmanager
def _shown(
    app: App, agent: Agent, row: SessionEntry, *, as_json: bool, stream: bool
) -> Iterator[Callable[[RunEvent], None]]:
    """Yield what shows events while they come: lines for a program, text for a pipe, everything for a person."""
    if as_json and stream:
        yield partial(_as_line, app)
    elif stream:
        from homarus.cli.reply_stream import TextStream

        yield TextStream(app.out.out, row.response_usage, row.verbose_level).take
    elif as_json or not _watched(app):
        yield _show_nothing
    else:
        from homarus.cli.one_shot import LiveAnswer

        with LiveAnswer(app, agent, row) as live:
            yield live.take


def _show_nothing(event: RunEvent) -> None:
    if isinstance(event, Notice) and event.kind == "queued":
        say(event.text)


def _as_line(app: App, event: RunEvent) -> None:
    import msgspec

    app.out.pieces([msgspec.json.encode(event).decode() + "\n"], as_json=True)
    app.out.out.flush()


def open_agent(app: App, agent_id: str, session: str) -> Agent:
    """Open an agent of this home in one of its sessions."""
    from homarus.agent.home import Home
    from homarus.core.clock import SystemIds
    from homarus.runtime.library import Agent
    from homarus.runtime.local import LocalClient
    from homarus.runtime.runtime import Runtime

    client = LocalClient(Runtime(Home(app.config, app.env, clock=app.clock, ids=SystemIds())))
    return Agent(client, client.resolve(agent_id, session))


class _Interrupts:
    """While a turn runs, the first Ctrl-C ends it cleanly; a second one, and any other, ends the program.

    It is there before the event loop, which then leaves the signal alone.
    """

    def __init__(self) -> None:
        self.heard = False
        self._stop: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        import signal

        self._before = signal.signal(signal.SIGINT, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        import signal

        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def stopping(self, agent: Agent) -> Iterator[None]:
        """Stop this agent's turn when the signal comes."""
        import asyncio

        def stop() -> None:
            if self.heard or not agent.stop("interrupted"):
                raise KeyboardInterrupt
            self.heard = True

        loop = asyncio.get_running_loop()
        self._stop = partial(loop.call_soon_threadsafe, stop)
        try:
            yield
        finally:
            self._stop = None

    def _signalled(self, *_: object) -> None:
        if self._stop is None:
            raise KeyboardInterrupt
        self._stop()
