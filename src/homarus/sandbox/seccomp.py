"""Which calls of the kernel a command may make, as a filter for seccomp. A pure function from a spec to its bytes.

Both sandboxes of Linux use it: bubblewrap as a second wall behind its namespaces, Landlock for everything that Landlock does
not know: sockets, other processes, shared memory, modes and owners of files.
"""

from __future__ import annotations

import os
import struct
from functools import cache


def _table(text: str) -> dict[str, tuple[int, int]]:
    """Read calls with their numbers on x86_64 and on aarch64; -1 where there is no such call."""
    words = text.replace(",", "").split()
    return {name: (int(one), int(other)) for name, one, other in zip(words[::3], words[1::3], words[2::3], strict=True)}


_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# What no command has any business calling.
_DENIED = _table(
    "pivot_root 155 41, chroot 161 51, mount 165 40, umount2 166 39, open_tree 428 428, open_tree_attr 467 467, "
    "move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, "
    "unshare 272 97, setns 308 268, name_to_handle_at 303 264, open_by_handle_at 304 265, init_module 175 105, "
    "finit_module 313 273, delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294, reboot 169 142, "
    "swapon 167 224, swapoff 168 225, acct 163 89, quotactl 179 60, quotactl_fd 443 443, settimeofday 164 170, "
    "clock_settime 227 112, clock_adjtime 305 266, adjtimex 159 171, sethostname 170 161, setdomainname 171 162, "
    "syslog 103 116, iopl 172 -1, ioperm 173 -1, modify_ldt 154 -1, vhangup 153 58, fanotify_init 300 262, "
    "lookup_dcookie 212 18, "
    # Keys are not bound to any namespace: those of our own session would lie open.
    "add_key 248 217, request_key 249 218, keyctl 250 219, bpf 321 280, perf_event_open 298 241, "
    "migrate_pages 256 238, move_pages 279 239, userfaultfd 323 282, "
    # io_uring makes calls that a filter like this one never sees.
    "io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427"
)
# What reaches neighbours where no namespace keeps them apart: other processes, shared memory, attributes of files.
_SHARED = _table(
    "ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, pidfd_getfd 438 438, "
    "process_madvise 440 440, shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, "
    "semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, "
    "mq_unlink 241 181, file_setattr 469 469, "
    # Landlock does not know it: a watch on a folder tells the names of everything that happens in it.
    "inotify_add_watch 254 27"
)
# Attributes of files, of which Landlock knows nothing: as on a disk that has none. Programs that copy files go on without.
_ATTRIBUTES = _table(
    "setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, "
    "setxattrat 463 463, getxattr 191 8, lgetxattr 192 9, listxattr 194 11, llistxattr 195 12, getxattrat 464 464, "
    "listxattrat 465 465, removexattrat 466 466"
)
# Modes, owners and times of files by their paths, which Landlock leaves to everybody who owns them. These calls succeed and
# change nothing: programs such as git and tar give up when they fail. The same goes for leaving the session, by which a
# command's processes are found.
_IDLE = _table(
    "chmod 90 -1, fchmodat 268 53, fchmodat2 452 452, chown 92 -1, lchown 94 -1, fchownat 260 54, utime 132 -1, "
    "utimes 235 -1, futimesat 261 -1, setsid 112 157"
)
# The same through a descriptor. One that was opened for reading is enough, and root owns every program of the system.
_IDLE_TOO = {"fchmod": (91, 52), "fchown": (93, 55)}
# Where a call names the mode of a file, by the number of the argument: a program that lends its owner's rights to whoever
# starts it would do so outside, too. The second list makes files only if its flags (one argument before) say so.
_MODES = {
    "chmod": (1, 90, -1),
    "fchmod": (1, 91, 52),
    "fchmodat": (2, 268, 53),
    "fchmodat2": (2, 452, 452),
    "creat": (1, 85, -1),
    "mkdir": (1, 83, -1),
    "mkdirat": (2, 258, 34),
    "mknod": (1, 133, -1),
    "mknodat": (2, 259, 33),
}
_OPENS = {"open": (2, 2, -1), "openat": (3, 257, 56)}
_CREATES, _LENT = 0x400040, 0o6000  # O_CREAT or O_TMPFILE; set-user-id or set-group-id
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
_SOCKET, _CLONE, _CLONE3, _OPENAT2, _IOCTL = (41, 198), (56, 220), (435, 435), (437, 437), (16, 29)
_SOCKETPAIR = (53, 199)
_DATAGRAM = 2
_TRUNCATE, _UTIMENSAT = (76, 45), (280, 88)
# IPv4, IPv6, and what names are looked up with. Sockets of this machine's services are none of it, nor are those that no
# namespace of the network holds: a socket with a name in the workspace, or the one to the host of a virtual machine (vsock).
_FAMILIES = (2, 10, 16)
# Typing into a terminal; and flags of a file that its owner may change through a descriptor for reading.
_TYPING, _FLAGS = (0x5412, 0x541C), (0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40806685, 0x800C6613)
# All processes of one's user at once, as setpriority and ioprio_set call them.
_EVERYBODY = {"setpriority": (2, 141, 140), "ioprio_set": (3, 251, 30)}
# Every flag of clone that asks for a namespace, and the one that makes a child of ours: nobody would wait for its end.
_NAMESPACES, _OUR_CHILD = 0x7E020000, 0x8000
_KILL, _ALLOW, _EPERM, _ENOSYS, _NOTSUP, _DONE = 0x80000000, 0x7FFF0000, 0x00050001, 0x00050026, 0x0005005F, 0x00050000
Step = tuple[int, int, int, int]


