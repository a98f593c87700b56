"""The program's door. `--version` and `--help` are answered here, before the parser is imported."""

from __future__ import annotations

import sys

# Starting up makes many objects and next to no garbage: a command that answers once never needs to look for any.
# Whatever stays sets a threshold of its own.
GARBAGE_AFTER = 300_000

# What the libraries of a turn import and no plain turn uses, a tenth of what a turn costs in all.
POSTPONED = (
    *("base64", "inspect", "ipaddress", "json", "linecache", "locale", "textwrap", "tokenize"),
    *("asyncio.sslproto", "asyncio.staggered", "importlib.util"),
    *("msgspec.inspect", "msgspec.toml", "msgspec.yaml"),
)


def main() -> int:
    """Run the command line and return its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from homarus import __version__

        return _print(f"homarus {__version__}\n")
    if sys.argv[1:] in (["--help"], ["-h"]):
        from homarus.cli.help import page

        return _print(page())
    import gc

    gc.set_threshold(GARBAGE_AFTER, 10, 10)
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        # While modules were still being imported: nothing has begun.
        print("homarus: stopped", file=sys.stderr)
        code = 130
    _leave(code)
    return code


def _run(args: list[str]) -> int:
    if args[:1] == ["agent"]:
        from homarus.core.later import postpone

        postpone(*POSTPONED)
        from homarus.cli import direct

        code = direct.run(args)
        if code is not None:
            return code
    from homarus.cli.main import run

    return run(args)


def _print(text: str) -> int:
    try:
        print(text, end="", flush=True)
    except OSError:
        from homarus.cli.streams import settle

        return settle(0)
    return 0


def _leave(code: int) -> None:
    """End the process at once where nothing is left to do: taking every module apart first costs milliseconds."""
    import atexit
    import os
    import threading

    from homarus.cli.streams import settle

    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to let them all run before the end
    os._exit(settle(code))


if __name__ == "__main__":
    sys.exit(main())
