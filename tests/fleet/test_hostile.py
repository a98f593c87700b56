"""A tenant who means harm: a fork bomb, a full disk, a flood, a huge upload. What a neighbour has stays theirs, and they go on."""

import asyncio
import contextlib
import json
import os
from pathlib import Path

import pytest
from tests.fleet.test_cli import asked, file, process, until  # noqa: F401 - a fixture
from tests.fleet.test_upgrade import Talk, make

from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.routes import SessionKey
from homarus.fleet.settings import Quota
from homarus.fleet.tenancy import confine
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.resolve import Place, clean_environment, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Backend, SandboxSpec

QUOTA = Quota(processes=12, memory_mb=512, cpu_seconds=20, stored_bytes=8 << 20)
NUMBERS = "import os, sys\nnumber = 0\ntry:\n    while number < 400:\n        if os.fork() == 0:\n            os.read(0, 1); os._exit(0)\n        number += 1\nexcept OSError: pass\nprint(number)\nsys.stdout.flush()"


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    """Return the sandbox of a home whose settings open everything that can be opened."""
    folder = tmp_path / "homes" / "eve"
    workspace = folder / ".openclaw" / "workspace"
    workspace.mkdir(parents=True)
    bob = tmp_path / "homes" / "bob"
    bob.mkdir()
    (bob / "secret").write_text("4711")
    box = {
        "mode": "off",
        "network": "host",
        "binds": [f"{bob}:rw", "/tmp:rw"],
        "processes": 0,
        "diskMb": 0,
        "env": ["AWS_SECRET_ACCESS_KEY"],
    }
    document = {"agents": {"defaults": {"sandbox": box, "workspace": str(bob)}}}
    (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(folder), "AWS_SECRET_ACCESS_KEY": "4711"}
    config = load_config(resolve_paths(env), env)
    config.bound(lambda canonical: confine(canonical, folder, QUOTA))
    assert "workspace" not in config.document["agents"]["defaults"]
    if not any(map(available, (Backend.BWRAP, Backend.LANDLOCK))):
        pytest.skip("needs a sandbox (Debian: bubblewrap)")
    place = Place(SessionKey("main", "main"), workspace, folder, folder / ".openclaw")
    return resolve(config.agents[0].block("sandbox", SandboxSettings), place, available)


async def told(spec: SandboxSpec, *argv: str) -> str:
    env = clean_environment(spec, {"AWS_SECRET_ACCESS_KEY": "4711"}, {})
    output, _ = await run(
        spec, Order(argv, spec.workspace, env, "m-hostile"), limit=10_000, seconds=120, cancel=Cancel()
    )
    return output.decode("utf-8", "replace")


async def test_a_fork_bomb_stops_at_the_quota(spec: SandboxSpec) -> None:
    assert spec.backend in {Backend.BWRAP, Backend.LANDLOCK}
    said = (await told(spec, "/usr/bin/env", "python3", "-c", NUMBERS)).split()
    if not said or not said[-1].isdigit():
        pytest.skip("needs a python3 that the sandbox shows")
    assert 0 < int(said[-1]) <= QUOTA.processes + 4  # the wrapping takes a few itself


def test_whoever_fills_the_disk_is_ended_at_the_quota(spec: SandboxSpec) -> None:
    # That a command which takes more is ended is the business of tools; here the tenant had asked for no limit at all.
    assert spec.limits.disk_bytes == QUOTA.stored_bytes
    assert (spec.limits.processes, spec.limits.memory_bytes) == (QUOTA.processes, QUOTA.memory_mb << 20)


async def test_neither_a_neighbour_nor_a_secret_of_the_worker_is_seen(spec: SandboxSpec, tmp_path: Path) -> None:
    bob = tmp_path / "homes" / "bob"
    said = await told(
        spec, "/bin/sh", "-c", f"cat {bob}/secret; cat ../../../bob/secret; ls {bob}; env; echo x > {bob}/made"
    )
    assert "4711" not in said
    assert os.listdir(bob) == ["secret"]


@pytest.mark.deep
def test_a_flood_and_a_huge_upload_leave_the_neighbours_alone(file, tmp_path, capfd):  # noqa: F811 - the fixture
    for home in ("ada", "bob", "eve", "mallory"):
        asked(capfd, "import", home, str(make(tmp_path / home)))
    with contextlib.ExitStack() as running:
        _, edge = running.enter_context(process("edge", "--listen", "127.0.0.1:0"))
        running.enter_context(process("worker", "--name", "one"))
        until(lambda: asked(capfd, "status")["free"] == 0)
        talk, seen = Talk(edge), []
        host, port = edge.removeprefix("http://").split(":")

        async def flood() -> None:
            request = b"GET /h/mallory/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            for _ in range(100):
                opened = await asyncio.gather(
                    *(asyncio.open_connection(host, int(port)) for _ in range(100)), return_exceptions=True
                )
                for each in opened:
                    if not isinstance(each, BaseException):
                        each[1].write(request)
                for each in opened:
                    if not isinstance(each, BaseException):
                        with contextlib.suppress(ConnectionError):
                            seen.append((await each[0].readline()).split(b" ")[1:2])
                        each[1].close()

        async def upload() -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /h/mallory/v1/x HTTP/1.1\r\nhost: x\r\ncontent-length: 1073741824\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(16):
                    writer.write(bytes(1 << 20))
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                return await reader.readline()
            return b"HTTP/1.1 413 closed"

        async def story() -> None:
            async with talk.going_on():
                await talk.more(1)
                answer, _ = await asyncio.gather(upload(), flood())
                assert b" 413" in answer
                await talk.more(2)

        asyncio.run(story())
        assert talk.errors == []
        assert seen.count([b"429"]) > len(seen) // 2
