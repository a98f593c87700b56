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
GARBAGE_AFTER = 20_000


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

    from homarus.cli.once import open_agent

    async def talk() -> int:
        async with open_agent(app, agent_id, session) as agent:
            _look_for_garbage()
            if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
                from homarus.cli.chat_lines import talk_in_lines

                return await talk_in_lines(agent, sys.stdin, app.out.out, app.out.err)
            leave = agent.runtime.attend(agent.session)
            try:
                return await _on_screen(app, agent)
            finally:
                leave()

    return asyncio.run(talk())


def _look_for_garbage() -> None:
    """Look for it again from now on, which starting up does not: a chat stays, and what was loaded is none."""
    import gc

    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER, 10, 10)


async def _on_screen(app: App, agent: Agent) -> int:
    import asyncio

    from homarus.cli.chat_history import ChatHistory
    from homarus.cli.chat_screen import Screen, model_of
    from homarus.cli.chat_view import ChatView
    from homarus.core.messages import Assistant

    view = ChatView(asyncio.get_running_loop().time)
    history = ChatHistory(app.paths.own_dir / HISTORY)
    # The session is taken at once: better to hear now that another program has it than after the first long message.
    with agent.runtime.opened(agent.session) as live:
        said = sum(entry.type == "message" for entry in live.writer.branch)
        answers = [message.usage.total for message in live.writer.history()[-20:] if isinstance(message, Assistant)]
        row = live.store.find(agent.session)
    view.model = model_of(agent)
    view.used = next((total for total in reversed(answers) if total), 0)
    if row is not None and not view.model and row.entry.model_provider and row.entry.model:
        view.model = f"{row.entry.model_provider}/{row.entry.model}"  # what was picked without being told, last time
    begun = f"{said} messages so far, /new starts over" if said else "a new session"
    screen = Screen(agent, view, words_of(app, agent), history, color=app.out.color)
    await screen.run(f"🦞 {agent.session.agent_id} · {begun} · /help · Ctrl-D leaves")
    return 0


def words_of(app: App, agent: Agent) -> Words:
    """Return everything that can be completed in this home."""
    from pathlib import Path

    from homarus.commands.table import unique
    from homarus.cli.chat_words import Words

    front, name = agent.conversation.front, agent.session.agent_id
    table = unique(front.commands)
    skills = front.desk.skills(name)
    commands = {row.name: row.help for row in table} | {each.command: each.description for each in skills}
    names = agent.runtime.models.names(app.config.agent(name))
    arguments = {row.name: row.words for row in table if row.words}
    models = ("list", "status", "default", *names.aliases, *names.configured)
    return Words(
        commands={**commands, "exit": "leave the chat"},
        arguments={**arguments, "model": models, "skill": tuple(each.skill.name for each in skills)},
        skills={each.skill.name: each.description for each in skills},
        folder=str(Path.cwd()),
        home=str(app.paths.home),
    )
