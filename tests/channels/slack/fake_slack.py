"""Slack on loopback: `apps.connections.open`, the socket with its envelopes, and the Web API of a bot."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import WSMsgType, web

BOT_TOKEN, APP_TOKEN = "xoxb-fake-bot", "xapp-fake-app"
ME, ALICE, DM, GENERAL = "U0BOT", "U0ALICE", "D0ALICE", "C0GENERAL"
_REACTIONS = {"+1", "eyes", "heart"}


class Refuse(Exception):
    def __init__(self, error: str = "", status: int = 200, headers: dict[str, str] | None = None, **more: Any) -> None:
        self.status, self.headers = status, headers or {}
        self.body = {"ok": False, "error": error, **more} if error else None


class FakeSlack:
    def __init__(self) -> None:
        self.base = ""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.reactions: list[str] = []
        self.next: dict[str, list[Any]] = {}
        self.acknowledged: dict[str, Any] = {}
        self.waiting: dict[str, dict[str, Any]] = {}
        self.last: dict[str, Any] = {}
        self._stamps = itertools.count(1)
        self._envelopes = itertools.count(1)
        self.socket: web.WebSocketResponse | None = None

    # ---- what people do

    def stamp(self) -> str:
        return f"1790000000.{next(self._stamps):06d}"

    async def say(self, text: str, chat: str = DM, **more: Any) -> str:
        stamp = self.stamp()
        kind = {"D": "im", "C": "channel", "G": "mpim"}[chat[0]]
        event = {
            "type": "message",
            "channel": chat,
            "channel_type": kind,
            "user": ALICE,
            "text": text,
            "ts": stamp,
            "client_msg_id": stamp,
        }
        self.last = event | more
        await self.event(self.last)
        return stamp

    async def event(self, event: dict[str, Any]) -> str:
        return await self.envelope("events_api", {"team_id": "T0", "event": event, "type": "event_callback"})

    async def envelope(self, kind: str, payload: dict[str, Any]) -> str:
        number = f"env-{next(self._envelopes)}"
        self.waiting[number] = {
            "envelope_id": number,
            "type": kind,
            "payload": payload,
            "accepts_response_payload": kind == "slash_commands",
        }
        if self.socket is not None:
            await self.socket.send_json(self.waiting[number])
        return number

    async def redeliver(self) -> None:
        """What Slack does with envelopes that nobody acknowledged."""
        assert self.socket is not None
        for held in list(self.waiting.values()):
            await self.socket.send_json(held | {"retry_attempt": 1, "retry_reason": "timeout"})

    async def drop(self) -> None:
        assert self.socket is not None
        socket, self.socket = self.socket, None
        assert socket._req is not None
        assert socket._req.transport is not None
        socket._req.transport.abort()

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.socket = socket
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0"}})
        for held in list(self.waiting.values()):
            await socket.send_json(held)
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                answer = json.loads(frame.data)
                self.waiting.pop(answer["envelope_id"], None)
                self.acknowledged[answer["envelope_id"]] = answer.get("payload")
        return socket

    # ---- the Web API

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if request.content_type == "application/json":
            body: dict[str, Any] = await request.json()
        else:
            body = dict(await request.post()) | dict(request.query)
        self.calls.append((method, body))
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        plans = self.next.get(method) or []
        plan = plans.pop(0) if plans else None
        try:
            if request.headers.get("Authorization") != f"Bearer {wanted}":
                raise Refuse("invalid_auth")
            if isinstance(plan, Refuse):
                raise plan
            answer = {"ok": True, **self._answer(method, body)}
        except Refuse as refusal:
            if refusal.body is None:
                return web.Response(
                    status=refusal.status, headers=refusal.headers, text="<html>", content_type="text/html"
                )
            return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)
        if plan == "drop":
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(answer)

    def _answer(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "auth.test":
                return {"user_id": ME, "user": "lobster", "bot_id": "B0", "team_id": "T0", "team": "Club"}
            case "apps.connections.open":
                return {"url": self.base.replace("http", "ws") + "/socket"}
            case "users.info":
                if body["user"] == "U0GONE":
                    raise Refuse("user_not_found")
                return {
                    "user": {
                        "id": body["user"],
                        "name": "alice",
                        "real_name": "Alice A",
                        "profile": {"display_name": "Alice"},
                    }
                }
            case "conversations.open":
                return {"channel": {"id": "D0" + body["users"][2:]}}
            case "chat.postMessage":
                if body["channel"] == "C0GONE":
                    raise Refuse("channel_not_found")
                if len(body.get("text", "")) > 40000:
                    raise Refuse("msg_too_long")
                stamp = self.stamp()
                self.messages[stamp] = dict(body)
                return {"ts": stamp, "channel": body["channel"], "message": {"text": body["text"]}}
            case "chat.update":
                self.messages[body["ts"]] |= body
                return {"ts": body["ts"], "channel": body["channel"], "text": body["text"]}
            case "chat.delete":
                del self.messages[body["ts"]]
            case "reactions.add" | "reactions.remove":
                if body["name"] not in _REACTIONS:
                    raise Refuse("invalid_name")
                if (body["name"] in self.reactions) == (method == "reactions.add"):
                    raise Refuse("already_reacted" if method == "reactions.add" else "no_reaction")
                (self.reactions.append if method == "reactions.add" else self.reactions.remove)(body["name"])
            case "files.getUploadURLExternal":
                return {"upload_url": f"{self.base}/upload/F1", "file_id": "F1"}
            case "files.completeUploadExternal":
                stamp = self.stamp()
                data = self.uploads["F1"]
                self.messages[stamp] = {
                    "channel": body["channel_id"],
                    "text": body.get("initial_comment", ""),
                    "thread_ts": body.get("thread_ts"),
                    "file": data,
                }
                return {"files": [{"id": "F1", "title": "t"}]}
            case "conversations.list":
                return {"channels": [{"id": GENERAL, "name": "general"}, {"id": "C1", "name": "random"}]}
            case "users.list":
                return {
                    "members": [
                        {"id": ALICE, "name": "alice", "real_name": "Alice A"},
                        {"id": "U9", "name": "gone", "deleted": True},
                    ]
                }
        return {}

    async def _upload(self, request: web.Request) -> web.Response:
        self.uploads[request.match_info["id"]] = await request.read()
        return web.Response(text="OK - 1")

    async def _file(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(text="<html>sign in", content_type="text/html")
        return web.Response(body=self.files[request.match_info["name"]])

    def shown(self, chat: str) -> list[str]:
        return [held["text"] for held in self.messages.values() if held["channel"] == chat]

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [body for name, body in self.calls if name == method]


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[FakeSlack]:
    fake = FakeSlack()
    app = web.Application()
    app.router.add_get("/socket", fake._socket)
    app.router.add_post("/upload/{id}", fake._upload)
    app.router.add_get("/files/{name}", fake._file)
    app.router.add_route("*", "/api/{method}", fake._api)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)
