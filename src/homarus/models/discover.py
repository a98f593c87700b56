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
# What a model was trained with comes last: llama.cpp and Ollama run most models with less.
_WINDOW_KEYS = ("max_model_len", "context_length", "loaded_context_length", "max_context_length", "n_ctx")
_TRAINED = "n_ctx_train"
_NUM_CTX = late(r"^num_ctx\s+(\d+)", re.MULTILINE)
OLLAMA_WINDOW = 4_096  # what Ollama gives a model that nobody gave more, and it cuts off the rest without a word
MAX_ASKED = 20


class Served(Struct, frozen=True):
    """One model that a server offers; `window` is 0 when the server does not say."""

    id: str
    window: int = 0


class Found(Struct, frozen=True):
    provider: str
    base_url: str
    models: tuple[Served, ...]
    # It tells nothing to whoever has no key, or not the right one.
    wants_key: bool = False

    @property
    def chat_models(self) -> tuple[Served, ...]:
        return tuple(model for model in self.models if not _NO_CHAT.search(model.id))


async def discover(http: HttpClient, catalog: Catalog, *, seconds: float = 0.0, locked: bool = False) -> list[Found]:
    """Return the servers of this machine that tell their models; `locked` ones, that want a key first, where they are wanted."""
    local = [name for name in catalog.providers() if catalog.provider(name).local and catalog.provider(name).base_url]
    answers = await asyncio.gather(*(probe(http, name, catalog.provider(name).base_url, seconds) for name in local))
    return [answer for answer in answers if answer is not None and (answer.models or locked)]


async def probe(http: HttpClient, provider: str, base_url: str, seconds: float = 0.0, *, key: str = "") -> Found | None:
    """Ask one server for its models; None when it is not there, too slow, or something else."""
    rows: dict[str, dict[str, Any]] = {}
    windows: dict[str, int] = {}
    try:
        async with asyncio.timeout(seconds or SECONDS):
            # On most machines nobody is there, and the HTTP client need not even be loaded to find that out.
            address = urlsplit(base_url)
            _, writer = await asyncio.open_connection(
                address.hostname, address.port or (443 if address.scheme == "https" else 80)
            )
            writer.close()
            status, listed = await _answer(http, "GET", f"{base_url.rstrip('/')}/models", key=key)
            if status in {401, 403}:
                return Found(provider, base_url, (), wants_key=True)
            rows = _rows(listed)
            windows = await _run_with(http, provider, base_url.rstrip("/").removesuffix("/v1"), rows)
    except (OSError, TimeoutError, HttpError):
        if not rows:
            return None
    models = tuple(Served(name, windows.get(name) or _window(row)) for name, row in rows.items())
    return Found(provider, base_url, models) if models else None


async def _asked(http: HttpClient, method: str, url: str, body: Any = None) -> Any:
    """Return what a server answers; nothing where it does not know the question."""
    return (await _answer(http, method, url, body))[1]


async def _answer(http: HttpClient, method: str, url: str, body: Any = None, *, key: str = "") -> tuple[int, Any]:
    sent = [msgspec.json.encode(body)] if body is not None else []
    headers = {"content-type": "application/json"} if sent else {}
    if key:
        headers["authorization"] = f"Bearer {key}"
    response = await http.request(method, url, headers=headers, body=sent)
    try:
        answer = await response.read(MAX_BODY)
        return response.status, msgspec.json.decode(answer) if response.status == 200 else None
    except ValueError:  # it speaks, but not JSON
        return response.status, None
    finally:
        await response.close()


def _rows(value: Any) -> dict[str, dict[str, Any]]:
    rows = value.get("data") or value.get("models") if isinstance(value, dict) else None
    named = [
        (row.get("id") or row.get("name"), row) for row in (rows if isinstance(rows, list) else ()) if type(row) is dict
    ]
    return {name: row for name, row in named if isinstance(name, str) and name}


async def _run_with(http: HttpClient, provider: str, root: str, rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the windows that models run with where their list does not say: llama.cpp and Ollama tell them elsewhere."""
    unsaid = [name for name, row in rows.items() if not _window(row, trained=False)]
    if not unsaid:
        return {}
    if provider == "llamacpp":
        said = await _asked(http, "GET", f"{root}/props")
        slot = said.get("default_generation_settings") if isinstance(said, dict) else None
        return dict.fromkeys(unsaid, _window(slot)) if isinstance(slot, dict) else {}
    if provider != "ollama":
        return {}
    loaded = {name: _window(row) for name, row in _rows(await _asked(http, "GET", f"{root}/api/ps")).items()}
    cold = [name for name in unsaid if not loaded.get(name)][:MAX_ASKED]
    shown = await asyncio.gather(*(_asked(http, "POST", f"{root}/api/show", {"model": name}) for name in cold))
    set_to = {name: _num_ctx(answer) for name, answer in zip(cold, shown, strict=True)}
    return {name: loaded.get(name) or set_to.get(name) or OLLAMA_WINDOW for name in unsaid}


def _num_ctx(shown: Any) -> int:
    parameters = shown.get("parameters") if isinstance(shown, dict) else None
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return int(found[1]) if found else 0


def _window(row: dict[str, Any], *, trained: bool = True) -> int:
    meta = row.get("meta")
    for key in (*_WINDOW_KEYS, *((_TRAINED,) if trained else ())):
        for holder in (row, meta if isinstance(meta, dict) else {}):
            value = holder.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return 0
