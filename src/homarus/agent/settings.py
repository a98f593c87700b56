"""What an agent's configuration says about its turns, with all defaults in one place."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from homarus.agent.budget import Budgets


class TurnSettings(Struct, frozen=True, rename="camel"):
    """Keys of `agents.defaults` (and of an agent's own entry). Everything else in that block belongs to others."""

    # What happens to a turn that a crash cut off, when its session is opened again.
    resume: Literal["continue", "end"] = "continue"
    # How long a turn may take. January 2026; today's OpenClaw allows two days. Zero means no bound.
    timeout_seconds: Annotated[float, Meta(ge=0)] = 600.0
    # How many turns run at once, over all sessions; unset means as many as the global lane has places.
    max_concurrent: Annotated[int, Meta(ge=1)] | None = None
    # Zero means no bound; nothing is bounded unless somebody says so.
    budget: Budgets = Budgets()
