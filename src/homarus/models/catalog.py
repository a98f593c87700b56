"""Which models and providers are known: the built-in list with the user's own entries laid over it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from homarus.config.keypath import KeyPath
from homarus.config.known import near
from homarus.config.view import Config
from homarus.core.patterns import late
from homarus.models.info import UNKNOWN_WINDOW, ModelInfo, Quirks
from homarus.models.ref import ModelRef, normalize_provider
from homarus.models.settings import ModelSettings, ModelsSettings, ProviderSettings

DATA = Path(__file__).with_name("catalog.json")
# What a model that is said to reason is taken to understand when nobody says which levels.
REASONING_LEVELS = ("off", "low", "medium", "high")
CHAT = "openai-completions"
# What OpenClaw calls the ways in which a thinking level travels.
_ELSEWHERE = {"openai": "effort", "deepseek": "thinking", "zai": "thinking"}
_WORDS_OF = {
    "thinkingFormat": ("effort", "openrouter", "thinking", "thinking+effort", "qwen", "none", *_ELSEWHERE),
    "maxTokensField": ("max_tokens", "max_completion_tokens"),
}
_ADDRESS = late(r"(?i)https?://[^\s/]")


class ProtocolInfo(Struct, frozen=True):
    """A protocol that a module of `providers` speaks; without a module the library of the `providers` extra does."""

    module: str = "pydantic_ai"
    # Names that other programs have for it.
    aliases: tuple[str, ...] = ()
    # How a key is sent where a provider says nothing.
    auth: str = "bearer"
    needs_address: bool = True


_LIBRARY = ProtocolInfo(needs_address=False)


@functools.cache
def _protocols() -> dict[str, ProtocolInfo]:
    return msgspec.convert(_built_in()["protocols"], dict[str, ProtocolInfo])


def protocol(api: str) -> ProtocolInfo:
    return _protocols().get(api, _LIBRARY)


class ProviderInfo(Struct, frozen=True, rename="camel", kw_only=True):
    name: str = ""
    api: str = CHAT
    base_url: str = ""
    auth: str = "bearer"
    env: tuple[str, ...] = ()
    # The model that `auto` takes when this provider has a key.
    default: str = ""
    local: bool = False
    quirks: Quirks = Quirks()


def check(config: Config) -> None:
    """Report providers of the configuration that speak no protocol or have no address that could be called."""
    from homarus.models.providers.pydantic_ai import NAMES

    known = {*_protocols(), *(alias for each in _protocols().values() for alias in each.aliases), *NAMES}
    for name, provider in config.block("models", ModelsSettings).providers.items():
        path = ("models", "providers", name)
        if provider.api and provider.api not in known:
            if meant := near(provider.api, known):
                message = f"'{provider.api}' is no protocol that is known here"
                config.report("error", (*path, "api"), message, f"did you mean '{meant}'?")
            else:
                message = f"'{provider.api}' is not spoken here itself; the 'providers' extra is asked for '{name}'"
                config.report("info", (*path, "api"), message, f"spoken here are {', '.join(_protocols())}")
        if provider.base_url and not _ADDRESS.match(provider.base_url):
            config.report("error", (*path, "baseUrl"), "is no address", "write it like https://host/v1")
        _check_windows(config, path, provider)
        _check_compat(config, provider.compat, (*path, "compat"))
        for index, model in enumerate(provider.models):
            _check_compat(config, model.compat, (*path, "models", index, "compat"))


def _check_windows(config: Config, path: KeyPath, provider: ProviderSettings) -> None:
    """Report windows that say nothing: what holds then is the size that an unknown one has."""
    sizes: list[tuple[KeyPath, int | None]] = [((*path, "contextWindow"), provider.context_window)]
    for place, model in enumerate(provider.models):
        where = (*path, "models", place)
        sizes += [((*where, "contextWindow"), model.context_window), ((*where, "contextTokens"), model.context_tokens)]
    for key, size in sizes:
        if size is not None and size <= 0:
            cure = f"leave it out: unknown ones count {UNKNOWN_WINDOW:,} tokens"
            config.report("warning", key, "is no size of a window and counts for nothing", cure)


def _check_compat(config: Config, compat: dict[str, Any], path: KeyPath) -> None:
    for key, value in compat.items():
        if key not in _QUIRKS and (meant := near(key, _QUIRKS)):
            config.report("warning", (*path, key), "is no key that is known here", f"did you mean '{meant}'?")
        words = _WORDS_OF.get(key, ())
        if isinstance(value, str) and value not in words and (meant := near(value, words)):
            config.report(
                "warning", (*path, key), f"'{value}' is none of {', '.join(words)}", f"did you mean '{meant}'?"
            )


def providers_of(config: Config) -> frozenset[str]:
    """Return every provider that a configuration or the built-in list knows."""
    named = (config.get("models.providers"), _built_in()["providers"], _built_in()["models"])
    return frozenset(normalize_provider(name) for each in named if isinstance(each, dict) for name in each)


def unknown_providers(config: Config, path: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield the keys of a table by provider that name none which is known here, each with the one that is nearly called so."""
    table = config.lookup(path)
    known = providers_of(config)
    for key in table if isinstance(table, dict) else ():
        provider = normalize_provider(key.partition("/")[0])
        if provider not in known:
            yield (*path, key), f"there is no provider '{provider}' here", near(provider, known)


