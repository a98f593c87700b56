"""The terminal under a chat: keys stay keys while something is printed, and what is wiped off leaves nothing behind."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.application import Application
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer


class Keyboard(Vt100Input):
    """A terminal whose keys stay keys while something is printed: they wait, are not echoed, and Enter is Enter."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


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
