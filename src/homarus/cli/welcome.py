"""What `homarus` alone says: where things stand and what to do next."""

from __future__ import annotations

from homarus.cli.app import App


def welcome(app: App) -> None:
    """Print a friendly start."""
    out = app.out
    out.line(f"{out.style('homarus', 'bold', 'cyan')}: a personal agent that lives in a folder of Markdown files.")
    out.line()
    out.line("  homarus --help        all commands")
