"""Which models a person could choose right now, best first, each with the reason why it is offered."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.models.access import Models
from homarus.models.discover import discover
from homarus.models.select import AUTO

NOTEBOOK = "builtin/notebook"
MAX_CHOICES = 9


class Choice(Struct, frozen=True):
    """A model, and why it is offered."""

    ref: str
    why: str


async def model_choices(config: Config, env: Mapping[str, str], clock: Clock, current: str = "") -> list[Choice]:
    """Return what is set now, `auto` and what it would take, every provider with a key, servers on this machine, the notebook."""
    models = Models(config, env, clock=clock)
    agent = config.default_agent
    found: dict[str, str] = {current: "set now"} if current else {}
    try:
        picked = await models.auto(agent)
        found.setdefault(AUTO, f"takes the best there is, now {picked.ref.key}: {picked.why}")
        for provider in models.catalog.providers():
            known = models.catalog.provider(provider)
            keys = [*models.bare_keys(provider), *models.store(agent).credentials(provider)]
            if keys and known.default and not known.local:
                found.setdefault(f"{provider}/{known.default}", f"there is a key for {known.name}")
        for server in await discover(models.http, models.catalog):
            if server.chat_model is not None:
                found.setdefault(f"{server.provider}/{server.chat_model.id}", f"runs at {server.base_url}")
    finally:
        await models.aclose()
    found.pop(NOTEBOOK, None)
    offered = [Choice(ref, why) for ref, why in found.items()][: MAX_CHOICES - 1]
    return [*offered, Choice(NOTEBOOK, "always there: an offline notebook, no language model")]
