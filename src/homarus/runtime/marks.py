"""Small facts that are read off a session key, a message or a session's row. Pure."""

from __future__ import annotations

from homarus.core.messages import Inbound
from homarus.core.routes import Route, SessionKey, SessionKind


def route_of(key: SessionKey, inbound: Inbound) -> Route:
    """Return where the answer to a message goes: back to where it came from."""
    return Route(key.agent_id, key, inbound.channel, inbound.account, inbound.peer or inbound.sender, inbound.thread)


def lane_of(key: SessionKey) -> str:
    """Return the global lane in which a session's turns wait for a place."""
    if key.kind is SessionKind.HEARTBEAT:
        return "background"  # it never keeps a reply waiting
    return "subagent" if key.is_subagent else "cron-nested" if key.is_cron else "main"
