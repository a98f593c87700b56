"""One message and the turn that answers it, printed. How it was asked for is `agent`, or `direct` without a parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.cli.app import App

if TYPE_CHECKING:
    from homarus.cli.reply import Turned
    from homarus.core.events import RunEvent
    from homarus.gateway.library import Agent
    from homarus.sessions.row import SessionEntry

INTERRUPTED = 130


class Asked(Struct, frozen=True):
    """What to say, to whom, and how its answer is printed. `options` are those of `Agent.run`."""

    text: str
    agent_id: str = ""
    session: str = "main"
    options: dict[str, Any] = {}
    stream: bool = False
    as_json: bool = False


def answer(app: App, asked: Asked) -> int:
    """Run the turn, print what it answers, and return the exit code."""
    import asyncio

    return _finish(app, asked, asyncio.run(_turn(app, asked)))


def open_agent(app: App, agent_id: str, session: str) -> Agent:
    """Open an agent of this home in one of its sessions."""
    from homarus.core.clock import SystemIds
    from homarus.gateway.app import Runtime
    from homarus.gateway.library import Agent

    name = app.config.agent_named(agent_id).id
    runtime = Runtime(app.config, app.env, clock=app.clock, ids=SystemIds())
    return Agent(runtime, runtime.store(name).key(session))


async def _turn(app: App, asked: Asked) -> Turned:
    from homarus.cli.reply import Collector
    from homarus.sessions.row import SessionEntry

    async with open_agent(app, asked.agent_id, asked.session) as agent:
        found = agent.runtime.store(agent.session.agent_id).find(agent.session)
        row = found.entry if found else SessionEntry()
        # A program that reads JSON gets the figures as figures.
        collector = Collector(str(agent.session), None if asked.as_json else row.response_usage)
        printer = _printer(app, row, as_json=asked.as_json) if asked.stream else None
        with _stops_on_interrupt(agent) as interrupted:
            async for event in agent.run(asked.text, children="all", **asked.options):
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


def _finish(app: App, asked: Asked, done: Turned) -> int:
    if asked.as_json and not asked.stream:
        app.out.json(done.to_json())
    elif not asked.stream:
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
