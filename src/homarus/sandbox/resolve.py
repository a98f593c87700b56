"""Decide once per turn where its commands run. Nothing else in the program may decide that again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from homarus.core.errors import Denied
from homarus.core.routes import SessionKey
from homarus.sandbox.mounts import parse_binds
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Backend, Limits, SandboxSpec

_CURES = {
    Backend.BWRAP: "install bubblewrap (Debian: apt install bubblewrap)",
    Backend.LANDLOCK: "use Linux 5.13 or newer",
    Backend.DOCKER: "install Docker and start its service",
}


class Place(Struct, frozen=True):
    """Whose turn it is and where it works."""

    session: SessionKey
    workspace: Path
    home: Path
    state_dir: Path


Available = Callable[[Backend], bool]


def resolve(settings: SandboxSettings, place: Place, available: Available) -> SandboxSpec:
    """Return the spec for one turn, or raise `Denied` when a sandbox is wanted and this machine has none.

    A missing backend never means "run it on the host": that would be a sandbox in name only.
    """
    limits = Limits(settings.cpu_seconds, settings.memory_mb << 20, settings.processes)
    spec = SandboxSpec(
        backend=Backend.OFF,
        workspace=str(place.workspace.resolve()),
        access=Access(settings.workspace_access),
        network=settings.network is True or settings.network == "host",
        mounts=parse_binds(settings.binds, home=place.home, state_dir=place.state_dir),
        limits=limits,
        env=tuple(sorted(set(settings.env))),
        image=settings.docker.image,
        binary=settings.docker.binary,
        user=settings.docker.user,
    )
    if settings.mode == "off" or (settings.mode == "non-main" and place.session.is_main):
        return spec
    return _with_backend(spec, _choose(settings, available))


def _with_backend(spec: SandboxSpec, backend: Backend) -> SandboxSpec:
    from msgspec.structs import replace

    return replace(spec, backend=backend)


def _choose(settings: SandboxSettings, available: Available) -> Backend:
    if settings.backend in {"podman", "ssh", "openshell"}:
        raise Denied(
            f"sandbox.backend '{settings.backend}' is not supported", cure="set it to auto, bwrap, landlock or docker"
        )
    wanted = [Backend.BWRAP, Backend.LANDLOCK] if settings.backend == "auto" else [Backend(settings.backend)]
    for backend in wanted:
        if available(backend):
            return backend
    raise Denied(
        f"no sandbox: {' and '.join(wanted)} cannot be used here, and commands do not run without one",
        cure=f"{_CURES[wanted[0]]}, or allow host commands with sandbox.mode 'off'",
    )


def clean_environment(spec: SandboxSpec, outer: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return what a command finds in its environment: a fixed base, what the settings allow, and what the run adds.

    Nothing else of ours leaks in, and neither PATH nor a loader variable can be set from outside.
    """
    base = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp" if spec.enforced else outer.get("HOME", "/"),  # noqa: S108 - the sandbox's own, gone with it
        "LANG": outer.get("LANG", "C.UTF-8"),
        "TERM": "dumb",
        "TMPDIR": "/tmp",  # noqa: S108
        "OPENCLAW_SHELL": "exec",
    }
    allowed = {name: outer[name] for name in spec.env if name in outer and not is_dangerous_variable(name)}
    added = {name: value for name, value in extra.items() if not is_dangerous_variable(name)}
    return {**base, **allowed, **added}


def is_dangerous_variable(name: str) -> bool:
    """Say whether a variable changes what program runs rather than what it is told."""
    upper = name.upper()
    risky = {"PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE"}
    risky |= {"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "NODE_OPTIONS"}
    risky |= {"GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "EDITOR", "VISUAL", "BROWSER", "LESSOPEN"}
    prefixes = ("LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG", "NPM_CONFIG_", "OPENCLAW_", "HOMARUS_")
    return upper in risky or upper.startswith(prefixes) or "=" in name or "\x00" in name or not name
