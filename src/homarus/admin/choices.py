"""Which models a person could choose right now, best first, each with the reason why it is offered."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import Unknown, installing
from homarus.models.access import Models, can_run_files
from homarus.models.discover import Found, discover, probe
from homarus.models.gguf import find_models
from homarus.models.ref import split_ref
from homarus.models.registry import LOCAL
from homarus.models.select import AUTO
from homarus.net.client import http_target
from homarus.net.errors import Refused

NOTEBOOK = "builtin/notebook"
MAX_CHOICES = 9
PATIENCE = 10.0  # seconds for a server that somebody named: it may be far away, or busy


# Shown to somebody who has no key yet: who they could ask for one, in this order.
WITHOUT_KEY = ("anthropic", "openai", "google", "openrouter")
_CHEAP, _DEAR = 2.0, 20.0  # dollars for a million tokens of answers


class Choice(Struct, frozen=True):
    """A model, or the address of a server that has not told its models yet, and why it is offered."""

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
        servers = await discover(models.http, models.catalog, locked=True)
        for server in servers:
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
    locked = [Choice(each.base_url, "a server there wants a key, asked for next") for each in servers if each.wants_key]
    return [*offered, *locked, *asked]


def how_to_run_one(models: Models, choices: Sequence[Choice]) -> str:
    """Return how to get a model on this machine where none was found, and that a server may be named by its address."""
    known = models.catalog
    local = [name for name in known.providers() if known.provider(name).local and known.provider(name).base_url]
    address = "or write the address of a model server of yours (http://host:port/v1)"
    if any(is_address(choice.ref) or choice.ref.partition("/")[0] in {*local, LOCAL} for choice in choices):
        return address
    names = ", ".join(known.provider(name).name for name in local)
    return (
        f"No model runs on this machine yet: start a server ({names}), put a .gguf file into {models.config.paths.models_dir},"
        f" or fetch one with 'homarus models pull', and come back; {address}"
    )


def is_address(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


async def served_at(models: Models, address: str, key: str = "") -> Found:
    """Ask a server of somebody's own for its models, under a name that no other provider has. Raises Unknown.

    One that wants a key, or another than this one, says that and names none.
    """
    base = address.rstrip("/")
    found: Found | None = None
    try:
        http_target(base)
        # Most servers speak below /v1, and most people leave it out.
        for url in [base] if base.endswith("/v1") else [base, f"{base}/v1"]:
            asked = await probe(models.http, "", url, PATIENCE, key=key)
            found = asked if asked and (found is None or asked.chat_models) else found
            if found is not None and (found.chat_models or found.wants_key):
                break
    except Refused as wrong:
        raise Unknown(str(wrong), cure="write it like http://127.0.0.1:8080/v1") from wrong
    finally:
        await models.aclose()
    if found is None or not (found.chat_models or found.wants_key):
        why = "answers with no model to talk to" if found else "does not say which models it has"
        raise Unknown(f"{base} {why}", cure="check that it runs; the address of most servers ends in /v1")
    return replace(found, provider=_free_name(models, found.base_url))


def entry_for(server: Found) -> dict[str, object]:
    """Return what `models.providers` says of such a server: its address and its models, as far as it tells."""
    rows = [{"id": each.id} | ({"contextWindow": each.window} if each.window else {}) for each in server.chat_models]
    return {"baseUrl": server.base_url, "models": rows}


def _free_name(models: Models, base: str) -> str:
    taken = set(models.catalog.providers())
    names = (f"own{number}" if number > 1 else "own" for number in itertools.count(1))
    return next(name for name in names if name not in taken or models.catalog.provider(name).base_url == base)


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
