"""Landlock and seccomp: the sandbox of a Linux machine without bubblewrap. The work is done by `landlock_run`."""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from homarus.core.errors import ToolError
from homarus.sandbox import scratch
from homarus.sandbox.folders import layers, open_parts, roots, without
from homarus.sandbox.seccomp import filter_code
from homarus.sandbox.spawn import memory_file
from homarus.sandbox.spec import Access, Backend, SandboxSpec

_READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/alternatives")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/mime.types", "/etc/ssl/certs")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/services")

_TRUNCATES = 3  # the version that looks after truncate
_PROBE_SECONDS, _PROBE_TRIES = 0.002, 5_000
# As a module, and not as a script, the launcher is compiled once and not at every start.
_START = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import landlock_run; landlock_run.main()"
IDLE_SECONDS = 60.0
# A machine that cannot start a process in this time is in trouble that waiting does not cure.
_ANSWER_MS = 20_000
_here = threading.local()


def words(spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> list[str]:
    """Return the order for the launcher: what the spec opens, then the command."""
    system = [shown for path in _READABLE for shown in without(path, spec.hidden)]
    readable = [*system, *_FILES, *(_NETWORK if spec.network else ()), *(path for path, _ in roots(spec))]
    order = [f"read={path}" for path in readable] + [f"write={path}" for path in _DEVICES]
    order += _open(spec)
    owns = os.getuid() == 0 or any(not writable for _, writable in layers(spec))
    code = filter_code(network=spec.network, isolated=False, truncates=_version() >= _TRUNCATES, owns=owns)
    order += [f"filter={code.hex()}"]
    order += [f"env={name}={value}" for name, value in env.items()]
    order += [f"network={int(spec.network)}", f"cwd={cwd if spec.can_read(cwd) else ''}"]
    limits = spec.limits
    order += [f"cpu={limits.cpu_seconds}", f"memory={limits.memory_bytes}", f"processes={limits.processes}"]
    return [*order, "--", *argv]


def _open(spec: SandboxSpec) -> list[str]:
    """Return the words for what can be written: whole folders with read-only mounts in them, or else the parts around those."""
    own = [path for path, writable in roots(spec) if writable]
    inner = [layer for layer in layers(spec) if layer not in roots(spec) or not layer[1]]
    inner = [layer for layer in inner if any(f"{layer[0]}/".startswith(f"{root}/") for root in own)]
    if spec.locked or (inner and not can_mount()):
        return [f"entry={path}" for path in open_parts(spec)]
    mounts = [f"around={path}" if writable else f"keep={path}" for path, writable in inner]
    return [*(f"entry={path}" for path in own), *mounts]


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
        return _launched([text, folder.fd, stdin, sink])
    finally:
        os.close(text)


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
    return _works("! ls /root /home /proc/1 2>/dev/null")


@cache
def can_mount() -> bool:
    """Say whether a command can have a view of the files of its own, in which parts of a folder are read-only."""
    return _works("! (echo x > /usr/bin/env) 2>/dev/null", "keep=/usr")


def _works(test: str, *more: str) -> bool:
    """Run a test as a command and say whether it ended well."""
    spec = SandboxSpec(Backend.LANDLOCK, "/", Access.NONE)
    order = words(spec, ["/bin/sh", "-c", test], cwd="/", env={"PATH": "/usr/bin:/bin"})
    try:
        folder, nothing = scratch.make(), os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            return _waited(launch([*more, *order], folder, stdin=nothing, sink=nothing)) == 0
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


class _Launcher:
    """The waiting launcher: a process and our end of its socket.

    There is one for each of our threads that starts commands, since what it starts is a child of that thread. It has no
    secrets, dies with us, and is let go when it has had nothing to do for a while.
    """

    def __init__(self) -> None:
        self.identity = _identity()
        self.idle: asyncio.TimerHandle | None = None
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(_ANSWER_MS / 1000)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        self.pid = process.pid
        self.close = weakref.finalize(self, _end, self.channel, process, self.identity)

    def launch(self, given: list[int]) -> int:
        """Hand over what belongs to an order and return the number of the process, zero if nobody is there any more."""
        answer, theirs = os.pipe()
        try:
            try:
                socket.send_fds(self.channel, [b"!"], [*given, theirs])
            except OSError:
                return 0
            finally:
                os.close(theirs)
            waiting = select.poll()
            waiting.register(answer, select.POLLIN)
            # Whatever comes too late finds nobody to answer to, and ends before it does anything.
            return int(os.read(answer, 20) or b"0") if waiting.poll(_ANSWER_MS) else 0
        finally:
            os.close(answer)


def _launched(given: list[int]) -> int:
    """Return the number of the process that becomes the command: words, folder, input and output, as descriptors."""
    for _ in range(2):  # one that was killed is replaced
        launcher = _ready()
        if pid := launcher.launch(given):
            return pid
        launcher.close()
    raise OSError("the launcher of the sandbox does not answer")


def _ready() -> _Launcher:
    launcher: _Launcher | None = getattr(_here, "launcher", None)
    if launcher is None or not launcher.close.alive or launcher.identity != _identity():
        launcher = _here.launcher = _Launcher()
    if launcher.idle is not None:
        launcher.idle.cancel()
    with suppress(RuntimeError):  # no loop is running: then it stays until we end
        launcher.idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, launcher.close)
    return launcher


def _identity() -> tuple[object, ...]:
    """Return who we are. After a fork, or with other rights than before, a launcher is not ours any more."""
    return os.getpid(), os.getresuid(), os.getresgid(), os.getgroups()


def _end(channel: socket.socket, process: subprocess.Popen[bytes], identity: tuple[object, ...]) -> None:
    channel.close()
    if identity[0] == os.getpid():
        with suppress(PermissionError):  # we have given up the rights that it still has; it ends by itself
            process.kill()
        process.wait()
