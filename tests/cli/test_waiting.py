"""Nobody at a terminal is left without a word, and a pipe is left alone."""

import io
import threading

from homarus.cli.output import Waiting


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal, self.spoke = terminal, threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.spoke.set()
        return super().write(text)


def test_long_work_is_named_on_a_terminal_and_the_line_is_taken_back() -> None:
    screen = Screen(terminal=True)
    with Waiting(screen, "adding up", after=0.0):
        assert screen.spoke.wait(30)
    assert screen.getvalue() == "\r\x1b[Kadding up ...\r\x1b[K"


def test_quick_work_and_a_pipe_show_nothing() -> None:
    for screen, after in ((Screen(terminal=True), 3600.0), (Screen(terminal=False), 0.0)):
        with Waiting(screen, "adding up", after=after):
            pass
        assert screen.getvalue() == ""
