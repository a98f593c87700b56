"""Models behind Anthropic's messages protocol, at any base URL that speaks it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelRequest, StreamEvent
from homarus.models.providers.anthropic_stream import AnthropicDecoder
from homarus.models.providers.anthropic_wire import MessagesThread
from homarus.models.providers.base import Call, run
from homarus.models.wire import Threads
from homarus.net.client import HttpClient

VERSION = "2023-06-01"
# Tokens of a subscription go into another header than API keys, and the server wants to be told.
TOKEN_PREFIX = "sk-ant-oat"  # noqa: S105 - the public prefix, not a token
TOKEN_BETA = "oauth-2025-04-20"  # noqa: S105 - a protocol name


class AnthropicProvider:
    """One model at one endpoint."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo, *, http: HttpClient, clock: Clock) -> None:
        self.endpoint = endpoint
        self.info = info
        self._http = http
        self._clock = clock
        self._threads = Threads(lambda: MessagesThread(info))
        self._url = _url(endpoint.base_url)
        self._headers = _headers(endpoint)

    def call(self, request: ModelRequest) -> Call:
        """Return the request as it goes out."""
        return Call(
            endpoint=self.endpoint,
            model=request.model,
            url=self._url,
            headers=self._headers,
            body=self._threads.body(request),
            idle=request.idle_timeout or self.endpoint.idle_timeout,
        )

    def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        """Ask the model; see `ModelProvider`."""
        decoder = AnthropicDecoder(self.info.price)
        return run(self.call(request), decoder, http=self._http, clock=self._clock, cancel=cancel)


def _url(base: str) -> str:
    """Return the address of the messages endpoint; people write the base with and without its version."""
    base = base.rstrip("/")
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def _headers(endpoint: Endpoint) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "text/event-stream", "anthropic-version": VERSION}
    key = endpoint.key
    if key.startswith(TOKEN_PREFIX):
        headers |= {"authorization": f"Bearer {key}", "anthropic-beta": TOKEN_BETA}
    elif key and endpoint.auth == "bearer":
        headers["authorization"] = f"Bearer {key}"
    elif key:
        headers["x-api-key"] = key
    return headers | dict(endpoint.headers)
