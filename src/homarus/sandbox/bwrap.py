"""bubblewrap: the default sandbox on Linux. A pure function from a spec to a command line, and a probe that runs one."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from homarus.core.clock import Clock
from homarus.core.errors import StorageError
from homarus.sandbox.folders import layers
from homarus.sandbox.spawn import memory_file
from homarus.sandbox.spec import Access, Backend, Limits, SandboxSpec
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.syscalls import NO_SYMLINKS, openat2

# The system as a program needs it to start, and nothing that says who lives here. Keys lie beside certificates: as root
# we could read them.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
_SETTINGS = (
    "alternatives ld.so.cache ld.so.conf ld.so.conf.d localtime timezone mime.types nsswitch.conf protocols "
    "services fonts ssl/certs ca-certificates pki/ca-trust pki/tls/cert.pem pki/tls/certs pki/tls/openssl.cnf"
)
_ETC = tuple(f"/etc/{name}" for name in _SETTINGS.split())
_SWITCHES = tuple(f"/proc/{name}" for name in ["sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "mtrr"])
_ANYWHERE = -100  # a path from / on
_PRIVATE = ("/dev/shm", "/tmp", "/run", "/var/tmp")  # noqa: S108 - the sandbox's own
KEPT_SECONDS = 24 * 3600
LOOK_SECONDS = 60.0  # for so long a process believes what it read
_ETC_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")


def command(
    spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], held: list[int], bwrap: str = ""
) -> list[str]:
    """Return the command line that runs `argv` inside the spec. `held` takes the descriptors to pass on and close afterwards."""
    line = [
        bwrap or program() or "bwrap",
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
        "--clearenv",
    ]
    if not spec.network:
        line.append("--unshare-net")
    line += ["--seccomp", str(_filter(held, network=spec.network)), "--args", str(_variables(held, env))]
    for path in _SYSTEM:
        line += _system_folder(path)
    for path in _ETC + (_ETC_NETWORK if spec.network else ()):
        line += ["--ro-bind-try", path, path]
    hidden = _hidden(spec)
    for path in hidden:
        line += [*_sized(spec.limits), "--tmpfs", path]
    # The order is the nesting: private folders first, then what is shown on top of them.
    line += ["--proc", "/proc", "--dev", "/dev"]
    # Switches of the whole machine. Their owner is root, and root without powers is still their owner: a command could
    # name the program that the kernel runs, outside, when something crashes.
    for path in _SWITCHES:
        line += ["--ro-bind-try", path, path]
    for path in _PRIVATE:
        # What is written there is memory, and no limit of a process counts it.
        line += [*_sized(spec.limits), "--tmpfs", path]
    line += ["--remount-ro", "/dev"]
    line += _shown(spec, held)
    for path in hidden:
        line += ["--remount-ro", path]
    line += ["--remount-ro", "/", "--chdir", cwd if spec.can_read(cwd) else "/tmp", "--", *limited(spec.limits, argv)]  # noqa: S108
    return line


def _hidden(spec: SandboxSpec) -> list[str]:
    """Return what must be covered: a home or a state folder among the programs, such as that of a service in /opt."""
    found = [path for path in spec.hidden if any(path.startswith(f"{top}/") for top in _SYSTEM)]
    outer = [path for path in found if not any(path.startswith(f"{other}/") for other in found)]
    return [path for path in outer if os.path.isdir(path)]  # noqa: PTH112


def _sized(limits: Limits) -> list[str]:
    return ["--size", str(max(limits.memory_bytes // 4, 1 << 20))] if limits.memory_bytes else []


def _filter(held: list[int], *, network: bool) -> int:
    from homarus.sandbox.seccomp import filter_code

    return memory_file(filter_code(network=network, isolated=True), held)


def _variables(held: list[int], env: Mapping[str, str]) -> int:
    """Return a descriptor from which the variables can be read: on a command line every user of the machine would see them."""
    words = [word for name, value in sorted(env.items()) for word in ("--setenv", name, value)]
    return memory_file(b"".join(os.fsencode(word) + b"\0" for word in words), held)


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
    """Say whether a sandbox can really be made here: the probe runs one, with a folder that is shown by descriptor.

    A bubblewrap that cannot do that (before 0.9, unless the distribution has mended it) is none: by its path a folder could
    become a link to your keys between the look and the mount.
    """
    return usable(program(), os.getuid())


@cache
def usable(program: str | None, _uid: int) -> bool:
    if program is None:
        return False
    spec = SandboxSpec(Backend.BWRAP, "/usr", Access.RO)
    held: list[int] = []
    argv = ["/bin/sh", "-c", "test ! -e /root/. && test $$ -lt 10"]
    try:
        line = command(spec, argv, cwd="/", env={"PATH": "/usr/bin:/bin"}, held=held, bwrap=program)
        return subprocess.run(line, capture_output=True, timeout=10, check=False, pass_fds=held).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        for fd in held:
            os.close(fd)


@cache
def program() -> str | None:
    """Return where bubblewrap is; only places that belong to the system count."""
    places = ("/usr/local/bin/bwrap", "/usr/bin/bwrap", "/bin/bwrap")
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)  # noqa: PTH113


def _system_folder(path: str) -> list[str]:
    try:
        return ["--symlink", str(Path(path).readlink()), path]
    except OSError:
        return ["--ro-bind-try", path, path]


def _shown(spec: SandboxSpec, held: list[int]) -> list[str]:
    """Return the words that show the folders of a spec, each by descriptor.

    A command that runs beside this one could put a link in the place of something between the look and the mount. So
    nothing is shown of what is, or lies behind, a link in a folder that commands write.
    """
    roots = {spec.workspace, *(mount.path for mount in spec.mounts)}
    line: list[str] = []
    for path, writable in layers(spec):
        try:
            rules = 0 if path in roots else NO_SYMLINKS
            held.append(openat2(_ANYWHERE, path, os.O_PATH | os.O_CLOEXEC, 0, rules))
        except OSError as problem:
            if path not in roots and problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                continue  # gone meanwhile
            raise
        line += ["--bind-fd" if writable else "--ro-bind-fd", str(held[-1]), path]
    return line


def remembered(file: Path, available: Callable[[Backend], bool], clock: Clock) -> Callable[[Backend], bool]:
    """Return a check like `available` that looks into the file first: trying costs more than the rest of a short turn.

    Only a yes is remembered, for one program file, kernel and user, and for a day. If it is wrong, commands fail to start,
    and nothing runs outside of a sandbox.
    """

    works, until = "", 0.0  # what this process found to work, and how long that holds

    def check(backend: Backend) -> bool:
        nonlocal works, until
        if backend is not Backend.BWRAP:
            return available(backend)
        state, now = _state(), clock.monotonic()
        if state and state == works and now < until:
            return True
        if state and _known(file, clock) == state:
            works, until = state, now + LOOK_SECONDS
            return True
        found = available(backend)
        if found and state:
            try:
                ensure_dir(file.parent)
                write_atomic(file, state.encode())
            except StorageError:
                return True  # then it is tried again next time
        return found

    return check


def _state() -> str:
    """Return what the answer depends on, as far as it can be seen without trying."""
    found = program()
    if found is None:
        return ""
    try:
        facts = os.stat(found)  # noqa: PTH116 - before every turn
    except OSError:
        return ""
    return f"{found} {facts.st_size} {facts.st_mtime_ns} {facts.st_mode} {os.uname().release} {os.getuid()}"


def _known(file: Path, clock: Clock) -> str:
    try:
        age = clock.now().timestamp() - file.stat().st_mtime
        return file.read_text() if 0 <= age < KEPT_SECONDS else ""
    except (OSError, ValueError):
        return ""
