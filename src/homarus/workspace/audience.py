"""Who reads along in a run, and which workspace files may therefore be shown. Pure; asked before and after the hooks."""

from __future__ import annotations

from msgspec import Struct

from homarus.core.routes import SessionKey
from homarus.workspace import names

_MINIMAL = frozenset({"agents.md", "tools.md"})
_PERSONA = frozenset({"soul.md", "identity.md", "user.md"})
_SHARED_CHATS = frozenset({"group", "channel", "room"})


class Audience(Struct, frozen=True):
    """The session and the kind of run. `private` vouches for a session whose key does not tell."""

    session: SessionKey | None = None
    chat_type: str = ""
    private: bool = False
    heartbeat: bool = False
    # Heartbeat `lightContext` and cron `--light-context`.
    light: bool = False
    cron_persona: bool = False

    @property
    def shared(self) -> bool:
        """Say whether several people read along; a group may also speak into the main session."""
        return self.chat_type in _SHARED_CHATS or (self.session is not None and self.session.is_shared)

    @property
    def sees_memory(self) -> bool:
        """Say whether long-term memory may be shown: only where one approved person reads along."""
        if self.shared or self.narrow:
            return False
        return self.private or (self.session is not None and self.session.is_private_main)

    @property
    def narrow(self) -> bool:
        """Say whether this is a child or a scheduled job, which get the working rules alone."""
        return self.session is not None and (self.session.is_subagent or self.session.is_cron)

    def may_see(self, name: str) -> bool:
        """Say whether a file of this name may be shown here."""
        base = names.base_of(name)
        if self.light:
            return self.heartbeat and base == names.HEARTBEAT.lower()
        if self.narrow:
            persona = self.cron_persona and self.session is not None and self.session.is_cron
            return base in _MINIMAL or (persona and base in _PERSONA)
        if base == names.HEARTBEAT.lower():
            # A list of private errands: for the owner's own session and the run that works on it.
            return self.heartbeat or not self.shared
        return self.sees_memory if names.is_memory(base) else True
