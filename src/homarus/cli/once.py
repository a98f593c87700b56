"""One message and the turn that answers it, printed. How it was asked for is `agent`, or `direct` without a parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

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

    with _Interrupts() as interrupts:
        done = asyncio.run(_turn(app, asked, interrupts))
    return _finish(app, asked, done)


def open_agent(app: App, agent_id: str, session: str) -> Agent:
    """Open an agent of this home in one of its sessions."""
    from homarus.core.clock import SystemIds
    from homarus.gateway.app import Runtime
    from homarus.gateway.library import Agent

    name = app.config.agent_named(agent_id).id
    runtime = Runtime(app.config, app.env, clock=app.clock, ids=SystemIds())
    return Agent(runtime, runtime.store(name).key(session))


async def _turn(app: App, asked: Asked, interrupts: _Interrupts) -> Turned:
    from homarus.cli.reply import Collector
    from homarus.sessions.row import SessionEntry

    async with open_agent(app, asked.agent_id, asked.session) as agent:
        found = agent.runtime.store(agent.session.agent_id).find(agent.session)
        row = found.entry if found else SessionEntry()
        # A program that reads JSON gets the figures as figures.
        collector = Collector(str(agent.session), None if asked.as_json else row.response_usage)
        printer = _printer(app, row, as_json=asked.as_json) if asked.stream else None
        with interrupts.stopping(agent):
            async for event in agent.run(asked.text, children="all", **asked.options):
                collector.take(event)
                if printer is not None:
                    printer(event)
        return collector.done(interrupted=interrupts.heard)


class _Interrupts:
    """While a turn runs, the first Ctrl-C ends it cleanly; a second one, and any other, ends the program.

    It is there before the event loop, which then leaves the signal alone: the loop's own way loads the tools for looking into code.
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


def _printer(app: App, row: SessionEntry, *, as_json: bool) -> Any:
    if as_json:
        import msgspec

        def lines(event: RunEvent) -> None:
            app.out.pieces([msgspec.json.encode(event).decode() + "\n"], as_json=True)
            app.out.out.flush()

        return lines
    from homarus.cli.reply_stream import TextStream

    return TextStream(app.out.out, row.response_usage, row.verbose_level).take


def _finish(app: App, asked: Asked, done: Turned) -> int:
    if asked.as_json and not asked.stream:
        app.out.json(done.to_json())
    elif not asked.stream:
        for text in done.texts:
            app.out.line(text)
    if done.interrupted:
        print("homarus: stopped", file=app.out.err)
        return INTERRUPTED
    if done.status != "ok":
        app.out.problem(done.error or done.status)
        return 1
    return 0
