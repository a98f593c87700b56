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
