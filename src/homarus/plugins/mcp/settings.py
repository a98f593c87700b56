"""The `mcp` block: which servers there are, how each is reached, and which of its tools are taken."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Self

from msgspec import Struct

from homarus.config.convert import did_you_mean
from homarus.config.keypath import KeyPath
from homarus.core.text import single_line

DEFAULT_REQUEST_SECONDS = 60.0
DEFAULT_CONNECT_SECONDS = 30.0


class ToolFilter(Struct, frozen=True, rename="camel"):
    """Which tools of a server are taken, by its own names; `*` stands for any letters."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        wanted = not self.include or any(fnmatchcase(name, each) for each in self.include)
        return wanted and not any(fnmatchcase(name, each) for each in self.exclude)


class OAuthSettings(Struct, frozen=True, rename="camel"):
    scope: str = ""
    redirect_url: str = ""
    client_metadata_url: str = ""


TRANSPORTS = ("stdio", "http", "sse", "streamable-http", "streamablehttp")


class ServerSettings(Struct, frozen=True, rename="camel"):
    """One server: a program (`command`) or an address (`url`). Values of `env` and `headers` may refer to secrets."""

    enabled: bool = True
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, Any] = {}
    cwd: str = ""
    # Whether the program runs in the sandbox of the agent that calls it; without it, as any program of yours.
    sandbox: bool = False
    url: str = ""
    transport: str = ""
    headers: dict[str, Any] = {}
    auth: str = ""
    oauth: OAuthSettings = OAuthSettings()
    ssl_verify: bool = True
    client_cert: str = ""
    client_key: str = ""
    tool_filter: ToolFilter = ToolFilter()
    timeout: float | None = None
    request_timeout_ms: int | None = None
    connect_timeout: float | None = None
    connection_timeout_ms: int | None = None
    supports_parallel_tool_calls: bool = True

    @classmethod
    def disabled(cls) -> Self:
        """A server that cannot be read is not started."""
        return cls(enabled=False)

    @property
    def kind(self) -> str:
        """Return how it is spoken to: stdio, sse or http; nothing where neither a command nor an address is given."""
        if self.command:
            return "stdio"
        return ("sse" if self.transport.strip().lower() == "sse" else "http") if self.url else ""

    @property
    def request_seconds(self) -> float:
        return _seconds(self.timeout, self.request_timeout_ms, DEFAULT_REQUEST_SECONDS)

    @property
    def connect_seconds(self) -> float:
        return _seconds(self.connect_timeout, self.connection_timeout_ms, DEFAULT_CONNECT_SECONDS)


class McpSettings(Struct, frozen=True, rename="camel"):
    """`mcp`. A server that nobody called for `sessionIdleTtlMs` is let go."""

    servers: dict[str, ServerSettings] = {}
    session_idle_ttl_ms: int = 600_000

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the servers that nothing can be started or called for, and ways of speaking that nobody knows."""
        for name, server in self.servers.items():
            if server.enabled and not server.kind:
                yield ("servers", name), "has neither a command nor a url, so it is never called"
            word = server.transport.strip()
            if word and word.lower().replace("_", "-") not in TRANSPORTS:
                said = f"'{single_line(word, 40)}' is none of {', '.join(TRANSPORTS)}{did_you_mean(word, TRANSPORTS)}"
                yield ("servers", name, "transport"), said

    @classmethod
    def disabled(cls) -> Self:
        return cls()


def _seconds(seconds: float | None, milliseconds: int | None, otherwise: float) -> float:
    given = seconds if seconds is not None else milliseconds / 1000 if milliseconds is not None else otherwise
    return given if given > 0 else otherwise
