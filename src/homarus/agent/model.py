"""The models of a turn behind the loop's port: a chain with failover, the same chain as a summariser, and the session's choice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homarus.agent.tagged import told_apart
from homarus.core.cancel import Cancel
from homarus.core.events import ModelCalled, Notice
from homarus.core.messages import Assistant, Message, Text, User
from homarus.core.prompt import SystemPrompt
from homarus.core.routes import SessionKey
from homarus.models.client import ModelClient
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.rotation import Pin
from homarus.models.select import Chain, Override
from homarus.prompt.escape import body
from homarus.sessions.row import SessionEntry

if TYPE_CHECKING:
    from homarus.context.summarize import Ask


class ChainModel:
    """Asks the chain with one request; the messages grow from call to call, and the rest changes only when it must."""

    def __init__(
        self,
        client: ModelClient,
        chain: Chain,
        request: ModelRequest,
        *,
        pin: Pin | None = None,
        deadline: float | None = None,
        tagged: bool = False,
    ) -> None:
        self._client = client
        self._chain = chain
        self._request = request
        self._system = request.system
        self._addition = ""
        self._pin = pin
        self._deadline = deadline
        self._tagged = tagged  # it was asked to put its reasoning and its answer between tags

    def stream(
        self, messages: tuple[Message, ...], *, tools: bool, cancel: Cancel
    ) -> AsyncIterator[StreamEvent | ModelCalled | Notice]:
        """Ask once, with retries and fallbacks inside."""
        # The tools stay in the request: taking them out would change the prefix that the provider has cached.
        request = replace(self._request, messages=messages, tool_choice=self._request.tool_choice if tools else "none")
        events = self._client.stream(request, self._chain, cancel=cancel, pin=self._pin, deadline=self._deadline)
        return told_apart(events) if self._tagged else events

    def variant(self, chain: Chain | None, more: str = "") -> ChainModel:
        """Return the same model, or another one, with more at the end of its instructions."""
        system = self._request.system
        if more.strip():
            system = SystemPrompt(system.stable, f"{system.session}\n\n{more.strip()}".strip())
        if chain is None:
            request = replace(self._request, system=system)
            return ChainModel(
                self._client, self._chain, request, pin=self._pin, deadline=self._deadline, tagged=self._tagged
            )
        # The credential that is pinned belongs to the session's own model.
        request = replace(self._request, system=system, model=chain.primary.key)
        return ChainModel(self._client, chain, request, deadline=self._deadline)

    def instruct(self, system: SystemPrompt) -> None:
        """Go on with another system prompt: a compaction took from the history what this one says again."""
        self._system = system
        self.add(self._addition)

    def add(self, text: str) -> None:
        """Put a context engine's text right behind the cache line, where it breaks no prefix that others share."""
        self._addition = text
        system = self._system
        if said := body(text):
            system = SystemPrompt(system.stable, f"{said}\n\n{system.session}" if system.session else said)
        self._request = replace(self._request, system=system)


class Summaries:
    """The turn's models as a summariser: no tools, no thinking, nothing kept."""

    def __init__(self, client: ModelClient, chain: Chain, cancel: Cancel, count: Callable[[Assistant], None]) -> None:
        self._client = client
        self._chain = chain
        self._cancel = cancel
        self._count = count

    async def __call__(self, ask: Ask) -> str:
        """Return the model's text, or raise its `ModelError`."""
        request = ModelRequest(
            model=self._chain.primary.key,
            system=SystemPrompt(ask.system),
            messages=(User((Text(ask.text),)),),
            max_tokens=ask.max_tokens,
            cache=False,
        )
        text = ""
        async for event in self._client.stream(request, self._chain, cancel=self._cancel):
            if isinstance(event, Stop):
                self._count(event.message)
                if event.error is not None:
                    raise event.error
                text = event.message.text
        return text


def stored_override(entry: SessionEntry, key: SessionKey) -> Override | None:
    """Return the model that was chosen for a session, if one was.

    An older OpenClaw also stored the fallback that it had come to. Here a fallback holds for its turn, so the first choice
    is tried again with the next one.
    """
    if not entry.model_override or (entry.model_override_source == "auto" and not key.is_subagent):
        return None
    provider = f"{entry.provider_override}/" if entry.provider_override else ""
    return Override(f"{provider}{entry.model_override}", entry.model_override_source or "user")
