"""What every command gets: the environment, the paths, the configuration on first use, and a place to print."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from homarus.cli.output import Output

if TYPE_CHECKING:
    from homarus.core.clock import Clock


class App:
    """One invocation of the program. Nothing is read from disk before a command asks for it."""

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        profile: str | None = None,
        config_path: Path | None = None,
        color: bool = True,
        log_level: str | None = None,
        debug: bool = False,
    ) -> None:
        self.env = dict(env)
        self.profile = profile
        self.config_path = config_path
        self.log_level = log_level
        self.debug = debug
        self.out = Output(color=color, env=self.env)

    @cached_property
    def clock(self) -> Clock:
        """Return the machine's clock."""
        from homarus.core.clock import SystemClock

        return SystemClock()


pass_app = click.make_pass_decorator(App)
