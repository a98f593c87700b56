"""Stop works: within a second there is no child process, no busy socket and no model call, at whatever moment it comes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.models.servers import choice, data
from tests.scenarios.home import House, until

from homarus.core.clock import SystemClock, SystemIds
from homarus.core.messages import ToolResult
from homarus.sessions.check import check_store
from homarus.sessions.store import SessionStore


class SlowModel:
    """A model server that first asks for a command and then talks for ever, a word at a time."""

    def __init__(self, mark: str, dice: random.Random) -> None:
        self.busy = 0
        self.url = ""
        self._mark = mark
        self._dice = dice

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")).split(b":")[1])  # fmt: skip
                body = json.loads(await reader.readexactly(length))
                self.busy += 1
                try:
                    await self._answer(body, writer)
                finally:
                    self.busy -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        messages = body["messages"]
        assert isinstance(messages, list)
        acted = any(message["role"] == "tool" for message in messages)
        if acted or self._dice.random() < 0.4:
            while True:
                await self._write(writer, data(choice({"content": "word "}), end=False)[0])
                await asyncio.sleep(0.01)
        command = f"sleep {self._mark} & sleep {self._mark}; echo done"
        for number in range(self._dice.choice([1, 3])):
            # A command that goes on in the background must end, too.
            how = self._dice.choice([{"yieldMs": 60_000}, {"background": True}])
            arguments = json.dumps({"command": command, **how})
            call = {
                "index": number,
                "id": f"c{number}{self._mark}",
                "function": {"name": "exec", "arguments": arguments},
            }
            await self._write(writer, data(choice({"tool_calls": [call]}), end=False)[0])
        await self._write(writer, b"".join(data(choice({}, "tool_calls"))))
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _write(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()


@asynccontextmanager
async def slow_model(mark: str, dice: random.Random) -> AsyncIterator[SlowModel]:
    model = SlowModel(mark, dice)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(model.handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield model
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def children(mark: str) -> list[str]:
    """Return the processes of this trial, by the number that they sleep."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in place.read_bytes():
                found.append(place.parent.name)
        except OSError:
            continue
    return found


async def one_stop(folder: Path, seed: int) -> str:
    """Stop a turn at one random moment, see that nothing of it is left, and return what was going on."""
    dice = random.Random(seed)
    mark = f"{600 + dice.random():.9f}"
    folder.mkdir()
    async with slow_model(mark, dice) as model:
        config = {
            "agents": {"defaults": {"model": "slow/m", "sandbox": {"mode": "off"}}},
            "tools": {"exec": {"mode": "full"}},
            "models": {"providers": {"slow": {"baseUrl": model.url, "models": [{"id": "m"}]}}},
        }
        house = House(folder, config=config)
        async with house.agent(clock=SystemClock()) as agent:
            turn = asyncio.ensure_future(agent.ask("go"))
            await until(lambda: agent.client.runtime.open_lane(agent.key) is not None)
            await asyncio.sleep(dice.random() * 0.5)
            doing = "command" if children(mark) else "model" if model.busy else "between"
            await agent.ask("/stop")
            await until(lambda: not (model.busy or children(mark)) and turn.done(), 60)
            assert (await turn).status == "aborted"
            with agent.client.runtime.home.opened(agent.key) as live:
                calls = [call.id for message in live.writer.history() for call in getattr(message, "calls", ())]
                results = [message.call_id for message in live.writer.history() if isinstance(message, ToolResult)]
                assert sorted(calls) == sorted(results)
                assert live.writer.open_calls == ()
    store = SessionStore(
        house.state / "agents/main/sessions", "main", clock=SystemClock(), ids=SystemIds(), main_key="main"
    )
    assert [finding for finding in check_store(store) if finding.severity in {"error", "warning"}] == []
    return doing


async def stops(folder: Path, count: int) -> None:
    done = [await one_stop(folder / str(seed), seed) for seed in range(count)]
    assert {"command", "model"} <= set(done)


async def test_stop_at_random_moments(tmp_path: Path) -> None:
    await stops(tmp_path, 15)


@pytest.mark.deep
async def test_stop_at_two_hundred_random_moments(tmp_path: Path) -> None:
    await stops(tmp_path, 200)
