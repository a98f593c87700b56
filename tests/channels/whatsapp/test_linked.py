"""A linked device: the program's side of the pipe against a worker that the test plays, and the real worker with neonize."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.channels.platform_host import RecordingHost, outbound, running, until, words

from homarus.channels.support import SCAN, Pauses
from homarus.channels.whatsapp.linked import Linked
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Poll
from homarus.delivery.place import Piece

HERE = Path(__file__).parent
ME, ALICE, GROUP = "+15550001", "+15550002", "120363@g.us"


class FakeWorker:
    """What the worker says and is asked, in the test's own process."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.took: list[int] = []
        self.untaken: dict[int, dict[str, Any]] = {}
        self.refused: list[dict[str, Any]] = []
        self.port = 0
        self.next: dict[str, list[Any]] = {}  # an error, or "end"
        self.started = 0
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.started += 1
        self._writer = writer
        while line := await reader.readline():
            call = json.loads(line)
            if "took" in call:
                self.took.append(call["took"])
                self.untaken.pop(call["took"], None)
                continue
            self.calls.append(call)
            plans = self.next.get(call["do"]) or []
            plan = plans.pop(0) if plans else None
            if plan == "end":
                writer.close()
                return
            if plan:
                self.refused.append(call)
                self._tell({"id": call["id"], "error": plan})
                continue
            answer: Any = {"send": f"WA{len(self.calls)}", "groups": [{"id": GROUP, "name": "Club"}]}.get(call["do"])
            if call["do"] == "fetch":
                answer = str(Path(call["ref"]))
            self._tell({"id": call["id"], "ok": answer})
        writer.close()

    def _tell(self, told: dict[str, Any]) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps(told).encode() + b"\n")

    def event(self, event: str, **more: Any) -> None:
        self._tell({"event": event, **more})

    def connect(self) -> None:
        self.event("connected", number=ME, lid="100@lid", name="Lobster")

    def say(self, text: str = "", n: int = 0, **more: Any) -> None:
        told = {
            "id": f"M{n}",
            "chat": ALICE,
            "group": False,
            "sender": ALICE,
            "mine": False,
            "name": "Alice",
            "at": 1_790_000_000_000,
            "kind": "message",
            "text": text,
        }
        self.event("message", n=n, **{**told, **more})

    def end(self) -> None:
        assert self._writer is not None
        self._writer.close()

    def asked(self, do: str) -> list[dict[str, Any]]:
        return [
            {key: value for key, value in call.items() if key not in {"id", "do"}}
            for call in self.calls
            if call["do"] == do
        ]


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    fake = FakeWorker()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    yield fake
    server.close()


@pytest.fixture
def host(tmp_path: Path) -> RecordingHost:
    return RecordingHost(tmp_path / "account", {})


def linked(host: RecordingHost, worker: Any) -> Linked:
    return Linked(host, Pauses(0.01, 0.02), [sys.executable, str(HERE / "relay.py"), str(worker.port)])


@contextlib.asynccontextmanager
async def connected(host: RecordingHost, worker: FakeWorker) -> AsyncIterator[Linked]:
    channel = linked(host, worker)
    async with running(channel):
        await until(lambda: worker.started)
        worker.connect()
        await until(lambda: host.up)
        yield channel


def to(chat: str, **more: Any) -> Any:
    return outbound(chat, "whatsapp", **more)


async def test_messages_groups_quotes_and_mentions(host, worker):
    async with connected(host, worker):
        worker.say("hello", 1)
        quote = {"id": "Q", "author": "100@lid", "text": "earlier"}
        worker.say("look", 2, chat=GROUP, group=True, mentions=[ME], quote=quote, forwarded=True)
        worker.say("strange", 3, sender="999@lid", chat="999@lid")
        await until(lambda: worker.took == [1, 2, 3])
    direct, group, hidden = host.received
    assert (direct.id, direct.text, direct.sender, direct.peer, direct.chat_type) == (
        f"M1:{ALICE}",
        "hello",
        ALICE,
        ALICE,
        "direct",
    )
    assert (group.peer, group.chat_type, group.mentioned, group.forwarded) == (GROUP, "group", True, True)
    assert group.quote is not None
    assert (group.quote.id, group.quote.ours) == ("Q:me", True)
    assert hidden.sender == "999@lid"


