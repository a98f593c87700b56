"""Standard input, output and error as the world hands them over: closed, full, in another encoding, or read by `head`."""

from __future__ import annotations

import errno
import io
import os
import sys

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def prepare() -> None:
    """Let no character stop a command after its work, and no closed stream lend its number to a file of ours."""
    for name, number, mode in (("stdin", 0, os.O_RDONLY), ("stdout", 1, os.O_WRONLY), ("stderr", 2, os.O_WRONLY)):
        stream = getattr(sys, name)
        if stream is None:
            _to_nowhere(number, mode)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
        elif isinstance(stream, io.TextIOWrapper):
            utf8 = stream.encoding.lower().replace("-", "") == "utf8"
            # In UTF-8 only halves of surrogate pairs fail, such as bytes of file names; JSON takes them escaped like this.
            stream.reconfigure(errors="backslashreplace" if utf8 and number else "replace")


def settle(code: int) -> int:
    """Hand over what was printed and return the exit code. Nothing is left that could fail when the process ends.

    A reader that went away (head, less) is within its rights; a disk that took only a part of the output is a failure.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere(1, os.O_WRONLY)
    except OSError as problem:
        _to_nowhere(1, os.O_WRONLY)
        if code == 0:  # a failure has been said already
            sys.stderr.write(f"homarus: cannot write to standard output: {problem.strerror}\n")
        return code or 1
    return code


def _to_nowhere(number: int, mode: int) -> None:
    nowhere = os.open(os.devnull, mode)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
