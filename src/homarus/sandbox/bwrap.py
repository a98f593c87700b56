"""bubblewrap: the default sandbox on Linux. A pure function from a spec to a command line, and a probe that runs one."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from homarus.core.later import later
from homarus.sandbox.spec import Access, Backend, Limits, SandboxSpec

if TYPE_CHECKING:
    from homarus.sandbox import held as held_files
    from homarus.sandbox import seccomp
else:
    held_files = later("homarus.sandbox.held")
    seccomp = later("homarus.sandbox.seccomp")


# The system as a program needs it to start, and nothing that says who lives here. Keys lie beside certificates: as root
# we could read them.
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
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
)
# More than this many things at the top of a locked workspace, and the rest can only be read.
_MAX_ENTRIES = 300
_SWITCHES = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/fs",
    "/proc/mtrr",
)
_JUST_IT = (
    getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
)  # the thing itself: neither what it leads to nor its content
_PRIVATE = ("/dev/shm", "/tmp", "/run", "/var/tmp")  # noqa: S108 - the sandbox's own
_ETC_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf")


def command(
    spec: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], held: list[int] | None = None
) -> list[str]:
    """Return the command line that runs `argv` inside the spec.

    `held` takes the descriptors that must be passed on and closed afterwards. Without it the line is only for looking at.
    """
    line = [
        program() or "bwrap",
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *("--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
        "--clearenv",
    ]
    if not spec.network:
        line.append("--unshare-net")
    if held is not None:
        line += ["--seccomp", str(_filter(held, network=spec.network))]
    line += ["--args", str(_variables(held, env))] if held is not None else []
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
    for mount in spec.mounts:
        line += ["--bind" if mount.writable else "--ro-bind", mount.path, mount.path]
    line += _workspace(spec, held)
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
    """Return a descriptor from which the filter of calls can be read."""
    return held_files.memory_file(seccomp.filter_code(network=network, isolated=True), held)


def _variables(held: list[int], env: Mapping[str, str]) -> int:
    """Return a descriptor from which the variables can be read: on a command line every user of the machine would see them."""
    words = [word for name, value in sorted(env.items()) for word in ("--setenv", name, value)]
    return held_files.memory_file(b"".join(os.fsencode(word) + b"\0" for word in words), held)


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
    return _probe(program(), os.getuid())


@cache
def _probe(program: str | None, _uid: int) -> bool:
    if program is None:
        return False
    spec = SandboxSpec(Backend.BWRAP, "/", Access.NONE)
    held: list[int] = []
    argv = ["/bin/sh", "-c", "test ! -e /root/. && test $$ -lt 10"]
    line = command(spec, argv, cwd="/", env={"PATH": "/usr/bin:/bin"}, held=held)
    try:
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


def _workspace(spec: SandboxSpec, held: list[int] | None) -> list[str]:
    if spec.access is Access.NONE:
        return []
    if spec.access is Access.RO:
        return ["--ro-bind", spec.workspace, spec.workspace]
    if spec.locked:
        return _locked(spec, held)
    line = ["--bind", spec.workspace, spec.workspace]
    # What is run outside of the sandbox: our own hooks by us, and git's by the next one who uses git there.
    return [*line, *_shown("--ro-bind", f"{spec.workspace}/hooks", held), *_git(f"{spec.workspace}/.git", held)]


def _git(folder: str, held: list[int] | None) -> list[str]:
    """Return the words that keep the programs and settings of a repository as they are.

    The folder itself is shown on top of itself: what something is shown on can be neither renamed nor removed, and so
    no other folder can be put in its place.
    """
    try:
        top = os.open(folder, _JUST_IT | os.O_DIRECTORY)
    except NotADirectoryError:
        return _shown("--ro-bind", folder, held)  # a file that says where the repository is; of a link nothing is shown
    except OSError:
        return []
    try:
        line = _shown("--bind", folder, held)
        for name in ("hooks", "config", "config.worktree", "commondir", "modules"):
            line += _shown("--ro-bind", f"{folder}/{name}", held, top)
        return line
    finally:
        os.close(top)


def _locked(spec: SandboxSpec, held: list[int] | None) -> list[str]:
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
            line += _shown("--bind", f"{spec.workspace}/{name}", held)
    return line


def _shown(option: str, path: str, held: list[int] | None, folder: int | None = None) -> list[str]:
    """Return the words that show one thing of the workspace, by descriptor where bubblewrap takes one.

    A command that runs beside this one could put a link in its place between the look and the mount, or in place of
    its `folder`, which is held open.
    """
    try:
        fd = os.open(path if folder is None else path.rpartition("/")[2], _JUST_IT, dir_fd=folder)
    except OSError:
        return []
    is_link = stat.S_ISLNK(os.fstat(fd).st_mode)
    if held is not None and not is_link and _takes_descriptors():
        held.append(fd)
        return [f"{option}-fd", str(fd), path]
    os.close(fd)
    return [] if is_link else [f"{option}-try", path, path]


@cache
def _takes_descriptors() -> bool:
    found = program()
    if found is None:
        return False
    try:
        shown = subprocess.run([found, "--help"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--ro-bind-fd" in shown.stdout + shown.stderr
