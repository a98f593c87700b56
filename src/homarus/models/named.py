"""Whether the names of models in a configuration mean one: said alike by its check, by what writes it, and by the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from homarus.config.keypath import KeyPath
from homarus.config.known import near
from homarus.config.report import Severity
from homarus.config.view import AgentConfig, Config
from homarus.core.errors import ConfigError
from homarus.models.catalog import Catalog, providers_of
from homarus.models.ref import NOTEBOOK, ModelRef, Names, build_names, split_ref
from homarus.models.registry import BUILTIN, LOCAL
from homarus.models.select import AUTO
from homarus.models.settings import ModelsSettings

# Where a model may be named in the settings of an agent.
_MODELS = (("model",), ("imageModel",), ("subagents", "model"), ("heartbeat", "model"))


class Doubt(Struct, frozen=True):
    """Why a name may mean no model. An error means none for sure; what is only unknown may be new, or a plugin's."""

    severity: Severity
    message: str
    cure: str


def names_of(agent: AgentConfig, catalog: Catalog, *, listed: bool = True) -> Names:
    """Return what names mean for an agent; not `listed` leaves out what only its own map of models has."""
    models = agent.get("models") if listed else None
    primary = split_ref(str(agent.get("model.primary") or ""))
    provider = primary.provider if primary else ""
    return build_names(models if isinstance(models, dict) else {}, catalog.configured(), provider, catalog.known)


def doubt(config: Config, names: Names, catalog: Catalog, text: str) -> Doubt | None:
    """Return what is wrong with a name, or nothing. Nobody is asked."""
    if not text.strip() or text.strip() == AUTO or "${" in text:
        return None
    try:
        found = names.resolve(text)
    except ConfigError as problem:
        return Doubt("error", problem.message, problem.cure)
    ref, known = found.ref, providers_of(config) | {BUILTIN, LOCAL}
    if ref.provider == BUILTIN and ref.key != NOTEBOOK:
        return Doubt("error", f"there is no model '{ref.key}'", f"did you mean {NOTEBOOK}?")
    if ref.provider not in known:
        meant = near(ref.provider, known)
        cure = f"did you mean '{meant}/{ref.model}'?" if meant else f"set models.providers.{ref.provider}.baseUrl"
        return Doubt("warning", f"there is no provider '{ref.provider}' here", cure)
    if found.warning:
        message, _, cure = found.warning.partition("; ")
        return Doubt("warning", message, cure)
    if meant := "" if ref.key in names.configured else nearly(catalog, ref):
        return Doubt("warning", f"{ref.provider} has no model '{ref.model}'", f"did you mean {ref.provider}/{meant}?")
    return None


def nearly(catalog: Catalog, ref: ModelRef) -> str:
    """Return the model of a provider that another name with a slip in it means. A number in it makes a new one of a model."""
    listed = {info.id for info in catalog.models(ref.provider)}
    return near(ref.model, listed) if ref.model not in listed and not any(c.isdigit() for c in ref.model) else ""


def check(config: Config) -> None:
    """Report every name of a model in the settings of the agents that means none, or perhaps none."""
    catalog = Catalog(config.block("models", ModelsSettings))
    owners: list[tuple[KeyPath, AgentConfig]] = [(("agents", "defaults"), config.default_agent)]
    owners += [(("agents", "entries", agent.id), agent) for agent in config.agents]
    for owner, agent in owners:
        names = names_of(agent, catalog)
        named = [each for steps in _MODELS for each in _names_in(config.lookup((*owner, *steps)), (*owner, *steps))]
        listed = config.lookup((*owner, "models"))
        keys = [key for key in listed if not key.strip().endswith("*")] if isinstance(listed, dict) else []
        own = names_of(agent, catalog, listed=False)
        for path, name, among in [
            *((path, name, names) for path, name in named),
            *(((*owner, "models", key), key, own) for key in keys if split_ref(key)),
        ]:
            if found := doubt(config, among, catalog, name):
                config.report(found.severity, path, found.message, found.cure)


def _names_in(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    for key in ("primary", "fallbacks") if isinstance(value, dict) else ():
        inner = value.get(key)
        yield from _names_in(inner, (*path, key))
        for index, name in enumerate(inner if isinstance(inner, list) else ()):
            yield from _names_in(name, (*path, key, index))
