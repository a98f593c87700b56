"""Where large files and sealed transcripts of a fleet lie: a bucket that speaks the S3 API, or a folder that all machines see.

Objects are named by home and content and never change, so writing one twice is harmless, and whoever reads one can tell whether it is
whole. One home's objects are never another's, even where they are equal.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from msgspec import Struct

from homarus.core.errors import ConfigError, StorageError
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.faults import Missing

PART = 8 << 20  # S3 takes parts from 5 MiB on
_PIECE = 1 << 20
PACKED = ".zst"
_SAFE = "-_.~"
_PAUSES = (0.2, 1.0, 3.0)
Result = TypeVar("Result")
_SAID = re.compile(r"<(Code|Message)>([^<]*)</")


class Objects(Protocol):
    """A store of immutable objects. Every method raises StorageError where the store is away or refuses; nothing is half there."""

    async def put(self, key: str, pieces: Iterable[bytes]) -> None: ...

    def get(self, key: str) -> AsyncIterator[bytes]: ...

    async def remove(self, key: str) -> None: ...

    def keys(self, prefix: str) -> AsyncIterator[str]: ...

    async def aclose(self) -> None: ...


def objects_at(address: str, env: Mapping[str, str], http: HttpClient) -> Objects:
    """Return the store at `s3://bucket/prefix`, or in a folder. Raises ConfigError."""
    if not address.startswith("s3://"):
        if not address.startswith("/"):
            raise ConfigError(f"'{address}' names no store", cure="write s3://bucket/prefix, or a folder from / on")
        return Folder(Path(address))
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    ident, secret = env.get("AWS_ACCESS_KEY_ID", ""), env.get("AWS_SECRET_ACCESS_KEY", "")
    if not (bucket and ident and secret):
        raise ConfigError(
            f"{address} cannot be opened", cure="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and name a bucket"
        )
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or f"https://s3.{region}.amazonaws.com"
    signer = Signer(ident, secret, region, env.get("AWS_SESSION_TOKEN", ""))
    return Bucket(http, endpoint.rstrip("/"), bucket, prefix.strip("/"), signer)


class Store:
    """The objects of a fleet for callers that wait, in any thread: content by its SHA-256, packed as Zstandard."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fleet-objects", daemon=True)
        self._thread.start()

    def put(self, home: str, name: str, pieces: Iterable[bytes]) -> None:
        """Keep content under its hash in hexadecimal; raises StorageError where it cannot be kept."""
        self.wait(self.objects.put(_key(home, name), _packed(pieces)))

    def get(self, home: str, name: str) -> Iterator[bytes]:
        """Yield content; raises StorageError, at its end at the latest, unless all of it has this hash."""
        found = unpacked(self.objects, _key(home, name))
        while piece := self.wait(anext(found, b"")):
            yield piece

    def remove_all(self, home: str) -> int:
        """Forget everything of a home, and say how many objects that were."""

        async def remove() -> int:
            keys = [key async for key in self.objects.keys(f"{home}/")]
            for key in keys:
                await self.objects.remove(key)
            return len(keys)

        return self.wait(remove())

    def of(self, home: str) -> HomeObjects:
        return HomeObjects(self, home)

    def close(self) -> None:
        if not self._loop.is_closed():
            self.wait(self.objects.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class HomeObjects:
    """What the volume of one home sees of the store: its own objects."""

    def __init__(self, store: Store, home: str) -> None:
        self.store, self._home = store, home

    def put(self, name: str, data: bytes) -> None:
        self.store.put(self._home, name, [data])

    def get(self, name: str) -> bytes:
        return b"".join(self.store.get(self._home, name))

    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        self.store.put(self._home, name, pieces)

    def get_pieces(self, name: str) -> Iterator[bytes]:
        return self.store.get(self._home, name)


def _key(home: str, name: str) -> str:
    return f"{home}/{name}{PACKED}"


async def unpacked(objects: Objects, key: str) -> AsyncIterator[bytes]:
    """Yield the content of an object as it was before it was packed; raises StorageError at the end where it is another's."""
    digest, zstd = hashlib.sha256(), _zstd()
    unpack = zstd.ZstdDecompressor()
    try:
        async for piece in objects.get(key):
            plain = unpack.decompress(piece, _PIECE)
            while plain:  # a few bytes may stand for gigabytes: never all of them at once
                digest.update(plain)
                yield plain
                plain = b"" if unpack.eof or unpack.needs_input else unpack.decompress(b"", _PIECE)
    except (zstd.ZstdError, EOFError) as problem:
        raise StorageError(f"the object {key} is damaged: {problem}", cure="restore it from a copy") from problem
    if digest.hexdigest() != key.rpartition("/")[2].removesuffix(PACKED):
        raise StorageError(f"the object {key} is damaged: its content has another hash", cure="restore it from a copy")


def _packed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    pack = _zstd().ZstdCompressor(level=6)
    for piece in pieces:
        if done := pack.compress(piece):
            yield done
    yield pack.flush()


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


class Folder:
    """Objects as files of one folder: for one machine, or a network file system. They are as durable as that is."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _place(self, key: str) -> Path:
        if any(part in {"", ".", ".."} for part in key.split("/")):
            raise StorageError(f"'{key}' is no name of an object")
        return self._root / key

    async def put(self, key: str, pieces: Iterable[bytes]) -> None:
        place = self._place(key)

        def write() -> None:
            ensure_dir(place.parent)
            write_atomic(place, pieces)

        await asyncio.to_thread(write)

    async def get(self, key: str) -> AsyncIterator[bytes]:
        try:
            with await asyncio.to_thread(self._place(key).open, "rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    yield piece
        except FileNotFoundError:
            raise Missing(f"there is no object {key} in {self._root}") from None
        except OSError as problem:
            raise StorageError(f"cannot read {self._root / key}: {problem.strerror}") from problem

    async def remove(self, key: str) -> None:
        await asyncio.to_thread(self._place(key).unlink, missing_ok=True)

    async def keys(self, prefix: str) -> AsyncIterator[str]:
        def walk() -> list[str]:
            found = [Path(folder, name) for folder, _, names in os.walk(self._root) for name in names]
            return sorted(p.relative_to(self._root).as_posix() for p in found if not p.name.startswith("."))

        for key in await asyncio.to_thread(walk):
            if key.startswith(prefix):
                yield key

    async def aclose(self) -> None:
        pass


class Signer(Struct, frozen=True):
    """Signs requests as AWS Signature Version 4 says."""

    ident: str
    secret: str
    region: str
    token: str = ""

    def headers(
        self, method: str, url: str, body: bytes, now: datetime, given: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the headers that a request needs. Path and query of the address must be encoded already."""
        target, moment = urlsplit(url), now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        signed = {name.lower(): value.strip() for name, value in (given or {}).items()}
        signed |= {
            "host": target.netloc,
            "x-amz-date": moment,
            "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        }
        if self.token:
            signed["x-amz-security-token"] = self.token
        names = ";".join(sorted(signed))
        query = "&".join(sorted(part if "=" in part else f"{part}=" for part in target.query.split("&") if part))
        lines = [method, target.path or "/", query, *(f"{name}:{signed[name]}" for name in sorted(signed)), "", names]
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        request = hashlib.sha256("\n".join([*lines, signed["x-amz-content-sha256"]]).encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{request}".encode(), "sha256").hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.ident}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return signed


class Bucket:
    """Objects in a bucket of S3, or of anything that speaks its API (paths with the bucket first)."""

    def __init__(self, http: HttpClient, endpoint: str, bucket: str, prefix: str, signer: Signer) -> None:
        self._http, self._signer = http, signer
        self._base = f"{endpoint}/{quote(bucket, safe=_SAFE)}"
        self._prefix = f"{prefix}/" if prefix else ""
        self.name = f"s3://{bucket}/{prefix}"

    async def put(self, key: str, pieces: Iterable[bytes]) -> None:
        parts = _parts(pieces)
        first, second = next(parts, b""), next(parts, None)
        if second is None:
            await self._ask("PUT", key, body=first)
            return
        said = (await self._ask("POST", key, "uploads"))[1].decode("utf-8", "replace")
        found = re.search(r"<UploadId>([^<]+)</UploadId>", said)
        if found is None:
            raise StorageError(f"{self.name} does not take large objects")
        upload = quote(unescape(found[1]), safe=_SAFE)
        try:
            tags = []
            for number, part in enumerate(itertools.chain((first, second), parts), 1):
                reply = await self._ask("PUT", key, f"partNumber={number}&uploadId={upload}", body=part)
                tags.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{reply[2].get('etag', '')}</ETag></Part>")
            order = f"<CompleteMultipartUpload>{''.join(tags)}</CompleteMultipartUpload>".encode()
            said = (await self._ask("POST", key, f"uploadId={upload}", body=order))[1].decode("utf-8", "replace")
            if "<Error>" in said:  # it says 200 before it knows
                raise StorageError(f"{self.name} did not keep {key}: {_words(said)}")
        except BaseException:
            await asyncio.shield(self._ask("DELETE", key, f"uploadId={upload}", fine=(404,)))
            raise

    async def get(self, key: str) -> AsyncIterator[bytes]:
        url = f"{self._base}/{quote(self._prefix + key, safe=_SAFE + '/')}"
        try:
            reply = await self._http.request("GET", url, headers=self._signed("GET", url, b""))
            try:
                if reply.status == 404:
                    raise Missing(f"there is no object {key} in {self.name}")
                if reply.status != 200:
                    raise self._refused(reply.status, (await reply.read(_PIECE)).decode("utf-8", "replace"))
                while piece := await reply.next():
                    yield piece
            finally:
                await reply.close()
        except HttpError as problem:
            raise StorageError(f"{self.name} is away: {problem}") from problem

    async def remove(self, key: str) -> None:
        await self._ask("DELETE", key, fine=(404,))

    async def keys(self, prefix: str) -> AsyncIterator[str]:
        more = ""
        while True:
            wanted = quote(self._prefix + prefix, safe=_SAFE)
            said = (await self._ask("GET", "", f"list-type=2&prefix={wanted}{more}"))[1].decode("utf-8", "replace")
            for found in re.findall(r"<Key>([^<]*)</Key>", said):
                yield unescape(found).removeprefix(self._prefix)
            token = re.search(r"<NextContinuationToken>([^<]+)</NextContinuationToken>", said)
            if token is None:
                return
            more = f"&continuation-token={quote(unescape(token[1]), safe=_SAFE)}"

    async def aclose(self) -> None:
        await self._http.aclose()

    def _signed(self, method: str, url: str, body: bytes) -> dict[str, str]:
        return self._signer.headers(method, url, body, datetime.now(UTC))

    async def _ask(
        self, method: str, key: str, query: str = "", *, body: bytes = b"", fine: tuple[int, ...] = ()
    ) -> tuple[int, bytes, dict[str, str]]:
        """Ask again where the store is busy or away for a moment: every request here may be sent twice."""
        url = f"{self._base}/{quote(self._prefix + key, safe=_SAFE + '/')}" if key else self._base
        url += f"?{query}" if query else ""
        for pause in (*_PAUSES, None):
            try:
                reply = await self._http.request(method, url, headers=self._signed(method, url, body), body=[body])
                try:
                    said = await reply.read(16 << 20)
                finally:
                    await reply.close()
                if reply.status < 300 or reply.status in fine:
                    return reply.status, said, reply.headers
                problem = self._refused(reply.status, said.decode("utf-8", "replace"))
                passing = reply.status >= 500 or reply.status == 429
            except HttpError as error:
                problem, passing = StorageError(f"{self.name} is away: {error}"), True
            if pause is None or not passing:
                break
            await asyncio.sleep(pause)
        raise problem

    def _refused(self, status: int, said: str) -> StorageError:
        keys = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"
        cure = {401: keys, 403: keys, 404: "make the bucket, or mend 'objects'"}.get(status, "")
        return StorageError(f"{self.name} refused with {status}: {_words(said)}", cure=cure)


def _words(said: str) -> str:
    from homarus.core.text import single_line

    return single_line(": ".join(unescape(text) for _, text in _SAID.findall(said)) or said, 300)


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held, size = list[bytes](), 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size >= PART:
            whole = b"".join(held)
            yield whole[:PART]
            held, size = [whole[PART:]], size - PART
    if size:
        yield b"".join(held)
