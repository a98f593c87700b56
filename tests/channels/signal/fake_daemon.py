"""The daemon of signal-cli on loopback, on the standard library alone: JSON-RPC, server-sent events and the check.

Run as a program it answers `… daemon --http host:port`, as the real one does when the gateway starts it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

ACCOUNT, BOT_UUID = "+15550001", "aaaaaaaa-0000-4000-8000-000000000001"
ALICE, ALICE_UUID = "+15550002", "bbbbbbbb-0000-4000-8000-000000000002"
GROUP = "Z3JvdXAtaWQtb2YtMzItYnl0ZXMtMDAwMDAwMDAwMDA="


class RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeDaemon:
    def __init__(self) -> None:
        self.base = ""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.shown: dict[int, dict[str, Any]] = {}
        self.reactions: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.next: dict[str, list[Any]] = {}  # a status, an RpcError, a result, or "drop"
        self.accounts: list[str] | None = [ACCOUNT]
        self._stamps = itertools.count(1_790_000_000_000)
        self._listeners: set[asyncio.StreamWriter] = set()
        self._untold: list[bytes] = []  # fetched from Signal only while somebody listens
        self._server: asyncio.Server | None = None

    # ---- what people do

    async def say(self, text: str = "", *, group: str = "", source: dict[str, Any] | None = None, **data: Any) -> int:
        stamp = next(self._stamps)
        data = {"timestamp": stamp, "message": text, **data}
        if group:
            data["groupInfo"] = {"groupId": group, "type": "DELIVER"}
        await self.envelope(dataMessage=data, timestamp=stamp, **(source or {}))
        return stamp

    async def envelope(self, **held: Any) -> None:
        person = {
            "source": ALICE,
            "sourceNumber": ALICE,
            "sourceUuid": ALICE_UUID,
            "sourceName": "Alice",
            "sourceDevice": 1,
        }
        await self.event({"account": ACCOUNT, "envelope": person | held})

    async def event(self, told: Any) -> None:
        self._untold.append(b"event:receive\ndata:" + json.dumps(told).encode() + b"\n\n")
        await self._tell()

    async def drop(self) -> None:
        for writer in list(self._listeners):
            writer.transport.abort()
        self._listeners.clear()

    # ---- HTTP

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, host, port)
        self.base = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.drop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                method, path, _ = (await reader.readuntil(b"\r\n")).decode().split(" ", 2)
                length = 0
                while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                    name, _, value = line.decode().partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                body = await reader.readexactly(length)
                if method == "GET" and path.startswith("/api/v1/events"):
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    self._listeners = {writer}  # whoever listened before is gone
                    await self._tell()
                    await reader.read()
                    break
                status, answer = self._answer(method, path, body)
                if answer == b"drop":
                    break
                head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
                writer.write(head.encode() + answer)
        self._listeners.discard(writer)
        writer.close()

    async def _tell(self) -> None:
        while self._listeners and self._untold:
            told = self._untold.pop(0)
            for writer in self._listeners:
                writer.write(b"%x\r\n%b\r\n" % (len(told), told))

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if (method, path) == ("GET", "/api/v1/check"):
            return 200, b""
        if (method, path) != ("POST", "/api/v1/rpc"):
            return 404, b""
        asked = json.loads(body)
        name, params = asked["method"], asked["params"]
        self.calls.append((name, params))
        plans = self.next.get(name) or []
        plan = plans.pop(0) if plans else None
        if isinstance(plan, int):
            return plan, b""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            if isinstance(plan, RpcError):
                raise plan
            done = self._do(name, params)
            answer["result"] = plan if isinstance(plan, dict) else done
        except RpcError as error:
            answer["error"] = {"code": error.code, "message": str(error)}
        return (200, b"drop") if plan == "drop" else (200, json.dumps(answer).encode())

    def _do(self, name: str, params: dict[str, Any]) -> Any:
        match name:
            case "listAccounts":
                if self.accounts is None:
                    raise RpcError(-32601, "Method not implemented")
                return [{"number": number} for number in self.accounts]
            case "send":
                for style in params.get("textStyle") or ():
                    start, length, _ = style.split(":")
                    assert int(start) + int(length) <= len(params["message"].encode("utf-16-le")) // 2
                stamp = params.get("editTimestamp") or next(self._stamps)
                self.shown[stamp] = dict(params)
                return {
                    "timestamp": next(self._stamps) if "editTimestamp" in params else stamp,
                    "results": [{"type": "SUCCESS"}],
                }
            case "remoteDelete":
                del self.shown[params["targetTimestamp"]]
                return {"timestamp": 1}
            case "sendReaction":
                self.reactions.append(params)
                return {"timestamp": 1}
            case "getAttachment":
                if params["id"] not in self.files:
                    raise RpcError(-1, "Could not find attachment")
                return {"data": base64.b64encode(self.files[params["id"]]).decode()}
            case "listContacts":
                return [
                    {"number": ALICE, "uuid": ALICE_UUID, "name": "Alice"},
                    {"number": None, "uuid": "CCCC", "name": "Carol"},
                ]
            case "listGroups":
                return [{"id": GROUP, "name": "Club"}]
            case "sendTyping" | "sendReceipt":
                return {"timestamp": 1}
        raise RpcError(-32601, "Method not implemented")

    def texts(self, **where: Any) -> list[str]:
        return [held["message"] for held in self.shown.values() if where.items() <= held.items()]

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == method]


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[FakeDaemon]:
    daemon = FakeDaemon()
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.stop()


async def _main() -> None:
    host, port = sys.argv[sys.argv.index("--http") + 1].rsplit(":", 1)
    daemon = FakeDaemon()
    await daemon.start(host, int(port))
    await daemon.say("from the daemon")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
