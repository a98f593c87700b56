"""`homarus context`: what fills the window, file by file and section by section, and what was cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import json_option, pass_app
from homarus.cli.prompt import prompt_of, session_options


@click.group("context", cls=Group, default="list")
def command() -> None:
    """Show what a session's prompt is made of, with sizes. Without a word: the list."""


def _options(function: Callable[..., None]) -> Callable[..., None]:
    estimate = click.option("--estimate", is_flag=True, help="Measure the next turn's prompt, not the last run's.")
    return session_options(estimate(json_option(pass_app(function))))


@command.command("list")
@_options
def list_command(app: App, **options: Any) -> None:
    """Show the files, the skills and the tools that fill the prompt."""
    _show(app, "list", **options)


@command.command("detail")
@_options
def detail_command(app: App, **options: Any) -> None:
    """Show every section, skill and tool on top of the list."""
    _show(app, "detail", **options)


@command.command("map")
@_options
def map_command(app: App, **options: Any) -> None:
    """Show the window as bars."""
    _show(app, "map", **options)


def _show(app: App, what: str, *, as_json: bool, estimate: bool, mode: str | None, **chosen: str | None) -> None:
    from homarus.agent.sandbox_for import window_of
    from homarus.prompt.report import About, last_run
    from homarus.prompt.show import detail_lines, list_lines, map_lines

    shown = prompt_of(app, mode=mode, session_key=chosen["session_key"], agent_id=chosen["agent_id"])
    composed, past = shown.composed, shown.past
    agent = app.config.agent(composed.session.agent_id)
    window = window_of(agent, composed.facts.turn.model)
    about = About(window=window, session_tokens=past.tokens, messages=past.messages)
    report = shown.composer.report_for(composed, about=about, said=past.said)
    if not estimate and mode is None:
        report = last_run(past.report, report)
    if as_json:
        app.out.json(report.to_json())
        return
    lines = [] if what == "map" else [*(list_lines if what == "list" else detail_lines)(report), ""]
    for line in [*lines, *map_lines(report, unicode=_takes_blocks(app.out.out.encoding))]:
        app.out.line(line)


def _takes_blocks(encoding: str | None) -> bool:
    try:
        "█▏".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
