"""Who comes in, and what the others are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import ADMIN, Key, Served, served
from tests.scenarios.home import House

READ, WRITE = "operator.read", "operator.write"


@pytest.fixture
async def home(tmp_path: Path):
    async with served(House(tmp_path)) as found:
        yield found


async def test_a_client_with_the_token_is_let_in(home: Served) -> None:
    async with home.client() as client:
        hello = client.hello
        assert (hello["type"], hello["protocol"]) == ("hello-ok", 4)
        assert set(hello["auth"]["scopes"]) >= {READ, WRITE}
        assert {"health", "system-presence"} <= set(hello["features"]["methods"])
        assert (await client.call("health"))["ok"] is True


@pytest.mark.parametrize(
    ("said", "code", "close"),
    [
        ({"token": "wrong"}, "AUTH_TOKEN_MISMATCH", 1008),
        ({"token": None}, "DEVICE_IDENTITY_REQUIRED", 1008),
        ({"minProtocol": 1, "maxProtocol": 3}, "PROTOCOL_MISMATCH", 1002),
        ({"ident": "openclaw-control-ui", "mode": "webchat"}, "CONTROL_UI_ORIGIN_NOT_ALLOWED", 1008),
    ],
)
async def test_others_are_told_why_not(home: Served, said: dict[str, Any], code: str, close: int) -> None:
    async with home.socket() as client:
        answer = await client.connect(**said)
        assert answer["error"]["details"]["code"] == code
        assert (await client.closed())[0] == close


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("no json", 1000),
        (json.dumps({"type": "req", "id": "1", "method": "health"}), 1008),
        (json.dumps({"type": "req", "id": "1", "method": "connect", "params": {"minProtocol": 4, "x": 1}}), 1008),
        ("x" * 70_000, 1009),
    ],
)
async def test_a_first_frame_that_is_no_greeting_closes_the_socket(home: Served, frame: str, code: int) -> None:
    async with home.socket() as client:
        await client.raw.send(frame)
        assert (await client.closed())[0] == code


async def test_bigger_frames_count_only_after_the_greeting(home: Served) -> None:
    async with home.client() as client:
        answer = await client.ask("health", {"x": "y" * 200_000})
        assert "unexpected property 'x'" in answer["error"]["message"]


@pytest.mark.parametrize(("ident", "mode"), [("cli", "probe"), ("cli", "backend"), ("test", "test")])
async def test_without_a_device_only_two_kinds_of_programs_may_do_anything(home: Served, ident: str, mode: str) -> None:
    async with home.client(ident=ident, mode=mode) as client:
        assert client.hello["auth"]["scopes"] == []
        error = (await client.ask("health"))["error"]
        assert (error["code"], error["details"]["missingScope"]) == ("FORBIDDEN", READ)


@pytest.mark.parametrize("dialect", ["v2", "v3"])
async def test_a_device_on_this_machine_is_paired_and_comes_back_with_its_token(home: Served, dialect: str) -> None:
    key, asked = Key(dialect), (READ, WRITE)
    async with home.client(ident="openclaw-tui", mode="ui", device=key, scopes=asked) as client:
        token = client.hello["auth"]["deviceToken"]
    async with home.client(
        ident="openclaw-tui", mode="ui", device=key, scopes=asked, auth={"deviceToken": token}
    ) as client:
        assert set(client.hello["auth"]["scopes"]) >= set(asked)
        assert client.hello["auth"]["method"] == "device-token"


async def test_nobody_gets_more_than_the_secret_gives(home: Served) -> None:
    async with home.client(scopes=ADMIN) as client:
        granted = client.hello["auth"]["scopes"]
    assert WRITE in granted
    assert not {"operator.admin", "operator.pairing"} & set(granted)


async def test_a_signature_of_another_challenge_is_none(home: Served) -> None:
    key = Key()
    async with home.socket() as client:
        challenge = await client.event("connect.challenge")
        stale = {**challenge, "nonce": "another"}
        named = {"id": "openclaw-tui", "mode": "ui", "platform": "linux"}
        hello: dict[str, Any] = {"client": named, "auth": {}, "role": "operator", "scopes": []}
        frame = {"minProtocol": 4, "maxProtocol": 4, **hello, "device": key.proof(hello, stale)}
        answer = await client.ask("connect", frame)
        assert answer["error"]["details"]["code"] == "DEVICE_AUTH_NONCE_MISMATCH"
