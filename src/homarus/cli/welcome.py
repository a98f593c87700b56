"""What `homarus` alone says: where things stand and what to do next."""

from __future__ import annotations

from homarus.cli.app import App


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
