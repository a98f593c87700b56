"""A business number against a Graph API on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs aiohttp: pip install aiohttp")

import aiohttp
from aiohttp import web
from tests.channels.contract import play
from tests.channels.foes import SCENARIOS
from tests.channels.platform_host import RecordingHost, outbound, running, until, words

from homarus.channels.channel import Host, Manifest
from homarus.channels.discovery import manifests
from homarus.channels.settings import account_of
from homarus.channels.support import Pauses
from homarus.channels.whatsapp.adapter import open_channel
from homarus.channels.whatsapp.cloud import Cloud
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Media
from homarus.delivery.place import Button, Piece

TOKEN, SECRET, NUMBER, ALICE = "EAAfake", "app-secret", "42", "+15550002"


class Graph:
    def __init__(self) -> None:
        self.base = ""
        self.calls: list[dict[str, Any]] = []
        self.uploads: list[tuple[str, bytes]] = []
        self.next: list[Any] = []
        self.elsewhere = ""
        self.files = b"JPEG"
        self.shown: dict[str, dict[str, Any]] = {}  # what people see, by id

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": {"message": "Invalid OAuth access token", "code": 190}}, status=401)
        self.calls.append(await request.json())
        plan = self.next.pop(0) if self.next else None
        if isinstance(plan, tuple):
            status, error, headers = (*plan, {})[:3]
            if error is None:
                return web.Response(status=status, text="<html>")
            return web.json_response({"error": error}, status=status, headers=headers)
        if plan == "drop":
            assert request.transport is not None
            request.transport.abort()
        self.shown[f"wamid.{len(self.calls)}"] = self.calls[-1]
        return web.json_response({"messages": [{"id": f"wamid.{len(self.calls)}"}]})

    async def _media(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        self.uploads.append((file.filename, file.file.read()))
        return web.json_response({"id": "media-1"})

    async def _get(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": {"message": "Invalid OAuth access token", "code": 190}}, status=401)
        if request.match_info["id"] == NUMBER:
            return web.json_response({"display_phone_number": "+1 555-0001", "verified_name": "Lobster Ltd"})
        return web.json_response({"url": self.elsewhere or f"{self.base}/files/x"})

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Graph]:
    fake = Graph()
    app = web.Application()
    app.router.add_post("/v1/{number}/messages", fake._messages)
    app.router.add_post("/v1/{number}/media", fake._media)
    app.router.add_get("/v1/files/x", fake._file)
    app.router.add_get("/v1/{id}", fake._get)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.base = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield fake
    finally:
        await runner.cleanup()


@pytest.fixture
async def graph() -> AsyncIterator[Graph]:
    async with serving() as fake:
        yield fake


def settings_for(graph: Graph) -> dict[str, Any]:
    own = {"phoneNumberId": NUMBER, "accessToken": TOKEN, "appSecret": SECRET, "verifyToken": "word"}
    return {**own, "apiRoot": graph.base, "webhookPort": 0}


@pytest.fixture
def host(graph: Graph, tmp_path: Path) -> RecordingHost:
    return RecordingHost(tmp_path, settings_for(graph))


def cloud(host: RecordingHost) -> Cloud:
    return Cloud(host, Pauses(0.01, 0.02))


def to(chat: str, **more: Any) -> Any:
    return outbound(chat, "whatsapp", **more)


def told(*messages: dict[str, Any], number: str = NUMBER) -> bytes:
    value = {"metadata": {"phone_number_id": number}, "contacts": [{"wa_id": "15550002", "profile": {"name": "Alice"}}],
             "messages": [{"from": "15550002", "timestamp": "1790000000", **message} for message in messages]}  # fmt: skip
    return json.dumps(
        {"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages", "value": value}]}]}
    ).encode()


class Caller:
    """Meta, calling our port."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http, self._url = http, f"http://127.0.0.1:{port}/whatsapp-webhook"

    async def post(self, body: bytes, key: str = SECRET, **headers: str) -> int:
        signed = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
        async with self._http.post(
            self._url, data=body, headers={"X-Hub-Signature-256": signed, **headers}
        ) as response:
            return response.status

    async def get(self, **query: str) -> tuple[int, str]:
        async with self._http.get(
            self._url, params={f"hub.{name}": value for name, value in query.items()}
        ) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def called(host: RecordingHost) -> AsyncIterator[tuple[Cloud, Caller]]:
    channel = cloud(host)
    async with running(channel), aiohttp.ClientSession() as http:
        await until(lambda: channel.port)
        yield channel, Caller(http, channel.port)


