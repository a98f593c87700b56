"""kill -9 of a gateway at random moments while everybody wants something of it: people on Telegram, clients on sockets, web
hooks, and jobs by the clock. What was accepted is in a transcript once, answered once and seen once, or told to be in doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.channels.telegram.bot_api import TOKEN as BOT
from tests.channels.telegram.bot_api import BotApi, serving
from tests.gateway.served import TOKEN, Wire
from tests.invariants.test_cron_kill import check_times, told_of
from tests.scenarios.home import until
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from bench import mock_model
from homarus.gateway.scopes import ALL
from homarus.runtime.speech import INTERRUPTED

DRIVER = Path(__file__).parent.parent / "scenarios" / "chat_driver.py"
KILLS = int(os.environ.get("HOMARUS_KILLS", "300"))
SESSIONS = 6
MARK = "⚠️"  # of a word that is no answer
HOOKS = "a-token-for-hooks-that-is-long"
BOARD = "19"  # the chat in which the jobs by the clock are heard
EVERY = {"tick": 3_000, "tock": 2_000}
SCHEDULES: dict[str, Any] = {
    "tick": {"kind": "every", "everyMs": EVERY["tick"]},
    "tock": {"kind": "cron", "expr": "*/2 * * * * *", "staggerMs": 0},
}
GONE = (OSError, WebSocketException, TimeoutError, aiohttp.ClientError)
_SAY = re.compile(r"\[\[say:([\w-]+)\]\]")
_WORD = re.compile(r"[\w-]+")


class Process:
    """A gateway of its own, which can be killed and started again."""

    def __init__(self, folder: Path, model: int, bots: str, people: list[str]) -> None:
        self.folder, self.state = folder, folder / ".openclaw"
        self._read: dict[Path, Any] = {}
        self.pid = self.port = 0
        provider = {"baseUrl": f"http://127.0.0.1:{model}/v1", "api": "openai-completions", "apiKey": "x"}
        models = {"providers": {"mock": {**provider, "models": [{"id": "m", "contextWindow": 128_000}]}}}
        document = {
            "agents": {"defaults": {"model": "mock/m"}},
            "models": models,
            "gateway": {
                "auth": {"token": TOKEN, "secretScopes": sorted(ALL)},
                "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
            },
            "channels": {"telegram": {"botToken": BOT, "apiRoot": bots, "dmPolicy": "allowlist", "allowFrom": people}},
            "commands": {"ownerAllowFrom": [f"telegram:{who}" for who in people]},
            "messages": {"queue": {"cap": 1000}},  # what gives way is told, too, but not in an answer of its own
            "session": {"dmScope": "per-channel-peer"},
            "hooks": {"enabled": True, "token": HOOKS},
        }
        if not people:
            del document["channels"]
        self.state.mkdir()
        (self.state / "openclaw.json").write_text(json.dumps(document))

    def open(self, *words: str) -> None:
        """Start what forks gateways: loading a platform's library anew would take most of each life."""
        env = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        line = [sys.executable, str(DRIVER), str(self.folder), "gateway", *words]
        with (self.folder / "log").open("ab") as log:
            self._driver = subprocess.Popen(
                line, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def close(self) -> None:
        if self.pid:
            self.kill()
        self._driver.communicate()

    def _told(self, pattern: str) -> int:
        """Wait for a line of the driver or of the gateway, and return the number in it."""
        assert self._driver.stdout is not None
        for said in self._driver.stdout:
            if found := re.search(pattern, said):
                return int(found[1])
            if said.startswith("gone"):
                self.pid = 0
                break
        raise AssertionError((self.folder / "log").read_text()[-4000:])

    def begin(self) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.write("start\n")
        self._driver.stdin.flush()
        self.pid = self._told(r"^(\d+)$")

    def serves(self) -> None:
        """Wait until it says where it listens."""
        self.port = self._told(r" port (\d+)")

    def kill(self) -> None:
        pid, self.pid = self.pid, 0
        os.kill(pid, signal.SIGKILL)
        self._told(r"^gone -(\d+)$")

    def end(self) -> None:
        pid, self.pid = self.pid, 0
        os.kill(pid, signal.SIGTERM)
        assert self._told(r"^gone (\d+)$") == 0, "it ends by itself when it is asked to"

    def sessions(self) -> list[Path]:
        return list((self.state / "agents/main/sessions").glob("*.jsonl"))

    def transcripts(self) -> tuple[Counter[str], Counter[str], set[str]]:
        """Return how often each word was asked and answered, and those of turns that were cut off too often to go on."""
        paths = self.sessions()
        for path in paths:
            size = path.stat().st_size
            if size == self._read.get(path, (-1,))[0]:
                continue
            asked, answered, ended, waiting = Counter[str](), Counter[str](), set[str](), set[str]()
            for line in path.read_bytes().splitlines():
                message: dict[str, Any] = {}
                with contextlib.suppress(ValueError):  # a line that is being written, or that a kill cut off
                    message = json.loads(line).get("message") or {}
                text = str(message.get("content"))
                if message.get("role") == "user":
                    asked.update(found := _SAY.findall(text))
                    waiting.update(found)
                elif message.get("role") == "assistant":
                    answered.update(said := set(_WORD.findall(text)))
                    waiting -= said
                    if message.get("errorMessage") == INTERRUPTED:
                        ended, waiting = ended | waiting, set()
            self._read[path] = (size, asked, answered, ended)
        found = [self._read[path] for path in paths]
        counts = (sum((each[place] for each in found), Counter[str]()) for place in (1, 2))
        return *counts, set().union(*(each[3] for each in found))

    def runs(self, job_id: str) -> list[dict[str, Any]]:
        path, rows = self.state / f"cron/runs/{job_id}.jsonl", []
        for line in path.read_bytes().splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
        return rows

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.state / "cron/jobs.json").read_text())["jobs"]
        return found


