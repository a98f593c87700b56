"""The two Linux (and macOS) system calls that Python does not offer, each with a plain answer where they are missing."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache
from typing import Any

_SYS_OPENAT2 = ctypes.c_long(437)  # the same number on every Linux architecture that has it
_HOW = struct.Struct("=QQQ")
_RENAME_NOREPLACE = 1  # Linux
_RENAME_EXCL = 4  # macOS
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: Any, *arguments: Any) -> int:
    """Call into libc, again after a signal; raise `OSError` like Python's own functions do."""
    while (result := function(*arguments)) < 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    return int(result)


def openat2(folder: int, name: str, flags: int, mode: int, resolve: int) -> int:
    """Open with rules on how the name may be resolved. Linux only; raises ENOSYS on an old kernel."""
    how = _HOW.pack(flags, mode if flags & os.O_CREAT else 0, resolve)
    return _call(_libc().syscall, _SYS_OPENAT2, folder, os.fsencode(name), how, ctypes.c_size_t(len(how)))


def rename_new(folder: int, old: str, new: str) -> bool:
    """Rename inside a folder in one step, never replacing anything; False when the new name is taken."""
    libc = _libc()
    if hasattr(libc, "renameat2"):
        function, flag = libc.renameat2, _RENAME_NOREPLACE
    elif hasattr(libc, "renameatx_np"):
        function, flag = libc.renameatx_np, _RENAME_EXCL
    else:
        return _rename_claimed(folder, old, new)
    try:
        _call(function, folder, os.fsencode(old), folder, os.fsencode(new), ctypes.c_uint(flag))
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
            raise
        return _rename_claimed(folder, old, new)
    return True


def _rename_claimed(folder: int, old: str, new: str) -> bool:
    """The same in two steps, for systems and disks without that call: an empty file reserves the name."""
    os.stat(old, dir_fd=folder, follow_symlinks=False)
    try:
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
    except FileExistsError:
        return False
    try:
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    except NotADirectoryError:  # a folder does not replace a file, but it does replace an empty folder
        os.unlink(new, dir_fd=folder)
        os.mkdir(new, 0o700, dir_fd=folder)
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(new, dir_fd=folder)
        raise
    return True
