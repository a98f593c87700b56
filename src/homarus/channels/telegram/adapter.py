"""One bot: it asks Telegram for updates, or is called by it, and shows what it is given."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from homarus.channels.channel import Change, Host, Identity
from homarus.channels.media import open_to_send
from homarus.channels.support import Call, Note, Pauses, be_called, mime_of, not_kept, noted, refused
from homarus.channels.telegram import inbound as read
from homarus.channels.telegram.wire import Wire
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, Denied, HomarusError
from homarus.core.messages import Inbound, Media, Outbound
from homarus.core.text import single_line
from homarus.delivery.place import Piece

UPDATES = ("message", "edited_message", "channel_post", "edited_channel_post", "callback_query",
           "message_reaction", "my_chat_member")  # fmt: skip
POLL_SECONDS = 30
PHOTO_BYTES = 10_000_000
CALLBACK_BYTES = 64
MENU = 100
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_KIND = re.compile(r"^(?:(?:telegram|tg|user|group|channel):)+")
_T = TypeVar("_T")


def open_channel(host: Host) -> Telegram:
    return Telegram(host)


class Telegram:
    def __init__(self, host: Host, pause: Callable[[], Pauses] = Pauses, poll_seconds: int = POLL_SECONDS) -> None:
        self._host = host
        self._settings = host.settings
        # One for the connection, and one for messages that cannot be kept although it is there.
        self._pauses, self._keeping = pause(), pause()
        self._poll_seconds = poll_seconds
        self.port = 0  # on which Telegram calls us
        self._offset = Note(host.folder, "offset.json")
        self._me = read.Bot(0, "")
        self._identity = Identity("")
        # Groups that became supergroups since the program knew them.
        self._moved: dict[str, str] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._wire = Wire(host, poll_seconds, self._learn)

    # ---- coming in

    async def run(self) -> None:
        webhook = str(self._settings.get("webhookUrl") or "")
        if webhook and not self._settings.get("webhookSecret"):
            raise ChannelError("telegram: webhookUrl needs webhookSecret", fatal=True, cure="set a long random one")
        try:
            await self._work(self._begin)
            if webhook:
                await self._serve(webhook)
            else:
                await self._poll()
        finally:
            await self._wire.close()

    async def _begin(self) -> None:
        me = await self._wire.ask(lambda bot: bot.get_me())
        self._me = read.Bot(
            me.id, me.username or "", self._host.account, bool(getattr(me, "has_topics_enabled", None) or False)
        )
        await self._list_commands()
        self._identity = _identity(me)
        self._host.connected(self._identity)

    async def _list_commands(self) -> None:
        """Fill the menu of the bot. A menu that cannot be set is said, and keeps nobody from talking."""
        from aiogram.types import BotCommand

        native = dict(self._settings.get("commands") or {}).get("native", "auto")
        wanted = {} if native is False else dict(self._host.commands)
        custom = self._settings.get("customCommands") or []
        for entry in custom if isinstance(custom, list) else []:
            wanted.setdefault(str(entry.get("command", "")), str(entry.get("description", "")))
        named = {name.lstrip("/").lower().replace("-", "_"): text for name, text in wanted.items()}
        menu = [
            BotCommand(command=name, description=single_line(text, 256) or name)
            for name, text in named.items()
            if _COMMAND.fullmatch(name)
        ][:MENU]
        try:
            await self._wire.ask(lambda bot: bot.set_my_commands(menu) if menu else bot.delete_my_commands())
        except DeliveryError as problem:
            self._host.troubled(f"the bot's menu of commands was not set: {problem.message}", cure=problem.cure)

    async def _work(self, step: Callable[[], Awaitable[_T]]) -> _T:
        """Do a step of the connection until it works, with growing pauses; what no patience cures ends the account."""
        while True:
            try:
                return await step()
            except DeliveryError as problem:
                if problem.kind is DeliveryFailure.REFUSED:
                    raise ChannelError(problem.message, fatal=True, cure=problem.cure) from None
                self._host.troubled(problem.message, cure=problem.cure)
                await self._pauses.wait(problem.retry_after or 0.0)

    async def _poll(self) -> None:
        await self._work(lambda: self._wire.ask(lambda bot: bot.delete_webhook()))
        held = self._offset.read()
        # What another bot had seen says nothing about this one.
        offset = held.get("next") if held.get("bot") == self._me.id and isinstance(held.get("next"), int) else None
        well = True
        while True:
            try:
                asked = _raw_updates(offset, self._poll_seconds)
                updates = await self._wire.ask(asked)
            except DeliveryError as problem:
                if problem.kind is DeliveryFailure.REFUSED:
                    raise ChannelError(problem.message, fatal=True, cure=problem.cure) from None
                self._host.troubled(problem.message, cure=problem.cure)
                well = False
                await self._pauses.wait(problem.retry_after or 0.0)
                continue
            self._pauses.reset()
            if not well:
                self._host.connected(self._identity)
                well = True
            offset = await self._take_all(updates, offset)

    async def _take_all(self, updates: list[dict[str, Any]], offset: int | None) -> int | None:
        """Take updates in, in order, and keep how far it came: what was not taken in is asked for again."""
        before = offset
        try:
            for group in _albums(updates):
                await self._take(group)
                offset = int(group[-1]["update_id"]) + 1
                self._keeping.reset()
        except (HomarusError, OSError) as problem:
            not_kept(self._host, self._identity, problem)
            await self._keeping.wait()
        if offset is not None and offset != before:
            self._offset.write({"bot": self._me.id, "next": offset})
        return offset

    async def _serve(self, url: str) -> None:
        from aiogram.types import FSInputFile

        secret = str(self._settings["webhookSecret"])
        certificate = str(self._settings.get("webhookCertPath") or "")
        path = str(self._settings.get("webhookPath") or "/telegram-webhook")
        await self._work(
            lambda: self._wire.ask(
                lambda bot: bot.set_webhook(
                    url,
                    secret_token=secret,
                    allowed_updates=list(UPDATES),
                    certificate=FSInputFile(certificate) if certificate else None,
                )
            )
        )

        async def called(call: Call) -> tuple[int, bytes]:
            given = call.headers.get("x-telegram-bot-api-secret-token", "")
            if call.method != "POST" or not hmac.compare_digest(given.encode(), secret.encode()):
                return 401, b""
            try:
                update = msgspec.json.decode(call.body, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError):
                return 400, b""
            await self._take([update])
            return 200, b""

        await be_called(self._host, 8787, path, called, told=self._listens)

    def _listens(self, port: int) -> None:
        self.port = port

    async def _take(self, group: list[dict[str, Any]]) -> None:
        """Take one update in, or the several that are one album."""
        messages: list[Inbound] = []
        for raw in group:
            update, changes, said = self._read(raw)
            for change in changes:
                await self._change(change)
            messages += [said] if said is not None else []
            if update is not None and update.callback_query is not None:
                await self._tapped(update.callback_query)
        if messages:
            await self._host.receive(messages[0] if len(messages) == 1 else read.album(messages))

    def _read(self, raw: dict[str, Any]) -> tuple[Any, list[Change], Inbound | None]:
        """Return what an update says. One that cannot be read is passed over, or it would be asked for without end."""
        from aiogram.types import Update
        from pydantic import ValidationError

        try:
            update = Update.model_validate(raw)
            posted = update.message or update.channel_post
            said = read.message(posted, self._me) if posted is not None else None
            return update, list(read.changes(update, self._me)), said
        except (ValidationError, AttributeError, TypeError, ValueError) as problem:
            noted(self._host, self._identity, f"an update of Telegram was passed over ({type(problem).__name__})")
            return None, [], None

    async def _tapped(self, query: Any) -> None:
        inbound = read.tap(query, self._me)
        if inbound is not None:
            await self._host.receive(inbound)
        with contextlib.suppress(DeliveryError):  # only ends the spinner of the button
            await self._wire.ask(lambda bot: bot.answer_callback_query(query.id))

    async def _change(self, change: Change) -> None:
        if change.kind == "moved":
            self._moved[change.peer] = change.text
        await self._host.changed(change)

    def _learn(self, old: str, new: str) -> None:
        """Take in that a group moved, which an attempt to write to it has told."""
        change = Change("moved", "telegram", old, text=new, account=self._host.account, chat_type="group")
        task = asyncio.ensure_future(self._change(change))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
        self._moved[old] = new

    # ---- going out

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        from aiogram.types import LinkPreviewOptions, ReplyParameters

        options: dict[str, Any] = {
            **self._target(message),
            # Words without markup need none; they are also what is sent after Telegram refused the markup.
            "parse_mode": None if piece.text == piece.plain else "HTML",
            "disable_notification": message.silent or None,
            "reply_markup": _keyboard(piece),
        }
        if message.reply_to.isdigit():
            options["reply_parameters"] = ReplyParameters(
                message_id=int(message.reply_to), allow_sending_without_reply=True
            )
        if piece.poll is not None:
            sent = await self._wire.ask(lambda bot: _send_poll(bot, piece.poll, options), once=True)
        elif piece.file:
            sent = await self._wire.ask(lambda bot: _send_file(bot, piece, options), once=True)
        else:
            preview = None if self._settings.get("linkPreview") else LinkPreviewOptions(is_disabled=True)
            sent = await self._wire.ask(
                lambda bot: bot.send_message(text=piece.text, link_preview_options=preview, **options), once=True
            )
        return str(sent.message_id)

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        from aiogram.types import LinkPreviewOptions

        where = {"chat_id": self._chat(message), "message_id": _number(sent), "reply_markup": _keyboard(piece),
                 "parse_mode": None if piece.text == piece.plain else "HTML"}  # fmt: skip
        preview = None if self._settings.get("linkPreview") else LinkPreviewOptions(is_disabled=True)
        try:
            if piece.file:
                await self._wire.ask(lambda bot: bot.edit_message_caption(caption=piece.text, **where))
            else:
                await self._wire.ask(
                    lambda bot: bot.edit_message_text(text=piece.text, link_preview_options=preview, **where)
                )
        except DeliveryError as problem:
            if "message is not modified" not in problem.message:
                raise

    async def delete(self, message: Outbound, sent: str) -> None:
        await self._wire.ask(lambda bot: bot.delete_message(self._chat(message), _number(sent)))

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        from aiogram.types import ReactionTypeEmoji

        reactions = [ReactionTypeEmoji(emoji=emoji)] if on else []
        await self._wire.ask(
            lambda bot: bot.set_message_reaction(self._chat(message), _number(to_message), reaction=reactions)
        )

    async def typing(self, message: Outbound) -> None:
        where = self._target(message)
        if thread := _thread(message):  # unlike a message, this names the general topic too
            where["message_thread_id"] = int(thread)
        action = "record_voice" if message.as_voice else "typing"
        with contextlib.suppress(DeliveryError):
            await self._wire.ask(lambda bot: bot.send_chat_action(action=action, **where))

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        held = await self._wire.ask(lambda bot: bot.get_file(media.ref))
        path = str(held.file_path or "")
        # A Bot API server of one's own with --local names files by their place on its machine.
        chunks = self._local(path) if path.startswith("/") else self._wire.file(path)
        async for chunk in chunks:
            yield chunk

    async def _local(self, path: str) -> AsyncIterator[bytes]:
        """Read a file below the folders that the settings trust, whatever links lie on the way."""
        roots, key = self._settings.get("trustedLocalFileRoots") or (), "channels.telegram.trustedLocalFileRoots"
        if not roots:
            raise refused("telegram: the Bot API server keeps the file on its own disk", f"name its folder in {key}")
        try:
            opened = await asyncio.to_thread(lambda: open_to_send(path, [Path(str(root)) for root in roots]))
        except Denied as problem:
            raise refused(f"telegram: {problem.message}", f"see {key}") from None
        try:
            while chunk := await asyncio.to_thread(os.read, opened.fd, 1 << 16):
                yield chunk
        finally:
            os.close(opened.fd)

    async def probe(self) -> Identity:
        running = self._wire.is_open
        try:
            return _identity(await self._wire.ask(lambda bot: bot.get_me()))
        finally:
            if not running:
                await self._wire.close()

    async def directory(self, query: str) -> list[Identity]:
        """A bot can look up one chat that it knows by id or public name; Telegram tells it no list."""
        wanted = query.strip()
        if not re.fullmatch(r"-?\d+|@\w+", wanted):
            return []
        try:
            chat = await self._wire.ask(lambda bot: bot.get_chat(wanted))
        except DeliveryError as problem:
            if problem.kind is DeliveryFailure.REFUSED:
                return []
            raise
        return [Identity(str(chat.id), chat.title or chat.full_name or "", chat.username or "")]

    def _chat(self, message: Outbound) -> int | str:
        to = _KIND.sub("", message.to.partition(":topic:")[0])
        to = self._moved.get(to, to)
        return int(to) if to.lstrip("-").isdigit() else to

    def _target(self, message: Outbound) -> dict[str, Any]:
        thread = _thread(message)
        where: dict[str, Any] = {"chat_id": self._chat(message)}
        if thread.isdigit() and thread != read.GENERAL:
            where["message_thread_id"] = int(thread)
        return where


def _identity(me: Any) -> Identity:
    note = "" if me.can_read_all_group_messages else (
        "privacy mode is on: in groups the bot sees only commands, mentions and replies to it "
        "(@BotFather /setprivacy → Disable, then add it to the group again; or make it an administrator)"
    )  # fmt: skip
    return Identity(str(me.id), me.full_name, me.username or "", note)


def _raw_updates(offset: int | None, seconds: int) -> Callable[[Any], Awaitable[Any]]:
    return lambda bot: bot(_raw_method()(offset=offset, timeout=seconds, allowed_updates=list(UPDATES)))


@functools.cache
def _raw_method() -> Any:
    """Return the method that gives updates as they came, so that one that cannot be read does not hold up the others."""
    from aiogram.methods import GetUpdates

    class RawUpdates(GetUpdates):  # type: ignore[misc]
        __returning__ = list[dict[str, Any]]

    return RawUpdates


def _albums(updates: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return updates with the messages of an album together, as far as they came one after the other."""
    groups: list[list[dict[str, Any]]] = []
    last = None
    for update in updates:
        posted = update.get("message") or update.get("channel_post") or {}
        album = (posted.get("chat", {}).get("id"), posted["media_group_id"]) if posted.get("media_group_id") else None
        if album is not None and album == last:
            groups[-1].append(update)
        else:
            groups.append([update])
        last = album
    return groups