class World:
    """Everybody who wants something. A word names each wish; `taken` are those that the gateway, or Telegram, accepted."""

    def __init__(self, gateway: Process, api: BotApi, people: list[str], seed: int) -> None:
        self.gateway, self.api, self.people, self.dice = gateway, api, people, random.Random(seed)
        self.taken: set[str] = set()
        self.chats: dict[str, str] = {}  # of each word that is answered in a chat, which one
        self.again: dict[str, list[Any]] = {"socket": [], "hook": []}  # asked, and cut off before an answer came
        self.once: dict[str, str] = {}  # jobs that run once: their words, by id
        self.reminders: dict[str, str] = {}
        self.pace = 1.0
        self.waits_for: list[str] = []

    @contextlib.asynccontextmanager
    async def client(self):
        async with connect(f"ws://127.0.0.1:{self.gateway.port}/", proxy=None, compression=None) as raw:
            client = Wire(raw)
            assert (await client.connect(scopes=tuple(ALL)))["ok"]
            yield client

    def chat(self, word: str) -> dict[str, str]:
        """Say in whose chat a word is to be answered; without chats in nobody's."""
        if not self.people:
            return {}
        self.chats[word] = who = self.dice.choice(self.people)
        return {"channel": "telegram", "to": who}

    def write(self, word: str) -> None:
        """Let somebody write to the bot: Telegram keeps it until it is taken."""
        who = int(self.chat(word)["to"])
        person = {"id": who, "is_bot": False, "first_name": str(who)}
        self.api.say(self.said(word), {"id": who, "type": "private"}, **{"from": person})
        self.taken.add(word)

    def said(self, word: str) -> str:
        """Return how a word is put: some are thought about for a while, some after a look at a file."""
        more = self.dice.choice(["", "", " [[wait:0.3]]", " [[tools:2]]"])
        return f"[[say:{word}]]{more}"

    async def on_telegram(self, number: int) -> None:
        for each in range(self.dice.randrange(1, 4) if self.people else 0):
            self.write(f"t-{number}-{each}")
            await asyncio.sleep(self.dice.random() * self.pace / 2)

    async def on_sockets(self, number: int) -> None:
        async with self.client() as client:
            for each in range(1_000):
                word, session = f"w-{number}-{each}", f"agent:main:s{self.dice.randrange(SESSIONS)}"
                params = {"sessionKey": session, "message": self.said(word), "idempotencyKey": word}
                waiting = self.again["socket"]
                waiting.append(params)
                while waiting:  # the same key again: it counts once
                    assert (await client.ask("chat.send", waiting[0]))["ok"]
                    self.taken.add(waiting.pop(0)["idempotencyKey"])
                await asyncio.sleep(self.dice.random() * 0.1)

    async def on_hooks(self, number: int) -> None:
        head = {"Authorization": f"Bearer {HOOKS}"}
        async with aiohttp.ClientSession(headers=head) as http:
            for each in range(1_000):
                word, waiting = f"h-{number}-{each}", self.again["hook"]
                waiting.append({"message": self.said(word), **self.chat(word), "idempotencyKey": word})
                while waiting:
                    async with http.post(f"http://127.0.0.1:{self.gateway.port}/hooks/agent", json=waiting[0]) as found:
                        assert (await found.json())["ok"]
                    self.taken.add(waiting.pop(0)["idempotencyKey"])
                await asyncio.sleep(self.dice.uniform(0.2, 2.0))

    async def on_openai(self, number: int) -> None:
        """Ask as programs do that know no key: what was answered counts, and what was cut off counts once at most."""
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            for each in range(1_000):
                word = f"o-{number}-{each}"
                said = [{"role": "user", "content": self.said(word)}]
                body = {"model": "openclaw", "user": f"u{self.dice.randrange(SESSIONS)}", "messages": said}
                url = f"http://127.0.0.1:{self.gateway.port}/v1/chat/completions"
                async with http.post(url, json=body) as found:
                    answer = await found.json()
                assert word in _WORD.findall(answer["choices"][0]["message"]["content"]), answer
                self.taken.add(word)
                await asyncio.sleep(self.dice.random() * 0.5)

    async def on_time(self, number: int) -> None:
        """Order one job that speaks in a chat, and one that reminds the main session, for a moment soon."""
        async with self.client() as client:
            for kind in ("a", "r"):
                word, soon = f"{kind}-{number}", int((time.time() + self.dice.random() * 3) * 1000)
                job: dict[str, Any] = {"name": word, "schedule": {"kind": "at", "at": str(soon)}}
                if kind == "a":
                    job |= {"payload": {"message": self.said(word)}, "delivery": announced(self.chat(word))}
                else:
                    job |= {"payload": {"kind": "systemEvent", "text": f"[[say:{word}]]"}}
                made = await client.ask("cron.add", job)
                if not made["ok"]:  # a slow machine asked too late
                    assert "past" in made["error"]["message"], made
                    continue
                (self.once if kind == "a" else self.reminders)[made["payload"]["id"]] = word
                if kind == "a":
                    self.taken.add(word)

    async def life(self, number: int) -> None:
        """Let one process live for a while; some die before they serve anybody."""
        self.gateway.begin()
        if self.people and self.dice.random() < 0.15:
            self.write(f"e-{number}")
            await asyncio.sleep(self.dice.random() * self.pace)
            await asyncio.to_thread(self.gateway.kill)
            return
        await asyncio.to_thread(self.gateway.serves)
        wishes = (self.on_telegram, self.on_sockets, self.on_hooks, self.on_openai, self.on_time)
        tasks = [asyncio.ensure_future(wish(number)) for wish in wishes]
        await asyncio.sleep(self.dice.random() * self.pace * 1.5)
        await asyncio.to_thread(self.gateway.kill)
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, GONE):
                raise ended

    async def first(self) -> None:
        """Make the jobs, and see how long this machine takes from the start to an answer."""
        self.gateway.begin()
        began = time.monotonic()
        await asyncio.to_thread(self.gateway.serves)
        async with self.client() as client:
            for name, schedule in SCHEDULES.items():
                heard = announced({"channel": "telegram", "to": BOARD} if self.people and name == "tick" else {})
                job = {"name": name, "schedule": schedule, "payload": {"message": f"[[say:{name}]]"}}
                await client.call("cron.add", job | {"delivery": heard})
            await client.call("chat.send", {"sessionKey": "main", "message": "[[say:w-0]]", "idempotencyKey": "w-0"})
            self.taken.add("w-0")
        await self.on_telegram(0)
        await until(lambda: any(map(self.seen, self.taken)) if self.people else not self.open())
        self.pace = min(3.0, time.monotonic() - began)
        await asyncio.to_thread(self.gateway.kill)

    async def last(self) -> None:
        """Let everything come to its end, start once more, so that what would be said twice is said, and end."""
        self.gateway.begin()
        await asyncio.to_thread(self.gateway.serves)
        async with self.client() as client:
            for params in self.again["socket"]:
                assert (await client.ask("chat.send", params))["ok"]
                self.taken.add(params["idempotencyKey"])
            for job in [job for job in self.gateway.jobs() if job["name"] in EVERY]:
                await until(lambda ident=job["id"]: len(self.gateway.runs(ident)) > 1)
                await client.call("cron.update", {"id": job["id"], "patch": {"enabled": False}})
        await self.settled()
        await asyncio.to_thread(self.gateway.kill)
        self.gateway.begin()
        await asyncio.to_thread(self.gateway.serves)
        for number in range(len(self.people)):
            self.write(f"f-{number}")
        await self.settled()
        await asyncio.to_thread(self.gateway.end)

    async def settled(self) -> None:
        async with asyncio.timeout(900):
            while left := self.open():
                self.waits_for = left
                await asyncio.sleep(1)

    # What came of it.

    def shown(self) -> list[tuple[str, str]]:
        return [(chat, held["shown"]) for (chat, _), held in self.api.messages.items()]

    def places(self, *, doubt: bool = False) -> dict[str, list[str]]:
        """Return in which chats each word was seen, in answers or in what was told to be in doubt."""
        found: dict[str, list[str]] = {}
        for chat, text in self.shown():
            for word in _WORD.findall(text) if (MARK in text) == doubt else ():
                found.setdefault(word, []).append(chat)
        return found

    def seen(self, word: str) -> bool:
        return word in self.places()

    def given_up(self) -> list[str]:
        """Return the words of turns that died four times and are told of as docs/queue.md says."""
        gateway, chats = self.gateway, Counter(chat for chat, text in self.shown() if INTERRUPTED[-60:] in text)
        events = "".join(path.read_text() for path in (gateway.state / "homarus/events").glob("*.jsonl"))
        ended = {self.once[row["jobId"]] for ident in self.once for row in gateway.runs(ident) if row.get("error")}
        told = []
        for word in gateway.transcripts()[2] - set(EVERY):
            if word[0] in "te":
                told += [word] if chats[self.chats[word]] else []
                chats[self.chats[word]] -= 1
            elif word[0] == "h":
                told += [word] if f"hook:{word}:end" in events else []
            else:
                told += [word] if word[0] in "wo" or word in ended else []
        return told

    def open(self) -> list[str]:
        """Return what is still to come."""
        _, answered, ended = self.gateway.transcripts()
        told = set(self.given_up()) if ended else set()
        seen = {**self.places(), **self.places(doubt=True)}
        left = [word for word in self.taken - told if word not in (seen if word in self.chats else answered)]
        for job in self.gateway.jobs():
            soon = job["enabled"] and job["id"] in self.once | self.reminders
            left += [job["name"]] if soon or (job["state"].get("runningAtMs") and not job["enabled"]) else []
        return [*left, *(str(update) for update in self.api.pending)]


