"""A whole fleet on this machine: Postgres, workers as processes, an edge, people who talk, and what became of it all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from tests.channels.telegram.bot_api import ALICE, DM
from tests.fleet.homes import DEVICE, pair
from tests.fleet.model import ModelServer, settings
from tests.gateway.served import TOKEN, Wire
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from homarus.fleet.database import Database
from homarus.fleet.directory import Directory
from homarus.fleet.edge import Edge
from homarus.fleet.placement import Placement
from homarus.fleet.rows import HomeVolume
from homarus.fleet.settings import Fleet, Quota
from homarus.gateway import wire
from homarus.gateway.settings import GatewaySettings
from homarus.sessions.codec import keys_of

SECRET = "a secret that edge and workers share"
HOOK = "a-hook-token-of-some-length"
MARK, UPDATE = re.compile(r"s\d{7}|hook\d{4}"), re.compile(r"tele\d{4}")
ALWAYS = Quota(messages_per_second=1000.0, connections=500)


def marks(body: dict) -> list[str]:
    """Return what a stored message stands for: by the key that its sender chose, and not by its words, which others may repeat.

    Telegram chooses the keys itself, and nobody repeats those words but the agent.
    """
    keys = [key for each in keys_of(body) if MARK.fullmatch(key := each.rpartition(":")[2])]
    return keys or (UPDATE.findall(json.dumps(body["content"])) if body["role"] == "user" else [])


def answers(body: dict) -> bool:
    """Say whether a stored message is the model's word, whole: what failed or was stopped answers nobody."""
    return body["role"] == "assistant" and body.get("stopReason") not in {"error", "aborted"}


class Worker:
    """One worker process. It may run in a network namespace of its own."""

    def __init__(self, name: str, dsn: str, root: Path, host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> None:
        line = [*inside, sys.executable, "-m", "tests.fleet.process", dsn, name, str(root / name), host, SECRET]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.log = (root / f"{name}.log").open("wb")
        self.name = name
        self.process = subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=self.log)
        self.address = ""

    def wait(self) -> None:
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().decode().strip()
        assert self.address, Path(self.log.name).read_text()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def health(self) -> dict[str, str]:
        request = urllib.request.Request(f"{self.address}/.fleet/health", headers={"x-homarus-fleet": SECRET})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(pair.split("=") for pair in answer.read().decode().split())

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()


