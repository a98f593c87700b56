"""`homarus --help`, from data alone: the command line's own parser is dear, and this page does not need it."""

from __future__ import annotations

from homarus.cli.table import COMMANDS

ABOUT = """\
Usage: homarus [OPTIONS] COMMAND [ARGS]...

  A personal agent that lives in a folder of Markdown files.
  It works on an existing ~/.openclaw home unchanged.
"""
OPTIONS = {
    "-V, --version": "show the version and exit",
    "--profile NAME": "use a second home beside the first: ~/.openclaw-NAME",
    "--config PATH": "read this openclaw.json",
    "--no-color": "plain text, also on a terminal (NO_COLOR does the same)",
    "--log-level LEVEL": "what the log on standard error shows: debug, info, warning, error",
    "--debug": "show the traceback of an unexpected failure",
    "-h, --help": "show this page and exit",
}
EPILOG = """\
'homarus COMMAND --help' explains a command. Exit codes: 0 done, 1 failed, 2 wrong usage, 78 configuration.
"""


def page() -> str:
    """Return the page, the commands in their sections."""
    sections: dict[str, dict[str, str]] = {"Options": OPTIONS}
    for name, entry in COMMANDS.items():
        sections.setdefault(entry.section, {})[name] = entry.help
    width = max(len(name) for rows in sections.values() for name in rows)
    parts = [ABOUT]
    for title, rows in sections.items():
        lines = [f"  {name:<{width}}  {text}" for name, text in rows.items()]
        parts.append("\n".join([f"{title}:", *lines]) + "\n")
    return "\n".join([*parts, EPILOG])
