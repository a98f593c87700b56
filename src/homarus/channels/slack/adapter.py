"""One Slack app: events come over a socket, or in signed requests, and are acknowledged when they are safe; everything else is the Web API."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from homarus.channels.channel import Host, Identity
from homarus.channels.slack import inbound as read
from homarus.channels.support import Call, Note, Pauses, be_called, download, not_kept, noted, proxy_for
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.messages import Media, Outbound
from homarus.core.text import single_line
from homarus.delivery.place import Piece

BASE = "https://slack.com/api/"
ANSWER_SECONDS = 30
PING_SECONDS = 5.0
SIGNED_SECONDS = 300
PORT = 8789
NAMES = 2000
SECTION = 2900  # of 3,000 that a block may hold
_CURES = {
    "invalid_auth": "botToken or appToken is wrong: copy both from the app's pages",
    "not_authed": "botToken or appToken is missing",
    "account_inactive": "the app was removed from the workspace: install it again",
    "token_revoked": "install the app again, and copy the new token",
    "not_allowed_token_type": "appToken is the app-level token, xapp-…; botToken is the bot's, xoxb-…",
    "missing_scope": "add the scope on OAuth & Permissions, and install the app again",
    "not_in_channel": "invite the bot: /invite @<its name>",
    "channel_not_found": "the bot is not a member, or the id is wrong",
    "invalid_name": "Slack knows no emoji of that name",
    "is_archived": "the channel is archived",
    "msg_too_long": "lower textChunkLimit",
}
# Slack says of these that a part may have happened.
_IN_DOUBT = {"fatal_error", "internal_error", "request_timeout"}
_NOT_NOW = {"service_unavailable", "team_added_to_org"}
_DONE = {"already_reacted", "no_reaction"}


def open_channel(host: Host) -> Slack:
    return Slack(host)


class Slack:
    def __init__(
        self, host: Host, pauses: Pauses | None = None, base: str = BASE, ping_seconds: float = PING_SECONDS
    ) -> None:
        self._host = host
        self._settings = host.settings
        self._pauses = pauses or Pauses()
        self._base = base
        self._ping_seconds = ping_seconds
        self._web: Any = None
        self._socket: Any = None
        self._me, self._who = read.Bot(""), Identity("")
        self._names: dict[str, str] = {}
        self._sent_by_people: dict[str, str] = {}
        self._waiting: asyncio.Queue[Any] = asyncio.Queue()
        # The direct chat with each person who wrote: their id is what the program knows them by.
        self._notes = Note(host.folder, "chats.json")
        held = self._notes.read().get("direct")
        self._chats = {str(user): str(chat) for user, chat in held.items()} if isinstance(held, dict) else {}

    # ---- coming in

    async def run(self) -> None:
        worker = asyncio.ensure_future(self._work())
        self._web = self._client()
        try:
            while True:
                try:
                    await (self._serve() if self._settings.get("mode") == "http" else self._connection())
                except DeliveryError as problem:
                    if problem.kind is DeliveryFailure.REFUSED:
                        raise ChannelError(problem.message, fatal=True, cure=problem.cure) from None
                    self._host.troubled(problem.message, cure=problem.cure)
                    await self._pauses.wait(problem.retry_after or 0.0)
        finally:
            self._web = None
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    async def _connection(self) -> None:
        """Be connected until the socket is lost. Slack itself asks for a new one now and then, which the library does."""
        from slack_sdk.socket_mode.aiohttp import SocketModeClient

        me = await self._identity()
        socket = SocketModeClient(
            str(self._settings.get("appToken") or ""),
            web_client=self._web,
            proxy=proxy_for(self._base, self._settings),
            auto_reconnect_enabled=False,
            ping_interval=self._ping_seconds,
        )
        socket.socket_mode_request_listeners.append(self._heard)
        self._socket = socket
        try:
            with self._explained():
                # Asked for here, because the library would ask for ever with a wrong token.
                socket.wss_uri = await socket.issue_new_wss_url()
                async with asyncio.timeout(ANSWER_SECONDS):
                    await socket.connect()
            self._pauses.reset()
            self._host.connected(me)
            while await socket.is_connected():  # noqa: ASYNC110 - the library tells nobody
                await asyncio.sleep(self._ping_seconds / 5)
        finally:
            self._socket = None
            await socket.close()
        raise DeliveryError(DeliveryFailure.TRANSIENT, "slack: the connection was lost, a new one is made")

    async def _serve(self) -> None:
        me = await self._identity()
        self._pauses.reset()
        self._host.connected(me)
        path = str(self._settings.get("webhookPath") or "/slack/events")
        await be_called(self._host, PORT, path, self.called)

    async def called(self, call: Call) -> tuple[int, bytes]:
        """Take a request of Slack. Each is signed, and one that is older than five minutes is somebody's copy."""
        if call.method != "POST" or not signed(str(self._settings.get("signingSecret") or ""), call, time.time()):
            return 401, b""
        try:
            kind, payload = opened(call)
        except (ValueError, msgspec.DecodeError):
            return 400, b""
        if kind == "url_verification":
            return 200, str(payload.get("challenge") or "").encode()
        try:
            answer = await self._take(kind, payload, hashlib.sha256(call.body).hexdigest()[:32])
        except (HomarusError, OSError) as problem:
            not_kept(self._host, self._who, problem)
            return 503, b""  # Slack delivers it again
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            noted(self._host, self._who, f"slack: an event was passed over ({type(problem).__name__})")
            answer = None
        return 200, msgspec.json.encode(answer) if answer else b""

    async def _identity(self) -> Identity:
        said = await self._ask("auth_test")
        self._me = read.Bot(
            str(said["user_id"]), str(said.get("bot_id") or ""), str(said.get("team_id") or ""), self._host.account
        )
        self._who = Identity(self._me.user, str(said.get("user") or ""), str(said.get("user") or ""))
        return self._who

    async def _heard(self, socket: Any, request: Any) -> None:
        self._waiting.put_nowait((socket, request))  # at once, so that the order is kept

    async def _work(self) -> None:
        while True:
            socket, request = await self._waiting.get()
            try:
                answer = await self._take(str(request.type), request.payload or {}, str(request.envelope_id))
            except (HomarusError, OSError) as problem:
                # Without an answer Slack delivers it again.
                not_kept(self._host, self._who, problem)
                continue
            except (KeyError, TypeError, ValueError, AttributeError) as problem:
                noted(self._host, self._who, f"slack: an event was passed over ({type(problem).__name__})")
                answer = None
            from slack_sdk.socket_mode.response import SocketModeResponse

            with contextlib.suppress(Exception):  # a lost socket; it will be delivered again, and known
                await socket.send_socket_mode_response(SocketModeResponse(request.envelope_id, answer))

    async def _take(self, kind: str, payload: Mapping[str, Any], envelope: str) -> dict[str, Any] | None:
        """Take one envelope in, and return what its sender sees at once, if anything."""
        if kind == "slash_commands":
            return await self._slash(payload, envelope)
        if kind == "interactive":
            for action in payload.get("actions") or ():
                command = str(action.get("value") or "")
                stamp = str(action.get("action_ts") or envelope)
                await self._receive(read.called(payload, self._me, command, f"tap-{stamp}"), payload)
            return None
        event = payload.get("event") or {}
        if kind != "events_api" or not event:
            return None
        event = {"team": payload.get("team_id"), **event}
        if self._repeated(event):
            return None
        if event["type"] in {"message", "app_mention"}:
            await self._learn_names(read.people_in(event))
            if (said := read.message(event, self._me, self._names)) is not None:
                await self._receive(said, event)
        if (change := read.change(event, self._me)) is not None:
            await self._host.changed(change)
        return None

    def _repeated(self, event: Mapping[str, Any]) -> bool:
        """Say whether a person's program sent the same message twice: Slack then shows two, with one id of that program."""
        ident = str(event.get("client_msg_id") or "")
        if event["type"] != "message" or not ident:
            return False
        first = self._sent_by_people.setdefault(ident, str(event.get("ts")))
        if len(self._sent_by_people) > NAMES:
            self._sent_by_people.pop(next(iter(self._sent_by_people)))
        return first != str(event.get("ts"))

    async def _slash(self, payload: Mapping[str, Any], envelope: str) -> dict[str, Any] | None:
        options = dict(self._settings.get("slashCommand") or {})
        if options.get("enabled", True) is False:
            return {"response_type": "ephemeral", "text": "Slash commands are turned off here."}
        name, text = str(payload.get("command") or "").lstrip("/"), str(payload.get("text") or "").strip()
        own = str(options.get("name") or "openclaw").lstrip("/")
        command = f"/{text.lstrip('/') or 'help'}" if name == own else f"/{name} {text}".strip()
        stamp = str(payload.get("trigger_id") or envelope)
        await self._receive(read.called(payload, self._me, command, f"call-{stamp}"), payload)
        return {"response_type": "ephemeral" if options.get("ephemeral", True) else "in_channel", "text": "✓"}

    async def _receive(self, said: Any, source: Mapping[str, Any]) -> None:
        chat = source.get("channel_id") or source.get("channel")
        chat = str(chat.get("id") if isinstance(chat, Mapping) else chat or "")
        if said.chat_type == "direct" and not said.from_bot and self._chats.get(said.sender) != chat:
            self._chats[said.sender] = chat
            self._notes.write({"direct": self._chats})
        await self._host.receive(said)

    async def _learn_names(self, people: set[str]) -> None:
        for person in people - self._names.keys():
            if len(self._names) >= NAMES:
                self._names.clear()
            try:
                user = (await self._ask("users_info", user=person))["user"]
                profile = user.get("profile") or {}
                self._names[person] = str(
                    profile.get("display_name") or user.get("real_name") or user.get("name") or ""
                )
            except DeliveryError as problem:  # without the right to ask, people are called by their ids
                if problem.kind is DeliveryFailure.REFUSED:
                    self._names[person] = ""

    # ---- going out

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        chat = await self._chat(message.to)
        thread = message.thread or message.reply_to or None
        if piece.file:
            sent = await self._ask(
                "files_upload_v2",
                once=True,
                channel=chat,
                file=piece.file,
                filename=Path(piece.file).name,
                initial_comment=piece.text or None,
                thread_ts=thread,
            )
            return str((sent.get("files") or [{}])[0].get("id") or "")
        sent = await self._ask(
            "chat_postMessage",
            once=True,
            channel=chat,
            thread_ts=thread,
            unfurl_links=bool(self._settings.get("unfurlLinks")),
            unfurl_media=bool(self._settings.get("unfurlMedia")),
            **_body(piece),
        )
        return str(sent["ts"])

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        await self._ask("chat_update", channel=await self._chat(message.to), ts=sent, **_body(piece, edit=True))

    async def delete(self, message: Outbound, sent: str) -> None:
        if sent.startswith("F"):
            await self._ask("files_delete", file=sent)
        else:
            await self._ask("chat_delete", channel=await self._chat(message.to), ts=sent)

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        method, name = "reactions_add" if on else "reactions_remove", read.emoji_name(emoji)
        await self._ask(method, channel=await self._chat(message.to), timestamp=to_message, name=name)

    async def typing(self, message: Outbound) -> None:
        """Slack lets no bot show that it is writing."""

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        place, own = urlsplit(media.ref), urlsplit(self._base)
        name = place.hostname or ""
        if not (place.scheme == "https" and (name == "slack.com" or name.endswith(".slack.com"))) and (
            (place.scheme, place.netloc) != (own.scheme, own.netloc)
        ):
            # The token goes along, so it goes to Slack only.
            raise DeliveryError(DeliveryFailure.REFUSED, "slack: the file lies outside of Slack")
        bearer = {"authorization": f"Bearer {self._settings.get('botToken') or ''}"}
        page, cure = media.mime_type == "text/html", "the bot needs the scope files:read"
        async for chunk in download(media.ref, "slack", headers=bearer, cure=cure, page=page):
            yield chunk

    async def probe(self) -> Identity:
        running = self._web
        self._web = running or self._client()
        try:
            return await self._identity()
        finally:
            self._web = running

    async def directory(self, query: str) -> list[Identity]:
        wanted = query.strip().lstrip("#@").lower()
        found = []
        chats = await self._ask(
            "conversations_list", limit=200, exclude_archived=True, types="public_channel,private_channel"
        )
        for chat in chats.get("channels") or ():
            if wanted in str(chat.get("name")).lower():
                found.append(Identity(str(chat["id"]), f"#{chat.get('name')}"))
        for user in (await self._ask("users_list", limit=200)).get("members") or ():
            name, real = str(user.get("name") or ""), str(user.get("real_name") or "")
            if not user.get("deleted") and (wanted in name.lower() or wanted in real.lower()):
                found.append(Identity(str(user["id"]), real or name, name))
        return found

    # ---- the wire

    def _client(self) -> Any:
        from slack_sdk.web.async_client import AsyncWebClient

        token, mode = str(self._settings.get("botToken") or ""), self._settings.get("mode") or "socket"
        if mode not in {"socket", "http"}:
            raise ChannelError("slack: mode is neither 'socket' nor 'http'", fatal=True)
        if mode == "http" and not self._settings.get("signingSecret"):
            cure = "copy the app's Signing Secret from Basic Information"
            raise ChannelError("slack: mode http needs signingSecret", fatal=True, cure=cure)
        if not token or (mode == "socket" and not self._settings.get("appToken")):
            cure = "set botToken (xoxb-…) and appToken (xapp-…), or SLACK_BOT_TOKEN and SLACK_APP_TOKEN"
            raise ChannelError(f"slack: account '{self._host.account}' has no tokens", fatal=True, cure=cure)
        # When something is sent again is decided outside.
        return AsyncWebClient(
            token,
            base_url=self._base,
            timeout=ANSWER_SECONDS,
            proxy=proxy_for(self._base, self._settings),
            retry_handlers=[],
        )

    async def _ask(self, method: str, *, once: bool = False, **options: Any) -> Any:
        if self._web is None:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "slack: not connected")
        given = {name: value for name, value in options.items() if value is not None}
        with self._explained(once=once):
            return (await getattr(self._web, method)(**given)).data

    async def _chat(self, to: str) -> str:
        """Return the channel behind a target: an id of a channel, or of a person, whose direct chat is opened."""
        bare = to.rpartition(":")[2]
        if not bare.startswith(("U", "W")):
            return bare
        if bare not in self._chats:
            opened = await self._ask("conversations_open", users=bare)
            self._chats[bare] = str(opened["channel"]["id"])
            self._notes.write({"direct": self._chats})
        return self._chats[bare]

    @contextlib.contextmanager
    def _explained(self, *, once: bool = False) -> Iterator[None]:
        from aiohttp import ClientError
        from slack_sdk.errors import SlackClientError

        try:
            yield
        except (SlackClientError, ClientError, TimeoutError) as problem:
            if (explained := _explain(problem, once=once)) is not None:
                raise explained from None


