"""What can be done in a chat besides answering: send, react, edit, delete, ask the room. For the model's tool, the CLI and the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.core.errors import DeliveryError, HomarusError, ToolError
from homarus.core.messages import Outbound, Poll
from homarus.core.text import single_line
from homarus.delivery.format import render
from homarus.delivery.place import Place
from homarus.delivery.sanitize import shape
from homarus.runtime.chat_settings import chat_settings

if TYPE_CHECKING:
    from homarus.channels.channel import Channel
    from homarus.runtime.switchboard import Switchboard, Target

Json = dict[str, Any]
ACT_SECONDS = 30.0
MAX_OPTIONS = 12
# What an account's `actions` may switch off, and what of a platform it needs.
_SWITCHES = {"react": "reactions", "edit": "edits", "delete": "deletes", "poll": "polls", "send": "messages"}


class Queued(HomarusError):
    """The message is durable and not sent yet: its account is down, or slow."""


class Words(Struct, frozen=True, kw_only=True):
    """What is sent: text, and files that were checked."""

    text: str = ""
    files: tuple[str, ...] = ()
    reply_to: str = ""
    as_voice: bool = False
    silent: bool = False
    poll: Poll | None = None


class ChatActions:
    """Acts for whoever may. Who may, and where, was decided before."""

    def __init__(self, board: Switchboard) -> None:
        self._board = board

    async def send(self, where: Target, words: Words, ident: str) -> Json:
        """Send a message once per `ident` and return what the platform said. Raises Queued where it waits."""
        self._allowed(where, "send")
        text = shape(words.text).text
        if not text and not words.files:
            raise ToolError("there is nothing to send", cure="give some text, or a file")
        message = Outbound(
            ident,
            where.channel,
            where.to,
            text,
            where.account,
            where.thread,
            words.reply_to,
            words.files,
            words.as_voice,
            words.silent,
            poll=words.poll,
        )
        if not self._board.has_taken(ident):
            heard = await self._board.sending(message)
            if heard is None:
                raise ToolError("a hook keeps this message from being sent")
            message = heard
        try:
            async with asyncio.timeout(self._board.send_seconds):
                settled = await self._board.sender.deliver(message)
        except TimeoutError:
            name = f"{where.channel}:{single_line(where.to, 80)}"
            raise Queued(f"the message to {name} waits", cure="see 'homarus channels status'") from None
        told = {"channel": where.channel, "accountId": where.account, "to": where.to, "status": settled.outcome}
        if settled.outcome in {"failed", "unknown", "partial"}:
            reason = settled.reason or "nobody knows whether it arrived"
            raise ToolError(f"the message was not shown for sure ({settled.outcome}): {reason}")
        return {**told, **({"messageId": settled.receipts[0]} if settled.receipts else {})}

    async def poll(
        self, where: Target, question: str, options: Sequence[str], ident: str, *, multiple: bool = False
    ) -> Json:
        """Ask a room: with a poll of the platform's own, or in words that everybody can answer with a number."""
        self._allowed(where, "poll")
        found = [single_line(option, 200) for option in options if option.strip()]
        if not question.strip() or not 2 <= len(found) <= MAX_OPTIONS:
            raise ToolError(
                "a poll needs a question and two to twelve answers", cure="give pollQuestion and pollOption"
            )
        lines = [f"📊 **{single_line(question, 400)}**", *(f"{n}. {option}" for n, option in enumerate(found, 1))]
        asked = Poll(single_line(question, 255), tuple(found), multiple)
        return await self.send(where, Words(text="\n".join(lines), poll=asked), ident)

    async def react(self, where: Target, message_id: str, emoji: str, *, on: bool = True) -> Json:
        channel, _ = self._able(where, "react", message_id)
        if not emoji.strip():
            raise ToolError("no emoji is given", cure="say which")
        await self._done(channel.react(_to(where), message_id, emoji.strip(), on=on))
        return self._told(where, "react", message_id)

    async def edit(self, where: Target, message_id: str, text: str) -> Json:
        channel, place = self._able(where, "edit", message_id)
        pieces = render(shape(text).text, place)
        if len(pieces) != 1:
            raise ToolError("the new text is empty, or too long for one message", cure="send a new message")
        await self._done(channel.edit(_to(where), message_id, pieces[0]))
        return self._told(where, "edit", message_id)

    async def delete(self, where: Target, message_id: str) -> Json:
        channel, _ = self._able(where, "delete", message_id)
        await self._done(channel.delete(_to(where), message_id))
        return self._told(where, "delete", message_id)

    def _allowed(self, where: Target, action: str) -> None:
        name = _SWITCHES[action]
        if chat_settings(self._board.config, where.channel, where.account).is_off(name):
            raise ToolError(f"{name} are switched off there", cure=f"channels.{where.channel}.actions.{name}")

    def _able(self, where: Target, action: str, message_id: str) -> tuple[Channel, Place]:
        """Return the account that acts. Raises where it cannot, or where the message is nobody's or somebody else's."""
        self._allowed(where, action)
        place = self._board.manager.place(where.channel, where.account)
        if not getattr(place, action):
            raise ToolError(f"{where.channel} cannot {action}", cure="send a message instead")
        if not message_id:
            raise ToolError(f"{action} needs messageId", cure="say which message")
        if action != "react" and not self._board.wrote(where.channel, where.account, where.to, message_id):
            raise ToolError(
                f"I did not write message {single_line(message_id, 80)} there", cure=f"{action} my own only"
            )
        return self._board.manager.channel(where.channel, where.account), place

    async def _done(self, work: Any) -> None:
        try:
            async with asyncio.timeout(ACT_SECONDS):
                await work
        except TimeoutError:
            raise ToolError(f"no answer within {ACT_SECONDS:g} s", cure="try again later") from None
        except DeliveryError as problem:
            raise ToolError(problem.message, cure=problem.cure) from None

    def _told(self, where: Target, action: str, message_id: str) -> Json:
        done = {"ok": True, "action": action, "channel": where.channel, "accountId": where.account}
        return {**done, "to": where.to, "messageId": message_id}


