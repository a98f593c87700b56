"""The linked device, in a process of its own: neonize brings a library in Go that no other part of the program should share memory with.

It speaks JSON lines over its pipes. A call is `{"id", "do", …}` and is answered by `{"id", "ok"}` or `{"id", "error"}`; what
happens is told as `{"event", …}`. A message stays in a file of the account's folder until the program says `{"took": n}`,
because WhatsApp tells it once. The end of the input ends the process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from homarus.storage.atomic import ensure_dir, write_atomic

PHONE, LID, GROUP = "s.whatsapp.net", "lid", "g.us"
_WRAPPERS = ("ephemeralMessage", "viewOnceMessage", "viewOnceMessageV2", "documentWithCaptionMessage", "editedMessage")
_MEDIA = {
    "imageMessage": "image",
    "videoMessage": "video",
    "audioMessage": "audio",
    "documentMessage": "file",
    "stickerMessage": "image",
}
# What the words of whatsmeow mean, the first that fits.
_KINDS = (
    ("rate", "rate_limit"),
    ("not connected", "transient"),
    ("not logged in", "transient"),
    ("upload", "transient"),
    ("timed out", "unknown"),
    ("disconnected", "unknown"),
    ("closed", "unknown"),
)


class Worker:
    def __init__(self, folder: Path, proxy: str) -> None:
        self._folder, self._proxy = folder, proxy
        self._spool = folder / "untaken"
        self._client: Any = None
        self._numbers: dict[str, str] = {}
        self._next = 0
        self._heard: asyncio.Queue[Any] = asyncio.Queue()

    def tell(self, **told: Any) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        sys.stdout.buffer.flush()

    async def run(self) -> None:
        ensure_dir(self._spool)
        for path in sorted(self._spool.glob("*.json"), key=lambda path: int(path.stem)):
            self._next = int(path.stem) + 1
            self.tell(event="message", n=int(path.stem), **msgspec.json.decode(path.read_bytes()))
        self._client = self._made()
        reading, taking = asyncio.ensure_future(self._read()), asyncio.ensure_future(self._take())
        connecting = await self._client.connect(self._proxy_settings())
        try:
            await asyncio.wait({reading, taking, connecting}, return_when=asyncio.FIRST_COMPLETED)
            if connecting.done() and not connecting.cancelled() and connecting.exception():
                self.tell(event="failed", why=str(connecting.exception()))
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.stop(), 5)
        sys.stdout.flush()
        os._exit(0)  # threads of the Go library may not let the interpreter end

    def _proxy_settings(self) -> Any:
        if not self._proxy:
            return None
        from neonize._binder import ProxySettings

        return ProxySettings(proxy_address=self._proxy)

    def _made(self) -> Any:
        from neonize.aioze import events
        from neonize.aioze.client import NewAClient

        client = NewAClient(str(self._folder / "device.db"))

        async def on_qr(_: Any, code: bytes) -> None:
            self.tell(event="qr", **_drawn(code.decode()))

        async def on_connected(_: Any, __: Any) -> None:
            me = await client.get_me()
            self.tell(event="connected", number=f"+{me.JID.User}", lid=_text(me.LID), name=me.PushName)

        async def on_message(_: Any, held: Any) -> None:
            self._heard.put_nowait(held)  # at once, so that the order is kept

        client.event.qr(on_qr)
        client.event(events.ConnectedEv)(on_connected)
        client.event(events.MessageEv)(on_message)
        for name in (
            "DisconnectedEv",
            "LoggedOutEv",
            "StreamReplacedEv",
            "TemporaryBanEv",
            "ClientOutdatedEv",
            "ConnectFailureEv",
        ):
            client.event(getattr(events, name))(self._teller(name))
        return client

    def _teller(self, name: str) -> Any:
        async def on(_: Any, held: Any) -> None:
            self.tell(event=name.removesuffix("Ev"), why=str(held).replace("\n", " ")[:200])

        return on

    # ---- coming in

    async def _take(self) -> None:
        while True:
            held = await self._heard.get()
            try:
                said = await self._said(held)
            except Exception as problem:  # noqa: BLE001 - a message that nobody foresaw must not hold up the others
                self.tell(event="noted", why=f"a message was passed over ({type(problem).__name__})")
                continue
            if said is not None:
                self._next, n = self._next + 1, self._next
                write_atomic(self._spool / f"{n}.json", msgspec.json.encode(said))
                self.tell(event="message", n=n, **said)

    async def _said(self, held: Any) -> dict[str, Any] | None:
        """Return a message as plain facts."""
        info, source = held.Info, held.Info.MessageSource
        if source.Chat.Server not in {PHONE, LID, GROUP}:
            return None  # statuses, channels and broadcast lists
        sender = await self._person(source.Sender, source.SenderAlt)
        chat = (
            _text(source.Chat)
            if source.IsGroup
            else await self._person(source.Chat, source.RecipientAlt if source.IsFromMe else source.SenderAlt)
        )
        message = held.Message
        for _ in range(4):
            wrapper = next((name for name in _WRAPPERS if message.HasField(name)), None)
            if wrapper is None:
                break
            message = getattr(message, wrapper).message
        said = {"id": info.ID, "chat": chat, "group": source.IsGroup, "sender": sender, "mine": source.IsFromMe,
                "name": info.Pushname, "at": int(info.Timestamp) * (1 if info.Timestamp > 1e11 else 1000)}  # fmt: skip
        return said | await self._content(message)

    async def _content(self, message: Any) -> dict[str, Any]:
        if message.HasField("reactionMessage"):
            seen = message.reactionMessage
            return {
                "kind": "reaction",
                "target": seen.key.ID,
                "author": await self._author(seen.key),
                "text": seen.text,
            }
        if message.HasField("protocolMessage"):
            done = message.protocolMessage
            if done.HasField("editedMessage"):
                return {
                    "kind": "edit",
                    "target": done.key.ID,
                    "text": (await self._content(done.editedMessage)).get("text", ""),
                }
            return (
                {"kind": "delete", "target": done.key.ID}
                if done.type == 0 and done.HasField("key")
                else {"kind": "other"}
            )
        facts: dict[str, Any] = {"kind": "message", "text": message.conversation}
        field = next((name for name in ("extendedTextMessage", *_MEDIA) if message.HasField(name)), "")
        part: Any = getattr(message, field) if field else None
        if field == "extendedTextMessage":
            facts["text"] = part.text
        elif field:
            facts["text"] = getattr(part, "caption", "")
            facts["file"] = {
                "kind": "voice" if field == "audioMessage" and part.PTT else _MEDIA[field],
                "mime": part.mimetype.partition(";")[0],
                "name": getattr(part, "fileName", ""),
                "size": int(part.fileLength),
                "ref": base64.b64encode(message.SerializeToString()).decode(),
            }
        elif message.HasField("locationMessage"):
            spot = message.locationMessage
            facts["text"] = f"[location: {spot.degreesLatitude}, {spot.degreesLongitude} {spot.name}".rstrip() + "]"
        elif message.HasField("contactMessage"):
            facts["text"] = f"[contact: {message.contactMessage.displayName}]"
        if part is not None and part.HasField("contextInfo"):
            facts |= await self._context(part.contextInfo)
        return facts

    async def _context(self, context: Any) -> dict[str, Any]:
        told: dict[str, Any] = {"forwarded": bool(context.isForwarded)}
        told["mentions"] = [await self._person(_jid(named)) for named in context.mentionedJID]
        if context.stanzaID:
            quoted = context.quotedMessage
            text = quoted.conversation or quoted.extendedTextMessage.text
            told["quote"] = {
                "id": context.stanzaID,
                "author": await self._person(_jid(context.participant)),
                "text": text,
            }
        return told

    async def _author(self, key: Any) -> str:
        if key.fromMe:
            return "me"
        return await self._person(_jid(key.participant or key.remoteJID))

    async def _person(self, jid: Any, other: Any = None) -> str:
        """Return somebody's number, whichever of their two ids was told; the other id where no number is known."""
        for one in (jid, other):
            if one is not None and one.Server == PHONE:
                return f"+{one.User}"
        if jid.Server != LID:
            return _text(jid)
        if jid.User not in self._numbers:
            with contextlib.suppress(Exception):  # nobody told the number of this id yet
                self._numbers[jid.User] = (await self._client.get_pn_from_lid(jid)).User
        number = self._numbers.get(jid.User)
        return f"+{number}" if number else _text(jid)

    # ---- going out

    async def _read(self) -> None:
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        tasks: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            call = msgspec.json.decode(line, type=dict[str, Any])
            if "took" in call:
                with contextlib.suppress(FileNotFoundError):
                    (self._spool / f"{int(call['took'])}.json").unlink()
                continue
            task = asyncio.ensure_future(self._answer(call))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _answer(self, call: dict[str, Any]) -> None:
        try:
            self.tell(id=call["id"], ok=await getattr(self, f"do_{call['do']}")(call))
        except Exception as problem:  # noqa: BLE001 - whatever the library raises is the caller's to judge
            words = str(problem) or type(problem).__name__
            # What the library did not mean to raise may have come after the message went out.
            meant = type(problem).__module__.startswith("neonize") or call["do"] != "send"
            kind = next((kind for word, kind in _KINDS if word in words.lower()), "refused" if meant else "unknown")
            self.tell(id=call["id"], error={"kind": kind, "message": words[:300]})

    async def do_send(self, call: dict[str, Any]) -> str:
        from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import ContextInfo, ExtendedTextMessage, Message

        context = None
        if quote := call.get("quote"):
            author = (
                _text(_jid(quote["author"])) if quote["author"] != "me" else _text((await self._client.get_me()).JID)
            )
            context = ContextInfo(
                stanzaID=quote["id"], participant=author, quotedMessage=Message(conversation=quote.get("text", ""))
            )
        if poll := call.get("poll"):
            from neonize.utils.enum import VoteType

            kind = VoteType.MULTIPLE if poll.get("multiple") else VoteType.SINGLE
            message = await self._client.build_poll_vote_creation(poll["question"], list(poll["options"]), kind)
        elif call.get("file"):
            message = await self._file_message(call, context)
        elif context is not None:
            message = Message(extendedTextMessage=ExtendedTextMessage(text=call["text"], contextInfo=context))
        else:
            message = Message(conversation=call["text"])
        return str((await self._client.send_message(_jid(call["to"]), message)).ID)

    async def _file_message(self, call: dict[str, Any], context: Any) -> Any:
        """Build a message around a file by hand: the library's own way wants ffmpeg for each."""
        from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as proto
        from neonize.utils.enum import MediaType

        data = await asyncio.to_thread(Path(call["file"]).read_bytes)
        first = call["mime"].partition("/")[0]
        kind = first if first in {"image", "video", "audio"} else "document"
        sent = await self._client.upload(data, getattr(MediaType, f"Media{kind.capitalize()}"))
        fields: dict[str, Any] = {
            "URL": sent.url, "directPath": sent.DirectPath, "mediaKey": sent.MediaKey, "fileEncSHA256": sent.FileEncSHA256,
            "fileSHA256": sent.FileSHA256, "fileLength": sent.FileLength, "mimetype": call["mime"],
        }  # fmt: skip
        if context is not None:
            fields["contextInfo"] = context
        if kind == "audio":
            # Only Opus is played as a voice message.
            mime = "audio/ogg; codecs=opus" if call.get("voice") and call["mime"] == "audio/ogg" else call["mime"]
            fields |= {"mimetype": mime, "PTT": bool(call.get("voice"))}
        elif call.get("text"):
            fields["caption"] = call["text"]
        if kind == "document":
            fields |= {"fileName": call["name"], "title": call["name"]}
        part = getattr(proto, f"{kind.capitalize()}Message")(**fields)
        return proto.Message(**{f"{kind}Message": part})

    async def do_react(self, call: dict[str, Any]) -> None:
        author = (await self._client.get_me()).JID if call["author"] == "me" else _jid(call["author"])
        chat = _jid(call["to"])
        await self._client.send_message(
            chat, await self._client.build_reaction(chat, author, call["target"], call["emoji"])
        )

    async def do_edit(self, call: dict[str, Any]) -> None:
        from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message

        await self._client.edit_message(_jid(call["to"]), call["target"], Message(conversation=call["text"]))

    async def do_delete(self, call: dict[str, Any]) -> None:
        me = (await self._client.get_me()).JID
        await self._client.revoke_message(_jid(call["to"]), me, call["target"])

    async def do_typing(self, call: dict[str, Any]) -> None:
        from neonize.utils.enum import ChatPresence, ChatPresenceMedia

        media = (
            ChatPresenceMedia.CHAT_PRESENCE_MEDIA_AUDIO
            if call.get("voice")
            else ChatPresenceMedia.CHAT_PRESENCE_MEDIA_TEXT
        )
        await self._client.send_chat_presence(_jid(call["to"]), ChatPresence.CHAT_PRESENCE_COMPOSING, media)

    async def do_read(self, call: dict[str, Any]) -> None:
        from neonize.utils.enum import ReceiptType

        await self._client.mark_read(
            *call["ids"], chat=_jid(call["to"]), sender=_jid(call["author"]), receipt=ReceiptType.READ
        )

    async def do_fetch(self, call: dict[str, Any]) -> str:
        from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message

        message = Message.FromString(base64.b64decode(call["ref"]))
        path = self._folder / f"fetched-{call['id']}"
        await asyncio.to_thread(path.write_bytes, await self._client.download_any(message))
        return str(path)

    async def do_groups(self, call: dict[str, Any]) -> list[dict[str, str]]:
        return [
            {"id": _text(group.JID), "name": group.GroupName.Name} for group in await self._client.get_joined_groups()
        ]


def _jid(text: str) -> Any:
    from neonize.utils.jid import build_jid

    user, at, server = text.removeprefix("+").partition("@")
    return build_jid(user.partition(":")[0], server if at else PHONE)


def _text(jid: Any) -> str:
    return f"{jid.User}@{jid.Server}" if jid.User else ""


def _drawn(code: str) -> dict[str, str]:
    """Return a code to scan, as data, as a picture for a page and as characters for a terminal."""
    import segno

    drawing = segno.make(code)
    out = io.StringIO()
    drawing.terminal(out, compact=True)
    return {"code": code, "picture": drawing.svg_data_uri(scale=4), "terminal": out.getvalue()}


def main() -> None:
    os.umask(0o077)  # the keys of the device are for nobody else
    folder, proxy = Path(sys.argv[1]), os.environ.pop("HOMARUS_WHATSAPP_PROXY", "")
    asyncio.run(Worker(folder, proxy).run())


if __name__ == "__main__":
    main()
