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
from collections.abc import AsyncIterator, Callable
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
from homarus.tools.paths import Reach, Spot, closed_below, locate, opened, where
from homarus.tools.protected import is_unseen, roots_of
from homarus.tools.tool import Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from homarus.sandbox import process as sandboxed
    from homarus.tools import dialect, globs, search_found
    from homarus.tools.search_found import Found
else:
    sandboxed = later("homarus.sandbox.process")
    dialect = later("homarus.tools.dialect")
    globs = later("homarus.tools.globs")
    search_found = later("homarus.tools.search_found")


MAX_MATCHES, MAX_FOUND, MAX_CONTEXT, MAX_PATTERN = 100, 1_000, 20, 10_000
SECONDS = 60.0
# What a search may take: a line of a gigabyte is read whole by ripgrep, and then it is our own program's turn.
MEMORY = 512 << 20
# Resolved once, at import: the program below starts without any search path of its own.
_SOURCE = str(Path(__file__).resolve().parents[2])
_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
_ALIASES = {
    **dict.fromkeys(("regex", "query", "search"), "pattern"),
    **dict.fromkeys(("directory", "dir", "folder", "file_path", "filePath", "file", "root"), "path"),
    **dict.fromkeys(("ignore_case", "case_insensitive", "caseInsensitive", "-i"), "ignoreCase"),
    **dict.fromkeys(("max_results", "maxResults", "head_limit"), "limit"),
    "include": "glob",
    "fixed_strings": "literal",
}

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
    # What is passed over: names below the place that is searched, as globs.
    closed: tuple[str, ...] = ()


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
        if len(pattern) > MAX_PATTERN or set(pattern) & set("\n\r\0"):
            cure = "search for one line, or for a part of it"
            raise ToolError(f"the pattern has several lines or more than {MAX_PATTERN:,} characters", cure=cure)
        if not literal:
            pattern = dialect.without_posix(pattern)
            _compiled(pattern)
        spot = locate(context, where(arguments), self._reach)
        glob = _glob(arguments.get("glob", ""))
        query = Query(
            "grep",
            -1,
            spot.name,
            pattern,
            glob,
            arguments.get("ignoreCase", False),
            literal,
            arguments.get("context", 0),
        )
        hint = "" if literal or dialect.is_plain(pattern) else "read as a regular expression, line by line"
        hint += "; set literal to find the text itself" if hint else ""
        limit = min(arguments.get("limit", MAX_MATCHES), MAX_MATCHES)
        found = search_found.Matches(limit, globs.compile_glob(glob) if glob else None, hint)
        await self._feed(context, spot, query, found)
        return found.output(spot)

    async def find(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        spot = locate(context, where(arguments), self._reach)
        # Whole paths and folders with their slash are meant well.
        pattern = arguments["pattern"].removeprefix(str(spot.path)) if spot.path != Path("/") else arguments["pattern"]
        pattern = _glob(pattern.rstrip("/") or "*")
        found = search_found.Names(min(arguments.get("limit", MAX_FOUND), MAX_FOUND), globs.compile_glob(pattern))
        await self._feed(context, spot, Query("find", -1, spot.name), found)
        return found.output(spot)

    async def _feed(self, context: ToolContext, spot: Spot, query: Query, into: Found) -> None:
        """Run the search and hand over what it prints, piece by piece, until there is enough."""
        with opened(spot) as root:
            is_folder = _kind(root, spot, folder_only=query.mode == "find")
            if self._reach.state and not context.sandbox.enforced:
                query = replace(query, closed=closed_below(str(spot.path), str(self._reach.state)))
            theirs = self._for_ripgrep(context, spot, query)
            # A found name is below the folder that is searched, whatever it says of itself.
            base = spot.path if is_folder else spot.path.parent

            roots = roots_of(str(context.workspace), context.sandbox)

            def unseen(name: bytes) -> bool:
                return is_unseen(f"{base}/{os.fsdecode(name)}", roots, context.trust)

            try:
                with context.cancel.interrupting():
                    async with asyncio.timeout(SECONDS):
                        if theirs is not None:
                            ripgrep = self._ripgrep
                            async with _with_ripgrep(context, spot, theirs, ripgrep, is_folder=is_folder) as child:
                                if not await _taken(child.output(), into, unseen) or await _searched(child, into):
                                    return
                        ours = replace(query, start=_real_name(root, spot))
                        async with _with_ours(root, ours, spot.path.name) as process:
                            if await _taken(_blocks(process), into, unseen) and await process.wait() != 0:
                                into.note = "the search ended early; try a simpler pattern or a smaller folder"
            except TimeoutError:
                into.note = f"stopped after {SECONDS:.0f} seconds; search a smaller folder"

    @property
    def _ripgrep(self) -> str:
        return _ripgrep() if self._named is None else self._named

    def _for_ripgrep(self, context: ToolContext, spot: Spot, query: Query) -> Query | None:
        """Return the query for ripgrep; None where it is missing, would find something else, or could leave the root."""
        pattern = query.pattern if query.literal else dialect.for_ripgrep(query.pattern)
        # Only a sandbox keeps ripgrep from a folder that becomes a link while it looks, and from rules of folders above.
        apart = context.sandbox.enforced or not (self._reach.workspace_only or _is_ruled_from_above(spot.root))
        usable = bool(self._ripgrep) and apart and context.sandbox.can_read(str(spot.path))
        return replace(query, pattern=pattern) if usable and pattern is not None else None


async def _taken(blocks: AsyncIterator[bytes], into: Found, unseen: Callable[[bytes], bool]) -> bool:
    """Hand over what a search prints and may be seen; False when there was enough before its end."""
    rest = b""
    async for block in blocks:
        *pieces, rest = (rest + block).split(into.separator)
        if not all(unseen(piece.partition(b"\0")[0]) or into.take(piece) for piece in pieces):
            return False
        rest = rest[: 4 * search_found.MAX_LINE] if len(rest) > (1 << 20) else rest
    if rest and not unseen(rest.partition(b"\0")[0]):
        into.take(rest)
    return True


async def _searched(child: sandboxed.Child, into: Found) -> bool:
    """Say whether ripgrep's word counts: one that failed and found nothing has not searched."""
    code = (await child.wait()).code
    if code in (0, 1):
        return True
    if into.nothing:
        into.begin_again()
        return False
    if code != 2:  # with 2 it means files that it could not read
        into.note = "the search ended early; search a smaller folder"
    return True


def _compiled(pattern: str) -> None:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what may mean something else one day
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        cure = "correct it, or set literal to search for the text itself"
        raise ToolError(f"the pattern is no regular expression: {problem}", cure=cure) from None


def _is_ruled_from_above(root: Path) -> bool:
    """Say whether a folder above has rules of what to leave out: they are not the workspace's."""
    return any((folder / ".gitignore").exists() for folder in root.parents)


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
) -> AsyncIterator[sandboxed.Child]:
    """Run ripgrep where the turn's commands run, without network."""
    line = [
        program,
        "--no-config",
        "--hidden",
        "--no-require-git",
        "--no-ignore-dot",
        "--no-ignore-global",
        "--no-mmap",
    ]
    line += ["--no-ignore-exclude", "--no-messages", "--color=never", "--sort=path", "--null", "--glob=!.git"]
    if query.mode == "find":
        line += ["--files", "--glob=!node_modules"]
    else:
        line += ["--no-heading", "--line-number", "--with-filename", "--max-columns=2000", "--max-columns-preview"]
        line += ["--crlf"]
        line += ["--ignore-case"] if query.ignore_case else []
        line += ["--fixed-strings"] if query.literal else []
        line += [f"--context={query.context}"] if query.context else []
        if query.glob and "/" not in query.glob:
            line += [f"--type-add=wanted:{query.glob}", "--type=wanted"]
        line += ["--regexp", query.pattern]
    line += [f"--glob=!/{name}" for name in query.closed]
    folder = spot.path if is_folder else spot.path.parent
    line += ["--", "." if is_folder else f"./{spot.path.name}"]
    limits = context.sandbox.limits
    most = min(limits.memory_bytes or MEMORY, MEMORY)
    spec = replace(context.sandbox, network=False, limits=replace(limits, memory_bytes=most))
    child = await sandboxed.start(spec, sandboxed.Order(tuple(line), str(folder), {"PATH": _PATH}, context.ids.uuid()))
    try:
        yield child
    finally:
        if child.running:
            await child.kill()
        child.close()


@asynccontextmanager
async def _with_ours(root: Root, query: Query, shown: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run our own search program on a descriptor of the root. It follows no link, so it cannot leave the root."""
    fd = root.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        order = {
            "mode": query.mode,
            "fd": fd,
            "start": query.start,
            "shown": shown,
            "pattern": query.pattern,
            "glob": query.glob,
            "ignoreCase": query.ignore_case,
            "literal": query.literal,
            "context": query.context,
            "closed": query.closed,
        }
        code = f"import sys; sys.path.insert(0, {_SOURCE!r}); from homarus.tools.search_run import main; main()"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-W", "ignore", "-c", code, msgspec.json.encode(order).decode()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(fd,),
            env={},
            cwd="/",
        )
    finally:
        os.close(fd)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _blocks(process: asyncio.subprocess.Process) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    while block := await process.stdout.read(65536):
        yield block


@cache
def _ripgrep() -> str:
    import shutil

    return shutil.which("rg", path=_PATH) or ""