def announced(chat: dict[str, str]) -> dict[str, str]:
    return {"mode": "announce", **chat} if chat else {"mode": "none"}


def check(world: World) -> dict[str, int]:
    """Check what must hold when everything came to its end; return what was counted."""
    asked, answered, ended = world.gateway.transcripts()
    words, seen, doubtful = world.taken, world.places(), world.places(doubt=True)
    assert world.open() == [], "neither answered nor told"
    assert sorted(word for word in words if asked[word] != 1) == [], "not once in the transcripts"
    assert [word for word, count in asked.items() if count > 1 and word not in EVERY] == [], "stored twice"
    twice = [word for word, count in answered.items() if word in asked and word not in EVERY and count > 1]
    assert twice == [], "answered twice"
    counts = Counter(f"{word[0]} taken" for word in words)
    counts.update(f"{word[0]} given up" for word in ended if word in words)
    for word, chat in world.chats.items():
        assert seen.get(word, [chat]) == [chat], f"{word} was seen twice, or in another chat"
        assert set(doubtful.get(word, [chat])) == {chat}, f"{word} was told in another chat"
        if word in words:
            what = "seen" if word in seen else "unseen"
            counts[f"{word[0]} {what}{' and in doubt' if word in doubtful else ''}"] += 1
    assert [no for no in seen if no.startswith("no-") and len(seen[no]) > 1] == [], "one answer was seen twice"
    strange = [text for _, text in world.shown() if MARK not in text and not re.search(r"noted .* as no-\d+", text)]
    assert strange == []
    return dict(counts | check_jobs(world))


