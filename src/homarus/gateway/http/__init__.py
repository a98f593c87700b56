"""What the gateway answers over plain HTTP. One table of routes; who may ask is decided in `auth`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from homarus.gateway.server import Gateway


def routes(gateway: Gateway) -> Sequence[BaseRoute]:
    """Return every route, the page for browsers last: it takes what nothing else does."""
    from homarus.gateway.http import openai, page, probes, responses, tools

    return [route for part in (probes, openai, responses, tools, page) for route in part.routes(gateway)]