@functools.cache
def _built_in() -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(DATA.read_bytes())
    return data


class Catalog:
    def __init__(self, settings: ModelsSettings | None = None) -> None:
        self.settings = settings or ModelsSettings()
        self._own = {normalize_provider(name): value for name, value in self.settings.providers.items()}
        self._replace = self.settings.mode == "replace"
        self._learned: dict[str, int] = {}
        self._found: dict[str, ModelInfo] = {}
        self._providers: dict[str, ProviderInfo] = {}

    @property
    def updated(self) -> str:
        return str(_built_in()["updated"])

    def _known(self, provider: str) -> dict[str, Any]:
        return {} if self._replace else _built_in()["models"].get(provider, {})

    def learn(self, ref: ModelRef, window: int) -> None:
        """Remember what a server on this machine says about its model, for as long as this process lives."""
        if window > 0:
            self._learned[ref.key] = window
            self._found.pop(ref.key, None)

    def is_told_window(self, ref: ModelRef) -> bool:
        """Say whether the user's own configuration has a model's window."""
        listed = self._listed(ref)
        return bool(self.own_settings(ref.provider).context_window or (listed and listed.context_window))

    def providers(self) -> list[str]:
        """Return all provider ids: built-in ones in their order of preference, then the user's own."""
        known = [] if self._replace else list(_built_in()["providers"])
        return list(dict.fromkeys([*known, *self._own]))

    def own_settings(self, provider: str) -> ProviderSettings:
        return self._own.get(normalize_provider(provider), ProviderSettings())

    def provider(self, provider: str) -> ProviderInfo:
        """Return a provider; an unknown one has no address and is asked for one later, where it is used."""
        name = normalize_provider(provider)
        found = self._providers.get(name)
        if found is None:
            found = self._providers[name] = self._provider(name)
        return found

    def _provider(self, name: str) -> ProviderInfo:
        raw = dict(_built_in()["providers"].get(name, {})) if not self._replace or name not in self._own else {}
        own = self.own_settings(name)
        if own.base_url:
            raw["baseUrl"] = own.base_url
        if own.api:
            raw["api"] = own.api
        named = raw.get("api", CHAT)
        raw["api"] = next((api for api, known in _protocols().items() if named in known.aliases), named)
        raw.setdefault("auth", protocol(raw["api"]).auth)
        if own.auth_header or own.auth in {"token", "oauth"}:
            raw["auth"] = "bearer"
        if own.api == "ollama" and own.base_url and not own.base_url.rstrip("/").endswith("/v1"):
            # Ollama's own protocol lives at the root, the one that is spoken here below /v1.
            raw["baseUrl"] = own.base_url.rstrip("/") + "/v1"
        quirks = {**raw.get("quirks", {}), **_compat(own.compat)}
        if name in self._own and "env" not in raw:
            raw["env"] = [name.upper().replace("-", "_").replace(".", "_") + "_API_KEY"]
        return msgspec.convert({"name": name, **raw, "quirks": quirks}, ProviderInfo, strict=False)

    def model(self, ref: ModelRef) -> ModelInfo:
        """Return what is known about a model; never fails, an unknown one gets cautious defaults."""
        found = self._found.get(ref.key)
        if found is None:
            found = self._found[ref.key] = self._model(ref)
        return found

    def _model(self, ref: ModelRef) -> ModelInfo:
        known = self._known(ref.provider).get(ref.model)
        listed = self._listed(ref)
        raw: dict[str, Any] = {"name": ref.model, **(known or {}), "provider": ref.provider, "id": ref.model}
        raw["known"] = known is not None or listed is not None
        if ref.key in self._learned:
            raw["contextWindow"] = self._learned[ref.key]
        own = self.own_settings(ref.provider)
        if own.context_window:
            raw["contextWindow"] = own.context_window
        if own.max_tokens:
            raw["maxOutput"] = own.max_tokens
        if listed is not None:
            raw |= _described(listed, bool(known))
        info = msgspec.convert(raw, ModelInfo)
        return info if info.context_window > 0 else msgspec.structs.replace(info, context_window=UNKNOWN_WINDOW)

    def quirks(self, ref: ModelRef) -> Quirks:
        """Return how this model's server differs, with what the user said about this model on top."""
        base = self.provider(ref.provider).quirks
        listed = self._listed(ref)
        if listed is None or not listed.compat:
            return base
        return msgspec.convert({**msgspec.to_builtins(base), **_compat(listed.compat)}, Quirks, strict=False)

    def _listed(self, ref: ModelRef) -> ModelSettings | None:
        return next((item for item in self.own_settings(ref.provider).models if item.id == ref.model), None)

    def models(self, provider: str | None = None) -> Iterator[ModelInfo]:
        for name in [normalize_provider(provider)] if provider else self.providers():
            own = [item.id for item in self.own_settings(name).models]
            for model in dict.fromkeys([*own, *self._known(name)]):
                yield self.model(ModelRef(name, model))

    @functools.cached_property
    def known(self) -> tuple[str, ...]:
        """Return `provider/model` of everything in the built-in list, by preference, without reading any of it further."""
        if self._replace:
            return ()
        return tuple(f"{name}/{model}" for name in _built_in()["providers"] for model in self._known(name))

    def configured(self) -> tuple[str, ...]:
        """Return `provider/model` of what the user's own configuration lists."""
        return tuple(f"{name}/{item.id}" for name, value in self._own.items() for item in value.models)


