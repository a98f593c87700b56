"""What an agent's configuration says about its turns, with all defaults in one place."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homarus.agent.budget import Budgets


class TurnSettings(Struct, frozen=True, rename="camel"):
    """Keys of `agents.defaults` (and of an agent's own entry). Everything else in that block belongs to others."""

    # What happens to a turn that a crash cut off, when its session is opened again.
    resume: Literal["continue", "end"] = "continue"
    # Zero means no bound; nothing is bounded unless somebody says so.
    budget: Budgets = Budgets()