def signed(secret: str, call: Call, now: float) -> bool:
    """Say whether Slack signed a request, and lately."""
    stamp = call.headers.get("x-slack-request-timestamp", "")
    if not stamp.isdigit() or abs(now - int(stamp)) > SIGNED_SECONDS:
        return False
    ours = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + call.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={ours}".encode(), call.headers.get("x-slack-signature", "").encode())


def opened(call: Call) -> tuple[str, dict[str, Any]]:
    """Return what a request is, by the names of Socket Mode, and what it holds."""
    if "json" in call.headers.get("content-type", ""):
        payload = msgspec.json.decode(call.body, type=dict[str, Any])
        return ("url_verification" if payload.get("type") == "url_verification" else "events_api"), payload
    form = {name: values[-1] for name, values in parse_qs(call.body.decode(), keep_blank_values=True).items()}
    if "payload" in form:
        return "interactive", msgspec.json.decode(form["payload"], type=dict[str, Any])
    return "slash_commands", dict(form)


def _explain(problem: Exception, *, once: bool) -> DeliveryError | None:
    """Say what a failure means; nothing where what was asked for is so already."""
    from aiohttp import ClientConnectorError, ConnectionTimeoutError
    from slack_sdk.errors import SlackApiError

    doubt = DeliveryFailure.UNKNOWN if once else DeliveryFailure.TRANSIENT
    if isinstance(problem, ClientConnectorError | ConnectionTimeoutError):
        return DeliveryError(DeliveryFailure.TRANSIENT, "slack: no connection")
    response = getattr(problem, "response", None)
    if not isinstance(problem, SlackApiError) or response is None:
        what = f"slack: {single_line(str(problem)) or type(problem).__name__}"
        return DeliveryError(doubt, f"{what} (it may have arrived)" if once else what)
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)
    data = getattr(response, "data", None)
    code = str(data.get("error") or "") if isinstance(data, dict) else ""
    what = f"slack: {single_line(code, 80) or f'HTTP {status}'}"
    if status == 429 or code in {"ratelimited", "rate_limited"}:
        wait = str(response.headers.get("Retry-After", ""))
        return DeliveryError(DeliveryFailure.RATE_LIMIT, what, retry_after=float(wait) if wait.isdigit() else None)
    if code in _DONE:
        return None
    if status == 503 or code in _NOT_NOW:
        return DeliveryError(DeliveryFailure.TRANSIENT, what)
    if code in _IN_DOUBT or not code:
        return DeliveryError(doubt, f"{what} (it may have arrived)" if once else what)
    if code == "invalid_blocks":
        return DeliveryError(DeliveryFailure.MARKUP, what)
    if code == "missing_scope" and isinstance(data, dict):
        what += f" ({single_line(str(data.get('needed')), 80)})"
    return DeliveryError(DeliveryFailure.REFUSED, what, cure=_CURES.get(code, ""))


def _body(piece: Piece, *, edit: bool = False) -> dict[str, Any]:
    marked = piece.text != piece.plain
    body: dict[str, Any] = {"text": piece.text}
    if not edit:
        body["mrkdwn"] = marked
    if not piece.buttons:
        return body | ({"blocks": []} if edit else {})
    kind = "mrkdwn" if marked else "plain_text"
    cut = [piece.text[start : start + SECTION] for start in range(0, len(piece.text), SECTION)]
    blocks: list[dict[str, Any]] = [{"type": "section", "text": {"type": kind, "text": part}} for part in cut]
    for row in piece.buttons:
        elements = [
            {"type": "button", "text": {"type": "plain_text", "text": one.label[:75]}, "value": one.value[:2000], "action_id": f"b{at}"}
            for at, one in enumerate(row[:25])
        ]  # fmt: skip
        blocks.append({"type": "actions", "elements": elements})
    return body | {"blocks": blocks}
