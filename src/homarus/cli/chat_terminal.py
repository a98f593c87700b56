"""The terminal under a chat: keys stay keys while something is printed, what is wiped off leaves nothing behind, and Ctrl-Z suspends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input, cooked_mode
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer


class Keyboard(Vt100Input):
    """A terminal whose keys stay keys while something is printed: they wait, are not echoed, and Enter is Enter."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def typed_before(self, text: str) -> None:
        """Take what was typed before there was a line, key by key, as if it was typed on the first one."""
        keys: list[KeyPress] = []
        Vt100Parser(keys.append).feed_and_flush(text)
        store_typeahead(self, keys)


class Paper(Vt100_Output):
    """A terminal that forgets what is wiped off it.

    Terminals take a command that clears the whole screen, at once or from its first cell down, for the end of a page, and
    keep a copy of it in the scrollback.
    """

    def erase_down(self) -> None:
        # This row, and then all below it: from the second row on it is not the whole screen.
        self.write_raw("\x1b[K\x1b7\x1b[B\x1b[J\x1b8")


class Wiper(Renderer):
    """Takes the line and what is live above it off the screen, also where a terminal that became narrower has broken their rows."""

    def erase(self, leave_alternate_screen: bool = True) -> None:
        columns = self.output.get_size().columns
        if self._last_screen and self._last_size and columns < self._last_size.columns:
            rows, cursor = self._last_screen.data_buffer, self._cursor_pos
            used = [max((at for at, cell in rows[y].items() if cell.char.strip()), default=0) for y in range(cursor.y)]
            self.output.cursor_up(sum(last // columns for last in [*used, cursor.x]))
        super().erase(leave_alternate_screen)


def wiping(app: Application[str]) -> None:
    """Let an application wipe itself off without a trace."""
    plain = app.renderer
    app.renderer = Wiper(plain.style, app.output, cpr_not_supported_callback=plain.cpr_not_supported_callback)


async def draw_anew(app: Application[str], newest: Callable[[int, int], list[str]]) -> None:
    """Draw the screen above the line anew; `newest` gives the last lines for so many rows and columns.

    No more rows are drawn than stand there already: they would push another copy of the first ones off the screen.
    """
    renderer, output = app.renderer, app.output
    await renderer.wait_for_cpr_responses()
    size = output.get_size()
    above = renderer.rows_above_layout if renderer.height_is_known else size.rows - 4
    lines = newest(above, size.columns)

    def draw() -> None:
        # What stood here before the chat began belongs into the scrollback.
        output.cursor_goto(size.rows, 1)
        output.write_raw("\n" * (above - len(lines)))
        output.cursor_goto(1, 1)
        output.erase_down()
        output.write_raw("".join(f"{line}\r\n" for line in lines))
        output.flush()

    await run_in_terminal(draw)


def suspend() -> None:
    """Stop, as Ctrl-Z stops any program, until the shell goes on with this job. Where no shell could, nothing happens."""
    with cooked_mode(sys.stdin.fileno()):
        os.kill(0, signal.SIGTSTP)
