"""What a channel, a chat in it and whoever speaks there take away from the tools of a turn. Pure.

`channels.<channel>.tools` holds for the whole channel, `.accounts.<account>.tools` for one account of it, and below both
`groups` (or `channels`) and `direct` (or `dms`) name chats by their id, `*` all others, and `guilds` whole servers with
`channels` of their own. A chat has `tools`, `toolsBySender` for single people, and `topics` with the same. A block that
cannot be read leaves no tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from homarus.config.convert import convert
from homarus.core.routes import Route
from homarus.tools.policy import Layer, Rules, sender_layers

_SHARED, _DIRECT = ("groups", "channels"), ("direct", "dms")


class _Place(Struct, frozen=True, rename="camel"):
    """The rules of a channel, of an account, or of a chat; only a chat has senders."""

    tools: Rules = Rules()
    tools_by_sender: dict[str, Rules] = {}

    @classmethod
    def disabled(cls) -> _Place:
        """Rules that cannot be read leave nothing."""
        return cls(Rules.disabled())


class _Unreadable(Exception):
    """Something stands where a table of places should be."""


def channel_layers(channels: Any, route: Route, senders: tuple[str, ...], chat_type: str) -> tuple[Layer, ...]:
    """Return the layers for a turn that answers these senders in this place; most homes have none.

    The kind of chat is the message's own: a group may speak into the main session, and its rules come with it.
    """
    if not route.channel or not isinstance(channels, Mapping) or route.channel not in channels:
        return ()
    channel = channels[route.channel]
    try:
        # A channel can be switched on by a plain `true`.
        kinds = _DIRECT if chat_type == "direct" else _SHARED
        return tuple(_layers({} if isinstance(channel, bool) else _table(channel), route, senders or ("",), kinds))
    except _Unreadable:
        return (Layer(f"{route.channel} tools", Rules.disabled()),)


def _layers(
    channel: Mapping[str, Any], route: Route, senders: tuple[str, ...], kinds: tuple[str, ...]
) -> Iterator[Layer]:
    account = _table(_table(channel.get("accounts")).get(route.account))
    for place in (channel, account):
        yield Layer(f"{route.channel} tools", _place(place).tools)
        for kind in kinds:
            # On IRC `channels` lists the rooms to join; the rules for them stand in `groups`.
            given = None if kind == "channels" and isinstance(place.get(kind), list) else place.get(kind)
            found = _named(given, route.session_key.peer, route.to, route.parent)
            yield from _chat(f"{route.channel} {kind}", found, senders)
            if kinds is _SHARED and isinstance(found, Mapping):
                yield from _chat(f"{route.channel} topics", _named(found.get("topics"), route.thread), senders)
        if kinds is _SHARED:
            guild = _named(place.get("guilds"), route.space)
            yield from _chat(f"{route.channel} guilds", guild, senders)
            if isinstance(guild, Mapping):
                inner = _named(guild.get("channels"), route.session_key.peer, route.to, route.parent)
                yield from _chat(f"{route.channel} guilds", inner, senders)


def _named(given: Any, *names: str) -> Any:
    """Return the entry of a table that names a place, by the first of its names; else that of all others."""
    chats = {str(name).strip().lower(): chat for name, chat in _table(given).items()}
    return next((chats[name.lower()] for name in names if name and name.lower() in chats), chats.get("*"))


def _chat(label: str, found: Any, senders: tuple[str, ...]) -> Iterator[Layer]:
    chat = _place(found)
    by_sender = {_plain(name): rules for name, rules in chat.tools_by_sender.items()}
    for sender in senders:
        yield from sender_layers(label, chat.tools, by_sender, _plain(sender))


def _place(value: Any) -> _Place:
    return convert({} if value is None else value, _Place, lambda _path, _reason: None)


def _plain(sender: str) -> str:
    """Return a sender as it is compared: `id:`, `@` and `+` say nothing about who it is."""
    return sender.strip().lower().removeprefix("id:").lstrip("@+")


def _table(value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise _Unreadable
    return value or {}
