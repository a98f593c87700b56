"""edit: change passages of one file. The file is read and written once; an edit that fails leaves it untouched."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from homarus.core.errors import ToolError
from homarus.core.tools import Risk
from homarus.storage.boundary import Root
from homarus.tools.paths import Reach, Spot, locate, opened, put
from homarus.tools.protected import with_origin
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said, spec

if TYPE_CHECKING:
    from homarus.tools.textedit import Edit

MAX_BYTES = 8 << 20
MAX_EDITS, LARGE = 100, 200_000
_OLD = dict.fromkeys(("old_string", "old_text", "oldString", "old_str", "old", "search"), "oldText")
_NEW = dict.fromkeys(("new_string", "new_text", "newString", "new_str", "new", "replace"), "newText")
_ITEM = {**_OLD, **_NEW}
_ALIASES = {**dict.fromkeys(("file_path", "filePath", "filename", "file"), "path"), **_ITEM}

EDIT = spec("edit")


def edit_tool(reach: Reach) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        from homarus.tools.textedit import apply, compare

        edits = _edits(arguments)
        spot = locate(context, arguments["path"], reach, write=True)
        with opened(spot) as root:
            text = read_text(root, spot)
            # A large file takes a second; nobody else waits for it.
            large = len(text) > LARGE
            work = partial(apply, text, edits, str(spot.path))
            changed = await asyncio.to_thread(work) if large else work()
            try:
                data = changed.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                raise ToolError("newText holds half a character (a lone surrogate)", cure="send plain text") from None
            put(root, spot, with_origin(context, str(spot.path), text.encode("utf-8", "surrogateescape"), data))
        change = await asyncio.to_thread(compare, text, changed) if large else compare(text, changed)
        number = f"{len(edits)} edits" if len(edits) > 1 else "1 edit"
        return said(
            f"Changed {spot.path} ({number}, first at line {change.first_line}).\n{_shown(change.diff)}",
            firstChangedLine=change.first_line,
            edits=len(edits),
        )

    return Tool(spec=EDIT, risk=Risk.WRITE, run=run, group="fs", aliases=_ALIASES, sequential=True)


def read_text(root: Root, spot: Spot) -> str:
    """Return a file as text in which every byte has its place, or raise."""
    found = root.read(spot.name, max_bytes=MAX_BYTES)
    if found.kind == "missing":
        raise ToolError(f"{spot.path} does not exist", cure="check the path with ls, or create it with write")
    if found.kind != "ok":
        raise ToolError(f"{spot.path}: {found.reason}", cure="name a regular file")
    if found.truncated:
        raise ToolError(
            f"{spot.path} has more than {MAX_BYTES:,} bytes", cure="change it with exec, for example sed -i"
        )
    return found.data.decode("utf-8", "surrogateescape")


def _shown(diff: str) -> str:
    return diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _edits(arguments: dict[str, Any]) -> list[Edit]:
    from homarus.tools.textedit import Edit

    single = "oldText" in arguments or "newText" in arguments
    given = arguments.get("edits") or []
    if single and given:
        raise ToolError("give either oldText and newText or edits, not both", cure="put all of them into edits")
    items = [arguments] if single else given
    if not items:
        raise ToolError("there is nothing to change", cure="give oldText and newText, or edits")
    if len(items) > MAX_EDITS:
        raise ToolError(f"{len(items)} edits are too many", cure=f"give at most {MAX_EDITS} at once")
    edits = []
    for number, item in enumerate(items):
        named = {_ITEM.get(name, name): value for name, value in item.items()}
        old, new = named.get("oldText"), named.get("newText")
        if not isinstance(old, str) or not isinstance(new, str):
            raise ToolError(f"edit {number + 1} needs oldText and newText", cure="give both as text")
        edits.append(Edit(old, new))
    return edits