async def test_only_signed_calls_are_believed_and_they_are_answered_when_it_is_safe(graph, host):
    body = told({"id": "wamid.A", "type": "text", "text": {"body": "hello"}})
    async with called(host) as (_, meta):
        assert await meta.post(body, key="wrong") == 401
        assert await meta.post(body, **{"X-Hub-Signature-256": ""}) == 401
        assert await meta.post(b"not json") == 400
        assert await meta.post(told({"id": "x", "type": "text", "text": {"body": "for another"}}, number="43")) == 200
        assert host.received == []
        host.disk_full = 1
        assert await meta.post(body) == 500
        assert await meta.post(body) == 200
        assert await meta.get(mode="subscribe", verify_token="word", challenge="1158201444") == (200, "1158201444")
        assert (await meta.get(mode="subscribe", verify_token="guess", challenge="1"))[0] == 403
    [got] = host.received
    assert (got.id, got.text, got.sender, got.peer, got.sender_name) == ("wamid.A", "hello", ALICE, ALICE, "Alice")
    assert (host.up[0].id, host.up[0].name) == ("+15550001", "Lobster Ltd")


async def test_everything_that_people_send(graph, host):
    async with called(host) as (channel, meta):
        await meta.post(told(
            {"id": "1", "type": "image", "image": {"id": "m1", "mime_type": "image/jpeg", "caption": "see"}},
            {"id": "2", "type": "audio", "audio": {"id": "m2", "mime_type": "audio/ogg; codecs=opus", "voice": True}},
            {"id": "3", "type": "location", "location": {"latitude": 1, "longitude": 2}},
            {"id": "4", "type": "text", "text": {"body": "an answer"}, "context": {"from": "15550001", "id": "wamid.Z"}},
            {"id": "5", "type": "text", "text": {"body": "/status"}, "context": {"forwarded": True}},
            {"id": "6", "type": "interactive", "interactive": {"type": "button_reply", "button_reply": {"id": "/yes", "title": "Yes"}}},
            {"id": "7", "type": "reaction", "reaction": {"message_id": "wamid.Z", "emoji": "👍"}},
            {"id": "8", "type": "unsupported"}))  # fmt: skip
        image, voice, place, answer, forwarded, tap = host.received
        assert b"".join([chunk async for chunk in channel.fetch(image.media[0])]) == b"JPEG"
        graph.elsewhere = "https://evil.example/x"
        with pytest.raises(DeliveryError, match="outside of WhatsApp"):
            _ = [chunk async for chunk in channel.fetch(Media(ref="m1"))]
    assert image.text == "see"
    assert (voice.media[0].kind, voice.media[0].mime_type) == ("voice", "audio/ogg")
    assert place.text == "[location: 1, 2]"
    assert answer.quote is not None
    assert (answer.quote.id, answer.quote.ours) == ("wamid.Z", True)
    assert forwarded.forwarded
    assert tap.command == "/yes"
    assert [(change.kind, change.text, change.message_id) for change in host.changes] == [("reacted", "👍", "wamid.Z")]


async def test_sending(graph, host, tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"PDF")
    async with called(host) as (channel, meta):
        await channel.typing(to(ALICE))  # nobody wrote yet: there is nothing to hang it on
        assert graph.calls == []
        await meta.post(told({"id": "wamid.A", "type": "text", "text": {"body": "hello"}}))
        await channel.typing(to(ALICE))
        sent = await channel.send(to(ALICE, reply_to="wamid.A"), words("hi"), "k")
        await channel.send(to(ALICE), Piece(text="paper", plain="paper", file=str(tmp_path / "a.pdf")), "k")
        await channel.react(to(ALICE), "wamid.A", "👍", on=False)
        for refuse in (
            channel.edit(to(ALICE), sent, words("x")),
            channel.delete(to(ALICE), sent),
            channel.send(to("Alice"), words("x"), "k"),
        ):
            with pytest.raises(DeliveryError):
                await refuse
        assert await channel.directory("x") == []
    typing, text, paper, reaction = graph.calls
    assert (typing["status"], typing["message_id"]) == ("read", "wamid.A")
    assert (text["to"], text["text"]["body"], text["text"]["preview_url"], text["context"]) == (
        "15550002",
        "hi",
        False,
        {"message_id": "wamid.A"},
    )
    assert paper["document"] == {"id": "media-1", "caption": "paper", "filename": "a.pdf"}
    assert graph.uploads == [("a.pdf", b"PDF")]
    assert reaction["reaction"] == {"message_id": "wamid.A", "emoji": ""}
    assert sent == "wamid.2"