def _number(ident: str) -> int:
    if not ident.isdigit():
        raise refused(f"telegram: '{single_line(ident, 40)}' is the id of no message")
    return int(ident)


def _thread(message: Outbound) -> str:
    return message.thread or message.to.partition(":topic:")[2]


def _keyboard(piece: Piece) -> Any:
    if not piece.buttons:
        return None
    from aiogram.types import CopyTextButton, InlineKeyboardButton, InlineKeyboardMarkup

    def button(label: str, value: str) -> Any:
        if len(value.encode()) <= CALLBACK_BYTES:
            return InlineKeyboardButton(text=label, callback_data=value)
        # Too long to come back by a tap: the tap copies it, to be sent by hand.
        return InlineKeyboardButton(text=label, copy_text=CopyTextButton(text=value[:256]))

    rows = [[button(one.label, one.value) for one in row] for row in piece.buttons]
    return InlineKeyboardMarkup(inline_keyboard=rows)


def _send_poll(bot: Any, poll: Any, options: dict[str, Any]) -> Awaitable[Any]:
    from aiogram.types import InputPollOption

    kept = {name: value for name, value in options.items() if name not in {"parse_mode", "reply_markup"}}
    return bot.send_poll(  # type: ignore[no-any-return]
        question=poll.question,
        options=[InputPollOption(text=option) for option in poll.options],
        is_anonymous=False,
        allows_multiple_answers=poll.multiple,
        **kept,
    )


def _send_file(bot: Any, piece: Piece, options: dict[str, Any]) -> Awaitable[Any]:
    from aiogram.types import FSInputFile

    file, mime = FSInputFile(piece.file), mime_of(piece.file)
    options = {**options, "caption": piece.text or None}
    if piece.as_voice:
        return bot.send_voice(voice=file, **options)  # type: ignore[no-any-return]
    if mime == "image/gif":
        return bot.send_animation(animation=file, **options)  # type: ignore[no-any-return]
    if mime in {"image/jpeg", "image/png", "image/webp"} and Path(piece.file).stat().st_size <= PHOTO_BYTES:
        return bot.send_photo(photo=file, **options)  # type: ignore[no-any-return]
    if mime == "video/mp4":
        return bot.send_video(video=file, **options)  # type: ignore[no-any-return]
    if mime in {"audio/mpeg", "audio/mp4"}:
        return bot.send_audio(audio=file, **options)  # type: ignore[no-any-return]
    return bot.send_document(document=file, **options)  # type: ignore[no-any-return]
