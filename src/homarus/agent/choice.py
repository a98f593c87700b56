"""The model that a session's row asks for. Pure."""

from __future__ import annotations

from homarus.core.routes import SessionKey
from homarus.models.select import Override
from homarus.sessions.row import SessionEntry


def stored_override(entry: SessionEntry, key: SessionKey) -> Override | None:
    """Return the model that was chosen for a session, if one was.

    An older OpenClaw also stored the fallback that it had come to. Here a fallback holds for its turn, so the first choice
    is tried again with the next one.
    """
    if not entry.model_override or (entry.model_override_source == "auto" and not key.is_subagent):
        return None
    provider = f"{entry.provider_override}/" if entry.provider_override else ""
    return Override(f"{provider}{entry.model_override}", entry.model_override_source or "user")
