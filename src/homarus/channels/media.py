"""Files of messages. In: fetched after admission, measured, looked at, kept under a safe name. Out: opened once, below the
folders that an agent may give files from, so that what was judged is what is sent."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock
from homarus.core.errors import Denied, HomarusError, StorageError, installing
from homarus.core.messages import Image, Inbound, Media
from homarus.core.text import human_bytes, single_line, slug
from homarus.storage.atomic import ensure_dir
from homarus.storage.beneath import path_of
from homarus.storage.boundary import Root
from homarus.storage.faults import explained
from homarus.storage.volume import changed

MAX_FILES = 10
FETCH_SECONDS = 120.0
KEPT_DAYS = 30
MAX_KEPT = 2_000_000_000
EDGE = 1200  # pixels on the longer side that a model is shown
MAX_PIXELS = 40_000_000
MAX_UNSCALED = 3_500_000
_HEAD = 4096
Kind = Literal["image", "audio", "voice", "video", "file"]

# First bytes, the place where they stand, the type and the ending of its files.
_MAGIC: tuple[tuple[bytes, int, str, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png", "png"),
    (b"\xff\xd8\xff", 0, "image/jpeg", "jpg"),
    (b"GIF8", 0, "image/gif", "gif"),
    (b"WEBP", 8, "image/webp", "webp"),
    (b"BM", 0, "image/bmp", "bmp"),
    (b"II*\x00", 0, "image/tiff", "tiff"),
    (b"MM\x00*", 0, "image/tiff", "tiff"),
    (b"ftyphei", 4, "image/heic", "heic"),
    (b"ftypavif", 4, "image/avif", "avif"),
    (b"OggS", 0, "audio/ogg", "ogg"),
    (b"ID3", 0, "audio/mpeg", "mp3"),
    (b"\xff\xfb", 0, "audio/mpeg", "mp3"),
    (b"\xff\xf3", 0, "audio/mpeg", "mp3"),
    (b"WAVE", 8, "audio/wav", "wav"),
    (b"fLaC", 0, "audio/flac", "flac"),
    (b"#!AMR", 0, "audio/amr", "amr"),
    (b"ftypM4A", 4, "audio/mp4", "m4a"),
    (b"ftyp", 4, "video/mp4", "mp4"),
    (b"\x1aE\xdf\xa3", 0, "video/webm", "webm"),
    (b"AVI ", 8, "video/x-msvideo", "avi"),
    (b"%PDF-", 0, "application/pdf", "pdf"),
    (b"PK\x03\x04", 0, "application/zip", "zip"),
    (b"\x1f\x8b", 0, "application/gzip", "gz"),
    (b"7z\xbc\xaf'\x1c", 0, "application/x-7z-compressed", "7z"),
)
# Documents that are archives inside, and text, have no bytes of their own: there the name's ending counts.
_BY_NAME = {"application/zip": ("docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "zip", "jar")}
_OFFICE = "application/vnd.openxmlformats-officedocument."
_NAMED_TYPES = {
    "docx": f"{_OFFICE}wordprocessingml.document",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "pptx": f"{_OFFICE}presentationml.presentation",
    "json": "application/json",
    "csv": "text/csv",
    "md": "text/markdown",
    "html": "text/html",
    "svg": "image/svg+xml",
}
SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class MediaError(HomarusError):
    """The sender acts: a file cannot be taken. The message says why in words for them."""


def sniff(head: bytes, name: str = "") -> tuple[str, str]:
    """Return the type of a file and its ending, by its first bytes; its name is asked only where those say too little."""
    ending = Path(name).suffix.lower().lstrip(".")
    ending = ending if ending.isascii() and ending.isalnum() and len(ending) <= 8 else ""
    for magic, at, kind, usual in _MAGIC:
        if head[at : at + len(magic)] == magic:
            if magic in (b"WEBP", b"WAVE", b"AVI ") and head[:4] != b"RIFF":
                continue
            if ending in _BY_NAME.get(kind, ()):
                return _NAMED_TYPES.get(ending, kind), ending
            return kind, usual
    if _is_text(head):
        return _NAMED_TYPES.get(ending, "text/plain"), ending or "txt"
    return "application/octet-stream", "bin"


def _is_text(head: bytes) -> bool:
    if not head or b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as problem:
        return problem.start >= len(head) - 3 and problem.start > 0  # a character that was cut
    return True


def kind_of(mime_type: str, said: Kind) -> Kind:
    """Return what a file is by its type; that a sound is a voice message only the platform knows."""
    top = mime_type.partition("/")[0]
    if top == "audio" or (said == "voice" and mime_type == "video/mp4"):
        return "voice" if said == "voice" else "audio"
    return "image" if top == "image" else "video" if top == "video" else "file"


class MediaStore:
    """`media/inbound` of a home. What is old goes, and the oldest goes first when there is too much."""

    def __init__(self, folder: Path, clock: Clock, *, days: int = KEPT_DAYS, most: int = MAX_KEPT) -> None:
        self._folder = folder
        self._clock = clock
        self._days = days
        self._most = most

    async def keep(self, media: Media, blocks: AsyncIterator[bytes], limit: int) -> Media:
        """Write a file down as it comes in and return what it really is. Raises MediaError where it is too large or broken off."""
        if media.size > limit:
            raise MediaError(f"it has {human_bytes(media.size)}, and at most {human_bytes(limit)} are taken")
        await asyncio.to_thread(ensure_dir, self._folder)
        draft = self._folder / f".{secrets.token_hex(8)}.part"
        try:
            with explained("write", draft):
                size, head = await self._poured(draft, blocks, limit)
            mime_type, ending = sniff(head, media.name)
            stem = slug(Path(media.name).stem, 40) or kind_of(mime_type, media.kind)
            path = self._folder / f"{stem}---{secrets.token_hex(6)}.{ending}"
            draft.rename(path)
            changed(path)
        finally:
            draft.unlink(missing_ok=True)
        return replace(
            media, kind=kind_of(mime_type, media.kind), mime_type=mime_type, size=size, path=str(path), name=path.name
        )

    async def _poured(self, draft: Path, blocks: AsyncIterator[bytes], limit: int) -> tuple[int, bytes]:
        size, head = 0, b""
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            async with asyncio.timeout(FETCH_SECONDS):
                async for block in blocks:
                    size += len(block)
                    if size > limit:
                        raise MediaError(f"it is larger than {human_bytes(limit)}, and no more is taken")
                    head += block[: _HEAD - len(head)]
                    await asyncio.to_thread(file.write, block)
            await asyncio.to_thread(os.fsync, file.fileno())
        if not size:
            raise MediaError("it is empty")
        return size, head

    def sweep(self) -> int:
        """Remove what is too old or too much, and return how many files went."""
        now, files = self._clock.now().timestamp(), []
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            try:
                found = path.lstat()
            except OSError:
                continue
            files.append((found.st_mtime, found.st_size, path))
        total, gone = sum(size for _, size, _ in files), 0
        for moment, size, path in sorted(files):
            if now - moment < self._days * 86_400 and total <= self._most:
                break
            try:
                path.unlink()
            except OSError:
                continue
            total, gone = total - size, gone + 1
            changed(path)
        return gone


Fetch = Callable[[Media], AsyncIterator[bytes]]
Hear = Callable[[Media], Awaitable[str]]


class Received(Struct, frozen=True):
    """A message with its files, and what is said of them beside its text."""

    inbound: Inbound
    about: str


async def received(
    inbound: Inbound, fetch: Fetch, store: MediaStore, limit: int, *, edge: int = EDGE, hear: Hear | None = None
) -> Received:
    """Fetch the files of an admitted message. It never fails: what could not be had is said beside the text.

    Pictures are shown to the model; a voice message becomes its words where `hear` can write them down.
    """
    kept: list[Media] = []
    images: list[Image] = list(inbound.images)
    about: list[str] = []
    text = inbound.text
    for media in inbound.media[:MAX_FILES]:
        name = single_line(media.name, 80) or media.kind
        try:
            item = await store.keep(media, fetch(media), limit)
        except (HomarusError, OSError, TimeoutError) as problem:
            why = problem.message if isinstance(problem, HomarusError) else "it could not be fetched"
            about.append(f"[A file ({name}) came with this message and was not taken: {single_line(why)}]")
            continue
        kept.append(item)
        about.append(f"[Attached: {item.name} ({item.mime_type}, {human_bytes(item.size)}), kept at {item.path}]")
        if item.kind == "image":
            picture, why = await asyncio.to_thread(shown, Path(item.path), item.mime_type, edge)
            images += [picture] if picture else []
            about += [] if picture else [f"[{item.name} is not shown: {why}]"]
        if item.kind in {"audio", "voice"} and hear is not None:
            text, said = await _heard(item, hear, text)
            about += [said] if said else []
    if len(inbound.media) > MAX_FILES:
        about.append(f"[{len(inbound.media) - MAX_FILES} more files came with this message and were not taken]")
    made = replace(inbound, media=tuple(kept), images=tuple(images), text=text)
    return Received(made, "\n".join(about))


async def _heard(item: Media, hear: Hear, text: str) -> tuple[str, str]:
    try:
        words = (await hear(item)).strip()
    except HomarusError as problem:
        return text, f"[{item.name} could not be written down: {single_line(problem.message)}]"
    if not words:
        return text, ""
    if not text.strip():
        return words, "[This message was spoken; its text is a transcript of it.]"
    return text, f"[Transcript of {item.name}]\n{words}"


def shown(path: Path, mime_type: str, edge: int) -> tuple[Image | None, str]:
    """Return a picture as models take it: upright, no larger than they look at, without what the camera noted besides.

    Without Pillow a picture that is small enough goes as it is.
    """
    try:
        data = _scaled(path, edge)
    except ImportError:
        if mime_type not in SHOWN or path.stat().st_size > MAX_UNSCALED:
            return None, f"it is too large or of a kind that models do not take ({installing('homarus[media]')} helps)"
        data = (path.read_bytes(), mime_type)
    except Exception as problem:  # noqa: BLE001 - a broken picture raises whatever its reader stumbles over
        return None, f"it cannot be read as a picture: {single_line(str(problem), 100)}"
    return Image(base64.b64encode(data[0]).decode("ascii"), data[1]), ""


def _scaled(path: Path, edge: int) -> tuple[bytes, str]:
    from io import BytesIO

    from PIL import Image as Pictures
    from PIL import ImageOps

    with Pictures.open(path, formats=("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")) as opened:
        if opened.width * opened.height > MAX_PIXELS:
            raise ValueError(f"it has {opened.width} x {opened.height} pixels")
        opened.draft("RGB", (edge, edge))  # a large photograph need not be unpacked whole
        picture = ImageOps.exif_transpose(opened)
        picture.thumbnail((max(1, edge), max(1, edge)))
        clear = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
        out = BytesIO()
        if clear:
            picture.convert("RGBA").save(out, "PNG", optimize=True)
        else:
            picture.convert("RGB").save(out, "JPEG", quality=85)
    return out.getvalue(), "image/png" if clear else "image/jpeg"


# Out


class Opened(Struct, frozen=True):
    """A file that may be given away. Whoever has it reads the descriptor, never the path, and closes it."""

    fd: int
    real: str
    size: int


def open_to_send(path: str, roots: Iterable[Path]) -> Opened:
    """Open a file below one of these folders, whatever links and changes lie on the way. Raises Denied for any other.

    A relative path is one of the first folder.
    """
    shown_path = single_line(path, 120)
    if "\0" in path:
        raise Denied(f"{shown_path} is no path")
    folders = list(roots)
    wanted = Path(path.removeprefix("file://"))
    wanted = Path(os.path.normpath(wanted if wanted.is_absolute() else folders[0] / wanted))
    for folder in folders:
        for base in dict.fromkeys((folder, Path(os.path.realpath(folder)))):
            if not wanted.is_relative_to(base) or wanted == base:
                continue
            try:
                with Root(folder) as root:
                    fd = root.open(str(wanted.relative_to(base)), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except StorageError as problem:
                raise Denied(f"{shown_path} is not sent: {problem.message}") from None
            try:
                found = os.fstat(fd)
                real = path_of(fd) or str(wanted)
            except OSError:
                os.close(fd)
                raise
            return Opened(fd, real, found.st_size)
    raise Denied(f"{shown_path} lies outside of the workspace, so it is not sent")
