"""Models behind the chat-completions protocol, at any base URL: OpenAI, OpenRouter, Groq, Ollama, vLLM, llama.cpp …"""

from __future__ import annotations

from collections.abc import AsyncIterator

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelRequest, StreamEvent
from homarus.models.providers.base import Call, run
from homarus.models.providers.openai_stream import OpenAIDecoder
from homarus.models.providers.openai_thread import ChatThread
from homarus.models.wire import Threads
from homarus.net.client import HttpClient


class OpenAIProvider:
    """One model at one endpoint."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo, *, http: HttpClient, clock: Clock) -> None:
        self.endpoint = endpoint
        self.info = info
        self._http = http
        self._clock = clock
        self._threads = Threads(lambda: ChatThread(endpoint, info))
        self._url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
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
        decoder = OpenAIDecoder(self.info.price, fallback_id=f"call_{len(request.messages)}")
        return run(self.call(request), decoder, http=self._http, clock=self._clock, cancel=cancel)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    if endpoint.key:
        if endpoint.auth == "x-api-key":
            headers["x-api-key"] = endpoint.key
        else:
            headers["authorization"] = f"Bearer {endpoint.key}"
    return headers | dict(endpoint.headers)
