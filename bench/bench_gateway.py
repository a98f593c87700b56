"""What the gateway costs: its start, its memory, a turn through it, many sessions and many sockets at once."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Ctx, Row
from bench.mock_model import serving

TOKEN = "a-token-that-is-long-enough-for-everybody"
TURNS, SAMPLE, SOCKETS = 300, 20, 500
START_S, IDLE_MB, GROWTH, TURN_MS, MANY_S, SOCKET_KB = 0.5, 60.0, 1.1, 6.0, 0.35, 40.0


class Client:
    """One socket that asks agents and waits for their answers."""

    def __init__(self, raw: ClientConnection) -> None:
        self._raw = raw
        self._ids = itertools.count(1)

    async def hello(self) -> None:
        await self._raw.recv()
        who = {"id": "cli", "mode": "cli", "version": "1", "platform": "linux"}
        scopes = ["operator.read", "operator.write"]
        hello = {"minProtocol": 4, "maxProtocol": 4, "client": who, "scopes": scopes, "auth": {"token": TOKEN}}
        await self._send("connect", hello)
        assert json.loads(await self._raw.recv())["ok"]

    async def _send(self, method: str, params: dict[str, Any]) -> str:
        ident = str(next(self._ids))
        await self._raw.send(json.dumps({"type": "req", "id": ident, "method": method, "params": params}))
        return ident

    async def ask(self, count: int, text: str, prefix: str = "") -> float:
        """Ask in so many sessions at once and return the seconds until all have answered."""
        began = time.perf_counter()
        waiting = set()
        for number in range(count):
            key = f"agent:main:{prefix}{number}"
            ident = f"{prefix}{number}-{next(self._ids)}"
            waiting.add(await self._send("agent", {"message": text, "sessionKey": key, "idempotencyKey": ident}))
        while waiting:
            frame = json.loads(await self._raw.recv())
            if frame["type"] == "res":
                assert frame["ok"], frame
                if frame["payload"]["status"] != "accepted":
                    assert frame["payload"]["status"] == "ok", frame
                    waiting.discard(frame["id"])
        return time.perf_counter() - began


class Served:
    """The gateway in a process of its own."""

    def __init__(self, ctx: Ctx, name: str, model: int, scopes: tuple[str, ...] = ()) -> None:
        self.folder = ctx.folder(name)
        (self.folder / ".openclaw").mkdir()
        provider = {"baseUrl": f"http://127.0.0.1:{model}/v1", "api": "openai-completions", "apiKey": "x"}
        models = [{"id": "m", "contextWindow": 1_000_000}]
        document = {
            "agents": {"defaults": {"model": "mock/m"}},
            "models": {"providers": {"mock": {**provider, "models": models}}},
            "gateway": {
                "auth": {"token": TOKEN, **({"secretScopes": list(scopes)} if scopes else {})},
                "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
            },
        }
        (self.folder / ".openclaw/openclaw.json").write_text(json.dumps(document))
        self._line = [*ctx.homarus(), "gateway", "run", "--port", "0"]
        self._env = {**ctx.env, "HOME": str(self.folder)}
        self.pid = self.port = 0

    @contextmanager
    def running(self) -> Iterator[float]:
        """Start it and yield the seconds until it served."""
        began = time.perf_counter()
        with subprocess.Popen(self._line, env=self._env, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                took = time.perf_counter() - began
                self.pid, self.port = process.pid, int(line.split(" port ")[1].split()[0])
                yield took
            finally:
                process.terminate()

    def memory(self) -> float:
        """Return the resident megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"


async def _turns(served: Served) -> tuple[list[float], float, float]:
    async with connect(served.url, max_size=None, proxy=None, compression=None, ping_interval=None) as raw:
        client = Client(raw)
        await client.hello()
        taken = [await client.ask(1, f"note number {number}", "long") for number in range(10)]
        before = served.memory()
        taken += [await client.ask(1, f"note number {number}", "long") for number in range(10, TURNS)]
    return taken, before, served.memory()


