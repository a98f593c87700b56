"""The gateway's settings and its secret as the file has them now: a changed secret counts with the next request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.include import MAX_FILES
from homarus.config.load import load_config
from homarus.config.view import Config
from homarus.core.errors import HomarusError
from homarus.gateway.settings import GatewaySettings


class Given(Struct, frozen=True):
    """What the command line says instead of the file."""

    port: int | None = None
    bind: str | None = None
    token: str | None = None
    # With port 0: the one that is taken if it is free.
    before: int = 0


class Live:
    """Reads the configuration again when one of its files changed; one that is broken leaves the old one in force."""

    def __init__(self, config: Config, env: dict[str, str], given: Given) -> None:
        self._env = env
        self._given = given
        self._config = config
        self._files = _files(config)
        self._stamp: list[tuple[int, int, int]] = self.stamp()

    def stamp(self) -> list[tuple[int, int, int]]:
        """Return what changes when a file does."""
        return [_looked_at(path) for path in self._files]

    @property
    def config(self) -> Config:
        stamp = self.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                fresh = load_config(self._config.paths, self._env)
                fresh.bound(self._config.floor)
            except HomarusError:
                return self._config
            self._config = fresh
            # Files that count no more are still looked at: the last good content may only stand in for a broken one.
            files = list(dict.fromkeys((*_files(fresh), *self._files)))[:MAX_FILES]
            if files != self._files:
                self._files, self._stamp = files, []  # and read once more, in case one changed meanwhile
        return self._config

    @property
    def settings(self) -> GatewaySettings:
        settings, given = self.config.block("gateway", GatewaySettings), self._given
        changed = {"port": given.port, "bind": given.bind}
        return replace(settings, **{key: value for key, value in changed.items() if value is not None})

    async def secret(self) -> str:
        """Return the shared secret of the mode in force; empty where there is none, and then nothing matches it."""
        if self._given.token:
            return self._given.token
        config, auth = self.config, self.settings.auth
        value: Any = auth.password if auth.mode in {"password", "trusted-proxy"} else auth.token
        if isinstance(value, str) and "$" not in value:
            return value
        if value in (None, ""):
            return ""
        try:
            return await asyncio.to_thread(config.resolve, value)
        except HomarusError:
            return ""  # a secret that cannot be had lets nobody in


def _files(config: Config) -> list[Path]:
    """Return the file of a configuration and those that it includes."""
    included = (source.path for source in (config.source.all() if config.source else ()))
    return list(dict.fromkeys((config.paths.config_path, *included)))


def _looked_at(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
