"""`python -m bench.soak [--minutes 30] [--json]`: a gateway under mixed load for long; its memory and open files must stay flat.

Clients come and go, talk in old and new sessions, let tools run, stop turns, start sessions over and delete them, ask over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from bench.bench_gateway import TOKEN, Client, Served
from bench.measure import Ctx
from bench.mock_model import serving

CLIENTS, SESSIONS, WARM, SAMPLE_SECONDS = 6, 40, 80, 5.0
# Of what is held in the second fifth of the time; before that, what is used for the first time is loaded.
MEMORY_GROWTH, MORE_FILES = 1.1, 8


class Sample(msgspec.Struct, frozen=True):
    seconds: float
    megabytes: float
    files: int
    turns: int


class Talker:
    """One client after another on one place: each says a few things and leaves."""

    def __init__(self, served: Served, seed: int, done: Counter[str]) -> None:
        self._served = served
        self._dice = random.Random(seed)
        self._done = done
        self._count = 0

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            try:
                async with connect(self._served.url, max_size=None, proxy=None, compression=None) as raw:
                    await self._hello(raw)
                    for _ in range(self._dice.randrange(1, 30)):
                        if time.monotonic() >= until:
                            return
                        await self._one(raw)
            except (WebSocketException, OSError):
                self._done["lost connections"] += 1
                await asyncio.sleep(0.2)

    async def _hello(self, raw: ClientConnection) -> None:
        await raw.recv()
        who = {"id": "cli", "mode": "cli", "version": "1", "platform": "linux"}
        auth = {"minProtocol": 4, "maxProtocol": 4, "client": who, "auth": {"token": TOKEN}}
        assert (await self._ask(raw, "connect", {**auth, "scopes": ["operator.admin"]}))["ok"]

    async def _ask(self, raw: ClientConnection, method: str, params: dict[str, Any], *, last: bool = False) -> Any:
        self._count += 1
        ident = str(self._count)
        await raw.send(json.dumps({"type": "req", "id": ident, "method": method, "params": params}))
        while True:
            frame = json.loads(await raw.recv())
            waits = last and frame.get("payload", {}).get("status") in {"accepted", "in_flight"}
            if frame["type"] == "res" and frame["id"] == ident and not waits:
                return frame

    async def _one(self, raw: ClientConnection) -> None:
        dice = self._dice
        new = dice.random() < 0.1
        key = f"agent:main:new{dice.random()}" if new else f"agent:main:soak{dice.randrange(SESSIONS)}"
        kind = 0.0 if new else dice.random()
        if kind < 0.7:
            text = dice.choice(["hello", "[[tools:2]] look", "a longer thing to say " * 20, "hello again"])
            order = {"message": text, "sessionKey": key, "idempotencyKey": f"{dice.random()}"}
            answer = await self._ask(raw, "agent", order, last=True)
            self._done["turns" if answer["ok"] else "refused"] += 1
            if new:
                assert (await self._ask(raw, "sessions.delete", {"key": key}))["ok"]
        elif kind < 0.8:
            order = {"message": "[[wait:5]] take your time", "sessionKey": key, "idempotencyKey": f"{dice.random()}"}
            await self._ask(raw, "chat.send", order)
            await self._ask(raw, "chat.abort", {"sessionKey": key})
            self._done["stopped"] += 1
        elif kind < 0.9:
            await self._ask(raw, dice.choice(["sessions.list", "health", "status", "tools.catalog"]), {})
            await self._ask(raw, "chat.history", {"sessionKey": key})
            self._done["looked"] += 1
        elif kind < 0.96:
            assert (await self._ask(raw, "sessions.reset", {"key": key}))["ok"]
            self._done["started over"] += 1
        else:
            assert (await self._ask(raw, "sessions.delete", {"key": key}))["ok"]
            self._done["deleted"] += 1


async def soak(served: Served, minutes: float) -> tuple[list[Sample], Counter[str]]:
    async with connect(served.url, max_size=None, proxy=None, compression=None) as raw:
        first = Client(raw)
        await first.hello()
        await first.ask(WARM, "hello", "warm")  # as many sessions as a gateway keeps open
    began, done = time.monotonic(), Counter[str]()
    until = began + minutes * 60
    work = [asyncio.ensure_future(Talker(served, seed, done).run(until)) for seed in range(CLIENTS)]
    samples: list[Sample] = []
    while not all(task.done() for task in work):
        await asyncio.sleep(min(SAMPLE_SECONDS, minutes * 60 / 20))
        files = len(os.listdir(f"/proc/{served.pid}/fd"))
        sample = Sample(round(time.monotonic() - began, 1), round(served.memory(), 1), files, done["turns"])
        samples.append(sample)
        print(
            f"{sample.seconds:8.0f} s {sample.megabytes:8.1f} MB {files:5} files {done['turns']:7} turns",
            file=sys.stderr,
        )
    await asyncio.gather(*work)
    return samples, done


def verdict(samples: list[Sample]) -> dict[str, Any]:
    """Compare the last fifth with the second one."""
    fifth = max(1, len(samples) // 5)
    early, late = samples[fifth : 2 * fifth] or samples[:1], samples[-fifth:]
    memory = [statistics.median(each.megabytes for each in part) for part in (early, late)]
    files = [statistics.median(each.files for each in part) for part in (early, late)]
    flat = memory[1] <= memory[0] * MEMORY_GROWTH and files[1] <= files[0] + MORE_FILES
    return {"flat": flat, "megabytes": memory, "growth": round(memory[1] / memory[0], 3), "files": files}


def main() -> int:
    """Run it; 1 where it was not flat."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default 30)")
    parser.add_argument("--json", action="store_true", help="print every sample as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="homarus-soak-") as work, serving() as model:
        served = Served(Ctx(Path(work), dict(os.environ)), "soak", model, ("operator.admin",))
        with served.running():
            samples, done = asyncio.run(soak(served, options.minutes))
    found = {**verdict(samples), "minutes": options.minutes, "done": dict(done)}
    if options.json:
        print(msgspec.json.format(msgspec.json.encode({**found, "samples": samples})).decode())
    else:
        early, late = found["megabytes"]
        print(
            f"memory {early:.1f} MB, later {late:.1f} MB ({found['growth']:.2f} x); files {found['files']}; {dict(done)}"
        )
        print("flat" if found["flat"] else "NOT FLAT")
    return 0 if found["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
