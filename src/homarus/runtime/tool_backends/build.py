"""What a home offers to its tools: each contract of `tools.ports` that can be filled here, filled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from homarus.config.view import Config
from homarus.core.clock import SystemClock
from homarus.core.errors import HomarusError
from homarus.core.later import later, made_later
from homarus.runtime.tool_backends.vision import Looker
from homarus.models.access import Models
from homarus.tools.registry import ToolServices

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime
    from homarus.runtime.tool_backends import status as cards
    from homarus.runtime.tool_backends import config as control
    from homarus.runtime.tool_backends import messenger as peers
    from homarus.runtime.tool_backends import sessions as views
else:
    cards = later("homarus.runtime.tool_backends.status")
    control = later("homarus.runtime.tool_backends.config")
    peers = later("homarus.runtime.tool_backends.messenger")
    views = later("homarus.runtime.tool_backends.sessions")


def offers_of(runtime: Runtime) -> tuple[ToolServices, Callable[[], Awaitable[None]]]:
    """Return the services of a running home, each made when a tool first needs it, and what lets go of them.

    Messages to people and jobs come with channels and a scheduler; until then their tools do not exist.
    """
    speaking: list[peers.Peers] = []

    def speak() -> peers.Peers:
        speaking.append(peers.Peers(runtime, view))
        return speaking[0]

    async def aclose() -> None:
        for each in speaking:
            await each.aclose()

    view = made_later(lambda: views.Conversations(runtime))
    services = ToolServices(
        memory_of=runtime.memory,
        sessions=view,
        sessions_send=made_later(speak),
        spawner=runtime.children,
        status=made_later(lambda: cards.Cards(runtime, view)),
        gateway=made_later(lambda: control.ConfigControl(runtime.config, runtime.env)),
        looker=Looker(runtime),
    )
    return services, aclose


class _Home:
    """A home that is only looked at."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.models = Models(config, {}, clock=SystemClock())


def closed_offers(config: Config) -> ToolServices:
    """Return services that have the same tools and do nothing: for a look at what a model is told."""

    def closed(_agent_id: str) -> Any:
        raise HomarusError("only the descriptions of the tools were asked for")

    nothing: Any = object()
    return ToolServices(
        memory_of=closed,
        sessions=nothing,
        sessions_send=nothing,
        spawner=nothing,
        status=nothing,
        gateway=nothing,
        looker=Looker(_Home(config)),
    )
