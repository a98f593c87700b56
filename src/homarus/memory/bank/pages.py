"""Pages that people and the program share: generated regions between marks, and one writer at a time.

A region carries the hash of what was written there; where that does not fit any more, a person edited it, and it is theirs from then on:

    <!-- reflect:begin id=current hash=3f1c… -->
    - written by the program
    <!-- reflect:end -->

Writing goes never through a link, whole or not at all; the rest of a file stays byte for byte.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir
from homarus.storage.boundary import BoundaryError, Root

END = "<!-- reflect:end -->"
_REGION = re.compile(
    r"^<!-- reflect:begin id=(?P<id>[\w.-]+) hash=(?P<hash>[0-9a-f]*) -->\n(?P<body>.*?)^<!-- reflect:end -->$\n?",
    re.MULTILINE | re.DOTALL,
)


class Refreshed(Struct, frozen=True):
    """A page with its region brought up to date; or as it was, with the lines that a person wrote there."""

    text: str
    edited: str = ""

    @property
    def kept(self) -> bool:
        return bool(self.edited)


def refresh(page: str, name: str, body: str) -> Refreshed:
    """Put a region's new body into a page, at its place or at the end. A second call with the same body changes nothing."""
    region = _render(name, body)
    found = next((match for match in _REGION.finditer(page) if match["id"] == name), None)
    if found is None:
        lead = "" if not page or page.endswith("\n\n") else "\n" if page.endswith("\n") else "\n\n"
        return Refreshed(page + lead + region)
    if _digest(found["body"]) != found["hash"]:
        return Refreshed(page, edited=found["body"] or "\n")
    return Refreshed(page[: found.start()] + region + page[found.end() :])


def is_generated(page: str, line: int) -> bool:
    """Say whether a line (from 1) stands in a region that nobody edited: what the program wrote is no evidence."""
    start = 0
    for _ in range(line - 1):
        start = page.find("\n", start) + 1
        if not start:
            return False
    return any(
        match.start() <= start < match.end() and _digest(match["body"]) == match["hash"]
        for match in _REGION.finditer(page)
    )


def _render(name: str, body: str) -> str:
    # What looks like one of our own marks inside a body must not end the region.
    clean = "".join(line + "\n" for line in body.replace("<!-- reflect:", "<!-- reflect\u200b:").splitlines())
    return f"<!-- reflect:begin id={name} hash={_digest(clean)} -->\n{clean}{END}\n"


def _digest(body: str) -> str:
    return sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]


_FRONT = r"---\nname: [^\n]*\n(?:kind: (?:person|unknown)\n)?(?:first_seen: [\d-]+\n)?(?:last_seen: [\d-]+\n)?(?:facts: \d+\n)?---\n"
_MADE = re.compile(rf"(?:{_FRONT}\n)?# [^\n]*(?:\n\n`homarus memory promote [^\n]*)?")  # how new pages begin


def head(name: str, known: dict[str, str]) -> str:
    """Return how the page about somebody begins."""
    return "\n".join(
        ["---", f"name: {name}", *(f"{key}: {value}" for key, value in known.items()), "---", "", f"# {name}", ""]
    )


def with_front(page: str, known: dict[str, str]) -> str:
    """Return a page whose front matter says what is known now. Keys that a person took out, added or filled otherwise stay so.

    All are written where the front matter is as an earlier version made it, with nothing but a name.
    """
    found = re.match(r"---\n(.*?)^---\n", page, re.MULTILINE | re.DOTALL)
    if found is None:
        return page
    lines = found[1].splitlines(keepends=True)
    if len(lines) == 1 and lines[0].startswith("name: "):
        lines += [f"{key}: {value}\n" for key, value in known.items()]
    for at, line in enumerate(lines):
        key, _, value = line.rstrip("\n").partition(": ")
        if key in known and (key != "kind" or value == "unknown"):
            lines[at] = f"{key}: {known[key]}\n"
    return f"---\n{''.join(lines)}---\n{page[found.end() :]}"


def is_ours(page: str, head: str = "") -> bool:
    """Say whether a page holds nothing but untouched regions, below the head that it was made with (or any front matter and title)."""
    rest = _REGION.sub(lambda match: "" if _digest(match["body"]) == match["hash"] else match[0], page).strip()
    return rest == head.strip() if head else bool(_MADE.fullmatch(rest))


def blank_generated(lines: list[str]) -> list[str]:
    """Return the lines of a page with those that the program wrote emptied: what they say is found where they cite it."""
    page = "\n".join(lines) + "\n"
    if "<!-- reflect:begin" not in page:
        return lines
    if is_ours(page):
        return [""] * len(lines)
    return _REGION.sub(_blank, page).split("\n")[: len(lines)]


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") if _digest(match["body"]) == match["hash"] else match[0]


MAX_PAGE = 16 << 20


def change(workspace: Path, name: str, work: Callable[[str], str]) -> bool:
    """Replace a page by what `work` makes of its text (empty where there is none); False when that is the same.

    Two who change pages at once, in this process or another, do so one after the other: nobody's line is lost. Bytes
    that are no UTF-8 survive.
    """
    place = (workspace / name).parent
    ensure_dir(place, mode=0o755)
    with Root(workspace) as root:
        folder = root.open(Path(name).parent.as_posix(), os.O_RDONLY | os.O_DIRECTORY, follow="never")
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            before = _read(root, name)
            after = work(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            if after == before:
                return False
            root.write(name, after, mode=0o644)
        finally:
            # Said, not left to closing: a process forked meanwhile holds a copy of the descriptor, and the lock with it.
            fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)
    return True


def read_page(workspace: Path, name: str) -> str:
    """Return a page's text, empty where there is none; never through a link."""
    with Root(workspace) as root:
        return _read(root, name).decode("utf-8", "surrogateescape")


def edited_lines(page: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines in regions that a person edited."""
    for match in _REGION.finditer(page):
        if _digest(match["body"]) != match["hash"]:
            first = page.count("\n", 0, match.start("body")) + 1
            yield from enumerate(match["body"].splitlines(), first)


def _read(root: Root, name: str) -> bytes:
    try:
        fd = root.open(name, os.O_RDONLY, follow="never")
    except BoundaryError as problem:
        if problem.kind == "missing":
            return b""
        raise
    with open(fd, "rb") as handle:  # noqa: PTH123 - a descriptor, not a path
        data = handle.read(MAX_PAGE + 1)
    if len(data) > MAX_PAGE:
        raise StorageError(f"{name} is larger than {MAX_PAGE >> 20} MB", cure="move older parts into another note")
    return data
