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
from tests.channels.telegram.bot_api import DM, TOKEN, BotApi, serving
from tests.fleet.cluster import HOOK, Cluster, answers, marks
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

    def __init__(self, cluster: Cluster, api: BotApi, length: float = LENGTH) -> None:
        self.cluster, self.api, self.length = cluster, api, length
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
        pause = self.length / MESSAGES
        talks = [self.talk(number, pause) for number in self.words]
        hooks = [self.hooks(number) for number in range(HOOKS)]
        await asyncio.gather(*talks, *hooks, *(self.called(home, pause) for home in self.bots))

    async def talk(self, number: int, pause: float) -> None:
        await asyncio.sleep(pause * number / SESSIONS)  # people do not speak in step
        home, words = self.homes[number % HOMES], self.words[number]
        await self.cluster.talk(home, f"talk{number}", words, steer=number % 2 == 0, pause=pause)

    async def hooks(self, number: int) -> None:
        await asyncio.sleep(number * self.length / HOOKS)
        await self.cluster.hook(self.homes[number % HOMES], f"hook{number:04d}")

    async def called(self, home: str, pause: float) -> None:
        for word in self.updates[home]:
            number = int(word.removeprefix("tele")) + 1
            await self.cluster.update(home, number, word)
            if number % 5 == 0:  # as if Telegram had not heard that it was taken
                await self.cluster.update(home, number, word)
            await asyncio.sleep(pause)

    async def answered(self) -> None:
        """Wait until everything that was said is answered, the answers that a chat waits for are there, and every tick has ended."""
        ends = time.monotonic() + 600
        while missing := await asyncio.to_thread(self.missing):
            if time.monotonic() > ends:
                told = [await asyncio.to_thread(self.cluster.whereabouts, *each) for each in missing[:20]]
                raise AssertionError(f"{len(missing)} were not answered\n" + "\n".join(told))
            await asyncio.sleep(1)
        while unsent := await asyncio.to_thread(self.unsent):
            assert time.monotonic() < ends, f"answers that Telegram never got: {unsent}"
            await asyncio.sleep(1)
        begun = {home: (await asyncio.to_thread(self.cluster.ticks, home))[0] for home in self.ticking}
        while open_ticks := [
            (home, tick)
            for home in self.ticking
            for tick in begun[home] - (await asyncio.to_thread(self.cluster.ticks, home))[1]
        ]:
            assert time.monotonic() < ends, open_ticks
            await asyncio.sleep(1)

    def wanted(self) -> Iterator[tuple[str, str]]:
        """Yield everything that is said, and the home to which it is."""
        for number, words in self.words.items():
            yield from ((self.homes[number % HOMES], word) for word in words)
        for home, words in self.updates.items():
            yield from ((home, word) for word in words)
        yield from ((self.homes[number % HOMES], f"hook{number:04d}") for number in range(HOOKS))

    def missing(self) -> list[tuple[str, str]]:
        """Return what stands in no transcript with an answer of the model behind it."""
        answered: set[tuple[str, str]] = set()
        for home in self.homes:
            for messages in self.cluster.transcripts(home).values():
                last = max((at for at, body in enumerate(messages) if answers(body)), default=0)
                answered.update(
                    (home, mark) for body in messages[:last] if body["role"] == "user" for mark in marks(body)
                )
        return [each for each in self.wanted() if each not in answered]

    def unsent(self) -> list[str]:
        """Return answers to what came from Telegram that nobody sees there."""
        shown = "\n".join(self.api.shown(str(DM["id"])))
        texts = (
            part.get("text", "")
            for home in self.bots
            for messages in self.cluster.transcripts(home).values()
            for body in messages
            if answers(body)
            for part in body["content"]
        )
        return [text for text in texts if "re: tele" in text and text.strip() not in shown]

    def check(self) -> dict[str, int]:
        """Return what went wrong; everything must be 0."""
        disordered = 0
        said: Counter[str] = Counter()
        for home in self.homes:
            for path, messages in self.cluster.transcripts(home).items():
                own = [mark for body in messages if body["role"] == "user" for mark in marks(body)]
                said.update(own)
                firsts = [mark for mark in dict.fromkeys(own) if not mark.startswith("hook")]  # nobody orders those
                if firsts != sorted(firsts):
                    disordered += 1
                    print(f"\nout of order in {home} {path}: {firsts}")  # noqa: T201
                if len(own) > len(set(own)):
                    print(f"\ntwice in {home} {path}: {own}")  # noqa: T201
        ticks, idle = 0, 0
        for home in self.ticking:
            begun, ended = self.cluster.ticks(home)
            ticks += sum(count > 1 for count in begun.values()) + sum(count > 1 for count in ended.values())
            idle += len(ended) < 3
        return {
            "lost": len(self.missing()), "doubled": sum(count - 1 for count in said.values()),
            "out of order": disordered, "zombies": self.cluster.zombies(), "ticks twice": ticks,
            "jobs that stopped": idle,
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
        self.clocks = time.time() - time.monotonic()

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
        """Return the longest wait for an acknowledgement after each failure, and what the workers did meanwhile."""
        ends = [*(moment for _, moment in self.began[1:]), time.monotonic() + 1]
        parts, logged = [], [(moment - self.clocks, who, text) for moment, who, text in self.cluster.logged()]
        for (name, start), end in zip(self.began, ends, strict=True):
            waits = [wait for moment, wait in self.cluster.stalls if start <= moment < end]
            lines = [(moment - start, who, text) for moment, who, text in logged if start <= moment < end]
            took = [f"{who} after {moment:.1f} s" for moment, who, text in lines if " took " in text]
            opened = [
                (float(text.split(" opened in ")[1].split()[0]), moment)
                for moment, _, text in lines
                if " opened in " in text
            ]
            longest, last = (
                max((each for each, _ in opened), default=0),
                max((moment for _, moment in opened), default=0),
            )
            parts.append(
                f"{name}: {max(waits, default=0):.1f} s; homes taken by {', '.join(took) or 'nobody'};"
                f" {len(opened)} opened, the slowest in {longest:.2f} s, the last after {last:.1f} s"
            )
        return "\n".join(parts)


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
    slow = "\n".join(f"{wait:.1f} s {told}" for wait, told in cluster.slow)
    print(  # noqa: T201 - figures for whoever runs this
        f"\n{len(stalls)} messages: {result}, refused {refused}, acknowledged after {half:.3f} s, longest stall {most:.1f} s;"
        f" {dict(cluster.refusals)}\n{chaos.stalls()}\n{slow}"
    )
