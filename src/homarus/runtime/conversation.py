"""What happens to a message before its session's lane: a session past its time, commands, directives, skills.

Every client comes through here, so a command does the same wherever it is typed. What is left for the model goes into
the lane and is durable when `handle` returns. A plain message pays for none of the rest: what reads commands is imported
with the first message that could be one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from homarus.commands.words import is_stop
from homarus.core.messages import Inbound
from homarus.core.routes import SessionKey
from homarus.runtime.runtime import Runtime
from homarus.commands.handled import REFUSED, Handled
from homarus.queue.modes import Overrides
from homarus.sessions.settings import SessionSettings

if TYPE_CHECKING:
    from homarus.runtime.desk import Decider
    from homarus.commands.router import Front


class Conversation:
    """The front of one home."""

    def __init__(self, runtime: Runtime, decider: Decider | None = None) -> None:
        self.runtime = runtime
        self._decider = decider

    @cached_property
    def front(self) -> Front:
        """Return what reads commands, directives and the names of skills."""
        from homarus.commands.router import Front

        return Front(self.runtime, self._decider)

    async def handle(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Handled:
        """Take a message in. A failure of a command is its reply; only a session that cannot be opened raises."""
        if self._is_plain(inbound.text) and not self._expires():
            item = self.runtime.submit(key, inbound, overrides=overrides)
            return Handled(item=item, refused="" if item else REFUSED)
        return await self.front.handle(key, inbound, overrides=overrides)

    def _is_plain(self, text: str) -> bool:
        triggers = self.runtime.config.block("session", SessionSettings).reset_triggers
        return not ("/" in text or "$" in text or text.lstrip().startswith("!") or is_stop(text)) and all(
            each.startswith("/") for each in triggers
        )

    def _expires(self) -> bool:
        """Say whether sessions of this home ever start over by themselves."""
        settings = self.runtime.config.block("session", SessionSettings)
        return bool(settings.reset or settings.reset_by_type or settings.reset_by_channel)