async def test_buttons_and_voice_messages(graph, host, tmp_path):
    (tmp_path / "v.ogg").write_bytes(b"OggS")
    row = (Button("Once", "/approve 1 once"), Button("Never", "/approve 1 deny"))
    channel = cloud(host)
    await channel.send(to(ALICE), Piece("May I?", "May I?", buttons=(row,)), "k")
    await channel.send(to(ALICE), Piece("May I?", "May I?", buttons=((*row, *row),)), "k")
    await channel.send(to(ALICE), Piece("x" * 1025, "x", buttons=(row,)), "k")
    await channel.send(to(ALICE), Piece(file=str(tmp_path / "v.ogg"), as_voice=True), "k")
    taps, many, long, voice = graph.calls
    assert taps["interactive"]["body"] == {"text": "May I?"}
    assert [one["reply"] for one in taps["interactive"]["action"]["buttons"]] == [
        {"id": "/approve 1 once", "title": "Once"},
        {"id": "/approve 1 deny", "title": "Never"},
    ]
    assert many["text"]["body"] == "May I?"  # four do not fit; the words tell what to type
    assert long["type"] == "text"
    assert voice["audio"] == {"id": "media-1", "voice": True}


def test_only_a_business_number_has_buttons_and_only_a_linked_device_edits(tmp_path):
    def place(block: str) -> Any:
        env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
        (tmp_path / "openclaw.json").write_text(f'{{"channels": {{"whatsapp": {block}}}}}')
        return account_of(inspect_config(resolve_paths(env), env), manifests()["whatsapp"], "default", env).place

    business, linked = place('{"phoneNumberId": "42"}'), place("{}")
    assert (business.buttons, business.edit) == (True, False)
    assert (linked.buttons, linked.edit) == (False, True)


async def test_every_refusal_says_what_can_be_done(graph, host):
    graph.next = [(429, {"code": 130429, "message": "slow"}, {"Retry-After": "7"}), (400, {"code": 131047, "message": "late"}), (400, {"code": 131016, "message": "busy"}),
                  (500, {"code": 131000, "message": "?"}), (502, None), (503, None), "drop"]  # fmt: skip
    channel, problems = cloud(host), []
    for _ in range(7):
        with pytest.raises(DeliveryError) as refused:
            await channel.send(to(ALICE), words("x"), "k")
        problems.append(refused.value)
    kinds = [problem.kind.value for problem in problems]
    assert kinds == ["rate_limit", "refused", "transient", "unknown", "unknown", "transient", "unknown"]
    assert problems[0].retry_after == 7
    assert "templates only" in problems[1].cure
    assert len(graph.calls) == 7
    graph.next = ["drop"]
    with pytest.raises(DeliveryError) as reaction:
        await channel.react(to(ALICE), "wamid.A", "👍")
    assert reaction.value.kind is DeliveryFailure.TRANSIENT
    assert not any(TOKEN in repr(problem) for problem in problems)


async def test_settings_that_cannot_work_end_the_account(graph, host):
    with pytest.raises(ChannelError, match="permanent one") as wrong:
        await cloud(RecordingHost(host.folder, {**host.settings, "accessToken": "EAAwrong"})).run()
    assert wrong.value.fatal
    for key in ("accessToken", "appSecret", "verifyToken"):
        with pytest.raises(ChannelError, match=key):
            await cloud(RecordingHost(host.folder, {**host.settings, key: ""})).run()
    away = RecordingHost(host.folder, {**host.settings, "apiRoot": "http://127.0.0.1:9"})
    async with running(cloud(away)):
        await until(lambda: len(away.troubles) > 1)


def test_a_business_number_needs_no_linked_device(host):
    assert isinstance(open_channel(host), Cloud)


