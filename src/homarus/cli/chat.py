"""`homarus chat`: talk with an agent, on a terminal or through a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click
from msgspec.structs import replace

from homarus.cli.agent import (
    TextStream,
    add_dir,
    go_on,
    open_agent,
    tell_beside,
    which_agent,
    which_session,
    workspace,
)
from homarus.cli.app import App, current_folder
from homarus.cli.chat_input import LEAVING, ChatHistory, Words, named
from homarus.cli.failures import say
from homarus.cli.lines import Lines
from homarus.cli.options import pass_app
from homarus.cli.output import problem_line
from homarus.core.errors import HomarusError
from homarus.core.events import RunEnded
from homarus.queue.modes import Overrides
from homarus.runtime.client import RunOptions
from homarus.runtime.local import LocalClient
from homarus.workspace.agents import resolve_workspace

if TYPE_CHECKING:
    from homarus.cli.one_shot import LiveAnswer
    from homarus.runtime.library import Agent
    from homarus.sessions.row import SessionEntry


HISTORY = "chat-history"


@click.command("chat")
@which_agent
@which_session
@go_on
@click.option("-r", "--resume", is_flag=True, help="Choose the session from a list.")
@add_dir
@workspace
@click.option("--plain", is_flag=True, help="Line by line, as through a pipe: one message in, one answer out.")
@click.option("--local", is_flag=True, help="Run in this process, also where a gateway is running.")
@pass_app
def command(
    app: App,
    agent_id: str,
    session: str,
    newest: bool,
    resume: bool,
    folders: tuple[str, ...],
    cwd: str | None,
    plain: bool,
    local: bool,
) -> int:
    """Talk with an agent.

    Type while it works to steer it; Esc stops it. Ctrl-O opens the last tool call, Ctrl-J makes a new line, Tab completes
    commands, $skills and @files, which are sent along. /sessions goes on elsewhere, Ctrl-D leaves. /help says more.
    """
    on_screen = not plain and sys.stdin.isatty() and sys.stdout.isatty()
    if resume and not on_screen:
        raise click.UsageError("--resume needs a terminal; --session KEY names a session, --continue takes the newest")

    options = RunOptions(folders=folders, cwd=cwd or "", queue=Overrides())
    talk = talk_with(app, agent_id, session, options, plain=not on_screen, local=local, newest=newest, resume=resume)
    return asyncio.run(talk)


async def talk_with(
    app: App,
    agent_id: str,
    session: str,
    options: RunOptions | None = None,
    *,
    plain: bool = False,
    local: bool = False,
    newest: bool = False,
    resume: bool = False,
) -> int:
    """Talk with an agent in a session until the person leaves."""
    # Every message has the same rights, so what is typed while a turn runs can join it.
    options = options or RunOptions(queue=Overrides())
    with ExitStack() as opening:
        opening.enter_context(app.out.waiting("opening the chat"))
        async with await open_agent(app, agent_id, session, local=local, newest=newest) as agent:
            if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
                opening.close()
                watch = partial(_watch, app, agent) if app.out.err.isatty() else None
                return await talk_in_lines(agent, sys.stdin, app.out.out, app.out.err, options, watch)
            return await _on_screen(app, agent, options, resume=resume, ready=opening.close)


async def _on_screen(app: App, agent: Agent, options: RunOptions, *, resume: bool, ready: Callable[[], None]) -> int:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.output import ColorDepth

    from homarus.cli.chat_paint import Painter, ask_background, is_light, keys_as_typed
    from homarus.cli.chat_picker import pick
    from homarus.cli.chat_screen import Screen
    from homarus.cli.chat_terminal import Keyboard, Paper
    from homarus.cli.chat_view import ChatView
    from homarus.cli.sessions_keep import Archives

    away = None if app.config.get("gateway.mode") == "remote" else Archives(app)
    if resume:
        chosen = await pick(agent, away, color=app.out.color, ready=ready)
        if chosen == "":
            return 0
        agent = agent.session(chosen) if chosen else agent
    paper = Paper.from_pty(sys.stdout, app.env.get("TERM"), ColorDepth.from_env())
    keyboard = Keyboard(sys.stdin)
    with keys_as_typed(sys.stdin.fileno()) as early, create_app_session(keyboard, paper):
        answer, typed = ask_background(sys.stdin.fileno()) if app.out.color else ("", "")
        keyboard.typed_before(early + typed)
        view = ChatView(asyncio.get_running_loop().time)
        history = ChatHistory(app.paths.own_dir / HISTORY)
        painter = Painter(color=app.out.color, light=is_light(app.env, answer))
        screen = Screen(agent, view, await words_of(app, agent), history, painter, options)
        screen.away, screen.ready = away, ready
        await screen.run()
    for line in agent.client.leaving() if isinstance(agent.client, LocalClient) else ():
        say(line)
    return 0


async def words_of(app: App, agent: Agent) -> Words:
    """Return everything that can be completed in this home."""
    known = await agent.client.vocabulary(agent.key)
    own = {"exit": "leave the chat", "sessions": "go on with another session"}
    return Words(
        commands={**known.commands, **own},
        arguments=known.arguments,
        skills=known.skills,
        folder=str(current_folder() or ""),
        home=str(app.paths.home),
        workspace=str(resolve_workspace(app.config, agent.key.agent_id, app.env)),
    )


def _watch(app: App, agent: Agent, row: SessionEntry, typed: Lines) -> LiveAnswer:
    from homarus.cli.one_shot import LiveAnswer

    return LiveAnswer(app, agent, row, answer=False, typed=typed)


async def talk_in_lines(
    agent: Agent,
    lines: TextIO,
    out: TextIO,
    err: TextIO,
    options: RunOptions | None = None,
    watch: Callable[[SessionEntry, Lines], LiveAnswer] | None = None,
) -> int:
    """Answer line after line until there are no more; 1 when a turn failed. `watch` makes what a person sees beside it."""
    options = replace(options or RunOptions(), children="all", own_commands=named(LEAVING))
    failed, typed = False, Lines(lines)
    while True:
        line = await typed.next()
        if not line or line.strip().lower() in LEAVING:
            return int(failed)
        if not line.strip():
            continue
        try:
            row = await agent.client.row(agent.key)
            ended = RunEnded("", "ok")
            with watch(row, typed) if watch else nullcontext() as live:
                shown = TextStream(live or out, row.response_usage, None if live else row.verbose_level)
                beside = live.take if live else partial(tell_beside, err)
                async for event in agent.run(line.rstrip("\n"), options=options):
                    beside(event)
                    shown.take(event)
                    ended = event if isinstance(event, RunEnded) else ended
            if ended.status != "ok":
                failed = True
                print(problem_line(ended.error or ended.status), file=err)
        except HomarusError as problem:
            failed = True
            print(problem_line(str(problem)), file=err)
