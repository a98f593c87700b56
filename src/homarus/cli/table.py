"""The command table: names, modules and one line each, as data.

`homarus --help` prints from here, so that showing it imports no command. A command is the attribute `command` of its
module, or the one named after the colon. The sections are shown in the order in which they first appear.
"""

from __future__ import annotations


class Entry:
    """One command: the section it is listed under, the module that holds it, and its line in `--help`.

    A plain class, because this module is read before anything else and `typing` alone would double the cost of `--help`.
    """

    __slots__ = ("help", "module", "section")

    def __init__(self, section: str, module: str, help: str) -> None:  # noqa: A002 - it is the help
        self.section = section
        self.module = module
        self.help = help


COMMANDS: dict[str, Entry] = {
    "agent": Entry("Talk", "homarus.cli.agent", "say one thing and print the answer"),
    "acp": Entry("Talk", "homarus.cli.acp", "let an editor drive your agent (Agent Client Protocol)"),
    "chat": Entry("Talk", "homarus.cli.chat", "talk with your agent in this terminal"),
    "demo": Entry("Talk", "homarus.cli.demo", "see a short conversation in a throw-away home"),
    "onboard": Entry("Set up", "homarus.cli.onboard:onboard", "a home in a minute: a few questions"),
    "configure": Entry(
        "Set up", "homarus.cli.onboard:configure", "workspace, model, keys, channels or sandbox of a home that exists"
    ),
    "setup": Entry("Set up", "homarus.cli.home:setup", "create what is missing: folder, configuration, workspace"),
    "config": Entry("Set up", "homarus.cli.config", "read, change and check openclaw.json"),
    "agents": Entry("Set up", "homarus.cli.agents", "who lives here, where, and who answers on which channel"),
    "hooks": Entry("Set up", "homarus.cli.hooks", "list, enable and check the code that runs on events"),
    "mcp": Entry("Set up", "homarus.cli.mcp", "servers whose tools your agents may use, and this home as one"),
    "models": Entry("Set up", "homarus.cli.models", "which model answers, which others there are, and how to get them"),
    "plugins": Entry("Set up", "homarus.cli.plugins", "list, install, enable and write plugins"),
    "channels": Entry(
        "Chats", "homarus.cli.channels", "chat platforms: add accounts, see how they do, and who is heard"
    ),
    "pairing": Entry("Chats", "homarus.cli.pairing", "people who asked to talk with the agent: let them in"),
    "message": Entry("Chats", "homarus.cli.message", "send and change messages on chat platforms"),
    "directory": Entry("Chats", "homarus.cli.message:directory", "people and groups that a platform knows"),
    "gateway": Entry("Serve", "homarus.cli.gateway", "put this home on the network, for other programs"),
    "dashboard": Entry("Serve", "homarus.cli.gateway:dashboard", "open this home in your browser"),
    "devices": Entry("Serve", "homarus.cli.devices", "let devices in, and see which are paired"),
    "nodes": Entry("Serve", "homarus.cli.nodes", "other machines that do what this home tells them"),
    "fleet": Entry("Serve", "homarus.cli.fleet", "the homes of many people on many machines, on Postgres"),
    "health": Entry("Serve", "homarus.cli.gateway:health", "ask the running gateway how it is"),
    "logs": Entry("Serve", "homarus.cli.gateway:logs", "what the gateway wrote down, and who did what"),
    "status": Entry("Look inside", "homarus.cli.home:status", "where this home stands, at a glance"),
    "prompt": Entry("Look inside", "homarus.cli.prompt", "print exactly what a model is told"),
    "context": Entry("Look inside", "homarus.cli.prompt:context", "show what fills the window, and what was cut"),
    "sessions": Entry("Look inside", "homarus.cli.sessions", "list, read, search and look after conversations"),
    "memory": Entry("Memory", "homarus.cli.memory", "search, recall and look after the notes"),
    "approvals": Entry("Safety", "homarus.cli.approvals", "answer what the agent asks, and see what may always run"),
    "sandbox": Entry("Safety", "homarus.cli.sandbox", "see where commands run, and look from inside"),
    "cron": Entry("Automate", "homarus.cli.cron", "jobs and reminders: what runs when, and what became of it"),
    "system": Entry("Automate", "homarus.cli.cron:system", "tell the agent of an event; its heartbeats"),
    "skills": Entry("Look inside", "homarus.cli.skills", "show which skills an agent has, and why one is missing"),
    "doctor": Entry("Maintain", "homarus.cli.home:doctor", "look for what is wrong, and mend it"),
    "backup": Entry("Maintain", "homarus.cli.keeping:backup", "a home in one file, and back"),
    "security": Entry(
        "Safety", "homarus.cli.keeping:security", "what in this home is open to others, and how to close it"
    ),
    "completion": Entry("Maintain", "homarus.cli.completion", "print a completion script for your shell"),
}


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
