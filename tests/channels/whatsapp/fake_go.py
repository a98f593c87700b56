"""The real worker and the real neonize over a stand-in for its library in Go: `fake_go.py FOLDER`.

It tells the events below, and writes what it is asked to do to `asked.jsonl` in the folder.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

os.environ["SPHINX"] = "1"  # neonize then loads no library

from neonize import _binder
from neonize.proto import Neonize_pb2 as proto
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import ContextInfo, ExtendedTextMessage, ImageMessage, Message

FOLDER = Path(sys.argv[1])
LIDS = {"777": "15550003"}


class FakeGo:
    def __init__(self) -> None:
        self._stopped = threading.Event()

    def _asked(self, name: str, *what: Any) -> None:
        with (FOLDER / "asked.jsonl").open("a") as file:
            file.write(
                json.dumps([name, *[base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in what]])
                + "\n"
            )

    def Neonize(self, *given: Any) -> None:
        on_qr, on_event = given[6], given[8]
        for code, data in _told():
            held = ctypes.create_string_buffer(data)
            if code == 1:
                on_qr(None, ctypes.addressof(held))
            else:
                on_event(b"u", ctypes.addressof(held), len(held) - 1, code)
        self._stopped.wait()

    def Stop(self, uuid: bytes) -> None:
        self._stopped.set()

    def GetMe(self, uuid: bytes) -> bytes:
        return proto.Device(
            JID=jid("15550001", "s.whatsapp.net"),
            LID=jid("100", "lid"),
            PushName="Lobster",
            Platform="",
            BussinessName="",
            Initialized=True,
        ).SerializeToString()

    def GetPNFromLID(self, uuid: bytes, data: bytes, size: int) -> bytes:
        user = proto.JID.FromString(data).User
        if user not in LIDS:
            return proto.GetJIDFromStoreReturnFunction(Error="no PN found").SerializeToString()
        return proto.GetJIDFromStoreReturnFunction(Jid=jid(LIDS[user], "s.whatsapp.net")).SerializeToString()

    def SendMessage(self, uuid: bytes, to: bytes, size: int, data: bytes, length: int) -> bytes:
        chat = proto.JID.FromString(to)
        self._asked("SendMessage", f"{chat.User}@{chat.Server}", data)
        if (message := Message.FromString(data)).HasField("editedMessage"):
            edit = message.editedMessage.message.protocolMessage
            self._asked("Edit", edit.key.ID, edit.key.fromMe, edit.editedMessage.conversation)
        if chat.User == "404":
            return proto.SendMessageReturnFunction(Error="server returned error 479").SerializeToString()
        if chat.User == "408":
            return proto.SendMessageReturnFunction(Error="timed out waiting for response").SerializeToString()
        return proto.SendMessageReturnFunction(
            SendResponse=proto.SendResponse(Timestamp=1, ID="SENT1", ServerID=1)
        ).SerializePartialToString()

    def BuildReaction(
        self, uuid: bytes, chat: bytes, a: int, sender: bytes, b: int, target: bytes, emoji: bytes
    ) -> bytes:
        message = Message()
        message.reactionMessage.key.ID = target.decode()
        message.reactionMessage.text = emoji.decode()
        return proto.BuildMessageReturnFunction(Message=message).SerializeToString()

    def Upload(self, uuid: bytes, data: bytes, size: int, kind: int) -> bytes:
        self._asked("Upload", data, kind)
        held = proto.UploadResponse(
            url="https://x",
            DirectPath="/d",
            Handle="h",
            MediaKey=b"k",
            FileEncSHA256=b"e",
            FileSHA256=b"s",
            FileLength=size,
        )
        return proto.UploadReturnFunction(UploadResponse=held).SerializeToString()

    def DownloadAny(self, uuid: bytes, data: bytes, size: int) -> bytes:
        path = Message.FromString(data).imageMessage.directPath
        return proto.DownloadReturnFunction(Binary=b"file at " + path.encode()).SerializeToString()

    def SendChatPresence(self, *given: Any) -> bytes:
        self._asked("SendChatPresence")
        return b""

    def MarkRead(self, uuid: bytes, ids: bytes, *rest: Any) -> bytes:
        self._asked("MarkRead", ids.decode())
        return b""


def jid(user: str, server: str) -> Any:
    return proto.JID(User=user, Server=server, RawAgent=0, Device=0, Integrator=0, IsEmpty=False)


def _message(message: Any, chat: Any, sender: Any, alt: Any = None, *, group: bool = False) -> tuple[int, bytes]:
    empty = jid("", "")
    source = proto.MessageSource(
        Chat=chat,
        Sender=sender,
        IsFromMe=False,
        IsGroup=group,
        AddressingMode=1,
        SenderAlt=alt or empty,
        RecipientAlt=empty,
        BroadcastListOwner=empty,
    )
    info = proto.MessageInfo(
        MessageSource=source,
        ID="ID1",
        ServerID=1,
        Type="text",
        Pushname="Alice",
        Timestamp=1_790_000_000,
        Category="",
        Multicast=False,
        MediaType="",
        Edit="",
    )
    return 17, proto.Message(Info=info, Message=message).SerializePartialToString()


def _told() -> list[tuple[int, bytes]]:
    alice, alice_lid, group = jid("15550002", "s.whatsapp.net"), jid("200", "lid"), jid("120363", "g.us")
    said = Message(conversation="earlier")
    quoted = ContextInfo(
        stanzaID="Q", participant="15550001@s.whatsapp.net", quotedMessage=said, mentionedJID=["100@lid"]
    )
    image = Message(imageMessage=ImageMessage(caption="see", mimetype="image/jpeg", directPath="/p", fileLength=9))
    reaction, wrapped, changed = Message(), Message(), Message()
    reaction.reactionMessage.key.ID = "T"
    reaction.reactionMessage.key.fromMe = True
    reaction.reactionMessage.text = "👍"
    wrapped.ephemeralMessage.message.conversation = "will vanish"
    said_now = changed.editedMessage.message.protocolMessage
    said_now.key.ID, said_now.type = "ID1", 14  # a change of a message
    said_now.editedMessage.conversation = "better"
    answer = Message(extendedTextMessage=ExtendedTextMessage(text="look", contextInfo=quoted))
    return [
        (1, b"2@code"),
        (3, proto.Connected(status=True).SerializePartialToString()),
        _message(Message(conversation="by lid"), alice_lid, alice_lid, alice),
        _message(answer, group, jid("777", "lid"), group=True),
        _message(image, alice, alice),
        _message(reaction, alice, alice),
        _message(changed, alice, alice),
        _message(wrapped, alice, alice),
        _message(Message(conversation="a status"), jid("status", "broadcast"), alice),
        _message(Message(conversation="unknown lid"), jid("888", "lid"), jid("888", "lid")),
    ]


_binder.gocode = FakeGo()

if __name__ == "__main__":
    from homarus.channels.whatsapp.worker import main

    main()
