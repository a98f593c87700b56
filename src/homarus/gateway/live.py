"""The gateway's settings and its secret as the file has them now: a changed secret counts with the next request."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

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
    """Reads the configuration again when its file changed; one that is broken leaves the old one in force."""

    def __init__(self, config: Config, env: dict[str, str], given: Given) -> None:
        self._env = env
        self._given = given
        self._config = config
        self._stamp = self.stamp()

    def stamp(self) -> tuple[int, int, int]:
        """Return what changes when the file does."""
        try:
            found = self._config.paths.config_path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    @property
    def config(self) -> Config:
        stamp = self.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                fresh = load_config(self._config.paths, self._env)
                fresh.bound(self._config.floor)
                self._config = fresh
            except HomarusError:
                return self._config
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
