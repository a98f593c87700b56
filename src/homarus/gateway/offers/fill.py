"""What a home offers to its tools: each contract of `tools.ports` that can be filled here, filled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from homarus.config.view import Config
from homarus.core.clock import SystemClock
from homarus.core.errors import HomarusError
from homarus.gateway.offers.cards import Cards
from homarus.gateway.offers.control import ConfigControl
from homarus.gateway.offers.looker import Looker
from homarus.gateway.offers.peers import Peers
from homarus.gateway.offers.views import Conversations
from homarus.models.access import Models
from homarus.tools.registry import ToolServices

if TYPE_CHECKING:
    from homarus.gateway.app import Runtime


def offers_of(runtime: Runtime) -> tuple[ToolServices, Peers]:
    """Return the services of a running home, and those of them that must be closed with it.

    Messages to people and jobs come with channels and a scheduler; until then their tools do not exist.
    """
    view = Conversations(runtime)
    peers = Peers(runtime, view)
    services = ToolServices(
        memory_of=runtime.memory,
        sessions=view,
        sessions_send=peers,
        spawner=runtime.children,
        status=Cards(runtime, view),
        gateway=ConfigControl(runtime.config, runtime.env),
        looker=Looker(runtime),
    )
    return services, peers


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
