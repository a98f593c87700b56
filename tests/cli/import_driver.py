"""Run command lines one after another, each in a fork of a process that has the parser and nothing else, and say what each
imported. Arguments: a JSON file of `[[argument, ...], text for standard input]`; prints one JSON list of results."""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from homarus.cli.main import run


def third_party() -> list[str]:
    """Return the top-level modules that are loaded from installed packages."""
    files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    return sorted({name.partition(".")[0] for name, file in files.items() if "site-packages" in Path(file).parts})


def in_a_fork(arguments: list[str], text: str) -> dict[str, object]:
    """Run one command line and return its exit code, what it printed, and what it imported."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as told:
        given.write(text.encode())
        given.seek(0)
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            os.dup2(given.fileno(), 0)
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            code = run(arguments)
            sys.stdout.flush()
            told.write(json.dumps({"code": code, "modules": third_party()}).encode())
            told.flush()
            os._exit(0)
        os.waitpid(child, 0)
        printed.seek(0)
        told.seek(0)
        return json.loads(told.read() or b'{"code": -1, "modules": []}') | {"out": printed.read().decode()}


if __name__ == "__main__":
    rows = json.loads(Path(sys.argv[1]).read_text())
    sys.stdout.write(json.dumps([in_a_fork(arguments, text) for arguments, text in rows]))