@cache
def filter_code(*, network: bool, isolated: bool, truncates: bool = True, owns: bool = False) -> bytes:
    """Return the program. `isolated`: namespaces keep processes, memory and files of others away already.

    What is denied fails with EPERM; a call of a foreign instruction set ends the command. `truncates` says whether a
    file may be cut by its path, which older Landlocks do not see; `owns`, whether the command's user owns what it may
    only read.
    """
    column, architecture = _MACHINES[os.uname().machine]
    table = _DENIED if isolated else {**_DENIED, **_SHARED}
    denied = {numbers[column] for numbers in table.values() if numbers[column] >= 0}
    if not network and not isolated:
        denied.add(_SOCKET[column])
    if not truncates:
        denied.add(_TRUNCATE[column])
    steps: list[Step] = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 1, 0, architecture),
        (0x06, 0, 0, _KILL),
        (0x20, 0, 0, 0),  # load the call's number
        (0x35, 0, 1, 0x40000000),  # the x32 numbers of x86_64 are aliases: deny them all
        (0x06, 0, 0, _EPERM),
        *_when(
            _CLONE3[column], (0x06, 0, 0, _ENOSYS)
        ),  # its flags cannot be seen from here; programs fall back to clone
        *_when(
            _CLONE[column],
            (0x20, 0, 0, 16),
            (0x45, 0, 1, _NAMESPACES | _OUR_CHILD),
            (0x06, 0, 0, _EPERM),
            (0x20, 0, 0, 0),
        ),
    ]
    # Its mode cannot be seen from here either; programs fall back to openat.
    steps += _when(_OPENAT2[column], (0x06, 0, 0, _ENOSYS))
    if network or isolated:
        steps += _when(_SOCKET[column], (0x20, 0, 0, 16), *_one_of(_FAMILIES), (0x20, 0, 0, 0))
    # Either end of a pair of datagram sockets sends to any socket with a name, of a service or in the workspace.
    steps += _when(
        _SOCKETPAIR[column],
        *((0x20, 0, 0, 24), (0x54, 0, 0, 15), (0x15, 0, 1, _DATAGRAM), (0x06, 0, 0, _EPERM), (0x20, 0, 0, 0)),
    )
    if not isolated:
        steps += _beside_landlock(column, owns=owns)
    for argument, *numbers in _MODES.values():
        steps += _when(numbers[column], *_denied_where(argument, (0x45, 0, 1, _LENT)))
    for argument, *numbers in _OPENS.values():
        makes = (0x20, 0, 0, 8 + 8 * argument), (0x45, 0, 3, _CREATES)
        steps += _when(numbers[column], *makes, *_denied_where(argument, (0x45, 0, 1, _LENT)))
    tests = ((0x15, 0, 1, request) for request in (_TYPING if isolated else _TYPING + _FLAGS))
    steps += _when(_IOCTL[column], *_denied_where(1, *tests))
    for number in sorted(denied):
        steps += _when(number, (0x06, 0, 0, _EPERM))
    steps.append((0x06, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _beside_landlock(column: int, *, owns: bool) -> list[Step]:
    """Return the steps for what Landlock leaves open: files' modes, owners, times and attributes, and other processes."""
    steps: list[Step] = []
    for idle in {**_IDLE, **_IDLE_TOO}.values() if owns else _IDLE.values():
        steps += _when(idle[column], (0x06, 0, 0, _DONE))
    # A time may be set through a descriptor (no path, argument zero) where Landlock has let the command open it for that.
    times = () if owns else ((0x20, 0, 0, 24), (0x15, 1, 0, 0))
    steps += _when(_UTIMENSAT[column], *times, (0x06, 0, 0, _DONE), (0x20, 0, 0, 0))
    for attribute in _ATTRIBUTES.values():
        steps += _when(attribute[column], (0x06, 0, 0, _NOTSUP))
    for everybody, *numbers in _EVERYBODY.values():
        steps += _when(numbers[column], *_denied_where(0, (0x15, 0, 1, everybody)))
    for argument, *numbers in _OWN_ONLY.values():
        steps += _when(numbers[column], *_denied_where(argument, (0x15, 1, 0, 0)))
    return steps


def _when(number: int, *steps: Step) -> list[Step]:
    """Return steps that run only for one call; the call's number is loaded before and must be loaded after them."""
    return [(0x15, 0, len(steps), number), *steps] if number >= 0 else []


def _denied_where(argument: int, *tests: Step) -> list[Step]:
    """Return steps that deny a call where an argument meets one of the tests; a test that is not met leaps over one step."""
    denying = [step for test in tests for step in (test, (0x06, 0, 0, _EPERM))]
    return [(0x20, 0, 0, 16 + 8 * argument), *denying, (0x20, 0, 0, 0)]


def _one_of(values: tuple[int, ...]) -> list[Step]:
    """Return steps that deny a call unless the loaded argument is one of these."""
    tests = [(0x15, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [*tests, (0x06, 0, 0, _EPERM)]
