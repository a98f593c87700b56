"""read, write and ls: the plain file tools. Limits hold whatever the size of a file or folder."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import stat
from collections.abc import Callable
from typing import Any

from homarus.core.errors import ToolError
from homarus.core.messages import Image, Text
from homarus.core.tools import Risk
from homarus.storage.boundary import BoundaryError
from homarus.tools.paths import Reach, Spot, locate, open_to_read, opened, put, spelled, where
from homarus.tools.protected import is_unseen, roots_of, with_origin
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said, spec

MAX_LINES = 2_000
MAX_BYTES = 51_200
MAX_IMAGE_BYTES = 5_000_000
MAX_ENTRIES = 500
# Lines are found by reading on; a file without newlines must not be read whole to find its second line.
SCAN_BYTES = 64 << 20
MAX_WRITE_BYTES = 8 << 20
MAX_COMPARED = 200_000
_BLOCK = 1 << 16
_ALIASES = {
    **dict.fromkeys(("file_path", "filePath", "filename", "file"), "path"),
    **dict.fromkeys(("start_line", "startLine", "start"), "offset"),
    **dict.fromkeys(("max_lines", "maxLines", "lines"), "limit"),
    **dict.fromkeys(("text", "contents", "file_text", "data"), "content"),
}
_FOLDER = dict.fromkeys(("directory", "dir", "folder", "file_path", "filePath"), "path")
_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_BEGINNINGS = (*_IMAGES, b"RIFF")


def file_tools(reach: Reach) -> list[Tool]:
    kit = _Kit(reach)
    return [
        Tool(spec=READ, risk=Risk.READ, run=kit.read, group="fs", aliases=_ALIASES),
        Tool(spec=WRITE, risk=Risk.WRITE, run=kit.write, group="fs", aliases=_ALIASES, sequential=True),
        Tool(spec=LS, risk=Risk.READ, run=kit.ls, group="fs", aliases=_FOLDER),
    ]


READ = spec("read")
WRITE = spec("write")
LS = spec("ls")


class _Kit:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def read(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        spot = locate(context, arguments["path"], self._reach)
        with opened(spot) as root:
            fd = open_to_read(context, root, spot)
            try:
                head = os.pread(fd, 16, 0)
                if kind := image_kind(head):
                    return _image(fd, kind, spot, vision=context.vision)
                offset, limit = arguments.get("offset", 1), min(arguments.get("limit", MAX_LINES), MAX_LINES)
                # To look far into a large file takes a second; nobody else waits for it.
                return await asyncio.to_thread(_lines, fd, spot, offset, limit)
            except OSError as problem:  # what looks like a file and is none, as in /proc
                raise ToolError(f"cannot read {spot.path}: {problem.strerror}", cure="name a regular file") from None
            finally:
                os.close(fd)

    async def write(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        spot = locate(context, arguments["path"], self._reach, write=True)
        data = arguments["content"].encode()
        if len(data) > MAX_WRITE_BYTES:
            raise ToolError(
                f"the content has {len(data):,} bytes, more than {MAX_WRITE_BYTES:,}",
                cure="write it in parts with exec",
            )
        with opened(spot) as root:
            old = root.read(spot.name, max_bytes=MAX_WRITE_BYTES)
            if old.kind == "ok" and old.data == data and not old.truncated:
                return said(f"{spot.path} already has exactly this content.", changed=False, bytes=len(data))
            put(root, spot, with_origin(context, str(spot.path), old.data if old.kind == "ok" else b"", data))
        what = "Replaced" if old.kind == "ok" else "Created"
        facts: dict[str, Any] = {"changed": True, "bytes": len(data), "created": old.kind != "ok"}
        if old.kind == "ok" and len(old.data) + len(data) <= MAX_COMPARED:
            facts["diff"] = await asyncio.to_thread(_difference, old.data, data)
        return said(f"{what} {spot.path} ({len(data):,} bytes).", **facts)

    async def ls(self, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        spot = locate(context, where(arguments), self._reach)
        limit = min(arguments.get("limit", MAX_ENTRIES), MAX_ENTRIES)
        roots = roots_of(str(context.workspace), context.sandbox)

        def is_open(name: str) -> bool:
            return not is_unseen(f"{spot.path}/{name}", roots, context.trust)

        with opened(spot) as root:
            try:
                fd = root.open(spot.name, os.O_RDONLY | os.O_DIRECTORY)
            except BoundaryError as problem:
                raise ToolError(
                    f"{spot.path}: {problem.message}", cure="ls needs a folder; use read for a file"
                ) from None
            try:
                # A folder of a million entries takes a second; nobody else waits for it.
                names, more = await asyncio.to_thread(_names, fd, limit, is_open)
            finally:
                os.close(fd)
        if not names:
            return said(f"{spot.path} is empty.", entries=0)
        note = f"\n\n[{limit:,} of more entries shown; narrow it down with find]" if more else ""
        return said("\n".join(names) + note, entries=len(names), truncated=more)


def _difference(old: bytes, new: bytes) -> str:
    """Return for people what a file's new content changed; the model knows what it wrote."""
    from homarus.tools.textedit import compare

    return compare(old.decode("utf-8", "replace"), new.decode("utf-8", "replace")).diff


