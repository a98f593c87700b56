"""The HTTP client: framing, kept connections, proxies, and failures that say what happened."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import shutil
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.models.servers import Answer, serving

from homarus.models.connection import HttpError
from homarus.models.http import HttpClient, tls_context
from homarus.models.proxy import Proxies, proxies_from


@contextlib.asynccontextmanager
async def raw_server(*replies: bytes, close: bool = True) -> AsyncIterator[str]:
    """Answer each connection's first request with raw bytes, then close."""
    script = list(replies)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(script.pop(0) if len(script) > 1 else script[0])
                await writer.drain()
                if close:
                    break
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def get(url: str, client: HttpClient | None = None, **headers: str) -> tuple[int, bytes]:
    own = client or HttpClient()
    response = await own.request("GET", url, headers=headers)
    try:
        return response.status, await response.read(1 << 20)
    finally:
        response.close()
        if client is None:
            await own.aclose()


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n",
            b"hello",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"packed", mtime=0), b"packed"),
        (b"HTTP/1.1 200\r\nContent-Encoding: deflate\r\n\r\n" + zlib.compress(b"packed"), b"packed"),
    ],
)
async def test_bodies(reply: bytes, body: bytes):
    async with raw_server(reply) as url:
        status, found = await get(url)
    assert status in {200, 204}
    assert found == body


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_000_003])
async def test_what_is_packed_comes_out_whole_and_in_small_pieces(size: int):
    """A kilobyte can hold a megabyte of zeros: it is never unpacked in one go."""
    async with raw_server(
        b"HTTP/1.1 200\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(size), mtime=0)
    ) as url:
        client = HttpClient()
        response = await client.request("GET", url)
        pieces = []
        while piece := await response.next():
            pieces.append(len(piece))
        response.close()
        await client.aclose()
    assert sum(pieces) == size
    assert max(pieces, default=0) <= 65_536


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not an HTTP/1.1 reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", "middle of the reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "middle of the reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no number"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n", "damaged chunked"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n", "negative"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nx", "unknown content encoding"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all", "damaged compressed"),
        (b"", "without a reply"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000, "too long"),
    ],
)
async def test_broken_replies(reply: bytes, says: str):
    async with raw_server(reply) as url:
        with pytest.raises(HttpError, match=says):
            await get(url)


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced():
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    client = HttpClient()
    async with raw_server(ok) as url:
        for _ in range(3):
            assert await get(url, client) == (200, b"ok")
    await client.aclose()


async def test_connections_are_not_shared_between_loops():
    client = HttpClient()
    async with serving(Answer([b"ok"], chunked=False)) as server:
        assert await get(server.url, client) == (200, b"ok")
        assert await asyncio.to_thread(asyncio.run, get_and_close(server.url, client)) == (200, b"ok")
        assert server.connections == 2


async def get_and_close(url: str, client: HttpClient) -> tuple[int, bytes]:
    found = await get(url, client)
    await client.aclose()
    return found


async def test_an_early_close_drops_the_connection():
    client = HttpClient()
    async with serving(Answer([b"x" * 10, b"y" * 10])) as server:
        response = await client.request("GET", server.url)
        assert await response.next()
        response.close()
        assert await get(server.url, client) == (200, b"x" * 10 + b"y" * 10)
        assert server.connections == 2
        await client.aclose()


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "ключ"])
async def test_a_key_cannot_smuggle_a_header(value: str):
    async with serving(Answer([b"ok"])) as server:
        with pytest.raises(HttpError):
            await get(server.url, authorization=value)
        assert server.seen == []


async def test_addresses_that_are_none():
    for url in ("ftp://x/y", "file:///etc/passwd", "no address", "http://"):
        with pytest.raises(HttpError, match="no http address"):
            await HttpClient().request("GET", url)


async def test_plain_http_through_a_proxy():
    async with serving(Answer([b"via proxy"], chunked=False)) as server:
        client = HttpClient(proxies=Proxies(http=server.url.removesuffix("/v1")))
        assert await get("http://models.example.invalid/v1/x?y=1", client) == (200, b"via proxy")
        assert server.seen[0].path == "http://models.example.invalid/v1/x?y=1"
        await client.aclose()


async def test_a_proxy_that_refuses_the_tunnel():
    async with raw_server(b"HTTP/1.1 407 Auth\r\n\r\n") as url:
        client = HttpClient(proxies=Proxies(https=url.replace("http://", "http://user:p%40ss@")))
        with pytest.raises(HttpError, match="407"):
            await get("https://models.example.invalid/v1", client)


@pytest.mark.parametrize(
    ("url", "goes"),
    [
        ("https://api.example.com/v1", "http://p:1"),
        ("http://api.example.com/v1", "http://q:2"),
        ("http://localhost:11434", ""),
        ("http://127.0.0.1:8080", ""),
        ("https://in.corp.example", ""),
        ("https://corp.example", ""),
        ("https://host.example:8443", ""),
        ("https://notcorp.example", "http://p:1"),
    ],
)
def test_which_proxy(url: str, goes: str):
    env = {"https_proxy": "http://p:1", "HTTP_PROXY": "q:2", "NO_PROXY": ".corp.example, host.example:8443"}
    assert proxies_from(env).find(urlsplit(url)) == goes


def test_proxies_that_are_not_http_are_left_alone():
    assert proxies_from({"ALL_PROXY": "socks5://x:1"}) == Proxies()
    assert proxies_from({"https_proxy": "http://p:1", "no_proxy": "*"}).find(urlsplit("https://x")) == ""


def test_one_tls_context_per_process():
    assert tls_context() is tls_context()


TLS = """
import asyncio, ssl, sys
from homarus.models.http import HttpClient
from homarus.models.proxy import Proxies

async def hello(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\\r\\n\\r\\n")
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 5\\r\\n\\r\\nhello")
    except asyncio.IncompleteReadError:
        writer.close()

async def tunnel(reader, writer, port):
    line = await reader.readuntil(b"\\r\\n\\r\\n")
    assert line.startswith(b"CONNECT model.test:443 "), line
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    async def pump(source, sink):
        while data := await source.read(65536):
            sink.write(data)
        sink.close()
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

async def ask(client, url):
    for _ in range(2):
        response = await client.request("GET", url)
        assert await response.read(99) == b"hello"
        response.close()
    await client.aclose()

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("cert.pem", "key.pem")
    server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    proxy = await asyncio.start_server(lambda r, w: tunnel(r, w, port), "127.0.0.1", 0)
    await ask(HttpClient(), f"https://localhost:{port}/")
    through = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    await ask(HttpClient(proxies=Proxies(https=through)), "https://model.test/")
    try:
        await HttpClient().request("GET", f"https://127.0.0.1:{port}/")
    except ssl.SSLCertVerificationError:
        print("refused")
    await asyncio.sleep(0.1)

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate of this test")
def test_tls_directly_and_through_a_proxy(tmp_path: Path):
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:model.test"]
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-days",
        "2",
    ]
    subprocess.run([*make, *subject], cwd=tmp_path, check=True, capture_output=True)
    env = {"SSL_CERT_FILE": str(tmp_path / "cert.pem"), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", TLS], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
