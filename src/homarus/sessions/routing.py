"""From a message and the settings to the session it belongs to. Pure: who may talk at all was decided before."""

from __future__ import annotations

from homarus.core.messages import Inbound
from homarus.core.routes import Route, SessionKey, SessionKind, chat_session, direct_session, main_session
from homarus.sessions.settings import SessionSettings

_KINDS = {"group": SessionKind.GROUP, "channel": SessionKind.CHANNEL, "room": SessionKind.ROOM}
# Platforms whose groups have numbered topics; a thread anywhere else is a thread.
_TOPICS = frozenset({"telegram"})


def session_for(inbound: Inbound, agent_id: str, settings: SessionSettings) -> SessionKey:
    """Return the key of the conversation that a message is part of."""
    if settings.scope == "global":
        return SessionKey.parse("global", default_agent=agent_id)
    kind = _KINDS.get(inbound.chat_type)
    if kind is None:
        base = direct_session(
            agent_id,
            inbound.channel,
            inbound.sender or inbound.peer,
            account=inbound.account,
            scope=settings.dm_scope,
            links=settings.identity_links,
            main_key=settings.main_key,
        )
        return base.with_thread(inbound.thread) if inbound.thread else base
    if settings.group_scope == "main":
        return main_session(agent_id, settings.main_key)
    base = chat_session(agent_id, inbound.channel, kind, inbound.peer)
    if not inbound.thread:
        return base
    if kind is SessionKind.GROUP and inbound.channel.lower() in _TOPICS:
        return base.with_topic(inbound.thread)
    return base.with_thread(inbound.thread)


def route_for(inbound: Inbound, agent_id: str, settings: SessionSettings) -> Route:
    """Return where a message came from and where its answer goes: back to where it came from, always."""
    key = session_for(inbound, agent_id, settings)
    to = inbound.peer or inbound.sender
    return Route(key.agent_id, key, inbound.channel, inbound.account, to, inbound.thread)
