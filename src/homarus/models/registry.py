"""From a model reference and a credential to something that can be asked. Adapters are imported when first needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from homarus.core.clock import Clock
from homarus.core.errors import ConfigError
from homarus.models.catalog import Catalog, protocol
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelProvider
from homarus.models.ref import ModelRef
from homarus.models.rotation import Credential
from homarus.net.client import HttpClient
from homarus.storage.cache import BoundedCache

IDLE_CLOUD, IDLE_LOCAL = 120.0, 300.0
# In the address of a server at home, which may be slow.
NEAR = ("://127.", "://localhost", "://[::1]", "://192.168.", "://10.", ".local:", ".lan:")
KEPT = 32
BUILTIN, LOCAL = "builtin", "local"
Factory = Callable[[ModelRef, Credential], ModelProvider]


class Registry:
    """Opens providers and keeps them, so that connections and encoded history live from turn to turn."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        http: HttpClient,
        clock: Clock,
        models_dir: Path | None = None,
        resolve: Callable[[Any], str] = str,
        factories: dict[str, Factory] | None = None,
    ) -> None:
        self.catalog = catalog
        self.http = http
        self.clock = clock
        self._models_dir = models_dir
        self._resolve = resolve
        self._open: BoundedCache[tuple[str, str, str], ModelProvider] = BoundedCache(KEPT)
        # Whoever registered with an earlier registry of the same home answers here, too.
        self._factories: dict[str, Factory] = {} if factories is None else factories

    def register(self, provider: str, factory: Factory) -> None:
        """Let a plugin (or a test) answer for a provider id."""
        self._factories[provider] = factory

    def info(self, ref: ModelRef) -> ModelInfo:
        """Return what is known about a model; a local file is asked itself."""
        if ref.provider == LOCAL and ref.provider not in self._factories:
            from homarus.models.providers.llama import describe

            try:
                return describe(ref.model, self._models_dir)
            except ConfigError:
                pass
        return self.catalog.model(ref)

    def is_remote(self, provider: str) -> bool:
        """Say whether a provider is reached over a network: it is neither this process nor somebody who registered."""
        return provider not in self._factories and provider not in {BUILTIN, LOCAL}

    def check(self, ref: ModelRef) -> None:
        """Raise ConfigError where a model surely cannot be asked: no such provider, no such file. Asks nobody."""
        if self.is_remote(ref.provider):
            self.endpoint(ref, Credential("none", ref.provider, "none"))
        elif ref.provider == LOCAL and ref.provider not in self._factories:
            from homarus.models.providers.llama import describe

            describe(ref.model, self._models_dir)
        elif ref.provider == BUILTIN and ref.model != "notebook":
            raise ConfigError(f"there is no model '{ref.key}'", cure="the only built-in model is builtin/notebook")

    def needs_key(self, provider: str) -> bool:
        """Say whether calling a provider without a credential is pointless."""
        if not self.is_remote(provider):
            return False
        known = self.catalog.provider(provider)
        return not known.local and not self.catalog.own_settings(provider).base_url

    def provider(self, ref: ModelRef, credential: Credential) -> ModelProvider:
        """Return the provider of a model; ConfigError says what is missing to reach it."""
        key = (ref.key, credential.id, credential.secret)
        found = self._open.get(key)
        if found is None:
            found = self._make(ref, credential)
            self._open.put(key, found)
        return found

    def _make(self, ref: ModelRef, credential: Credential) -> ModelProvider:
        if ref.provider in self._factories:
            return self._factories[ref.provider](ref, credential)
        if ref.provider == BUILTIN:
            self.check(ref)
            from homarus.models.providers.notebook import NotebookProvider

            return NotebookProvider(clock=self.clock, models=self._models_dir)
        if ref.provider == LOCAL:
            from homarus.models.providers.llama import open_gguf

            return open_gguf(ref.model, self._models_dir, clock=self.clock)
        endpoint = self.endpoint(ref, credential)
        module = importlib.import_module(f"homarus.models.providers.{protocol(endpoint.api).module}")
        made: ModelProvider = module.open_provider(endpoint, self.catalog.model(ref), http=self.http, clock=self.clock)
        return made

    def _unknown(self, ref: ModelRef) -> ConfigError:
        from homarus.config.known import near

        cure = f"set models.providers.{ref.provider}.baseUrl"
        if ref.provider in self.catalog.providers():
            return ConfigError(f"provider '{ref.provider}' has no address", cure=cure)
        meant = near(ref.provider, self.catalog.providers())
        hint = f"did you mean {meant}/{ref.model}? " if meant else ""
        cure = f"{hint}{cure}, or see `homarus models list --all`"
        return ConfigError(f"there is no provider '{ref.provider}'", cure=cure)

    def endpoint(self, ref: ModelRef, credential: Credential) -> Endpoint:
        provider, own = self.catalog.provider(ref.provider), self.catalog.own_settings(ref.provider)
        if not provider.base_url and protocol(provider.api).needs_address:
            raise self._unknown(ref)
        near = provider.local or any(mark in provider.base_url for mark in NEAR)
        idle = IDLE_LOCAL if near else IDLE_CLOUD
        return Endpoint(
            provider=ref.provider,
            api=provider.api,
            base_url=provider.base_url,
            key=credential.secret,
            auth="bearer" if credential.kind in {"oauth", "token"} else provider.auth,
            headers=tuple(
                sorted((name.lower(), self._resolve(value)) for name, value in own.headers.items() if value is not None)
            ),
            quirks=self.catalog.quirks(ref),
            idle_timeout=max(idle, own.timeout_seconds or 0.0),
        )