def check_jobs(world: World) -> Counter[str]:
    gateway, counts, seen, doubtful = world.gateway, Counter[str](), world.places(), world.places(doubt=True)
    for job in gateway.jobs():
        assert "runningAtMs" not in job["state"], job
        if job["name"] not in EVERY:
            continue
        ran = check_times(gateway.runs(job["id"]), EVERY[job["name"]])
        for row in ran:
            counts[f"{job['name']} {row['status']}"] += 1
            counts[f"{job['name']} missed"] += row.get("missed", 0)
            if world.people and job["name"] == "tick" and row["status"] == "ok":
                number = re.findall(r"no-\d+", row["summary"])[-1]
                assert number in seen or number in doubtful, f"nobody heard {row}"
                counts["tick in doubt"] += number in doubtful
    for ident, word in (world.once | world.reminders).items():
        rows = [row for row in gateway.runs(ident) if row["action"] == "finished"]
        assert len(rows) == 1, (word, rows)
        counts[f"{word[0]} job {rows[0]['status']}"] += 1
        if ident in world.reminders:
            assert list(told_of(gateway.folder, ident).values()) == [1], f"{word} was not told once"
    return counts


@contextlib.asynccontextmanager
async def killed(tmp_path: Path, kills: int, people: int, seed: int) -> AsyncIterator[World]:
    """Kill a gateway so often, and let everything come to its end. A home in which something is wrong is kept."""
    with tempfile.TemporaryDirectory(prefix="h") as short, mock_model.serving() as model:
        async with serving() as api:
            names = [str(20 + number) for number in range(people)]
            world = World(Process(Path(short), model, api.base, names), api, names, seed)
            world.gateway.open(*(["real"] if people else []))
            try:
                await world.first()
                for number in range(1, kills):
                    await world.life(number)
                await world.last()
                yield world
            except BaseException:
                world.gateway.close()
                shutil.copytree(short, tmp_path / "home", ignore=shutil.ignore_patterns("*.sock"))
                (tmp_path / "shown.json").write_text(json.dumps([world.waits_for, world.shown()]))
                raise
            world.gateway.close()


