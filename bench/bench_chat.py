"""What the program adds between a chat platform and the model, in a warm process: an update in, the first words out."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.measure import Ctx, Row
from homarus.channels.channel import Channel, Host, Identity, Manifest
from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, Inbound, Media, Outbound, Text, Usage
from homarus.delivery.place import Piece, Place
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime
from homarus.runtime.switchboard import Switchboard

TARGET_MS = 6.0
WARM = 20
# Long enough that a block goes out while the rest is still to come.
WORDS = ("All is well here. " * 50 + "\n\n") * 3


def now() -> tuple[float, float]:
    """Return the time on the wall and what this thread has worked, in milliseconds."""
    return time.perf_counter() * 1e3, time.thread_time() * 1e3


NOW = (0.0, 0.0)


class Moments:
    """When the newest message was handed in, when the model heard of it, when its first block was ready and sent."""

    def __init__(self) -> None:
        self.update = self.asked = self.block = self.sent = NOW
        self.done, self.up = asyncio.Event(), asyncio.Event()
        self.host: Host | None = None

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        self.asked = now()
        await asyncio.sleep(0)
        self.block = now()
        yield TextDelta(WORDS)
        await self.done.wait()
        yield Stop(Assistant((Text(WORDS),), provider="instant", model="m", usage=Usage(input=200, output=12)))


class Bench:
    """An account of a platform that takes everything at once."""

    def __init__(self, moments: Moments, host: Host) -> None:
        self._moments, self._host = moments, host

    async def run(self) -> None:
        self._moments.host = self._host
        self._moments.up.set()
        self._host.connected(Identity("bot"))
        await asyncio.Event().wait()

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        if not self._moments.done.is_set():
            self._moments.sent = now()
            self._moments.done.set()
        return key

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None: ...

    async def delete(self, message: Outbound, sent: str) -> None: ...

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None: ...

    async def typing(self, message: Outbound) -> None: ...

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        yield b""

    async def probe(self) -> Identity:
        return Identity("bot")

    async def directory(self, query: str) -> list[Identity]:
        return []


def _home(folder: Path) -> dict[str, str]:
    (folder / ".openclaw").mkdir(parents=True)
    config: dict[str, Any] = {
        "agents": {"defaults": {"model": "instant/m", "blockStreamingCoalesce": {"enabled": False}}},
        "channels": {"bench": {"allowFrom": ["*"], "dmPolicy": "open", "streaming": {"block": {"enabled": True}}}},
        "session": {"dmScope": "per-peer"},
    }
    (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    return {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}


Taken = list[tuple[float, float]]


async def _measured(folder: Path, count: int) -> tuple[Taken, Taken]:
    """Return how long each message took to the model, and each first block to the platform: on the wall, and of work."""
    moments, env = Moments(), _home(folder)
    runtime = Runtime.open(resolve_paths(env), env)
    runtime.home.models.registry.register("instant", lambda _ref, _key: moments)
    manifest = Manifest(id="bench", label="Bench", entry="x:y", place=Place(limit=4000, repeatable=True))

    def opener(_manifest: Manifest) -> Any:
        def make(host: Host) -> Channel:
            return Bench(moments, host)

        return make

    board = Switchboard(LocalClient(runtime), known={"bench": manifest}, opener=opener)
    board.join()
    await board.start()
    into, out = Taken(), Taken()
    await moments.up.wait()
    assert moments.host is not None
    for number in range(count + WARM):
        moments.done.clear()
        who = str(number % 10)  # the platform shows thirty messages in a minute to each
        moments.update = now()
        await moments.host.receive(Inbound(f"m{number}", "bench", "How is it?", sender=who, peer=who))
        await moments.done.wait()
        for key in runtime.lanes.busy:
            await runtime.lane(key).idle()
        if number >= WARM:
            into.append((moments.asked[0] - moments.update[0], moments.asked[1] - moments.update[1]))
            out.append((moments.sent[0] - moments.block[0], moments.sent[1] - moments.block[1]))
    await board.aclose()
    await runtime.aclose()
    return into, out


def run(ctx: Ctx) -> list[Row]:
    """Measure with a platform and a model in this process; the disk is the machine's own."""
    into, out = asyncio.run(_measured(ctx.folder("chat"), max(20, 4 * ctx.runs)))
    rows = []
    for item, taken in (("update of a chat to the request of the model", into), ("first block to the platform", out)):
        wall, cpu = (statistics.median(each[kind] for each in taken) for kind in (0, 1))
        rows.append(Row(item, wall, "ms", f"{TARGET_MS:g} ms", wall / TARGET_MS, 1.0))
        rows.append(Row(f"{item}, CPU", cpu, "ms"))
    return rows
