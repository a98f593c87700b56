"""What must not delay or break anything, on the real adapters of every platform: a missing library, a missing key, a server that is
not there or says nothing. What must not open anything is in `foes`, which every platform plays."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.channels.contract import until
from tests.channels.fake.platform import MANIFEST as FAKE
from tests.channels.fake.platform import FakeRig

from homarus.channels.channel import Manifest
from homarus.channels.discovery import lacks, load_entry, manifests
from homarus.channels.manager import ChannelManager
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock

FLOOD = 1000


# Every platform: a library, a key or a server that is not there.

AWAY = "127.0.0.1"
SERVERS: dict[str, dict[str, Any]] = {
    "telegram": {"botToken": "4242:AAfakefakefakefakefakefakefakefakefake", "apiRoot": f"http://{AWAY}:9"},
    "discord": {"token": "MTAw.fake.token", "proxy": f"http://{AWAY}:9"},
    "slack": {"botToken": "xoxb-1", "appToken": "xapp-1", "proxy": f"http://{AWAY}:9"},
    "signal": {"account": "+15550000", "httpUrl": f"http://{AWAY}:9"},
    "matrix": {"homeserver": f"http://{AWAY}:9", "accessToken": "x"},
    "irc": {"host": AWAY, "port": 9, "nick": "helper", "tls": False},
    "email": {
        "address": "a@b.example",
        "authservId": "mx.b.example",
        "password": "x",
        "imapHost": AWAY,
        "imapPort": 9,
        "smtpHost": AWAY,
        "smtpPort": 9,
    },
    "xmpp": {"jid": "a@localhost", "password": "x", "host": AWAY, "port": 9},
    "whatsapp": {
        "phoneNumberId": "42",
        "accessToken": "x",
        "appSecret": "x",
        "verifyToken": "x",
        "apiRoot": f"http://{AWAY}:9",
    },
}


@contextlib.asynccontextmanager
async def beside_a_healthy_one(
    folder: Path, manifest: Manifest, block: dict[str, Any]
) -> AsyncIterator[ChannelManager]:
    """The platform that is in trouble, and one that is not."""
    healthy = FakeRig()
    document = {"channels": {manifest.id: block, "fake": healthy.settings()}}
    (folder / "openclaw.json").write_bytes(msgspec.json.encode(document))
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}
    config = inspect_config(resolve_paths(env), env)

    async def nothing(_given: Any) -> None: ...

    def opener(wanted: Manifest) -> Any:
        return healthy.opener(wanted) if wanted.id == "fake" else load_entry(wanted)

    known = {manifest.id: manifest, "fake": FAKE}
    manager = ChannelManager(config, env, folder / "own", nothing, nothing, SystemClock(), known=known, opener=opener)
    try:
        await manager.start()
        yield manager
    finally:
        await manager.stop()


def installed(name: str) -> Manifest:
    if lacks(manifests()[name])[0]:
        pytest.skip(" ".join(lacks(manifests()[name])))
    return manifests()[name]


def row(manager: ChannelManager, channel: str) -> Any:
    return next(status for status in manager.status() if status.channel == channel)


@pytest.mark.parametrize("name", sorted(set(manifests()) & set(SERVERS)))
async def test_a_server_that_is_not_there_is_said_and_harms_nobody(name: str, tmp_path: Path) -> None:
    manifest = installed(name)
    async with beside_a_healthy_one(tmp_path, manifest, SERVERS[name]) as manager:
        await until(lambda: row(manager, "fake").connected)
        await until(lambda: row(manager, name).last_error)
        told = row(manager, name)
        assert not told.connected
        assert row(manager, "fake").connected
        # It says what to look at: the setting that leads there, or how the server is started.
        assert any(key in told.cure for key in (*manifest.address, "start it:")), told


@pytest.mark.parametrize("name", sorted(set(manifests()) & set(SERVERS)))
async def test_a_server_that_says_nothing_delays_and_harms_nobody(name: str, tmp_path: Path) -> None:
    with socket.create_server((AWAY, 0)) as silent:
        port = silent.getsockname()[1]
        block = {key: f"http://{AWAY}:{port}" if value == f"http://{AWAY}:9" else port if value == 9 else value
                 for key, value in SERVERS[name].items()}  # fmt: skip
        async with beside_a_healthy_one(tmp_path, installed(name), block) as manager:
            await until(lambda: row(manager, "fake").connected)
            await until(lambda: row(manager, name).running or row(manager, name).last_error)
            assert not row(manager, name).connected


@pytest.mark.parametrize("name", sorted(manifests()))
def test_every_platform_has_a_server_in_these_tests_and_says_what_leads_there(name: str) -> None:
    assert name in SERVERS
    assert set(manifests()[name].address) <= set(manifests()[name].settings)
    assert manifests()[name].address


@pytest.mark.parametrize("name", sorted(manifests()))
async def test_a_library_that_is_missing_is_said_with_its_cure(name: str, tmp_path: Path) -> None:
    manifest = replace(manifests()[name], needs=("a_library_that_nobody_has",), extra=name)
    async with beside_a_healthy_one(tmp_path, manifest, SERVERS.get(name, {})) as manager:
        await until(lambda: row(manager, "fake").connected)
        await until(lambda: row(manager, name).last_error)
        assert "homarus[" in row(manager, name).cure
        assert "a_library_that_nobody_has" not in sys.modules


@pytest.mark.parametrize("name", sorted(name for name in manifests() if name != "whatsapp"))
async def test_a_key_that_is_missing_is_said_with_its_cure(name: str, tmp_path: Path) -> None:
    async with beside_a_healthy_one(tmp_path, installed(name), {"enabled": True}) as manager:
        await until(lambda: row(manager, "fake").connected)
        await until(lambda: row(manager, name).last_error)
        assert row(manager, name).cure
