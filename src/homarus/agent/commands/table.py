"""All commands in one table, and the words that stop a run. Which of them are on is the configuration's choice."""

from __future__ import annotations

import re
from collections.abc import Mapping

from homarus.agent.commands import admin, info, levels, model, notes, session
from homarus.agent.commands.command import Command
from homarus.agent.commands.settings import CommandSettings

ALL: tuple[Command, ...] = (
    *session.COMMANDS,
    *model.COMMANDS,
    *levels.COMMANDS,
    *info.COMMANDS,
    *notes.COMMANDS,
    *admin.COMMANDS,
)
_TRAILING = re.compile(r"[\s!.。！…]+$")
# A whole message that means /stop: said in a hurry, in the languages that people swear in.
STOP_WORDS = frozenset(
    {
        "stop", "esc", "abort", "exit", "interrupt", "wait", "halt",
        "stopp", "halt an", "abbrechen", "aufhören", "arrête", "arrete", "arrêter", "stoppe", "para", "detente", "alto",
        "ferma", "fermati", "basta", "pare", "parar", "stoppa", "durdur", "dur", "стоп", "остановись", "хватит",
        "停止", "停", "停下", "止めて", "ストップ", "やめて", "중지", "멈춰", "توقف", "रुको",
    }
)  # fmt: skip


def active(settings: CommandSettings) -> dict[str, Command]:
    """Return the commands that are on, under all their names."""
    table: dict[str, Command] = {}
    for command in ALL:
        if not command.switch or getattr(settings, command.switch):
            for name in (command.name, *command.aliases):
                table.setdefault(name, command)
    return table


def reserved() -> frozenset[str]:
    """Return every name that a skill's command may not take, whether its command is on or not."""
    return frozenset(name for command in ALL for name in (command.name, *command.aliases)) | {
        "bash",
        "debug",
        "restart",
        "allowlist",
    }


def is_stop(text: str) -> bool:
    """Say whether a whole message is a word that stops the run."""
    word = _TRAILING.sub("", text.strip()).casefold()
    return word in STOP_WORDS


def unique(table: Mapping[str, Command]) -> list[Command]:
    """Return each command once, in the order of the table."""
    return list({command.name: command for command in table.values()}.values())
