"""Letters as data: who really wrote one, what is new in it, what it answers, and what is sent back. Pure.

Everything in a letter was written by whoever sent it, also the name of the sender. Only what our own mail server wrote
above it, under the name that the settings give that server, says who it came from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import format_datetime, getaddresses, parsedate_to_datetime
from itertools import islice
from typing import Literal

from msgspec import Struct

from homarus.core.clock import epoch_ms
from homarus.core.messages import Inbound, Media, Quote
from homarus.core.patterns import late
from homarus.core.text import printable, single_line
from homarus.tools.htmltext import readable

MAX_IDS, MAX_PARTS = 20, 200
_ID = late(r"<[^<>\s]{1,900}>")
_ADDRESS = late(r"[^\s<>()\[\]\\,;:\"@]{1,64}@[^\s<>()\[\]\\,;:\"@]{1,255}")
_COMMENT = late(r"\([^()]*\)")
_METHOD = late(r"\s*(dkim|spf|dmarc)\s*(?:/\s*\d+)?\s*=\s*([a-z]+)\b(.*)", re.IGNORECASE | re.DOTALL)
_PROPERTY = late(r"\b(header\.from|header\.d|header\.i|smtp\.mailfrom)\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
# Where somebody's mail program put the letter that this one answers.
_BELOW = late(
    r"^(?:-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht|message d'origine|mensaje original)\s*-{2,}"
    r"|_{20,}\s*$|(?:\*?(?:from|von|de|da|van)\s*:\*?\s.*\n(?:.*\n){0,2}?\*?(?:sent|date|gesendet|datum|envoyé|enviado|inviato|verzonden)\s*:))",
    re.IGNORECASE | re.MULTILINE,
)
# How mail programs say that a letter passes on what somebody else wrote.
_PASSED_ON = late(r"(?i)\s*(?:fwd?|wg|tr|rv|enc|doorst|vb|pd)\s*:")
_PASSED_ON_BELOW = late(
    r"^(?:-{2,}\s*(?:forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado)\s*-{2,}|begin forwarded message:)",
    re.IGNORECASE | re.MULTILINE,
)
_ROBOTS = late(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+.=-].*)?@", re.IGNORECASE)


def read(raw: bytes) -> EmailMessage:
    return BytesParser(policy=policy.default).parsebytes(raw)


def field(letter: EmailMessage, name: str) -> str:
    """Return a header as one line of text; '' for one that is missing or cannot be read."""
    try:
        return single_line(str(letter.get(name, "") or ""), 2000)
    except (MessageError, ValueError, IndexError, AttributeError, TypeError, KeyError):
        return ""  # the standard library's parser of headers fails in several ways at hostile ones


def fields(letter: EmailMessage, name: str) -> list[str]:
    """Return all headers of a name as they stand in the letter, unparsed."""
    return [str(value) for key, value in letter.raw_items() if key.lower() == name.lower()]


def address_of(letter: EmailMessage) -> tuple[str, str]:
    """Return address and name of the one author; nothing where there is none, or more than one is claimed."""
    given = fields(letter, "From")
    found = getaddresses([single_line(given[0], 1000)]) if len(given) == 1 else []
    if len(found) != 1 or not _ADDRESS.fullmatch(found[0][1]):
        return "", ""
    return found[0][1].lower(), single_line(_decoded(found[0][0]), 100)


def _decoded(text: str) -> str:
    from email.header import decode_header, make_header

    try:
        return str(make_header(decode_header(text)))
    except (MessageError, ValueError, LookupError, UnicodeError):
        return text


def is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None


def verified(letter: EmailMessage, author: str, authority: str) -> bool:
    """Say whether our own mail server vouches for the author: by DMARC, or by DKIM or SPF of the author's own domain.

    It writes what it found above the letter. What stands further down, beyond another kind of header, came with the letter.
    """
    domain = author.rpartition("@")[2]
    for result in _results(letter, authority) if authority and domain else ():
        if found := _METHOD.match(result):
            method, outcome = found[1].lower(), found[2].lower()
            told = {name.lower(): value.lower().rpartition("@")[2] for name, value in _PROPERTY.findall(found[3])}
            claimed = {
                "dmarc": told.get("header.from", ""),
                "dkim": told.get("header.d") or told.get("header.i", ""),
                "spf": told.get("smtp.mailfrom", ""),
            }[method]
            same = claimed == domain or (method == "dkim" and claimed.count(".") and domain.endswith(f".{claimed}"))
            if outcome == "pass" and same:
                return True
    return False


def _results(letter: EmailMessage, authority: str) -> Iterator[str]:
    begun = False
    for key, value in letter.raw_items():
        if key.lower() != "authentication-results":
            if begun:
                return
            continue
        text = _COMMENT.sub(" ", single_line(str(value), 8000))
        server, _, rest = text.partition(";")
        if (server.split() or [""])[0].strip('"').lower() != authority.lower():
            if begun:
                return
            continue
        begun = True
        yield from rest.split(";")


def unanswered(letter: EmailMessage, author: str) -> str:
    """Return why a letter must never be answered by a program; '' where it may."""
    if field(letter, "Auto-Submitted").lower() not in {"", "no"}:
        return "another program wrote it"
    if field(letter, "Precedence").lower() in {"bulk", "list", "junk", "auto_reply"} or any(
        letter.get_all(name) for name in ("List-Id", "List-Unsubscribe", "List-Post", "Feedback-ID")
    ):
        return "it was sent to many"
    if any(letter.get_all(name) for name in ("X-Autoreply", "X-Autorespond", "X-Auto-Response-Suppress")):
        return "another program wrote it"
    if field(letter, "Return-Path") == "<>" or letter.get_content_type() == "multipart/report":
        return "it reports what became of a letter"
    return "its sender reads no answers" if _ROBOTS.match(author) else ""


class Threading(Struct, frozen=True):
    """Where a letter stands: its own id, the letters before it, and the first of them all."""

    id: str
    before: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        return self.before[0] if self.before else self.id


def threading(letter: EmailMessage, raw: bytes) -> Threading:
    own = _ID.findall(field(letter, "Message-ID"))
    before = _ID.findall(" ".join(fields(letter, "References"))) or _ID.findall(" ".join(fields(letter, "In-Reply-To")))
    id_ = own[0] if own else f"<{hashlib.sha256(raw).hexdigest()[:32]}@no-message-id>"
    kept = list(dict.fromkeys(one for one in before if one != id_))
    # The first says which thread it is, the last ones say where in it.
    return Threading(id_, tuple(kept if len(kept) <= MAX_IDS else [kept[0], *kept[-MAX_IDS + 1 :]]))


def text_of(letter: EmailMessage) -> str:
    """Return the words of a letter: its plain text, or what a person would read of its HTML."""
    for kind in ("plain", "html"):
        for part in _parts(letter):
            if part.get_content_type() == f"text/{kind}" and not _is_file(part):
                text = _content(part)
                if text.strip():
                    return printable(readable(text)[1] if kind == "html" else text).strip()
    return ""


def _content(part: EmailMessage) -> str:
    data = part.get_payload(decode=True)
    raw = data if isinstance(data, bytes) else b""
    try:
        return raw.decode(part.get_content_charset("utf-8"))
    except (LookupError, UnicodeDecodeError, ValueError):
        return raw.decode("utf-8", "replace")


def _parts(letter: EmailMessage) -> Iterator[EmailMessage]:
    for number, part in enumerate(letter.walk()):
        if number > MAX_PARTS:
            return
        if not part.is_multipart() and isinstance(part, EmailMessage):
            yield part


def _is_file(part: EmailMessage) -> bool:
    return (
        part.get_content_disposition() == "attachment" or bool(_name_of(part)) or part.get_content_maintype() != "text"
    )


def _name_of(part: EmailMessage) -> str:
    try:
        return single_line(part.get_filename() or "", 200)
    except (MessageError, ValueError, IndexError, AttributeError, TypeError, KeyError):
        return ""


def files_of(letter: EmailMessage, uid: str) -> tuple[Media, ...]:
    """Return the files of a letter; each is known by the letter's number in the mailbox and its own in the letter."""
    found = []
    for number, part in enumerate(_parts(letter)):
        if not _is_file(part):
            continue
        major = part.get_content_maintype()
        kind: Literal["image", "audio", "video", "file"] = "file"
        if major in {"image", "audio", "video"}:
            kind = major  # type: ignore[assignment]
        size = len(part.get_payload(decode=True) or b"")
        name = _name_of(part) or f"file-{number}"
        found.append(Media(kind, part.get_content_type(), name, size, f"{uid}/{number}"))
    return tuple(found)


