"""Groups of commands: one of them may answer for the group's bare name, and a wrong word gets a hint."""

from __future__ import annotations

from typing import Any

import click


class Group(click.Group):
    """A group that is useful alone: `homarus hooks --json` is `homarus hooks list --json`.

    Without a default, the bare name prints the help: whoever calls it asks what there is.
    """

    def __init__(self, *args: Any, default: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command before options that no command was named for."""
        # A shell that completes must see the group, to list its commands.
        if not ctx.resilient_parsing:
            if self.default and (not args or (args[0].startswith("-") and not self._own(ctx, args[0]))):
                args = [self.default, *args]
            elif not args and self.no_args_is_help:
                args = ["--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name and name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            listed = f" There are: {', '.join(known)}." if len(known) <= 12 else ""
            hint = f" Did you mean '{ctx.command_path} {near[0]}'?" if near else listed
            raise click.UsageError(f"no command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _own(self, ctx: click.Context, option: str) -> bool:
        names = {name for param in self.get_params(ctx) for name in param.opts}
        return option.partition("=")[0] in names | set(ctx.help_option_names)
