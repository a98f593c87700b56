"""One Signal account: a daemon of signal-cli, asked by JSON-RPC, that tells what comes in as server-sent events.

signal-cli tells every message once. What cannot be kept is therefore tried again here, and nothing behind it is read meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from homarus.channels.channel import Host, Identity
from homarus.channels.signal import inbound as read
from homarus.channels.support import LastWords, Note, Pauses, exchange, mime_of, never_left, not_kept, noted, refused
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Media, Outbound
from homarus.core.text import single_line
from homarus.delivery.place import Piece
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError
from homarus.net.sse import SseError, SseParser

SILENCE_SECONDS = 90.0  # signal-cli sends a sign of life every fifteen
BLOCK = 1 << 16
UNREAD = 200
PEOPLE = 1000
# Codes of signal-cli's errors.
_USER, _IO, _UNTRUSTED, _RATE, _NO_METHOD = -1, -3, -4, -5, -32601
_CURES = {
    _UNTRUSTED: "their safety number changed: compare it, then 'signal-cli -a <account> trust -v <number> <recipient>'",
    _USER: "is the account registered or linked? 'signal-cli listAccounts' tells",
}


def open_channel(host: Host) -> Signal:
    return Signal(host)


class Signal:
    def __init__(self, host: Host, pauses: Pauses | None = None) -> None:
        self._host = host
        self._pauses = pauses or Pauses()
        self._settings = dict(host.settings) | dict(host.settings.get("transport") or {})
        number = str(host.settings.get("account") or "").strip()
        self._me = read.Me(number, str(host.settings.get("accountUuid") or "").strip(), host.account)
        self._who = Identity(number, handle=self._me.uuid)
        where = f"{self._settings.get('httpHost') or '127.0.0.1'}:{int(self._settings.get('httpPort') or 8080)}"
        self._bind = where
        self._external = str(self._settings.get("url") or self._settings.get("httpUrl") or "").rstrip("/")
        self._base = self._external or f"http://{where}"
        self._http = HttpClient()
        self._running = False
        self._calls = itertools.count(1)
        # The number of each person by their id, from when it was not hidden.
        self._note = Note(host.folder, "people.json")
        self._numbers: dict[str, str] = {str(uuid): str(number) for uuid, number in self._note.read().items()}
        self._unread: dict[str, list[int]] = {}

    # ---- coming in

    async def run(self) -> None:
        self._check_settings()
        daemon = None
        self._running = True
        try:
            while True:
                try:
                    if self._managed and (daemon is None or daemon.returncode is not None):
                        daemon = await self._start_daemon()
                    me = await self._identity()
                    await self._listen(me)
                    self._host.troubled("signal: the daemon ended the stream of events")
                except DeliveryError as problem:
                    if problem.kind is DeliveryFailure.REFUSED:
                        raise ChannelError(problem.message, fatal=True, cure=problem.cure) from None
                    self._host.troubled(problem.message, cure=problem.cure or self._away)
                await self._pauses.wait()
        finally:
            self._running = False
            await self._http.aclose()
            if daemon is not None:
                await _end(daemon)

    @property
    def _managed(self) -> bool:
        wanted = self._settings.get("autoStart")
        kind = str(self._settings.get("kind") or "")
        return kind == "managed-native" or (not kind and (bool(wanted) if wanted is not None else not self._external))

    @property
    def _away(self) -> str:
        where = self._external.partition("://")[2].partition("/")[0] or self._bind
        return "" if self._managed else f"start it: signal-cli -a {self._me.number} daemon --http {where}"

    def _check_settings(self) -> None:
        if not self._me.number.startswith("+"):
            cure = "set channels.signal.account to the number of the agent's account, as +15551234567"
            raise ChannelError("signal: no account", fatal=True, cure=cure)
        if (kind := self._settings.get("kind")) not in {None, "", "managed-native", "external-native"}:
            cure = "run signal-cli's own daemon: external-native with its url, or managed-native"
            raise ChannelError(
                f"signal: transport.kind '{single_line(str(kind), 40)}' is not served", fatal=True, cure=cure
            )

    async def _start_daemon(self) -> asyncio.subprocess.Process:
        program = str(self._settings.get("cliPath") or "signal-cli")
        folder = str(self._settings.get("configPath") or "")
        # Messages are fetched from Signal only while somebody listens, so none is told to nobody.
        command = [program, *(["--config", folder] if folder else []), "-a", self._me.number, "daemon",
                   "--http", self._bind, "--receive-mode", "on-connection", "--no-receive-stdout"]  # fmt: skip
        quiet = asyncio.subprocess.DEVNULL
        try:
            daemon = await asyncio.create_subprocess_exec(
                *command, stdin=quiet, stdout=quiet, stderr=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as problem:
            cure = "install signal-cli, or name it in channels.signal.transport.cliPath"
            raise ChannelError(
                f"signal: {program} cannot be started: {problem.strerror}", fatal=True, cure=cure
            ) from None
        last = LastWords(daemon.stderr)
        seconds = min(120.0, max(1.0, float(self._settings.get("startupTimeoutMs") or 30_000) / 1000))
        try:
            async with asyncio.timeout(seconds):
                while not await self._is_up():
                    if daemon.returncode is not None:
                        cure = f"see what it says: {' '.join(command)}"
                        what = f"signal: signal-cli ended with status {daemon.returncode}: {await last.end()}"
                        raise DeliveryError(DeliveryFailure.TRANSIENT, what, cure=cure)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            await _end(daemon)
            what = f"signal: signal-cli was not up after {seconds:g} s"
            raise DeliveryError(DeliveryFailure.TRANSIENT, what, cure="raise transport.startupTimeoutMs") from None
        except BaseException:
            await _end(daemon)
            raise
        return daemon

    async def _is_up(self) -> bool:
        with contextlib.suppress(HttpError):
            return (await exchange(self._http, "GET", f"{self._base}/api/v1/check", seconds=5))[0] == 200
        return False

    async def _identity(self) -> Identity:
        """Ask the daemon whether it serves this account. One that serves a single account has no list of them."""
        try:
            accounts = await self._call("listAccounts", {}, bare=True)
        except Unserved:
            accounts = None
        if accounts is not None and self._me.number not in {str(one.get("number")) for one in accounts}:
            what = f"signal: the daemon does not serve {self._me.number}"
            raise refused(what, "link the account: signal-cli link -n homarus, then scan the code with Signal")
        return self._who

    async def _listen(self, me: Identity) -> None:
        parser = SseParser()
        try:
            response = await self._http.request(
                "GET",
                f"{self._base}/api/v1/events?account={quote(self._me.number)}",
                headers={"accept": "text/event-stream"},
            )
            try:
                if response.status != 200:
                    raise DeliveryError(DeliveryFailure.TRANSIENT, f"signal: the daemon answers {response.status}")
                self._pauses.reset()
                self._host.connected(me)
                while True:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        chunk = await response.next()
                    if not chunk:
                        return
                    for event in parser.feed(chunk):
                        await self._take(event.data)
            finally:
                await response.close()
        except TimeoutError:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "signal: the daemon fell silent") from None
        except (HttpError, SseError) as problem:
            raise DeliveryError(DeliveryFailure.TRANSIENT, f"signal: {problem}") from None

    async def _take(self, data: bytes) -> None:
        try:
            told = msgspec.json.decode(data, type=dict[str, Any])
            envelope = (told.get("params") or told).get("envelope") or {}
            sender = self._sender(envelope)
            files = not self._settings.get("ignoreAttachments")
            said, change = (
                read.message(envelope, self._me, sender, files=files),
                read.change(envelope, self._me, sender),
            )
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as problem:
            noted(self._host, self._who, f"signal: an event was passed over ({type(problem).__name__})")
            return
        while True:
            try:
                if said is not None:
                    await self._host.receive(said)
                if change is not None:
                    await self._host.changed(change)
                break
            except (HomarusError, OSError) as problem:
                not_kept(self._host, self._who, problem)
                await self._pauses.wait()
        if said is not None and said.chat_type == "direct" and not said.from_self:
            if len(self._unread) >= PEOPLE:
                self._unread.clear()
            unread = self._unread.setdefault(said.peer, [])
            unread[:] = [*unread, said.timestamp][-UNREAD:]

    def _sender(self, envelope: dict[str, Any]) -> str:
        """Return by what a sender is known. Who hid their number keeps the one that they were known by."""
        number, uuid = envelope.get("sourceNumber"), str(envelope.get("sourceUuid") or "").lower()
        if number and uuid and self._numbers.get(uuid) != number:
            self._numbers[uuid] = str(number)
            self._note.write(self._numbers)
        return read.person(number or self._numbers.get(uuid), uuid)

    # ---- going out

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        where = read.target(message.to)
        request: dict[str, Any] = {**where, "message": piece.text}
        if piece.styles:
            request["textStyle"] = [
                f"{one.start}:{one.length}:{one.style.upper()}" for one in piece.styles if not one.url
            ]
        if piece.file:
            request["attachments"] = [await asyncio.to_thread(_as_data, piece.file)]
            request |= {"voiceNote": True} if piece.as_voice else {}
        stamp, author = read.split_id(message.reply_to)
        author = author or ("" if "groupId" in where else message.to)
        if stamp and author:
            request |= {"quoteTimestamp": stamp, "quoteAuthor": author.removeprefix("uuid:"), "quoteMessage": ""}
        await self._show_read(message.to)
        answer = await self._call("send", request, once=True)
        _check_results(answer)
        return read.message_id(answer.get("timestamp") or 0, self._me.number)

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        request: dict[str, Any] = {
            **read.target(message.to),
            "message": piece.text,
            "editTimestamp": _moment(sent),
        }
        if piece.styles:
            request["textStyle"] = [
                f"{one.start}:{one.length}:{one.style.upper()}" for one in piece.styles if not one.url
            ]
        _check_results(await self._call("send", request))

    async def delete(self, message: Outbound, sent: str) -> None:
        await self._call("remoteDelete", {**read.target(message.to), "targetTimestamp": _moment(sent)})

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        where = read.target(message.to)
        stamp, author = read.split_id(to_message)
        author = author or ("" if "groupId" in where else message.to)
        if not stamp or not author:
            raise refused("signal: nobody knows who wrote that message", "name it as <timestamp>:<author>")
        request = {
            "emoji": emoji,
            "targetAuthor": author.removeprefix("uuid:"),
            "targetTimestamp": stamp,
            "remove": not on,
        }
        await self._call("sendReaction", where | request)

    async def typing(self, message: Outbound) -> None:
        with contextlib.suppress(DeliveryError):
            await self._show_read(message.to)
            await self._call("sendTyping", read.target(message.to))

    async def _show_read(self, to: str) -> None:
        """Tell somebody that they were read, now that they are answered: a stranger who is not learns nothing."""
        stamps = self._unread.pop(to, [])
        if stamps and self._settings.get("sendReadReceipts"):
            request = {"recipient": to.removeprefix("uuid:"), "targetTimestamp": stamps, "type": "read"}
            with contextlib.suppress(DeliveryError):
                await self._call("sendReceipt", request)

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        ident, _, chat = media.ref.partition(" ")
        where = read.target(chat)
        asked = {"recipient": where["recipient"][0]} if "recipient" in where else where
        answer = await self._call("getAttachment", {"id": ident, **asked})
        text = str(answer.get("data") or "") if isinstance(answer, dict) else str(answer or "")
        for start in range(0, len(text), BLOCK):
            try:
                yield base64.b64decode(text[start : start + BLOCK], validate=True)
            except ValueError:
                raise refused("signal: the file is damaged") from None

    async def probe(self) -> Identity:
        self._check_settings()
        try:
            return await self._identity()
        finally:
            if not self._running:
                await self._http.aclose()

    async def directory(self, query: str) -> list[Identity]:
        wanted = query.strip().lower()
        found = []
        for contact in await self._call("listContacts", {}) or ():
            ident = read.person(contact.get("number"), contact.get("uuid"))
            profile = contact.get("profile") or {}
            name = str(contact.get("name") or profile.get("givenName") or "")
            found.append(Identity(ident, name, str(contact.get("username") or "")))
        for group in await self._call("listGroups", {}) or ():
            found.append(Identity(f"group:{group.get('id')}", str(group.get("name") or "")))
        return [one for one in found if wanted in one.name.lower() or wanted in one.id.lower()]

    # ---- the wire

    async def _call(self, method: str, params: dict[str, Any], *, once: bool = False, bare: bool = False) -> Any:
        """Call the daemon. `once`: it must not happen twice, so an unanswered call stays in doubt."""
        doubt = DeliveryFailure.UNKNOWN if once else DeliveryFailure.TRANSIENT
        asked = params if bare else {"account": self._me.number, **params}
        body = {"jsonrpc": "2.0", "id": next(self._calls), "method": method, "params": asked}
        # A kept connection that breaks is replaced and its request sent again; what must not happen twice gets a new one.
        http = HttpClient() if once else self._http
        try:
            kind = {"content-type": "application/json"}
            status, _, raw = await exchange(
                http, "POST", f"{self._base}/api/v1/rpc", headers=kind, body=msgspec.json.encode(body)
            )
            answer = msgspec.json.decode(raw, type=dict[str, Any]) if raw else {}
        except HttpError as problem:
            raise DeliveryError(
                DeliveryFailure.TRANSIENT if never_left(problem) else doubt, f"signal: {problem}"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise DeliveryError(doubt, f"signal: the daemon answers no JSON (HTTP {status})") from None
        finally:
            if once:
                await http.aclose()
        if (error := answer.get("error")) is None:
            if status not in {200, 201}:
                failure = DeliveryFailure.TRANSIENT if status == 503 else doubt
                raise DeliveryError(failure, f"signal: the daemon answers {status}")
            return answer.get("result")
        code, what = int(error.get("code") or 0), single_line(f"signal: {error.get('message')}")
        if code == _NO_METHOD:
            raise Unserved(DeliveryFailure.REFUSED, what)
        if code == _RATE or "RateLimit" in what:
            raise DeliveryError(
                DeliveryFailure.RATE_LIMIT, what, cure="Signal may ask for a captcha: see its set-up page"
            )
        if code == _IO:
            raise DeliveryError(doubt, what)
        raise refused(what, _CURES.get(code, ""))


def _moment(sent: str) -> int:
    if not (stamp := read.split_id(sent)[0]):
        raise refused(f"signal: '{single_line(sent, 40)}' is the id of no message")
    return stamp


class Unserved(DeliveryError):
    """The daemon does not know the method."""


def _check_results(answer: Any) -> None:
    """Raise where nobody got the message: signal-cli tells for each recipient, also inside a success."""
    results = [one for one in (answer or {}).get("results") or () if isinstance(one, dict)]
    failed = [str(one.get("type")) for one in results if one.get("type") not in {None, "SUCCESS"}]
    if not failed or len(failed) < len(results):
        return
    what = f"signal: {single_line(failed[0], 60)}"
    if failed[0] == "NETWORK_FAILURE":
        raise DeliveryError(DeliveryFailure.UNKNOWN, what)
    if failed[0] == "RATE_LIMIT_FAILURE":
        wait = next((one.get("retryAfterSeconds") for one in results if one.get("retryAfterSeconds")), None)
        raise DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=float(wait) if wait else None)
    cures = {"IDENTITY_FAILURE": _CURES[_UNTRUSTED], "UNREGISTERED_FAILURE": "that number has no Signal account"}
    raise refused(what, cures.get(failed[0], ""))


def _as_data(path: str) -> str:
    """Return a file as text, for the daemon may run where it cannot see ours."""
    file = Path(path)
    name = quote(file.name)
    return f"data:{mime_of(path)};filename={name};base64,{base64.b64encode(file.read_bytes()).decode()}"


async def _end(daemon: asyncio.subprocess.Process) -> None:
    if daemon.returncode is not None:
        return
    for way in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(daemon.pid, way)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await daemon.wait()
                return
