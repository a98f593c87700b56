"""Decide once per turn where its commands run. Nothing else in the program may decide that again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import ConfigError, Denied
from homarus.core.routes import SessionKey
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Backend, Limits, Mount, SandboxSpec
from homarus.storage.beneath import real_path

_CURES = {
    Backend.BWRAP: "install bubblewrap (Debian: apt install bubblewrap)",
    Backend.LANDLOCK: "use Linux 5.13 or newer",
    Backend.DOCKER: "install Docker and start its service",
}


class Place(Struct, frozen=True):
    session: SessionKey
    workspace: Path
    home: Path
    state_dir: Path


# Whole trees that give away the system, its devices, or a daemon that runs as root.
_SYSTEM = ("/etc", "/proc", "/sys", "/dev", "/boot", "/root", "/run", "/var/run", "/var/lib/docker")
_SECRETS = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config/gcloud", ".netrc", ".password-store", ".openclaw")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What is said of a folder that is not opened to an agent.
TOO_MUCH = "holds keys, a whole home, or what controls this machine"
Available = Callable[[Backend], bool]


def resolve(settings: SandboxSettings, place: Place, available: Available) -> SandboxSpec:
    """Return the spec for one turn, or raise `Denied` when a sandbox is wanted and this machine has none.

    A missing backend never means "run it on the host": that would be a sandbox in name only.
    """
    limits = Limits(settings.cpu_seconds, settings.memory_mb << 20, settings.processes, settings.disk_mb << 20)
    workspace, home, state = (real_path(str(each)) for each in (place.workspace, place.home, place.state_dir))
    spec = SandboxSpec(
        backend=Backend.OFF,
        workspace=workspace,
        access=Access(settings.workspace_access),
        network=settings.network is True or settings.network == "host",
        mounts=_apart(parse_binds(settings.binds, home=place.home, state_dir=place.state_dir), workspace, settings),
        limits=limits,
        env=tuple(sorted(set(settings.env))),
        image=settings.docker.image,
        binary=settings.docker.binary,
        user=settings.docker.user,
        hidden=_hidden(home, state),
    )
    if settings.mode == "off" or (settings.mode == "non-main" and place.session.is_main):
        return spec
    if settings.workspace_access != "rw":
        seen = (Mount(workspace),) if spec.access is Access.RO and not _gives_away(workspace, home, state) else ()
        own = real_path(str(_own_folder(settings, place)))
        spec = replace(spec, workspace=own, access=Access.RW, mounts=(*spec.mounts, *seen), instead_of=workspace)
    if _gives_away(spec.workspace, home, state):
        spec = replace(spec, access=Access.NONE)
    return replace(spec, backend=_choose(settings, available))


def _own_folder(settings: SandboxSettings, place: Place) -> Path:
    """Return the folder in which a sandbox without a writable workspace works, by whom it is shared."""
    top = settings.workspace_root
    root = place.home / top[2:] if top.startswith("~/") else place.state_dir / (top or "sandboxes")
    names = {"session": str(place.session), "agent": f"agent-{place.session.agent_id}", "shared": "shared"}
    name = names[settings.scope]
    safe = "".join(char if char.isascii() and char.isalnum() else "-" for char in name)[:40]
    return root / (safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}")


# Where links lead is asked for every turn; what follows from the places does not change.


@lru_cache(maxsize=64)
def _hidden(home: str, state: str) -> tuple[str, ...]:
    """Return the folders that commands never see. Some users of the system live among the programs; those stay visible."""
    folders = {Path(home), Path(state), account_home()}
    programs = [Path(folder) for folder in (*_PATH.split(":"), "/usr/lib")]
    return tuple(sorted(str(each) for each in folders if not any(folder.is_relative_to(each) for folder in programs)))


@lru_cache(maxsize=64)
def _gives_away(workspace: str, home: str, state: str) -> bool:
    """Say whether a workspace would open more than work: then the agent gets a sandbox without any folder.

    In a state folder lie its own rules; in a home, keys and what a shell runs at the next login.
    """
    places = (Path(home), account_home(), Path(state))
    return any(each.is_relative_to(workspace) for each in places) or controls(Path(workspace), Path(home))


def _apart(mounts: tuple[Mount, ...], workspace: str, settings: SandboxSettings) -> tuple[Mount, ...]:
    """Leave out what lies in a folder that commands can write: they could put a link in its place, and it is there anyway."""
    open_to_all = [Path(mount.path) for mount in mounts if mount.writable]
    open_to_all += [Path(workspace)] if mounts and settings.workspace_access == "rw" else []
    return tuple(
        mount
        for mount in mounts
        if not any(root != Path(mount.path) and Path(mount.path).is_relative_to(root) for root in open_to_all)
    )


def parse_binds(binds: list[str], *, home: Path, state_dir: Path) -> tuple[Mount, ...]:
    """Return the mounts that `sandbox.binds` asks for: `/path` or `/path:rw`; a dangerous one is an error that says why.

    Links are resolved first, so that a link into a refused folder is refused too.
    """
    mounts = []
    for text in binds:
        path, _, option = text.partition(":")
        if option not in {"", "ro", "rw"}:
            raise ConfigError(f"sandbox.binds: '{text}' is not understood", cure="write '/path' or '/path:rw'")
        source = Path(path).expanduser() if not path.startswith("~") else home / path[2:]
        if not source.is_absolute():
            raise ConfigError(f"sandbox.binds: '{text}' is not absolute", cure="write the whole path")
        real = source.resolve()
        if reason := refusal(real, home=home.resolve(), state_dir=state_dir.resolve()):
            raise ConfigError(f"sandbox.binds: '{text}' {reason}", cure="name the one folder inside it that is needed")
        if not real.exists():
            raise ConfigError(f"sandbox.binds: '{text}' does not exist", cure="create it or remove the entry")
        mounts.append(Mount(str(real), option == "rw"))
    return tuple(mounts)


def refusal(path: Path, *, home: Path, state_dir: Path) -> str:
    """Return why a real path may not be shown in a sandbox, or nothing."""
    homes = {home, account_home()}
    guarded = [*map(Path, _SYSTEM), state_dir, *(each / name for each in homes for name in _SECRETS)]
    for place in guarded:
        if path.is_relative_to(place):
            return f"lies in {place}, which holds secrets or controls the machine"
        if place.is_relative_to(path):
            return f"contains {place}, which holds secrets or controls the machine"
    return ""


@cache
def account_home() -> Path:
    """Return the home of the user who we are, whatever a variable says: the keys lie there."""
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return Path("/root")


def controls(workspace: Path, home: Path) -> bool:
    """Say whether a real path lies where work has no place: among what controls the machine, or among a user's keys.

    The home of root is not meant, nor OpenClaw's folder: workspaces lie there.
    """
    guarded = [Path(place) for place in _SYSTEM if place != "/root"]
    guarded += [each / name for each in (home, account_home()) for name in _SECRETS if name != ".openclaw"]
    return any(workspace.is_relative_to(place) for place in guarded)


def may_lend(folder: Path, home: Path, state_dir: Path) -> bool:
    """Say whether a real path can be opened to a turn by the owner's word: work, and not keys or a whole home."""
    return not folder.is_relative_to(real_path(str(state_dir))) and may_live(folder, home, state_dir)


