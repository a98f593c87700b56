"""XMPP for the contract: prosody, and people with clients of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree as ET

import slixmpp
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath
from tests.channels.platform_host import until
from tests.live.chat_servers import Wire, prosody

from homarus.channels.discovery import load_entry, manifests
from homarus.channels.xmpp import stanzas
from homarus.channels.xmpp.stanzas import Said

ROOM = "kitchen@rooms.localhost"
PEOPLE = ("ada", "bob", "eve")


class Person:
    """Somebody with a client: it keeps every message stanza that comes in."""

    def __init__(self, who: str, port: int, cert: str) -> None:
        self.who, self._port = who, port
        self.seen: list[Said] = []
        self.client = slixmpp.ClientXMPP(
            f"{who}@localhost/theirs", "secret", ssl_context=ssl.create_default_context(cafile=cert)
        )
        self.client.enable_direct_tls = False
        for name in ("xep_0030", "xep_0045", "xep_0199", "xep_0363"):
            self.client.register_plugin(name)
        every = MatchXPath("{jabber:client}message")
        self.client.register_handler(Callback("all", every, lambda stanza: self.seen.append(stanzas.read(stanza.xml))))

    async def __aenter__(self) -> Self:
        started = asyncio.get_running_loop().create_future()
        self.client.add_event_handler("session_start", lambda _: started.done() or started.set_result(None))
        self.client.connect("127.0.0.1", self._port)
        await asyncio.wait_for(started, 30)
        self.client.send_presence()
        await self.client.plugin["xep_0045"].join_muc_wait(slixmpp.JID(ROOM), self.who, maxstanzas=0, timeout=30)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.client.disconnect(wait=1.0, ignore_send_queue=True), 3)
        self.client.abort()
        if self.client._run_out_filters:
            self.client._run_out_filters.cancel()

    async def say(self, to: str, *parts: ET.Element, group: bool = False, id_: str = "") -> str:
        id_ = id_ or os.urandom(8).hex()
        stanza = self.client.make_message(mto=to, mtype="groupchat" if group else "chat")
        stanza["id"] = id_
        stanza.xml.extend([*parts, stanzas.element("origin-id", stanzas.STANZA_ID, id=id_)])
        stanza.send()
        if group:  # the room's own name for it
            back = await until(lambda: [said for said in self.seen if said.id == id_ and said.nick == self.who])
            return back[0].ids.get(ROOM, id_)
        await self.client.plugin["xep_0199"].send_ping(slixmpp.JID("localhost"), timeout=30)
        return id_


class XmppRig:
    features = frozenset({"login", "group", "mention", "edit", "react", "media", "drop", "busy", "fail", "repeat"})
    wrong = {"password": "wr0ng-word"}
    without = {
        "thread": "no client shows its threads",
        "forward": "whoever passes a message on writes one of their own",
        "bots": "no stanza says that a program wrote it",
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = manifests()["xmpp"]
        self.opener = load_entry
        self.people: dict[str, Person] = {}

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        try:
            port = await self._stack.enter_async_context(prosody(self.folder, "helper", *PEOPLE))
            self.wire = await self._stack.enter_async_context(Wire(port))
            for who in PEOPLE:
                person = Person(who, port, str(self.folder / "cert.pem"))
                self.people[who] = await self._stack.enter_async_context(person)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def settings(self) -> dict[str, Any]:
        return {
            "jid": "helper@localhost",
            "password": "secret",
            "host": "127.0.0.1",
            "port": self.wire.port,
            "tls": "starttls",
            "caFile": str(self.folder / "cert.pem"),
            "rooms": [ROOM],
            "fileHosts": [(self.folder / "uploads").read_text()],
        }

    def person(self, who: str) -> str:
        return f"{who}@localhost"

    def chat(self, who: str, to: str) -> str:
        return self.person(who) if to == "direct" else ROOM

    async def write(self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b"") -> str:  # fmt: skip
        person, group = self.people[who], to == "group"
        if group:
            await until(lambda: person.client.plugin["xep_0045"].get_jid_property(ROOM, "helper", "nick"))
        parts = [stanzas.reply(answers, "")] if answers else []
        if file:
            path = self.folder / "theirs.bin"
            path.write_bytes(file)
            with path.open("rb") as data:
                url = await person.client.plugin["xep_0363"].upload_file(path.name, input_file=data)
            parts.append(stanzas.file_address(url))
        words = f"helper: {text}" if mention else text
        parts.insert(0, stanzas.body(words))
        id_ = await person.say(ROOM if group else "helper@localhost", *parts, group=group)
        self._last = (person, id_, parts)
        return id_

    async def react(self, who: str, message: str, emoji: str) -> None:
        await self.people[who].say("helper@localhost", stanzas.reactions(message, [emoji]))

    async def spoof(self, text: str) -> None:
        """The server lets nobody write another's address; a name for it they may give, and a copy that claims to be one."""
        nick = stanzas.element("nick", "http://jabber.org/protocol/nick")
        nick.text = self.person("ada")
        inner = ET.Element(
            f"{{{stanzas.CLIENT}}}message",
            {"from": f"{self.person('ada')}/x", "to": "helper@localhost", "type": "chat"},
        )
        inner.append(stanzas.body(text))
        copy = stanzas.element("received", stanzas.CARBONS)
        forwarded = ET.SubElement(copy, f"{{{stanzas.FORWARD}}}forwarded")
        forwarded.append(inner)
        await self.people["eve"].say("helper@localhost", copy)
        await self.people["eve"].say("helper@localhost", stanzas.body(text), nick)

    async def forward(self, text: str) -> None:
        raise NotImplementedError

    async def bot(self, text: str) -> None:
        raise NotImplementedError

    async def repeat(self) -> None:
        person, id_, parts = self._last
        await person.say("helper@localhost", *parts, id_=id_)

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        # No stanza says for how long to wait.
        condition = "resource-constraint" if status == 429 else "internal-server-error"
        (self.folder / "refusals").write_text(f"{condition}\n" * times)

    async def drop(self) -> None:
        self.wire.cut()

    def _visible(self, who: str, to: str) -> dict[str, str]:
        """Return what is to be read now, by id: a correction takes the place of its message, a retraction takes it away."""
        found: dict[str, str] = {}
        for said in self.people[who].seen:
            ours = (said.bare == ROOM and said.nick == "helper") if to == "group" else said.bare == "helper@localhost"
            if not ours:
                continue
            if said.retracts:
                found.pop(said.retracts, None)
            elif said.body:
                found[said.replaces or said.id] = said.body
        return found

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return list(self._visible(who, to).values())

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return list(self._visible(who, to))

    def reactions(self) -> list[str]:
        now: dict[str, list[str]] = {}
        for person in self.people.values():
            for said in person.seen:
                if said.reacts_to and "helper" in {said.bare.partition("@")[0], said.nick}:
                    now[said.reacts_to] = sorted(said.reactions)
        return [emoji for emojis in now.values() for emoji in emojis]
