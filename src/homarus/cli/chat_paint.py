"""Blocks as a terminal shows them: Markdown by rich, the rest in one quiet style each."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from homarus.cli.chat_view import Block, Kind
from homarus.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown

_STYLES: dict[Kind, tuple[str, str]] = {
    "tool": ("⏺ ", "dim cyan"),
    "failed": ("⏺ ", "red"),
    "thinking": ("", "dim italic"),
    "note": ("", "dim"),
    "warning": ("", "yellow"),
    "error": ("", "bold red"),
    "user": ("› ", "bold"),
    "detail": ("  ", "dim"),
}


class Painter:
    """Turns blocks into text for one terminal. Without colours it is plain text of the same shape."""

    def __init__(self, *, color: bool) -> None:
        self.color = color

    def paint(self, block: Block, width: int) -> str:
        """Return a block ready to print, ending with a line break."""
        from rich.console import Console
        from rich.text import Text

        out = io.StringIO()
        console = Console(
            file=out,
            width=max(20, min(width, 120)),
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            highlight=False,
            emoji=False,
            markup=False,
        )
        text = printable(block.text)
        if block.kind == "markdown":
            console.print(_markdown()(text, code_theme="ansi_dark", hyperlinks=False))
            return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n\n"
        lead, style = _STYLES[block.kind]
        lines = [f"{lead if number == 0 else ' ' * len(lead)}{line}" for number, line in enumerate(text.split("\n"))]
        console.print(Text("\n".join(lines), style=style if self.color else "", overflow="fold"))
        return out.getvalue()


@cache
def _markdown() -> type[Markdown]:
    """Return rich's Markdown with headings at the left, where a chat's text stands."""
    from rich.markdown import Heading, Markdown
    from rich.text import Text

    class LeftHeading(Heading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            del console, options
            text: Text = self.text
            text.stylize("bold underline" if self.tag == "h1" else "bold")
            yield text

    class ChatMarkdown(Markdown):
        elements: ClassVar = {**Markdown.elements, "heading_open": LeftHeading}

    return ChatMarkdown
