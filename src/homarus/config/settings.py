"""The blocks that belong to the configuration itself: `env` and `secrets`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from homarus.core.patterns import late

_PIECE = late(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

Millis = Annotated[int, Meta(ge=1, le=120_000)]
Bytes = Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)]


class EnvSettings(Struct, frozen=True, rename="camel"):
    """`env`: variables for what the process does not define itself. The login shell is never asked for more."""

    vars: dict[str, str] = {}


class HeartbeatSettings(Struct, frozen=True, rename="camel"):
    """`heartbeat` of an agent, as far as the prompt tells of it; a bare number is minutes."""

    every: (
        Annotated[
            str, Meta(pattern=r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)?\s*)*$", description="a duration such as 30m or 2h")
        ]
        | int
    ) = ""
    prompt: str = ""

    @property
    def seconds(self) -> float:
        """Return how often an agent is polled, 0 for never: an empty block is no order, one that says anything else is."""
        every = self.every
        if every == "":
            return 0.0 if self == type(self)() else 1_800.0
        return sum(float(count) * _SECONDS[unit or "m"] for count, unit in _PIECE.findall(str(every)))


class SecretProvider(Struct, frozen=True, rename="camel"):
    """One entry of `secrets.providers`; which keys count depends on its source."""

    source: Literal["env", "file", "exec", "store"]
    # env
    allowlist: list[str] | None = None
    # file
    path: str = ""
    mode: Literal["json", "singleValue"] = "json"
    max_bytes: Bytes = 1024 * 1024
    # exec
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    pass_env: list[str] = []
    json_only: bool = True
    timeout_ms: Millis = 5000
    no_output_timeout_ms: Millis | None = None
    max_output_bytes: Bytes = 1024 * 1024
    trusted_dirs: list[str] | None = None
    allow_symlink_command: bool = False
    # file and exec
    allow_insecure_path: bool = False


class SecretsSettings(Struct, frozen=True, rename="camel"):
    """`secrets`: where references lead, and which provider a reference without one means."""

    providers: dict[str, SecretProvider] = {}
    defaults: dict[str, str] = {}
    egress_proxy: Any = None
