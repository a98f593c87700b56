"""The program's door. `--version` and `--help` are answered here, before the parser is imported."""

from __future__ import annotations

import sys


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
    from homarus.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
