"""The configuration block `agents.defaults.sandbox`, with all defaults in one place."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Bound = Annotated[int, Meta(ge=0)]


class DockerSettings(Struct, frozen=True, rename="camel"):
    """What the Docker backend needs to know; everything else about the container is fixed by us."""

    image: str = "debian:bookworm-slim"
    binary: str = "docker"
    user: str = "1000:1000"


class SandboxSettings(Struct, frozen=True, rename="camel"):
    """`sandbox`: unset means every session is sandboxed. OpenClaw's default was `off`; ours has to be written down."""

    mode: Literal["all", "non-main", "off"] = "all"
    backend: Literal["auto", "bwrap", "landlock", "docker", "podman", "ssh", "openshell"] = "auto"
    workspace_access: Literal["rw", "ro", "none"] = "rw"
    network: bool | Literal["none", "host"] = False
    binds: list[str] = []
    env: list[str] = []
    # Zero is no limit, in so many words; what is below is none that anybody can have meant.
    cpu_seconds: Bound = 600
    memory_mb: Bound = 2048
    processes: Bound = 256
    disk_mb: Bound = 10_240
    docker: DockerSettings = DockerSettings()
    # What sandboxed sessions other than the main one may see of the conversations: only what they started, or all.
    session_tools_visibility: Literal["spawned", "all"] = "spawned"
    # Where commands and file tools work when the workspace is not theirs to write (`workspaceAccess` is not `rw`): a folder
    # below this one for each session, for each agent, or one for all. Unset: `sandboxes` in the state folder.
    workspace_root: str = ""
    scope: Literal["session", "agent", "shared"] = "agent"

    @classmethod
    def disabled(cls) -> SandboxSettings:
        """A block that cannot be read must not open anything: the tightest sandbox there is."""
        return cls(workspace_access="none")
