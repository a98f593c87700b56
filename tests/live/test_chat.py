"""The chat in a real terminal: tmux presses the keys and shows what is on the screen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Tmux:
    """One terminal of a given size with one program in it."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._name = f"homarus-{uuid.uuid4().hex[:8]}"
        self._env = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "TMUX_TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}  # fmt: skip
        self._run("new-session", "-d", "-x", "80", "-y", "24", "-c", str(folder), *command)

    def _run(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-L", self._name, *args], env=self._env, capture_output=True, text=True, check=False
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-p", "-S", "-200")

    def wait_for(self, text: str, seconds: float = 20.0) -> str:
        end = time.monotonic() + seconds
        while text not in (shown := self.screen):
            assert time.monotonic() < end, f"no {text!r} on the screen:\n{shown}"
            time.sleep(0.05)
        return shown

    def close(self) -> None:
        self._run("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path, "sh", "-c", f"{sys.executable} -m homarus chat; echo left with $?; sleep 30")
    yield tmux
    tmux.close()


def test_a_conversation_on_a_real_terminal(terminal: Tmux) -> None:
    terminal.wait_for("a new session")
    terminal.press("Remember that Bo likes green tea.", "Enter")
    terminal.wait_for("Noted: ")
    terminal.press("/comm", "Tab")
    terminal.wait_for("/commands")
    terminal.press("C-c")
    terminal.press("What does Bo like?", "Enter")
    terminal.wait_for("Your notes say")
    terminal.resize(50, 20)
    terminal.press("/whoami", "Enter")
    terminal.wait_for("are the owner")
    terminal.press("C-o")
    terminal.wait_for('"query"')
    terminal.press("Up")
    terminal.wait_for("› /whoami")
    terminal.press("C-c")
    terminal.press("C-d")
    terminal.wait_for("left with 0")
