"""A tenant who means harm: a fork bomb, a full disk, a flood, a huge upload. What a neighbour has stays theirs, and they go on."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.homes import DEVICE, pair
from tests.fleet.model import ModelServer, settings
from tests.fleet.test_cli import asked, file, process, until  # noqa: F401 - a fixture
from tests.gateway.served import TOKEN, Wire
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.routes import SessionKey
from homarus.fleet.settings import Quota
from homarus.fleet.tenancy import confine
from homarus.net.client import HttpClient
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


class Neighbour:
    """Somebody who goes on talking to their own home meanwhile, and what they notice of it."""

    def __init__(self, edge: str, home: str) -> None:
        self._url, self._home = f"{edge}/h/{home}/v1/chat/completions", home
        self.waits: list[float] = []
        self.errors: list[tuple[int, bytes]] = []
        self.over = False

    async def go_on(self) -> None:
        while not self.over:
            began = time.monotonic()
            status, said = await asked_for(self._url, f"word{len(self.waits)}")
            if status == 200 and f"re: word{len(self.waits)}".encode() in said:
                self.waits.append(time.monotonic() - began)
            else:
                self.errors.append((status, said[:200]))
            await asyncio.sleep(0.1)

    async def heard(self, more: int) -> str:
        """Wait for so many more answers, and say how long they took."""
        start = len(self.waits)
        async with asyncio.timeout(300):
            while len(self.waits) < start + more and not self.errors:
                await asyncio.sleep(0.05)
        waits = sorted(self.waits[start:])
        return (
            f"{len(waits)} answers, p50 {waits[len(waits) // 2]:.2f} s, longest {waits[-1]:.2f} s" if waits else "none"
        )


async def asked_for(url: str, text: str, session: str = "main") -> tuple[int, bytes]:
    http = HttpClient()
    headers = {
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json",
        "x-openclaw-session-key": session,
    }
    body = json.dumps({"model": "openclaw", "messages": [{"role": "user", "content": text}]}).encode()
    reply = await http.request("POST", url, headers=headers, body=[body])
    try:
        return reply.status, await reply.read(1 << 20)
    finally:
        await reply.close()
        await http.aclose()


def homes_of(tmp_path: Path, model: ModelServer, *names: str) -> Iterator[tuple[str, Path]]:
    for name in names:
        (tmp_path / name / ".openclaw").mkdir(parents=True)
        config = settings(model.port, TOKEN) | {"tools": {"exec": {"mode": "full"}}}
        (tmp_path / name / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
        pair(tmp_path / name)
        yield name, tmp_path / name


def size_of(folder: Path) -> int:
    """Return how large the files of a folder say that they are, while others may remove them."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(where, name).lstat().st_size
    return total


FORKS = "b() { b | b & }; b; sleep 3; echo over"
FILLS = "for i in $(seq 1 100); do head -c 4000000 /dev/zero > f$i; done"
HOLLOW = "truncate -s 3900000 h1; truncate -s 900000000000 h2; for i in $(seq 1 3000); do : > e$i; mkdir d$i; done"
MOST, RESERVE = 8 << 20, 16 << 20


