"""`homarus onboard` and `homarus configure`: a few questions, each with a good answer already filled in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from homarus.cli.app import App
from homarus.cli.options import pass_app

if TYPE_CHECKING:
    from homarus.admin.choices import Choice


@click.command("onboard")
@click.option("--workspace", type=click.Path(path_type=Path), metavar="DIR", help="Keep the agent's files here.")
@click.option("--model", metavar="REF", help="Use this model, for example anthropic/claude-sonnet-4-5, or auto.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing: take the options and the defaults.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text, and ask nothing.")
@pass_app
def command(app: App, workspace: Path | None, model: str | None, non_interactive: bool, as_json: bool) -> None:
    """Set up a home in a minute: where the files live, and which model answers.

    It finds keys in the environment and model servers on this machine. What exists is kept; running it again offers what is
    set now.
    """
    import asyncio

    from homarus.admin.choices import model_choices
    from homarus.admin.setup import set_up

    out, config = app.out, app.config
    ask = not non_interactive and not as_json and _is_terminal(app)
    current = str(config.agent(config.default_agent.id).get("model.primary") or "")
    if ask:
        out.line(f"{out.style('Welcome to homarus.', 'bold')} A question or two; Enter takes what is shown.\n")
        if workspace is None and not app.paths.config_path.exists():
            workspace = Path(_ask_folder("Where should your agent's files live?", str(app.paths.default_workspace)))
    choices = asyncio.run(model_choices(config, app.env, app.clock, current))
    if ask and model is None:
        model = _pick(app, choices)
    chosen = workspace.expanduser().absolute() if workspace else None
    settings = {"agents.defaults.model.primary": model} if model and model != current else {}
    report = set_up(app.paths, app.env, app.clock, workspace=chosen, settings=settings)
    answered = model or current or "the best model that is there"
    if as_json:
        from homarus.cli.setup import as_data

        out.json(as_data(app, report) | {"model": model or current or "auto"})
        return
    out.line()
    out.line(f"{'Created' if report.config_created else 'Kept'} {app.paths.config_path}.")
    for key in report.config_changed:
        out.line(f"Set {key}.")
    for item in report.workspaces:
        out.line(f"Your agent lives in {item.workspace}.")
    out.line(f"It answers with {out.style(answered, 'cyan')}.")
    out.line(f"\nSay hello: {out.style(f'{app.program} chat', 'bold', 'cyan')}")


configure = click.Command(
    "configure", callback=command.callback, params=command.params, help=command.help, short_help=command.short_help
)


def _is_terminal(app: App) -> bool:
    import sys

    return sys.stdin.isatty() and app.out.out.isatty()


def _ask_folder(question: str, default: str) -> str:
    from prompt_toolkit import prompt
    from prompt_toolkit.completion import PathCompleter

    completer = PathCompleter(only_directories=True, expanduser=True)
    return prompt(f"{question}\n> ", default=default, completer=completer).strip() or default


def _ask_choice(default: str) -> str:
    from prompt_toolkit import prompt
    from prompt_toolkit.formatted_text import FormattedText

    # Shown, not filled in: whoever types 2 means 2, and not 12.
    return prompt("> ", placeholder=FormattedText([("ansibrightblack", default)])).strip() or default


def _pick(app: App, choices: list[Choice]) -> str:
    out = app.out
    out.line("Which model should answer?\n")
    for number, choice in enumerate(choices, 1):
        out.line(f"  {number}  {out.style(choice.ref, 'cyan')}  {out.style(choice.why, 'dim')}")
    out.line(f"\n  {out.style('or write another one as provider/model; keys are read from the environment', 'dim')}")
    while True:
        answer = _ask_choice("1")
        if answer.isdigit() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1].ref
        if "/" in answer or answer == "auto":
            return answer
        out.line("A number from the list, or provider/model.")
