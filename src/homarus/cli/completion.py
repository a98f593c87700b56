"""`homarus completion`: print the script that lets a shell complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from homarus.cli.app import App
from homarus.cli.options import pass_app

# A shell that has not loaded its completion yet does so now; without it nothing could be registered.
_ZSH_FIRST = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


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

    kind = get_completion_class(shell)
    assert kind is not None
    maker = kind(cli, {}, "homarus", COMPLETE)
    script = maker.source_template % maker.source_vars()
    if shell == "zsh":
        script = _ZSH_FIRST + script
    if shell == "bash":
        # A name may hold blanks; bash takes what it is given as it stands.
        script = script.replace("COMPREPLY+=($value)", """COMPREPLY+=("$(printf '%q' "$value")")""")
    if shell == "fish":
        # A description may hold commas; only the first one ends the kind.
        script = script.replace('string split ","', 'string split -m 1 ","')
    app.out.line(script)
