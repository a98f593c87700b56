"""Matrix for the contract: synapse, and people with clients of their own. One server serves all scenarios, each with new accounts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path
from typing import Any, Self

import nio
from aiohttp import ClientSession, ClientTimeout, web
from tests.channels.platform_host import until

from homarus.channels.discovery import load_entry, manifests

PASSWORD = "correct horse"
_COUNT = itertools.count(1)


class Person:
    """Somebody with a client of their own."""

    def __init__(self, server: str, name: str, store: Path | None = None) -> None:
        config = nio.AsyncClientConfig(encryption_enabled=store is not None)
        self.client = nio.AsyncClient(server, name, store_path=str(store) if store else "", config=config)
        self.name = name
        self.seen: list[dict[str, Any]] = []

    async def __aenter__(self) -> Self:
        made = await self.client.register(self.name, PASSWORD, device_name="theirs")
        assert not isinstance(made, nio.ErrorResponse), made
        self.id = self.client.user_id
        self.client.add_event_callback(
            lambda room, event: self.seen.append({"room": room.room_id} | event.source), nio.Event
        )
        # A slow machine may get more between two answers than the ten events that a homeserver shows unless asked.
        wide = {"room": {"timeline": {"limit": 1000}}}
        self._task = asyncio.create_task(self.client.sync_forever(3000, sync_filter=wide, full_state=True))
        await self.client.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()

    async def room(self, *people: str, **more: Any) -> str:
        made = await self.client.room_create(invite=list(people), **more)
        assert not isinstance(made, nio.ErrorResponse), made
        return str(made.room_id)

    async def say(self, room: str, text: str, **more: Any) -> str:
        return await self.put(room, "m.room.message", {"msgtype": "m.text", "body": text} | more)

    async def put(self, room: str, kind: str, content: dict[str, Any]) -> str:
        sent = await self.client.room_send(room, kind, content, ignore_unverified_devices=True)
        assert not isinstance(sent, nio.ErrorResponse), sent
        return str(sent.event_id)

    def of(self, sender: str, kind: str = "m.room.message") -> list[dict[str, Any]]:
        return [event for event in self.seen if event["sender"] == sender and event["type"] == kind]

    def texts(self, sender: str) -> list[str]:
        return [event["content"].get("body", "") for event in self.of(sender)]


class Gate:
    """Stands before a homeserver and passes everything on, but can refuse what is sent, break off, and tell a sync again."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        self._told, self._again = b"", b""
        self._open: set[Any] = set()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, auto_decompress=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = int(self._runner.addresses[0][1])
        self._http = ClientSession(auto_decompress=False, timeout=ClientTimeout(total=120))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()
        await self._runner.cleanup()

    async def _pass(self, request: web.Request) -> web.Response:
        if "/send/" in request.path and request.method == "PUT" and self.refusals:
            status, body = self.refusals.pop(0)
            return web.json_response(body, status=status)
        sync = request.path.endswith("/sync")
        if sync and self._again:
            again, self._again = self._again, b""
            return web.Response(body=again, content_type="application/json")
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in {"host", "accept-encoding"}
        }
        data, self._open = await request.read(), self._open | {request.transport}
        async with self._http.request(
            request.method, f"{self._server}{request.rel_url}", data=data, headers=headers
        ) as reply:
            body = await reply.read()
        if sync and b"m.room.message" in body:
            self._told = body
        kept = {name: value for name, value in reply.headers.items() if name.lower() in {"content-type", "retry-after"}}
        return web.Response(status=reply.status, body=body, headers=kept)

    def tell_again(self) -> None:
        self._again = self._told

    def cut(self) -> None:
        for transport in self._open:
            if transport is not None:
                transport.abort()
        self._open = set()