class CloudRig:
    """The Cloud API for the contract. Meta calls again until its call is answered with 200."""

    manifest = manifests()["whatsapp"]
    features = frozenset({"login", "react", "media", "busy", "fail", "drop", "repeat", "forward"})
    wrong = {"accessToken": "EAAwr0ng"}
    without = {
        "group": "the Cloud API has no groups",
        "mention": "the Cloud API has no groups in which one could be named",
        "thread": "it has no threads",
        "edit": "the Cloud API edits no messages and takes none back",
        "bots": "it does not say that a program writes",
    }

    def __init__(self, graph: Graph) -> None:
        self.graph, self._count = graph, itertools.count(1)
        self._cloud: Cloud | None = None
        self._last = b""

    def opener(self, manifest: Manifest, /) -> Any:
        def made(host: Host) -> Cloud:
            self._cloud = Cloud(host, Pauses(0.01, 0.02))
            return self._cloud

        return made

    def settings(self) -> dict[str, Any]:
        return {**settings_for(self.graph), "dmPolicy": "pairing"}

    def person(self, who: str) -> str:
        return {"ada": "+15550011", "bob": "+15550012", "eve": "+15550013"}[who]

    def chat(self, who: str, to: str) -> str:
        return self.person(who)

    async def _call(self, body: bytes) -> None:
        async with aiohttp.ClientSession() as http:
            while True:  # as Meta does, until it is told that we have it
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    if (await Caller(http, self._cloud.port if self._cloud else 0).post(body)) == 200:
                        return
                await asyncio.sleep(0.01)

    async def _tell(self, who: str, *messages: dict[str, Any], name: str = "") -> list[str]:
        wa_id, ids = self.person(who).lstrip("+"), [f"wamid.in{next(self._count)}" for _ in messages]
        told = [{"id": ident, "from": wa_id, "timestamp": "1790000000", **message}
                for ident, message in zip(ids, messages, strict=True)]  # fmt: skip
        contact = {"wa_id": wa_id, "profile": {"name": name or who}}
        value = {"metadata": {"phone_number_id": NUMBER}, "contacts": [contact], "messages": told}
        self._last = json.dumps({"entry": [{"changes": [{"field": "messages", "value": value}]}]}).encode()
        await self._call(self._last)
        return ids

    async def _say(self, who: str, name: str = "", **message: Any) -> str:
        return (await self._tell(who, message, name=name))[0]

    async def write_many(self, who: str, texts: list[str]) -> None:
        """What comes quickly is told in few calls."""
        for first in range(0, len(texts), 50):
            await self._tell(who, *({"type": "text", "text": {"body": text}} for text in texts[first : first + 50]))

    async def write(
        self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        if file:
            self.graph.files = file
            return await self._say(who, type="document", document={"id": "m1", "filename": "f.bin", "caption": text})
        return await self._say(who, type="text", text={"body": text})

    async def spoof(self, text: str) -> None:
        await self._say("eve", self.person("ada"), type="text", text={"body": text}, user_id=self.person("ada"))

    async def forward(self, text: str) -> None:
        await self._say("ada", type="text", text={"body": text}, context={"forwarded": True})

    async def bot(self, text: str) -> None:
        raise NotImplementedError

    async def react(self, who: str, message: str, emoji: str) -> None:
        await self._say(who, type="reaction", reaction={"message_id": message, "emoji": emoji})

    async def repeat(self) -> None:
        await self._call(self._last)

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        error = {"code": 130429, "message": "slow"} if status == 429 else None
        wait = {"Retry-After": "0"} if retry_after else {}
        self.graph.next = [(status, error, wait)] * times

    async def drop(self) -> None:
        """A call that breaks off in its middle; Meta makes it again."""
        assert self._cloud is not None
        _reader, writer = await asyncio.open_connection("127.0.0.1", self._cloud.port)
        writer.write(b"POST /whatsapp-webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n" + self._last[:40])
        await writer.drain()
        writer.transport.abort()

    def _shown(self, who: str) -> list[tuple[str, str]]:
        mine = self.person(who).lstrip("+")
        texts = {
            "text": lambda call: call["text"]["body"],
            "document": lambda call: call["document"].get("caption", ""),
        }
        return [(ident, texts[call["type"]](call)) for ident, call in self.graph.shown.items()
                if call.get("to") == mine and call.get("type") in texts]  # fmt: skip

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return [text for _, text in self._shown(who)]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [ident for ident, _ in self._shown(who)]

    def reactions(self) -> list[str]:
        given = [call["reaction"]["emoji"] for call in self.graph.shown.values() if call.get("type") == "reaction"]
        return [emoji for emoji in given[-1:] if emoji]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path):
    async with serving() as graph:
        await play(scenario, CloudRig(graph), tmp_path)