def file_bytes(letter: EmailMessage, number: int) -> bytes | None:
    for at, part in enumerate(_parts(letter)):
        if at == number and _is_file(part):
            data = part.get_payload(decode=True)
            return data if isinstance(data, bytes) else b""
    return None


def new_words(text: str) -> tuple[str, str]:
    """Return what is new in an answer, and what it quotes at its end. Where people answer between the lines, all is new."""
    below = _BELOW.search(text)
    kept, quoted = (text[: below.start()], text[below.start() :]) if below else (text, "")
    lines = kept.rstrip().split("\n")
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    if any(line.lstrip().startswith(">") for line in lines[end:]):
        start = end
        # `On Monday, Alice <a@example.org>` and `wrote:` may stand on two lines, or three.
        if start and lines[start - 1].rstrip().endswith(":"):
            start -= 1
            while (
                start
                and end - start < 3
                and lines[start - 1].strip()
                and not re.search(r"[.!?:]\s*$", lines[start - 1])
            ):
                start -= 1
        quoted = "\n".join([*lines[end:], *([quoted] if quoted else [])])
        lines = lines[:start]
    words = re.split(r"^-- $", "\n".join(lines), maxsplit=1, flags=re.MULTILINE)[0].strip()
    return (words, quoted.strip()) if words else (text.strip(), "")


