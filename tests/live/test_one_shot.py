"""`homarus agent` on a real terminal: the answer as Markdown, tools and questions beside it, silence in a pipe."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live


class Terminal:
    """A program on a pseudo-terminal: what it printed so far, and keys for it."""

    def __init__(self, home: Path, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TERM": "xterm-256color",
        }
        line = [sys.executable, "-m", "homarus", *words]
        self.process = subprocess.Popen(
            line, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def wait_for(self, text: str, seconds: float = 60) -> None:
        limit = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < limit, f"{text!r} did not come: {self.shown!r}"
            self._read(0.1)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        while self.process.poll() is None:
            self._read(0.1)
        self._read(0.1)
        os.close(self._ours)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        ready = select.poll()
        ready.register(self._ours, select.POLLIN)
        if ready.poll(seconds * 1000):
            try:
                self.shown += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                time.sleep(seconds)


def test_a_person_sees_what_is_done(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "agent", "Remember that the gate code is 4711.", "--model", "builtin/notebook")
    terminal.wait_for("Noted: ")
    assert terminal.end() == 0
    assert "memory_retain" in terminal.shown
