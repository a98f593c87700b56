"""E-mail for the contract: dovecot, a mail server, and people with mailboxes on it."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import ssl
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any, Self

from tests.live.chat_servers import Wire, dovecot, smtp_server

from homarus.channels.discovery import load_entry, manifests

ME = "agent@test.example"


class EmailRig:
    features = frozenset({"login", "media", "busy", "fail", "drop", "repeat", "forward"})
    wrong = {"password": "wr0ng-word"}
    without = {
        "group": "a letter to several people is answered to its sender",
        "mention": "there are no groups in which one could be named",
        "thread": "there are no groups; a thread of letters is kept by the letters themselves, see test_letters",
        "edit": "a letter that is sent is sent",
        "react": "it has no reactions",
        "bots": "what says that a program wrote it is left unread, see tests/live/test_email.py",
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = manifests()["email"]
        self.opener = load_entry
        self._count = 0
        self._last: tuple[EmailMessage, str] | None = None

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        self.imap, self.imaps, self.mail = await self._stack.enter_async_context(dovecot(self.folder))
        self.smtp = await self._stack.enter_async_context(smtp_server(self.folder, self.mail))
        self.wire = await self._stack.enter_async_context(Wire(self.imaps))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def settings(self) -> dict[str, Any]:
        return {
            "address": ME,
            "password": "secret",
            "imapHost": "localhost",
            "imapPort": self.wire.port,
            "smtpHost": "localhost",
            "smtpPort": self.smtp,
            "smtpTls": "starttls",
            "caFile": str(self.folder / "cert.pem"),
            "authservId": "mx.test.example",
        }

    def person(self, who: str) -> str:
        return f"{who}@test.example"

    def chat(self, who: str, to: str) -> str:
        return self.person(who)

    def post(self, letter: EmailMessage, login: str = "") -> None:
        """Send a letter as somebody's program does; without a login the server cannot vouch for it."""
        with smtplib.SMTP("localhost", self.smtp) as server:
            server.starttls(context=ssl.create_default_context(cafile=str(self.folder / "cert.pem")))
            if login:
                server.login(login, "secret")
            server.send_message(letter, from_addr=login or "spoofed@evil.example", to_addrs=[ME])

    async def spoof(self, text: str) -> None:
        """A letter in ada's name that the server cannot vouch for, and one of eve's own with ada's address as her name."""
        for author, login in (("ada@test.example", ""), ('"ada@test.example" <eve@test.example>', "eve@test.example")):
            letter = EmailMessage()
            letter["From"], letter["To"] = author, ME
            letter.set_content(text)
            await asyncio.to_thread(self.post, letter, login)

    async def forward(self, text: str) -> None:
        letter = EmailMessage()
        letter["From"], letter["To"], letter["Subject"] = self.person("ada"), ME, "Fwd: for you"
        letter.set_content(
            f"\n\n---------- Forwarded message ---------\nFrom: Eve <eve@test.example>\nSubject: for you\n\n{text}\n"
        )
        await asyncio.to_thread(self.post, letter, self.person("ada"))

    async def bot(self, text: str) -> None:
        raise NotImplementedError

    async def write_many(self, who: str, texts: list[str]) -> None:
        await asyncio.to_thread(self._post_many, self.person(who), texts)

    def _post_many(self, author: str, texts: list[str]) -> None:
        with smtplib.SMTP("localhost", self.smtp) as server:
            server.starttls(context=ssl.create_default_context(cafile=str(self.folder / "cert.pem")))
            server.login(author, "secret")
            for text in texts:
                letter = EmailMessage()
                letter["From"], letter["To"] = author, ME
                letter.set_content(text)
                server.send_message(letter, from_addr=author, to_addrs=[ME])

    async def write(self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b"") -> str:  # fmt: skip
        letter = EmailMessage()
        self._count += 1
        letter["From"], letter["To"], letter["Message-ID"] = self.person(who), ME, f"<{self._count}@theirs.example>"
        if answers:
            letter["In-Reply-To"] = answers
        letter.set_content(text)
        if file:
            letter.add_attachment(file, maintype="application", subtype="octet-stream", filename="a.bin")
        self._last = letter, who
        self.post(letter, self.person(who))
        return str(letter["Message-ID"])

    async def repeat(self) -> None:
        if self._last:
            self.post(self._last[0], self.person(self._last[1]))

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        (self.mail / "refuse").write_text(f"451 {times}")

    async def drop(self) -> None:
        self.wire.cut()

    def letters(self, who: str) -> list[EmailMessage]:
        box = self.mail / self.person(who)
        files = sorted([*box.glob("new/*"), *box.glob("cur/*")], key=lambda path: path.name)
        return [BytesParser(policy=policy.default).parsebytes(file.read_bytes()) for file in files]  # type: ignore[misc]

    def shown(self, who: str, to: str = "direct") -> list[str]:
        bodies = [letter.get_body(("plain",)) for letter in self.letters(who)]
        return [body.get_content().strip() for body in bodies if body is not None]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [str(letter["Message-ID"]) for letter in self.letters(who)]

    async def react(self, who: str, message: str, emoji: str) -> None:
        raise NotImplementedError

    def reactions(self) -> list[str]:
        return []