def _described(item: ModelSettings, known: bool) -> dict[str, Any]:
    given = {
        "name": item.name,
        "contextWindow": item.context_window,
        "contextTokens": item.context_tokens,
        "maxOutput": item.max_tokens,
        "input": item.input,
        "levels": item.thinking_levels,
    }
    raw: dict[str, Any] = {key: value for key, value in given.items() if value}
    if item.cost is not None:
        raw["price"] = msgspec.to_builtins(item.cost)
    if item.reasoning is False:
        raw["levels"] = []
    elif item.reasoning and not known and not item.thinking_levels:
        raw["levels"] = list(REASONING_LEVELS)
    return raw


_QUIRKS = frozenset(Quirks.__struct_encode_fields__)


def _compat(given: dict[str, Any]) -> dict[str, Any]:
    """Return OpenClaw's compat keys as quirks; unknown ones mean nothing to us and are left out."""
    quirks = {key: value for key, value in given.items() if key in _QUIRKS}
    if given.get("supportsReasoningEffort") is True and "thinkingFormat" not in given:
        quirks["thinkingFormat"] = "effort"
    if given.get("supportsReasoningEffort") is False:
        quirks["thinkingFormat"] = "none"
    form = quirks.get("thinkingFormat")
    if form in _ELSEWHERE:
        quirks["thinkingFormat"] = _ELSEWHERE[form]
    return quirks
