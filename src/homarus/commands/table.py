"""All commands in one table. Which of them are on is the configuration's choice."""

from __future__ import annotations

from collections.abc import Mapping

from homarus.commands.command import Command
from homarus.commands.groups import admin, info, levels, model, notes, session
from homarus.commands.settings import CommandSettings

ALL: tuple[Command, ...] = (
    *session.COMMANDS,
    *model.COMMANDS,
    *levels.COMMANDS,
    *info.COMMANDS,
    *notes.COMMANDS,
    *admin.COMMANDS,
)


def active(settings: CommandSettings) -> dict[str, Command]:
    """Return the commands that are on, under all their names."""
    table: dict[str, Command] = {}
    for command in ALL:
        if not command.switch or getattr(settings, command.switch):
            for name in (command.name, *command.aliases):
                table.setdefault(name, command)
    return table


def switched_off(name: str, settings: CommandSettings) -> str:
    """Return the key of `commands` that would switch a command on; nothing for one that is on, or that does not exist."""
    switches = [row.switch for row in ALL if name in {row.name, *row.aliases} and row.switch]
    return next((switch for switch in switches if not getattr(settings, switch)), "")


def reserved() -> frozenset[str]:
    """Return every name that a skill's command may not take, whether its command is on or not."""
    return frozenset(name for command in ALL for name in (command.name, *command.aliases))


def unique(table: Mapping[str, Command]) -> list[Command]:
    """Return each command once, in the order of the table."""
    return list({command.name: command for command in table.values()}.values())
