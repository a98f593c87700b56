"""What every chat platform gives and takes. A platform is one folder: a manifest of data and an adapter that fills `Channel`.

The adapter translates and nothing more. Who may talk, which session it is, what is said and when it is sent again is
decided outside, once for all platforms. Nothing of a platform's library is imported before one of its accounts starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from homarus.core.messages import Inbound, Media, Outbound
from homarus.delivery.place import Piece, Place


class Setting(Struct, frozen=True, rename="camel"):
    """A key of an account's block beyond those that every channel has."""

    type: Literal["string", "number", "boolean", "strings", "object"] = "string"
    required: bool = False
    secret: bool = False
    default: Any = None
    # Other keys that stand in for it: where none of them is set, a person who adds the account is asked for it.
    unless: tuple[str, ...] = ()
    # A variable of the environment that stands in for it, on the default account only.
    env: str = ""
    # The words that may stand there; none for any text.
    words: tuple[str, ...] = ()
    help: str = ""


class Manifest(Struct, frozen=True, rename="camel"):
    """`channel.json`: all that the program knows of a platform without importing it."""

    id: str
    label: str
    # `module:function` below the platform's folder; the function takes a `Host` and returns a `Channel`. Plugins register theirs.
    entry: str = ""
    # Modules that must be importable, and the extra of this project that brings them.
    needs: tuple[str, ...] = ()
    extra: str = ""
    # Programs that must be there, with the package that brings each.
    programs: dict[str, str] = {}
    place: Place = Place()
    # Other dialects that its place can be written in, by what the account's `formatting` calls them.
    dialects: dict[str, str] = {}
    # What of its place an account lacks that sets a key, or (`!key`) does not set it, as where a platform has two ways.
    lacks: dict[str, tuple[str, ...]] = {}
    settings: dict[str, Setting] = {}
    # Those of its settings that lead to its server: what to look at when it cannot be reached.
    address: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    # The shortest wait before a request is sent again, in milliseconds.
    retry_ms: int = 500
    # The platform calls us where these keys are set so; '' stands for anything.
    called: dict[str, str] = {}
    # What holds where the settings say nothing: on a number that friends and family have, strangers get no code.
    dm_policy: Literal["pairing", "allowlist"] = "pairing"


class Identity(Struct, frozen=True):
    """Who the agent is on a platform, as its server says."""

    id: str
    name: str = ""
    handle: str = ""
    # What the operator should know of this account, as a restriction that the platform puts on it.
    note: str = ""


class Change(Struct, frozen=True, omit_defaults=True):
    """Something that happened beside messages: an edit, a deletion, a reaction, a group that moved, a call of a button."""

    kind: Literal["edited", "deleted", "reacted", "unreacted", "moved", "joined", "left"]
    channel: str
    peer: str
    message_id: str = ""
    sender: str = ""
    text: str = ""
    account: str = "default"
    chat_type: str = "direct"
    thread: str = ""


class Host(Protocol):
    """What the program gives to one account at work."""

    account: str
    # This account's block over the channel's, secrets resolved.
    settings: Mapping[str, Any]
    # Where the account may keep what it needs to go on: a login, a sync token, an offset. Private and durable.
    folder: Path
    # The program's commands, name and help, for platforms that list them.
    commands: Mapping[str, str]
    # Where platforms call us, by path, on a machine that many homes share; None where an account has a port of its own.
    calls: dict[str, Any] | None

    async def receive(self, inbound: Inbound) -> None:
        """Take a message in. When this returns it is durable, refused or known already: now it may be acknowledged.

        Raises where it could not be kept, as on a full disk: then it must not be acknowledged.
        """
        ...

    async def changed(self, change: Change) -> None: ...

    def connected(self, me: Identity) -> None:
        """Say that the account is up. May be called again after every reconnect."""
        ...

    def troubled(self, what: str, *, cure: str = "") -> None:
        """Say what is wrong at the moment, without giving up."""
        ...


class Channel(Protocol):
    """One account on one platform. Everything but `run` may be called while `run` is running, and only then.

    A call that fails raises `DeliveryError`, which says what can be done about it; the adapter never tries again by itself.
    """

    async def run(self) -> None:
        """Connect, hand over what comes in, reconnect with growing pauses, and stay until cancelled.

        Raises `ChannelError`, fatal where trying again cannot help. Cancelling it leaves nothing behind.
        """
        ...

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        """Show one piece and return the platform's id of it. `key` is the same for the same piece, also after a restart."""
        ...

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None: ...

    async def delete(self, message: Outbound, sent: str) -> None: ...

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None: ...

    async def typing(self, message: Outbound) -> None:
        """Show for a few seconds that somebody is writing. Failures are the adapter's own affair."""
        ...

    def fetch(self, media: Media) -> AsyncIterator[bytes]:
        """Yield the bytes of a file that came with an admitted message."""
        ...

    async def probe(self) -> Identity:
        """Ask the platform who this account is, with a request of its own. Works without `run`."""
        ...

    async def directory(self, query: str) -> list[Identity]:
        """Return people and groups that the account can write to, as far as the platform says."""
        ...
