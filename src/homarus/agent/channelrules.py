"""What a channel, a chat in it and whoever speaks there take away from the tools of a turn. Pure.

`channels.<channel>.tools` holds for the whole channel, `.accounts.<account>.tools` for one account of it, and below both
`groups` (or `channels`) and `direct` (or `dms`) name chats by their id, `*` all others. A chat has `tools`, and
`toolsBySender` for single people. A block that cannot be read leaves next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from homarus.core.routes import Route
from homarus.tools.policy import Layer, Rules, sender_layers

_CHATS = {"group": ("groups", "channels"), "thread": ("groups", "channels"), "direct": ("direct", "dms")}
_BROKEN = Rules(profile="minimal")


def channel_layers(channels: Any, route: Route, senders: tuple[str, ...]) -> tuple[Layer, ...]:
    """Return the layers for a turn that answers these senders in this place; most homes have none."""
    if not route.channel or not isinstance(channels, Mapping) or route.channel not in channels:
        return ()
    return tuple(_layers(_object(channels[route.channel]), route, senders or ("",)))


def _layers(channel: Mapping[str, Any], route: Route, senders: tuple[str, ...]) -> Iterator[Layer]:
    account = _object(_object(channel.get("accounts")).get(route.account))
    for place in (channel, account):
        if "tools" in place:
            yield Layer(f"{route.channel} tools", _rules(place["tools"]), strict=True)
        for kind in _CHATS[route.session_key.chat_type]:
            chats = {str(name).lower(): chat for name, chat in _object(place.get(kind)).items()}
            chat = _object(chats.get(route.session_key.peer.lower(), chats.get(route.to.lower(), chats.get("*"))))
            by_sender = {_plain(str(name)): _rules(each) for name, each in _object(chat.get("toolsBySender")).items()}
            rules = _rules(chat["tools"]) if "tools" in chat else None
            for sender in senders:
                yield from sender_layers(f"{route.channel} {kind}", rules, by_sender, _plain(sender))


def _plain(sender: str) -> str:
    """Return a sender as it is compared: `id:`, `@` and `+` say nothing about who it is."""
    return sender.strip().lower().removeprefix("id:").lstrip("@+")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rules(value: Any) -> Rules:
    try:
        return msgspec.convert(value, Rules)
    except msgspec.ValidationError:
        return _BROKEN
