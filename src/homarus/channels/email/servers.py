"""The two servers of a mailbox, spoken to from a thread: letters come in over IMAP and go out over SMTP."""

from __future__ import annotations

import imaplib
import smtplib
import ssl
import time
from collections.abc import Iterator
from datetime import date
from email.message import EmailMessage

import imapclient
from imapclient.exceptions import IMAPClientError, LoginError

from homarus.channels.support import Block, reason, refused, secret, tls_context
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.text import single_line

SECONDS = 60.0
# The words of servers that are busy, in the answer to a login.
_LATER = ("[unavailable]", "[inuse]", "[limit]", "temporar", "try again", "too many")
IMAP_PORTS = {"tls": 993, "starttls": 143, "none": 143}
SMTP_PORTS = {"tls": 465, "starttls": 587, "none": 25}


class EmailSettings(Block, frozen=True):
    """`channels.email`."""

    address: str
    imap_host: str
    smtp_host: str
    name: str = ""
    username: str = ""
    password: str = ""
    password_file: str = ""
    imap_port: int = 0
    imap_tls: str = "tls"
    smtp_port: int = 0
    smtp_tls: str = "tls"
    smtp_username: str = ""
    smtp_password: str = ""
    smtp_password_file: str = ""
    mailbox: str = "INBOX"
    authserv_id: str = ""
    dangerously_trust_from: bool = False
    mark_seen: bool = True
    poll_seconds: float = 60.0
    ca_file: str = ""
    media_max_mb: float = 20.0

    @property
    def most(self) -> int:
        """How many bytes of a letter are read: files grow by a third on their way."""
        return int(self.media_max_mb * 1_400_000) + 1_000_000


def trouble(server: str, problem: BaseException) -> ChannelError:
    return ChannelError(
        f"cannot work with {server}: {reason(problem)}",
        cure="check imapHost, imapPort, smtpHost, smtpPort and TLS in channels.email",
    )


FAILURES = (OSError, ssl.SSLError, IMAPClientError, imaplib.IMAP4.error, smtplib.SMTPException, EOFError)


class Mailbox:
    """One IMAP connection. Every call blocks; all of them belong to one thread."""

    def __init__(self, settings: EmailSettings) -> None:
        self._settings = settings
        self._watching = False
        ours = settings
        context = tls_context(ours.ca_file) if ours.imap_tls != "none" else None
        port = ours.imap_port or IMAP_PORTS[ours.imap_tls]
        self._server = f"{ours.imap_host}:{port}"
        try:
            self._imap = imapclient.IMAPClient(
                ours.imap_host, port, ssl=ours.imap_tls == "tls", ssl_context=context, timeout=SECONDS
            )
        except FAILURES as problem:
            raise trouble(self._server, problem) from problem
        try:
            if ours.imap_tls == "starttls":
                self._imap.starttls(context)
            password = secret(ours.password, ours.password_file, "password")
            self._imap.login(ours.username or ours.address, password)
            self._folder = self._imap.select_folder(ours.mailbox)
        except LoginError as problem:
            self.close()
            raise _no_login(self._server, str(problem)) from None
        except FAILURES as problem:
            self.close()
            raise trouble(self._server, problem) from problem

    @property
    def validity(self) -> int:
        return int(self._folder[b"UIDVALIDITY"])

    @property
    def next_uid(self) -> int:
        return int(self._folder.get(b"UIDNEXT") or max([0, *self._imap.search("ALL")]) + 1)

    def after(self, uid: int) -> list[int]:
        """Return the letters that came after one, oldest first; `n:*` names the last one also where it is older."""
        return sorted(found for found in self._imap.search(["UID", f"{uid + 1}:*"]) if found > uid)

    def since(self, day: date) -> list[int]:
        return sorted(self._imap.search(["SINCE", day]))

    def read(self, uid: int) -> bytes | None:
        """Return a letter, or as much of it as may be read; None when it is gone."""
        most = self._settings.most
        found = self._imap.fetch([uid], [f"BODY.PEEK[]<0.{most}>"]).get(uid, {})
        return next((value for key, value in found.items() if key.startswith(b"BODY[]") and value), None)

    def mark_seen(self, uid: int) -> None:
        self._imap.add_flags([uid], [imapclient.SEEN], silent=True)

    def watch(self) -> bool:
        """Begin to be told of news; False where the server only answers questions."""
        if not self._imap.has_capability("IDLE"):
            return False
        self._imap.idle()
        self._watching = True
        return True

    def news(self, seconds: float) -> bool:
        """Wait for news. A connection that ended counts as news: what is done next finds out."""
        if self._has_read_ahead():
            return True
        began = time.monotonic()
        told = self._imap.idle_check(timeout=seconds)
        return bool(told) or time.monotonic() - began < seconds / 2

    def _has_read_ahead(self) -> bool:
        """Say whether news came in one piece with the answer to `IDLE`: the library would wait for more before it looks."""
        socket, file = self._imap.socket(), getattr(self._imap._imap, "file", None)  # noqa: SLF001
        if file is None:
            return False
        socket.setblocking(False)
        try:
            return bool(file.peek(1))
        except OSError:
            return False
        finally:
            socket.settimeout(SECONDS)

    def unwatch(self) -> None:
        self._watching = False
        self._imap.idle_done()

    def ask(self) -> None:
        self._imap.noop()

    def close(self, *, politely: bool = False) -> None:
        try:
            if politely:
                if self._watching:
                    self.unwatch()
                self._imap.logout()
                return
        except FAILURES:
            pass
        try:
            self._imap.shutdown()
        except FAILURES:
            pass


