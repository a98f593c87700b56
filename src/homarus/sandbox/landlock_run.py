"""The launcher behind the Landlock sandbox: it ties its own hands, then becomes the command.

It runs as a program of its own (`python -I -S landlock_run.py read=PATH write=PATH env=NAME=VALUE … -- ARGV…`), imports
nothing of homarus, and refuses to run the command when any step fails. It runs before every command, so it also loads
nothing that costs milliseconds: no json, no tempfile, no shutil.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what a rule on a single file may name
_NET = 1 << 0 | 1 << 1  # bind and connect over TCP
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_PDEATHSIG = 38, 22, 1

# What a command has no business calling, by its number on x86_64 and on aarch64.
_DENIED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "userfaultfd": (323, 282),
    # io_uring makes calls that a filter like this one never sees.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# What a process may do to itself (argument zero) and not to its neighbours: number of the argument, then the call.
_OWN_ONLY = {
    "prlimit64": (0, 302, 261),
    "setpriority": (1, 141, 140),
    "ioprio_set": (1, 251, 30),
    "sched_setparam": (0, 142, 118),
    "sched_setscheduler": (0, 144, 119),
    "sched_setaffinity": (0, 203, 122),
    "sched_setattr": (0, 314, 274),
}
_SOCKET = (41, 198)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the order, tie everything down, and become the command; exit 126 with a reason when that fails."""
    order, argv = _order(sys.argv[1:])
    try:
        _prctl(_PR_SET_PDEATHSIG, 9)
        private = f"/tmp/homarus-sandbox-{os.urandom(8).hex()}"  # noqa: S108 - made new, for us alone
        os.mkdir(private, 0o700)  # noqa: PTH102 - pathlib costs more than the rest of this program
        env = {**order["env"], "HOME": private, "TMPDIR": private}
        _limit(order)
        os.chdir(order["cwd"] or private)
        program = _which(argv[0], env.get("PATH", ""))
        if os.fork():  # the parent stays outside, to remove the private folder at the end
            _, status = os.wait()
            _remove(private)
            _end_like(status)
        _prctl(_PR_SET_PDEATHSIG, 9)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _landlock(order, private)
        _seccomp(network=order["network"])
        os.execve(program, argv, env)  # noqa: S606 - becoming the command is this program's whole purpose
    except FileNotFoundError:
        sys.stderr.write(f"{argv[0]}: command not found\n")
        os._exit(127)
    except (OSError, ValueError, KeyError) as problem:
        sys.stderr.write(f"sandbox: {problem}\n")
        os._exit(126)


def _order(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Read the command line up to `--`; what follows is the command."""
    at = words.index("--")
    order: dict[str, Any] = {
        "read": [],
        "write": [],
        "env": {},
        "network": False,
        "cwd": "",
        "cpu": 0,
        "memory": 0,
        "processes": 0,
    }
    for word in words[:at]:
        name, _, value = word.partition("=")
        if name in {"read", "write"}:
            order[name].append(value)
        elif name == "env":
            key, _, text = value.partition("=")
            order["env"][key] = text
        elif name == "network":
            order[name] = value == "1"
        else:
            order[name] = value if name == "cwd" else int(value)
    return order, words[at + 1 :]


def _which(name: str, path: str) -> str:
    """Return where a program lies, or its bare name when it is nowhere."""
    if "/" in name:
        return name
    for folder in path.split(":"):
        found = f"{folder}/{name}"
        if folder and os.access(found, os.X_OK) and not os.path.isdir(found):  # noqa: PTH112
            return found
    return name


def _remove(folder: str) -> None:
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError:  # something was left in it
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _end_like(status: int) -> None:
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _limit(order: dict[str, Any]) -> None:
    wanted = {
        resource.RLIMIT_CPU: order["cpu"],
        resource.RLIMIT_AS: order["memory"],
        # Without a namespace of its own the count includes all that this user runs already. It does not bind root.
        resource.RLIMIT_NPROC: order["processes"] and os.getuid() and order["processes"] + _running(),
    }
    for what, value in wanted.items():
        if value:
            _, hard = resource.getrlimit(what)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(what, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _running() -> int:
    count, uid = 0, os.getuid()
    with os.scandir("/proc") as entries:
        for entry in entries:
            try:
                if entry.name.isdigit() and entry.stat().st_uid == uid:
                    count += os.stat(f"{entry.path}/task").st_nlink - 2  # noqa: PTH116 - pathlib costs 10 ms to import
            except OSError:
                continue
    return count


def _prctl(*args: int) -> None:
    if _libc.prctl(*args) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def _landlock(order: dict[str, Any], private: str) -> None:
    abi = _libc.syscall(444, None, 0, 1)
    if abi < 1:
        raise OSError("this kernel has no Landlock")
    rights = _ALL.get(abi, (1 << 16) - 1 if abi >= 5 else (1 << 15) - 1)
    network = 0 if order["network"] or abi < 4 else _NET
    # Older kernels take a shorter record; the fields they do not know are left off, not zeroed.
    record = struct.pack("<QQQ", rights, network, _SCOPES)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = _libc.syscall(444, record, len(record), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused the ruleset")
    for path in order["read"]:
        _allow(ruleset, path, _READ & rights)
    for path in [*order["write"], private, "/proc/self"]:
        _allow(ruleset, path, (_READ if path == "/proc/self" else rights) & rights)
    if _libc.syscall(446, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock could not be switched on")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what does not exist needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        record = struct.pack("<Qi", rights, fd)
        if _libc.syscall(445, ruleset, 1, record, 0) != 0:
            raise OSError(ctypes.get_errno(), f"Landlock refused the rule for {path}")
    finally:
        os.close(fd)


def _seccomp(*, network: bool) -> None:
    """Deny the calls above with EPERM, and any call of a foreign instruction set by death."""
    column, architecture = _MACHINES[os.uname().machine]
    denied = sorted({numbers[column] for numbers in (*_DENIED.values(), *(() if network else (_SOCKET,)))})
    size = len(denied)
    program = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, 0x80000000),  # kill
        (0x20, 0, 0, 0),  # load the call's number
        *(step for argument, *numbers in _OWN_ONLY.values() for step in _own_only(numbers[column], argument)),
        (0x35, size + 1, 0, 0x40000000),  # the x32 numbers of x86_64 are aliases: deny them all
        *((0x15, size - at, 0, number) for at, number in enumerate(denied)),
        (0x06, 0, 0, 0x7FFF0000),  # allow
        (0x06, 0, 0, 0x00050001),  # fail with EPERM
    ]
    code = b"".join(struct.pack("<HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(buffer))
    filled = ctypes.create_string_buffer(header, len(header))
    if _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(filled), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp refused the filter")


def _own_only(number: int, argument: int) -> list[tuple[int, int, int, int]]:
    """Return the steps that let a call through only if an argument is zero."""
    return [
        (0x15, 0, 3, number),
        (0x20, 0, 0, 16 + 8 * argument),
        (0x15, 1, 0, 0),
        (0x06, 0, 0, 0x00050001),
        (0x20, 0, 0, 0),
    ]


if __name__ == "__main__":
    main()