async def test_a_message_is_taken_when_it_is_safe_and_not_before(host, worker):
    async with connected(host, worker):
        host.disk_full = 2
        worker.say("one", 1)
        worker.event("message", n=2, kind="nonsense")
        worker.say("three", 3)
        await until(lambda: worker.took == [1, 2, 3])
    assert [got.text for got in host.received] == ["one", "three"]
    assert any("no space left" in trouble for trouble in host.troubles)
    assert any("passed over" in trouble for trouble in host.troubles)


@pytest.mark.parametrize(("mode", "heard"), [(True, True), (False, False)])
async def test_the_chat_with_oneself_is_for_the_agent_only_where_the_owner_said_so(host, worker, mode, heard):
    host.settings["selfChatMode"] = mode
    async with connected(host, worker) as channel:
        worker.say("note to myself", 1, chat=ME, sender=ME, mine=True)
        worker.say("to a friend", 2, mine=True, sender=ME)
        sent = await channel.send(to(ME), words("an answer"), "k")
        worker.say("an answer", 3, id=sent.partition(":")[0], chat=ME, sender=ME, mine=True)
        await until(lambda: worker.took == [1, 2, 3])
    assert [got.from_self for got in host.received] == [not heard, True]
    assert worker.asked("read") == []  # nobody tells themselves that they read


async def test_changes_are_told(host, worker):
    async with connected(host, worker):
        worker.say("👍", 1, kind="reaction", target="T", author="me")
        worker.say("", 2, kind="reaction", target="T", author=ME)
        worker.say("better", 3, kind="edit", target="M9")
        worker.say("", 4, kind="delete", target="M9", chat=GROUP, group=True)
        worker.say("", 5, kind="other")
        await until(lambda: len(worker.took) == 5)
    assert [(one.kind, one.message_id, one.text, one.peer) for one in host.changes] == [
        ("reacted", "T:me", "👍", ALICE), ("unreacted", "T:me", "", ALICE),
        ("edited", f"M9:{ALICE}", "better", ALICE), ("deleted", f"M9:{ALICE}", "", GROUP)]  # fmt: skip
    assert host.received == []


async def test_sending_quoting_reacting_and_reading(host, worker, tmp_path):
    (tmp_path / "a.ogg").write_bytes(b"x")
    async with connected(host, worker) as channel:
        worker.say("hello", 1)
        await until(lambda: worker.took)
        sent = await channel.send(to(ALICE, reply_to=f"M1:{ALICE}"), words("hi"), "k")
        await channel.send(to(GROUP), Piece(file=str(tmp_path / "a.ogg"), as_voice=True), "k")
        await channel.react(to(GROUP), f"M2:{ALICE}", "👍")
        await channel.react(to(ALICE), "M1", "👍", on=False)
        await channel.delete(to(ALICE), sent)
        await channel.typing(to(ALICE))
        with pytest.raises(DeliveryError, match="who wrote that message"):
            await channel.react(to(GROUP), "M2", "👍")
        with pytest.raises(DeliveryError, match="nobody"):
            await channel.send(to("Alice"), words("x"), "k")
        assert [found.id for found in await channel.directory("club")] == [GROUP]
        assert (await channel.probe()).id == ME
    text, voice = worker.asked("send")
    assert text == {"to": ALICE, "text": "hi", "quote": {"id": "M1", "author": ALICE}}
    assert (voice["to"], voice["voice"], voice["mime"]) == (GROUP, True, "audio/ogg")
    assert sent.endswith(":me")
    assert worker.asked("read") == [{"to": ALICE, "author": ALICE, "ids": ["M1"]}]
    assert [call["emoji"] for call in worker.asked("react")] == ["👍", ""]
    assert worker.asked("delete")[0]["target"] == sent.partition(":")[0]


async def test_a_file_is_fetched_through_a_file_that_is_gone_afterwards(host, worker, tmp_path):
    fetched = tmp_path / "fetched"
    fetched.write_bytes(b"JPEG" * 50_000)
    async with connected(host, worker) as channel:
        worker.say("see", 1, file={"kind": "image", "mime": "image/jpeg", "name": "", "size": 4, "ref": str(fetched)})
        await until(lambda: host.received)
        media = host.received[0].media[0]
        assert b"".join([chunk async for chunk in channel.fetch(media)]) == b"JPEG" * 50_000
    assert not fetched.exists()


