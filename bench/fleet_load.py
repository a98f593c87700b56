"""A whole fleet as processes on this machine, people who talk to it, and what it cost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

TOKEN = "a-token-that-is-long-enough-for-everybody"
SECRET = "s" * 32
QUOTA = '{"messagesPerSecond": 1000000, "connections": 10000}'
_TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid: int, *, children: bool = False) -> float:
    """Return the CPU seconds of a process; with its children, also those that ended."""
    found = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    own = sum(map(int, found[11:15] if children else found[11:13])) / _TICK
    if children:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                own += cpu(int(child))
    return own


@contextlib.contextmanager
def program(*words: str, env: dict[str, str], ready: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program and give what it says when it is up."""
    started = subprocess.Popen(
        [sys.executable, "-m", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert started.stdout is not None
        for line in started.stdout:
            if found := re.search(ready, line):
                yield started, found[1]
                return
        raise RuntimeError(f"{' '.join(words)} did not start")
    finally:
        started.kill()
        started.wait(60)
        if started.stdout is not None:
            started.stdout.close()


class Stand:
    """Postgres, workers, an edge and a model, with homes that are open."""

    def __init__(self, server: Any, work: Path, homes: int, workers: int) -> None:
        self.server, self.work = server, work
        self.homes = [f"t{number}" for number in range(homes)]
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.edge: subprocess.Popen[str] | None = None
        self.address = ""
        self._count = workers
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        from tests.fleet.homes import pair

        from homarus.fleet.database import Database
        from homarus.fleet.homes import bring_in

        env = {**os.environ, "HOMARUS_FLEET_DATABASE": self.server.dsn(), "HOMARUS_FLEET_SECRET": SECRET}
        self._stack.__enter__()
        _, port = self._stack.enter_context(program("bench.fleet_model", env=env, ready=r"(\d+)"))
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / ".openclaw").mkdir()
        (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(config(int(port))))
        pair(folder)
        self.port = int(port)
        with Database(self.server.dsn()) as database:
            for home in self.homes:
                bring_in(database, None, home, folder)
            database.rows("update home set quota = $1::jsonb", QUOTA)
        for number in range(self._count):
            place = {"HOMARUS_FLEET_ROOT": str(self.work / f"worker{number}")}
            words = ("homarus", "fleet", "worker", "--name", f"w{number}")
            made, _ = self._stack.enter_context(program(*words, env=env | place, ready=r" on (\S+) is up"))
            self.workers[f"w{number}"] = made
        words = ("homarus", "fleet", "edge", "--listen", "127.0.0.1:0")
        self.edge, self.address = self._stack.enter_context(program(*words, env=env, ready=r" on (\S+) is up"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def spent(self) -> dict[str, float]:
        """Return CPU seconds so far, by part."""
        assert self.edge is not None
        return {
            "workers": sum(cpu(each.pid) for each in self.workers.values() if each.poll() is None),
            "edge": cpu(self.edge.pid),
            "Postgres": cpu(self.server.pid, children=True),
        }

    def owner(self, home: str) -> str:
        found: str = self.server.sql(f"select coalesce(worker, '') from homarus.lease where home = '{home}'")
        return found.strip()

    def url(self, home: str) -> str:
        return f"ws://{self.address}/h/{home}/"

    def settle(self) -> None:
        """Wait until every home is held."""
        ends = time.monotonic() + 300
        while int(self.server.sql("select count(*) from homarus.lease where worker is null")):
            if time.monotonic() > ends:
                raise RuntimeError("nobody takes the homes")
            time.sleep(0.2)


@contextlib.contextmanager
def alone(folder: Path, port: int) -> Iterator[str]:
    """Serve the same home on this machine alone, from files; give its address."""
    from tests.fleet.homes import pair

    (folder / ".openclaw").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own = probe.getsockname()[1]
    settings = config(port)
    settings["gateway"] |= {"port": own}
    (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(settings))
    pair(folder)
    env = {**os.environ, "HOME": str(folder)}
    served = subprocess.Popen(
        [sys.executable, "-m", "homarus", "gateway", "run"],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ends = time.monotonic() + 120
        while time.monotonic() < ends and served.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", own), 1):
                break
            time.sleep(0.1)
        yield f"ws://127.0.0.1:{own}/"
    finally:
        served.kill()
        served.wait(60)


def config(port: int) -> dict[str, Any]:
    return {
        "models": {
            "providers": {"mock": {"baseUrl": f"http://127.0.0.1:{port}/v1", "apiKey": "none", "models": [{"id": "m"}]}}
        },
        "agents": {"defaults": {"model": "mock/m", "heartbeat": {"every": "0m"}}},
        "gateway": {"auth": {"token": TOKEN}},
        "memory": {"enabled": False},
    }


class Person:
    """Somebody who talks to one home over a socket: a message is answered when its run has ended."""

    def __init__(self, raw: Any) -> None:
        self.raw, self._number, self.session = raw, 0, "main"

    async def hello(self) -> None:
        from tests.fleet.homes import DEVICE

        challenge = await self._until(lambda frame: frame.get("event") == "connect.challenge")
        params: dict[str, Any] = {
            "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": ["operator.read", "operator.write"],
            "client": {"id": "cli", "mode": "cli", "version": "1", "platform": "linux"}, "auth": {"token": TOKEN},
        }  # fmt: skip
        # Nobody who comes through the edge is local.
        await self._ask("connect", params | {"device": DEVICE.proof(params, challenge["payload"])})

    async def say(self, text: str, *, session: str = "main") -> tuple[float, float]:
        """Say something and return after how many seconds it was taken and answered."""
        began = time.perf_counter()
        await self._ask("chat.send", {"message": text, "sessionKey": session, "idempotencyKey": text})
        taken = time.perf_counter() - began
        await self._until(
            lambda frame: (
                frame.get("event") == "chat"
                and frame["payload"].get("state") == "final"
                and frame["payload"].get("runId") == text
            )
        )
        return taken, time.perf_counter() - began

    async def _ask(self, method: str, params: dict[str, Any]) -> None:
        self._number += 1
        ident = str(self._number)
        await self.raw.send(json.dumps({"type": "req", "id": ident, "method": method, "params": params}))
        answer = await self._until(lambda frame: frame.get("id") == ident)
        if not answer["ok"]:
            raise OSError(str(answer))

    async def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            frame: dict[str, Any] = json.loads(await self.raw.recv())
            if wanted(frame):
                return frame


@contextlib.asynccontextmanager
async def person(url: str) -> AsyncIterator[Person]:
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    ends = time.monotonic() + 300
    while True:  # a busy machine may close a door before the home behind it is open
        try:
            raw = await connect(url, proxy=None, compression=None, max_size=None, open_timeout=120)
            break
        except (OSError, WebSocketException):
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.1)
    async with raw:
        made = Person(raw)
        await made.hello()
        yield made


async def saturated(urls: list[str], turns: int, name: str) -> float:
    """Let everybody say one thing after another; return turns a second."""

    async def talk(url: str, number: int) -> None:
        async with person(url) as each:
            await each.say(f"{name} warm {number}")
            ready.append(1)
            await go.wait()
            for turn in range(turns):
                await each.say(f"{name} {number} {turn}")

    ready: list[int] = []
    go = asyncio.Event()
    talking = [asyncio.ensure_future(talk(url, number)) for number, url in enumerate(urls)]
    while len(ready) < len(urls):
        await asyncio.sleep(0.1)
        if any(each.done() for each in talking):
            await asyncio.gather(*talking)
    began = time.perf_counter()
    go.set()
    await asyncio.gather(*talking)
    return len(urls) * turns / (time.perf_counter() - began)


async def paced(urls: list[str], rate: float, seconds: float, name: str) -> list[tuple[float, float]]:
    """Say something every hundredth of a second or so, each time to another; return how long each took."""
    took: list[tuple[float, float]] = []
    async with contextlib.AsyncExitStack() as stack:
        people = [await stack.enter_async_context(person(url)) for url in urls]
        for number, each in enumerate(people):
            each.session = f"talk{number}"
        await asyncio.gather(*(each.say(f"{name} warm {n}", session=each.session) for n, each in enumerate(people)))
        free = asyncio.Queue[Person]()
        for each in people:
            free.put_nowait(each)

        async def one(number: int) -> None:
            due = time.perf_counter()
            each = await free.get()
            waited = time.perf_counter() - due  # where everybody is still being answered, that counts, too
            taken, answered = await each.say(f"{name} {number}", session=each.session)
            took.append((waited + taken, waited + answered))
            free.put_nowait(each)

        began, tasks = time.perf_counter(), []
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            tasks.append(asyncio.ensure_future(one(number)))
        await asyncio.gather(*tasks)
    return took


async def failover(stand: Stand, victim: str) -> list[float]:
    """Kill a worker while everybody of its homes talks; return after how many seconds each was taken up again."""
    from websockets.exceptions import WebSocketException

    mine = [home for home in stand.homes if stand.owner(home) == victim]
    killed, again = 0.0, dict[str, float]()
    talked: set[str] = set()
    all_talk = asyncio.Event()

    async def talk(home: str) -> None:
        number = 0
        while home not in again:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                async with person(stand.url(home)) as each:
                    while home not in again:
                        number, after = number + 1, bool(killed)
                        await each.say(f"over {home} {number}")
                        talked.add(home)
                        if len(talked) == len(mine):
                            all_talk.set()
                        if after:
                            again[home] = time.perf_counter() - killed
                        await asyncio.sleep(0.1)
            await asyncio.sleep(0.05)

    talking = [asyncio.ensure_future(talk(home)) for home in mine]
    await all_talk.wait()
    stand.workers[victim].kill()
    stand.workers[victim].wait(60)  # what was answered until now was answered by the dead
    killed = time.perf_counter()
    await asyncio.gather(*talking)
    return sorted(again.values())
