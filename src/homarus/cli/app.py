"""What every command gets: the environment, the paths, the configuration on first use, and a place to print."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homarus.cli.output import Output

if TYPE_CHECKING:
    from homarus.config.load import Config
    from homarus.config.paths import Paths
    from homarus.config.report import Problem
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
        self.options = _quoted(profile, config_path)
        self.out = Output(color=color, env=self.env, options=self.options)

    @cached_property
    def clock(self) -> Clock:
        """Return the machine's clock."""
        from homarus.core.clock import SystemClock

        return SystemClock()

    @cached_property
    def paths(self) -> Paths:
        """Return where everything lies for this environment and profile."""
        from homarus.config.paths import resolve_paths

        return resolve_paths(self.env, profile=self.profile, config_path=self.config_path)

    @cached_property
    def config(self) -> Config:
        """Load the configuration once; its problems go to stderr, one line each, when they are found."""
        from homarus.config.load import load_config

        return load_config(self.paths, self.env, notify=self._heard)

    def inspected(self) -> Config:
        """Read the configuration anew to show or mend it, whatever is wrong with it; what is right is remembered as with `config`."""
        from homarus.config.load import inspect_config, remember_good

        found = inspect_config(self.paths, self.env)
        remember_good(found)
        return found

    @cached_property
    def program(self) -> str:
        """Return what a person must type here to call this program for the same home.

        It is its name, or its path where a shell does not find it, with the options that lead to the home.
        """
        import shutil
        import sys

        called, name = Path(sys.argv[0]), "homarus"
        if called.name == "homarus" and not shutil.which("homarus", path=self.env.get("PATH")):
            here = current_folder()
            within = here is not None and called.is_relative_to(here) and called.parent != here
            name = str(called.relative_to(here) if here is not None and within else called)
        return f"{name}{self.options}"

    def ask_gateway(self, method: str, **params: Any) -> Any:
        """Ask the gateway that serves this home to do something; None where there is none. What it refuses is raised."""
        if not (self.paths.own_dir / "gateway.sock").exists():
            return None
        import asyncio

        from homarus.gateway.remote import running

        async def ask() -> Any:
            client = await running(self.paths)
            if client is None:
                return None
            try:
                return await client.request(method, **params)
            finally:
                await client.aclose()

        return asyncio.run(ask())

    def _heard(self, problem: Problem) -> None:
        if problem.severity != "info":
            self.out.warn(str(problem))


def current_folder() -> Path | None:
    """Return the folder in which this program was started; None where it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _quoted(profile: str | None, config_path: Path | None) -> str:
    """Return the options that led to this home as a person types them, each after a blank."""
    given = [(name, value) for name, value in (("--profile", profile), ("--config", config_path)) if value is not None]
    if not given:
        return ""
    import shlex  # most calls name no home

    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given)
