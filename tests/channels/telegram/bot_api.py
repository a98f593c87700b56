"""A Bot API server on loopback: updates with their offsets, long polling, files, limits and refusals as Telegram words them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

from aiohttp import web

TOKEN = "4242:AAfakefakefakefakefakefakefakefakefake"
ME = {"id": 4242, "is_bot": True, "first_name": "Lobster", "username": "LobsterBot", "can_join_groups": True,
      "can_read_all_group_messages": False, "supports_inline_queries": False}  # fmt: skip
ALICE = {"id": 11, "is_bot": False, "first_name": "Alice", "last_name": "A", "username": "alice"}
DM = {"id": 11, "type": "private", "first_name": "Alice"}
GROUP = {"id": -200, "type": "group", "title": "Club"}
FORUM = {"id": -100300, "type": "supergroup", "title": "Forum", "is_forum": True}
_TAGS = {"b", "strong", "i", "em", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler"}
_REACTIONS = {"👍", "👀", "❤", "🔥"}


class Refuse(Exception):
    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        self.status = status
        self.body = {"ok": False, "error_code": status, "description": description}
        if parameters:
            self.body["parameters"] = parameters


class _Html(HTMLParser):
    """Refuses what Telegram's parser refuses: unknown tags, and tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in _TAGS:
            raise Refuse(400, f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}" at byte offset 0')
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise Refuse(400, "Bad Request: can't parse entities: Unmatched end tag at byte offset 0")