@pytest.mark.deep
def test_commands_that_mean_harm_end_at_the_quota_and_the_neighbour_goes_on(file, dsn, tmp_path, capfd):  # noqa: F811
    model = ModelServer()
    if not any(map(available, (Backend.BWRAP, Backend.LANDLOCK))):
        pytest.skip("needs a sandbox (Debian: bubblewrap)")
    with contextlib.ExitStack() as running:
        running.callback(model.close)
        for home, folder in homes_of(tmp_path, model, "bob", "eve"):
            asked(capfd, "import", home, str(folder))
        asked(capfd, "quota", "eve", f"storedBytes={MOST}", "files=300", "processes=16", "cpuSeconds=20")
        _, edge = running.enter_context(process("edge", "--listen", "127.0.0.1:0"))
        worker, _ = running.enter_context(process("worker", "--name", "one"))
        until(lambda: asked(capfd, "status")["free"] == 0)
        bob, told = Neighbour(edge, "bob"), []

        async def story() -> None:
            talking = asyncio.ensure_future(bob.go_on())
            told.append(f"alone: {await bob.heard(5)}")
            for name, command in (("fork bomb", FORKS), ("disk fill", FILLS), ("many files", HOLLOW)):
                harm = asyncio.ensure_future(
                    asked_for(f"{edge}/h/eve/v1/chat/completions", f"run: {command}", name[:4])
                )
                told.append(f"{name}: {await bob.heard(5)}")
                status, _ = await harm
                assert status == 200, name
                # A command that takes long goes on beside its turn: at its own end nothing of what was too much stays.
                await asyncio.to_thread(until, lambda: size_of(tmp_path / "homes" / "eve") <= MOST + RESERVE, 300)
            bob.over = True
            await talking

        asyncio.run(story())
        used = asked(capfd, "quota", "eve")["used"]
        assert used["bytes"] <= MOST + RESERVE and used["files"] <= 300 + 500
        assert bob.errors == [] and worker.poll() is None
        print("\n" + "\n".join(told) + f"\neve keeps {used}")  # noqa: T201 - figures for whoever runs this


@pytest.mark.deep
def test_a_flood_and_a_huge_upload_leave_the_neighbour_alone(file, tmp_path, capfd):  # noqa: F811 - the fixture
    model = ModelServer()
    with contextlib.ExitStack() as running:
        running.callback(model.close)
        for home, folder in homes_of(tmp_path, model, "bob", "eve"):
            asked(capfd, "import", home, str(folder))
        served, edge = running.enter_context(process("edge", "--listen", "127.0.0.1:0"))
        worker, _ = running.enter_context(process("worker", "--name", "one"))
        until(lambda: asked(capfd, "status")["free"] == 0)
        bob, seen, told = Neighbour(edge, "bob"), [], []
        host, port = edge.removeprefix("http://").split(":")

        async def flood() -> None:
            """Ask 10,000 times, as fast as it goes."""
            request = b"GET /h/eve/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
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

        async def messages() -> None:
            """Say 10,000 things on one socket without waiting for an answer."""
            with contextlib.suppress(WebSocketException, OSError, TimeoutError):
                async with connect(f"ws://{host}:{port}/h/eve/", proxy=None, compression=None) as raw:
                    client = Wire(raw)
                    scopes = ("operator.admin", "operator.read", "operator.write")
                    await client.connect(TOKEN, scopes=scopes, device=DEVICE)
                    async with asyncio.timeout(10):
                        for number in range(10_000):
                            await client.send(
                                "chat.send", {"message": "x", "sessionKey": "f", "idempotencyKey": f"f{number}"}
                            )

        async def upload(head: bytes, piece: bytes) -> tuple[bytes, int]:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /h/eve/v1/x HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n")
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 1 << 30:
                    writer.write(piece)
                    await writer.drain()
                    sent += len(piece)
            with contextlib.suppress(ConnectionError):
                return await reader.readline(), sent
            return b"HTTP/1.1 413 closed", sent

        async def story() -> None:
            talking = asyncio.ensure_future(bob.go_on())
            told.append(f"alone: {await bob.heard(5)}")
            whole = b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20))
            for name, harm in (
                ("10,000 requests", flood()), ("10,000 messages", messages()),
                ("1 GB that is announced", upload(b"content-length: 1073741824", bytes(1 << 20))),
                ("1 GB in pieces", upload(b"transfer-encoding: chunked", whole)),
            ):  # fmt: skip
                task = asyncio.ensure_future(harm)
                told.append(f"{name}: {await bob.heard(5)}")
                if (done := await task) is not None:
                    assert b" 413" in done[0] and done[1] < 200 << 20, name
            bob.over = True
            await talking

        asyncio.run(story())
        assert bob.errors == [] and worker.poll() is None and served.poll() is None
        assert seen.count([b"429"]) > len(seen) // 2
        print("\n" + "\n".join(told))  # noqa: T201 - figures for whoever runs this