async def test_every_failure_says_what_can_be_done(host, worker):
    worker.next["send"] = [
        {"kind": "transient", "message": "not connected"},
        {"kind": "rate_limit", "message": "429"},
        {"kind": "refused", "message": "479"},
        "end",
    ]
    worker.next["react"] = [{"kind": "unknown", "message": "timed out"}]
    kinds = []
    async with connected(host, worker) as channel:
        with pytest.raises(DeliveryError) as reaction:
            await channel.react(to(ALICE), "M1", "👍")
        for _ in range(4):
            with pytest.raises(DeliveryError) as failed:
                await channel.send(to(ALICE), words("x"), "k")
            kinds.append(failed.value.kind.value)
        await until(lambda: worker.started == 2)  # a worker that ended is started again
    assert kinds == ["transient", "rate_limit", "refused", "unknown"]
    assert reaction.value.kind is DeliveryFailure.TRANSIENT  # it may happen twice
    with pytest.raises(DeliveryError) as stopped:
        await channel.send(to(ALICE), words("x"), "k")
    assert stopped.value.kind is DeliveryFailure.TRANSIENT


async def test_the_code_to_scan_is_data_until_somebody_scans_it(host, worker):
    channel = linked(host, worker)
    async with running(channel):
        await until(lambda: worker.started)
        worker.event("qr", code="2@abc", picture="data:image/svg+xml,x", terminal="██")
        await until(lambda: (host.folder / SCAN).exists())
        assert json.loads((host.folder / SCAN).read_bytes()) == {
            "qr": "2@abc",
            "qrDataUrl": "data:image/svg+xml,x",
            "terminal": "██",
        }
        assert "channels login" in host.troubles[0]
        worker.connect()
        await until(lambda: host.up)
        assert not (host.folder / SCAN).exists()


async def test_nobody_scanned_it(host, worker):
    task = asyncio.ensure_future(linked(host, worker).run())
    await until(lambda: worker.started)
    worker.event("qr", code="2@abc")
    worker.end()
    with pytest.raises(ChannelError, match="nobody scanned") as unscanned:
        await task
    assert unscanned.value.fatal
    assert not (host.folder / SCAN).exists()


@pytest.mark.parametrize("event", ["LoggedOut", "ClientOutdated"])
async def test_what_no_patience_cures_ends_the_account(host, worker, event):
    task = asyncio.ensure_future(linked(host, worker).run())
    await until(lambda: worker.started)
    worker.connect()
    worker.event(event, why="x")
    with pytest.raises(ChannelError) as ended:
        await task
    assert ended.value.fatal


async def test_other_troubles_are_told(host, worker):
    async with connected(host, worker):
        worker.event("Disconnected")
        worker.event("TemporaryBan")
        await until(lambda: len(host.troubles) == 2)
        worker.connect()
        await until(lambda: len(host.up) == 2)
        worker.event("noted", why="a message was passed over")
        await until(lambda: len(host.up) == 3)  # told, and still connected


