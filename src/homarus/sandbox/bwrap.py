"""bubblewrap: the default sandbox on Linux. A pure function from a spec to a command line, and a probe that runs one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from homarus.sandbox.spec import Access, Backend, Limits, SandboxSpec

# The system as a program needs it to start, and nothing that says who lives here.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/fonts",
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/pki",
)
# More than this many things at the top of a locked workspace, and the rest can only be read.
_MAX_ENTRIES = 500
_ETC_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")


def command(spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> list[str]:
    """Return the command line that runs `argv` inside the spec."""
    line = [
        _program() or "bwrap",
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
        "--clearenv",
    ]
    if not spec.network:
        line.append("--unshare-net")
    for name, value in sorted(env.items()):
        line += ["--setenv", name, value]
    for path in _SYSTEM:
        line += _system_folder(path)
    for path in _ETC + (_ETC_NETWORK if spec.network else ()):
        line += ["--ro-bind-try", path, path]
    # The order is the nesting: private folders first, then what is shown on top of them.
    line += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"]  # noqa: S108
    for mount in spec.mounts:
        line += ["--bind" if mount.writable else "--ro-bind", mount.path, mount.path]
    line += _workspace(spec)
    line += ["--chdir", cwd if spec.can_read(cwd) else "/tmp", "--", *limited(spec.limits, argv)]  # noqa: S108
    return line


def limited(limits: Limits, argv: Sequence[str]) -> list[str]:
    """Return a command line that takes its limits on before it becomes the command.

    They are set inside, where the count of processes begins at zero: an ordinary user's other programs do not matter.
    """
    steps = [f"ulimit -t {limits.cpu_seconds} || exit 126"] if limits.cpu_seconds else []
    steps += [f"ulimit -v {limits.memory_bytes >> 10} || exit 126"] if limits.memory_bytes else []
    # One shell calls it -u, the other -p.
    steps += [f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes}"] if limits.processes else []
    return ["/bin/sh", "-c", "; ".join([*steps, "ulimit -c 0", 'exec "$@"']), "sh", *argv]


def available() -> bool:
    """Say whether a sandbox can really be made here: the probe runs one and asks it for its network."""
    return _probe(_program(), os.getuid())


@cache
def _probe(program: str | None, _uid: int) -> bool:
    if program is None:
        return False
    spec = SandboxSpec(Backend.BWRAP, "/", Access.NONE)
    line = command(
        spec, ["/bin/sh", "-c", "test ! -e /root/. && test $$ -lt 10"], cwd="/", env={"PATH": "/usr/bin:/bin"}
    )
    try:
        return subprocess.run(line, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@cache
def _program() -> str | None:
    return shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")


def _system_folder(path: str) -> list[str]:
    try:
        return ["--symlink", str(Path(path).readlink()), path]
    except OSError:
        return ["--ro-bind-try", path, path]


def _workspace(spec: SandboxSpec) -> list[str]:
    if spec.access is Access.NONE:
        return []
    if spec.access is Access.RO:
        return ["--ro-bind", spec.workspace, spec.workspace]
    if spec.locked:
        return _locked(spec)
    line = ["--bind", spec.workspace, spec.workspace]
    # Git runs what stands in these two, and the next one to run git does it outside the sandbox.
    for name in ("hooks", "config"):
        path = f"{spec.workspace}/.git/{name}"
        line += ["--ro-bind-try", path, path]
    return line


def _locked(spec: SandboxSpec) -> list[str]:
    """Show the workspace so that its top stays as it is: what lies below may change, apart from what is locked."""
    line = ["--ro-bind", spec.workspace, spec.workspace]
    closed = {name.casefold() for name in spec.locked}
    try:
        with os.scandir(spec.workspace) as entries:
            found = sorted(entry.name for entry in entries if not entry.is_symlink())[:_MAX_ENTRIES]
    except OSError:
        return line
    for name in found:
        if name.casefold() not in closed:
            line += ["--bind-try", f"{spec.workspace}/{name}", f"{spec.workspace}/{name}"]
    return line
