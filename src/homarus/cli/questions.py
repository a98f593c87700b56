"""How `homarus onboard` and `homarus configure` ask: a line at a time, and again after a slip."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from homarus.admin.places import refuse
from homarus.cli.app import App
from homarus.core.errors import HomarusError

T = TypeVar("T")


def ask(question: str, default: str = "", *, hidden: bool = False) -> str:
    """Return what somebody types, or the default for Enter; what is hidden is not shown."""
    from prompt_toolkit import prompt
    from prompt_toolkit.formatted_text import FormattedText

    # Shown, not filled in: whoever types 2 means 2, and not 12.
    shown = FormattedText([("ansibrightblack", default)])
    return prompt(_asked(question), placeholder=shown, is_password=hidden).strip() or default


def _asked(question: str) -> str:
    # What stands before the line is cut where the terminal ends, and not wrapped.
    return "\n".join([*textwrap.wrap(question, columns()), "> "])


def columns() -> int:
    """Return how many columns a line of questions may take."""
    return max(40, shutil.get_terminal_size().columns - 1)


def ask_until(app: App, question: str, check: Callable[[str], T], default: str = "") -> T | None:
    """Ask until the answer will do; nothing where somebody answered nothing. A slip must not cost the questions after it."""
    while answer := ask(question, default):
        try:
            return check(answer)
        except HomarusError as problem:
            app.out.line(f"{problem}.")
            question = ""
    return None


def ask_folder(app: App, question: str, default: str) -> Path | None:
    """Ask until it is a folder in which an agent can live; nothing where the one that is shown is kept."""
    from prompt_toolkit import prompt
    from prompt_toolkit.completion import PathCompleter

    completer = PathCompleter(only_directories=True, expanduser=True)
    while (answer := prompt(_asked(question), default=default, completer=completer).strip() or default) != default:
        folder = Path(answer).expanduser().absolute()
        try:
            refuse(folder, app.paths)
            return folder
        except HomarusError as problem:
            app.out.line(f"{problem}.")
            question = ""
    return None