async def test_two_kills_lose_and_double_nothing_and_the_checks_would_notice(tmp_path: Path) -> None:
    async with killed(tmp_path, 2, people=0, seed=7) as world:
        check(world)
        world.chats["w-0"], shown = "20", world.api.messages
        for number in range(2):
            shown["20", number] = {"shown": f"noted w-0 as no-{number}"}
            with pytest.raises(AssertionError, match="seen twice") if number else contextlib.nullcontext():
                check(world)
        del shown["20", 1]
        tick = next(job for job in world.gateway.jobs() if job["name"] == "tick")
        runs = world.gateway.state / f"cron/runs/{tick['id']}.jsonl"
        lines = runs.read_text().splitlines(keepends=True)
        runs.write_text("".join(line for line in lines if '"finished"' not in line))
        with pytest.raises(AssertionError, match="without an end"):
            check(world)
        next(path for path in world.gateway.sessions() if "[[say:w-0]]" in path.read_text()).unlink()
        with pytest.raises(AssertionError, match="not once"):
            check(world)


@pytest.mark.deep
@pytest.mark.skipif(find_spec("aiogram") is None, reason="needs aiogram: pip install 'homarus[telegram]'")
async def test_hundreds_of_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    # A chat gets no more than thirty messages in a minute, however often the program is started.
    async with killed(tmp_path, KILLS, people=max(4, KILLS // 12), seed=11) as world:
        counts = check(world)
    (tmp_path / "report.txt").write_text("\n".join(f"{name}: {count}" for name, count in sorted(counts.items())))
