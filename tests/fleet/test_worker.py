import asyncio
import json
import os
import socket
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.fleet.homes import DEVICE, pair
from tests.fleet.model import ModelServer, settings
from tests.fleet.postgres import running
from tests.gateway.served import TOKEN, Wire
from websockets.asyncio.client import connect

from homarus.fleet.database import Database
from homarus.fleet.homes import take_out
from homarus.fleet.objects import Folder, Store
from homarus.fleet.placement import Letter, Mail, Placement
from homarus.fleet.rows import HomeVolume
from homarus.fleet.served import Call, packed
from homarus.fleet.worker import Worker
from homarus.gateway import wire
from homarus.gateway.settings import GatewaySettings

SECRET = "a secret that edge and workers share"


@pytest.fixture
def model():
    server = ModelServer()
    yield server
    server.close()


async def until(condition, seconds: float = 300.0):
    """Wait for something that comes about, however slow the machine is."""
    async with asyncio.timeout(seconds):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found


async def made(database, home: str, model: ModelServer, tmp_path: Path, **more) -> None:
    """Make a home whose configuration stands in its rows."""
    operator = Placement(database, "operator")
    await operator.join("nowhere")
    await operator.add(home)
    lease = await operator.take(home)
    folder = tmp_path / "made" / home
    (folder / ".openclaw").mkdir(parents=True)
    volume = HomeVolume(database, lease, Path(os.path.realpath(folder)))
    (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(settings(model.port, TOKEN, **more)))
    pair(folder)
    await asyncio.to_thread(volume.settle)
    await operator.release([lease])
    await operator.leave()


class Served:
    def __init__(self, worker: Worker, port: int) -> None:
        self.worker, self.port = worker, port

    def headers(self, home: str) -> dict[str, str]:
        return {"x-homarus-home": home, "x-homarus-fleet": SECRET, "x-homarus-client": "192.0.2.1"}

    @asynccontextmanager
    async def client(self, home: str):
        url = f"ws://127.0.0.1:{self.port}/"
        async with connect(url, additional_headers=self.headers(home), proxy=None, compression=None) as raw:
            client = Wire(raw)
            assert (await client.connect(TOKEN, device=DEVICE))["ok"]
            yield client

    async def ask(self, home: str, text: str, session: str = "main", **more) -> dict:
        async with self.client(home) as client:
            return await said(client, text, session, **more)


async def said(client: Wire, text: str, session: str = "main", **more) -> dict:
    begun = await client.call("agent", {"message": text, "sessionKey": session, "idempotencyKey": text, **more})
    return await client.call("agent.wait", {"runId": begun["runId"], "timeoutMs": 60_000})


@asynccontextmanager
async def working(database, name: str, root: Path, **given):
    worker = Worker(database, name, root, secret=SECRET, env=os.environ, **given)
    port = socket.create_server(("127.0.0.1", 0))
    port.setblocking(False)
    server = wire.server(worker, GatewaySettings(), None)
    serving = asyncio.ensure_future(server.serve(sockets=[port]))
    await server.up.wait()
    await worker.start(f"http://127.0.0.1:{port.getsockname()[1]}")
    try:
        yield Served(worker, port.getsockname()[1])
    finally:
        if not worker.ended.is_set():
            await worker.stop(0)
        server.should_exit = True
        await serving


