"""Which conversations a turn may see: its own, its tree, its agent's, or all. Pure.

The word is `tools.sessions.visibility`. Without it a session sees its own tree, and the owner in the main session sees
all of the agent. Other agents are seen only with the word `all` and a rule in `tools.agentToAgent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from homarus.core.messages import Trust
from homarus.core.routes import SessionKey, SessionKind

# Sessions in which nobody but the owner and the agent writes, as in one that has a plain name. Reading any other one is
# reading strangers.
_OWN = frozenset({SessionKind.MAIN, SessionKind.EXPLICIT, SessionKind.DASHBOARD})
_MAX_DEPTH = 32


class Scope(StrEnum):
    """How far a turn sees."""

    SELF = "self"
    TREE = "tree"
    AGENT = "agent"
    ALL = "all"


class PeerSettings(Struct, frozen=True, rename="camel"):
    """`tools.agentToAgent`: which agents may see and address each other. Off unless it is switched on and names them."""

    enabled: bool = False
    allow: tuple[str, ...] = ()

    @classmethod
    def disabled(cls) -> PeerSettings:
        """A block that cannot be read must not open anything."""
        return cls()

    def joins(self, one: str, other: str) -> bool:
        """Say whether two agents may deal with each other."""
        return one == other or (self.enabled and all(self._names(agent) for agent in (one, other)))

    def _names(self, agent_id: str) -> bool:
        return any(fnmatchcase(agent_id, pattern.strip().lower()) for pattern in self.allow)


class VisibilitySettings(Struct, frozen=True, rename="camel"):
    """`tools.sessions`."""

    visibility: Scope | None = None

    @classmethod
    def disabled(cls) -> VisibilitySettings:
        """A block that cannot be read must not open anything."""
        return cls(Scope.SELF)


class SessionVisibility(Struct, frozen=True):
    """What one turn sees."""

    viewer: SessionKey
    scope: Scope
    peers: PeerSettings = PeerSettings()

    def sees(self, target: SessionKey, parents: Mapping[str, str]) -> bool:
        """Say whether a session is in sight; `parents` names the session that started another one."""
        if target == self.viewer:
            return True
        if self.scope is Scope.SELF:
            return False
        if self._descends(target, parents):
            return True
        if self.scope is Scope.TREE:
            return False
        if target.agent_id == self.viewer.agent_id:
            return True
        return self.scope is Scope.ALL and self.peers.joins(self.viewer.agent_id, target.agent_id)

    def _descends(self, target: SessionKey, parents: Mapping[str, str]) -> bool:
        own, name = str(self.viewer), str(target)
        for _ in range(_MAX_DEPTH):
            name = parents.get(name, "")
            if name == own:
                return True
            if not name:
                return False
        return False


def scope_of(wanted: Scope | None, viewer: SessionKey, trust: Trust, *, confined: bool) -> Scope:
    """Return how far a turn sees. `confined` is a sandboxed turn outside of the main session: it never sees past its tree."""
    at_home = viewer.is_main and trust is Trust.OWNER
    scope = wanted or (Scope.AGENT if at_home else Scope.TREE)
    if scope in {Scope.AGENT, Scope.ALL} and not at_home and (confined or trust is not Trust.OWNER):
        return Scope.TREE
    return scope


def is_foreign(key: SessionKey) -> bool:
    """Say whether others than the owner have written in a session, or may have: what it holds is not to be trusted."""
    named = key.kind is SessionKind.OTHER and ":" not in key.peer
    return key.kind not in _OWN and not named
