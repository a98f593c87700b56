"""Landlock and seccomp: the sandbox of a Linux machine without bubblewrap. The work is done by `landlock_run`."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from homarus.core.errors import ToolError
from homarus.sandbox import launcher, scratch
from homarus.sandbox.held import memory_file
from homarus.sandbox.seccomp import filter_code
from homarus.sandbox.spec import Access, Backend, SandboxSpec

_READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/alternatives")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/mime.types", "/etc/ssl/certs")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/services")

_TRUNCATES = 3  # the version that looks after truncate
# More than this many things at the top of a locked workspace, and the rest can only be read.
_MAX_ENTRIES = 300
_PROBE_SECONDS, _PROBE_TRIES = 0.002, 5_000


def words(spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> list[str]:
    """Return the order for the launcher: what the spec opens, then the command."""
    system = [shown for path in _READABLE for shown in _without(path, spec.hidden)]
    readable = [*system, *_FILES, *(_NETWORK if spec.network else ())]
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
    owns = os.getuid() == 0 or spec.access is Access.RO or bool(spec.locked)
    code = filter_code(network=spec.network, isolated=False, truncates=_version() >= _TRUNCATES, owns=owns)
    order += [f"filter={code.hex()}"]
    order += [f"env={name}={value}" for name, value in env.items()]
    order += [f"network={int(spec.network)}", f"cwd={cwd if spec.can_read(cwd) else ''}"]
    limits = spec.limits
    order += [f"cpu={limits.cpu_seconds}", f"memory={limits.memory_bytes}", f"processes={limits.processes}"]
    return [*order, "--", *argv]


def launch(order: Sequence[str], folder: scratch.Scratch, *, groups: Sequence[str] = (), stdin: int, sink: int) -> int:
    """Start the command of an order and return its process id; `groups` are the control groups that it enters, if any."""
    given = [f"private={folder.path}", *(f"group={group}" for group in groups), *order]
    if any("\0" in word for word in given):
        raise ToolError(
            "a variable or a path holds a NUL byte", cure="leave it out"
        )  # it would end one word of the order
    held: list[int] = []
    # In memory, where only the process that becomes the command reads it: its variables may be secrets.
    text = memory_file(os.fsencode("\0".join(given)), held)
    try:
        return launcher.launch([text, folder.fd, stdin, sink])
    finally:
        os.close(text)


def _without(path: str, hidden: Sequence[str]) -> list[str]:
    """Return what is shown of a folder: itself, or all that is in it besides a hidden one. Landlock knows no exceptions."""
    if path in hidden:
        return []
    if not any(each.startswith(f"{path}/") for each in hidden):
        return [path]
    try:
        names = sorted(os.listdir(path))  # noqa: PTH208
    except OSError:
        return []
    return [shown for name in names for shown in _without(f"{path}/{name}", hidden)]


def _unlocked(spec: SandboxSpec) -> list[str]:
    closed = {name.casefold() for name in spec.locked}
    try:
        entries = sorted(Path(spec.workspace).iterdir())
    except OSError:
        return []
    found = [str(entry) for entry in entries if entry.name.casefold() not in closed and not entry.is_symlink()]
    return found[:_MAX_ENTRIES]


@cache
def _version() -> int:
    """Return which version of Landlock the kernel has; less than one for none."""
    return int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1))


@cache
def available() -> bool:
    """Say whether this kernel takes a Landlock ruleset and our launcher can hold a command with it."""
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"}:
        return False
    if _version() < 1:
        return False
    spec = SandboxSpec(Backend.LANDLOCK, "/", Access.NONE)
    argv = ["/bin/sh", "-c", "! ls /root /home /proc/1 2>/dev/null"]
    order = words(spec, argv, cwd="/", env={"PATH": "/usr/bin:/bin"})
    try:
        folder, nothing = scratch.make(), os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            return _waited(launch(order, folder, stdin=nothing, sink=nothing)) == 0
        finally:
            os.close(nothing)
            folder.remove()
    except OSError:
        return False


def _waited(pid: int) -> int:
    """Return how a child ended; one that does not is ended."""
    for _ in range(_PROBE_TRIES):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(_PROBE_SECONDS)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]
