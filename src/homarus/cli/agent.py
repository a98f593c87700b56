"""`homarus agent`: one message, one turn, its answer on standard output. For scripts, pipes and quick questions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App, pass_app
from homarus.cli.output import json_option

if TYPE_CHECKING:
    from homarus.cli.reply import Turned
    from homarus.core.events import RunEvent
    from homarus.gateway.library import Agent
    from homarus.sessions.row import SessionEntry

INTERRUPTED = 130


@click.command("agent")
@click.option("-m", "--message", metavar="TEXT", help="What to say; '-' reads it from standard input.")
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
    message: str | None,
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

    Commands such as /status work here as in a chat. Ctrl-C stops the turn and keeps what was said so far.
    """
    del local  # a turn always runs in this process as long as nothing else serves this home
    text = _text(message)
    options: dict[str, Any] = {"model": model, "thinking": _level(thinking), "seconds": timeout}
    import asyncio

    done = asyncio.run(_once(app, (agent_id, session), text, options, stream=stream, as_json=as_json))
    return _finish(app, done, stream=stream, as_json=as_json)


def _text(message: str | None) -> str:
    if message == "-" or (message is None and not sys.stdin.isatty()):
        message = sys.stdin.read().rstrip("\n")
    if not message or not message.strip():
        raise click.UsageError("there is nothing to say: give -m TEXT, or text on standard input")
    return message


def _level(word: str) -> str:
    if not word:
        return ""
    from homarus.models.levels import LEVELS, parse_level

    level = parse_level(word)
    if level is None:
        raise click.UsageError(f"'{word}' is no thinking level; there are {', '.join(LEVELS)}")
    return level


def open_agent(app: App, agent_id: str, session: str) -> Agent:
    """Open an agent of this home in one of its sessions."""
    from homarus.core.clock import SystemIds
    from homarus.gateway.app import Runtime
    from homarus.gateway.library import Agent

    name = app.config.agent_named(agent_id).id
    runtime = Runtime(app.config, app.env, clock=app.clock, ids=SystemIds())
    return Agent(runtime, runtime.store(name).key(session))


async def _once(
    app: App, who: tuple[str, str], text: str, options: dict[str, Any], *, stream: bool, as_json: bool
) -> Turned:
    from homarus.cli.reply import Collector
    from homarus.sessions.row import SessionEntry

    async with open_agent(app, *who) as agent:
        found = agent.runtime.store(agent.session.agent_id).find(agent.session)
        row = found.entry if found else SessionEntry()
        # A program that reads JSON gets the figures as figures.
        collector = Collector(str(agent.session), None if as_json else row.response_usage)
        printer = _printer(app, row, as_json=as_json) if stream else None
        with _stops_on_interrupt(agent) as interrupted:
            async for event in agent.run(text, children="all", **options):
                collector.take(event)
                if printer is not None:
                    printer(event)
        return collector.done(interrupted=bool(interrupted))


class _stops_on_interrupt:  # noqa: N801 - reads as a phrase where it is used
    """While it holds, the first Ctrl-C ends the turn cleanly; a second one ends the program."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._seen: list[int] = []

    def __enter__(self) -> list[int]:
        import asyncio
        import signal

        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGINT, self._heard)
        return self._seen

    def _heard(self) -> None:
        if self._seen or not self._agent.stop("interrupted"):
            raise KeyboardInterrupt
        self._seen.append(1)

    def __exit__(self, *_: object) -> None:
        import signal

        self._loop.remove_signal_handler(signal.SIGINT)


def _printer(app: App, row: SessionEntry, *, as_json: bool) -> Any:
    if as_json:
        import msgspec

        def lines(event: RunEvent) -> None:
            app.out.out.write(msgspec.json.encode(event).decode() + "\n")
            app.out.out.flush()

        return lines
    from homarus.cli.reply_stream import TextStream

    return TextStream(app.out.out, row.response_usage, row.verbose_level).take


def _finish(app: App, done: Turned, *, stream: bool, as_json: bool) -> int:
    if as_json and not stream:
        app.out.json(done.to_json())
    elif not stream:
        from homarus.core.text import printable

        for text in done.texts:
            app.out.line(printable(text))
    if done.interrupted:
        print("homarus: stopped", file=app.out.err)
        return INTERRUPTED
    if done.status != "ok":
        from homarus.core.text import single_line

        print(f"homarus: {single_line(done.error or done.status, 2000)}", file=app.out.err)
        return 1
    return 0
