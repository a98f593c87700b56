"""The gateway as a process: it makes its secret, serves, is alone, tells clients when it goes, and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.gateway.served import Wire
from websockets.asyncio.client import connect, unix_connect


def start(home: Path, *more: str) -> subprocess.Popen[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "homarus", "gateway", "run", "--port", "0", *more]
    return subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if " port " in line:
            return int(line.split(" port ")[1].split()[0])
    raise AssertionError(process.communicate())


@pytest.fixture
def home():
    with tempfile.TemporaryDirectory(prefix="h") as short:  # a socket's path holds a hundred bytes
        folder = Path(short)
        (folder / ".openclaw").mkdir()
        process = start(folder)
        try:
            yield folder, process, port_of(process)
        finally:
            process.kill()
            process.communicate()


def test_from_the_first_start_to_the_end(home: tuple[Path, subprocess.Popen[str], int]) -> None:
    folder, process, port = home
    file, sock = folder / ".openclaw/openclaw.json", folder / ".openclaw/homarus/gateway.sock"
    token = json.loads(file.read_text())["gateway"]["auth"]["token"]
    assert len(token) >= 40
    assert stat.S_IMODE(sock.stat().st_mode) == 0o600
    second = start(folder)
    said = second.communicate(timeout=120)
    assert (second.returncode != 0, f"pid {process.pid}" in said[1], "gateway stop" in said[1]) == (True, True, True)

    async def talk() -> None:
        async with unix_connect(str(sock)) as raw:
            local = Wire(raw)
            await local.connect(None, scopes=())  # the kernel says who it is
            assert "operator.admin" in local.hello["auth"]["scopes"]
            async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as other:
                client = Wire(other)
                assert (await client.connect(token))["ok"]
                process.send_signal(signal.SIGTERM)
                assert (await client.event("shutdown"))["reason"] == "gateway stopping"
                assert await client.closed() == (1012, "service restart")

    asyncio.run(talk())
    assert process.wait(120) == 0
    assert not sock.exists()
    again = start(folder)
    try:
        assert port_of(again)  # nothing is left that would be in the way
        assert json.loads(file.read_text())["gateway"]["auth"]["token"] == token
        again.send_signal(signal.SIGINT)
        assert again.wait(120) == 0
    finally:
        again.kill()
        again.communicate()


def test_a_weak_secret_and_a_mode_without_one_are_named(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw/openclaw.json").write_text(
        '{ gateway: { bind: "lan", auth: { mode: "none", token: "short" } } }'
    )
    process = start(tmp_path)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 78
    assert "read as 'token'" in said
    assert "fewer than 24" in said
    assert "would show the token to everybody" in said


def test_a_port_that_is_taken_is_said(
    home: tuple[Path, subprocess.Popen[str], int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / ".openclaw").mkdir()
    second = start(other, "--port", str(home[2]))
    said = second.communicate(timeout=120)
    assert second.returncode != 0
    assert "--port" in said[1]
    assert "Traceback" not in said[1]
