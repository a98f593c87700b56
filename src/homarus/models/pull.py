"""Fetch a GGUF file into the models folder: resumable, checked against its SHA-256, and under its name only when whole."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.errors import HomarusError, StorageError, Unknown
from homarus.core.patterns import late
from homarus.core.text import human_bytes
from homarus.net.client import HttpClient, Response
from homarus.net.errors import HttpError
from homarus.storage.atomic import ensure_dir

NAMES = Path(__file__).with_name("pull.json")
MAX_REDIRECTS = 5
BLOCK = 1 << 20
SPARE = 256 * 1024 * 1024
_DIGEST = late(r"[0-9a-f]{64}")
Progress = Callable[[int, int | None], None]


class Source(Struct, frozen=True):
    """Where a file comes from and what it must be; without a digest nobody can tell."""

    url: str
    sha256: str = ""
    name: str = ""
    about: str = ""


class PullFailed(HomarusError):
    """The file could not be fetched; what has arrived is kept and the next try goes on from there."""


def known() -> dict[str, Source]:
    rows: dict[str, dict[str, str]] = msgspec.json.decode(NAMES.read_bytes())
    return {name: Source(name=f"{name}.gguf", **row) for name, row in rows.items()}


def find_source(text: str, sha256: str = "") -> Source:
    """Return what a name, a web address or `hf:owner/repo/file.gguf` means."""
    digest = sha256.strip().lower().removeprefix("sha256:")
    if digest and not _DIGEST.fullmatch(digest):
        raise Unknown("a SHA-256 has 64 hexadecimal digits", cure="copy it from the page of the file")
    named = known().get(text.strip().lower())
    if named is not None:
        return Source(named.url, digest or named.sha256, named.name, named.about)
    url = text.strip()
    if url.startswith("hf:"):
        owner, _, rest = url[3:].strip("/").partition("/")
        repository, _, file = rest.partition("/")
        url = f"https://huggingface.co/{owner}/{repository}/resolve/main/{file}"
    parts = urlsplit(url)
    name = unquote(parts.path.rpartition("/")[2])
    if parts.scheme not in {"http", "https"} or not parts.hostname or not name.lower().endswith(".gguf"):
        near = ", ".join(list(known())[:6])
        raise Unknown(
            f"'{text}' is no model to fetch",
            cure=f"use a name ({near} …), an address that ends in .gguf, or hf:owner/repo/file.gguf",
        )
    return Source(url, digest, re.sub(r"[^\w.+-]", "_", name))


class Puller:
    def __init__(self, http: HttpClient, folder: Path, *, progress: Progress = lambda *_: None) -> None:
        self._http = http
        self._folder = folder
        self._progress = progress

    async def pull(self, source: Source, *, cancel: Cancel, unverified: bool = False) -> tuple[Path, str]:
        """Fetch and check a file; return where it lies and its SHA-256. A file that is there and right is left alone."""
        ensure_dir(self._folder)
        target, part = self._folder / source.name, self._folder / f"{source.name}.part"
        if target.is_file():
            found = digest_of(target)
            if source.sha256 in {"", found}:
                return target, found
            raise StorageError(f"{target} is another file than {source.url}", cure="move it away first")
        try:
            wanted, found = await self._fetch(source, part, cancel, unverified=unverified)
        except (OSError, HttpError) as problem:
            raise PullFailed(
                f"{source.url}: {str(problem) or type(problem).__name__}", cure="run it again: it goes on from there"
            ) from problem
        if wanted and found != wanted:
            part.unlink(missing_ok=True)
            raise PullFailed(
                f"{source.name} has the SHA-256 {found}, not {wanted}",
                cure="the file was thrown away; fetch it again, or check the address",
            )
        part.replace(target)
        return target, found

    async def _fetch(self, source: Source, part: Path, cancel: Cancel, *, unverified: bool) -> tuple[str, str]:
        have = _size(part)
        response, announced = await self._open(source.url, have, cancel)
        try:
            wanted = source.sha256 or announced
            if not wanted and not unverified:
                raise Unknown(
                    "nobody says what this file must be",
                    cure="give its --sha256, or --unverified to take it as it comes",
                )
            if response.status == 416:
                return wanted, digest_of(part)
            if response.status not in {200, 206}:
                raise HttpError(f"the server answered {response.status}")
            if response.status == 200:
                have = 0
            length = response.headers.get("content-length", "")
            total = have + int(length) if length.isdigit() else None
            _check_room(part.parent, total, have)
            return wanted, await self._write(response, part, have, total, cancel)
        finally:
            await response.close()

    async def _open(self, url: str, have: int, cancel: Cancel) -> tuple[Response, str]:
        headers = {"range": f"bytes={have}-"} if have else {}
        announced = ""
        for _ in range(MAX_REDIRECTS + 1):
            with cancel.interrupting():
                response = await self._http.request("GET", url, headers=headers)
            # The hub names the digest of the stored file on the way to it.
            linked = response.headers.get("x-linked-etag", "").strip('"')
            announced = linked if _DIGEST.fullmatch(linked) else announced
            if response.status not in {301, 302, 303, 307, 308}:
                return response, announced
            following = urljoin(url, response.headers.get("location", ""))
            await response.close()
            if urlsplit(url).scheme == "https" and urlsplit(following).scheme != "https":
                raise HttpError("the server leads from a safe address to an unsafe one")
            url = following
        raise HttpError("the server leads in circles")

    async def _write(self, response: Response, part: Path, have: int, total: int | None, cancel: Cancel) -> str:
        digest = hashlib.sha256()
        if have:
            _feed(digest, part)
        done = have
        # Not an atomic write on purpose: what has arrived must survive, so that the next try can go on from it.
        with part.open("ab" if have else "wb") as file:
            while True:
                with cancel.interrupting():
                    chunk = await response.next()
                if not chunk:
                    break
                if done == 0 and not chunk.startswith(b"GGUF"[: len(chunk)]):
                    raise HttpError("what comes is no GGUF file")
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                self._progress(done, total)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and done != total:
            raise HttpError(f"{done} of {total} bytes came")
        return digest.hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    _feed(digest, path)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)


def _check_room(folder: Path, total: int | None, have: int) -> None:
    free = shutil.disk_usage(folder).free
    need = (total or 0) - have + SPARE
    if total is not None and need > free:
        raise StorageError(
            f"{human_bytes(need)} are needed in {folder} and {human_bytes(free)} are free",
            cure="make room, or choose a smaller model",
        )