class Cluster:
    def __init__(self, dsn: str, root: Path, model: ModelServer, model_host: str = "127.0.0.1") -> None:
        self.dsn, self.root, self.model, self.model_host = dsn, root, model, model_host
        self.database = Database(dsn, name="test", patience=120.0)
        self.workers: dict[str, Worker] = {}
        self.port = 0
        self.stalls: list[tuple[float, float]] = []  # when a message was acknowledged, and how long that took
        self.slow: list[tuple[float, str]] = []  # what took longest to be acknowledged, and what it waited for
        self.refusals: Counter[str] = Counter()  # what people were told instead
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        from homarus.net.client import HttpClient

        await asyncio.to_thread(self.database.migrate)
        http = HttpClient()
        fleet = Fleet(secret=SECRET, database=self.dsn, quota=ALWAYS)
        edge = Edge(fleet, Directory(self.database, fleet), http, patience=60.0)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        server = wire.server(edge, GatewaySettings(), None)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        await server.up.wait()

        async def end() -> None:
            server.should_exit = True
            await serving
            await http.aclose()

        self._stack.push_async_callback(end)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        for worker in self.workers.values():
            await asyncio.to_thread(worker.end)
        await asyncio.to_thread(self.database.close)

    async def start(self, *names: str, **given) -> None:
        fresh = [Worker(name, self.dsn, self.root, **given) for name in names]
        for worker in fresh:
            self.workers[worker.name] = worker
            await asyncio.to_thread(worker.wait)

    async def add(self, home: str, **more) -> None:
        """Make a home, configured in its rows."""
        operator = Placement(self.database, "operator")
        await operator.add(home)
        lease = await operator.take(home)
        assert lease is not None
        folder = self.root / "made" / home
        (folder / ".openclaw").mkdir(parents=True)
        volume = HomeVolume(self.database, lease, Path(os.path.realpath(folder)))
        config = settings(self.model.port, TOKEN, self.model_host, hooks={"enabled": True, "token": HOOK}, **more)
        (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
        pair(folder)
        await asyncio.to_thread(volume.settle)
        await operator.release([lease])

    @contextlib.asynccontextmanager
    async def client(self, home: str):
        async with asyncio.timeout(120):
            raw = await connect(f"ws://127.0.0.1:{self.port}/h/{home}/", proxy=None, compression=None, max_size=None)
        async with raw:
            client = Wire(raw)
            scopes = ("operator.admin", "operator.read", "operator.write")
            answer = await client.connect(TOKEN, scopes=scopes, device=DEVICE)
            if not answer["ok"]:
                raise OSError(str(answer))
            yield client

    def acknowledged(self, began: float, what: str, steps: list[tuple[str, float]]) -> None:
        now = time.monotonic()
        self.stalls.append((now, now - began))
        told = ", ".join(f"{step} {at - began:.1f}" for step, at in [*steps[:1], *steps[-7:]])
        self.slow = sorted([*self.slow, (now - began, f"{what}: {told}")], reverse=True)[:5]

    async def talk(self, home: str, session: str, words: list[str], steer: bool, pause: float) -> None:
        """Say words in one session, each until it is acknowledged: a connection that is lost is made again."""
        left = list(words)
        began, steps = time.monotonic(), list[tuple[str, float]]()

        def step(what: str) -> None:
            steps.append((what, time.monotonic()))

        while left:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError, AssertionError):
                step("connects")
                async with self.client(home) as client:
                    step("connected")
                    while left:
                        mode = {"queueMode": "steer"} if steer else {}
                        params = {"message": left[0], "sessionKey": session, "idempotencyKey": left[0], **mode}
                        step("says")
                        async with asyncio.timeout(20):  # whoever hears nothing for so long comes again
                            answer = await client.ask("chat.send", params)
                        if not answer["ok"]:
                            step("is refused")
                            self.refusals[str(answer["error"].get("message"))[:120]] += 1
                            await asyncio.sleep(0.5)  # whoever asks faster than that is told to wait longer
                            break
                        self.acknowledged(began, f"{home} {left[0]}", steps)
                        word = left.pop(0)
                        if not steer:
                            with contextlib.suppress(AssertionError):
                                await client.call("agent.wait", {"runId": word, "timeoutMs": 20_000})
                        await asyncio.sleep(pause if left else 0)
                        began, steps[:] = time.monotonic(), []
            step("is cut off")
            await asyncio.sleep(0.05)

    async def hook(self, home: str, word: str) -> None:
        """Call a web hook until it is acknowledged."""
        headers = {"authorization": f"Bearer {HOOK}", "webhook-id": word}
        await self._posted(home, "hooks/agent", {"message": word, "name": "test"}, headers)

    async def update(self, home: str, number: int, word: str) -> None:
        """Be Telegram that tells a bot of a message, again and again until it is acknowledged."""
        message = {"message_id": number, "date": 1_790_000_000, "chat": DM, "from": ALICE, "text": word}
        headers = {"x-telegram-bot-api-secret-token": HOOK}
        await self._posted(home, "telegram-webhook", {"update_id": number, "message": message}, headers)

    async def _posted(self, home: str, path: str, what: dict, headers: dict[str, str]) -> None:
        url, body = f"http://127.0.0.1:{self.port}/h/{home}/{path}", json.dumps(what).encode()
        began = time.monotonic()

        def post() -> int:
            request = urllib.request.Request(url, data=body, headers={"content-type": "application/json", **headers})
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return answer.status
            except urllib.error.HTTPError as problem:
                return problem.code
            except OSError:
                return 0

        steps: list[tuple[str, float]] = []
        while (status := await asyncio.to_thread(post)) not in (200, 202):
            steps.append((f"hears {status}", time.monotonic()))
            self.refusals[f"{path}: {status}"] += 1
            await asyncio.sleep(0.1)
        self.acknowledged(began, f"{home} {path}", steps)

    async def cron(self, home: str, word: str, every_ms: int) -> None:
        job = {
            "name": "tick", "schedule": {"kind": "every", "everyMs": every_ms}, "sessionTarget": "isolated",
            "wakeMode": "now", "payload": {"kind": "agentTurn", "message": word}, "delivery": {"mode": "none"},
        }  # fmt: skip
        async with self.client(home) as client:
            await client.call("cron.add", job)

    # What became of it.

    def transcripts(self, home: str) -> dict[str, list[dict]]:
        """Return the messages of every transcript of a home in their order, out of the rows."""
        files: dict[str, bytes] = {}
        for row in self.database.rows("select path, bytes from file where home = $1", home):
            files[row["path"]] = bytes(row["bytes"] or b"")
        for row in self.database.rows("select path, bytes from line where home = $1 order by path, at", home):
            files[row["path"]] = files.get(row["path"], b"") + bytes(row["bytes"])
        found = {}
        for path, data in files.items():
            if "/sessions/" in path and path.endswith(".jsonl"):
                lines = map(json.loads, data.splitlines())
                found[path] = [row["message"] for row in lines if row.get("type") == "message"]
        return found

    def whereabouts(self, home: str, word: str) -> str:
        """Say how far a message came: every line of the rows that names it, with the lease it was written under."""
        found, held = [], self.database.rows("select epoch, worker from lease where home = $1", home)[0]
        for row in self.database.rows(
            "select path, epoch, bytes from line where home = $1 and position($2::bytea in bytes) > 0 order by path, at",
            home, word.encode(),
        ):  # fmt: skip
            for line in bytes(row["bytes"]).splitlines():
                if word.encode() in line:
                    what = json.loads(line)
                    body = what.get("message") or {}
                    kind = body.get("role") or what.get("action") or next(iter(what))
                    ended = " ".join(filter(None, (body.get("stopReason"), body.get("errorMessage"))))
                    found.append(f"{'/'.join(row['path'].split('/')[-2:])} {kind} {ended} (lease {row['epoch']})")
        mail = self.database.rows(
            "select key from mail where home = $1 and position($2::bytea in body) > 0", home, word.encode()
        )
        timer = self.database.rows("select due - clock_timestamp() as due from timer where home = $1", home)
        found += [f"lies in the mail as {row['key']}" for row in mail]
        asked = sum(count for words, count in self.model.asked.items() if word in words)
        return (
            f"{word} in {home}, which is {held['worker']}'s (lease {held['epoch']}), due {[str(row['due']) for row in timer]}, "
            f"the model heard it {asked} times:\n    " + "\n    ".join(found or ["no line names it"])
        )

    def logged(self) -> list[tuple[float, str, str]]:
        """Return what the workers logged: when, who, and what."""
        found = []
        for worker in self.workers.values():
            for line in Path(worker.log.name).read_text(errors="replace").splitlines():
                moment, _, text = line.partition(" ")
                if re.fullmatch(r"\d+\.\d+", moment):
                    found.append((float(moment), worker.name, text))
        return sorted(found)

    def zombies(self) -> int:
        """Return how many lines stand behind a line of a later lease."""
        return self.database.rows(
            """select count(*) as count from (select epoch, lag(epoch) over (partition by home, path order by at) as before
            from line) as t where before > epoch"""
        )[0]["count"]

    def ticks(self, home: str) -> tuple[Counter[str], Counter[str]]:
        """Return how often each tick of the jobs of a home was begun and ended."""
        begun: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        rows = self.database.rows(
            "select bytes from line where home = $1 and path like '%/runs/%' order by path, at", home
        )
        for line in b"".join(bytes(row["bytes"]) for row in rows).splitlines():
            row = json.loads(line)
            (begun if row["action"] == "claimed" else ended)[row["runId"]] += 1
        return begun, ended
