"""A linked device: the program's side of the pipe to `worker`, which holds the connection and the keys."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from homarus.channels.channel import Change, Host, Identity
from homarus.channels.support import SCAN, LastWords, Note, Pauses, mime_of, not_kept, noted, proxy_for, refused
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError, installing
from homarus.core.messages import Inbound, Media, Outbound, Quote
from homarus.core.text import single_line
from homarus.delivery.place import Piece

LINE = 1 << 26
ANSWER_SECONDS = 120.0
SENT = 1000
EDIT_SECONDS = 15 * 60.0
UNREAD = 100
_LINK = "scan the code with WhatsApp → Linked devices: homarus channels login whatsapp"
# What ends an account until somebody acts, and what they do.
_ENDS = {
    "LoggedOut": ("whatsapp: the phone unlinked this device", _LINK),
    "ClientOutdated": ("whatsapp: WhatsApp refuses this version", installing("-U neonize")),
}
_TROUBLES = {
    "Disconnected": "whatsapp: the connection was lost, a new one is made",
    "StreamReplaced": "whatsapp: another program uses this login",
    "TemporaryBan": "whatsapp: WhatsApp has banned this number for some time",
    "ConnectFailure": "whatsapp: WhatsApp refuses the connection",
}
# What the worker needs of the environment; keys of models are none of its business.
_PASSED = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "PYTHONPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LD_LIBRARY_PATH",
)
_NUMBER = re.compile(r"\+?\d{5,20}")


class Linked:
    def __init__(
        self,
        host: Host,
        pauses: Pauses | None = None,
        command: list[str] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._settings = host.settings
        self._pauses = pauses or Pauses()
        self._command = command
        self._worker: asyncio.subprocess.Process | None = None
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._login = Note(host.folder, SCAN)
        self._me = Identity("")
        self._lid = ""
        self._now = now
        self._sent: OrderedDict[str, float] = OrderedDict()  # and when
        self._unread: dict[tuple[str, str], list[str]] = {}
        self._qr = False
        self._why = ""  # what the worker said before it ended

    # ---- coming in

    async def run(self) -> None:
        if self._command is None and find_spec("neonize") is None:
            raise ChannelError("whatsapp: neonize is missing", fatal=True, cure=installing("homarus[whatsapp]"))
        while True:
            try:
                await self._connection()
            except DeliveryError as problem:
                self._host.troubled(problem.message, cure=problem.cure)
            await self._pauses.wait()

    async def _connection(self) -> None:
        """Start the worker and listen to it until it ends."""
        folder = self._host.folder
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("fetched-*"):
            left.unlink()
        self._forget_code()
        self._why = ""
        command = self._command or [sys.executable, "-m", "homarus.channels.whatsapp.worker"]
        proxy = proxy_for("https://web.whatsapp.com/", self._settings) or ""
        self._worker = worker = await asyncio.create_subprocess_exec(
            *command,
            str(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _PASSED if name in os.environ} | {"HOMARUS_WHATSAPP_PROXY": proxy},
            limit=LINE,
            start_new_session=True,
        )
        assert worker.stdout is not None
        last = LastWords(worker.stderr)
        waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        handling = asyncio.ensure_future(self._handle(waiting))
        reading = asyncio.ensure_future(self._listen(worker.stdout, waiting))
        try:
            await asyncio.wait({handling, reading}, return_when=asyncio.FIRST_COMPLETED)
            if handling.done():
                handling.result()  # raises what ended the account
        finally:
            await self._end(worker, handling, reading)
        if self._qr:
            self._qr = False
            raise ChannelError("whatsapp: nobody scanned the code", fatal=True, cure=_LINK)
        last_words = await last.end()
        what = self._why or f"the linked device ended ({worker.returncode}) {last_words if worker.returncode else ''}"
        raise DeliveryError(DeliveryFailure.TRANSIENT, f"whatsapp: {what}".rstrip())

    async def _end(self, worker: asyncio.subprocess.Process, *tasks: asyncio.Future[Any]) -> None:
        self._worker = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in self._calls.values():
            if not future.done():
                future.set_exception(DeliveryError(DeliveryFailure.UNKNOWN, "whatsapp: the linked device ended"))
        self._calls.clear()
        self._forget_code()
        if worker.stdin is not None:
            worker.stdin.close()  # which it takes as the word to end
        for way in (None, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                if way is not None:
                    os.killpg(worker.pid, way)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await worker.wait()
                    return

    async def _listen(self, output: asyncio.StreamReader, waiting: asyncio.Queue[dict[str, Any]]) -> None:
        while line := await output.readline():
            try:
                told = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # what a library printed
            if "event" in told:
                waiting.put_nowait(told)
                continue
            future = self._calls.pop(int(told.get("id") or 0), None)
            if future is not None and not future.done():
                future.set_result(told)
        await waiting.join()

    async def _handle(self, waiting: asyncio.Queue[dict[str, Any]]) -> None:
        while True:
            told = await waiting.get()
            try:
                await self._event(told)
            except (KeyError, TypeError, ValueError, AttributeError) as problem:
                noted(self._host, self._me, f"whatsapp: an event was passed over ({type(problem).__name__})")
            finally:
                waiting.task_done()
            if told["event"] == "message":
                await self._write({"took": told.get("n")})

    async def _event(self, told: dict[str, Any]) -> None:
        kind = str(told["event"])
        if kind in _ENDS:
            self._qr = False
            what, cure = _ENDS[kind]
            raise ChannelError(what, fatal=True, cure=cure)
        if kind == "message":
            await self._message(told)
        elif kind == "qr":
            self._qr = True
            self._login.write({"qr": told["code"], "qrDataUrl": told.get("picture"), "terminal": told.get("terminal")})
            self._host.troubled("whatsapp: this device is not linked yet", cure=_LINK)
        elif kind == "connected":
            self._qr = False
            self._forget_code()
            self._me, self._lid = Identity(str(told["number"]), str(told.get("name") or "")), str(told.get("lid") or "")
            self._pauses.reset()
            self._host.connected(self._me)
        elif kind == "noted":
            noted(self._host, self._me, f"whatsapp: {single_line(str(told.get('why')))}")
        elif kind == "failed":
            self._why = single_line(str(told.get("why")))
            self._host.troubled(f"whatsapp: {self._why}")
        else:
            self._host.troubled(_TROUBLES.get(kind, f"whatsapp: {single_line(kind, 40)}"))

    def _forget_code(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._host.folder / SCAN).unlink()

    async def _message(self, told: Mapping[str, Any]) -> None:
        if told["id"] in self._sent:
            return  # our own words, come back
        inbound, change = self._inbound(told), self._change(told)
        while True:
            try:
                if inbound is not None:
                    await self._host.receive(inbound)
                if change is not None:
                    await self._host.changed(change)
                break
            except (HomarusError, OSError) as problem:
                not_kept(self._host, self._me, problem)
                await self._pauses.wait()
        if inbound is not None and not told.get("mine"):
            if len(self._unread) >= SENT:
                self._unread.clear()
            unread = self._unread.setdefault((inbound.peer, inbound.sender), [])
            unread[:] = [*unread, str(told["id"])][-UNREAD:]

    def _inbound(self, told: Mapping[str, Any]) -> Inbound | None:
        file = told.get("file")
        if told["kind"] != "message" or not (told.get("text") or file):
            return None
        sender, quoted = str(told["sender"]), told.get("quote") or {}
        # What the owner writes to themselves is for the agent, where they said so; all else that they write is not.
        own_chat = bool(told.get("mine")) and not told.get("group") and told["chat"] in {self._me.id, self._lid}
        to_agent = own_chat and bool(self._settings.get("selfChatMode"))
        author = "me" if quoted.get("author") in self._self else str(quoted.get("author") or "")
        quote = (
            Quote(f"{quoted['id']}:{author}", str(quoted.get("text") or ""), author, author == "me") if quoted else None
        )
        media = Media(file["kind"], file["mime"], file["name"], file["size"], file["ref"]) if file else None
        return Inbound(
            id=f"{told['id']}:{sender}",
            channel="whatsapp",
            account=self._host.account,
            text=str(told.get("text") or ""),
            sender=sender,
            sender_name=str(told.get("name") or ""),
            peer=str(told["chat"]),
            chat_type="group" if told.get("group") else "direct",
            timestamp=int(told.get("at") or 0),
            mentioned=bool(self._self & set(told.get("mentions") or ())),
            from_self=bool(told.get("mine")) and not to_agent,
            forwarded=bool(told.get("forwarded")),
            quote=quote,
            reply_to=quote.id if quote else "",
            media=(media,) if media else (),
        )

    @property
    def _self(self) -> set[str]:
        return {one for one in (self._me.id, self._lid) if one}

    def _change(self, told: Mapping[str, Any]) -> Change | None:
        kinds: dict[str, Any] = {"reaction": "reacted", "edit": "edited", "delete": "deleted"}
        if told["kind"] not in kinds or told.get("mine"):
            return None
        kind: Any = "unreacted" if told["kind"] == "reaction" and not told.get("text") else kinds[str(told["kind"])]
        author = str(told.get("author") or told["sender"])
        return Change(
            kind,
            "whatsapp",
            str(told["chat"]),
            message_id=f"{told['target']}:{'me' if author in self._self else author}",
            sender=str(told["sender"]),
            text=str(told.get("text") or ""),
            account=self._host.account,
            chat_type="group" if told.get("group") else "direct",
        )

    # ---- going out

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        to = address(message.to)
        await self._show_read(message.to)
        call: dict[str, Any] = {"to": to, "text": piece.text}
        ident, _, author = message.reply_to.partition(":")
        if ident and author:
            call["quote"] = {"id": ident, "author": author}
        if piece.poll is not None:
            call["poll"] = msgspec.to_builtins(piece.poll)
        if piece.file:
            call |= {
                "file": piece.file,
                "name": Path(piece.file).name,
                "mime": mime_of(piece.file),
                "voice": piece.as_voice,
            }
        sent = str(await self._ask("send", once=True, **call))
        self._sent[sent] = self._now()
        if len(self._sent) > SENT:
            self._sent.popitem(last=False)
        return f"{sent}:me"

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        ident = sent.partition(":")[0]
        # Nobody says that a change came too late: phones just do not show it.
        if self._now() - self._sent.get(ident, -EDIT_SECONDS) >= EDIT_SECONDS:
            raise refused(
                "whatsapp: a message can be changed for 15 minutes, and by the process that sent it", "send another one"
            )
        await self._ask("edit", to=address(message.to), target=ident, text=piece.text)

    async def delete(self, message: Outbound, sent: str) -> None:
        await self._ask("delete", to=address(message.to), target=sent.partition(":")[0])

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        ident, _, author = to_message.partition(":")
        author = author or ("" if message.to.endswith("@g.us") else message.to)
        if not author:
            raise refused("whatsapp: nobody knows who wrote that message", "name it as <id>:<author>")
        await self._ask("react", to=address(message.to), target=ident, author=author, emoji=emoji if on else "")

    async def typing(self, message: Outbound) -> None:
        with contextlib.suppress(DeliveryError):
            await self._show_read(message.to)
            await self._ask("typing", to=address(message.to), voice=message.as_voice)

    async def _show_read(self, to: str) -> None:
        """Tell people that they were read, now that they are answered: a stranger who is not learns nothing."""
        for chat, sender in [held for held in self._unread if held[0] == to]:
            ids = self._unread.pop((chat, sender))
            if self._settings.get("sendReadReceipts", True) and sender not in self._self:
                with contextlib.suppress(DeliveryError):
                    await self._ask("read", to=address(to), author=sender, ids=ids)

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        path = str(await self._ask("fetch", ref=media.ref))
        file = await asyncio.to_thread(Path(path).open, "rb")
        try:
            await asyncio.to_thread(Path(path).unlink)
            while chunk := await asyncio.to_thread(file.read, 1 << 16):
                yield chunk
        finally:
            file.close()

    async def probe(self) -> Identity:
        if not self._me.id:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "whatsapp: not connected", cure=_LINK)
        return self._me

    async def directory(self, query: str) -> list[Identity]:
        wanted = query.strip().lower()
        groups = await self._ask("groups")
        found = [Identity(str(group["id"]), str(group["name"])) for group in groups]
        return [group for group in found if wanted in group.name.lower() or wanted in group.id]

    async def _write(self, line: dict[str, Any]) -> None:
        if self._worker is None or self._worker.stdin is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "whatsapp: not connected")
        try:
            self._worker.stdin.write(msgspec.json.encode(line) + b"\n")
            await self._worker.stdin.drain()
        except ConnectionError:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "whatsapp: not connected") from None

    async def _ask(self, do: str, *, once: bool = False, **call: Any) -> Any:
        """Let the worker do something. `once`: it must not happen twice, so an unanswered call stays in doubt."""
        number = next(self._numbers)
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            await self._write({"id": number, "do": do, **call})
            async with asyncio.timeout(ANSWER_SECONDS):
                told = await future
        except TimeoutError:
            raise DeliveryError(
                DeliveryFailure.UNKNOWN if once else DeliveryFailure.TRANSIENT, "whatsapp: no answer"
            ) from None
        except DeliveryError as problem:
            if not once and problem.kind is DeliveryFailure.UNKNOWN:
                raise DeliveryError(DeliveryFailure.TRANSIENT, problem.message) from None
            raise
        finally:
            self._calls.pop(number, None)
        if (error := told.get("error")) is None:
            return told.get("ok")
        kind = DeliveryFailure(error.get("kind") or "refused")
        if kind is DeliveryFailure.UNKNOWN and not once:
            kind = DeliveryFailure.TRANSIENT
        raise DeliveryError(kind, single_line(f"whatsapp: {error.get('message')}"))


def address(to: str) -> str:
    """Return a target as WhatsApp names it: `+15551234567`, `<id>@g.us` or `<id>@lid`."""
    bare = to.removeprefix("whatsapp:").removeprefix("group:").removeprefix("user:")
    if "@" in bare or _NUMBER.fullmatch(bare):
        return bare
    raise refused(
        f"whatsapp: '{single_line(to, 60)}' is nobody", "name a number, as +15551234567, or a group, as <id>@g.us"
    )
