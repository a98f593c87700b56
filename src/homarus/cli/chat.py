"""`homarus chat`: talk with an agent, on a terminal or through a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from homarus.cli.app import App
from homarus.cli.options import pass_app

if TYPE_CHECKING:
    from homarus.cli.chat_words import Words
    from homarus.runtime.library import Agent

HISTORY = "chat-history"


@click.command("chat")
@click.option("--agent", "agent_id", metavar="ID", default="", help="Which agent; the default one otherwise.")
@click.option("--session", metavar="KEY", default="main", show_default=True, help="A session's key or name.")
@click.option("--plain", is_flag=True, help="Line by line, as through a pipe: one message in, one answer out.")
@pass_app
def command(app: App, agent_id: str, session: str, plain: bool) -> int:
    """Talk with an agent.

    Type while it works to steer it; Esc stops it. Ctrl-O opens the last tool call, Ctrl-J makes a new line, Tab completes
    commands, $skills and @files, Ctrl-D leaves. /help says more.
    """
    import asyncio

    from homarus.cli.agent import open_agent

    async def talk() -> int:
        async with open_agent(app, agent_id, session) as agent:
            if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
                from homarus.cli.chat_lines import talk_in_lines

                return await talk_in_lines(agent, sys.stdin, app.out.out, app.out.err)
            return await _on_screen(app, agent)

    return asyncio.run(talk())


async def _on_screen(app: App, agent: Agent) -> int:
    import asyncio

    from homarus.cli.chat_history import ChatHistory
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
    from pathlib import Path

    from homarus.cli.chat_words import Words

    known = await agent.client.vocabulary(agent.key)
    return Words(
        commands={**known.commands, "exit": "leave the chat"},
        arguments=known.arguments,
        skills=known.skills,
        folder=str(Path.cwd()),
        home=str(app.paths.home),
    )
