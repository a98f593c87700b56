"""A home that serves a chat platform of files, in a child that may be killed at any moment.

Called by test_chat_crash.py as its own process: each line `start` forks a child that has everything loaded and prints its
id. The platform outlives the child: `in/` holds what people wrote, until it is acknowledged, and `out/` what they saw.
With the word `real` it serves the platforms of the configuration instead, for test_chat_kill.py; with `gateway` the child is
the gateway's own command, for gateway/test_kills.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from homarus.channels.channel import Channel, Host, Identity, Manifest
from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, Inbound, Media, Outbound, StopReason, Text, ToolCall, ToolResult, User
from homarus.core.tools import Risk, ToolSpec
from homarus.delivery.place import Piece, Place
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime
from homarus.runtime.switchboard import Switchboard
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

PAUSE = 0.004


class FileChannel:
    def __init__(self, folder: Path, host: Host) -> None:
        self._folder, self._host = folder, host

    async def run(self) -> None:
        self._host.connected(Identity("bot"))
        while True:
            for path in sorted((self._folder / "in").glob("*.json")):
                given = json.loads(path.read_text())
                who = given["from"]
                await self._host.receive(Inbound(path.stem, "files", given["text"], sender=who, peer=who))
                path.unlink()  # only now it is acknowledged
            await asyncio.sleep(PAUSE)

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        ident = hashlib.sha256(key.encode()).hexdigest()[:16]
        path = self._folder / "out" / f"{ident}.json"
        if not path.exists():
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps({"text": piece.text, "to": message.to, "key": key}))
            draft.replace(path)
        await asyncio.sleep(PAUSE)
        return ident

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


class Echo:
    """A model that says two paragraphs about what it was asked; what begins with `act` it looks into first."""

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        asked = [
            each for each in request.messages if isinstance(each, User) and not each.text.startswith("[The program")
        ]
        newest = asked[-1].text.split("\n")[0].strip()
        after = request.messages[list(request.messages).index(asked[-1]) :]
        if newest.startswith("act") and not any(isinstance(each, ToolResult) for each in after):
            call = ToolCall(f"c-{newest}", "act", {"what": newest})
            await asyncio.sleep(PAUSE)
            yield Stop(Assistant((call,), stop_reason=StopReason.TOOL_USE, provider="script"))
            return
        text = f"First about {newest}.\n\nThen more about {newest}."
        for at in range(0, len(text), 8):
            await asyncio.sleep(PAUSE)
            yield TextDelta(text[at : at + 8])
        yield Stop(Assistant((Text(text),), provider="script"))


def act(folder: Path) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        with (folder / "acts").open("a") as file:
            file.write(f"{arguments['what']}\n")
        await asyncio.sleep(PAUSE)
        return said("acted")

    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    return Tool(spec=ToolSpec("act", "act", schema), risk=Risk.WRITE, run=run, group="test")


async def serve(folder: Path, *, real: bool) -> None:
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}
    runtime = Runtime.open(resolve_paths(env), env)
    runtime.home.models.registry.register("script", lambda _ref, _key: Echo())
    runtime.home.toolkit.add(act(folder))
    client = LocalClient(runtime)
    place = Place(dialect="discord", repeatable=True)
    manifest = Manifest(id="files", label="Files", entry="x:y", place=place, retry_ms=1)

    def opener(_manifest: Manifest) -> Any:
        def make(host: Host) -> Channel:
            return FileChannel(folder, host)

        return make

    board = Switchboard(client) if real else Switchboard(client, known={"files": manifest}, opener=opener)
    board.join()
    runtime.recover()
    runtime.automation.start()
    await board.start()
    await asyncio.Event().wait()


def command() -> int:
    """Serve the home as its own command does, on a port that it prints."""
    from homarus.__main__ import main as run

    sys.argv[1:] = ["gateway", "run", "--port", "0"]
    with Path(os.devnull).open() as sys.stdin:
        return run()


def main(folder: Path, *words: str) -> None:
    # Loaded once, before the children.
    if "real" in words:
        import aiogram  # noqa: F401
    if "gateway" in words:
        import homarus.cli.main
        import homarus.gateway.server  # noqa: F401

    for line in sys.stdin:
        if line.strip() != "start":
            continue
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            code = command() if "gateway" in words else asyncio.run(serve(folder, real="real" in words))
            sys.stdout.flush()
            os._exit(code or 0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"gone {os.waitstatus_to_exitcode(status)}\n" if "gateway" in words else "gone\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
