"""Nothing is lost, doubled or out of order while workers are killed, stopped and cut off, and Postgres dies and is replaced."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from tests.fleet.cluster import Cluster
from tests.fleet.model import ModelServer
from tests.fleet.postgres import Postgres, running, short_folder
from tests.fleet.stacks import tell_on_signal

pytestmark = pytest.mark.deep
HOMES = int(os.environ.get("FLEET_HOMES", "50"))
SESSIONS = int(os.environ.get("FLEET_SESSIONS", "200"))
MESSAGES = int(os.environ.get("FLEET_MESSAGES", "20"))
HOOKS = int(os.environ.get("FLEET_HOOKS", "50"))
STOPPED = 30.0


class Load:
    """People in many sessions, half of whom do not wait for an answer before they go on; web hooks and jobs beside them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.homes = [f"h{number}" for number in range(HOMES)]
        self.words = {number: [f"s{number:04d}{place:03d}" for place in range(MESSAGES)] for number in range(SESSIONS)}

    async def prepare(self) -> None:
        for home in self.homes:
            await self.cluster.add(home)

    async def run(self) -> None:
        jobs = [self.cluster.cron(home, "tick1", 2000) for home in self.homes[:5]]
        await asyncio.gather(*jobs)
        talks = [
            self.cluster.talk(self.homes[number % HOMES], f"talk{number}", words, steer=number % 2 == 0)
            for number, words in self.words.items()
        ]
        hooks = [self.hooks(number) for number in range(HOOKS)]
        await asyncio.gather(*talks, *hooks)

    async def hooks(self, number: int) -> None:
        await asyncio.sleep(number * 0.5)
        await self.cluster.hook(self.homes[number % HOMES], f"hook{number:04d}")

    async def answered(self) -> None:
        """Wait until everything that was said stands in the transcripts with an answer behind it."""
        ends = time.monotonic() + 600
        while missing := await asyncio.to_thread(self.missing):
            assert time.monotonic() < ends, missing
            await asyncio.sleep(1)

    def missing(self) -> list[str]:
        answered: set[str] = set()
        for home in self.homes:
            for messages in self.cluster.transcripts(home).values():
                last = max((at for at, (role, _) in enumerate(messages) if role == "assistant"), default=0)
                answered.update(mark for role, marks in messages[:last] if role == "user" for mark in marks)
        wanted = [mark for words in self.words.values() for mark in words]
        wanted += [f"hook{number:04d}" for number in range(HOOKS)]
        return [mark for mark in wanted if mark not in answered]

    def check(self) -> dict[str, int]:
        """Return what went wrong; everything must be 0."""
        disordered = 0
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
        twice = 0
        for home in self.homes[:5]:
            begun, ended = self.cluster.ticks(home)
            twice += sum(count > 1 for count in begun.values()) + sum(count > 1 for count in ended.values())
        return {
            "lost": len(self.missing()), "doubled": doubled, "out of order": disordered,
            "zombies": self.cluster.zombies(), "ticks twice": twice,
        }  # fmt: skip


NOTHING = {"lost": 0, "doubled": 0, "out of order": 0, "zombies": 0, "ticks twice": 0}


async def test_workers_are_killed_and_stopped_and_postgres_dies_and_is_replaced(tmp_path):
    tell_on_signal(sys.__stderr__)
    model = ModelServer()
    with running() as primary, short_folder() as second:
        standby = await asyncio.to_thread(primary.standby, second)
        dsn = f"postgresql://homarus@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        try:
            async with Cluster(dsn, tmp_path, model) as cluster:
                load = Load(cluster)
                await load.prepare()
                await cluster.start("w1", "w2", "w3")
                talking = asyncio.ensure_future(load.run())
                await chaos(cluster, primary, standby)
                await talking
                await load.answered()
                result = await asyncio.to_thread(load.check)
                refused = sum([int((await asyncio.to_thread(w.health))["refused"]) for w in alive(cluster)])
                report(cluster, result, refused)
                assert result == NOTHING
                assert refused > 0, "the worker that slept found its homes with others"
        finally:
            standby.stop()
            model.close()


async def chaos(cluster: Cluster, primary: Postgres, standby: Postgres) -> None:
    await asyncio.sleep(8)
    cluster.workers["w1"].signal(signal.SIGKILL)
    await asyncio.sleep(8)
    await cluster.start("w4")
    cluster.workers["w2"].signal(signal.SIGSTOP)
    await asyncio.sleep(STOPPED)
    cluster.workers["w2"].signal(signal.SIGCONT)
    await asyncio.sleep(5)
    await asyncio.to_thread(primary.kill)
    await asyncio.sleep(3)
    await asyncio.to_thread(primary.start)
    await asyncio.sleep(8)
    await asyncio.to_thread(primary.kill)
    await asyncio.to_thread(standby.promote)


def alive(cluster: Cluster) -> list:
    return [worker for worker in cluster.workers.values() if worker.process.poll() is None]


def report(cluster: Cluster, result: dict[str, int], refused: int) -> None:
    stalls = sorted(cluster.stalls)
    half, most = stalls[len(stalls) // 2], stalls[-1]
    print(  # noqa: T201 - figures for whoever runs this
        f"\n{len(stalls)} messages: {result}, refused {refused}, acknowledged after {half:.3f} s (longest {most:.1f} s); {dict(cluster.refusals)}"
    )


@pytest.fixture
def namespace():
    """Give a network namespace that reaches this machine by one cable, and what pulls that cable."""
    name, inside = f"fleet{os.getpid()}", "10.213.77.2"
    if shutil.which("ip") is None:
        pytest.skip("needs ip (Debian: iproute2)")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)

    here, there = f"fl{os.getpid()}a"[:15], f"fl{os.getpid()}b"[:15]
    try:
        ip("netns", "add", name)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"the kernel lets us make no network namespace: {problem.stderr.decode().strip()}")
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there)
        ip("link", "set", there, "netns", name)
        ip("addr", "add", "10.213.77.1/24", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{inside}/24", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        ip("-n", name, "link", "set", "lo", "up")
        yield (
            {"host": inside, "inside": ("ip", "netns", "exec", name)},
            lambda up: ip("link", "set", here, "up" if up else "down"),
        )
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=60)
        subprocess.run(["ip", "link", "del", here], capture_output=True, timeout=60)


async def test_a_worker_that_is_cut_off_writes_nothing_and_its_homes_go_on(tmp_path, namespace):
    given, cable = namespace
    model = ModelServer(host="0.0.0.0")
    with short_folder() as folder:
        server = Postgres.make(folder)
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.213.77.0/24 trust\n")
        server.start(listen="127.0.0.1,10.213.77.1")
        try:
            dsn = server.tcp(host="10.213.77.1")
            async with Cluster(dsn, tmp_path, model, model_host="10.213.77.1") as cluster:
                load = Load(cluster)
                await load.prepare()
                await cluster.start("w1", "w2")
                await cluster.start("far", **given)
                talking = asyncio.ensure_future(load.run())
                await asyncio.sleep(8)
                cable(False)
                await asyncio.sleep(15)
                cable(True)
                await talking
                await load.answered()
                result = await asyncio.to_thread(load.check)
                refused = int((await asyncio.to_thread(cluster.workers["far"].health))["refused"])
                report(cluster, result, refused)
                assert result == NOTHING
                assert refused > 0, "what it did while it was alone was not taken"
        finally:
            server.stop()
            model.close()
