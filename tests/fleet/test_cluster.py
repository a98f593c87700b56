"""Nothing is lost, doubled or out of order while workers are killed, stopped and cut off, and Postgres dies and is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.channels.telegram.bot_api import TOKEN, BotApi, serving
from tests.fleet.cluster import HOOK, Cluster
from tests.fleet.model import ModelServer
from tests.fleet.postgres import Postgres, short_folder
from tests.fleet.stacks import tell_on_signal

pytestmark = pytest.mark.deep
HOMES = int(os.environ.get("FLEET_HOMES", "50"))
SESSIONS = int(os.environ.get("FLEET_SESSIONS", "200"))
MESSAGES = int(os.environ.get("FLEET_MESSAGES", "20"))
HOOKS = int(os.environ.get("FLEET_HOOKS", "50"))
STOPPED = 30.0
LENGTH = 110.0  # seconds over which people talk, so that every failure meets somebody who does
# A network for each process: several of these tests may run on one machine.
_NET = os.getpid() % (1 << 14)
HERE, THERE = (f"10.213.{_NET >> 6}.{(_NET & 63) * 4 + last}" for last in (1, 2))


class Load:
    """People in many sessions, half of whom do not wait for an answer before they go on; web hooks, a bot that is called, and jobs."""

    def __init__(self, cluster: Cluster, api: BotApi) -> None:
        self.cluster, self.api = cluster, api
        self.homes = [f"h{number}" for number in range(HOMES)]
        self.words = {number: [f"s{number:04d}{place:03d}" for place in range(MESSAGES)] for number in range(SESSIONS)}
        self.ticking, self.bots = self.homes[:5], self.homes[-3:]
        self.updates = {
            home: [f"tele{number:04d}" for number in range(start * 100, start * 100 + MESSAGES)]
            for start, home in enumerate(self.bots)
        }

    async def prepare(self) -> None:
        told = {
            "enabled": True, "botToken": TOKEN, "apiRoot": self.api.base, "dmPolicy": "open", "allowFrom": ["*"],
            "webhookUrl": "https://bot.example/telegram-webhook", "webhookSecret": HOOK,
        }  # fmt: skip
        for home in self.homes:
            await self.cluster.add(home, **({"channels": {"telegram": told}} if home in self.bots else {}))

    async def run(self) -> None:
        await asyncio.gather(*(self.cluster.cron(home, "tick1", 2000) for home in self.ticking))
        pause = LENGTH / MESSAGES
        talks = [
            self.cluster.talk(
                self.homes[number % HOMES], f"talk{number}", words, steer=number % 2 == 0, pause=pause
            )
            for number, words in self.words.items()
        ]  # fmt: skip
        hooks = [self.hooks(number) for number in range(HOOKS)]
        await asyncio.gather(*talks, *hooks, *(self.called(home, pause) for home in self.bots))

    async def hooks(self, number: int) -> None:
        await asyncio.sleep(number * LENGTH / HOOKS)
        await self.cluster.hook(self.homes[number % HOMES], f"hook{number:04d}")

    async def called(self, home: str, pause: float) -> None:
        for word in self.updates[home]:
            number = int(word.removeprefix("tele")) + 1
            await self.cluster.update(home, number, word)
            if number % 5 == 0:  # as if Telegram had not heard that it was taken
                await self.cluster.update(home, number, word)
            await asyncio.sleep(pause)

    async def answered(self) -> None:
        """Wait until everything that was said stands in the transcripts with an answer behind it, and every tick has ended."""
        ends = time.monotonic() + 600
        patient = time.monotonic() + 180
        while missing := await asyncio.to_thread(self.missing):
            if time.monotonic() > patient and not (missing := await asyncio.to_thread(self.unexplained, missing)):
                break
            assert time.monotonic() < ends, missing
            await asyncio.sleep(1)
        begun = {home: (await asyncio.to_thread(self.cluster.ticks, home))[0] for home in self.ticking}
        while open_ticks := [
            (home, tick)
            for home in self.ticking
            for tick in begun[home] - (await asyncio.to_thread(self.cluster.ticks, home))[1]
        ]:
            assert time.monotonic() < ends, open_ticks
            await asyncio.sleep(1)

    def missing(self) -> list[str]:
        answered: set[str] = set()
        for home in self.homes:
            for messages in self.cluster.transcripts(home).values():
                last = max((at for at, (role, _) in enumerate(messages) if role == "assistant"), default=0)
                answered.update(mark for role, marks in messages[:last] if role == "user" for mark in marks)
        wanted = [mark for words in (*self.words.values(), *self.updates.values()) for mark in words]
        wanted += [f"hook{number:04d}" for number in range(HOOKS)]
        return [mark for mark in wanted if mark not in answered]

    def unexplained(self, marks: list[str]) -> list[str]:
        """Return those that are not in a transcript whose home moved twice since: a turn that is cut off twice is not begun again."""
        return [
            mark
            for mark in marks
            if not self.cluster.database.rows(
                """select 1 from line join lease using (home) where path like '%/sessions/%.jsonl'
                and position($1::bytea in bytes) > 0 and lease.epoch >= line.epoch + 2""",
                mark.encode(),
            )
        ]

    def check(self) -> dict[str, int]:
        """Return what went wrong; everything must be 0."""
        disordered, missing = 0, self.missing()
        if missing:
            print(f"\ncut off twice, and not answered: {missing}")  # noqa: T201
        said: Counter[str] = Counter()
        for home in self.homes:
            for path, messages in self.cluster.transcripts(home).items():
                own = [mark for role, marks in messages if role == "user" for mark in marks]
                said.update(own)
                firsts = [mark for mark in dict.fromkeys(own) if not mark.startswith("hook")]  # nobody orders those
                if firsts != sorted(firsts):
                    disordered += 1
                    print(f"\nout of order in {home} {path}: {firsts}")  # noqa: T201
                if len(own) > len(set(own)):
                    print(f"\ntwice in {home} {path}: {own}")  # noqa: T201
        doubled = sum(count - 1 for count in said.values())
        ticks, idle = 0, 0
        for home in self.ticking:
            begun, ended = self.cluster.ticks(home)
            ticks += sum(count > 1 for count in begun.values()) + sum(count > 1 for count in ended.values())
            idle += len(ended) < 3
        return {
            "lost": len(self.unexplained(missing)), "doubled": doubled, "out of order": disordered,
            "zombies": self.cluster.zombies(), "ticks twice": ticks, "jobs that stopped": idle,
        }  # fmt: skip


NOTHING = {"lost": 0, "doubled": 0, "out of order": 0, "zombies": 0, "ticks twice": 0, "jobs that stopped": 0}


class Cable(NamedTuple):
    """How a worker is reached that has a network of its own, and what pulls the plug; or why there is none."""

    why_not: str = ""
    pulled: Callable[[bool], None] = lambda _up: None

    @property
    def listens(self) -> str:
        return "127.0.0.1" if self.why_not else f"127.0.0.1,{HERE}"

    @property
    def host(self) -> str:
        return "127.0.0.1" if self.why_not else HERE

    @property
    def worker(self) -> dict[str, Any]:
        return {} if self.why_not else {"host": THERE, "inside": ("ip", "netns", "exec", _namespace())}


def _namespace() -> str:
    return f"fleet{os.getpid()}"


@pytest.fixture
def cable() -> Iterator[Cable]:
    """Give a network namespace that reaches this machine by one cable."""
    name, here, there = _namespace(), f"fl{os.getpid()}a"[:15], f"fl{os.getpid()}b"[:15]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)

    if shutil.which("ip") is None:
        yield Cable("needs ip (Debian: iproute2)")
        return
    try:
        ip("netns", "add", name)
        ip("link", "add", here, "type", "veth", "peer", "name", there)
        ip("link", "set", there, "netns", name)
        ip("addr", "add", f"{HERE}/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{THERE}/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        ip("-n", name, "link", "set", "lo", "up")
        yield Cable(pulled=lambda up: ip("link", "set", here, "up" if up else "down"))
    except subprocess.CalledProcessError as problem:
        yield Cable(f"the kernel lets us make no network namespace: {problem.stderr.decode().strip()}")
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=60)
        subprocess.run(["ip", "link", "del", here], capture_output=True, timeout=60)


@contextlib.contextmanager
def two_servers(listen: str) -> Iterator[tuple[Postgres, Postgres]]:
    """Give a server and its synchronous standby."""
    with short_folder() as first, short_folder() as second:
        primary = Postgres.make(first)
        primary.listen = listen
        with (first / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.213.0.0/16 trust\n")
        primary.start(fresh=True)
        try:
            standby = primary.standby(second)
            try:
                yield primary, standby
            finally:
                standby.stop()
        finally:
            primary.stop()


class Chaos:
    """Everything that can fail, one after the other, each while people talk; and when."""

    def __init__(self, cluster: Cluster, primary: Postgres, standby: Postgres, cable: Cable) -> None:
        self.cluster, self.primary, self.standby, self.cable = cluster, primary, standby, cable
        self.began = [("before", time.monotonic())]

    def now(self, name: str) -> None:
        self.began.append((name, time.monotonic()))

    async def run(self) -> None:
        cluster = self.cluster
        await asyncio.sleep(8)
        self.now("killed")
        cluster.workers["w1"].signal(signal.SIGKILL)
        await asyncio.sleep(8)
        await cluster.start("w4")
        self.now("stopped")
        cluster.workers["w2"].signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED)
        cluster.workers["w2"].signal(signal.SIGCONT)
        await asyncio.sleep(8)
        self.now("Postgres restarted")
        await asyncio.to_thread(self.primary.kill)
        await asyncio.sleep(3)
        await asyncio.to_thread(self.primary.start)
        await asyncio.sleep(8)
        if not self.cable.why_not:
            self.now("cut off")
            self.cable.pulled(False)
            await asyncio.sleep(15)
            self.cable.pulled(True)
            await asyncio.sleep(8)
        self.now("standby promoted")
        await asyncio.to_thread(self.primary.kill)
        await asyncio.to_thread(self.standby.promote)

    def stalls(self) -> str:
        """Return the longest wait for an acknowledgement after each failure."""
        ends = [*(moment for _, moment in self.began[1:]), time.monotonic() + 1]
        parts = []
        for (name, start), end in zip(self.began, ends, strict=True):
            waits = [wait for moment, wait in self.cluster.stalls if start <= moment < end]
            parts.append(f"{name} {max(waits, default=0):.1f} s")
        return ", ".join(parts)


async def test_all_that_can_fail_fails_while_people_talk(tmp_path, cable):
    tell_on_signal(sys.__stderr__)
    model = ModelServer(host="127.0.0.1" if cable.why_not else "0.0.0.0")
    with contextlib.closing(model):
        await _through_all(cable, model, tmp_path)
    if cable.why_not:
        pytest.skip(f"everything else held, but no worker was cut off: {cable.why_not}")


async def _through_all(cable: Cable, model: ModelServer, tmp_path: Path) -> None:
    async with serving("127.0.0.1" if cable.why_not else "0.0.0.0") as api:
        api.base = f"http://{cable.host}:{api.base.rpartition(':')[2]}"
        with two_servers(cable.listens) as (primary, standby):
            hosts = ",".join(f"{cable.host}:{server.port}" for server in (primary, standby))
            async with Cluster(f"postgresql://homarus@{hosts}/postgres", tmp_path, model, cable.host) as cluster:
                load = Load(cluster, api)
                await load.prepare()
                await cluster.start("w1", "w2")
                await cluster.start("far", **cable.worker)
                talking = asyncio.ensure_future(load.run())
                chaos = Chaos(cluster, primary, standby, cable)
                await chaos.run()
                await talking
                await load.answered()
                result = await asyncio.to_thread(load.check)
                refused = {w.name: int((await asyncio.to_thread(w.health))["refused"]) for w in alive(cluster)}
                report(cluster, result, refused, chaos)
                assert result == NOTHING
                assert refused["w2"] > 0, "the worker that slept found its homes with others"
                assert cable.why_not or refused["far"] > 0, "what it did while it was alone was not taken"


def alive(cluster: Cluster) -> list:
    return [worker for worker in cluster.workers.values() if worker.process.poll() is None]


def report(cluster: Cluster, result: dict[str, int], refused: dict[str, int], chaos: Chaos) -> None:
    stalls = sorted(wait for _, wait in cluster.stalls)
    half, most = stalls[len(stalls) // 2], stalls[-1]
    print(  # noqa: T201 - figures for whoever runs this
        f"\n{len(stalls)} messages: {result}, refused {refused}, acknowledged after {half:.3f} s (longest stall {most:.1f} s:"
        f" {chaos.stalls()}); {dict(cluster.refusals)}"
    )