def may_live(folder: Path, home: Path, state_dir: Path) -> bool:
    """Say whether a real path can be an agent's workspace: one that gives more away is shown to no sandbox."""
    return not _gives_away(str(folder), real_path(str(home)), real_path(str(state_dir)))


def has_backend(backend: Backend) -> bool:
    """Say whether a kind of sandbox works on this machine. What runs commands in it is imported only to try it."""
    from homarus.sandbox.process import available

    return available(backend)


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
        "PATH": _PATH,
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
    # Where variables stand line by line, a line break in a name would begin another one.
    odd = not name or "=" in name or " " in name or not name.isprintable()
    return odd or upper in _DANGEROUS or upper.startswith(_PREFIXES)


def is_owners_variable(name: str) -> bool:
    """Say whether only the owner sets a variable: it names the tools, keys and services that a program uses."""
    upper = name.upper()
    return is_dangerous_variable(name) or upper in _OWNERS or upper.startswith(_OWNERS_PREFIXES)


_NAMES = (
    "PATH IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS1 PS2 PS4 PROMPT_COMMAND CDPATH GLOBIGNORE EXECIGNORE ZDOTDIR FPATH INPUTRC "
    "BASH_XTRACEFD BASH_LOADABLES_PATH HISTFILE MAILPATH COMSPEC HOSTALIASES LOCALDOMAIN RES_OPTIONS POSIXLY_CORRECT "
    "RUBYLIB RUBYOPT RUBYSHELL GEM_HOME GEM_PATH BUNDLE_GEMFILE NODE_OPTIONS NODE_PATH "
    "JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS ANT_OPTS "
    "TCLLIBPATH TCL_LIBRARY R_PROFILE R_PROFILE_USER R_ENVIRON PHPRC PHP_INI_SCAN_DIR AWKPATH AWKLIBPATH BC_ENV_ARGS "
    "CAML_LD_LIBRARY_PATH GCONV_PATH LOCPATH NLSPATH TERMCAP TERMINFO TERMINFO_DIRS MAGIC MALLOC_TRACE "
    "PAGER MANPAGER MANOPT SYSTEMD_PAGER EDITOR VISUAL FCEDIT SUDO_EDITOR SVN_EDITOR SVN_SSH BROWSER MORE "
    "SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH TAR_OPTIONS UNZIP ZIPOPT XZ_OPT "
    "MAKEFLAGS MAKEFILES GNUMAKEFLAGS MAKESHELL RUSTC RUSTC_WRAPPER RUSTFLAGS GOFLAGS GOENV GCC_EXEC_PREFIX COMPILER_PATH "
    "CURL_HOME WGETRC SSLKEYLOGFILE RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS BAT_PAGER DELTA_PAGER "
    "GH_PAGER GH_EDITOR GH_BROWSER VIMINIT EXINIT VIM VIMRUNTIME MYVIMRC EMACSLOADPATH HGRCPATH HGEDITOR HGMERGE "
    "PSQLRC PSQL_PAGER PSQL_EDITOR PGSERVICEFILE GTK_MODULES GTK_PATH QT_PLUGIN_PATH GIO_EXTRA_MODULES GIO_MODULE_DIR "
    "GDK_PIXBUF_MODULE_FILE GST_PLUGIN_PATH SASL_PATH APT_CONFIG PYTEST_ADDOPTS PYTEST_PLUGINS COVERAGE_PROCESS_START "
    "XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS DOCKER_HOST DOCKER_CONFIG"
)
_DANGEROUS = frozenset(_NAMES.split())
# Of git's variables only those are open that say who made a commit, and when.
_GIT = "CONFIG TRACE SSH ASKPASS PAGER EDITOR SEQUENCE_EDITOR EXTERNAL_DIFF EXEC_PATH TEMPLATE_DIR PROXY DIR COMMON_DIR"
_GIT += " WORK_TREE INDEX OBJECT ALTERNATE REDIRECT ATTR ALLOW_PROTOCOL SSL"
_PREFIXES = (
    *("LD_", "DYLD_", "BASH_FUNC_", "NPM_CONFIG_", "YARN_", "OPENCLAW_", "HOMARUS_", "PYTHON", "GLIBC_", "PIP_", "UV_"),
    *("CARGO_", "PERL", "LUA_", "LESS", "DOTNET_STARTUP", "CORECLR_", "COR_", "COMPLUS_", "MONO_", "OPENSSL_", "ERL_"),
    *("ELIXIR_", "JULIA_", "GUILE_", "DPKG_", *(f"GIT_{name}" for name in _GIT.split())),
)
_OWNED = (
    "SHELL JAVA_HOME CC CXX CPP LD AR GOROOT GOTOOLCHAIN LIBRARY_PATH CPATH C_INCLUDE_PATH PKG_CONFIG "
    "PKG_CONFIG_PATH R_LIBS R_HOME SSH_AUTH_SOCK KRB5_CONFIG KUBECONFIG GNUPGHOME AWS_CONFIG_FILE "
    "AWS_SHARED_CREDENTIALS_FILE BOTO_CONFIG TF_CLI_CONFIG_FILE NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR "
    "CURL_CA_BUNDLE REQUESTS_CA_BUNDLE XDG_DATA_HOME XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY XAUTHORITY "
    "VIRTUAL_ENV"
)
_OWNERS = frozenset(_OWNED.split())
_OWNERS_PREFIXES = ("ANSIBLE_", "CLOUDSDK_", "DBUS_", "NIX_", "HOMEBREW_", "CONDA_", "POETRY_", "RUSTUP_", "DOTNET_")
