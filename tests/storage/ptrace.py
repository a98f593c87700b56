"""Stop a child process at every system call, and there kill it or make the call fail. Linux, no compiler, no tools.

The process that uses this must have one thread: it forks without exec.
"""

import ctypes
import errno
import os
import platform
import signal
import sys
from collections.abc import Callable

TRACEME, CONT, SYSCALL, GETREGS, SETREGS = 0, 7, 24, 12, 13
SETOPTIONS, GET_SYSCALL_INFO = 0x4200, 0x420E
SYSGOOD, EXITKILL = 0x01, 0x100000
ENTRY, EXIT = 1, 2
CANNOT_TRACE = 90
X86_RAX, X86_ORIG_RAX, X86_REGISTERS = 10, 15, 27

# The calls of x86_64 that touch files; only these are made to fail (a failing mmap is Python's trouble, not ours).
FILE_CALLS = {
    0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 8: "lseek", 17: "pread64",
    18: "pwrite64", 73: "flock", 74: "fsync", 75: "fdatasync", 77: "ftruncate", 82: "rename", 83: "mkdir", 86: "link",
    87: "unlink", 89: "readlink", 90: "chmod", 91: "fchmod", 93: "fchown", 217: "getdents64", 257: "openat",
    258: "mkdirat", 262: "newfstatat", 263: "unlinkat", 264: "renameat", 265: "linkat", 267: "readlinkat",
    316: "renameat2", 332: "statx", 437: "openat2",
}  # fmt: skip


class CannotTrace(Exception):
    """This machine does not let us trace; the text says why."""


class SyscallInfo(ctypes.Structure):
    """The head of `struct ptrace_syscall_info`; the number of the call stands at the entry stop only."""

    _fields_ = [
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("rest", ctypes.c_uint64 * 2),
    ]


_libc = ctypes.CDLL(None, use_errno=True)


def _ptrace(request: int, pid: int, address: object = 0, data: object = 0) -> int:
    _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    _libc.ptrace.restype = ctypes.c_long
    result = _libc.ptrace(request, pid, address, data)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


class Traced:
    """One forked run of an action, stepped from system call to system call."""

    def __init__(self, action: Callable[[], int]) -> None:
        if sys.platform != "linux":
            raise CannotTrace("ptrace as used here is Linux")
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._be_traced(action)
        _, status = os.waitpid(self.pid, 0)
        if not os.WIFSTOPPED(status):
            raise CannotTrace("the kernel or the container forbids ptrace")
        _ptrace(SETOPTIONS, self.pid, 0, SYSGOOD | EXITKILL)

    @staticmethod
    def _be_traced(action: Callable[[], int]) -> None:
        code = CANNOT_TRACE
        try:
            _ptrace(TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            code = action()
        finally:
            os._exit(code)

    def step(self) -> SyscallInfo | None:
        """Run to the next entry or exit of a system call; None when the process has ended."""
        forward = 0
        while True:
            _ptrace(SYSCALL, self.pid, 0, forward)
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                self.status = status
                return None
            stopped = os.WSTOPSIG(status)
            if stopped == signal.SIGTRAP | 0x80:
                info = SyscallInfo()
                _ptrace(GET_SYSCALL_INFO, self.pid, ctypes.sizeof(info), ctypes.addressof(info))
                return info
            forward = stopped

    def kill(self) -> None:
        """kill -9, in the middle of whatever it does."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            while self.status is None:
                _, status = os.waitpid(self.pid, 0)
                if not os.WIFSTOPPED(status):
                    self.status = status

    def fail(self, code: int) -> None:
        """At the entry of a call: let it not happen and return this error instead."""
        if platform.machine() != "x86_64":
            raise CannotTrace("failing a call is written for x86_64")
        registers = (ctypes.c_uint64 * X86_REGISTERS)()
        _ptrace(GETREGS, self.pid, 0, ctypes.addressof(registers))
        registers[X86_ORIG_RAX] = 2**64 - 1
        _ptrace(SETREGS, self.pid, 0, ctypes.addressof(registers))
        self.step()
        _ptrace(GETREGS, self.pid, 0, ctypes.addressof(registers))
        registers[X86_RAX] = 2**64 - code
        _ptrace(SETREGS, self.pid, 0, ctypes.addressof(registers))

    def finish(self) -> int:
        """Let it run to its end and return its exit code."""
        while self.status is None:
            try:
                _ptrace(CONT, self.pid, 0, 0)
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                self.status = status
        return os.waitstatus_to_exitcode(self.status)
