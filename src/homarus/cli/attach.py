"""What goes with a message besides its words: files that were named, and what comes through a pipe.

Text joins the message in a block that names where it came from; a picture goes along as a picture.
"""

from __future__ import annotations

import base64
import os
import select
import stat
import sys
from pathlib import Path

from msgspec import Struct

from homarus.cli.failures import say
from homarus.core.errors import HomarusError
from homarus.core.messages import Image
from homarus.core.text import human_bytes

MAX_TEXT = 1 << 20
PATIENCE_SECONDS = 2.0  # after which a person is told what the program waits for
MAX_IMAGE = 10 << 20
_PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class Attached(Struct, frozen=True):
    """The words of a message with the texts that belong to it, and its pictures."""

    text: str
    images: tuple[Image, ...] = ()


def attach(words: str, files: tuple[Path, ...], piped: str = "") -> Attached:
    """Put a message together. Text alone is the message itself; beside words it is named."""
    blocks, images = [words] if words.strip() else [], []
    if piped.strip():
        blocks.append(_block("standard input", piped) if blocks or files else piped.rstrip("\n"))
    for path in files:
        data = _read(path)
        kind = _picture(data)
        if kind:
            images.append(Image(base64.b64encode(data).decode("ascii"), kind))
            continue
        try:
            blocks.append(_block(str(path), data.decode("utf-8")))
        except UnicodeDecodeError:
            raise HomarusError(
                f"{path} is neither text nor a picture", cure="name a text file, PNG, JPEG, GIF or WebP"
            ) from None
    return Attached("\n\n".join(blocks), tuple(images))


def piped_text() -> str:
    """Return what comes through a pipe or from a file; a terminal and a program that keeps its end open say nothing."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or a test's own stream
        return "" if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty() else sys.stdin.read()
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return ""
    if stat.S_ISFIFO(mode) and not select.select([sys.stdin], [], [], PATIENCE_SECONDS)[0]:
        say("waiting for standard input, which is open (end it, or add < /dev/null)")
    text = sys.stdin.read(MAX_TEXT + 1)
    if len(text) > MAX_TEXT:
        raise HomarusError(
            f"standard input holds more than {human_bytes(MAX_TEXT)}",
            cure="send a part of it, or name the file in the message",
        )
    return text


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_IMAGE:
            raise HomarusError(f"{path} is larger than {human_bytes(MAX_IMAGE)}", cure="name a smaller file")
        data = path.read_bytes()
    except OSError as problem:
        raise HomarusError(f"cannot read {path}: {problem.strerror}", cure="check the name") from None
    if len(data) > MAX_TEXT and not _picture(data):
        raise HomarusError(f"{path} is larger than {human_bytes(MAX_TEXT)}", cure="send a part of it")
    return data


def _picture(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES.items() if data.startswith(magic)), "")


def _block(name: str, text: str) -> str:
    safe = name.replace('"', "'").replace("\n", " ")
    return f'<file name="{safe}">\n{text.rstrip()}\n</file>'
