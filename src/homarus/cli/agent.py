"""`homarus agent`: one message, one turn, its answer on standard output. For scripts, pipes and quick questions."""

from __future__ import annotations

import sys

import click

from homarus.cli.app import App
from homarus.cli.once import Asked, answer
from homarus.cli.options import json_option, pass_app


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
    asked = Asked(
        text,
        agent_id,
        session,
        options={"model": model, "thinking": _level(thinking), "seconds": timeout},
        stream=stream,
        as_json=as_json,
    )
    return answer(app, asked)


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