def passes_on(letter: EmailMessage, subject: str, text: str) -> bool:
    """Say whether a letter brings somebody else's words: then they are read, and command nothing."""
    inside = any(part.get_content_type() == "message/rfc822" for part in islice(letter.walk(), MAX_PARTS))
    return inside or bool(_PASSED_ON.match(subject)) or bool(_PASSED_ON_BELOW.search(text))


def inbound(letter: EmailMessage, raw: bytes, author: tuple[str, str], account: str, uid: str) -> Inbound:
    where = threading(letter, raw)
    text, subject = text_of(letter), field(letter, "Subject")
    forwarded = passes_on(letter, subject, text)
    # What is passed on is what the letter is about, not what it answers: it stays whole.
    words, quoted = (text, "") if forwarded else new_words(text)
    if subject and not where.before:
        words = f"{subject}\n\n{words}".strip()
    answers = where.before[-1] if where.before else ""
    return Inbound(
        id=where.id,
        channel="email",
        text=words,
        sender=author[0],
        sender_name=author[1] or author[0],
        handle=author[0],
        account=account,
        peer=author[0],
        thread=where.root,
        timestamp=moment(letter),
        reply_to=answers,
        forwarded=forwarded,
        quote=Quote(answers, quoted[:2000]) if answers else None,
        media=files_of(letter, uid),
        facts={"subject": subject} if subject else None,
    )


def moment(letter: EmailMessage) -> int:
    try:
        return max(0, epoch_ms(parsedate_to_datetime(field(letter, "Date"))))
    except (TypeError, ValueError, OverflowError):
        return 0


# -- what is sent ---------------------------------------------------------------------------------------------------


class Thread(Struct, frozen=True, omit_defaults=True):
    """What an answer must know of the letters before it."""

    subject: str = ""
    ids: tuple[str, ...] = ()
    peer: str = ""


def message_id(key: str, address: str) -> str:
    """Return the id of a letter, the same for the same piece: whoever gets it twice can tell."""
    domain = address.rpartition("@")[2]
    return f"<{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}@{domain}>"


def answer_subject(subject: str) -> str:
    plain = single_line(subject, 200)
    return plain if re.match(r"(?i)(re|aw|sv|antw)\s*:", plain) else f"Re: {plain}" if plain else ""


def first_words(text: str) -> str:
    return single_line(next((line for line in text.splitlines() if line.strip()), "") or "Message", 70)


def letter_for(text: str, id_: str, people: tuple[str, str, str], thread: Thread, now: datetime) -> EmailMessage:
    """Return a letter from (our name, our address) to a person, in its thread. Nothing in it is taken for a person's."""
    letter = EmailMessage(policy=policy.SMTP)
    name, ours, theirs = people
    letter["From"] = f"{name} <{ours}>" if name and re.fullmatch(r"[\w .'-]{1,80}", name) else ours
    letter["To"] = theirs
    letter["Subject"] = answer_subject(thread.subject) if thread.subject else first_words(text)
    letter["Message-ID"] = id_
    letter["Date"] = format_datetime(now)
    letter["Auto-Submitted"] = "auto-replied" if thread.ids else "auto-generated"
    if thread.ids:
        letter["In-Reply-To"] = thread.ids[-1]
        letter["References"] = " ".join(thread.ids)
    letter.set_content(text or " ")
    return letter