def _no_login(server: str, told: str) -> ChannelError:
    later = any(word in told.lower() for word in _LATER)
    return ChannelError(
        f"{server} refuses the login: {single_line(told, 200)}",
        fatal=not later,
        cure="" if later else "correct username and password; many providers want a password for programs of its own",
    )


def smtp(settings: EmailSettings) -> smtplib.SMTP:
    """Return a connection that is logged in. Blocks. Raises what `smtplib` raises, and `ChannelError` for a wrong password."""
    ours = settings
    port = ours.smtp_port or SMTP_PORTS[ours.smtp_tls]
    context = tls_context(ours.ca_file) if ours.smtp_tls != "none" else None
    if ours.smtp_tls == "tls" and context:
        server: smtplib.SMTP = smtplib.SMTP_SSL(ours.smtp_host, port, timeout=SECONDS, context=context)
    else:
        server = smtplib.SMTP(ours.smtp_host, port, timeout=SECONDS)
    try:
        if ours.smtp_tls == "starttls" and context:
            server.starttls(context=context)
        password = secret(ours.smtp_password, ours.smtp_password_file, "smtpPassword") or secret(
            ours.password, ours.password_file, "password"
        )
        server.ehlo_or_helo_if_needed()
        if server.has_extn("auth"):
            server.login(ours.smtp_username or ours.username or ours.address, password)
        elif ours.smtp_password or ours.smtp_password_file:
            raise ChannelError(
                "the SMTP server takes no password here", fatal=True, cure="set smtpTls to starttls or tls"
            )
    except smtplib.SMTPAuthenticationError as problem:
        server.close()
        raise _no_login(f"{ours.smtp_host}:{port}", f"{problem.smtp_code} {_words(problem.smtp_error)}") from None
    except BaseException:
        server.close()
        raise
    return server


def post(settings: EmailSettings, letter: EmailMessage, theirs: str) -> None:
    """Hand a letter over to the mail server. Blocks. Raises `DeliveryError`, which says whether it may have gone out."""
    try:
        server = smtp(settings)
    except ChannelError as problem:
        kind = DeliveryFailure.REFUSED if problem.fatal else DeliveryFailure.TRANSIENT
        raise DeliveryError(kind, problem.message, cure=problem.cure) from None
    except FAILURES as problem:
        raise DeliveryError(DeliveryFailure.TRANSIENT, f"e-mail: {reason(problem)}") from problem
    handed = False
    try:
        data = letter.as_bytes()
        wide = not all(one.isascii() for one in (settings.address, theirs))
        if wide and not server.has_extn("smtputf8"):
            raise refused("the mail server takes no addresses beyond ASCII")
        options = [*([f"size={len(data)}"] if server.has_extn("size") else []), *(["SMTPUTF8"] if wide else []), *(["BODY=8BITMIME"] if server.has_extn("8bitmime") else [])]  # fmt: skip
        _checked(server.mail(settings.address, options))
        _checked(server.rcpt(theirs))
        handed = True
        _checked(server.data(data))
    except FAILURES as problem:
        # After the text was sent, only the answer says what became of it.
        kind = DeliveryFailure.UNKNOWN if handed and _is_cut(problem) else _kind(problem)
        raise DeliveryError(kind, f"e-mail: {_told(problem)}") from problem
    finally:
        try:
            server.quit()
        except FAILURES:
            server.close()


def _checked(reply: tuple[int, bytes]) -> None:
    if not 200 <= reply[0] < 300:
        raise smtplib.SMTPResponseException(*reply)


def _is_cut(problem: BaseException) -> bool:
    return isinstance(problem, smtplib.SMTPServerDisconnected | OSError) and not isinstance(
        problem, smtplib.SMTPResponseException
    )


def _kind(problem: BaseException) -> DeliveryFailure:
    code = problem.smtp_code if isinstance(problem, smtplib.SMTPResponseException) else 400
    return DeliveryFailure.REFUSED if code >= 500 else DeliveryFailure.TRANSIENT


def _told(problem: BaseException) -> str:
    if isinstance(problem, smtplib.SMTPResponseException):
        return f"the mail server says: {problem.smtp_code} {_words(problem.smtp_error)}"
    return reason(problem)


def _words(told: bytes | str) -> str:
    return single_line(told.decode("utf-8", "replace") if isinstance(told, bytes) else told, 200)


def each_piece(data: bytes, size: int = 65536) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]