async def test_nothing_of_the_environment_that_is_secret_reaches_the_worker(host, worker, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen = tmp_path / "env"
    script = tmp_path / "show.py"
    script.write_text(f"import os, sys\nopen({str(seen)!r}, 'w').write(repr(dict(os.environ)))\nsys.stdin.read()\n")
    async with running(Linked(host, Pauses(0.01, 0.02), [sys.executable, str(script)])):
        await until(lambda: seen.exists() and seen.read_text())
    assert "sk-secret" not in seen.read_text()


async def test_what_the_worker_said_before_it_ended_is_told(host, worker):
    async with running(linked(host, worker)):
        await until(lambda: worker.started)
        worker.event("failed", why="no such host")
        worker.end()
        await until(lambda: worker.started == 2)
    assert set(host.troubles) == {"whatsapp: no such host"}


async def test_why_the_worker_ended_is_told(host, tmp_path):
    script = tmp_path / "fail.py"
    script.write_text("import sys\nsys.exit('ImportError: failed to find libmagic')\n")
    async with running(Linked(host, Pauses(0.01, 0.02), [sys.executable, str(script)])):
        await until(lambda: host.troubles)
    assert host.troubles[0] == "whatsapp: the linked device ended (1) ImportError: failed to find libmagic"


# The real worker, with neonize over a stand-in for its library.


async def test_the_real_worker_with_neonize(host, tmp_path):
    if find_spec("neonize") is None:
        pytest.skip("needs neonize: pip install 'homarus[whatsapp]'")
    if find_library("magic") is None:
        pytest.skip("needs libmagic: apt install libmagic1")
    (tmp_path / "a.pdf").write_bytes(b"PDF")
    channel = Linked(host, Pauses(0.01, 0.02), [sys.executable, str(HERE / "fake_go.py")])
    async with running(channel):
        await until(lambda: len(host.received) == 5 and len(host.changes) == 2, str(host.troubles))
        by_lid, group, image, wrapped, unknown = host.received
        assert (by_lid.text, by_lid.sender, by_lid.peer, by_lid.timestamp) == (
            "by lid",
            ALICE,
            ALICE,
            1_790_000_000_000,
        )
        assert (group.sender, group.peer, group.mentioned) == ("+15550003", GROUP, True)
        assert group.quote is not None
        assert (group.quote.id, group.quote.text) == ("Q:me", "earlier")
        assert (image.text, image.media[0].kind) == ("see", "image")
        assert wrapped.text == "will vanish"
        assert unknown.sender == "888@lid"
        assert (host.changes[0].kind, host.changes[0].message_id) == ("reacted", "T:me")
        assert (host.changes[1].kind, host.changes[1].text) == ("edited", "better")
        assert (host.up[0].id, host.up[0].name) == (ME, "Lobster")
        await until(lambda: not list((host.folder / "untaken").iterdir()))
        assert b"".join([chunk async for chunk in channel.fetch(image.media[0])]) == b"file at /p"
        assert await channel.send(to(ALICE, reply_to=f"ID1:{ALICE}"), words("hi"), "k") == "SENT1:me"
        await channel.send(to(GROUP), Piece(text="paper", plain="paper", file=str(tmp_path / "a.pdf")), "k")
        await channel.react(to(GROUP), f"ID1:{ALICE}", "👍")
        await channel.edit(to(ALICE), "SENT1:me", words("ho"))
        await channel.typing(to(ALICE))
        for nobody, kind in (("404@g.us", "refused"), ("408@g.us", "unknown")):
            with pytest.raises(DeliveryError) as failed:
                await channel.send(to(nobody), words("x"), "k")
            assert failed.value.kind.value == kind
    asked = [json.loads(line) for line in (host.folder / "asked.jsonl").read_text().splitlines()]
    names = [one[0] for one in asked]
    assert names[:2] == ["MarkRead", "SendMessage"]
    assert ["Upload", base64.b64encode(b"PDF").decode(), 3] in asked
    assert "SendChatPresence" in names
    assert ["Edit", "SENT1", True, "ho"] in asked


async def test_a_message_is_changed_while_phones_show_it(host, worker):
    now = 0.0
    command = [sys.executable, str(HERE / "relay.py"), str(worker.port)]
    channel = Linked(host, Pauses(0.01, 0.02), command, lambda: now)
    async with running(channel):
        await until(lambda: worker.started)
        worker.connect()
        await until(lambda: host.up)
        sent = await channel.send(to(ALICE), words("hi"), "k")
        now = 899.0
        await channel.edit(to(ALICE), sent, words("ho"))
        now = 901.0
        for late in (sent, "OLD:me"):
            with pytest.raises(DeliveryError) as caught:
                await channel.edit(to(ALICE), late, words("hu"))
            assert caught.value.kind is DeliveryFailure.REFUSED
    assert worker.asked("edit") == [{"to": ALICE, "target": sent.partition(":")[0], "text": "ho"}]


async def test_a_poll_of_whatsapps_own(host, worker):
    async with connected(host, worker) as channel:
        poll = Poll("Tea?", ("yes", "no"), multiple=True)
        await channel.send(to(ALICE), Piece("Tea? 1. yes", "Tea? 1. yes", poll=poll), "k")
    [asked] = worker.asked("send")
    assert asked["poll"] == {"question": "Tea?", "options": ["yes", "no"], "multiple": True}
