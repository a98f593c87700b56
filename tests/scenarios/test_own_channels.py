"""The two channels that are always there, `webchat` and `terminal`, under the contract of all channels.

The page is a client of a real port that keeps what it sees, comes back when its socket is cut, and asks for what it missed;
the terminal is `homarus agent` in a process of its own. A model server on loopback answers both.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.channels.contract import Stage, play, until
from tests.channels.foes import SCENARIOS
from tests.gateway.served import Key, Served, Wire, served
from tests.models.servers import serving
from tests.scenarios.talker import Say, Talker, make_home, open_agent
from websockets.exceptions import ConnectionClosed

from homarus.channels.channel import Manifest

KEY = "agent:main:main"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ALONE = {
    "people": "whoever has a credential of the gateway is the owner: tests/gateway/test_handshake.py and test_hostile.py",
    "group": "it has no groups",
    "mention": "it has no groups in which one could be named",
    "thread": "it has sessions, and no threads in them",
    "edit": "what was answered is the session's, and stays",
    "react": "it has no reactions",
    "media": "what goes with a message is read at once, and not fetched later: see below",
    "busy": "nobody stands between the program and its reader who could ask for patience",
    "fail": "nobody stands between the program and its reader who could fail",
    "login": "a wrong secret opens no account, it is the reader who is refused: tests/gateway/test_handshake.py",
    "forward": "it does not pass messages on",
    "bots": "programs speak there with the owner's credentials",
    "cut": "it shows an answer of any length as one",
    "send": "nothing is sent: a reader reads the session, and kills are in tests/gateway/test_kills.py",
}  # fmt: skip


class OwnStage:
    """What the scenarios need of the program where it has no channel manager in between."""

    def __init__(self, rig: Any, folder: Path, **_settings: Any) -> None:
        self.rig, self.answer = rig, lambda inbound: f"You said: {inbound.text}"

    async def start(self) -> None:
        self.rig.server.rule = lambda body, _number: Say(self.answer(SimpleNamespace(text=typed(body))))
        await self.rig.start()

    async def stop(self) -> None:
        await self.rig.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def trouble(self) -> str:
        return str(self.rig.said)


def typed(body: dict[str, Any]) -> str:
    content = next(each["content"] for each in reversed(body["messages"]) if each["role"] == "user")
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return re.sub(r"<<<BEGIN_.*?<<<END_\w+>>>", "", text, flags=re.DOTALL).strip()


class OwnRig:
    manifest = Manifest("webchat", "WebChat")
    stage = staticmethod(cast("type[Stage]", OwnStage))
    features: frozenset[str] = frozenset()
    wrong: dict[str, Any] = {}

    def __init__(self, folder: Path, server: Talker) -> None:
        self.folder, self.server = folder, server
        self.env = make_home(folder, server.url)
        path = folder / ".openclaw/openclaw.json"
        config = json.loads(path.read_text())
        config["models"]["providers"]["mock"]["models"][0]["input"] = ["text", "image"]
        path.write_text(json.dumps(config))
        self.said: list[str] = []

    def person(self, who: str) -> str:
        return who

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return list(self.said)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class PageRig(OwnRig):
    features = frozenset({"drop", "repeat"})
    without = ALONE

    def __init__(self, folder: Path, server: Talker) -> None:
        super().__init__(folder, server)
        self._ids, self._key, self._cut_next = itertools.count(1), Key("v3"), False
        self._last: dict[str, Any] = {}
        self.responses: dict[str, dict[str, Any]] = {}

    def agent(self, clock: Any = None) -> Any:
        return open_agent(self.env, clock=clock)

    async def start(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._served: Served = await self._stack.enter_async_context(served(cast("Any", self)))
        await self._open()

    async def stop(self) -> None:
        await self._close()
        await self._stack.aclose()

    async def _open(self) -> None:
        self._client = self._served.client(device=self._key)
        self.wire: Wire = await self._client.__aenter__()
        seen = await self.wire.call("chat.history", {"sessionKey": KEY})
        self.said = [words(message) for message in seen["messages"] if message["role"] == "assistant"]
        self._reader = asyncio.create_task(self._read())

    async def _close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        with contextlib.suppress(ConnectionClosed):
            await self._client.__aexit__(None, None, None)

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            while True:
                frame = await self.wire.read()
                self.responses |= {frame["id"]: frame} if frame["type"] == "res" else {}
                told = frame.get("payload") or {}
                if frame.get("event") == "chat" and told.get("state") == "final" and told.get("message"):
                    self.said.append(words(told["message"]))

    async def write(self, who: str, text: str, to: str = "direct", **_more: Any) -> str:
        ident = f"run-{next(self._ids)}"
        self._last = {"sessionKey": KEY, "message": text, "idempotencyKey": ident}
        await self.wire.send("chat.send", self._last)
        if self._cut_next:
            self._cut_next = False
            await until(lambda: len([seen for seen in self.server.seen if seen.method == "POST"]) > 1)
            self.wire.raw.transport.abort()
            await self._close()
            await self._open()
        return ident

    async def repeat(self) -> None:
        await self.wire.send("chat.send", self._last)

    async def drop(self) -> None:
        """The socket breaks now, and again when the next message was taken."""
        self.wire.raw.transport.abort()
        await self._close()
        await self._open()
        self._cut_next = True


def words(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class TerminalRig(OwnRig):
    manifest = Manifest("terminal", "Terminal")
    without = {
        **ALONE,
        "people": "whoever can run the command on a home is its owner",
        "login": "it asks for no secret: the home's files are the border",
        "drop": "the process is the connection",
        "repeat": "what is typed twice is said twice",
    }

    async def write(self, who: str, text: str, to: str = "direct", **_more: Any) -> str:
        code, out = await self.run("-m", text)
        assert code == 0, out
        self.said.append(out.rstrip("\n"))
        return ""

    async def run(self, *words: str) -> tuple[int, str]:
        env = {**self.env, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
        line = [sys.executable, "-m", "homarus", "agent", *words]
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*line, env=env, stdin=none, stdout=pipe, stderr=pipe)
        out, trouble = await process.communicate()
        return process.returncode or 0, (out or trouble).decode()


@contextlib.asynccontextmanager
async def rig_of(kind: type[OwnRig], folder: Path) -> AsyncIterator[Any]:
    async with serving(server=Talker(lambda _body, _number: Say("nothing"))) as server:
        yield kind(folder, server)


@pytest.mark.parametrize("kind", [PageRig, TerminalRig])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario: Any, kind: type[OwnRig], tmp_path: Path) -> None:
    async with rig_of(kind, tmp_path) as rig:
        await play(scenario, rig, tmp_path)


async def test_a_picture_goes_from_the_page_to_the_model(tmp_path: Path) -> None:
    async with rig_of(PageRig, tmp_path) as rig:
        stage = OwnStage(rig, tmp_path)
        await stage.start()
        try:
            data = base64.b64encode(PNG).decode()
            about = {"type": "image", "mimeType": "image/png", "fileName": "a.png", "content": data}
            asked = {"sessionKey": KEY, "message": "look", "idempotencyKey": "p1", "attachments": [about]}
            await rig.wire.send("chat.send", asked)
            await until(lambda: rig.said, stage.trouble)
            assert data in rig.server.seen[-1].raw.decode()
        finally:
            await stage.stop()


async def test_a_file_and_a_picture_go_from_the_terminal_to_the_model(tmp_path: Path) -> None:
    async with rig_of(TerminalRig, tmp_path) as rig:
        (tmp_path / "a.png").write_bytes(PNG)
        (tmp_path / "notes.txt").write_text("the gate code is 4711")
        code, out = await rig.run("-m", "look", "-f", str(tmp_path / "a.png"), "-f", str(tmp_path / "notes.txt"))
        assert code == 0, out
        asked = rig.server.seen[-1].raw.decode()
        assert base64.b64encode(PNG).decode() in asked
        assert "the gate code is 4711" in asked


async def test_a_flood_on_the_page_is_taken_in_and_keeps_no_other_session_from_its_answer(tmp_path: Path) -> None:
    async with rig_of(PageRig, tmp_path) as rig:
        stage = OwnStage(rig, tmp_path)
        await stage.start()
        try:
            flood = {"sessionKey": KEY, "message": "again"}
            asked = [await rig.wire.send("chat.send", {**flood, "idempotencyKey": f"f{n}"}) for n in range(300)]
            other = {"sessionKey": "agent:main:other", "message": "may I?", "idempotencyKey": "other"}
            await rig.wire.send("chat.send", other)
            await until(lambda: set(asked) <= set(rig.responses), stage.trouble)
            await until(lambda: "You said: may I?" in rig.said, stage.trouble)
            assert [rig.responses[ident]["ok"] for ident in asked] == [True] * 300
        finally:
            await stage.stop()
