"""grep and find: what is asked for, and what is shown of it. The search itself is `search_run`, in a process of its own.

Rows are read as they come and the search is stopped as soon as there is enough, whatever the size of the tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.errors import Denied, ToolError
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.core.tools import Risk
from homarus.storage.boundary import BoundaryError, Root
from homarus.tools.paths import Reach, Spot, closed_below, locate, opened, where
from homarus.tools.protected import is_unseen, roots_of
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said, spec

MAX_MATCHES, MAX_FOUND, MAX_CONTEXT, MAX_PATTERN = 100, 1_000, 20, 10_000
MAX_BYTES = 51_200
SECONDS = 60.0
# Resolved once, at import: the program starts without any search path of its own.
_SOURCE = str(Path(__file__).resolve().parents[2])
_POSIX = late(r"(?<=[\[^\w\s:\]-])\[:([a-z]+):\]")
_SETS = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "space": r"\s",
    "blank": r" \t",
    "word": r"\w",
    "punct": r"!-/:-@\[-`{-~",
}
_ALIASES = {
    **dict.fromkeys(("regex", "query", "search"), "pattern"),
    **dict.fromkeys(("directory", "dir", "folder", "file_path", "filePath", "file", "root"), "path"),
    **dict.fromkeys(("ignore_case", "case_insensitive", "caseInsensitive", "-i"), "ignoreCase"),
    **dict.fromkeys(("max_results", "maxResults", "head_limit"), "limit"),
    "include": "glob",
    "fixed_strings": "literal",
}

GREP = spec("grep")
FIND = spec("find")


def search_tools(reach: Reach) -> list[Tool]:
    async def grep(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        literal, pattern, glob = arguments.get("literal", False), arguments["pattern"], arguments.get("glob", "")
        if not literal:
            pattern = without_posix(pattern)
        _check_pattern(pattern, literal=literal)
        _check_glob(glob)
        spot = locate(context, where(arguments), reach)
        limit = min(arguments.get("limit", MAX_MATCHES), MAX_MATCHES)
        found = _Found(limit, f"more than {limit} matches; narrow the pattern, the path or the glob")
        query = {"mode": "grep", "pattern": pattern, "glob": glob, "literal": literal}
        query |= {"ignoreCase": arguments.get("ignoreCase", False), "context": arguments.get("context", 0)}
        await _search(context, reach, spot, query, found)
        regex = not literal and set(pattern) & set("\\.+*?()|[]{}^$")
        hint = "read as a regular expression, line by line; set literal to find the text itself" if regex else ""
        if found.binary and not found.count:
            return said(f"{spot.path} is no text; the pattern occurs in it.{found.end}", matches=1)
        if not found.count:
            note = f" [{found.note or hint}]" if found.note or hint else ""
            return said(f"No matches in {spot.path}.{note}", matches=0)
        return said(found.text + found.end, matches=found.count, truncated=bool(found.note))

    async def find(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        spot = locate(context, where(arguments), reach)
        # Whole paths and folders with their slash are meant well.
        pattern = arguments["pattern"].removeprefix(str(spot.path)) if spot.path != Path("/") else arguments["pattern"]
        pattern = pattern.rstrip("/") or "*"
        _check_glob(pattern)
        limit = min(arguments.get("limit", MAX_FOUND), MAX_FOUND)
        found = _Found(limit, f"the first {limit:,}; narrow the pattern or the path")
        await _search(context, reach, spot, {"mode": "find", "glob": pattern}, found)
        if not found.count:
            return said(f"Nothing found in {spot.path}." + (f" [{found.note}]" if found.note else ""), found=0)
        return said(found.text + found.end, found=found.count, truncated=bool(found.note))

    names = {**_ALIASES, "glob": "pattern", "name": "pattern"}
    return [
        Tool(spec=GREP, risk=Risk.READ, run=grep, group="fs", aliases=_ALIASES),
        Tool(spec=FIND, risk=Risk.READ, run=find, group="fs", aliases=names),
    ]


class _Found:
    """The rows of a search, as many as may be shown; `more` is said where there are more than that."""

    def __init__(self, limit: int, more: str) -> None:
        self._limit, self._more = limit, more
        self._rows: list[str] = []
        self._size = self.count = 0
        self.binary = False
        self.note = ""

    def take(self, kind: str, text: str) -> bool:
        """Take a row; False when there is enough."""
        if kind == "binary":
            self.binary = True
            return True
        if kind == "gap" and not self._rows:
            return True
        counts = kind in {"match", "name"}
        if counts and self.count >= self._limit:
            self.note = self._more
            return False
        self._rows.append(text)
        self.count += counts
        self._size += len(text.encode()) + 1
        if self._size > MAX_BYTES:
            self.note = f"cut at {MAX_BYTES:,} bytes; narrow the pattern or the path"
        return not self.note

    @property
    def text(self) -> str:
        rows = self._rows[:-1] if self._rows[-1] == "--" else self._rows
        return "\n".join(rows)

    @property
    def end(self) -> str:
        return f"\n\n[{self.note}]" if self.note else ""


async def _search(context: ToolContext, reach: Reach, spot: Spot, query: dict[str, Any], into: _Found) -> None:
    """Run the search program on a descriptor of the root, and take what it prints until there is enough."""
    closed: tuple[str, ...] = ()
    if reach.state and not context.sandbox.enforced:
        closed = closed_below(str(spot.path), str(reach.state))
    with opened(spot) as root:
        is_folder = _check_kind(root, spot, folder_only=query["mode"] == "find")
        start = _real_name(root, spot)
        fd = root.open(".", os.O_RDONLY | os.O_DIRECTORY)
    base = spot.path if is_folder else spot.path.parent
    order = {**query, "fd": fd, "start": start, "shown": spot.path.name, "closed": closed}
    code = f"import sys; sys.path.insert(0, {_SOURCE!r}); from homarus.tools.search_run import main; main()"
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-W", "ignore", "-c", code, msgspec.json.encode(order).decode()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(fd,),
            env={},
            cwd="/",
            limit=1 << 20,
        )
    finally:
        os.close(fd)
    assert process.stdout is not None
    try:
        with context.cancel.interrupting():
            async with asyncio.timeout(SECONDS):
                async for line in process.stdout:
                    kind, name, rest = msgspec.json.decode(line, type=tuple[str, str, str])
                    text = "--" if kind == "gap" else name + rest
                    if not _is_closed(f"{base}/{name}", context) and not into.take(kind, text):
                        return
                if await process.wait() != 0:
                    into.note = "the search ended early; try a simpler pattern or a smaller folder"
    except TimeoutError:
        into.note = f"stopped after {SECONDS:.0f} seconds; search a smaller folder"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _is_closed(path: str, context: ToolContext) -> bool:
    """Say whether a row is not for who asked: what only the owner reads is in nobody else's results."""
    return is_unseen(path, roots_of(str(context.workspace), context.sandbox), context.trust)


