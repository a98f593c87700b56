"""What a platform can show, as data, and what a channel is given to show there."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homarus.core.messages import Poll


class Place(Struct, frozen=True, rename="camel"):
    """What a platform can show. Part of a channel's manifest; the settings of a channel may narrow it."""

    # The longest text of one message, counted in `unit`; `lines` is a softer border where a platform folds long messages.
    limit: int = 4000
    unit: Literal["characters", "utf16", "bytes"] = "characters"
    lines: int = 0
    # Whether a long paragraph begins in the message before it (`length`) or in one of its own (`newline`).
    chunk_mode: Literal["length", "newline"] = "length"
    caption: int = 1024
    # The name in `delivery.format.dialects` of what the platform reads.
    dialect: str = "plain"
    tables: Literal["code", "bullets", "off"] = "bullets"
    edit: bool = False
    delete: bool = False
    react: bool = False
    typing: bool = False
    threads: bool = False
    replies: bool = False
    buttons: bool = False
    # How many answers a poll of the platform's own may have, and how long one may be; 0: there are none.
    polls: int = 0
    poll_chars: int = 100
    media: bool = False
    voice: bool = False
    media_bytes: int = 20_000_000
    # A second `send` with the same key shows nothing new. Where this is false, a send that a crash cut off is in doubt.
    repeatable: bool = False


class Style(Struct, frozen=True):
    """A run of text in a style, in UTF-16 units, for platforms that take ranges instead of markup."""

    start: int
    length: int
    style: str
    url: str = ""


class Button(Struct, frozen=True):
    """Something to tap: it comes back as a message whose `command` is `value`."""

    label: str
    value: str


class Piece(Struct, frozen=True):
    """What a platform shows as one message: text in its own dialect, or one file with a caption."""

    text: str = ""
    # The same words without markup, for a platform that refuses the markup.
    plain: str = ""
    styles: tuple[Style, ...] = ()
    # A file that was checked to lie where the agent may take files from.
    file: str = ""
    as_voice: bool = False
    buttons: tuple[tuple[Button, ...], ...] = ()
    poll: Poll | None = None
