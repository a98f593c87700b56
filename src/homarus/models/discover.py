"""Model servers on this machine: asked all at once, so that nobody waits for the ones that are not there."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from homarus.core.patterns import late
from homarus.models.catalog import Catalog
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError

SECONDS = 1.0  # a closed port on this machine says so at once; an open one may belong to a server that is busy
MAX_BODY = 1 << 20
_NO_CHAT = late(r"embed|rerank|whisper|tts|bge-|clip|moderation", re.IGNORECASE)
_WINDOW_KEYS = (
    "max_model_len", "context_length", "loaded_context_length", "max_context_length", "n_ctx", "n_ctx_train",
)  # fmt: skip


class Served(Struct, frozen=True):
    """One model that a server offers; `window` is 0 when the server does not say."""

    id: str
    window: int = 0


class Found(Struct, frozen=True):
    provider: str
    base_url: str
    models: tuple[Served, ...]

    @property
    def chat_model(self) -> Served | None:
        return next((model for model in self.models if not _NO_CHAT.search(model.id)), None)


async def discover(http: HttpClient, catalog: Catalog, *, seconds: float = SECONDS) -> list[Found]:
    local = [name for name in catalog.providers() if catalog.provider(name).local and catalog.provider(name).base_url]
    answers = await asyncio.gather(*(probe(http, name, catalog.provider(name).base_url, seconds) for name in local))
    return [answer for answer in answers if answer is not None]


async def probe(http: HttpClient, provider: str, base_url: str, seconds: float = SECONDS) -> Found | None:
    """Ask one server for its models; None when it is not there, too slow, or something else."""
    try:
        async with asyncio.timeout(seconds):
            # On most machines nobody is there, and the HTTP client need not even be loaded to find that out.
            address = urlsplit(base_url)
            _, writer = await asyncio.open_connection(address.hostname, address.port or 80)
            writer.close()
            response = await http.request("GET", f"{base_url.rstrip('/')}/models")
            try:
                body = await response.read(MAX_BODY)
            finally:
                await response.close()
    except (OSError, TimeoutError, HttpError):
        return None
    models = _models(body) if response.status == 200 else ()
    return Found(provider, base_url, models) if models else None


def _models(body: bytes) -> tuple[Served, ...]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    rows = value.get("data") or value.get("models") if isinstance(value, dict) else None
    found = []
    for row in rows if isinstance(rows, list) else ():
        name = row.get("id") or row.get("name") if isinstance(row, dict) else None
        if isinstance(name, str) and name:
            found.append(Served(name, _window(row)))
    return tuple(found)


def _window(row: dict[str, Any]) -> int:
    meta = row.get("meta")
    for holder in (row, meta if isinstance(meta, dict) else {}):
        for key in _WINDOW_KEYS:
            value = holder.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return 0
