"""The HTTP client: framing, kept connections, proxies, and failures that say what happened."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import importlib.util
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.models.servers import Answer, serving

from homarus.net.client import HttpClient
from homarus.net.errors import HttpError, NoConnection, Refused
from homarus.net.proxy import Proxies, proxies_from
from homarus.net.sockets import connected
from homarus.net.trust import Trust, trust_from


@contextlib.asynccontextmanager
async def raw_server(*replies: bytes, close: bool = True, until: bytes = b"\r\n\r\n") -> AsyncIterator[str]:
    """Answer each connection's first request with raw bytes, then close."""
    script = list(replies)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(until)
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
        await response.close()
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
        (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", b"hello"),
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
        await response.close()
        await client.aclose()
    assert sum(pieces) == size
    assert max(pieces, default=0) <= 65_536


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", "middle of the reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "middle of the reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4, 5\r\n\r\nfour", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nx", "unknown content encoding"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all", "damaged compressed"),
        (b"", "without a reply"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 150_000, "does not answer in HTTP/1.1"),
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
        await client.aclose()


async def get_and_close(url: str, client: HttpClient) -> tuple[int, bytes]:
    found = await get(url, client)
    await client.aclose()
    return found


async def test_an_early_close_drops_the_connection():
    client = HttpClient()
    async with serving(Answer([b"x" * 10, b"y" * 10])) as server:
        response = await client.request("GET", server.url)
        assert await response.next()
        await response.close()
        assert await get(server.url, client) == (200, b"x" * 10 + b"y" * 10)
        assert server.connections == 2
        await client.aclose()


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "ключ"])
async def test_a_key_cannot_smuggle_a_header(value: str):
    async with serving(Answer([b"ok"])) as server:
        with pytest.raises(HttpError):
            await get(server.url, authorization=value)
        assert server.seen == []


async def test_no_header_gets_into_a_log(caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    async with raw_server(b"HTTP/1.1 200 OK\r\nset-cookie: s3cret\r\ncontent-length: 2\r\n\r\nok") as url:
        assert await get(url, authorization="Bearer s3cret") == (200, b"ok")
    assert "s3cret" not in caplog.text


async def test_addresses_that_are_none():
    for url in ("ftp://x/y", "file:///etc/passwd", "no address", "http://"):
        with pytest.raises(Refused, match="no http address"):
            await HttpClient().request("GET", url)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_on_this_machine_that_does_not_run_is_said_at_once(host: str):
    port = closed_port()
    with pytest.raises(Refused, match=f"nothing listens on {host}:{port}") as caught:
        await get(f"http://user:secret@{host}:{port}/")
    assert "start the server" in caught.value.cure
    assert "secret" not in str(caught.value)


async def test_another_machine_that_takes_no_connection_may_be_asked_again():
    async def choose(host: str, port: int) -> str:
        return "127.0.0.1"

    with pytest.raises(NoConnection, match=r"no connection to far\.example"):
        await get(f"http://far.example:{closed_port()}/", HttpClient(choose=choose))


async def test_plain_http_through_a_proxy():
    async with serving(Answer([b"via proxy"], chunked=False)) as server:
        proxy = server.url.removesuffix("/v1").replace("http://", "http://me:p%40ss@")
        client = HttpClient(proxies=Proxies(http=proxy))
        assert await get("http://models.example.invalid/v1/x?y=1", client) == (200, b"via proxy")
        assert await get("http://[2001:db8::1]:81/x", client) == (200, b"via proxy")
        first, second = server.seen
        assert first.path == "http://models.example.invalid/v1/x?y=1"
        assert first.headers["proxy-authorization"] == f"Basic {base64.b64encode(b'me:p@ss').decode()}"
        assert first.headers["host"] == "models.example.invalid"
        assert second.path == "http://[2001:db8::1]:81/x"
        await client.aclose()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("reply", "final", "cure"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", True, "user and password"),
        (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", True, "NO_PROXY"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", False, ""),
    ],
)
async def test_a_proxy_that_refuses(scheme: str, reply: bytes, final: bool, cure: str):
    async with raw_server(reply) as url:
        proxy = url.replace("http://", "http://user:secret@")
        client = HttpClient(proxies=Proxies(http=proxy, https=proxy))
        if scheme == "http" and b"407" not in reply:
            assert (await get("http://models.example.invalid/v1", client))[0] in {403, 502}
        else:
            with pytest.raises(HttpError, match=r"the proxy http://127\.0\.0\.1:") as caught:
                await get(f"{scheme}://models.example.invalid/v1", client)
            assert isinstance(caught.value, Refused) is final
            assert cure in getattr(caught.value, "cure", "")
            assert "secret" not in str(caught.value)
        await client.aclose()


