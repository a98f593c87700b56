"""The program's door. `--version` and `--help` are answered here, before the parser is imported."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    # A short run is mostly imports, and what they make stays: looking through it for garbage costs a fifth of the CPU.
    gc.set_threshold(200_000, 2, 2)
    if sys.argv[1:] in (["--version"], ["-V"]):
        from homarus import __version__

        return _print(f"homarus {__version__}\n")
    if sys.argv[1:] in (["--help"], ["-h"]):
        from homarus.cli.table import page

        return _print(page())
    try:
        from homarus.cli.main import run

        code = run(sys.argv[1:])
        gc.freeze()  # the system takes everything back at once
        return code
    except KeyboardInterrupt:
        # While modules were still being imported: nothing has begun.
        print("homarus: stopped", file=sys.stderr)
        return 130


def _print(text: str) -> int:
    try:
        print(text, end="", flush=True)
    except OSError:
        from homarus.cli.failures import settle

        return settle(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
