"""How commands print: tables, JSON and colours, with colours only on a terminal that wants them.

Nothing reaches a terminal by another way, because what commands print was often written by others: a transcript, a note, a
model. Of all control characters only line breaks, tabs and our own colours pass; in JSON they are escaped.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, Self, TextIO

from homarus.core.patterns import late
from homarus.core.text import escaped_json, printable, single_line

_PIECE = late(r"\s+|\S+")
_STYLE = late(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_OURS = late(rf"(\x1b\[(?:0|(?:{'|'.join(_CODES.values())})(?:;(?:{'|'.join(_CODES.values())}))*)m)")


_FLAT = str.maketrans("\n\t", "  ")


class Output:
    """Standard output and standard error of one command."""

    def __init__(
        self,
        *,
        color: bool,
        env: Mapping[str, str],
        options: str = "",
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self._options = options
        self._out = out
        self._err = err
        self._allowed = color and "NO_COLOR" not in env and env.get("TERM") != "dumb"
        self._forced = bool(env.get("FORCE_COLOR"))

    @property
    def out(self) -> TextIO:
        """Return standard output as it is now."""
        return self._out or sys.stdout

    @property
    def err(self) -> TextIO:
        """Return standard error as it is now."""
        return self._err or sys.stderr

    @property
    def color(self) -> bool:
        """Say whether standard output takes colours."""
        return self._allowed and (self._forced or self.out.isatty())

    def _encoded(self, value: Any, indent: int | None = None) -> str:
        ascii_only = not self._whole
        try:
            text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, default=str, allow_nan=False)
        except ValueError:
            # JSON5 has infinities; JSON has not, and programs that read this would stop at them.
            text = json.dumps(_finite(value), ensure_ascii=ascii_only, indent=indent, default=str)
        return escaped_json(text)

    def _put(self, text: str, end: str = "\n") -> None:
        speak()
        try:
            print(text, file=self.out, end=end)
        except BrokenPipeError:
            raise
        except OSError as problem:
            from homarus.core.errors import StorageError

            raise StorageError(f"cannot write to standard output: {problem.strerror}") from problem

    @property
    def _whole(self) -> bool:
        """Say whether every character can be printed; where not, JSON has its own way to write them."""
        return (getattr(self.out, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"

    def style(self, text: str, *names: str) -> str:
        """Return the text in these styles, or unchanged where colours are off."""
        if not names or not self.color:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def line(self, text: str = "") -> None:
        """Print one line. Control characters of whoever wrote it are left out."""
        self._put(self._harmless(text))

    def hint(self, text: str) -> None:
        """Print one line of our own that tells people what to type."""
        self.line(self.addressed(text))

    def addressed(self, text: str) -> str:
        """Return words of ours with every command line in them leading to the home that this one means.

        Whoever raises an error or finds a fault knows nothing of `--profile` and `--config`, so they are put in here.
        """
        if not self._options or "homarus " not in text:
            return text
        import re

        from homarus.cli.table import COMMANDS

        told = rf"(?<![\w/.-])homarus (?=(?:{'|'.join(COMMANDS)})\b)"
        return re.sub(told, lambda _found: f"homarus{self._options} ", text)

    def pieces(self, parts: Iterable[str], *, as_json: bool = False) -> None:
        """Print a long text as its pieces come."""
        for part in parts:
            self._put(escaped_json(part) if as_json else self._harmless(part), end="")

    def _harmless(self, text: str) -> str:
        if "\x1b" not in text or not self.color:
            return printable(text)
        return "".join(part if _OURS.fullmatch(part) else printable(part) for part in _OURS.split(text))

    def warn(self, text: str) -> None:
        """Print one line of warning to standard error."""
        speak()
        print(f"warning: {printable(self.addressed(text))}", file=self.err)

    def waiting(self, what: str) -> Waiting:
        """Return a context in which a person is not left without a word, and in which the word is this one."""
        return Waiting(self.err, what)

    def problem(self, text: str) -> None:
        """Say on standard error what went wrong."""
        speak()
        print(problem_line(self.addressed(text)), file=self.err)

    def json(self, value: Any) -> None:
        """Print a value as JSON that both programs and people can read."""
        self._put(self._encoded(value, indent=2))

    def answer(self, data: Any, text: str, *, as_json: bool) -> None:
        """Say how something went: to a program as data, to a person in a line."""
        if as_json:
            self.json(data)
        else:
            self.hint(text)

    def json_lines(self, values: Iterable[Any]) -> None:
        """Print values as JSON, one a line, for what has no end."""
        for value in values:
            self._put(self._encoded(value))

    def section(self, title: str, style: str, lines: Iterable[str]) -> None:
        """Print lines under a heading; nothing where there are none."""
        for number, text in enumerate(lines):
            if not number:
                self.line(f"\n{self.style(title, style)}")
            self.line(f"  {text}")

    def facts(self, pairs: Iterable[tuple[str, str]], size: int) -> None:
        """Print what is known of a thing, a label each; what is empty is left out."""
        for label, value in pairs:
            if value:
                self.line(f"{label:>{size}}  {clean(value)}")

    def table(self, rows: Iterable[Sequence[object]], headers: Sequence[str]) -> None:
        """Print aligned columns; numbers stand right, everything else left. On a terminal the widest cells are wrapped to fit."""
        # A cell is measured as it is shown, and stays on its line.
        cells = [[self._harmless(_cell(value)).translate(_FLAT) for value in row] for row in rows]
        numeric = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(headers))]
        widths = [max([width(head), *(width(row[i]) for row in cells)]) for i, head in enumerate(headers)]
        if self.out.isatty():
            import shutil  # a pipe is not kept waiting for it

            _fit(widths, numeric, shutil.get_terminal_size().columns)
            cells = [line for row in cells for line in _lines(row, widths)]
        self.line(self.style(_row(headers, widths, numeric), "bold"))
        for row in cells:
            self.line(_row(row, widths, numeric))


def clean(text: str, limit: int = 500) -> str:
    """Return text that cannot move a terminal's cursor: names of files may hold anything."""
    return single_line(text, limit)


