"""The last door of every command: whatever goes wrong becomes one clear line and an exit code.

Standard input, output and error are taken as the world hands them over: closed, full, in another encoding, or read by `head`.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable

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


OK, FAILED, USAGE, CONFIGURATION, STOPPED = 0, 1, 2, 78, 130


def guarded(work: Callable[[], object], *, debug: bool = False) -> int:
    """Do a command's work and return its exit code; nothing escapes, and a traceback is shown only when debugging."""
    try:
        result = work()
    except (KeyboardInterrupt, EOFError):
        if sys.stderr.isatty():
            print(file=sys.stderr)  # after the ^C that the terminal shows
        say("stopped")
        return STOPPED
    except BrokenPipeError:
        return OK
    except Exception as problem:  # noqa: BLE001 - the last door: every failure becomes one line
        if debug:
            import traceback

            traceback.print_exc()
        return _failure(problem)
    return result if isinstance(result, int) else OK


def _failure(problem: Exception) -> int:
    from homarus.core.errors import ConfigError, HomarusError, Unknown

    if isinstance(problem, HomarusError):
        say(str(problem))
        return CONFIGURATION if isinstance(problem, ConfigError) and not isinstance(problem, Unknown) else FAILED
    if isinstance(problem, OSError) and problem.filename is not None:
        from homarus.storage.faults import explain

        say(str(explain(problem, "use", os.fsdecode(problem.filename))))
        return FAILED
    if isinstance(problem, OSError) and problem.errno in NO_ROOM:
        # Whatever we write to files names them; so this is what the parser printed.
        say(f"cannot write to standard output: {problem.strerror}")
        return FAILED
    say(f"unexpected failure: {type(problem).__name__}: {problem} (run again with --debug for the traceback)")
    return FAILED


def say(line: str) -> None:
    """Print one line to standard error, whatever it holds."""
    from homarus.cli.output import problem_line, speak

    speak()
    print(problem_line(line), file=sys.stderr)