class BotApi:
    def __init__(self) -> None:
        self.me = dict(ME)
        self.pending: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.messages: dict[tuple[str, int], dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.webhook: dict[str, Any] = {}
        # What the next calls of a method meet: a refusal, "drop" (done, but the answer is lost) or "html" (a proxy's page).
        self.next: dict[str, list[Any]] = {}
        self.base, self.local = "", ""  # local: where a server of one's own keeps its files
        self.polling: Any = None
        self._update_ids = itertools.count(1000)
        self._message_ids = itertools.count(1)
        self._polls = 0
        self._news = asyncio.Event()

    # ---- what people do

    def say(self, text: str = "", chat: dict[str, Any] = DM, **more: Any) -> int:
        message = {"message_id": next(self._message_ids), "date": 1_790_000_000, "chat": chat, "from": ALICE}
        message |= {"text": text} if text else {}
        message |= more
        return self.update(message=message)

    def update(self, **update: Any) -> int:
        number = next(self._update_ids)
        self.pending.append({"update_id": number, **update})
        self._news.set()
        return number

    # ---- what the bot asks

    async def _call(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != TOKEN:
            return web.json_response({"ok": False, "error_code": 401, "description": "Unauthorized"}, status=401)
        form: dict[str, Any] = {}
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                form[name] = value.file.read()
                continue
            with contextlib.suppress(ValueError):
                value = json.loads(value) if name not in {"text", "caption", "chat_id"} else value
            form[name] = value
        method = request.match_info["method"]
        self.calls.append((method, form))
        if method == "getUpdates":
            self.polling = request.transport
        planned = self.next.get(method) or []
        plan = planned.pop(0) if planned else None
        try:
            if isinstance(plan, Refuse):
                raise plan
            if plan == "html":
                return web.Response(text="<html>Bad gateway</html>", status=502, content_type="text/html")
            answer = getattr(self, method, None)
            result = await answer(form) if answer else True
        except Refuse as refusal:
            return web.json_response(refusal.body, status=refusal.status)
        if plan == "drop":
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ok": True, "result": result})

    async def getMe(self, form: dict[str, Any]) -> Any:
        return self.me

    async def setWebhook(self, form: dict[str, Any]) -> bool:
        self.webhook = form
        return True

    async def deleteWebhook(self, form: dict[str, Any]) -> bool:
        self.webhook = {}
        return True

    async def getUpdates(self, form: dict[str, Any]) -> Any:
        if self.webhook:
            raise Refuse(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook")
        self._polls += 1
        mine = self._polls
        self._news.set()
        offset = int(form.get("offset", 0))
        self.pending = [update for update in self.pending if update["update_id"] >= offset]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(float(form.get("timeout", 0))):
                while not self.pending:
                    self._news.clear()
                    await self._news.wait()
                    if mine != self._polls:
                        raise Refuse(
                            409,
                            "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                        )
        return self.pending[: int(form.get("limit", 100))]

    def _post(self, form: dict[str, Any], text: str, most: int) -> dict[str, Any]:
        chat = form["chat_id"]
        if chat == "404":
            raise Refuse(400, "Bad Request: chat not found")
        if chat == "-200" and "moved" in self.next:
            raise Refuse(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-100200)
        if form.get("message_thread_id") == 1:
            raise Refuse(400, "Bad Request: message thread not found")
        if form.get("parse_mode") == "HTML":
            parser = _Html()
            parser.feed(text)
            if parser.open:
                raise Refuse(
                    400,
                    f"Bad Request: can't parse entities: Can't find end tag corresponding to start tag {parser.open[-1]}",
                )
        if len(text.encode("utf-16-le")) // 2 > most:
            raise Refuse(400, "Bad Request: message is too long")
        for row in (form.get("reply_markup") or {}).get("inline_keyboard", []):
            for button in row:
                if len(button.get("callback_data", "").encode()) > 64:
                    raise Refuse(400, "Bad Request: BUTTON_DATA_INVALID")
        number = next(self._message_ids)
        self.messages[chat, number] = {**form, "shown": text}
        kind = "private" if not chat.startswith("-") else "supergroup"
        return {"message_id": number, "date": 1_790_000_000, "chat": {"id": int(chat), "type": kind}, "from": self.me}

    async def sendMessage(self, form: dict[str, Any]) -> Any:
        return {**self._post(form, form["text"], 4096), "text": form["text"]}

    async def sendDocument(self, form: dict[str, Any]) -> Any:
        return self._post(form, form.get("caption", ""), 1024)

    sendPhoto = sendVoice = sendVideo = sendAudio = sendAnimation = sendDocument  # noqa: N815

    async def editMessageText(self, form: dict[str, Any]) -> Any:
        old = self.messages[form["chat_id"], form["message_id"]]
        if old["shown"] == form["text"]:
            raise Refuse(400, "Bad Request: message is not modified: specified new message content is the same")
        old["shown"] = form["text"]
        return True

    async def deleteMessage(self, form: dict[str, Any]) -> Any:
        del self.messages[form["chat_id"], form["message_id"]]
        return True

    async def setMessageReaction(self, form: dict[str, Any]) -> Any:
        for reaction in form.get("reaction") or []:
            if reaction["emoji"] not in _REACTIONS:
                raise Refuse(400, "Bad Request: REACTION_INVALID")
        return True

    async def getFile(self, form: dict[str, Any]) -> Any:
        if form["file_id"] == "huge":
            raise Refuse(400, "Bad Request: file is too big")
        folder = self.local or "photos"
        return {"file_id": form["file_id"], "file_unique_id": "u", "file_path": f"{folder}/{form['file_id']}.jpg"}

    async def sendPoll(self, form: dict[str, Any]) -> Any:
        options = [
            {"text": row["text"], "voter_count": 0, "persistent_id": str(n)} for n, row in enumerate(form["options"])
        ]
        poll = {"id": "1", "question": form["question"], "options": options, "total_voter_count": 0, "is_closed": False,
                "is_anonymous": False, "type": "regular", "allows_multiple_answers": False, "allows_revoting": True, "members_only": False}  # fmt: skip
        return {**self._post(form, form["question"], 300), "poll": poll}

    async def getChat(self, form: dict[str, Any]) -> Any:
        if form["chat_id"] != "@alice":
            raise Refuse(400, "Bad Request: chat not found")
        return {**DM, "username": "alice", "accent_color_id": 1, "max_reaction_count": 11, "accepted_gift_types": {
            "unlimited_gifts": True, "limited_gifts": True, "unique_gifts": True, "premium_subscription": True,
            "gifts_from_channels": True}}  # fmt: skip

    async def _file(self, request: web.Request) -> web.Response:
        held = self.files.get(request.match_info["path"])
        return web.Response(body=held) if held is not None else web.Response(status=404)

    def shown(self, chat: str) -> list[str]:
        return [held["shown"] for (to, _), held in self.messages.items() if to == chat]

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [form for name, form in self.calls if name == method]


@contextlib.asynccontextmanager
async def serving(host: str = "127.0.0.1") -> AsyncIterator[BotApi]:
    api = BotApi()
    app = web.Application()
    app.router.add_post("/bot{token}/{method}", api._call)
    app.router.add_get("/file/bot{token}/{path:.*}", api._file)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    api.base = f"http://{host}:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()
