"""`homarus completion`: print the script that lets a shell complete our commands."""

from __future__ import annotations

import click

from homarus.cli.app import App
from homarus.cli.options import pass_app


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pass_app
def command(app: App, shell: str) -> None:
    """Print a completion script for your shell.

    \b
    bash:  eval "$(homarus completion bash)"        in ~/.bashrc
    zsh:   eval "$(homarus completion zsh)"         in ~/.zshrc
    fish:  homarus completion fish | source         in ~/.config/fish/config.fish
    """
    from homarus.cli.main import COMPLETE, cli
    from homarus.cli.shells import KINDS

    maker = KINDS[shell](cli, {}, "homarus", COMPLETE)
    app.out.line(maker.source_template % maker.source_vars())