def age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name} ago"
    return "now"


def problem_line(text: str) -> str:
    """Return what went wrong as one line for a person. Servers repeat keys in what they say, so it is redacted."""
    from homarus.core.redact import redacted

    return f"homarus: {single_line(redacted(text), 2000)}"


def width(text: str) -> int:
    """Return how many terminal cells a text takes; colour codes take none and wide characters take two."""
    plain = _STYLE.sub("", text) if "\x1b" in text else text
    if plain.isascii():
        return len(plain)
    import unicodedata  # a table of plain words needs none of it

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in plain
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit() or text == "-"


def _fit(widths: list[int], numeric: Sequence[bool], columns: int) -> None:
    """Make the widest columns of words narrower until a row fits, none below what can be recognised."""
    while sum(widths) + 2 * (len(widths) - 1) > columns:
        size, at = max(((size, at) for at, size in enumerate(widths) if not numeric[at]), default=(0, 0))
        if size <= NARROWEST:
            return
        widths[at] -= 1


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return a row as the lines that it takes where the widest cells are wrapped."""
    cells = [
        [text] if width(text) <= size else wrapped(_STYLE.sub("", text), size)
        for text, size in zip(row, widths, strict=True)
    ]
    return [list(line) for line in zip_longest(*cells, fillvalue="")]


def wrapped(line: str, columns: int) -> list[str]:
    """Cut a line to the columns of a terminal, between words where there are any."""
    columns = max(10, columns)
    rows, row, used = [], "", 0
    for piece in _PIECE.findall(line):
        size = width(piece)
        if used + size > columns and (row.strip() or size <= columns):
            rows += [row.rstrip()] if row.strip() else []  # of a mere indent nothing is left
            row, used = "", 0
            if piece.isspace():
                continue
        for char in piece if used + size > columns else (piece,):
            taken = width(char)
            if used + taken > columns:
                rows.append(row)
                row, used = "", 0
            row, used = row + char, used + taken
    return [*rows, row] if row or not rows else rows


def _row(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = []
    for text, size, right in zip(cells, widths, numeric, strict=True):
        pad = " " * (size - width(text))
        parts.append(pad + text if right else text + pad)
    return "  ".join(parts).rstrip()


NARROWEST = 16  # a column of a table
WIDTH = 30
PAUSE = 0.1  # seconds before the first drawing and between two, so that quick work shows no bar at all


QUIET_SECONDS, LONG_SECONDS = 1.0, 3


_waiting: list[Waiting] = []  # the outermost first: the command as a whole


class Waiting:
    """Says on a terminal what a command is doing, and for how long, whenever it has been silent for a second; and takes it back."""

    def __init__(self, stream: TextIO, what: str, after: float = QUIET_SECONDS) -> None:
        self._stream, self._what, self._after = stream, what, after
        self._lock, self._stirred, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._shown, self._since, self._hushed = "", time.monotonic(), 0
        self._thread = threading.Thread(target=self._watch, daemon=True) if stream.isatty() else None

    def _watch(self) -> None:
        while not self._over.is_set():
            if self._stirred.wait(self._after):
                self._stirred.clear()
                continue
            with self._lock:
                # Only the innermost speaks: it knows best what is being done.
                if self._over.is_set() or self._hushed or self._stirred.is_set() or _waiting[-1:] != [self]:
                    continue
                seconds = int(time.monotonic() - self._since)
                self._show(self._what, " ..." + (f" {seconds} s" if seconds >= LONG_SECONDS else ""))

    def _show(self, what: str, end: str = "") -> None:
        import shutil  # only what takes long needs it

        if (what + end) == self._shown:
            return
        self._shown, room = what + end, shutil.get_terminal_size().columns - 1
        while width(what) + len(end) > room and what:
            what = what[:-1]  # a line that wraps could not be taken back
        self._stream.write(f"\r\x1b[K{what}{end}")
        self._stream.flush()

    def become(self, what: str, *, drawn: bool) -> None:
        """Name what is done now, at once or only if it takes long."""
        with self._lock:
            self._what, self._since = what, time.monotonic()
            if drawn and self._thread and not self._hushed and _waiting[-1:] == [self]:
                self._show(what)
            self._stirred.set()

    def stir(self, *, over: bool = False, hush: int = 0) -> None:
        """Take the line back before something else is printed; silence is counted from here on again."""
        with self._lock:
            self._hushed += hush
            if over:
                self._over.set()
            if self._shown:
                self._shown = ""
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            self._stirred.set()

    def __enter__(self) -> Self:
        speak()
        _waiting.append(self)
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stir(over=True)
        _waiting.remove(self)
        if self._thread:
            self._thread.join()
        speak()  # for whoever waits around this the silence begins here


class Bar:
    """Draws `label [#####-----] 12/40 what` on one line, counts the seconds where it stands still, and removes it in the end."""

    def __init__(self, stream: TextIO, label: str, after: float = QUIET_SECONDS) -> None:
        self._label, self._last = label, time.monotonic()
        self._line = Waiting(stream, label, after)

    def update(self, done: int, total: int, what: str = "") -> None:
        """Show how far the work is."""
        now = time.monotonic()
        filled = WIDTH * done // max(1, total)
        bar = "#" * filled + "-" * (WIDTH - filled)
        drawn = now - self._last >= PAUSE
        self._line.become(f"{self._label} [{bar}] {done:,}/{total:,} {single_line(what, 60)}", drawn=drawn)
        if drawn:
            self._last = now

    def __enter__(self) -> Self:
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()


def speak() -> None:
    """Make room for what is printed next."""
    for waiting in _waiting:
        waiting.stir()


@contextmanager
def hushed() -> Iterator[None]:
    """While a question stands on the screen nothing is written over it; afterwards silence counts again."""
    held = list(_waiting)
    for waiting in held:
        waiting.stir(hush=1)
    try:
        yield
    finally:
        for waiting in held:
            waiting.stir(hush=-1)