async def act_on(board: Switchboard, where: Target, action: str, given: Json, ident: str) -> Json:
    """Do what the owner asks; the keys of `given` are those of the message tool. Raises HomarusError."""
    doer, text, message_id = ChatActions(board), str(given.get("message") or ""), str(given.get("messageId") or "")
    match action:
        case "send" | "reply":
            media = [str(path) for path in (given.get("media"), *(given.get("mediaUrls") or ())) if path]
            links = [path for path in media if path.startswith(("http://", "https://"))]
            files = tuple(str(board.outgoing.take(path)) for path in media if path not in links)
            answers = message_id if action == "reply" else str(given.get("replyTo") or "")
            words = "\n\n".join(part for part in (text, *links) if part)
            voice, silent = given.get("asVoice") is True, given.get("silent") is True
            asked = Words(text=words, files=files, reply_to=answers, as_voice=voice, silent=silent)
            return await doer.send(where, asked, ident)
        case "react":
            return await doer.react(
                where, message_id, str(given.get("emoji") or ""), on=given.get("remove") is not True
            )
        case "edit":
            return await doer.edit(where, message_id, text)
        case "delete" | "unsend":
            return await doer.delete(where, message_id)
        case "poll":
            options = [str(each) for each in given.get("pollOption") or ()]
            question, multiple = str(given.get("pollQuestion") or text), given.get("pollMulti") is True
            return await doer.poll(where, question, options, ident, multiple=multiple)
    raise ToolError(f"there is no action '{single_line(action, 40)}'", cure="send, reply, react, edit, delete, poll")


def _to(where: Target) -> Outbound:
    return Outbound("", where.channel, where.to, "", where.account, where.thread)
