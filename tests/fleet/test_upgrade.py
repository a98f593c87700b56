"""Every worker is replaced while people talk: nothing is lost, nothing is said twice, and nobody gets an error."""

import asyncio
import contextlib
import json
import signal
from pathlib import Path

import pytest
from tests.fleet.test_cli import asked, file, process, until  # noqa: F401 - a fixture

from homarus.net.client import HttpClient

HOMES = ("ada", "bob", "eve")
TOKEN = "t" * 32


def make(root: Path) -> Path:
    (root / ".openclaw").mkdir(parents=True)
    endpoints = {"endpoints": {"chatCompletions": {"enabled": True}}}
    settings = {
        "gateway": {"auth": {"token": TOKEN}, "http": endpoints},
        "agents": {"defaults": {"model": "builtin/notebook"}},
    }
    (root / ".openclaw" / "openclaw.json").write_text(json.dumps(settings))
    return root


class Talk:
    """People who go on talking, one message after the other in each home."""

    def __init__(self, edge: str) -> None:
        self._edge, self._over = edge, False
        self.said: dict[str, list[str]] = {home: [] for home in HOMES}
        self.errors: list[tuple[str, int, bytes]] = []

    async def go_on(self, home: str) -> None:
        http = HttpClient()
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "content-type": "application/json",
            "x-openclaw-session-key": "main",
        }
        while not self._over:
            text = f"note {home} {len(self.said[home])} end"
            body = json.dumps({"model": "openclaw", "messages": [{"role": "user", "content": text}]}).encode()
            reply = await http.request(
                "POST", f"{self._edge}/h/{home}/v1/chat/completions", headers=headers, body=[body]
            )
            answer = await reply.read(1 << 20)
            await reply.close()
            if reply.status == 200:
                self.said[home].append(text)
            else:
                self.errors.append((home, reply.status, answer))
            await asyncio.sleep(0.1)  # a quick machine would else answer more in a second than a home's quota allows
        await http.aclose()

    async def more(self, count: int) -> None:
        """Wait until each home has heard so many more."""
        wanted = {home: len(said) + count for home, said in self.said.items()}
        async with asyncio.timeout(240):
            while any(len(self.said[home]) < number for home, number in wanted.items()):
                await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def going_on(self):
        tasks = [asyncio.ensure_future(self.go_on(home)) for home in HOMES]
        try:
            yield
        finally:
            self._over = True
            await asyncio.gather(*tasks)


@pytest.mark.deep
def test_all_workers_are_replaced_while_people_talk(file, tmp_path, capfd):  # noqa: F811 - the fixture
    for home in HOMES:
        asked(capfd, "import", home, str(make(tmp_path / home)))
    with contextlib.ExitStack() as running:
        _, edge = running.enter_context(process("edge", "--listen", "127.0.0.1:0"))
        old = [running.enter_context(process("worker", "--name", f"old-{number}"))[0] for number in (1, 2)]
        until(lambda: asked(capfd, "status")["free"] == 0)
        talk = Talk(edge)

        async def story() -> None:
            async with talk.going_on():
                await talk.more(2)
                for number in (1, 2):
                    started = await asyncio.to_thread(
                        running.enter_context, process("worker", "--name", f"new-{number}")
                    )
                    assert started[0].poll() is None
                    await talk.more(2)
                    if number == 2:  # with notice, or with none
                        await asyncio.to_thread(asked, capfd, "drain", "old-2")
                    old[number - 1].send_signal(signal.SIGTERM)
                    await talk.more(3)
                    assert await asyncio.to_thread(old[number - 1].wait, 120) == 0
                await talk.more(2)

        asyncio.run(story())
        assert {each["worker"] for each in asked(capfd, "homes")["homes"]} <= {"new-1", "new-2"}
        assert talk.errors == []
        for home in HOMES:
            asked(capfd, "export", home, str(tmp_path / f"{home}-out"))
            heard = heard_in(tmp_path / f"{home}-out")
            assert heard == talk.said[home]


def heard_in(folder: Path) -> list[str]:
    """Return what people said, as the transcripts of a home have it, in order."""
    found = []
    for path in sorted((folder / ".openclaw" / "agents").rglob("*.jsonl")):
        for line in path.read_text().splitlines():
            message = json.loads(line).get("message") or {}
            if message.get("role") == "user":
                text = json.dumps(message.get("content"))
                if "note " in text:
                    start = text.index("note ")
                    found.append(text[start : text.index(" end", start) + 4])
    return found
