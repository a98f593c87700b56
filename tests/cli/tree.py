"""All commands of the program, found by walking the parser."""

from collections.abc import Iterator

import click

from homarus.cli.main import cli

# What prints no data: a conversation, a show, a server, an editor, a script for a shell, a protocol.
WITHOUT_JSON = {
    ("chat",), ("demo",), ("gateway", "run"), ("gateway", "call"), ("config", "edit"), ("completion",), ("acp",), ("mcp", "serve"),
    ("fleet", "worker"), ("fleet", "edge"),
}  # fmt: skip


def every_command(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands that are no groups, with the words that call them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command