async def test_a_home_is_opened_by_its_first_message_and_closed_when_nobody_needs_it(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    async with working(database, "one", tmp_path / "one", idle_seconds=0.2) as one:
        await until(lambda: "ada" in one.worker.held)
        assert not one.worker.open
        assert (await one.ask("ada", "word1"))["status"] == "ok"
        await until(lambda: not one.worker.open and not (tmp_path / "one" / "ada").exists())
    lines = b"".join(
        row["bytes"] for row in database.rows("select bytes from line where path like '%sessions/%' order by at")
    )
    assert b"re: word1" in lines


async def test_a_worker_ends_though_the_database_is_away(model, tmp_path):
    with running("-c", "fsync=off") as server, Database(server.dsn()) as database:
        database.migrate()
        await made(database, "ada", model, tmp_path)
        async with working(database, "one", tmp_path / "one") as one:
            await until(lambda: "ada" in one.worker.held)
            async with one.client("ada") as client:
                await said(client, "word1")
                await asyncio.to_thread(server.kill)
                asked = asyncio.ensure_future(said(client, "word2"))  # which waits for a commit that does not come
                await until(lambda: one.worker.open["ada"].busy and not one.worker._steady)
                # Two of its waits would take a minute each where nobody cuts them off.
                async with asyncio.timeout(110):
                    await one.worker.stop(0.1, goodbye=0.1)
                assert one.worker.ended.is_set()
                asked.cancel()


async def test_long_logs_are_sealed_when_a_home_rests_and_are_the_same_afterwards(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    path, line = ".openclaw/agents/main/sessions/old.jsonl", b'{"old":"' + b"x" * 100_000 + b'"}\n'
    operator = Placement(database, "operator")
    await operator.join("nowhere")
    lease = await operator.take("ada")
    volume = HomeVolume(database, lease, tmp_path / "unused")
    for number in range(12):
        await asyncio.to_thread(volume.append, path, number * len(line), line, 0o600, durable=True)
    await operator.leave()
    store = Store(Folder(tmp_path / "objects"))
    async with working(database, "one", tmp_path / "one", idle_seconds=0.2, objects=store) as one:
        await until(lambda: "ada" in one.worker.held)
        for word in ("word1", "word2"):
            assert (await one.ask("ada", word))["status"] == "ok"
            await until(lambda: not one.worker.open)
            assert database.rows("select object from file where path = $1", path)[0]["object"]
            assert not database.rows("select 1 from line where path = $1", path)
    await asyncio.to_thread(take_out, database, store, "ada", tmp_path / "out")
    assert (tmp_path / "out" / path).read_bytes() == line * 12
    store.close()


async def test_the_next_owner_goes_on_where_the_last_one_was(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    async with working(database, "one", tmp_path / "one") as one:
        await until(lambda: "ada" in one.worker.held)
        await one.ask("ada", "word1")
    async with working(database, "two", tmp_path / "two") as two:
        await until(lambda: "ada" in two.worker.held)
        async with two.client("ada") as client:
            await said(client, "word2")
            found = await client.call("chat.history", {"sessionKey": "main"})
    texts = json.dumps(found["messages"])
    assert texts.index("word1") < texts.index("word2")


def logged(database) -> bytes:
    return b"".join(row["bytes"] for row in database.rows("select bytes from line"))


async def test_a_turn_that_an_upgrade_cuts_off_goes_on_with_the_next_owner(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    model.seconds = 600.0
    async with working(database, "one", tmp_path / "one") as one:
        await until(lambda: "ada" in one.worker.held)
        async with one.client("ada") as client:
            await client.call("agent", {"message": "word1", "sessionKey": "main", "idempotencyKey": "1"})
            await until(lambda: model.asked["word1"])
    assert b"settled" not in logged(database)
    model.seconds = 0.02
    async with working(database, "two", tmp_path / "two"):  # nobody says anything to it
        await until(lambda: b"re: word1" in logged(database))
    assert model.asked["word1"] == 2


async def test_a_home_on_its_way_out_takes_no_letter_and_loses_none(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    async with working(database, "one", tmp_path / "one") as one:
        await until(lambda: "ada" in one.worker.held)
        await one.ask("ada", "word1")
        served = one.worker.open["ada"]
        call = Letter("ada", "hook:telegram-webhook:1", letter("/telegram-webhook", {}, b"{}"))
        assert await served.deliver(call), "no account is called here, so nobody will ever take it"
        served.gateway.stopping = "the home moves"
        assert not await served.deliver(call), "whether one is called here the next owner knows"
        gateway, served.gateway = served.gateway, None
        assert not await served.deliver(call)
        served.gateway = gateway


async def test_nothing_is_answered_without_the_secret_or_for_a_home_of_somebody_else(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    async with working(database, "one", tmp_path / "one") as one:

        def status(**headers):
            request = urllib.request.Request(f"http://127.0.0.1:{one.port}/healthz", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status
            except urllib.error.HTTPError as problem:
                return problem.code

        await until(lambda: "ada" in one.worker.held)
        assert await asyncio.to_thread(status) == 403
        assert await asyncio.to_thread(status, **{"x-homarus-home": "ada", "x-homarus-fleet": "guess"}) == 403
        assert await asyncio.to_thread(status, **one.headers("eve")) == 421
        assert await asyncio.to_thread(status, **one.headers("ada")) == 200


async def test_a_home_that_was_taken_away_is_dropped_and_says_nothing_more(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    model.seconds = 1.0
    async with working(database, "one", tmp_path / "one") as one:
        await until(lambda: "ada" in one.worker.held)
        async with one.client("ada") as client:
            await client.call("agent", {"message": "word1", "sessionKey": "main", "idempotencyKey": "1"})
            await until(lambda: model.asked)
            database.rows("insert into worker values ('thief', '', 1, now(), now() + interval '1 hour')")
            database.rows("update lease set epoch = epoch + 1, worker = 'thief' where home = 'ada'")
            code, _ = await client.closed()
            assert code == 1012
            assert not any("re: word1" in json.dumps(event) for event in client.events)
        await until(lambda: "ada" not in one.worker.held and not one.worker.open)
        lines = b"".join(row["bytes"] for row in database.rows("select bytes from line"))
        assert b"word1" in lines
        assert b"re: word1" not in lines


async def test_mail_that_came_while_nobody_was_there_is_taken_in_once(database, model, tmp_path):
    hooks = {"hooks": {"enabled": True, "token": "a-hook-token-of-some-length"}}
    await made(database, "ada", model, tmp_path, **hooks)
    headers = {"authorization": "Bearer a-hook-token-of-some-length", "content-type": "application/json"}
    body = letter("/hooks/agent", headers, json.dumps({"message": "hook1", "name": "test"}).encode())
    for _ in range(2):
        assert await Mail(database).leave(Letter("ada", "hook:1", body))
    async with working(database, "one", tmp_path / "one") as one:
        await until(lambda: model.asked["hook1"] and not database.rows("select 1 from mail"))
        await Mail(database).leave(Letter("ada", "hook:1", body))  # sent again by somebody who did not hear us
        await until(lambda: not database.rows("select 1 from mail"))
        await until(lambda: one.worker.open["ada"].gateway.runtime.lanes.idle)
    assert model.asked["hook1"] == 1


def letter(path: str, headers: dict[str, str], body: bytes) -> bytes:
    return packed(Call("POST", path, list(headers.items()), body))


async def test_a_sleeping_home_is_woken_by_its_own_clock(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    async with working(database, "one", tmp_path / "one", idle_seconds=0.2) as one:
        await until(lambda: "ada" in one.worker.held)
        async with connect(f"ws://127.0.0.1:{one.port}/", additional_headers=one.headers("ada"), proxy=None) as raw:
            admin = Wire(raw)
            scopes = ("operator.admin", "operator.read", "operator.write")
            assert (await admin.connect(TOKEN, scopes=scopes, device=DEVICE))["ok"]
            job = {
                "name": "tick", "schedule": {"kind": "every", "everyMs": 3000}, "sessionTarget": "isolated",
                "wakeMode": "now", "payload": {"kind": "agentTurn", "message": "tick1"}, "delivery": {"mode": "none"},
            }  # fmt: skip
            await admin.call("cron.add", job)
        await until(lambda: not one.worker.open)
        assert database.rows("select 1 from timer")
        before = model.asked["tick1"]
        await until(lambda: model.asked["tick1"] > before)


async def test_a_move_and_a_drain_hand_homes_over(database, model, tmp_path):
    for home in ("ada", "bob"):
        await made(database, home, model, tmp_path)
    async with working(database, "one", tmp_path / "one") as one:
        await until(lambda: len(one.worker.held) == 2)
        async with working(database, "two", tmp_path / "two") as two:
            await one.worker.placement.move("ada", "two")
            await until(lambda: "ada" in two.worker.held and "ada" not in one.worker.held)
            await one.worker.placement.drain("two")
            await until(lambda: not two.worker.held)
            await until(lambda: len(one.worker.held) == 2)


async def test_a_second_worker_of_the_same_name_ends_the_first(database, model, tmp_path):
    await made(database, "ada", model, tmp_path)
    async with working(database, "one", tmp_path / "first") as first:
        await until(lambda: "ada" in first.worker.held)
        async with working(database, "one", tmp_path / "second") as second:
            await until(first.worker.ended.is_set)
            await until(lambda: "ada" in second.worker.held)
            assert not first.worker.held
