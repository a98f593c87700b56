"""Who reads along in a run, and which workspace files may therefore be shown. Pure; asked before and after the hooks."""

from __future__ import annotations

from msgspec import Struct

from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.workspace import names

_MINIMAL = frozenset({"agents.md", "tools.md"})
_PERSONA = frozenset({"soul.md", "identity.md", "user.md"})
_ONE_TO_ONE = frozenset({"direct", "dm"})
_SHARED_CHATS = frozenset({"group", "channel", "room"})


class Audience(Struct, frozen=True):
    """Who reads along: the session, who wrote the newest message, and in what kind of chat.

    Whoever makes one says what is known. What is not known gives fewer rights, never more.
    """

    session: SessionKey | None = None
    trust: Trust | None = None
    chat_type: str = ""
    heartbeat: bool = False
    # Heartbeat `lightContext` and cron `--light-context`.
    light: bool = False
    cron_persona: bool = False

    @property
    def shared(self) -> bool:
        """Say whether several people read along; a group may also speak into the main session."""
        return self.chat_type in _SHARED_CHATS or (self.session is not None and self.session.is_shared)

    @property
    def owner_alone(self) -> bool:
        """Say whether the owner wrote this and nobody else reads the answer."""
        return self.trust is Trust.OWNER and self.chat_type in _ONE_TO_ONE and not self.shared

    @property
    def sees_memory(self) -> bool:
        """Say whether long-term memory may be shown: only to the owner, in a private session that is no helper's."""
        return self.owner_alone and not self.narrow and self.session is not None and self.session.is_private_main

    @property
    def narrow(self) -> bool:
        """Say whether this is a child or a scheduled job, which get the working rules alone."""
        return self.session is not None and (self.session.is_subagent or self.session.is_cron)

    def may_see(self, name: str) -> bool:
        base = names.base_of(name)
        if self.light:
            return self.heartbeat and base == names.HEARTBEAT.lower()
        if self.narrow:
            persona = self.cron_persona and self.session is not None and self.session.is_cron
            return base in _MINIMAL or (persona and base in _PERSONA)
        if base == names.HEARTBEAT.lower():
            # A list of private tasks: for the owner, and for the run that works on it.
            return self.heartbeat or self.owner_alone
        return self.sees_memory if names.is_memory(base) else True
