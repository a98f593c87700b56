"""A mail server in a process of its own: `python mail_server.py PORT FOLDER CERT KEY`.

It takes letters over SMTP, says in its own name (`mx.test.example`) whether their author logged in here, and puts them into
`FOLDER/<recipient>`. What `FOLDER/refuse` says (`451 2`) it answers to the next letters of the agent instead. A recipient whose
name begins with `nobody` does not exist; to one that begins with `gone` the connection ends when the letter was taken.
"""

import asyncio
import itertools
import os
import ssl
import sys
from email import message_from_bytes
from email.utils import parseaddr
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult

SERVER = "mx.test.example"
NUMBERS = itertools.count()


class Handler:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody"):
            return "550 5.1.1 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        refuse = self._folder / "refuse"
        if refuse.exists() and envelope.mail_from.startswith("agent@"):
            code, times = refuse.read_text().split()
            refuse.write_text(f"{code} {int(times) - 1}") if int(times) > 1 else refuse.unlink()
            return f"{code} 4.7.0 come again later" if code.startswith("4") else f"{code} 5.7.1 never"
        author = parseaddr(str(message_from_bytes(envelope.content).get("From", "")))[1]
        known = session.auth_data is not None and session.auth_data.decode() == author
        outcome = "pass" if known else "fail"
        head = f"Return-Path: <{envelope.mail_from}>\r\n"
        head += f"Authentication-Results: {SERVER}; dmarc={outcome} header.from={author.rpartition('@')[2]}\r\n"
        head += f"Received: from {session.peer[0]} by {SERVER}\r\n"
        for recipient in envelope.rcpt_tos:
            box = self._folder / recipient.lower()
            owner = self._folder.stat()
            for part in (box, box / "new", box / "cur", box / "tmp"):
                if not part.exists():
                    part.mkdir()
                    os.chown(part, owner.st_uid, owner.st_gid)
            name = f"{next(NUMBERS):012d}.test"
            (box / "tmp" / name).write_bytes(head.encode() + envelope.content)
            (box / "tmp" / name).rename(box / "new" / name)
        if envelope.rcpt_tos[0].startswith("gone"):
            server.transport.abort()
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    right = data.password == b"secret"
    return AuthResult(success=right, handled=False, auth_data=data.login if right else None)


async def main() -> None:
    port, folder, cert, key = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    def make() -> SMTP:
        return SMTP(
            Handler(folder),
            hostname=SERVER,
            tls_context=context,
            authenticator=authenticate,
            enable_SMTPUTF8=True,
            data_size_limit=40_000_000,
        )

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", port)
    await server.serve_forever()


asyncio.run(main())