def image_kind(head: bytes) -> str:
    """Return the kind of image that a file begins like, or nothing."""
    if not head.startswith(_BEGINNINGS):
        return ""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES.items() if head.startswith(magic)), "")


def _image(fd: int, kind: str, spot: Spot, *, vision: bool) -> ToolOutput:
    size = os.fstat(fd).st_size
    if not vision:
        return said(
            f"{spot.path} is an image ({kind}, {size:,} bytes), and this model cannot see images.", mimeType=kind
        )
    if size > MAX_IMAGE_BYTES:
        raise ToolError(f"{spot.path} has {size:,} bytes, too many for an image", cure="make it smaller first")
    data = base64.b64encode(os.pread(fd, MAX_IMAGE_BYTES, 0)).decode()
    return ToolOutput((Text(f"{spot.path} ({kind}, {size:,} bytes)"), Image(data, kind)), {"mimeType": kind})


def _lines(fd: int, spot: Spot, offset: int, limit: int) -> ToolOutput:
    """Return whole lines within both limits, and say where to go on. No line is held that is not shown."""
    with io.BufferedReader(io.FileIO(fd, closefd=False), _BLOCK) as file:
        _skip(file, spot, offset)
        rows: list[bytes] = []
        size, row = 0, b"-"
        while row and len(rows) < limit and size <= MAX_BYTES:
            row = file.readline(MAX_BYTES + 1 - size)
            size += len(row)
            rows += [row] if row and size <= MAX_BYTES else []
        more = size > MAX_BYTES or bool(row and file.peek(1))
    if not rows and more:
        raise ToolError(
            f"line {offset} of {spot.path} alone is longer than {MAX_BYTES:,} bytes",
            cure="look at parts of it with exec, for example with cut or head -c",
        )
    if not rows:
        return said(f"{spot.path} is empty.", lines=0)
    text = b"".join(rows).replace(b"\r\n", b"\n").decode("utf-8", "replace").removesuffix("\n")
    last = offset + len(rows) - 1
    note = f"\n\n[lines {offset}-{last}; go on with offset={last + 1}]" if more else ""
    # What is left of line endings was converted twice.
    return said(text.replace("\r\n", "\n") + note, lines=len(rows), offset=offset, truncated=more)


def _skip(file: io.BufferedReader[io.FileIO], spot: Spot, offset: int) -> None:
    """Go to the beginning of a line; raise where there is none, or where it is too far to look for."""
    number, looked, ended = 1, 0, True
    while number < offset:
        piece = file.readline(_BLOCK)
        if not piece:
            break
        looked += len(piece)
        ended = piece.endswith(b"\n")
        number += ended
        if looked > SCAN_BYTES:
            raise ToolError(
                f"line {offset} of {spot.path} does not begin in its first {SCAN_BYTES >> 20} MB",
                cure="look for the place with grep, or cut it out with exec (sed -n, tail -c)",
            )
    lines = number - ended if looked else 0
    if offset > 1 and (number < offset or not file.peek(1)):
        raise ToolError(
            f"{spot.path} has {lines} lines, so there is no line {offset}", cure=f"use an offset up to {max(1, lines)}"
        )


def _names(fd: int, limit: int, is_open: Callable[[str], bool]) -> tuple[list[str], bool]:
    """Return the first names in the order of the alphabet; a folder of a million entries costs time, never memory."""
    import heapq

    with os.scandir(fd) as entries:
        found = ((entry.name.casefold(), entry.name) for entry in entries if is_open(entry.name))
        first = heapq.nsmallest(limit + 1, found)
    names = [name for _, name in first]
    shown = []
    for name in names[:limit]:
        try:
            folder = stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
        except OSError:
            folder = False
        shown.append(spelled(name) + ("/" if folder else ""))
    return shown, len(names) > limit