def _real_name(root: Root, spot: Spot) -> str:
    return os.path.relpath(os.path.realpath(spot.path), root.realpath)


def without_posix(pattern: str) -> str:
    """Return a pattern in which sets such as `[[:space:]]`, which Python does not know, are written out."""
    return _POSIX.sub(lambda found: _SETS.get(found[1], found[0]), pattern) if "[:" in pattern else pattern


def _check_pattern(pattern: str, *, literal: bool) -> None:
    import warnings

    if len(pattern) > MAX_PATTERN or set(pattern) & set("\n\r\0"):
        cure = "search for one line, or for a part of it"
        raise ToolError(f"the pattern has several lines or more than {MAX_PATTERN:,} characters", cure=cure)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what may mean something else one day
            re.compile(re.escape(pattern) if literal else pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        cure = "correct it, or set literal to search for the text itself"
        raise ToolError(f"the pattern is no regular expression: {problem}", cure=cure) from None


def _check_glob(text: str) -> None:
    from homarus.tools.globs import compile_glob

    try:
        compile_glob(text)
    except re.error as problem:
        cure = "write one such as *.md or src/**/*.py"
        raise ToolError(f"'{single_line(text, 80)}' is no glob: {problem}", cure=cure) from None


def _check_kind(root: Root, spot: Spot, *, folder_only: bool) -> bool:
    """Return whether a place is a folder; raise when it is nothing that can be searched."""
    try:
        fd = root.open(spot.name, os.O_RDONLY | os.O_DIRECTORY)
    except BoundaryError:
        try:
            fd = root.open(spot.name, os.O_RDONLY)
        except BoundaryError as problem:
            if problem.kind == "missing":
                raise ToolError(f"{spot.path} does not exist", cure="check the path with ls") from None
            raise Denied(problem.message, cure="name a file or folder inside the workspace") from None
    try:
        folder = stat.S_ISDIR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)
    if folder_only and not folder:
        raise ToolError(f"{spot.path} is a file", cure="find looks in folders; give path a folder")
    return folder
