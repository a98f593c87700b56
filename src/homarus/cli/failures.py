"""The last door of every command: whatever goes wrong becomes one clear line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from homarus.cli import streams

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
    if isinstance(problem, OSError) and problem.errno in streams.NO_ROOM:
        # Whatever we write to files names them; so this is what the parser printed.
        say(f"cannot write to standard output: {problem.strerror}")
        return FAILED
    say(f"unexpected failure: {type(problem).__name__}: {problem} (run again with --debug for the traceback)")
    return FAILED


def say(line: str) -> None:
    """Print one line to standard error, whatever it holds."""
    from homarus.cli.output import problem_line

    print(problem_line(line), file=sys.stderr)
