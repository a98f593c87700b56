"""What somebody may do, as scopes that a table names. Scopes only narrow, and what no table names is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from homarus.gateway.protocol import Code, Refused

READ, WRITE, ADMIN = "operator.read", "operator.write", "operator.admin"
APPROVALS, QUESTIONS, PAIRING = "operator.approvals", "operator.questions", "operator.pairing"
TALK, TALK_SECRETS, SESSIONS_WRITE = "operator.talk", "operator.talk.secrets", "operator.sessions.write"
# Not a scope that anybody is granted: what a connected node has, and nobody else.
NODE = "node"
ALL = frozenset({READ, WRITE, ADMIN, APPROVALS, QUESTIONS, PAIRING, TALK, TALK_SECRETS, SESSIONS_WRITE})
_HINT = "approve this device with 'homarus devices approve', or let gateway.auth.secretScopes give more"
_IMPLIES = {ADMIN: ALL, WRITE: frozenset({READ, TALK, SESSIONS_WRITE})}

# Who hears of what; an event that no line names is told to nobody.
EVENTS: dict[str, str] = {
    **dict.fromkeys(("tick", "presence", "heartbeat", "health", "shutdown"), ""),
    **dict.fromkeys(("agent", "chat", "session.message", "session.tool", "sessions.changed", "cron", "task"), READ),
    "page.event": READ,
    **dict.fromkeys(("config.changed", "skills.changed", "chat.metadata.changed", "models.snapshot"), READ),
    **dict.fromkeys(("exec.approval.requested", "exec.approval.resolved"), APPROVALS),
    **dict.fromkeys(("device.pair.requested", "device.pair.resolved"), PAIRING),
    **dict.fromkeys(("node.pair.requested", "node.pair.resolved"), PAIRING),
    "node.presence": READ,
}


class Principal(Struct, frozen=True):
    """Who is asking. Only a transport makes one, from a credential; nothing in a request can change it."""

    scopes: frozenset[str]
    method: str  # how it was proved: local, token, password, device-token, trusted-proxy
    device_id: str = ""
    user: str = ""
    # A digest of the secret that proved it: when the secret changes, this principal is nobody.
    proof: str = ""
    role: str = "operator"

    def may(self, scope: str) -> bool:
        return not scope or (self.role == "node" if scope == NODE else scope in self.scopes)


def implied(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes that are known, with everything that they imply."""
    known = ALL.intersection(scopes)
    return known.union(*(_IMPLIES.get(scope, ()) for scope in known))


def narrowed(asked: Iterable[str], allowed: Iterable[str]) -> frozenset[str]:
    """Return what is both asked for and allowed: never more than either."""
    return implied(asked) & implied(allowed)


def require(principal: Principal, scope: str) -> None:
    """Raise Refused unless the principal holds a scope."""
    if not principal.may(scope):
        details = {"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope], "remediationHint": _HINT}
        raise Refused(f"missing scope: {scope}", Code.FORBIDDEN, details=details)
