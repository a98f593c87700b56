"""`tools.web` and the other small blocks of the tools, with all defaults in one place."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class SearchSettings(Struct, frozen=True, rename="camel"):
    """`tools.web.search`. Without a provider, SearXNG is used where its address is set, else Brave with a key, else DuckDuckGo."""

    enabled: bool = True
    provider: str = ""
    api_key: Any = ""
    base_url: str = ""
    max_results: int = 5
    timeout_seconds: float = 20.0


class FetchSettings(Struct, frozen=True, rename="camel"):
    """`tools.web.fetch`."""

    enabled: bool = True
    max_chars: int = 20_000
    max_response_bytes: int = 2_000_000
    max_redirects: int = 5
    timeout_seconds: float = 30.0
    user_agent: str = "Mozilla/5.0 (compatible; homarus)"


class WebSettings(Struct, frozen=True, rename="camel"):
    """`tools.web`."""

    search: SearchSettings = SearchSettings()
    fetch: FetchSettings = FetchSettings()

    @classmethod
    def disabled(cls) -> WebSettings:
        """A block that cannot be read must not open anything."""
        return cls(SearchSettings(enabled=False), FetchSettings(enabled=False))


class PatchSettings(Struct, frozen=True, rename="camel"):
    """`tools.exec.applyPatch` in its long form."""

    enabled: bool = True
    workspace_only: bool = True
    allow_models: tuple[str, ...] = ()

    @classmethod
    def disabled(cls) -> PatchSettings:
        """A block that cannot be read must not open anything."""
        return cls(enabled=False)


class PatchSwitch(Struct, frozen=True, rename="camel"):
    """What `tools.exec`, of everyone or of one agent, says about apply_patch."""

    apply_patch: bool | PatchSettings = True

    @classmethod
    def disabled(cls) -> PatchSwitch:
        """A block that cannot be read must not open anything."""
        return cls(apply_patch=False)

    @property
    def settings(self) -> PatchSettings:
        """Return the long form of either form."""
        given = self.apply_patch
        return PatchSettings(enabled=given) if isinstance(given, bool) else given

    def admits(self, provider: str, model: str) -> bool:
        """Say whether a model has apply_patch: a list of models leaves it to those alone."""
        named = {name.strip().lower() for name in self.settings.allow_models}
        known = {model.lower(), f"{provider}/{model}".lower()}
        return self.settings.enabled and (not named or bool(named & known))