def _posted(served: Served) -> list[float]:
    """Return the seconds of each turn of one conversation by OpenAI's protocol, on one connection."""
    connection, taken = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60), []
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for number in range(TURNS):
        said = [{"role": "user", "content": f"note number {number}"}]
        body = json.dumps({"model": "openclaw", "user": "bench", "messages": said}).encode()
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        read = answer.read()
        taken.append(time.perf_counter() - began)
        assert answer.status == 200, read
    connection.close()
    return taken


async def _at_once(served: Served, count: int, text: str, prefix: str) -> float:
    async with connect(served.url, max_size=None, proxy=None, compression=None, ping_interval=None) as raw:
        client = Client(raw)
        await client.hello()
        if count < 100:
            await client.ask(count, "hello", prefix)  # the sessions are there; what is measured is the waiting
        return await client.ask(count, text, prefix)


async def _at_rest(served: Served) -> float:
    """Return the memory once it has not grown for a second."""
    before = 0.0
    for _ in range(60):
        now = served.memory()
        if now - before < 0.1:
            break
        before = now
        await asyncio.sleep(1)
    return now


async def _sockets(served: Served) -> float:
    before = await _at_rest(served)  # what is loaded once after the start belongs to no socket
    opened = []
    for _ in range(SOCKETS):
        raw = await connect(served.url, max_size=None, proxy=None, compression=None, ping_interval=None)
        await Client(raw).hello()
        opened.append(raw)
    await asyncio.sleep(1)
    held = served.memory() - before
    for raw in opened:
        await raw.close()
    return held * 1024 / SOCKETS


def run(ctx: Ctx) -> list[Row]:
    rows = []
    with serving() as model:
        starts = []
        for number in range(max(3, min(ctx.runs, 7))):
            with Served(ctx, f"start{number}", model).running() as took:
                starts.append(took)
        start = statistics.median(starts)
        rows.append(Row("gateway: exec to serving", start, "s", "0.5 s", start / START_S, 1.0))
        served = Served(ctx, "turns", model)
        with served.running():
            time.sleep(0.5)
            idle = served.memory()
            rows.append(Row("gateway: idle memory", idle, "MB", "60 MB", idle / IDLE_MB, 1.0))
            taken, warm, after = asyncio.run(_turns(served))
            early, late = (statistics.median(part) * 1000 for part in (taken[5 : 5 + SAMPLE], taken[-SAMPLE:]))
            rows.append(Row("gateway: turn over a socket at 10", early, "ms", "6 ms", early / TURN_MS, 1.0))
            rows.append(Row("gateway: turn over a socket at 300", late, "ms", "6 ms", late / TURN_MS, 1.0))
            rows.append(Row("gateway: memory after 300 turns", after, "MB", "after 10", after / warm, GROWTH))
        served = Served(ctx, "http", model)
        with served.running():
            taken = _posted(served)
            for at, part in ((10, taken[5 : 5 + SAMPLE]), (TURNS, taken[-SAMPLE:])):
                took = statistics.median(part) * 1000
                rows.append(Row(f"gateway: turn through HTTP at {at}", took, "ms", "6 ms", took / TURN_MS, 1.0))
        served = Served(ctx, "many", model)
        with served.running():
            many = asyncio.run(_at_once(served, 32, "[[wait:0.2]]", "w"))
            rows.append(Row("gateway: 32 sessions, a model of 200 ms", many, "s", "0.35 s", many / MANY_S, 1.0))
            all_ = asyncio.run(_at_once(served, 1000, "hello", "m"))
            rows.append(Row("gateway: 1,000 sessions at once, all answered", all_, "s"))
        served = Served(ctx, "sockets", model)
        with served.running():
            each = asyncio.run(_sockets(served))
            rows.append(Row("gateway: each of 500 idle sockets", each, "kB", "40 kB", each / SOCKET_KB, 1.0))
    return rows
