"""apply_patch: several files in one call. Everything is read and checked first; then it is written, or nothing is."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import HomarusError, ToolError
from homarus.core.tools import Risk
from homarus.storage.boundary import BoundaryError
from homarus.tools.edit import read_text
from homarus.tools.paths import Reach, Spot, locate, opened, put, remove
from homarus.tools.protected import with_origin
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said, spec

if TYPE_CHECKING:
    from homarus.tools.patchtext import Operation

MAX_FILES = 200
MAX_DIFF_CHARS = 6_000

PATCH = spec("apply_patch")


class Step(Struct, frozen=True):
    """One file as it was and as it shall be; None means that it does not exist."""

    spot: Spot
    before: bytes | None
    after: bytes | None
    mode: int = 0o644


def patch_tool(reach: Reach) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.tools.patchtext import parse

        operations = parse(arguments["input"])
        if len(operations) > MAX_FILES:
            raise ToolError(f"the patch has {len(operations)} sections", cure=f"give at most {MAX_FILES} at once")
        near = replace(reach, workspace_only=reach.workspace_only or context.patch_workspace_only)
        # Large files take a second; nobody else waits for it.
        steps = await asyncio.to_thread(plan, context, operations, near)
        carry_out(steps)
        return said(_report(operations, steps), files=len(operations))

    aliases = {"patch": "input", "content": "input"}
    return Tool(spec=PATCH, risk=Risk.WRITE, run=run, group="fs", aliases=aliases, sequential=True)


def plan(context: ToolContext, operations: list[Operation], reach: Reach) -> list[Step]:
    """Return what would be written, with every hunk verified; raises before anything is changed."""
    from homarus.tools.patchtext import patched

    steps: list[Step] = []
    taken: set[str] = set()

    def claim(path: str) -> Spot:
        spot = locate(context, path, reach, write=True)
        # Two names of one file, through a link, would undo each other.
        real = os.path.realpath(spot.path)
        if real in taken:
            cure = "put all hunks of a file into one section; to replace it whole, use write"
            raise ToolError(f"the patch names {spot.path} twice", cure=cure)
        taken.add(real)
        return spot

    for operation in operations:
        spot = claim(operation.path)
        if operation.kind == "add":
            data = with_origin(context, str(spot.path), b"", _bytes(operation.content))
            steps.append(Step(_absent(spot), None, data))
            continue
        with opened(spot) as root:
            text = read_text(root, spot)
            mode = _mode(root.open(spot.name, os.O_RDONLY))
        before = text.encode("utf-8", "surrogateescape")
        if operation.kind == "delete":
            steps.append(Step(spot, before, None, mode))
            continue
        after = _bytes(patched(text, operation))
        if operation.move_to:
            target = claim(operation.move_to)
            steps.append(Step(_absent(target), None, with_origin(context, str(target.path), b"", after), mode))
            steps.append(Step(spot, before, None, mode))
        else:
            steps.append(Step(spot, before, with_origin(context, str(spot.path), before, after), mode))
    return steps


def carry_out(steps: list[Step]) -> None:
    """Write all steps; if one fails, take back those before it, then raise."""
    done: list[tuple[Step, list[str]]] = []
    try:
        for step in steps:
            done.append((step, []))
            done[-1] = (step, _put(step.spot, step.after, step.mode))
    except HomarusError as problem:
        stuck = [str(step.spot.path) for step, made in reversed(done) if not _take_back(step, made)]
        note = f"; {', '.join(stuck)} could not be put back" if stuck else "; nothing was changed"
        raise ToolError(f"{problem.message}{note}", cure=problem.cure or "check the paths") from None


def _put(spot: Spot, data: bytes | None, mode: int) -> list[str]:
    with opened(spot) as root:
        if data is not None:
            return put(root, spot, data, mode)
        remove(root, spot)
        return []


def _take_back(step: Step, made: list[str]) -> bool:
    try:
        _put(step.spot, step.before, step.mode)
    except BoundaryError as problem:
        return step.before is None and problem.kind == "missing"
    except HomarusError:
        return False
    with opened(step.spot) as root:
        root.remove_dirs(made)
    return True


def _absent(spot: Spot) -> Spot:
    with opened(spot) as root:
        try:
            os.close(root.open(spot.name, os.O_RDONLY | os.O_NONBLOCK))
        except BoundaryError as problem:
            if problem.kind == "missing":
                return spot
            raise ToolError(problem.message, cure="choose another path") from None
    raise ToolError(f"{spot.path} exists already", cure="use *** Update File: for a file that exists")


def _mode(fd: int) -> int:
    try:
        return stat.S_IMODE(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolError("the patch holds half a character (a lone surrogate)", cure="send plain text") from None


def _report(operations: list[Operation], steps: list[Step]) -> str:
    from homarus.tools.textedit import compare

    signs = {"add": "A", "update": "M", "delete": "D"}
    lines = [
        f"{signs[operation.kind]} {operation.path}" + (f" -> {operation.move_to}" if operation.move_to else "")
        for operation in operations
    ]
    text = "Done:\n" + "\n".join(lines)
    for step in steps:
        if step.before is not None and step.after is not None and len(text) < MAX_DIFF_CHARS:
            change = compare(step.before.decode("utf-8", "replace"), step.after.decode("utf-8", "replace"))
            text += f"\n\n{step.spot.path}\n{change.diff}"
    return text[: 2 * MAX_DIFF_CHARS]
