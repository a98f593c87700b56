"""The launcher behind the Landlock sandbox: it waits for orders, and for each it bears a process that ties its own hands.

It runs as a program of its own (`python -I -S -c "… landlock_run.main()" DESCRIPTOR`), imports nothing of homarus, and has
no variables and no files of ours. What it bears becomes the command, or ends with a reason when any step fails. It is
started once and not for every command, because starting Python takes far longer than all the rest.

An order is one byte on its socket with five descriptors: the words of the order, the private folder, the command's input and
output, and a pipe for the answer, which is the number of the process that becomes the command. That process is our owner's
child and not ours: the owner alone waits for it, and it dies with the owner. Nothing secret passes through the launcher
itself, since only the new process reads the words.
"""

from __future__ import annotations

import _socket  # what `socket` is made of, without the milliseconds that it takes
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
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT, _SIGCHLD = 0x8000, 17
_NEWNS, _NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
# Of its own process, and nothing of the machine's network, which lies there, too.
_OWN_PROC = ("status", "stat", "statm", "maps", "cmdline", "comm", "environ", "exe", "fd", "limits", "cgroup", "mounts")
_IGNORED = 13, 25  # SIGPIPE and SIGXFSZ, which Python ignores: a command does not expect that

# Without letting go of the interpreter around a call: a process that is born in the middle of one must find it as it was.
_libc = ctypes.PyDLL(None, use_errno=True)


def main() -> None:
    """Serve orders until the owner closes its end."""
    _prctl(_PR_SET_PDEATHSIG, 9)
    channel = _socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(channel.fileno(), False)
    clone = _CLONE[os.uname().machine]
    space = _socket.CMSG_SPACE(5 * 4)
    while True:
        said, packed, _, _ = channel.recvmsg(1, space, _socket.MSG_CMSG_CLOEXEC)
        if not said or not packed:
            os._exit(0)
        given = struct.unpack("5i", packed[0][2])
        born = _libc.syscall(clone, _CLONE_PARENT | _SIGCHLD, 0, 0, 0, 0)
        if born == 0:
            try:
                _become(*given)
            finally:
                os._exit(126)  # whatever happened, this process must not go on as a launcher
        for fd in given:
            os.close(fd)


def _become(words: int, folder: int, source: int, sink: int, answer: int) -> None:
    """Tie everything down and become the command; exit 126 with a reason when that fails."""
    argv = [""]
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, 9)
        # Nobody listens any more: the order was taken back, or its owner is dead.
        os.write(answer, b"%d" % os.getpid())
        for number, fd in enumerate((source, sink, sink)):
            os.dup2(fd, number)
        for ignored in _IGNORED:
            _libc.signal(ignored, None)
        order, argv = _order(os.fsdecode(os.pread(words, os.fstat(words).st_size, 0)).split("\0"))
        for group in order["group"]:
            _put(group, b"%d" % os.getpid())
        private = order["private"]
        # A file that exists and cannot be opened stops git; it does without the system's.
        env = {**order["env"], "HOME": private, "TMPDIR": private, "GIT_CONFIG_NOSYSTEM": "1"}
        _limit(order)
        if order["around"] or order["keep"]:
            _mounts(order)
        os.chdir(order["cwd"] or folder)
        program = _which(argv[0], env.get("PATH", ""))
        _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _landlock(order, folder)
        _drop_powers()
        _seccomp(order["filter"])
        os.execve(program, argv, env)  # noqa: S606 - becoming the command is this program's whole purpose
    except FileNotFoundError:
        os.write(2, os.fsencode(f"{argv[0]}: command not found\n"))
        os._exit(127)
    except (OSError, ValueError, KeyError) as problem:
        os.write(2, os.fsencode(f"sandbox: {problem}\n"))


def _order(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Read the words up to `--`; what follows is the command."""
    at = words.index("--")
    lists = ("read", "write", "entry", "group", "around", "keep")
    order: dict[str, Any] = {"env": {}, "filter": b"", **{name: [] for name in lists}}
    for word in words[:at]:
        name, _, value = word.partition("=")
        if name in lists:
            order[name].append(value)
        elif name == "filter":
            order[name] = bytes.fromhex(value)
        elif name == "env":
            variable, _, value = value.partition("=")
            order["env"][variable] = value
        else:
            order[name] = value if name in {"cwd", "private"} else int(value)
    return order, words[at + 1 :]


def _put(file: str, data: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, data)
    os.close(fd)


def _which(name: str, path: str) -> str:
    """Return where a program lies, or its bare name when it is nowhere."""
    if "/" in name:
        return name
    for folder in path.split(":"):
        found = f"{folder}/{name}"
        if folder and os.access(found, os.X_OK) and not os.path.isdir(found):  # noqa: PTH112
            return found
    return name


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


def _mounts(order: dict[str, Any]) -> None:
    """Make what stays as it is read-only, on top of itself, in a view of the files that only the command has.

    Landlock knows no exceptions below a folder that can be written. What is shown on top of itself can be neither renamed nor
    removed, so the folders around it are, too.
    """
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEWNS if uid == 0 else _NEWNS | _NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "no view of the files of its own can be had")
    if uid != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            _put(f"/proc/self/{name}", text.encode())
    _mount(b"/", _MS_REC | _MS_PRIVATE)
    for path in order["around"] + order["keep"]:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(f"{path} became a link")
        here = b"/proc/self/fd/%d" % fd
        _mount(here, _MS_BIND, here)
        os.close(fd)
        if path in order["keep"]:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            # What the disk forbids already stays forbidden: nosuid, nodev, noexec.
            _mount(b"/proc/self/fd/%d" % fd, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | os.fstatvfs(fd).f_flag & 0b1110)
            os.close(fd)


def _mount(target: bytes, flags: int, source: bytes | None = None) -> None:
    if _libc.mount(source, target, None, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), "a folder could not be made read-only")


def _landlock(order: dict[str, Any], folder: int) -> None:
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
    for name in _OWN_PROC:
        _allow(ruleset, f"/proc/self/{name}", _READ & rights)
    for path in order["write"]:
        _allow(ruleset, path, rights)
    _rule(ruleset, folder, rights, order["private"])
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
        _rule(ruleset, fd, rights, path)
    finally:
        os.close(fd)


def _rule(ruleset: int, fd: int, rights: int, path: str) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISLNK(mode):
        return
    if not stat.S_ISDIR(mode):
        rights &= _FILE_RIGHTS
    if _libc.syscall(445, ruleset, 1, struct.pack("<Qi", rights, fd), 0) != 0:
        raise OSError(ctypes.get_errno(), f"Landlock refused the rule for {path}")


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