async def test_a_proxy_that_is_not_there():
    async with raw_server(b"") as url:
        pass
    for proxy in (url, url.replace("http:", "socks5:")):
        client = HttpClient(proxies=Proxies(https=proxy))
        with pytest.raises(Refused, match=r"cannot be reached|SOCKS"):
            await get("https://models.example.invalid/v1", client)
        await client.aclose()


async def test_a_tunnel_to_an_ipv6_address_is_asked_for_in_brackets():
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    client = HttpClient(proxies=Proxies(https=f"http://me:p%40ss@127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    with pytest.raises(Refused):
        await get("https://[2001:db8::1]/v1", client, authorization="Bearer key")
    await client.aclose()
    server.close()
    assert asked[0].startswith(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n")
    assert b"Host: [2001:db8::1]:443\r\n" in asked[0]
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in asked[0]
    assert b"Bearer key" not in asked[0], "the key is the server's, not the proxy's"


@pytest.mark.skipif(importlib.util.find_spec("socksio") is None, reason="socksio speaks to SOCKS proxies")
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_a_socks_proxy_is_used_with_its_name_and_password(scheme: str):
    said: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.append(await reader.readexactly(3))
        writer.write(b"\x05\x02")
        said.append(await reader.readexactly(2 + 2 + 1 + 4))
        writer.write(b"\x01\x00")
        said.append(await reader.readexactly(4 + 1 + len("models.example.invalid") + 2))
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsocks")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"{scheme}://me:pass@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = HttpClient(proxies=proxies_from({"ALL_PROXY": address}))
    assert await get("http://models.example.invalid/v1", client) == (200, b"socks")
    await client.aclose()
    server.close()
    assert said == [b"\x05\x01\x02", b"\x01\x02me\x04pass", b"\x05\x01\x00\x03\x16models.example.invalid\x00\x50"]


@pytest.mark.skipif(importlib.util.find_spec("socksio") is None, reason="socksio speaks to SOCKS proxies")
@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\xff", b"\x04\x00\x00", b""])
async def test_a_socks_proxy_that_is_none(answer: bytes):
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = HttpClient(proxies=Proxies(http=address))
    with pytest.raises(Refused, match="the proxy socks5://"):
        await get("http://models.example.invalid/v1", client)
    await client.aclose()
    server.close()


@pytest.mark.parametrize(
    ("url", "goes"),
    [
        ("https://api.example.com/v1", "http://p:1"),
        ("http://api.example.com/v1", "http://q:2"),
        ("http://localhost:11434", ""),
        ("http://127.0.0.1:8080", ""),
        ("http://127.9.9.9:8080", ""),
        ("http://[::1]:8080", ""),
        ("https://in.corp.example", ""),
        ("https://corp.example", ""),
        ("https://corp.example./", ""),
        ("https://host.example:8443", ""),
        ("https://host.example:8444", "http://p:1"),
        ("https://a.host.example:8443", ""),
        ("https://notcorp.example", "http://p:1"),
        ("https://10.1.2.3/", ""),
        ("https://11.1.2.3/", "http://p:1"),
        ("https://192.168.7.9/", ""),
        ("https://192.169.7.9/", "http://p:1"),
        ("https://[fd00::5]/", ""),
        ("https://[fe00::5]/", "http://p:1"),
        ("https://[2001:db8::7]/", ""),
        ("https://[2001:db8::9]:99/", ""),
        ("https://[2001:db8::9]:98/", "http://p:1"),
        ("https://one.lab.example", ""),
        ("https://api-7.dev.example", ""),
        ("https://api.dev.example", "http://p:1"),
    ],
)
def test_which_proxy(url: str, goes: str):
    exempt = (
        ".corp.example, host.example:8443 10.0.0.0/8\t192.168.*,fd00::/8,2001:db8::7;[2001:db8::9]:99,*.Lab.example,"
        "api-*.dev.example, bad/net"
    )
    env = {"https_proxy": "http://p:1", "HTTP_PROXY": "q:2", "NO_PROXY": exempt}
    assert proxies_from(env).find(urlsplit(url)) == goes


def test_a_proxy_of_another_kind_is_an_error_and_never_passed_by():
    for proxy in ("socks4://x:1", "ftp://user:secret@x:1", "http://"):
        with pytest.raises(Refused, match="no proxy that can be used") as caught:
            proxies_from({"ALL_PROXY": proxy}).find(urlsplit("https://x.example"))
        assert "secret" not in str(caught.value)
        assert proxies_from({"ALL_PROXY": proxy, "NO_PROXY": "*"}).find(urlsplit("https://x.example")) == ""


async def test_a_name_that_is_not_there_is_looked_up_twice_and_then_said():
    asked = []

    async def choose(host: str, port: int) -> str:
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    client = HttpClient(choose=choose)
    with pytest.raises(Refused, match="no host nobody") as caught:
        await get("http://nobody.example.invalid/", client)
    assert "online" in caught.value.cure
    assert asked == ["nobody.example.invalid"] * 2


def test_one_tls_context_per_trust():
    assert Trust().context() is Trust().context()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates of these tests")
    folder = tmp_path_factory.mktemp("tls")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:model.test"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run(
        [*make, "-keyout", "key.pem", "-out", "cert.pem", *subject], cwd=folder, check=True, capture_output=True
    )
    return folder


@contextlib.asynccontextmanager
async def tls_server(folder: Path) -> AsyncIterator[int]:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def quietly_closed(client: HttpClient) -> None:
    await client.aclose()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"])
async def test_a_certificate_that_a_variable_names_is_trusted(certificate: Path, name: str):
    async with tls_server(certificate) as port:
        client = HttpClient(trust=trust_from({name: str(certificate / "cert.pem")}))
        for _ in range(2):
            assert await get(f"https://localhost:{port}/", client) == (200, b"hello")
        with pytest.raises(Refused, match="not trusted") as caught:
            await get(f"https://127.0.0.1:{port}/", client)
        assert "another name" in caught.value.cure
        await quietly_closed(client)


async def test_an_untrusted_certificate_is_said_at_once_with_its_cure(certificate: Path):
    async with tls_server(certificate) as port:
        client = HttpClient()
        with pytest.raises(Refused, match=f"certificate of localhost:{port} is not trusted: self-signed") as caught:
            await get(f"https://localhost:{port}/", client)
        assert "NODE_EXTRA_CA_CERTS" in caught.value.cure
        await quietly_closed(client)


async def test_a_server_without_tls_is_said_at_once(certificate: Path):
    async with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", until=b"\x16") as url:  # as a hello in TLS begins
        client = HttpClient()
        with pytest.raises(Refused, match="does not speak TLS") as caught:
            await get(url.replace("http:", "https:"), client)
        assert "http or https" in caught.value.cure
        await quietly_closed(client)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"])
async def test_a_variable_that_names_no_certificates_is_named(tmp_path: Path, name: str):
    (tmp_path / "empty.pem").write_text("nothing")
    for file in ("empty.pem", "missing.pem"):
        with pytest.raises(Refused, match=name):
            await get("https://localhost:1/", HttpClient(trust=trust_from({name: str(tmp_path / file)})))


@pytest.mark.parametrize("secure", [False, True])
async def test_tls_through_a_tunnel_of_a_proxy(certificate: Path, secure: bool):
    async with tls_server(certificate) as port:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            line = await reader.readuntil(b"\r\n\r\n")
            assert line.startswith(b"CONNECT model.test:443 "), line
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    sink.write(data)
                sink.close()

            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0, ssl=context if secure else None)
        through = f"{'https' if secure else 'http'}://localhost:{proxy.sockets[0].getsockname()[1]}"
        trust = trust_from({"SSL_CERT_FILE": str(certificate / "cert.pem")})
        client = HttpClient(proxies=Proxies(https=through), trust=trust)
        for _ in range(2):
            assert await get("https://model.test/", client) == (200, b"hello")
        await quietly_closed(client)
        proxy.close()


async def test_the_next_address_of_a_host_is_tried():
    kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
    with socket.socket() as deaf, socket.socket() as open_:
        for each in (deaf, open_):
            each.bind(("127.0.0.1", 0))
        open_.listen()  # and at the other one everybody is refused
        places = [(*kind, each.getsockname()) for each in (deaf, open_)]
        with await connected(places, ()) as made:
            assert made.getpeername() == open_.getsockname()
        with pytest.raises(ConnectionRefusedError):
            await connected(places[:1] * 2, ())


async def test_what_nobody_reads_yet_waits_at_the_server_and_what_it_does_not_read_waits_here():
    size, heard = 8 << 20, asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await heard.wait()
        body = await reader.readexactly(size)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body[::-1])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    client, sent = HttpClient(), bytes(range(256)) * (size // 256)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    asking = asyncio.ensure_future(client.request("POST", url, body=[sent]))
    await asyncio.sleep(0)
    heard.set()
    response = await asking
    assert await response.read(size + 1) == sent[::-1]
    await response.close()
    await client.aclose()
    server.close()
