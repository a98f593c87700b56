"""How a chat's blocks look on one terminal: Markdown, diffs, folded calls; in its own colours, or in none."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from homarus.cli.chat_view import Block, Kind
from homarus.core.patterns import late
from homarus.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown as RichMarkdown

_LEADS: dict[Kind, str] = {"tool": "⏺ ", "failed": "⏺ ", "user": "› ", "detail": "  ", "diff": "  "}
_DARK: dict[Kind, str] = {
    "tool": "dim cyan",
    "failed": "red",
    "thinking": "dim italic",
    "note": "dim",
    "warning": "yellow",
    "error": "bold red",
    "user": "bold",
    "detail": "dim",
}
# Yellow and cyan cannot be read on white.
_LIGHT: dict[Kind, str] = {**_DARK, "tool": "blue", "warning": "magenta"}
_BACKGROUND = late(r"\x1b\]11;rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)(?:\x07|\x1b\\)")
_ANSWERS = late(r"\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")
_ENTERS = late(r"(\x1b\[200~.*?\x1b\[201~)|\n", re.DOTALL)
ASK_SECONDS = 0.3


class Painter:
    """Turns blocks into text for one terminal. Without colours it is plain text of the same shape."""

    def __init__(self, *, color: bool, light: bool = False) -> None:
        self.color = color
        self.light = light

    def paint(self, block: Block, width: int) -> str:
        """Return a block ready to print, ending with a line break."""
        from rich.console import Console
        from rich.text import Text
        from rich.theme import Theme

        out = io.StringIO()
        accent = "blue" if self.light else "cyan"
        code = f"bold {accent}"
        plain = dict.fromkeys(("markdown.table.border", "markdown.table.header", "markdown.item.number"), accent)
        console = Console(
            file=out,
            width=max(20, min(width, 120)),
            force_terminal=self.color,
            color_system="standard" if self.color else None,
            theme=Theme({"markdown.code": code, "markdown.code_block": code, **plain}),
            highlight=False,
            emoji=False,
            markup=False,
        )
        text = printable(block.text)
        if block.kind == "markdown":
            theme = "ansi_light" if self.light else "ansi_dark"
            console.print(_markdown()(text, code_theme=theme, hyperlinks=False))
            return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n\n"
        lead = _LEADS.get(block.kind, "")
        style = (_LIGHT if self.light else _DARK).get(block.kind, "")
        for number, line in enumerate(text.split("\n")):
            shown = f"{lead if number == 0 else ' ' * len(lead)}{line}"
            how = _of_diff(line, accent) if block.kind == "diff" else style
            console.print(Text(shown, style=how if self.color else "", overflow="fold"))
        return out.getvalue()


def _of_diff(line: str, accent: str) -> str:
    return {"+": "green", "-": "red", "@": accent}.get(line[:1], "dim")


def is_light(env: Mapping[str, str], answer: str = "") -> bool:
    """Say whether a terminal is light, from what it answers about its background, or from `COLORFGBG`."""
    if found := _BACKGROUND.search(answer):
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
        return bool(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
    background = env.get("COLORFGBG", "").rpartition(";")[2]
    return background in {"7", "15"}


@contextmanager
def keys_as_typed(fd: int) -> Iterator[str]:
    """Keep what is typed before the line is there, or between two lines, for the line: not echoed, and Enter as Enter.

    What was typed earlier is given as it was typed.
    """
    import termios

    try:
        before = termios.tcgetattr(fd)
    except termios.error:  # it went away
        yield ""
        return
    quiet = [*before]
    quiet[0] &= ~termios.ICRNL
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(fd, termios.TCSANOW, quiet)
    try:
        yield entered(_waiting(fd).decode("utf-8", "replace"))
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


def entered(typed: str) -> str:
    """Return what was typed while the terminal made a line feed of Enter, with Enter as it is. What was pasted stays."""
    return _ENTERS.sub(lambda found: found[1] or "\r", typed)


def _waiting(fd: int) -> bytes:
    """Return what has been typed and not been read."""
    import select

    typed = b""
    try:
        while select.select([fd], [], [], 0)[0] and (more := os.read(fd, 1024)):
            typed += more
    except OSError:  # it went away
        pass
    return typed


def ask_background(fd: int, seconds: float = ASK_SECONDS) -> tuple[str, str]:
    """Ask the terminal for its background; return its answer, and what was typed meanwhile.

    Every terminal answers the second question, so the wait is short also where the first one means nothing.
    """
    import select
    import termios
    import time
    import tty

    heard = b""
    try:
        before = termios.tcgetattr(fd)
    except termios.error:  # it went away
        return "", ""
    try:
        tty.setraw(fd, termios.TCSANOW)
        os.write(fd, b"\x1b]11;?\x07\x1b[c")
        limit = time.monotonic() + seconds
        while not re.search(rb"\x1b\[\?[0-9;]*c", heard) and (left := limit - time.monotonic()) > 0:
            if select.select([fd], [], [], left)[0]:
                heard += os.read(fd, 1024)
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
    text = heard.decode("utf-8", "replace")
    return text, _ANSWERS.sub("", text)


@cache
def _markdown() -> type[RichMarkdown]:
    """Return rich's Markdown with headings at the left, where a chat's text stands, no more empty lines than were written, and no word less.

    Rich leaves out markup, the addresses of pictures, and what is too long for a cell; these are shown as text. Links whose
    address is defined in another place stay as they were written, too: that place may be in a block that comes later.
    """
    from markdown_it import MarkdownIt
    from rich.markdown import CodeBlock, Heading, Paragraph, TableElement
    from rich.markdown import Markdown as RichMarkdown
    from rich.text import Text

    class LeftHeading(Heading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            del console, options
            text: Text = self.text
            text.stylize("bold underline" if self.tag == "h1" else "bold")
            yield text

    class CloseCode(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for syntax in super().__rich_console__(console, options):
                syntax.padding = (0, 1)  # type: ignore[union-attr]
                yield syntax

    class CloseTable(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                table.show_edge = False  # type: ignore[union-attr]
                for column in table.columns:  # type: ignore[union-attr]
                    column.overflow = "fold"
                yield table

    class ChatMarkdown(RichMarkdown):
        elements: ClassVar = {
            **RichMarkdown.elements,
            "heading_open": LeftHeading,
            "fence": CloseCode,
            "code_block": CloseCode,
            "table_open": CloseTable,
            "html_block": Paragraph,
        }

        def __init__(self, markup: str, **look: Any) -> None:
            super().__init__("", **look)
            self.parsed = MarkdownIt().enable(["strikethrough", "table"]).disable("reference").parse(markup)
            for block in self.parsed:
                if block.type == "html_block":
                    block.content = block.content.rstrip("\n")
                for token in block.children or ():
                    if token.type == "html_inline":
                        token.type = "text"
                    elif token.type == "image":
                        words = f"🌆 {token.content}".rstrip()
                        token.type, token.tag, token.children = "text", "", None
                        token.content = f"{words} ({token.attrs['src']})"

    return ChatMarkdown
