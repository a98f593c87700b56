"""Nobody who comes through the fleet's door is on a worker's machine: the first device of a home comes in by an invitation, once."""

import asyncio
import contextlib
from typing import Any

import pytest
from tests.fleet.homes import DEVICE, taken
from tests.fleet.test_edge import served
from tests.fleet.test_worker import SECRET, made, model, until, working  # noqa: F401 - a fixture
from tests.gateway.served import ADMIN, TOKEN, Key, Wire
from websockets.asyncio.client import connect

from homarus.core.errors import ConfigError, Unknown
from homarus.fleet.directory import Directory
from homarus.fleet.edge import Edge
from homarus.fleet.homes import UNFINISHED, invite
from homarus.fleet.settings import Fleet
from homarus.net.client import HttpClient

FLEET = Fleet(secret=SECRET, domain="agents.example")
PAGE = {"ident": "homarus-web", "mode": "ui"}


@contextlib.asynccontextmanager
async def door(database, home: str = "ada"):
    """Give what opens a socket to a home by its name, as a browser's page or as a program; `path` leads to it by a path instead."""
    http = HttpClient()

    @contextlib.asynccontextmanager
    async def opened(origin: str | None = None, path: str = "/", host: str = f"{home}.agents.example"):
        port = int(edge.rpartition(":")[2])
        given: dict[str, Any] = {"host": "127.0.0.1", "port": port, "origin": origin, "proxy": None}
        async with connect(f"ws://{host}{path}", compression=None, open_timeout=120, **given) as raw:
            yield Wire(raw)

    async with served(Edge(FLEET, Directory(database, FLEET), http, patience=60)) as edge:
        yield opened
    await http.aclose()


def refused(answer: dict[str, Any]) -> str:
    assert not answer["ok"], answer
    return str(answer["error"]["details"]["code"])


async def invited(database, home: str = "ada", seconds: float = 600) -> dict[str, Any]:
    return await asyncio.to_thread(invite, database, home, seconds=seconds, patience=120)


async def test_nobody_who_comes_through_the_door_is_local(database, model, tmp_path):  # noqa: F811
    limit = {"maxAttempts": 3, "windowMs": 86_400_000, "lockoutMs": 86_400_000}  # however slow the machine is
    await made(database, "ada", model, tmp_path, gateway={"auth": {"token": TOKEN, "rateLimit": limit}})
    async with working(database, "one", tmp_path / "one") as one, door(database) as opened:
        async with opened() as client:
            assert refused(await client.connect(TOKEN)) == "DEVICE_IDENTITY_REQUIRED"
        async with opened() as client:
            assert refused(await client.connect(TOKEN, device=Key())) == "PAIRING_REQUIRED"
        async with opened() as client:
            assert (await client.connect(TOKEN, device=DEVICE))["ok"]
        gateway = one.worker.open["ada"].gateway
        [waits] = gateway.devices.read().pending.values()
        assert (
            waits.remote_ip == ""
        )  # a letter and an old edge may still say where a client's socket was: it counts for nothing
        for _ in range(limit["maxAttempts"]):
            async with opened() as client:
                await client.connect("wrong", device=Key())
        async with opened() as client:  # and nobody is spared for being near
            assert refused(await client.connect("wrong", device=Key())) == "AUTH_RATE_LIMITED"
        headers = one.headers("ada") | {"x-homarus-client": "127.0.0.1"}
        async with connect(f"ws://127.0.0.1:{one.port}/", additional_headers=headers, proxy=None) as raw:
            assert refused(await Wire(raw).connect(TOKEN, device=Key())) == "AUTH_RATE_LIMITED"


async def test_an_invitation_lets_one_browser_in_and_its_owner_the_next(database, model, tmp_path):  # noqa: F811
    await made(database, "ada", model, tmp_path)
    page, origin = Key(), "https://ada.agents.example"
    async with working(database, "one", tmp_path / "one"), door(database) as opened:
        code = await invited(database)
        assert code["taken"]
        offer = {"bootstrapToken": code["token"]}
        for wrong in ("https://bob.agents.example", "https://agents.example", "https://ada.agents.example:444"):
            async with opened(wrong) as client:
                assert refused(await client.connect(auth=offer, device=page, **PAGE)) == "CONTROL_UI_ORIGIN_NOT_ALLOWED"
        async with opened(origin, "/h/ada/", "bob.agents.example") as client:  # a page of another home
            assert refused(await client.connect(auth=offer, device=page, **PAGE)) == "CONTROL_UI_ORIGIN_NOT_ALLOWED"
        async with opened(origin) as client:
            answer = await client.connect(auth=offer, device=page, scopes=ADMIN, **PAGE)
            assert answer["ok"] and "operator.admin" in client.hello["auth"]["scopes"]
            own = {"deviceToken": client.hello["auth"]["deviceToken"]}
        async with opened() as client:
            assert (
                refused(await client.connect(auth=offer, device=Key(), scopes=ADMIN)) == "AUTH_BOOTSTRAP_TOKEN_INVALID"
            )
        phone = Key()
        async with opened() as client:
            assert refused(await client.connect(TOKEN, device=phone)) == "PAIRING_REQUIRED"
        async with opened(origin) as client:
            assert (await client.connect(auth=own, device=page, scopes=ADMIN, **PAGE))["ok"]
            [waits] = (await client.call("device.pair.list"))["pending"]
            await client.call("device.pair.approve", {"requestId": waits["requestId"]})
        async with opened() as client:
            assert (await client.connect(TOKEN, device=phone))["ok"]


async def test_an_invitation_waits_for_a_worker_and_outlives_one(database, model, tmp_path):  # noqa: F811
    await made(database, "ada", model, tmp_path)
    before = await invited(database)
    assert not before["taken"]  # no worker is there, and so nobody waits for one
    late = await invited(database, seconds=-1)
    async with door(database) as opened:
        async with working(database, "one", tmp_path / "one"):
            await until(lambda: not database.rows("select 1 from mail"))
        async with working(database, "two", tmp_path / "two"):
            key = Key()
            async with opened() as client:
                offer = {"bootstrapToken": before["token"]}
                assert (await client.connect(auth=offer, device=key, scopes=ADMIN))["ok"]
                own = {"deviceToken": client.hello["auth"]["deviceToken"]}
        async with working(database, "three", tmp_path / "three"):
            async with opened() as client:
                assert (await client.connect(auth=own, device=key, scopes=ADMIN))["ok"]
            for spent in (before, late):
                async with opened() as client:
                    offer = {"bootstrapToken": spent["token"]}
                    assert refused(await client.connect(auth=offer, device=Key())) == "AUTH_BOOTSTRAP_TOKEN_INVALID"


def test_only_a_whole_home_invites(database):
    with pytest.raises(Unknown):
        invite(database, "ada", seconds=60)
    taken(database, "ada")
    database.rows("update home set format = $1", UNFINISHED)
    with pytest.raises(ConfigError, match="half"):
        invite(database, "ada", seconds=60)
    assert not database.rows("select 1 from mail")


async def test_what_the_database_keeps_of_an_invitation_opens_nothing(database):
    await asyncio.to_thread(taken, database, "ada")
    made_one = await asyncio.to_thread(invite, database, "ada", seconds=60, patience=0)
    [row] = database.rows("select key, body from mail")
    assert made_one["token"] not in row["key"] and made_one["token"].encode() not in bytes(row["body"])
