"""`homarus sessions show|tail|export`: a conversation on the screen, as it grows, or as a file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.options import F, filled, pass_app, with_json
from homarus.core.clock import SystemIds
from homarus.core.errors import StorageError
from homarus.core.text import printable, single_line
from homarus.sessions.export import FORMATS, Block, Format, blocks, moment, render
from homarus.sessions.home import SessionHome
from homarus.sessions.log import load_branch, load_tail, read_entries, to_entries
from homarus.sessions.places import Place, visit
from homarus.storage.atomic import create_new, write_atomic
from homarus.storage.faults import Missing
from homarus.storage.jsonl import read_lines

if TYPE_CHECKING:
    from datetime import tzinfo

    from homarus.sessions.entry import Entry

_HEADS = {
    "user": ("you", "blue"),
    "assistant": ("assistant", "green"),
    "thinking": ("thinking", "dim"),
    "note": ("note", "dim"),
    "mark": ("", "yellow"),
}
_POLL = 0.5


def home_of(app: App) -> SessionHome:
    """Return all sessions of the home that this command line means."""
    return SessionHome.of(app.config, clock=app.clock, ids=SystemIds())


def _place(app: App, session: str, agent: str) -> Place:
    return home_of(app).place(session, agent)


def _session(function: F) -> F:
    whose = click.option(
        "--agent", metavar="ID", default="", help="Whose session.", shell_complete=complete.agents, callback=filled
    )
    return click.argument("session", default="main", shell_complete=complete.conversations, callback=filled)(
        whose(function)
    )


@click.command()
@_session
@click.option("--last", type=click.IntRange(0), metavar="N", help="Only the last N messages.")
@click.option("--full", is_flag=True, help="Whole tool results, thinking and notes.")
@click.option("--branches", is_flag=True, help="Every entry of the file, also those off the active branch.")
@click.option("--ids", is_flag=True, help="Show the id of each entry.")
@with_json
def show(
    app: App, session: str, agent: str, last: int | None, full: bool, branches: bool, ids: bool, as_json: bool
) -> None:
    """Show a conversation."""
    with visit(_place(app, session, agent)) as source:
        found: Iterable[Entry] = read_entries(source) if branches else load_branch(source)
        if last is not None:
            # The end of a long transcript is read from its end; only if that is too little, from its beginning.
            near = [e for e in load_tail(source).entries if as_json or _is_shown(e)] if not branches else []
            shown = near if len(near) >= last else (e for e in found if as_json or _is_shown(e))
            found = deque(shown, maxlen=last)
        if as_json:
            app.out.json({"session": source.header.data, "entries": [entry.data for entry in found]})
            return
        _print(app, found, full=full, ids=ids)


def _is_shown(entry: Entry) -> bool:
    return entry.type in {"message", "compaction", "branch_summary", "reset", "custom_message"}


def _print(app: App, entries: Iterable[Entry], *, full: bool, ids: bool) -> None:
    zone = app.clock.now().astimezone().tzinfo
    assert zone is not None
    for block in blocks(entries):
        if full or block.kind not in {"thinking", "note"}:
            _print_block(app, block, zone, full=full, ids=ids)


def _print_block(app: App, block: Block, zone: tzinfo, *, full: bool, ids: bool) -> None:
    out = app.out
    tag = f"  {block.entry_id}" if ids else ""
    if block.kind == "call":
        out.line(out.style(f"  → {block.title} {single_line(block.text, 100_000 if full else 120)}{tag}", "cyan"))
    elif block.kind == "result":
        text = printable(block.text) if full else single_line(block.text, 120)
        lines = text.splitlines() or ["(no output)"]
        color = "red" if block.error else "dim"
        for number, line in enumerate(lines):
            out.line(out.style(f"  {'←' if not number else ' '} {line}{tag if not number else ''}", color))
    else:
        name, color = _HEADS[block.kind]
        head = "  ".join(part for part in (name, block.title, moment(block.time, zone)) if part)
        out.line()
        out.line(out.style(f"{head}{tag}", "red" if block.error else color))
        for line in printable(block.text).splitlines():
            out.line(f"  {line}")


RESUMED = 6  # messages that are shown again


def last_words(app: App, place: Place) -> None:
    """Show how a conversation ended."""
    with visit(place) as source:
        shown = [entry for entry in load_tail(source).entries if _is_shown(entry)]
    _print(app, shown[-RESUMED:], full=False, ids=False)
    app.out.line()


@click.command()
@_session
@click.option(
    "-n", "count", type=click.IntRange(0), default=10, show_default=True, help="How many messages to begin with."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as the conversation does; Ctrl-C ends it.")
@click.option("--full", is_flag=True, help="Whole tool results, thinking and notes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line: the entries as they are stored.")
@pass_app
def tail(app: App, session: str, agent: str, count: int, follow: bool, full: bool, as_json: bool) -> None:
    """Show the end of a conversation, and what comes."""
    place = _place(app, session, agent)
    with visit(place) as source:
        size = place.path.stat().st_size if place.path.exists() else 0
        shown = [entry for entry in load_tail(source).entries if as_json or _is_shown(entry)]
    _tell(app, shown[-count:] if count > 0 else [], full=full, as_json=as_json)
    if follow:
        for entry in new_entries(place.path, size, time.sleep):
            _tell(app, [entry], full=full, as_json=as_json)


def _tell(app: App, entries: Iterable[Entry], *, full: bool, as_json: bool) -> None:
    """Print entries at once, so that a reader at the other end of a pipe sees them as they come."""
    if as_json:
        app.out.json_lines(entry.data for entry in entries)
    else:
        _print(app, entries, full=full, ids=False)
    app.out.out.flush()


def new_entries(path: Path, start: int, sleep: Callable[[float], None]) -> Iterator[Entry]:
    """Yield what is appended to a transcript from a byte on; after a reset it goes on with the new file."""
    inode = path.stat().st_ino if path.exists() else 0
    while True:
        if path.exists() and (path.stat().st_ino != inode or path.stat().st_size < start):
            inode, start = path.stat().st_ino, 0
        try:
            for line in read_lines(path, start=start):
                if line.torn:
                    break  # it is being written
                start = line.offset + len(line.raw) + 1
                yield from to_entries(line)
        except Missing:
            start = 0
        sleep(_POLL)


_ENDINGS: dict[str, Format] = {
    "": "md", ".md": "md", ".markdown": "md", ".txt": "md", ".json": "json", ".html": "html", ".htm": "html",
}  # fmt: skip


def _format(form: str | None, target: Path | None) -> Format:
    """Return what to write: what was asked for, else what the name of the file promises."""
    ending = target.suffix.lower() if target else ""
    promised = _ENDINGS.get(ending)
    if form is None and promised is None:
        raise click.UsageError(
            f"'{target}': no format has the ending {ending}; end it in .md, .html or .json, or add --format"
        )
    asked = next((each for each in FORMATS if each == form), None)
    if asked and promised and promised != asked and ending not in {"", ".txt"}:
        raise click.UsageError(f"'{target}' is to hold {asked}, and its ending says {promised}; leave one of them out")
    return asked or promised or "md"


@click.command()
@_session
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: by the name of --out, or md.")
@click.option("--out", "target", type=click.Path(path_type=Path, dir_okay=False), help="Write here, not to the screen.")
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--full", is_flag=True, help="Also what the program told the model besides; JSON always holds it.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@pass_app
def export(app: App, session: str, agent: str, form: str | None, target: Path | None, full: bool, force: bool) -> None:
    """Write a conversation as Markdown, JSON or a page of HTML."""
    chosen = _format(form, target)
    zone = app.clock.now().astimezone().tzinfo
    assert zone is not None
    home = home_of(app)
    place = home.place(session, agent)
    title = printable(home.title(place)) or session
    with visit(place) as source:
        pieces = render(source.header, load_branch(source), chosen, title=title, zone=zone, full=full)
        content = (piece.encode("utf-8", "replace") for piece in pieces)
        if target is None:
            app.out.pieces(pieces, as_json=chosen == "json")
        elif force:
            write_atomic(target, content)
        elif not create_new(target, content):
            raise StorageError(f"{target} exists already", cure="choose another name, or add --force")
    if target is not None:
        app.out.line(f"Wrote {target}.")