class MatrixRig:
    features = frozenset(
        {"login", "group", "mention", "thread", "edit", "react", "media", "drop", "busy", "fail", "repeat", "bots"}
    )
    wrong = {"password": "wr0ng-word"}
    without = {"forward": "whoever passes an event on sends one of their own"}

    def __init__(self, folder: Path, server: str) -> None:
        self.folder, self._server = folder, server
        self.manifest = manifests()["matrix"]
        self.opener = load_entry
        self._suffix = next(_COUNT)
        self.me = f"@helper{self._suffix}:test.example"
        self.people: dict[str, Person] = {}
        self._direct: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        try:
            self.wire = await self._stack.enter_async_context(Gate(self._server))
            for who in ("ada", "bob", "eve"):
                person = Person(self._server, f"{who}{self._suffix}")
                self.people[who] = await self._stack.enter_async_context(person)
            client = nio.AsyncClient(self._server, f"helper{self._suffix}")
            await client.register(f"helper{self._suffix}", PASSWORD)
            await client.close()
            ada = self.people["ada"]
            others = [self.people["bob"], self.people["eve"]]
            self._room = await ada.room(*[person.id for person in others], name="Kitchen")
            for person in others:
                await person.client.join(self._room)
            self._root = await ada.say(self._room, "what a thread is about")
            await ada.client.room_invite(self._room, self.me)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def settings(self) -> dict[str, Any]:
        server = f"http://127.0.0.1:{self.wire.port}"
        return {"homeserver": server, "userId": self.me, "password": PASSWORD, "autoJoin": "always"}

    def person(self, who: str) -> str:
        return self.people[who].id

    def chat(self, who: str, to: str) -> str:
        return self.person(who) if to == "direct" else self._room

    async def _where(self, who: str, to: str) -> str:
        person = self.people[who]
        if to == "direct" and who not in self._direct:
            self._direct[who] = await person.room(self.me, is_direct=True)
        room = self._direct[who] if to == "direct" else self._room
        await until(lambda: room in person.client.rooms and self.me in person.client.rooms[room].users)
        if to != "direct":  # what was said in a room before the agent came in is not for it
            await until(lambda: any(self._came_in(event, room) for event in person.seen))
        return room

    def _came_in(self, event: dict[str, Any], room: str) -> bool:
        about = (event["room"], event["type"], event.get("state_key"), event["content"].get("membership"))
        return about == (room, "m.room.member", self.me, "join")

    async def write(self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b"") -> str:  # fmt: skip
        person, room = self.people[who], await self._where(who, to)
        more: dict[str, Any] = {"m.mentions": {"user_ids": [self.me]}} if mention else {}
        if to == "thread":
            more["m.relates_to"] = {"rel_type": "m.thread", "event_id": self._root}
        elif answers:
            more["m.relates_to"] = {"m.in_reply_to": {"event_id": answers}}
        if file:
            path = self.folder / "theirs.bin"
            path.write_bytes(file)
            told, _ = await person.client.upload(lambda *_: str(path), filesize=len(file))
            more |= {"msgtype": "m.file", "filename": "theirs.bin", "url": told.content_uri}
        return await person.say(room, text, **more)

    async def react(self, who: str, message: str, emoji: str) -> None:
        link = {"m.relates_to": {"rel_type": "m.annotation", "event_id": message, "key": emoji}}
        await self.people[who].put(await self._where(who, "direct"), "m.reaction", link)

    async def spoof(self, text: str) -> None:
        await self.people["eve"].client.set_displayname(self.person("ada"))
        await self.write("eve", text)

    async def forward(self, text: str) -> None:
        raise NotImplementedError

    async def bot(self, text: str) -> None:
        await self.people["bob"].say(await self._where("bob", "group"), text, msgtype="m.notice")

    async def repeat(self) -> None:
        self.wire.tell_again()

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        body: dict[str, Any] = {"errcode": "M_LIMIT_EXCEEDED" if status == 429 else "M_UNKNOWN", "error": "not now"}
        body |= {"retry_after_ms": int(retry_after * 1000)} if retry_after else {}
        self.wire.refusals = [(status, body)] * times

    async def drop(self) -> None:
        self.wire.cut()

    def _visible(self, who: str, to: str) -> dict[str, str]:
        room = self._direct.get(who, "") if to == "direct" else self._room
        found: dict[str, str] = {}
        for event in self.people[who].seen:
            if event["room"] != room or event["sender"] != self.me:
                continue
            link = event["content"].get("m.relates_to", {})
            if event["type"] == "m.room.redaction":
                found.pop(event.get("redacts") or event["content"].get("redacts"), None)
            elif event["type"] == "m.room.message" and link.get("rel_type") == "m.replace":
                found[link["event_id"]] = event["content"]["m.new_content"]["body"]
            elif event["type"] == "m.room.message" and (to == "thread") == (link.get("rel_type") == "m.thread"):
                found[event["event_id"]] = event["content"].get("body", "")
        return found

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return list(self._visible(who, to).values())

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return list(self._visible(who, to))

    def reactions(self) -> list[str]:
        seen = [event for person in self.people.values() for event in person.seen if event["sender"] == self.me]
        gone = {
            event.get("redacts") or event["content"].get("redacts")
            for event in seen
            if event["type"] == "m.room.redaction"
        }
        kept = {
            event["event_id"]: event
            for event in seen
            if event["type"] == "m.reaction" and event["event_id"] not in gone
        }
        return [event["content"]["m.relates_to"]["key"] for event in kept.values()]
