"""Which models a person could choose right now, best first, each with the reason why it is offered."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import installing
from homarus.models.access import Models, can_run_files
from homarus.models.discover import discover
from homarus.models.gguf import find_models
from homarus.models.ref import split_ref
from homarus.models.select import AUTO

NOTEBOOK = "builtin/notebook"
MAX_CHOICES = 9


# Shown to somebody who has no key yet: who they could ask for one, in this order.
WITHOUT_KEY = ("anthropic", "openai", "google", "openrouter")
_CHEAP, _DEAR = 2.0, 20.0  # dollars for a million tokens of answers


class Choice(Struct, frozen=True):
    """A model, and why it is offered."""

    ref: str
    why: str


async def model_choices(config: Config, env: Mapping[str, str], clock: Clock, current: str = "") -> list[Choice]:
    """Return what is set now, `auto`, every provider with a key, servers and files on this machine, the notebook, and who sells keys."""
    models = Models(config, env, clock=clock)
    agent = config.default_agent
    found: dict[str, str] = {current: "set now"} if current else {}
    try:
        picked = await models.auto(agent)
        best = f"the best there is, now {picked.ref.key}: {picked.why}"
        found[AUTO] = f"set now: {best}" if current == AUTO else best
        for provider in models.catalog.providers():
            known = models.catalog.provider(provider)
            keys = [*models.bare_keys(provider), *models.store(agent).credentials(provider)]
            if keys and known.default and not known.local:
                found.setdefault(f"{provider}/{known.default}", f"there is a key for {known.name}")
        for server in await discover(models.http, models.catalog):
            for model in server.chat_models:
                found.setdefault(f"{server.provider}/{model.id}", f"runs at {server.base_url}, costs nothing")
        for path in find_models(config.paths.models_dir):
            first = "" if can_run_files() else f"; first install what runs it: {installing('homarus[local]')}"
            found.setdefault(f"local/{path.stem}", f"a model file of yours, costs nothing{first}")
        sold = [f"{name}/{models.catalog.provider(name).default}" for name in WITHOUT_KEY]
        prices = {ref: price_class(models, ref) for ref in [*found, *sold]}
    finally:
        await models.aclose()
    found.pop(NOTEBOOK, None)
    offered = [Choice(ref, _joined(why, prices[ref])) for ref, why in found.items()][: MAX_CHOICES - 1]
    offered.append(Choice(NOTEBOOK, "always there: an offline notebook, no language model, costs nothing"))
    asked = [Choice(ref, _joined("needs a key, asked for next", prices[ref])) for ref in sold if ref not in found]
    return [*offered, *asked]


def price_class(models: Models, text: str) -> str:
    """Return what a model costs, in a word and in figures; nothing where nobody knows."""
    ref = split_ref(text)
    price = models.info(ref).price if ref else None
    if price is None or not (price.input or price.output):
        return ""
    word = "cheap" if price.output <= _CHEAP else "dear" if price.output > _DEAR else "mid-priced"
    return f"{word}: ${price.input:g} in, ${price.output:g} out per million tokens"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
