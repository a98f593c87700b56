"""Approvals: what waits for a human, what a human decided, and what may always run. Kept in one file.

What is approved is an exact object, named by its digest; an approval of something else is no approval. Every approval
ends: a question after two minutes, a lasting rule thirty days after it was last used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, Ids, epoch_ms
from homarus.core.errors import Denied, StorageError
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.locks import PATIENCE, OwnerLock

Decision = Literal["allow-once", "allow-always", "deny"]
EXPIRES_MS, MAX_EXPIRES_MS = 120_000, 1_800_000
RULE_MS = 30 * 86_400_000
MAX_PENDING, MAX_HISTORY, MAX_RULES = 100, 200, 500


def approvals_path(state_dir: Path) -> Path:
    return state_dir / "homarus" / "approvals.json"


class Request(Struct, frozen=True, rename="camel"):
    id: str
    digest: str
    # What kind of thing it is (`exec`, `host`, `recipient` or a tool's name), and what a rule for it would name.
    kind: str
    subject: str
    # In plain words: what would happen, and why it is asked.
    summary: str
    reason: str
    agent_id: str
    session: str
    created_ms: int
    expires_ms: int
    # Whether "always" is an answer here.
    lasting: bool = False
    details: dict[str, Any] = {}


class Decided(Struct, frozen=True, rename="camel"):
    request: Request
    decision: Decision
    by: str
    at_ms: int


class Rule(Struct, frozen=True, rename="camel"):
    """Something that may always happen for one agent, until it is revoked or not used for thirty days."""

    id: str
    kind: str
    subject: str
    agent_id: str
    created_ms: int
    used_ms: int

    def expired(self, now: int) -> bool:
        return now - self.used_ms > RULE_MS


class Book(Struct, frozen=True, rename="camel"):
    pending: tuple[Request, ...] = ()
    decided: tuple[Decided, ...] = ()
    rules: tuple[Rule, ...] = ()


class Approver(Protocol):
    """Whoever can put a question to the owner. It must not answer by itself."""

    def reachable(self, request: Request) -> bool:
        """Say whether somebody is there who could answer now."""

    async def announce(self, request: Request) -> None:
        """Show the question; the answer comes through `Approvals.decide`."""


class Nobody:
    """The approver of a place without people: every question is answered no, at once."""

    def reachable(self, request: Request) -> bool:
        return False

    async def announce(self, request: Request) -> None:
        """Nobody hears it."""


class Approvals:
    """The book of approvals. Another process may write into it at any time, so each change reads it first."""

    def __init__(self, path: Path, clock: Clock, ids: Ids, *, expires_ms: int = EXPIRES_MS) -> None:
        self._path = path
        self._clock = clock
        self._ids = ids
        self._expires_ms = expires_ms

    def now(self) -> int:
        return epoch_ms(self._clock.now())

    def read(self) -> Book:
        """Return the book with everything expired left out; a damaged one counts as empty and is kept aside."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return Book()
        except OSError as problem:
            raise StorageError(f"cannot read {self._path}: {problem}", cure="check its permissions") from None
        try:
            book = msgspec.json.decode(data, type=Book)
        except ValueError:
            move_aside(self._path, "damaged", self._clock.now())
            return Book()
        now = self.now()
        return replace(
            book,
            pending=tuple(request for request in book.pending if request.expires_ms > now),
            rules=tuple(rule for rule in book.rules if not rule.expired(now)),
        )

    def new_request(self, *, seconds: float = 0, **fields: Any) -> Request:
        """Return a question with a short id of its own that expires, after so many seconds or the usual time."""
        now = self.now()
        lasts = min(int(seconds * 1000), MAX_EXPIRES_MS) if seconds > 0 else self._expires_ms
        taken = {request.id for request in self.read().pending}
        ident = self._ids.short()
        while ident in taken:
            ident = self._ids.uuid()[:8]
        return Request(id=ident, created_ms=now, expires_ms=now + lasts, **fields)

    async def ask(self, request: Request, approver: Approver, cancel: Cancel) -> Decision:
        """Put a question and wait for its answer. Nobody there, no answer in time, or any failure means no."""
        if not approver.reachable(request):
            return "deny"
        with self._changing() as book:
            if len(book.pending) >= MAX_PENDING:
                raise Denied("too many questions are open", cure="answer some with: homarus approvals list")
            self._write(replace(book, pending=(*book.pending, request)))
        try:
            with cancel.interrupting():
                await approver.announce(request)
                while self.now() < request.expires_ms:
                    if answer := self._answer_to(request):
                        return answer
                    await self._clock.sleep(0.25)
        finally:
            self._close(request)
        return "deny"

    def decide(self, ident: str, decision: Decision, by: str) -> Request:
        """Answer an open question; the first answer counts."""
        with self._changing() as book:
            request = next((item for item in book.pending if item.id == ident), None)
            if request is None:
                raise Denied(
                    f"no open question has the id '{ident[:40]}'",
                    cure="it may have expired; see: homarus approvals list",
                )
            if decision == "allow-always" and not request.lasting:
                raise Denied(f"'{request.summary[:80]}' can be allowed once only", cure="answer allow-once")
            now = self.now()
            rules = book.rules
            if decision == "allow-always":
                rule = Rule(self._ids.short(), request.kind, request.subject, request.agent_id, now, now)
                rules = (*(old for old in rules if not _same(old, rule)), rule)[-MAX_RULES:]
            decided = (*book.decided, Decided(request, decision, by, now))[-MAX_HISTORY:]
            pending = tuple(item for item in book.pending if item.id != ident)
            self._write(Book(pending, decided, rules))
        return request

    def permitted(self, kind: str, subject: str, agent_id: str) -> bool:
        """Say whether a lasting rule covers something, and note that it was used."""
        book, now = self.read(), self.now()
        rule = next((r for r in book.rules if (r.kind, r.subject, r.agent_id) == (kind, subject, agent_id)), None)
        if rule is None:
            return False
        if now - rule.used_ms > 3_600_000:
            with self._changing() as book:
                rules = tuple(replace(r, used_ms=now) if r.id == rule.id else r for r in book.rules)
                self._write(replace(book, rules=rules))
        return True

    def revoke(self, ident: str) -> Rule:
        with self._changing() as book:
            rule = next((item for item in book.rules if item.id == ident), None)
            if rule is None:
                raise Denied(f"there is no rule '{ident[:40]}'", cure="see them with: homarus approvals list")
            self._write(replace(book, rules=tuple(item for item in book.rules if item.id != ident)))
        return rule

    def _answer_to(self, request: Request) -> Decision | None:
        for item in reversed(self.read().decided):
            # The digest counts, not the id alone: an answer belongs to what was asked.
            if item.request.id == request.id and item.request.digest == request.digest:
                return item.decision if item.at_ms < request.expires_ms else "deny"
        return None

    def _close(self, request: Request) -> None:
        with self._changing() as book:
            self._write(replace(book, pending=tuple(item for item in book.pending if item.id != request.id)))

    @contextmanager
    def _changing(self) -> Iterator[Book]:
        ensure_dir(self._path.parent)
        lock = self._path.with_name(self._path.name + ".lock")
        with OwnerLock.acquire(lock, purpose="approvals", now=self._clock.now(), wait=PATIENCE):
            yield self.read()

    def _write(self, book: Book) -> None:
        write_atomic(self._path, msgspec.json.format(msgspec.json.encode(book), indent=1) + b"\n")


def _same(one: Rule, other: Rule) -> bool:
    return (one.kind, one.subject, one.agent_id) == (other.kind, other.subject, other.agent_id)
