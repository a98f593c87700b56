"""What the loop needs of the world, as small contracts. The composition root fills them; tests fill them with scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from homarus.core.cancel import Cancel
from homarus.core.errors import ModelError
from homarus.core.events import ModelCalled, Notice, RunEvent
from homarus.core.messages import Image, Message, Trust
from homarus.models.provider import StreamEvent

Emit = Callable[[RunEvent], None]


class Model(Protocol):
    """The model of one turn, with its fallbacks behind it."""

    def stream(
        self, messages: tuple[Message, ...], *, tools: bool, cancel: Cancel
    ) -> AsyncIterator[StreamEvent | ModelCalled | Notice]:
        """Ask once. Retries and fallbacks happen inside: each attempt starts with `ModelCalled`, and the text of the
        attempt before it is void then. The last event is one `Stop`.

        `tools=False` asks for words only, to close a turn whose tools are done.
        """


class Window(Protocol):
    """What the model sees of the session. It is the only one who may compact."""

    async def assemble(self, cancel: Cancel) -> tuple[Message, ...]:
        """Return the history for the next call: repaired, pruned and within the budget, compacted first if it must be."""

    async def overflowed(self, error: ModelError, cancel: Cancel) -> bool:
        """The provider said that the history is too long. Make it shorter and return whether to try again."""


class Steer(Protocol):
    """A message that waits to join the running turn. `key` makes it count once; `facts` hold its provenance and whose words
    it brings; of those that are `kept`, which are reports, a turn takes all that wait at once.
    """

    @property
    def key(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def images(self) -> tuple[Image, ...]: ...
    @property
    def trust(self) -> Trust: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def kept(self) -> bool: ...
