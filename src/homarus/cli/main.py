"""Parse the command line, find the command in the table, and turn every failure into one clear line."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homarus import __version__
from homarus.cli.app import App
from homarus.cli.failures import guarded, prepare, say, settle
from homarus.cli.group import Group
from homarus.cli.table import COMMANDS, Entry

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# Set by the scripts of `homarus completion`: then the call is a shell's question, not a command.
COMPLETE = "_HOMARUS_COMPLETE"
# OpenClaw's names of levels, as OPENCLAW_LOG_LEVEL has them.
_LEVELS = {"trace": "debug", "debug": "debug", "info": "info", "warn": "warning", "warning": "warning"}
_LEVELS |= {"error": "error", "fatal": "critical", "silent": "critical"}


class LazyGroup(Group):
    """A group that knows its commands by name and imports one only when it is called."""

    def __init__(self, *args: Any, table: dict[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return what it holds."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.module.partition(":")
        command = getattr(importlib.import_module(module), name or "command")
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Offer the names from the table; importing every command for its help would be felt at each key."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=e.help) for name, e in self.table.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def get_help(self, ctx: click.Context) -> str:
        """Return the same page that the program's door prints without this parser."""
        from homarus.cli.table import page

        return page().rstrip()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="homarus", message="%(prog)s %(version)s")
@click.option("--profile", metavar="NAME", help="Use a second home beside the first: ~/.openclaw-NAME.")
@click.option(
    "--config", "config_path", metavar="PATH", type=click.Path(path_type=Path), help="Read this openclaw.json."
)
@click.option("--no-color", is_flag=True, help="Plain text, also on a terminal (NO_COLOR does the same).")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What the log on stderr shows."
)
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected failure.")
@click.pass_context
def cli(
    ctx: click.Context,
    profile: str | None,
    config_path: Path | None,
    no_color: bool,
    log_level: str | None,
    debug: bool,
) -> None:
    """A personal agent that lives in a folder of Markdown files.

    It works on an existing ~/.openclaw home unchanged.
    """
    ctx.obj = App(
        env=dict(os.environ),
        profile=profile,
        config_path=config_path,
        color=not no_color,
        log_level=log_level,
        debug=debug,
    )
    level = log_level or _LEVELS.get(os.environ.get("OPENCLAW_LOG_LEVEL", "").strip().lower())
    if level:
        import logging

        logging.basicConfig(level=level.upper(), format="%(levelname)s %(name)s: %(message)s")
    if ctx.invoked_subcommand is None:
        welcome(ctx.obj)


def run(args: Sequence[str]) -> int:
    """Run one command line and return the exit code; nothing escapes, and a traceback is shown only with --debug."""
    prepare()
    return settle(guarded(lambda: _parsed(args), debug="--debug" in args))


def _parsed(args: Sequence[str]) -> object:
    """Find the command that was meant and run it; what is wrong with the words themselves is said here."""
    try:
        asked = os.environ.get(COMPLETE)
        if asked:
            from click.shell_completion import add_completion_class, shell_complete

            from homarus.cli.shells import KINDS

            for kind in KINDS.values():
                add_completion_class(kind)
            return shell_complete(cli, {}, "homarus", COMPLETE, asked)
        # Not `cli.main`: that ends the process by itself when a reader goes away.
        with cli.make_context("homarus", list(args)) as ctx:
            try:
                return cli.invoke(ctx)
            except Exception as problem:
                if ctx.obj and isinstance(cure := getattr(problem, "cure", None), str):
                    problem.cure = ctx.obj.out.addressed(cure)  # type: ignore[attr-defined]  # whose it is costs an import
                raise
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as problem:
        return _usage(problem)
    except click.Abort:
        raise KeyboardInterrupt from None


def _usage(problem: click.ClickException) -> int:
    everywhere = {name for param in cli.params for name in param.opts}
    if isinstance(problem, click.NoSuchOption) and problem.option_name in everywhere:
        say(f"{problem.option_name} goes before the command: homarus {problem.option_name} …")
        return problem.exit_code
    where = (
        f" ('{problem.ctx.command_path} --help' explains)"
        if isinstance(problem, click.UsageError) and problem.ctx
        else ""
    )
    app = problem.ctx.find_object(App) if isinstance(problem, click.UsageError) and problem.ctx else None
    said = problem.format_message()
    say(f"{app.out.addressed(said) if app else said}{where}")
    return problem.exit_code


def welcome(app: App) -> None:
    """Print a friendly start that fits the state of this home."""
    out = app.out
    there = app.paths.state_dir.is_dir()
    steps = (
        [("chat", "talk to your agent"), ("status", "see where things stand")]
        if there
        else [("onboard", "set up a home in a minute"), ("demo", "see what it does first")]
    )
    out.line(f"{out.style('homarus', 'bold', 'cyan')}: a personal agent that lives in a folder of Markdown files.\n")
    out.line(f"Your home is {app.paths.state_dir}.\n" if there else f"There is no home yet at {app.paths.state_dir}.\n")
    for name, use in [*steps, ("--help", "all commands")]:
        out.line(f"  {out.style(f'{app.program} {name:<10}', 'cyan')}  {use}")
