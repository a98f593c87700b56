"""The edge between real clients and a real owner over loopback; only the directory is made up."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from homarus.core.errors import StorageError
from homarus.fleet import edge as edges
from homarus.fleet.edge import CLIENT, HOME, NAME, SECRET, Edge, Pace
from homarus.fleet.served import Call
from homarus.fleet.settings import Fleet, Quota
from homarus.fleet.watch import MISSES, Place
from homarus.gateway import wire
from homarus.gateway.settings import GatewaySettings
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError

FLEET = Fleet(secret="s" * 32, domain="agents.example")


class Owner:
    """A worker as the edge sees one: it notes what came and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status, self.refuses = 200, 0
        self.go = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send, headers)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.seen.append((scope["path"], scope["query_string"].decode(), headers, body))
        if self.refuses:
            self.refuses -= 1
            await send({"type": "http.response.start", "status": 421, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"x-own", b"1")]})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        if scope["path"] == "/events":
            await self.go.wait()
        await send({"type": "http.response.body", "body": b" second"})

    async def _socket(self, scope: Any, receive: Any, send: Any, headers: dict[str, str]) -> None:
        assert (await receive())["type"] == "websocket.connect"
        self.seen.append((scope["path"], scope["query_string"].decode(), headers, b""))
        await send({"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)})
        while (message := await receive())["type"] == "websocket.receive":
            scope["state"]["raise_limit"]()
            if message.get("text") == "leave":
                await send({"type": "websocket.close", "code": 1012, "reason": "moved"})
                return
            await send({"type": "websocket.send", **{k: v for k, v in message.items() if k in {"text", "bytes"} and v}})


class Book:
    """A directory in memory."""

    def __init__(self) -> None:
        self.known: dict[str, Place] = {}
        self.letters: dict[tuple[str, str], bytes] = {}
        self.away, self.asked, self.full = False, 0, False
        self.looks = 0
        self.then: list[Callable[[], None]] = []

    async def find(self, home: str) -> Place | None:
        self.asked += 1
        if self.then:
            self.then.pop(0)()
        if self.away:
            raise StorageError("away")
        return self.known.get(home)

    async def places(self, homes: Sequence[str]) -> dict[str, Place]:
        self.looks += 1
        if self.away:
            raise StorageError("away")
        return {home: self.known[home] for home in homes if home in self.known}

    async def leave(self, home: str, key: str, body: bytes) -> bool:
        if self.full:
            return False
        self.letters.setdefault((home, key), body)
        return True


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    socket = wire.listening("127.0.0.1", 0)
    server = wire.server(app, GatewaySettings(), None)
    task = asyncio.ensure_future(server.serve(sockets=[socket]))
    await server.up.wait()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class Stand:
    def __init__(self, url: str, owner_url: str, owner: Owner, book: Book, edge: Edge) -> None:
        self.url, self.owner_url, self.owner, self.book, self.edge = url, owner_url, owner, book, edge
        self.http = HttpClient()

    def home(self, name: str, quota: Quota | None = None, *, held: bool = True) -> None:
        self.book.known[name] = Place(quota or Quota(), self.owner_url if held else "")

    async def ask(self, path: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, bytes, Any]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = await self.http.request(method, self.url + path, headers=sent, body=[body])
        try:
            return reply.status, await reply.read(1 << 20), reply.headers
        finally:
            await reply.close()


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    owner, book, http = Owner(), Book(), HttpClient(most=1000)
    edge = Edge(FLEET, book, http, patience=20)
    async with served(owner) as owner_url, served(edge) as url:
        made = Stand(url, owner_url, owner, book, edge)
        made.home("ada")
        yield made
        await made.http.aclose()
        await http.aclose()


async def test_a_request_reaches_the_home_by_path_and_by_host(stand: Stand) -> None:
    status, body, headers = await stand.ask("/h/ada/v1/x%20y?q=1&q=2", cookie="a=1")
    assert (status, body, headers["x-own"]) == (200, b"first second", "1")
    await stand.ask("/v1/x", host="Ada.agents.example:443", method="POST", body=b"data")
    (path, query, sent, _), (second, _, again, data) = stand.owner.seen
    assert (path, query, sent["cookie"]) == ("/v1/x y", "q=1&q=2", "a=1")
    assert (second, data, again["host"]) == ("/v1/x", b"data", "Ada.agents.example:443")
    assert (sent[HOME], sent[SECRET], sent[CLIENT]) == ("ada", FLEET.secret, "")
    assert stand.book.asked == 1


async def test_a_client_cannot_speak_for_the_edge(stand: Stand) -> None:
    bad = {
        "x_homarus_home": "bob",
        "X_Homarus_Fleet": "x",
        "x_homarus_client": "10.0.0.1",
        "x_forwarded_for": "10.0.0.1",
        "forwarded": "for=1",
    }
    await stand.ask("/h/ada/", **bad)
    sent = stand.owner.seen[0][2]
    assert (sent[HOME], sent[SECRET], sent[CLIENT]) == ("ada", FLEET.secret, "")
    assert not {"x-forwarded-for", "forwarded"} & set(sent)


@pytest.mark.parametrize(
    ("listed", "said", "client"),
    [
        ([], "203.0.113.9", ""),
        (["127.0.0.1"], "203.0.113.9", "203.0.113.9"),
        (["10.0.0.0/8", "127.0.0.0/8"], "10.9.9.9, 2001:db8::1", "2001:db8::1"),
        (["127.0.0.1"], "203.0.113.9, 127.0.0.1", ""),
        (["127.0.0.1"], "::ffff:127.0.0.1", ""),
        (["127.0.0.1"], "localhost", ""),
        (["192.0.2.1"], "203.0.113.9", ""),
    ],
)
async def test_whoever_comes_is_who_a_listed_proxy_names_and_never_this_machine(
    listed: list[str], said: str, client: str, stand: Stand
) -> None:
    stand.edge._fleet = msgspec.structs.replace(FLEET, trusted_proxies=tuple(listed))
    await stand.ask("/h/ada/", x_forwarded_for=said)
    assert stand.owner.seen[0][2][CLIENT] == client


async def test_a_home_has_its_name_only_where_it_was_asked_for_by_it(stand: Stand) -> None:
    stand.home("bob")
    await stand.ask("/", host="Ada.agents.example.:8443")
    await stand.ask("/h/bob/", host="ada.agents.example")  # its page is another home's
    await stand.ask("/h/bob/", host="x", x_homarus_name="bob.agents.example")
    assert [headers[NAME] for _, _, headers, _ in stand.owner.seen] == ["ada.agents.example", "", ""]


@pytest.mark.parametrize(
    ("path", "host"),
    [("/", "x"), ("/", "agents.example"), ("/", "a.b.agents.example"), ("/h/nobody/", "x"), ("/h/../", "x"), ("/h//x", "x"), ("/", "adaagents.example")],
)  # fmt: skip
async def test_what_names_no_home_is_not_found(path: str, host: str, stand: Stand) -> None:
    status, body, _ = await stand.ask(path, host=host)
    assert status == 404 and b"home" in body
    assert stand.owner.seen == []


async def test_events_are_not_held_back(stand: Stand) -> None:
    reply = await stand.http.request("GET", stand.url + "/h/ada/events")
    assert await reply.next() == b"first"
    stand.owner.go.set()
    assert await reply.next() == b" second"
    await reply.close()


async def test_a_home_that_moves_is_followed(stand: Stand) -> None:
    stand.home("eve", held=False)
    stand.book.then = [lambda: None, lambda: None, lambda: stand.home("eve")]
    stand.owner.refuses = 2
    status, _, _ = await stand.ask("/h/eve/x", method="POST", body=b"once")
    assert status == 200
    assert [body for *_, body in stand.owner.seen] == [b"once"] * 3  # twice it said that it does not hold it


async def test_nobody_is_waited_for_for_ever(stand: Stand) -> None:
    stand.edge._patience = 0.2
    stand.home("eve", held=False)
    status, _, headers = await stand.ask("/h/eve/x")
    assert status == 503 and int(headers["retry-after"]) > 0
    stand.book.away = True
    assert (await stand.ask("/h/eve/x"))[0] == 503


async def test_what_may_have_been_done_is_not_done_again(stand: Stand) -> None:
    async def dying(reader: Any, writer: Any) -> None:
        await reader.read(10)
        writer.close()

    server = await asyncio.start_server(dying, "127.0.0.1", 0)
    place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    stand.book.known["eve"] = Place(Quota(), place)
    status, body, _ = await stand.ask("/h/eve/x", method="POST", body=b"pay")
    assert status == 502 and b"look whether" in body
    stand.book.then = [lambda: stand.home("eve")]
    assert (await stand.ask("/h/eve/x"))[0] == 200  # to read again is harmless
    server.close()
    assert [body for *_, body in stand.owner.seen] == [b""]


async def test_a_web_hook_survives_a_home_that_nobody_holds(stand: Stand) -> None:
    stand.edge._patience = 0.1
    stand.home("eve", held=False)
    for _ in range(2):  # the sender tries again, and says so
        status, body, _ = await stand.ask(
            "/h/eve/hooks/wake?a=1", method="POST", body=b'{"n":1}', authorization="Bearer t", webhook_id="7"
        )
        assert status == 202 and json.loads(body)["kept"]
    for _ in range(2):  # two that are alike are two
        await stand.ask("/h/eve/hooks/wake?a=1", method="POST", body=b'{"n":1}')
    assert len(stand.book.letters) == 3
    (home, key), data = next(iter(stand.book.letters.items()))
    call = msgspec.msgpack.decode(data, type=Call)
    assert (home, key) == ("eve", "hook:hooks/wake:7")
    assert (call.method, call.path, call.body, call.client) == ("POST", "/hooks/wake?a=1", b'{"n":1}', "")
    assert dict(call.headers)["authorization"] == "Bearer t" and SECRET not in dict(call.headers)
    stand.book.full = True
    assert (await stand.ask("/h/eve/hooks/x", method="POST", body=b"{}"))[0] == 507


async def test_a_web_hook_that_the_home_cannot_take_is_kept(stand: Stand) -> None:
    stand.owner.status = 503
    assert (await stand.ask("/h/ada/hooks/x", method="POST", body=b"{}"))[0] == 202
    assert (await stand.ask("/h/ada/other", method="POST", body=b"{}"))[0] == 503
    stand.owner.status = 401
    assert (await stand.ask("/h/ada/hooks/x", method="POST", body=b"{}"))[0] == 401
    assert len(stand.book.letters) == 1
    assert next(iter(stand.book.letters))[1] == stand.owner.seen[0][2][edges.IDENT]  # taken twice, it counts once


async def test_a_flood_costs_only_the_home_that_it_is_for(stand: Stand) -> None:
    stand.home("eve", Quota(messages_per_second=0.01))
    stand.home("bob")
    answers = await asyncio.gather(*(stand.ask("/h/eve/x") for _ in range(50)))
    assert sorted(status for status, *_ in answers) == [200] + [429] * 49
    assert all("retry-after" in headers for status, _, headers in answers if status == 429)
    assert (await stand.ask("/h/bob/x"))[0] == 200
    assert len(stand.owner.seen) == 2


async def test_an_upload_beyond_the_quota_never_reaches_a_worker(stand: Stand) -> None:
    stand.home("eve", Quota(upload_bytes=1000))
    assert (await stand.ask("/h/eve/x", method="POST", body=b"x" * 1001))[0] == 413
    host, port = stand.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /h/eve/x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):  # it never says how much it will be
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()
    with contextlib.suppress(ConnectionError):
        assert b" 413 " in await reader.readline()
    writer.close()
    assert stand.owner.seen == []
    await until(lambda: stand.edge.held_bytes == 0)
    assert (await stand.ask("/h/ada/x", method="POST", body=b"x" * 1001))[0] == 200


async def test_connections_of_one_home_leave_room_for_the_others(stand: Stand) -> None:
    stand.home("eve", Quota(connections=3))
    open_replies = [await stand.http.request("GET", stand.url + "/h/eve/events") for _ in range(3)]
    assert (await stand.ask("/h/eve/x"))[0] == 429
    assert (await stand.ask("/h/ada/x"))[0] == 200
    stand.owner.go.set()
    for reply in open_replies:
        await reply.read(100)
        await reply.close()
    async with asyncio.timeout(60):
        while (await stand.ask("/h/eve/x"))[0] != 200:
            await asyncio.sleep(0.05)


def socket_of(stand: Stand, home: str, **more: Any) -> Any:
    return connect(f"ws{stand.url.removeprefix('http')}/h/{home}/ws?a=1", proxy=None, **more)


async def test_a_socket_speaks_both_ways_and_is_told_to_come_again(stand: Stand) -> None:
    async with socket_of(stand, "ada", subprotocols=["one"], additional_headers={"x-homarus-home": "bob"}) as client:
        assert client.subprotocol == "one"
        await client.send("hello")
        assert await client.recv() == "hello"
        await client.send(b"\x00\xff")
        assert await client.recv() == b"\x00\xff"
        await client.send("x" * 200_000)
        assert len(await client.recv()) == 200_000
        await client.send("leave")
        with pytest.raises(ConnectionClosed) as ended:
            await client.recv()
    assert ended.value.rcvd is not None and (ended.value.rcvd.code, ended.value.rcvd.reason) == (1012, "moved")
    path, query, sent, _ = stand.owner.seen[0]
    assert (path, query, sent[HOME], sent[SECRET]) == ("/ws", "a=1", "ada", FLEET.secret)
    await until(lambda: stand.edge.connections == 0)


async def test_a_stranger_sends_no_large_message(stand: Stand) -> None:
    async with socket_of(stand, "ada") as client:
        await client.send("x" * 200_000)
        with pytest.raises(ConnectionClosed) as ended:
            await client.recv()
    assert ended.value.rcvd is not None and ended.value.rcvd.code == 1009


async def test_a_socket_waits_for_a_new_owner_and_a_refusal_is_told(stand: Stand) -> None:
    stand.book.known["eve"] = Place(Quota(), "http://127.0.0.1:1")
    stand.book.then = [lambda: None, lambda: stand.home("eve")]
    async with socket_of(stand, "eve") as client:
        await client.send("hello")
        assert await client.recv() == "hello"
    with pytest.raises(InvalidStatus) as refused:
        async with socket_of(stand, "nobody"):
            pass
    assert refused.value.response.status_code == 404


async def test_a_flood_through_a_socket_is_slowed_and_loses_nothing(stand: Stand) -> None:
    stand.home("eve", Quota(messages_per_second=100))
    ticks = itertools.count()
    stand.edge._pace = Pace(lambda: next(ticks) / 1000)  # on a slow machine nothing would be too quick
    async with socket_of(stand, "eve") as client:
        for number in range(260):  # a burst is two seconds' worth
            await client.send(str(number))
        got = [await client.recv() for _ in range(260)]
    assert got == [str(number) for number in range(260)]
    assert stand.edge.counts["websocket", "slowed"] > 0


@contextlib.asynccontextmanager
async def stopped(stand: Stand, home: str) -> AsyncIterator[list[bytes]]:
    """An owner that the kernel still lets people connect to, and that never says a word, as one that was stopped."""
    heard: list[bytes] = []

    async def silent(reader: Any, writer: Any) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                heard.append(data)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    stand.book.known[home] = Place(Quota(), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 1)
    stand.edge.watch.every = 0.01
    try:
        yield heard
    finally:
        server.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("there", ["another", "the same again", "nobody", "no home"])
async def test_a_socket_whose_worker_is_owner_no_more_is_told_to_come_again(there: str, stand: Stand) -> None:
    stand.edge.watch.every = 0.01
    async with asyncio.timeout(60), socket_of(stand, "ada") as client:
        await client.send("hello")
        assert await client.recv() == "hello"
        stand.book.away = True  # while nobody can be asked, nobody is thought to be gone
        looks = stand.book.looks
        await until(lambda: stand.book.looks > looks + MISSES)
        stand.book.away = False
        await client.send("still")
        assert await client.recv() == "still"
        place = stand.book.known.pop("ada")
        changed = {
            "another": Place(Quota(), "http://127.0.0.1:1", 2),
            "the same again": Place(Quota(), place.address, 2),
        }
        if there != "no home":
            stand.book.known["ada"] = changed.get(there, Place(Quota()))
        with pytest.raises(ConnectionClosed) as ended:
            await client.recv()
    assert ended.value.rcvd is not None and ended.value.rcvd.code == 1012
    await until(lambda: stand.edge.connections == 0)


async def test_an_owner_that_is_away_for_one_look_keeps_its_sockets(stand: Stand) -> None:
    stand.edge.watch.every = 0.01
    async with asyncio.timeout(60), socket_of(stand, "ada") as client:
        held = stand.book.known["ada"]
        asked = stand.book.places

        async def once(homes: Sequence[str]) -> dict[str, Place]:
            stand.edge.watch._places = asked
            return {"ada": Place(held.quota)}

        stand.edge.watch._places = once
        looks = stand.book.looks
        await until(lambda: stand.book.looks > looks + MISSES)
        await client.send("still")
        assert await client.recv() == "still"


async def test_what_waits_for_a_stopped_owner_goes_to_the_next_one(stand: Stand) -> None:
    async with asyncio.timeout(60), stopped(stand, "eve") as heard:
        reading = asyncio.ensure_future(stand.ask("/h/eve/x"))
        paying = asyncio.ensure_future(stand.ask("/h/eve/pay", method="POST", body=b"pay"))
        talking = asyncio.ensure_future(socket_of(stand, "eve", open_timeout=60).__aenter__())
        await until(lambda: len(heard) >= 3 and b"pay" in b"".join(heard))
        stand.home("eve")
        assert (await reading)[0] == 200
        status, body, _ = await paying
        assert status == 502 and b"look whether" in body
        client = await talking
        await client.send("hello")
        assert await client.recv() == "hello"
        await client.close()
    assert "/pay" not in [path for path, *_ in stand.owner.seen]


async def test_an_answer_that_an_owner_does_not_end_is_ended(stand: Stand) -> None:
    stand.edge.watch.every = 0.01
    reply = await stand.http.request("GET", f"{stand.url}/h/ada/events")
    assert await reply.next() == b"first"
    stand.book.known["ada"] = Place(Quota(), "http://127.0.0.1:1", 2)
    with pytest.raises(HttpError):
        async with asyncio.timeout(60):
            while await reply.next():
                pass
    await reply.close()
    stand.owner.go.set()


async def test_its_own_pages(stand: Stand) -> None:
    await stand.ask("/h/ada/x")
    assert (await stand.ask("/healthz"))[:2] == (200, b"ok\n")
    assert (
        b'requests_total{kind="http",outcome="200"} 1'
        in (await stand.ask("/metrics", authorization=f"Bearer {FLEET.secret}"))[1]
    )
    assert (await stand.ask("/metrics", authorization="Bearer x"))[0] == 404
    stand.edge.stopping = True
    assert (await stand.ask("/h/ada/x"))[0] == 503


@given(st.lists(st.floats(0, 5), max_size=60), st.floats(0.1, 50))
def test_no_pace_is_beaten(steps, rate):
    now = 0.0
    pace, taken = Pace(lambda: now), 0
    for step in steps:
        now += step
        taken += pace.wait("a", rate) == 0
    assert taken <= max(1, rate * edges.BURST) + now * rate + 1e-6
