"""Decide once per turn where its commands run. Nothing else in the program may decide that again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import Denied
from homarus.core.routes import SessionKey
from homarus.sandbox.mounts import controls, parse_binds
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Backend, Limits, Mount, SandboxSpec

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
    workspace = place.workspace.resolve()
    spec = SandboxSpec(
        backend=Backend.OFF,
        workspace=str(workspace),
        access=Access(settings.workspace_access),
        network=settings.network is True or settings.network == "host",
        mounts=_apart(parse_binds(settings.binds, home=place.home, state_dir=place.state_dir), workspace, settings),
        limits=limits,
        env=tuple(sorted(set(settings.env))),
        image=settings.docker.image,
        binary=settings.docker.binary,
        user=settings.docker.user,
        hidden=tuple(sorted({str(place.home.resolve()), str(place.state_dir.resolve())})),
    )
    if settings.mode == "off" or (settings.mode == "non-main" and place.session.is_main):
        return spec
    if _gives_away(workspace, place):
        spec = replace(spec, access=Access.NONE)
    return replace(spec, backend=_choose(settings, available))


def _gives_away(workspace: Path, place: Place) -> bool:
    """Say whether a workspace would open more than work: then the agent gets a sandbox without any folder.

    In a state folder lie its own rules; in a home, keys and what a shell runs at the next login.
    """
    home, state = place.home.resolve(), place.state_dir.resolve()
    return any(each.is_relative_to(workspace) for each in (home, state)) or controls(workspace, home)


def _apart(mounts: tuple[Mount, ...], workspace: Path, settings: SandboxSettings) -> tuple[Mount, ...]:
    """Leave out what lies in a folder that commands can write: they could put a link in its place, and it is there anyway."""
    open_to_all = [Path(mount.path) for mount in mounts if mount.writable]
    open_to_all += [workspace] if settings.workspace_access == "rw" else []
    return tuple(
        mount
        for mount in mounts
        if not any(root != Path(mount.path) and Path(mount.path).is_relative_to(root) for root in open_to_all)
    )


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
    """Say whether a variable changes what program runs, or where it takes its orders from, rather than what it is told."""
    upper = name.upper()
    return upper in _DANGEROUS or upper.startswith(_PREFIXES) or "=" in name or "\x00" in name or not name


_NAMES = (
    "PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE ZDOTDIR FPATH INPUTRC HOSTALIASES "
    "PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYLIB RUBYOPT GEM_HOME GEM_PATH BUNDLE_GEMFILE NODE_OPTIONS NODE_PATH "
    "JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS LUA_INIT LUA_PATH LUA_CPATH "
    "TCLLIBPATH R_PROFILE R_PROFILE_USER R_ENVIRON PHPRC PHP_INI_SCAN_DIR GCONV_PATH LOCPATH TERMINFO TERMINFO_DIRS "
    "PAGER MANPAGER GIT_PAGER SYSTEMD_PAGER EDITOR VISUAL FCEDIT GIT_EDITOR GIT_SEQUENCE_EDITOR SVN_EDITOR BROWSER "
    "LESSOPEN LESSCLOSE LESS MORE GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_EXTERNAL_DIFF "
    "GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_PROXY_COMMAND GIT_DIR GIT_COMMON_DIR RSYNC_RSH CVS_RSH TAR_OPTIONS MAKEFLAGS "
    "MAKEFILES GNUMAKEFLAGS RUSTC RUSTC_WRAPPER GOFLAGS GOENV CURL_HOME WGETRC SSLKEYLOGFILE XDG_CONFIG_HOME "
    "XDG_CONFIG_DIRS XDG_DATA_DIRS DOCKER_HOST DOCKER_CONFIG"
)
_DANGEROUS = frozenset(_NAMES.split())
_PREFIXES = (
    *("LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG", "NPM_CONFIG_", "OPENCLAW_", "HOMARUS_", "PYTHON", "GLIBC_", "PIP_"),
    *("UV_", "CARGO_"),
)
