"""grep and find: ripgrep inside the turn's sandbox where there is one, our own search program elsewhere.

Output is read as it comes and the search is stopped as soon as there is enough, whatever the size of the tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import Denied, ToolError
from homarus.core.later import later
from homarus.core.text import single_line
from homarus.core.tools import Risk, ToolSpec
from homarus.storage.boundary import BoundaryError, Root
from homarus.tools.paths import Reach, Spot, locate, opened
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

if TYPE_CHECKING:
    from homarus.sandbox import process as sandboxed
    from homarus.tools import globs
else:
    sandboxed = later("homarus.sandbox.process")
    globs = later("homarus.tools.globs")


MAX_MATCHES, MAX_FOUND, MAX_LINE, MAX_CONTEXT = 100, 1_000, 500, 20
MAX_BYTES = 51_200
SECONDS = 60.0
# Resolved once, at import: the program below starts without any search path of its own.
_SOURCE = str(Path(__file__).resolve().parents[2])
_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
_ALIASES = {"regex": "pattern", "query": "pattern", "directory": "path", "include": "glob", "ignore_case": "ignoreCase"}

GREP = ToolSpec(
    name="grep",
    summary="search file contents",
    description="Search files by regular expression; honours .gitignore, includes hidden files.",
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1},
            "path": {"type": "string"},
            "glob": {"type": "string", "description": "only files like *.py"},
            "ignoreCase": {"type": "boolean"},
            "literal": {"type": "boolean"},
            "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT},
            "limit": {"type": "integer", "minimum": 1},
        },
        "required": ["pattern"],
    },
)
FIND = ToolSpec(
    name="find",
    summary="find files by name",
    description="Find files and folders by glob, such as *.md or src/**/test_*.py; honours .gitignore.",
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1},
            "path": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1},
        },
        "required": ["pattern"],
    },
)


class Query(Struct, frozen=True):
    """One search. The shape is the order that the search program reads."""

    mode: str
    fd: int
    start: str
    pattern: str = ""
    glob: str = ""
    ignore_case: bool = False
    literal: bool = False
    context: int = 0


def search_tools(reach: Reach, *, ripgrep: str | None = None) -> list[Tool]:
    """Return grep and find; `ripgrep` names the program, an empty text means to do without."""
    kit = _Kit(reach, ripgrep)
    return [
        Tool(spec=GREP, risk=Risk.READ, run=kit.grep, group="fs", aliases=_ALIASES),
        Tool(
            spec=FIND,
            risk=Risk.READ,
            run=kit.find,
            group="fs",
            aliases={**_ALIASES, "glob": "pattern", "name": "pattern"},
        ),
    ]


class _Kit:
    def __init__(self, reach: Reach, ripgrep: str | None) -> None:
        self._reach = reach
        self._named = ripgrep

    async def grep(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        literal, pattern = arguments.get("literal", False), arguments["pattern"]
        if not literal:
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as problem:
                cure = "correct it, or set literal to search for the text itself"
                raise ToolError(f"the pattern is no regular expression: {problem}", cure=cure) from None
        spot = locate(context, arguments.get("path") or ".", self._reach)
        query = Query(
            "grep",
            -1,
            spot.name,
            pattern,
            _glob(arguments.get("glob", "")),
            arguments.get("ignoreCase", False),
            literal,
            arguments.get("context", 0),
        )
        limit = min(arguments.get("limit", MAX_MATCHES), MAX_MATCHES)
        found = _Matches(limit, query.glob)
        await self._feed(context, spot, query, found)
        return found.output(spot)

    async def find(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        spot = locate(context, arguments.get("path") or ".", self._reach)
        pattern = _glob(arguments["pattern"])
        found = _Names(min(arguments.get("limit", MAX_FOUND), MAX_FOUND), globs.compile_glob(pattern))
        await self._feed(context, spot, Query("find", -1, spot.name), found)
        return found.output(spot)

    async def _feed(self, context: ToolContext, spot: Spot, query: Query, into: _Matches | _Names) -> None:
        """Run the search and hand over what it prints, piece by piece, until there is enough."""
        with opened(spot) as root:
            is_folder = _kind(root, spot, folder_only=query.mode == "find")
            # Only a sandbox keeps ripgrep from a folder that becomes a link while it looks.
            bounded = context.sandbox.enforced or not self._reach.workspace_only
            ripgrep = _ripgrep() if self._named is None else self._named
            if ripgrep and bounded and context.sandbox.can_read(str(spot.path)):
                source = _with_ripgrep(context, spot, query, ripgrep, is_folder=is_folder)
            else:
                source = _with_ours(root, replace(query, start=_real_name(root, spot)), into)
            try:
                with context.cancel.interrupting():
                    async with asyncio.timeout(SECONDS), source as blocks:
                        rest = b""
                        async for block in blocks:
                            *pieces, rest = (rest + block).split(into.separator)
                            if not all(map(into.take, pieces)):
                                return
                            rest = rest[: 4 * MAX_LINE] if len(rest) > (1 << 20) else rest
                        if rest:
                            into.take(rest)
            except TimeoutError:
                into.note = f"stopped after {SECONDS:.0f} seconds; search a smaller folder"


class _Matches:
    """Collects the lines of grep."""

    separator = b"\n"

    def __init__(self, limit: int, glob: str) -> None:
        self._limit = limit
        self._glob = globs.compile_glob(glob) if glob else None
        self._lines: list[str] = []
        self._matches = self._size = 0
        self.note = ""

    def take(self, piece: bytes) -> bool:
        name, found, rest = piece.partition(b"\0")
        if not found:
            if piece == b"--" and self._lines:
                self._lines.append("--")
            return True
        shown = name.decode("utf-8", "replace").removeprefix("./")
        if self._glob and not self._glob.fullmatch(shown):
            return True
        number = re.match(rb"(\d+)([:-])", rest)
        if number is None:
            return True
        match, text = number[2] == b":", rest[number.end() :].decode("utf-8", "replace").rstrip("\r")
        if match and self._matches >= self._limit:
            self.note = f"more than {self._limit} matches; narrow the pattern, the path or the glob"
            return False
        line = text if len(text) <= MAX_LINE else text[:MAX_LINE] + " […]"
        at = int(number[1])
        self._lines.append(f"{shown}:{at}: {line}" if match else f"{shown}-{at}- {line}")
        self._matches += match
        self._size += len(self._lines[-1]) + 1
        if self._size > MAX_BYTES:
            self.note = f"cut at {MAX_BYTES:,} bytes; narrow the pattern, the path or the glob"
            return False
        return True

    def output(self, spot: Spot) -> ToolOutput:
        if not self._matches:
            return said(f"No matches in {spot.path}." + (f" [{self.note}]" if self.note else ""), matches=0)
        note = f"\n\n[{self.note}]" if self.note else ""
        return said("\n".join(self._lines).strip("-\n") + note, matches=self._matches, truncated=bool(note))


class _Names:
    """Collects the paths of find. Folders are known from the files in them."""

    separator = b"\0"

    def __init__(self, limit: int, wanted: re.Pattern[str]) -> None:
        self._limit = limit
        self._wanted = wanted
        self._found: list[str] = []
        self._folder = ""
        self._size = 0
        self.note = ""

    def take(self, piece: bytes) -> bool:
        name = piece.decode("utf-8", "replace").removeprefix("./")
        if not name:
            return True
        folder = name.rpartition("/")[0]
        if folder != self._folder:
            # Paths come in order, so a folder that the last one was in has been seen.
            parts = folder.split("/") if folder else []
            for depth in range(1, len(parts) + 1):
                inner = "/".join(parts[:depth])
                if not f"{self._folder}/".startswith(inner + "/") and self._wanted.fullmatch(inner):
                    self._found.append(inner + "/")
            self._folder = folder
        if self._wanted.fullmatch(name):
            self._found.append(name)
            self._size += len(name) + 1
        if len(self._found) > self._limit or self._size > MAX_BYTES:
            self._found = self._found[: self._limit]
            self.note = f"the first {len(self._found):,}; narrow the pattern or the path"
            return False
        return True

    def output(self, spot: Spot) -> ToolOutput:
        if not self._found:
            return said(f"Nothing found in {spot.path}." + (f" [{self.note}]" if self.note else ""), found=0)
        note = f"\n\n[{self.note}]" if self.note else ""
        return said("\n".join(self._found) + note, found=len(self._found), truncated=bool(note))


def _glob(text: str) -> str:
    try:
        globs.compile_glob(text)
    except re.error as problem:
        raise ToolError(
            f"'{single_line(text, 80)}' is no glob: {problem}", cure="write one such as *.md or src/**/*.py"
        ) from None
    return text


def _kind(root: Root, spot: Spot, *, folder_only: bool) -> bool:
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


def _real_name(root: Root, spot: Spot) -> str:
    return os.path.relpath(os.path.realpath(spot.path), root.realpath)


@asynccontextmanager
async def _with_ripgrep(
    context: ToolContext, spot: Spot, query: Query, program: str, *, is_folder: bool
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Run ripgrep where the turn's commands run, without network."""
    line = [program, "--no-config", "--hidden", "--no-require-git", "--no-ignore-dot", "--no-ignore-global"]
    line += ["--no-ignore-exclude", "--no-messages", "--color=never", "--sort=path", "--null", "--glob=!.git"]
    if query.mode == "find":
        line += ["--files", "--glob=!node_modules"]
    else:
        line += ["--no-heading", "--line-number", "--with-filename", "--max-columns=2000", "--max-columns-preview"]
        line += ["--ignore-case"] if query.ignore_case else []
        line += ["--fixed-strings"] if query.literal else []
        line += [f"--context={query.context}"] if query.context else []
        if query.glob and "/" not in query.glob:
            line += [f"--type-add=wanted:{query.glob}", "--type=wanted"]
        line += ["--regexp", query.pattern]
    folder = spot.path if is_folder else spot.path.parent
    line += ["--", "." if is_folder else f"./{spot.path.name}"]
    spec = replace(context.sandbox, network=False)
    child = await sandboxed.start(spec, sandboxed.Order(tuple(line), str(folder), {"PATH": _PATH}, context.ids.uuid()))
    try:
        yield child.output()
    finally:
        if child.running:
            await child.kill()
        child.close()


@asynccontextmanager
async def _with_ours(root: Root, query: Query, into: _Matches | _Names) -> AsyncIterator[AsyncIterator[bytes]]:
    """Run our own search program on a descriptor of the root. It follows no link, so it cannot leave the root."""
    fd = root.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        order = {
            "mode": query.mode,
            "fd": fd,
            "start": query.start,
            "pattern": query.pattern,
            "glob": query.glob,
            "ignoreCase": query.ignore_case,
            "literal": query.literal,
            "context": query.context,
        }
        code = f"import sys; sys.path.insert(0, {_SOURCE!r}); from homarus.tools.search_run import main; main()"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", code, msgspec.json.encode(order).decode()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(fd,),
            env={},
            cwd="/",
        )
    finally:
        os.close(fd)
    assert process.stdout is not None
    try:
        yield _blocks(process.stdout)
        if not into.note and await process.wait() != 0:
            into.note = "the search ended early; try a simpler pattern or a smaller folder"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _blocks(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while block := await stream.read(65536):
        yield block


@cache
def _ripgrep() -> str:
    import shutil

    return shutil.which("rg", path=_PATH) or ""
