"""Devices that a person lets in: their keys, what each may do, and who waits to be let in. Kept in one file; tokens only as digests."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, Ids, epoch_ms
from homarus.core.text import single_line
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.scopes import ADMIN, Principal, implied, narrowed
from homarus.storage.atomic import ensure_dir, move_aside, write_atomic
from homarus.storage.locks import PATIENCE, OwnerLock

MAX_PENDING, MAX_PAIRED, PENDING_MS = 50, 500, 3_600_000
MAX_CODES, CODE_SECONDS = 20, 600.0
SEEN_MS = 600_000  # how exactly the file knows when a device was last here


class Token(Struct, frozen=True, rename="camel"):
    digest: str
    scopes: tuple[str, ...]
    created_at_ms: int


class Device(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One device that was let in. `scopes` is what was approved; a token of it never gives more."""

    device_id: str
    public_key: str
    scopes: tuple[str, ...]
    approved_via: str
    created_at_ms: int
    last_seen_at_ms: int = 0
    display_name: str = ""
    platform: str = ""
    client_id: str = ""
    client_mode: str = ""
    role: str = "operator"
    token: Token | None = None
    # What the owner lets a node offer; see `nodes`.
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    surface_at_ms: int = 0


class Pending(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Somebody who wants in, or more than they have."""

    request_id: str
    device_id: str
    public_key: str
    scopes: tuple[str, ...]
    reason: str
    ts: int
    display_name: str = ""
    platform: str = ""
    client_id: str = ""
    client_mode: str = ""
    role: str = "operator"
    remote_ip: str = ""


class Surface(Struct, frozen=True, rename="camel"):
    """What a node that is paired wants to offer from now on."""

    request_id: str
    node_id: str
    caps: tuple[str, ...]
    commands: tuple[str, ...]
    ts: int
    display_name: str = ""
    platform: str = ""


class Invitation(Struct, frozen=True, rename="camel"):
    """What a setup code gives to the first device that brings it in time."""

    scopes: tuple[str, ...]
    until_ms: int
    since_ms: int = 0  # by this home's clock: one that was set back opens nothing for longer


class Book(Struct, rename="camel"):
    """One device may be paired twice: as somebody's client, and as a node that does what it is told."""

    paired: dict[str, Device] = {}
    pending: dict[str, Pending] = {}
    nodes: dict[str, Device] = {}
    surfaces: dict[str, Surface] = {}
    invited: dict[str, Invitation] = {}  # by the digest of its code

    def of(self, role: str) -> dict[str, Device]:
        return self.nodes if role == "node" else self.paired


class Proof(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a client says of its device: its key, and the challenge signed with it."""

    id: str
    public_key: str
    signature: str
    signed_at: int
    nonce: str


def verify(proof: Proof, signed: tuple[str, ...], platform: str, family: str) -> None:
    """Check a device's signature over the fields that both dialects share, the newer dialect first. Raises Refused."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key, signature = _unpadded(proof.public_key), _unpadded(proof.signature)
        public = Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        raise _device_refused("DEVICE_AUTH_PUBLIC_KEY_INVALID", "device key or signature is not readable") from None
    if not secrets.compare_digest(hashlib.sha256(key).hexdigest(), proof.id):
        raise _device_refused("DEVICE_AUTH_DEVICE_ID_MISMATCH", "device id does not belong to its key")
    newer = ("v3", *signed, _plain(platform), _plain(family))
    for fields in (newer, ("v2", *signed)):
        try:
            public.verify(signature, "|".join(fields).encode())
        except InvalidSignature:
            continue
        return
    raise _device_refused("DEVICE_AUTH_SIGNATURE_INVALID", "device signature is not valid")


class Devices:
    """The file of devices. It is read at every question, so that what another process changed counts at once."""

    def __init__(self, path: Path, clock: Clock, ids: Ids) -> None:
        self._path = path
        self._clock = clock
        self._ids = ids
        self._kept: tuple[tuple[int, int, int], bytes] = ((0, 0, 0), b"")

    @property
    def now(self) -> int:
        return epoch_ms(self._clock.now())

    def read(self) -> Book:
        """Return the book without requests that are too old; a damaged file counts as empty and is kept aside."""
        try:
            book = msgspec.json.decode(self._bytes(), type=Book)
        except FileNotFoundError:
            return Book({}, {}, {}, {}, {})
        except ValueError:
            move_aside(self._path, "damaged", self._clock.now())
            return Book({}, {}, {}, {}, {})
        fresh = {key: each for key, each in book.pending.items() if self.now - each.ts < PENDING_MS}
        open_ones = {key: each for key, each in book.invited.items() if each.since_ms <= self.now < each.until_ms}
        return Book(book.paired, fresh, book.nodes, book.surfaces, open_ones)

    def _bytes(self) -> bytes:
        found = self._path.stat()
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._kept[0]:
            self._kept = (stamp, self._path.read_bytes())
        return self._kept[1]

    def get(self, device_id: str, role: str = "operator") -> Device | None:
        return self.read().of(role).get(device_id)

    def by_token(self, device_id: str, token: str, role: str = "operator") -> Device | None:
        """Return the device whose token this is."""
        device = self.get(device_id, role)
        if device is None or device.token is None:
            return None
        return device if secrets.compare_digest(device.token.digest, digest(token)) else None

    def invite(self, scopes: frozenset[str]) -> str:
        """Return a code that opens the door once, for a few minutes, and for no more than its giver holds."""
        token = secrets.token_urlsafe(32)
        self.expect(digest(token), scopes, self.now + int(CODE_SECONDS * 1000))
        return token

    def expect(self, held: str, scopes: frozenset[str], until_ms: int) -> None:
        """Keep an invitation by the digest of its code."""
        with self.changing() as book:
            book.invited.pop(held, None)
            while len(book.invited) >= MAX_CODES:
                del book.invited[min(book.invited, key=lambda each: book.invited[each].until_ms)]
            book.invited[held] = Invitation(tuple(sorted(scopes)), until_ms, self.now)
            self.write(book)

    def redeem(self, token: str) -> frozenset[str] | None:
        """Return what an invitation gives and tear it up; None for one that was used, is too old or never was."""
        if digest(token) not in self.read().invited:
            return None
        with self.changing() as book:
            found = book.invited.pop(digest(token), None)
            self.write(book)
        return None if found is None else frozenset(found.scopes)

    def pair(self, wish: Pending, scopes: frozenset[str], via: str) -> tuple[Device, str]:
        """Let a device in with these scopes and return it with its token, which nobody sees a second time."""
        token = secrets.token_urlsafe(32)
        with self.changing() as book:
            given = tuple(sorted(scopes))
            device = self._paired(book, wish, given, via)
            return self.keep(book, replace(device, token=Token(digest(token), given, self.now))), token

    def _paired(self, book: Book, wish: Pending, given: tuple[str, ...], via: str) -> Device:
        if len(book.of(wish.role)) >= MAX_PAIRED and wish.device_id not in book.of(wish.role):
            raise Refused(f"{MAX_PAIRED} devices are paired; remove one first", Code.UNAVAILABLE)
        book.pending = {key: each for key, each in book.pending.items() if not _same(each, wish)}
        same = ("device_id", "public_key", "display_name", "platform", "client_id", "client_mode", "role")
        facts = {name: getattr(wish, name) for name in same}
        return Device(**facts, scopes=given, approved_via=via, created_at_ms=self.now, last_seen_at_ms=self.now)

    def ask(self, wish: Pending) -> Pending:
        """Note that a device wants in; one request for each device, the oldest go when there are too many."""
        with self.changing() as book:
            old = next((each for each in book.pending.values() if _same(each, wish)), None)
            if old is not None and set(old.scopes) == set(wish.scopes):
                return old
            if old is not None:
                del book.pending[old.request_id]
            while len(book.pending) >= MAX_PENDING:
                del book.pending[min(book.pending.values(), key=lambda each: each.ts).request_id]
            wish = replace(wish, request_id=self._ids.uuid(), ts=self.now)
            book.pending[wish.request_id] = wish
            self.write(book)
            return wish

    def approve(self, request_id: str, by: Principal) -> Device:
        """Let in whoever waits; nobody can grant what they do not hold. A token that the device has goes on, with the new scopes."""
        with self.changing() as book:
            wish = _waiting(book, request_id)
            if wish.role != "operator" and not by.may(ADMIN):
                raise _missing(ADMIN)
            given = narrowed(wish.scopes, by.scopes)
            if missing := sorted(implied(wish.scopes) - given):
                raise _missing(*missing)
            old, scopes = book.of(wish.role).get(wish.device_id), tuple(sorted(given))
            token = replace(old.token, scopes=scopes) if old and old.token else None
            return self.keep(book, replace(self._paired(book, wish, scopes, "owner"), token=token))

    def reject(self, request_id: str) -> Pending:
        with self.changing() as book:
            wish = _waiting(book, request_id)
            del book.pending[request_id]
            self.write(book)
            return wish

    def remove(self, device_id: str, by: Principal, role: str = "") -> Device:
        """Forget a device in one role, or altogether."""
        with self.changing() as book:
            device = _own(book, device_id, by, role)
            for each in [role] if role else ["operator", "node"]:
                book.of(each).pop(device_id, None)
            if role != "operator":
                book.surfaces = {key: each for key, each in book.surfaces.items() if each.node_id != device_id}
            self.write(book)
            return device

    def rename(self, device_id: str, name: str, by: Principal, role: str = "") -> Device:
        with self.changing() as book:
            device = replace(_own(book, device_id, by, role), display_name=single_line(name, 80))
            return self.keep(book, device)

    def rotate(
        self, device_id: str, scopes: tuple[str, ...] | None, by: Principal, role: str = "operator"
    ) -> tuple[Device, str]:
        """Give a device a new token: no more than it was approved for, and no more than the caller holds."""
        token = secrets.token_urlsafe(32)
        with self.changing() as book:
            device = _own(book, device_id, by, role)
            given = narrowed(narrowed(device.scopes if scopes is None else scopes, device.scopes), by.scopes)
            made = Token(digest(token), tuple(sorted(given)), self.now)
            return self.keep(book, replace(device, token=made)), token

    def revoke(self, device_id: str, by: Principal, role: str = "operator") -> Device:
        with self.changing() as book:
            return self.keep(book, replace(_own(book, device_id, by, role), token=None))

    def seen(self, device: Device) -> None:
        if self.now - device.last_seen_at_ms > SEEN_MS:
            with self.changing() as book:
                if device.device_id in book.of(device.role):
                    self.keep(book, replace(book.of(device.role)[device.device_id], last_seen_at_ms=self.now))

    @contextmanager
    def changing(self) -> Iterator[Book]:
        ensure_dir(self._path.parent)
        lock = self._path.with_name(f"{self._path.name}.lock")
        held = OwnerLock.acquire(lock, purpose="devices", now=self._clock.now(), wait=PATIENCE)
        try:
            yield self.read()
        finally:
            held.release()

    def keep(self, book: Book, device: Device) -> Device:
        book.of(device.role)[device.device_id] = device
        self.write(book)
        return device

    def write(self, book: Book) -> None:
        write_atomic(self._path, msgspec.json.format(msgspec.json.encode(book)))


def _waiting(book: Book, request_id: str) -> Pending:
    wish = book.pending.get(request_id)
    if wish is None:
        raise Refused(f"no pairing request {single_line(request_id, 80)} waits")
    return wish


def _same(one: Pending, other: Pending) -> bool:
    return (one.device_id, one.role) == (other.device_id, other.role)


def _own(book: Book, device_id: str, by: Principal, role: str = "") -> Device:
    """Return a device that the caller may change: any for an administrator, else the caller's own."""
    device = book.of(role or "operator").get(device_id) or (None if role else book.nodes.get(device_id))
    if device is None:
        raise Refused(f"no device {single_line(device_id, 80)} is paired")
    if not by.may(ADMIN) and device_id != by.device_id:
        raise _missing(ADMIN)
    return device


def _missing(*scopes: str) -> Refused:
    details = {"code": "MISSING_SCOPE", "missingScope": scopes[0], "requiredScopes": list(scopes)}
    return Refused(f"missing scope: {scopes[0]}", Code.FORBIDDEN, details=details)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def setup_code_of(url: str, token: str) -> str:
    """Return an invitation as phones read it: where the gateway is, and a token that opens the door once."""
    said = msgspec.json.encode({"url": url, "bootstrapToken": token})
    return base64.urlsafe_b64encode(said).decode().rstrip("=")


def shown(device: Device) -> dict[str, Any]:
    """Return a device as people may see it."""
    built: dict[str, Any] = msgspec.to_builtins(device)
    built.pop("token", None)
    token = device.token
    facts = {"role": device.role, "scopes": token.scopes, "createdAtMs": token.created_at_ms} if token else None
    return built | {"roles": [device.role], "tokens": [facts] if facts else []}


def _device_refused(code: str, message: str) -> Refused:
    return Refused(message, details={"code": code})


def _unpadded(text: str) -> bytes:
    if not text.isascii() or len(text) > 200:
        raise ValueError("not a key")
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)


def _plain(text: str) -> str:
    return "".join(chr(ord(char) + 32) if "A" <= char <= "Z" else char for char in text.strip())
