"""The program's door. `--version` and `--help` are answered here, before the parser is imported."""

from __future__ import annotations

import sys

# Starting up makes many objects and next to no garbage; the standard threshold looks for it dozens of times in vain.
GARBAGE_AFTER = 50_000


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from homarus import __version__

        sys.stdout.write(f"homarus {__version__}\n")
        return 0
    if sys.argv[1:] in (["--help"], ["-h"]):
        from homarus.cli.help import page

        sys.stdout.write(page())
        return 0
    import gc

    gc.set_threshold(GARBAGE_AFTER, 10, 10)
    try:
        from homarus.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # While modules were still being imported: nothing has begun.
        sys.stderr.write("homarus: stopped\n")
        code = 130
    _leave(code)
    return code


def _leave(code: int) -> None:
    """End the process at once where nothing is left to do: taking every module apart first costs milliseconds."""
    import atexit
    import os
    import threading

    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to let them all run before the end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
