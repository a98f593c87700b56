"""Discord on loopback: the gateway (hello, identify, ready, heartbeats, resume, zlib-stream) and the REST calls of a bot."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any

from aiohttp import WSMsgType, web

TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.fake.token"
BOT = {
    "id": "100",
    "username": "lobster",
    "discriminator": "0",
    "global_name": "Lobster",
    "avatar": None,
    "bot": True,
    "public_flags": 0,
}
ALICE = {
    "id": "11",
    "username": "alice",
    "discriminator": "0",
    "global_name": "Alice",
    "avatar": None,
    "public_flags": 0,
}
DM, GUILD, GENERAL, THREAD, FORUM = "900", "500", "600", "650", "660"
_MEMBER = {"roles": ["77"], "nick": "Al", "joined_at": "2026-01-01T00:00:00+00:00", "premium_since": None, "deaf": False,
           "mute": False, "flags": 0, "avatar": None, "banner": None, "pending": False, "permissions": "0",
           "communication_disabled_until": None}  # fmt: skip
_ME = BOT | {"mfa_enabled": False, "flags": 0, "verified": True, "email": None, "locale": None, "premium_type": 0}
WINDOW = 0.5
_TIME = "2026-11-16T04:00:00+00:00"


def channel(number: str, kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "type": kind, "name": name, "position": 0, "permission_overwrites": [], "nsfw": False,
            "parent_id": None, "guild_id": GUILD, "topic": None, "last_message_id": None, "rate_limit_per_user": 0, **more}  # fmt: skip


def thread(number: str, parent: str) -> dict[str, Any]:
    return channel(number, 11, "thread", parent_id=parent, owner_id="11", message_count=1, member_count=1, total_message_sent=1,
                   thread_metadata={"archived": False, "auto_archive_duration": 60, "archive_timestamp": _TIME, "locked": False})  # fmt: skip


FORUM_CHANNEL = channel(
    FORUM,
    15,
    "forum",
    available_tags=[],
    default_sort_order=None,
    default_reaction_emoji=None,
    default_forum_layout=0,
    flags=0,
)


def _packer(kind: str) -> Callable[[bytes], bytes]:
    """Return what packs the frames of one connection, as one stream."""
    if kind == "zlib-stream":
        stream = zlib.compressobj()
        return lambda frame: stream.compress(frame) + stream.flush(zlib.Z_SYNC_FLUSH)
    assert kind == "zstd-stream"
    zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    packing = zstd.ZstdCompressor()
    return lambda frame: packing.compress(frame, zstd.ZstdCompressor.FLUSH_BLOCK)


class Refuse(Exception):
    def __init__(self, status: int, message: str = "", code: int = 0, **body: Any) -> None:
        self.status, self.body = status, {"message": message, "code": code, **body}


class FakeDiscord:
    def __init__(self) -> None:
        self.base = ""
        self.calls: list[tuple[str, str, Any]] = []
        self.shown: dict[str, dict[str, Any]] = {}
        self.nonces: dict[str, str] = {}
        self.next: dict[str, list[Any]] = {}
        self.events: list[dict[str, Any]] = []  # of the session, for a resume
        self.identified: list[dict[str, Any]] = []
        self.resumed = 0
        self.heartbeats = 0
        self.close_code = 0
        self.files: dict[str, bytes] = {}
        self.reactions: list[str] = []
        self._buckets: dict[str, tuple[float, int]] = {}
        self.content_intent = True
        self._ids = itertools.count((int(time.time() * 1000) - 1_420_070_400_000) << 22)
        self.said: list[dict[str, Any]] = []
        self._socket: web.WebSocketResponse | None = None
        self._pack: Any = None

    # ---- what people do

    def message(self, text: str, chat: str = DM, author: dict[str, Any] = ALICE, **more: Any) -> dict[str, Any]:
        held = {"id": str(next(self._ids)), "channel_id": chat, "author": author, "content": text, "timestamp": _TIME,
                "edited_timestamp": None, "tts": False, "mention_everyone": False, "mentions": [], "mention_roles": [],
                "attachments": [], "embeds": [], "pinned": False, "type": 0, "flags": 0, "components": []}  # fmt: skip
        if not chat.startswith("9"):
            held |= {"guild_id": GUILD, "member": _MEMBER}
        return held | more

    async def say(self, text: str, chat: str = DM, **more: Any) -> dict[str, Any]:
        held = self.message(text, chat, **more)
        self.said.append(held)
        await self.event("MESSAGE_CREATE", held)
        return held

    async def event(self, name: str, data: dict[str, Any]) -> None:
        frame = {"op": 0, "t": name, "s": len(self.events) + 1, "d": data}
        self.events.append(frame)
        if self._socket is not None:
            await self._send(frame)

    async def drop(self) -> None:
        """Lose the connection without a word; what happens meanwhile is told when the session is resumed."""
        socket, self._socket = self._socket, None
        assert socket is not None
        assert socket._req is not None
        assert socket._req.transport is not None
        socket._req.transport.abort()

    # ---- the gateway

    async def _send(self, frame: dict[str, Any]) -> None:
        assert self._socket is not None
        await self._socket.send_bytes(self._pack(json.dumps(frame).encode()))

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        assert request.query["v"] == "10"
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if self.close_code:
            await socket.close(code=self.close_code, message=b"no")
            return socket
        self._pack, self._socket = _packer(request.query["compress"]), socket
        await self._send({"op": 10, "d": {"heartbeat_interval": 1000, "_trace": []}})
        async for frame in socket:
            if frame.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                break
            asked = json.loads(frame.data)
            if asked["op"] == 1:
                self.heartbeats += 1
                await self._send({"op": 11})
            elif asked["op"] == 2:
                await self._identify(asked["d"])
            elif asked["op"] == 6:
                self.resumed += 1
                for missed in self.events[asked["d"]["seq"] :]:
                    await self._send(missed)
                await self.event("RESUMED", {})
        return socket

    async def _identify(self, asked: dict[str, Any]) -> None:
        self.identified.append(asked)
        assert self._socket is not None
        if asked["token"] != TOKEN:
            await self._socket.close(code=4004, message=b"Authentication failed.")
            return
        self.events.clear()
        session = {"v": 10, "user": _ME, "guilds": [{"id": GUILD, "unavailable": True}], "session_id": "s", "shard": [0, 1],
                   "resume_gateway_url": self.base.replace("http", "ws") + "/gateway", "application": {"id": "100", "flags": 0}}  # fmt: skip
        await self.event("READY", session)
        await self.event("GUILD_CREATE", {
            "id": GUILD, "name": "Club", "icon": None, "splash": None, "discovery_splash": None, "owner_id": "11", "afk_channel_id": None,
            "afk_timeout": 60, "verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "roles": [],
            "emojis": [], "features": [], "mfa_level": 0, "application_id": None, "system_channel_id": None, "system_channel_flags": 0,
            "rules_channel_id": None, "vanity_url_code": None, "description": None, "banner": None, "premium_tier": 0,
            "preferred_locale": "en-US", "public_updates_channel_id": None, "nsfw_level": 0, "premium_progress_bar_enabled": False,
            "joined_at": _TIME, "large": False, "unavailable": False, "member_count": 2, "voice_states": [], "members": [], "stickers": [],
            "channels": [channel(GENERAL, 0, "general"), FORUM_CHANNEL], "threads": [thread(THREAD, GENERAL)], "presences": [],
            "stage_instances": [], "guild_scheduled_events": []})  # fmt: skip

    # ---- REST

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        path, method = request.path.removeprefix("/api"), request.method
        body: Any = None
        if request.content_type == "multipart/form-data":
            form = await request.post()
            body = json.loads(bytes(form["payload_json"]))  # type: ignore[arg-type]
            body["uploaded"] = [part.file.read() for part in form.values() if isinstance(part, web.FileField)]
        elif request.can_read_body:
            body = json.loads(await request.read() or b"null")
        self.calls.append((method, path, body))
        limits = self._limits(method, path)
        wanted = "send" if method == "POST" and path.endswith("/messages") else f"{method} {path}"
        plans = self.next.get(wanted) or []
        plan = plans.pop(0) if plans else None
        try:
            if request.headers.get("Authorization") != f"Bot {TOKEN}" and "/interactions/" not in path:
                raise Refuse(401, "401: Unauthorized")
            if isinstance(plan, Refuse):
                raise plan
            if limits.get("X-RateLimit-Remaining", "0").startswith("-"):
                raise Refuse(429, "You are being rate limited.", retry_after=WINDOW, **{"global": False})
            answer = self._answer(method, path.strip("/").split("/"), body, request)
        except Refuse as refusal:
            return web.json_response(refusal.body, status=refusal.status, headers=limits)
        if isinstance(answer, dict):
            answer = {name: value for name, value in answer.items() if name != "asked"}
        if plan == "drop":
            assert request.transport is not None
            request.transport.abort()
        return (
            web.json_response(answer, headers=limits)
            if answer is not None
            else web.Response(status=204, headers=limits)
        )

    def _limits(self, method: str, path: str) -> dict[str, str]:
        """Return the headers of a bucket: five requests of a kind to a channel in a window, as on Discord, where it is longer."""
        if "/interactions/" in path:
            return {}
        bucket = f"{method}-{'-'.join(path.strip('/').split('/')[:2])}"
        now = asyncio.get_running_loop().time()
        began, count = self._buckets.get(bucket, (now, 0))
        began, count = (now, 0) if now - began > WINDOW else (began, count)
        self._buckets[bucket] = (began, count + 1)
        left = max(0.0, began + WINDOW - now)
        return {"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": str(4 - count), "X-RateLimit-Reset": str(time.time() + left),
                "X-RateLimit-Reset-After": str(left), "X-RateLimit-Bucket": bucket}  # fmt: skip

    def _answer(self, method: str, path: list[str], body: Any, request: web.Request) -> Any:
        match method, *path:
            case "GET", "gateway", "bot":
                return {"url": self.base.replace("http", "ws") + "/gateway", "shards": 1,
                        "session_start_limit": {"total": 1000, "remaining": 999, "reset_after": 1000, "max_concurrency": 1}}  # fmt: skip
            case "GET", "users", "@me":
                return BOT | {
                    "mfa_enabled": False,
                    "flags": 0,
                    "verified": True,
                    "email": None,
                    "locale": None,
                    "premium_type": 0,
                }
            case "GET", ("applications" | "oauth2"), *_:
                return {"id": "100", "name": "Lobster", "icon": None, "description": "", "bot_public": True, "bot_require_code_grant": False,
                        "verify_key": "00", "team": None, "owner": ALICE, "flags": (1 << 19) if self.content_intent else 0, "rpc_origins": [],
                        "approximate_guild_count": 1, "approximate_user_install_count": 0}  # fmt: skip
            case "PUT", "applications", _, "commands":
                return []
            case "POST", "users", "@me", "channels":
                return {
                    "id": "9" + body["recipient_id"],
                    "type": 1,
                    "last_message_id": None,
                    "recipients": [ALICE | {"id": body["recipient_id"]}],
                }
            case "GET", "channels", number:
                if number == "404":
                    raise Refuse(404, "Unknown Channel", 10003)
                return thread(number, GENERAL)
            case "POST", "channels", number, "messages":
                return self._post(number, body)
            case "GET", "channels", number, "messages":
                after, most = int(request.query["after"]), int(request.query.get("limit", 50))
                found = [held for held in self.said if held["channel_id"] == number and int(held["id"]) > after]
                # The newest comes first, and no message says here in which guild it is.
                return [
                    {k: v for k, v in held.items() if k not in {"guild_id", "member"}} for held in found[:most][::-1]
                ]
            case "POST", "channels", number, "threads":
                held = self._post("0", body["message"])
                return thread(held["id"], number) | {"message": held, "name": body["name"]}
            case "PATCH", "channels", _, "messages", number:
                self.shown[number] |= body
                return self.shown[number]
            case "DELETE", "channels", _, "messages", number:
                del self.shown[number]
                return None
            case (("PUT" | "DELETE"), "channels", _, "messages", _, "reactions", emoji, "@me"):
                (self.reactions.append if method == "PUT" else self.reactions.remove)(emoji)
            case "GET", "guilds", _, "members", "search":
                return [_MEMBER | {"user": ALICE}] if request.query["query"] == "ali" else []
        return None

    def _post(self, chat: str, body: dict[str, Any]) -> dict[str, Any]:
        if chat == "404":
            raise Refuse(404, "Unknown Channel", 10003)
        if chat == FORUM:
            raise Refuse(400, "Cannot send messages in a non-text channel", 50008)
        if len((body.get("content") or "").encode("utf-16-le")) > 4000:
            raise Refuse(400, "Invalid Form Body", 50035)
        if body.get("enforce_nonce") and (known := self.nonces.get(body["nonce"])):
            return self.shown[known]
        reply = body.get("message_reference")
        held = self.message(
            body.get("content") or "",
            chat,
            BOT,
            **({"message_reference": reply | {"channel_id": chat}} if reply else {}),
        )
        held |= {"asked": body}
        held.pop("member", None)
        self.shown[held["id"]] = held
        if body.get("nonce"):
            self.nonces[body["nonce"]] = held["id"]
        return held

    async def _file(self, request: web.Request) -> web.Response:
        held = self.files.get(request.match_info["path"])
        return web.Response(body=held) if held is not None else web.Response(status=404)

    def asked(self, method: str, path: str) -> list[Any]:
        return [body for called, where, body in self.calls if (called, where) == (method, path)]


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[FakeDiscord]:
    fake = FakeDiscord()
    app = web.Application()
    app.router.add_get("/gateway", fake._gateway)
    app.router.add_get("/files/{path}", fake._file)
    app.router.add_route("*", "/api/{rest:.*}", fake._rest)
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
