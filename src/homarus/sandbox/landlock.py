"""Landlock and seccomp: the sandbox of a Linux machine without bubblewrap. The work is done by `landlock_run`."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from homarus.sandbox.seccomp import filter_code
from homarus.sandbox.spec import Access, Backend, SandboxSpec

# As a module, and not as a script, the launcher is compiled once and not before every command.
_START = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import landlock_run; landlock_run.main()"
_READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/alternatives")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/mime.types", "/etc/ssl/certs")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/services")


def command(spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> list[str]:
    """Return the command line that runs `argv` inside the spec: our own small launcher, then the command."""
    readable = [*_READABLE, *_FILES, *(_NETWORK if spec.network else ())]
    writable, entries = list(_DEVICES), list[str]()
    for mount in spec.mounts:
        (writable if mount.writable else readable).append(mount.path)
    if spec.access is Access.RW and spec.locked:
        readable.append(spec.workspace)
        entries = _unlocked(spec)
    elif spec.access is not Access.NONE:
        (writable if spec.access is Access.RW else readable).append(spec.workspace)
    order = [f"read={path}" for path in readable] + [f"write={path}" for path in writable]
    order += [f"entry={path}" for path in entries]
    order += [f"filter={filter_code(network=spec.network, isolated=False).hex()}"]
    # By name alone: on a command line every user of the machine would see the values. The launcher has them itself.
    order += [f"env={name}" for name in env]
    order += [f"network={int(spec.network)}", f"cwd={cwd if spec.can_read(cwd) else ''}"]
    limits = spec.limits
    order += [f"cpu={limits.cpu_seconds}", f"memory={limits.memory_bytes}", f"processes={limits.processes}"]
    return [sys.executable, "-I", "-S", "-c", _START, *order, "--", *argv]


def _unlocked(spec: SandboxSpec) -> list[str]:
    closed = {name.casefold() for name in spec.locked}
    try:
        entries = sorted(Path(spec.workspace).iterdir())
    except OSError:
        return []
    return [str(entry) for entry in entries if entry.name.casefold() not in closed and not entry.is_symlink()]


@cache
def available() -> bool:
    """Say whether this kernel takes a Landlock ruleset and our launcher can hold a command with it."""
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"}:
        return False
    if ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) < 1:
        return False
    spec = SandboxSpec(Backend.LANDLOCK, "/", Access.NONE)
    line = command(
        spec, ["/bin/sh", "-c", "! ls /root /home /proc/1 2>/dev/null"], cwd="/", env={"PATH": "/usr/bin:/bin"}
    )
    try:
        return subprocess.run(line, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
