"""The launcher behind the Landlock sandbox: it ties its own hands, then becomes the command.

It runs as a program of its own (`python -I -S landlock_run.py read=PATH write=PATH env=NAME … -- ARGV…`), imports
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
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 38, 22, 1, 24, 47

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the order, tie everything down, and become the command; exit 126 with a reason when that fails."""
    order, argv = _order(sys.argv[1:])
    try:
        _prctl(_PR_SET_PDEATHSIG, 9)
        private = f"/tmp/homarus-sandbox-{os.urandom(8).hex()}"  # noqa: S108 - made new, for us alone
        os.mkdir(private, 0o700)  # noqa: PTH102 - pathlib costs more than the rest of this program
        # A file that exists and cannot be opened stops git; it does without the system's.
        env = {**order["env"], "HOME": private, "TMPDIR": private, "GIT_CONFIG_NOSYSTEM": "1"}
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
        _drop_powers()
        _seccomp(order["filter"])
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
        "filter": b"",
        "entry": [],
        "cwd": "",
        "cpu": 0,
        "memory": 0,
        "processes": 0,
    }
    for word in words[:at]:
        name, _, value = word.partition("=")
        if name in {"read", "write", "entry"}:
            order[name].append(value)
        elif name == "filter":
            order[name] = bytes.fromhex(value)
        elif name == "env":
            order["env"][value] = os.environ.get(value, "")
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
    for path in order["entry"]:
        # It was no link when it was looked at; one that became a link meanwhile opens nothing.
        _allow(ruleset, path, rights, os.O_NOFOLLOW)
    if _libc.syscall(446, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock could not be switched on")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int, flags: int = 0) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    except OSError:
        return  # what does not exist needs no rule
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):
            return
        if not stat.S_ISDIR(mode):
            rights &= _FILE_RIGHTS
        record = struct.pack("<Qi", rights, fd)
        if _libc.syscall(445, ruleset, 1, record, 0) != 0:
            raise OSError(ctypes.get_errno(), f"Landlock refused the rule for {path}")
    finally:
        os.close(fd)


def _seccomp(code: bytes) -> None:
    """Switch the filter on that came with the order: see `seccomp`."""
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    filled = ctypes.create_string_buffer(header, len(header))
    if _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(filled), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp refused the filter")


def _drop_powers() -> None:
    """Give up every capability for good: without them root is a user who owns more files."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the kernel knows no more of them, or we are not root and have none
    if _libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")
    header, none = struct.pack("<Ii", 0x20080522, 0), bytes(24)
    if _libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


if __name__ == "__main__":
    main()
