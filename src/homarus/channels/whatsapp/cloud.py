"""A business number at Meta's Cloud API: it calls a local port of ours, signed, and is asked over HTTPS."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from homarus.channels.channel import Change, Host, Identity
from homarus.channels.support import (
    Call,
    Pauses,
    be_called,
    download,
    exchange,
    mime_of,
    never_left,
    proxy_for,
    refused,
)
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Inbound, Media, Outbound, Quote
from homarus.core.text import single_line
from homarus.delivery.place import Piece
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError
from homarus.net.proxy import Proxies, proxies_from

API = "https://graph.facebook.com/v23.0"
PEOPLE = 1000
BUTTONS, LABEL, VALUE, BODY = 3, 20, 256, 1024  # what a message with buttons may hold
_FILES = (".fbsbx.com", ".fbcdn.net", ".whatsapp.net", ".facebook.com")
_RATE = {4, 80007, 130429, 131048, 131056, 133016}
_NOT_NOW = {2, 131016}
_IN_DOUBT = {1, 131000}
_CURES = {
    190: "accessToken is wrong or has expired: make a permanent one for a system user",
    10: "give the token whatsapp_business_messaging",
    200: "give the token whatsapp_business_messaging",
    100: "check phoneNumberId; a message may be too long",
    131026: "that number has no WhatsApp, or has not accepted its terms",
    131030: "a test number writes only to numbers on its list",
    131047: "more than a day since they wrote: WhatsApp lets a business send templates only",
}


class Cloud:
    def __init__(self, host: Host, pauses: Pauses | None = None) -> None:
        self._host = host
        self._settings = host.settings
        self._pauses = pauses or Pauses()
        self.port = 0  # on which Meta calls us
        self._base = str(host.settings.get("apiRoot") or API).rstrip("/")
        self._number = str(host.settings.get("phoneNumberId") or "")
        # The last message of each person: showing that one writes hangs on it.
        self._last: dict[str, str] = {}

    # ---- coming in

    async def run(self) -> None:
        for key in ("accessToken", "appSecret", "verifyToken"):
            if not self._settings.get(key):
                cure = f"set channels.whatsapp.{key}: docs/channels/whatsapp.md says where it comes from"
                raise ChannelError(f"whatsapp: the Cloud API needs {key}", fatal=True, cure=cure)
        while True:
            try:
                me = await self.probe()
                break
            except DeliveryError as problem:
                if problem.kind is DeliveryFailure.REFUSED:
                    raise ChannelError(problem.message, fatal=True, cure=problem.cure) from None
                self._host.troubled(problem.message, cure=problem.cure)
                await self._pauses.wait(problem.retry_after or 0.0)
        self._host.connected(me)
        path = str(self._settings.get("webhookPath") or "/whatsapp-webhook")
        await be_called(self._host, 8788, path, self._called, told=self._listens)

    def _listens(self, port: int) -> None:
        self.port = port

    async def _called(self, call: Call) -> tuple[int, bytes]:
        if call.method == "GET":
            asked = {name: values[0] for name, values in parse_qs(call.query).items()}
            wanted = str(self._settings["verifyToken"])
            right = hmac.compare_digest(asked.get("hub.verify_token", "").encode(), wanted.encode())
            return (200, asked.get("hub.challenge", "")[:200].encode()) if right else (403, b"")
        key = str(self._settings["appSecret"]).encode()
        signed = "sha256=" + hmac.new(key, call.body, hashlib.sha256).hexdigest()
        given = call.headers.get("x-hub-signature-256", "")
        if call.method != "POST" or not hmac.compare_digest(given.encode(), signed.encode()):
            return 401, b""
        try:
            told = list(_told(msgspec.json.decode(call.body), self._number, self._host.account))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
            return 400, b""
        for one in told:
            if isinstance(one, Inbound):
                if len(self._last) >= PEOPLE:
                    self._last.clear()
                self._last[one.peer] = one.id
                await self._host.receive(one)
            else:
                await self._host.changed(one)
        return 200, b""

    # ---- going out

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        body: dict[str, Any] = {"type": "text", "text": {"body": piece.text, "preview_url": False}}
        if piece.file:
            body = await self._file(piece)
        elif piece.buttons:
            body = _tappable(piece) or body
        if message.reply_to:
            body["context"] = {"message_id": message.reply_to}
        answer = await self._message(message, body, once=True)
        return str((answer.get("messages") or [{}])[0].get("id") or "")

    async def _file(self, piece: Piece) -> dict[str, Any]:
        mime, path = mime_of(piece.file), Path(piece.file)
        data = await asyncio.to_thread(path.read_bytes)
        mark = secrets.token_hex(16)
        parts = [("messaging_product", "whatsapp"), ("type", mime)]
        name = path.name.replace('"', "'").replace("\r", " ").replace("\n", " ")
        form = "".join(
            f'--{mark}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in parts
        )
        form += f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {mime}\r\n\r\n'
        body = form.encode() + data + f"\r\n--{mark}--\r\n".encode()
        answer = await self._ask("POST", f"/{self._number}/media", body, f"multipart/form-data; boundary={mark}")
        first = mime.partition("/")[0]
        kind = first if first in {"image", "video", "audio"} and mime != "image/gif" else "document"
        held: dict[str, Any] = {"id": answer["id"]}
        if piece.text and kind != "audio":
            held["caption"] = piece.text
        if kind == "audio" and piece.as_voice and mime == "audio/ogg":
            held["voice"] = True
        if kind == "document":
            held["filename"] = path.name
        return {"type": kind, kind: held}

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        raise refused("whatsapp: the Cloud API edits no messages", "send another one")

    async def delete(self, message: Outbound, sent: str) -> None:
        raise refused("whatsapp: the Cloud API takes no messages back")

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        held = {"message_id": to_message, "emoji": emoji if on else ""}
        await self._message(message, {"type": "reaction", "reaction": held})

    async def typing(self, message: Outbound) -> None:
        last = self._last.get(message.to)
        if last is None or not self._settings.get("sendReadReceipts", True):
            return  # the sign that one writes is part of the one that it was read
        body = {
            "messaging_product": "whatsapp",
            "status": "read",
            "message_id": last,
            "typing_indicator": {"type": "text"},
        }
        with contextlib.suppress(DeliveryError):
            await self._ask("POST", f"/{self._number}/messages", msgspec.json.encode(body))

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        url = str((await self._ask("GET", f"/{media.ref}")).get("url") or "")
        place, own = urlsplit(url), urlsplit(self._base)
        inside = place.scheme == "https" and f".{place.hostname}".endswith(_FILES)
        if not inside and (place.scheme, place.netloc) != (own.scheme, own.netloc):
            raise refused("whatsapp: the file lies outside of WhatsApp")  # the token goes along
        late = "links expire after minutes"
        async for chunk in download(url, "whatsapp", headers=self._headers(), cure=late, http=self._http()):
            yield chunk

    async def probe(self) -> Identity:
        said = await self._ask("GET", f"/{self._number}?fields=display_phone_number,verified_name")
        digits = "".join(filter(str.isdigit, str(said.get("display_phone_number") or "")))
        return Identity(f"+{digits}" if digits else self._number, str(said.get("verified_name") or ""))

    async def directory(self, query: str) -> list[Identity]:
        """The Cloud API tells no list of people."""
        return []

    # ---- the wire

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._settings.get('accessToken') or ''}"}

    def _http(self) -> HttpClient:
        """Return a client of its own for each request: a kept connection that breaks would send a message twice."""
        proxy = proxy_for(self._base, self._settings)
        return HttpClient(proxies=proxies_from({"HTTPS_PROXY": proxy}) if proxy else Proxies())

    async def _message(self, message: Outbound, body: dict[str, Any], *, once: bool = False) -> Any:
        to = message.to.removeprefix("whatsapp:").removeprefix("user:").lstrip("+")
        if not to.isdigit():
            raise refused(f"whatsapp: '{single_line(message.to, 60)}' is nobody", "name a number, as +15551234567")
        body = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": to, **body}
        return await self._ask("POST", f"/{self._number}/messages", msgspec.json.encode(body), once=once)

    async def _ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json", *, once: bool = False
    ) -> Any:
        doubt = DeliveryFailure.UNKNOWN if once else DeliveryFailure.TRANSIENT
        headers = self._headers() | ({"content-type": kind} if body else {})
        http = self._http()
        try:
            status, head, raw = await exchange(http, method, self._base + path, headers=headers, body=body)
            answer = msgspec.json.decode(raw, type=dict[str, Any])
        except HttpError as problem:
            raise DeliveryError(
                DeliveryFailure.TRANSIENT if never_left(problem) else doubt, f"whatsapp: {problem}"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            failure = DeliveryFailure.TRANSIENT if status == 503 else doubt
            raise DeliveryError(failure, f"whatsapp: an answer that is none (HTTP {status})") from None
        finally:
            await http.aclose()
        if (error := answer.get("error")) is None and status < 400:
            return answer
        raise _explained(status, head, error or {}, doubt)


def _tappable(piece: Piece) -> dict[str, Any] | None:
    """Return a text with buttons; none where WhatsApp has no room for it: the words tell what to type."""
    buttons = [one for row in piece.buttons for one in row]
    fits = all(len(one.label) <= LABEL and len(one.value) <= VALUE for one in buttons)
    if len(buttons) > BUTTONS or not fits or len(piece.text) > BODY:
        return None
    taps = [{"type": "reply", "reply": {"id": one.value, "title": one.label}} for one in buttons]
    return {
        "type": "interactive",
        "interactive": {"type": "button", "body": {"text": piece.text}, "action": {"buttons": taps}},
    }


def _explained(status: int, head: Mapping[str, str], error: Mapping[str, Any], doubt: DeliveryFailure) -> DeliveryError:
    code = int(error.get("code") or 0)
    details = (error.get("error_data") or {}).get("details") or error.get("message") or f"HTTP {status}"
    what = f"whatsapp: {single_line(str(details))} ({code})"
    if status == 429 or code in _RATE:
        wait = head.get("retry-after", "")
        return DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=float(wait) if wait.isdigit() else None)
    if code in _NOT_NOW or status == 503:
        return DeliveryError(DeliveryFailure.TRANSIENT, what)
    if code in _IN_DOUBT or status >= 500:
        return DeliveryError(doubt, what)
    return refused(what, _CURES.get(code, ""))


def _told(document: Any, number: str, account: str) -> Iterator[Inbound | Change]:
    """Yield what a call of the webhook tells of our number; it may tell of others, and of messages that arrived."""
    for entry in document.get("entry") or ():
        for changed in entry.get("changes") or ():
            value = changed.get("value") or {}
            if changed.get("field") != "messages" or (value.get("metadata") or {}).get("phone_number_id") != number:
                continue
            names = {
                str(one.get("wa_id")): str((one.get("profile") or {}).get("name") or "")
                for one in value.get("contacts") or ()
            }
            for message in value.get("messages") or ():
                told = _one(message, names, account)
                if told is not None:
                    yield told


def _one(message: Mapping[str, Any], names: Mapping[str, str], account: str) -> Inbound | Change | None:
    kind, sender = str(message.get("type")), f"+{message['from']}"
    about: dict[str, Any] = {"channel": "whatsapp", "account": account, "peer": sender, "sender": sender}
    held = message.get(kind) or {}
    if kind == "reaction":
        emoji = str(held.get("emoji") or "")
        return Change("reacted" if emoji else "unreacted", message_id=str(held["message_id"]), text=emoji, **about)
    text, command = "", ""
    if kind == "text":
        text = str(held.get("body") or "")
    elif kind == "location":
        text = f"[location: {held.get('latitude')}, {held.get('longitude')} {held.get('name') or ''}".rstrip() + "]"
    elif kind == "contacts":
        text = "\n".join(f"[contact: {(one.get('name') or {}).get('formatted_name')}]" for one in held)
    elif kind == "button":
        text = command = str(held.get("payload") or held.get("text") or "")
    elif kind == "interactive":
        text = command = str((held.get("button_reply") or held.get("list_reply") or {}).get("id") or "")
    media: tuple[Media, ...] = ()
    if kind in {"image", "audio", "video", "document", "sticker"} and held.get("id"):
        kinds: Any = {"document": "file", "sticker": "image"}.get(kind, "voice" if held.get("voice") else kind)
        mime = str(held.get("mime_type") or "").partition(";")[0]
        text = str(held.get("caption") or "")
        media = (Media(kinds, mime, str(held.get("filename") or ""), 0, str(held["id"])),)
    context = message.get("context") or {}
    if not text and not media:
        return None
    quote = None
    if context.get("id"):
        # The number is a business's: whatever did not come from this person came from us.
        author = f"+{context.get('from')}" if context.get("from") else ""
        quote = Quote(str(context["id"]), sender=author, ours=author != sender)
    return Inbound(
        id=str(message["id"]),
        text=text,
        command=command,
        sender_name=names.get(str(message["from"]), ""),
        timestamp=int(message.get("timestamp") or 0) * 1000,
        forwarded=bool(context.get("forwarded") or context.get("frequently_forwarded")),
        quote=quote,
        reply_to=quote.id if quote else "",
        media=media,
        **about,
    )
