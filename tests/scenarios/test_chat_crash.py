"""Kill -9 at any moment: no message that was accepted is lost, nothing is shown twice, and no job is skipped or doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DRIVER = Path(__file__).with_name("chat_driver.py")
# Several chats of one session; a chat gets no more than thirty messages in a minute.
PEOPLE = [str(number) for number in range(7, 27)]
CONFIG = {
    "agents": {
        "defaults": {
            "model": "script/model",
            "blockStreamingChunk": {"minChars": 10, "maxChars": 60},
            "blockStreamingCoalesce": {"minChars": 1, "idleMs": 0},
            "sandbox": {"mode": "off"},
        }
    },
    "channels": {"files": {"allowFrom": PEOPLE, "dmPolicy": "allowlist", "streaming": {"block": {"enabled": True}}}},
    "commands": {"ownerAllowFrom": [f"files:{who}" for who in PEOPLE]},
    "messages": {"queue": {"mode": "followup", "debounceMs": 0, "cap": 1000}},
    "cron": {"enabled": True},
}


class World:
    """A home, its platform, and the process that serves it."""

    def __init__(self, folder: Path, seed: int, jobs: int) -> None:
        self.folder, self.random, self.sent = folder, random.Random(seed), list[str]()
        self.jobs = [f"j{number}" for number in range(jobs)]
        for name in ("in", "out", ".openclaw"):
            (folder / name).mkdir(parents=True)
        (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(CONFIG))

    @contextmanager
    def driver(self) -> Iterator[subprocess.Popen[str]]:
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        command = [sys.executable, str(DRIVER), str(self.folder)]
        with (
            (self.folder / "log").open("a") as log,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env
            ) as driver,
        ):
            try:
                yield driver
            finally:
                assert driver.stdin is not None
                driver.stdin.close()

    def says(self, text: str) -> None:
        path = self.folder / "in" / f"{len(self.sent):05}.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps({"text": text, "from": PEOPLE[len(self.sent) % len(PEOPLE)]}))
        draft.replace(path)
        self.sent.append(text)

    def job(self, name: str, seconds: float) -> None:
        """A job that is due once, and says so in the chat."""
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        path = self.folder / ".openclaw" / "cron" / "jobs.json"
        path.parent.mkdir(exist_ok=True)
        jobs = json.loads(path.read_text())["jobs"] if path.exists() else []
        jobs.append(
            {
                "id": name,
                "name": name,
                "enabled": True,
                "schedule": {"kind": "at", "at": moment.isoformat()},
                "sessionTarget": "isolated",
                "wakeMode": "now",
                "payload": {"kind": "agentTurn", "message": f"job {name}"},
                "delivery": {"mode": "announce", "channel": "files", "to": "7"},
                "createdAtMs": 0,
                "updatedAtMs": 0,
                "state": {"nextRunAtMs": int(moment.timestamp() * 1000)},
            }
        )
        path.write_text(json.dumps({"version": 1, "jobs": jobs}))

    def run(self, driver: subprocess.Popen[str], enough: Callable[[], bool]) -> None:
        """Serve until it is enough, then kill."""
        assert driver.stdin is not None
        assert driver.stdout is not None
        driver.stdin.write("start\n")
        driver.stdin.flush()
        pid = int(driver.stdout.readline())
        while not enough():
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        assert driver.stdout.readline().strip() == "gone"

    @property
    def shown(self) -> list[str]:
        return [json.loads(path.read_text())["text"] for path in (self.folder / "out").glob("*.json")]

    def unanswered(self) -> list[str]:
        whole = "\n".join(self.shown)
        return [text for text in self.sent if f"Then more about {text}." not in whole]

    def settled(self) -> bool:
        """Everything is answered, or was cut off twice and the chat was told so; every job has said how it went."""
        told = sum(text.startswith("⚠️") for text in self.shown)
        return (
            len(self.unanswered()) <= told
            and not list((self.folder / "in").glob("*.json"))
            and all(map(self.ran, self.jobs))
        )

    def ran(self, job: str) -> list[str]:
        """How the runs of a job ended."""
        path = self.folder / ".openclaw" / "cron" / "runs" / f"{job}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [row["status"] for row in rows if row["action"] == "finished"]


def after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def chaos(folder: Path, kills: int, seed: int, messages: int = 1) -> World:
    """Kill so many processes, each of which gets so many messages; then let one go on until nothing is open."""
    world = World(folder, seed, jobs=kills // 10)
    pick = world.random
    for job in world.jobs:
        world.job(job, pick.uniform(0.5, kills * 0.12))
    with world.driver() as driver:
        for number in range(kills):
            for more in range(messages):
                what = f"{number}" if messages == 1 else f"{number}.{more}"
                world.says(f"act {what}" if number % 3 == 0 else f"question {what}")
            world.run(driver, after(pick.uniform(0.03, 0.35)))
        late = after(300.0)
        world.run(driver, lambda: world.settled() or late())
        world.run(driver, after(1.0))  # what would be said twice is said now
    return world


def check(world: World) -> None:
    shown = world.shown
    cut = sum(text.startswith("⚠️") for text in shown)
    for part in (f"{part} {text}." for text in world.sent for part in ("First about", "Then more about")):
        count = sum(each.count(part) for each in shown)
        assert count <= 1, f"{part!r} was shown {count} times"
    chats = [json.loads(path.read_text()) for path in (world.folder / "out").glob("*.json")]
    for number, text in enumerate(world.sent):
        seen = {each["to"] for each in chats if f"about {text}." in each["text"]}
        assert seen <= {PEOPLE[number % len(PEOPLE)]}, f"{text} was answered in another chat"
    assert len(world.unanswered()) <= cut, f"{world.unanswered()} had no answer, and {cut} notices were shown"
    acts = (world.folder / "acts").read_text().splitlines() if (world.folder / "acts").exists() else []
    assert len(acts) == len(set(acts)), "a tool ran twice"
    for job in world.jobs:
        told = sum(text.startswith("First about [cron") and f"] job {job}." in text for text in shown)
        assert (world.ran(job), told) in ((["ok"], 1), (["error"], 0)), job


def test_thirty_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    check(chaos(tmp_path / "home", 30, seed=7))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_thirty_kills_of_other_homes(tmp_path: Path, seed: int) -> None:
    check(chaos(tmp_path / "home", 30, seed=seed))


@pytest.mark.deep
def test_three_hundred_kills_of_one_home_under_load(tmp_path: Path) -> None:
    check(chaos(tmp_path / "home", 300, seed=11, messages=2))
