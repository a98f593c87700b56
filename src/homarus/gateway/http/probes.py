"""Is it alive, has it started, can it serve: for supervisors and for clients that wait. Nothing of that needs a credential
or tells a secret; the figures do need one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from homarus import __version__
from homarus.gateway.http.page import unauthorized
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import READ, require

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway


def routes(gateway: Gateway) -> list[Route]:
    async def live(_request: Request) -> JSONResponse:
        return JSONResponse({"ok": True, "status": "live"})

    async def started(_request: Request) -> JSONResponse:
        return JSONResponse({"ok": True, "status": "started", "version": __version__, "uptimeMs": gateway.uptime_ms})

    async def ready(request: Request) -> JSONResponse:
        failing = gateway.failing()
        body = {"ready": not failing, "failing": failing, "uptimeMs": gateway.uptime_ms}
        if not gateway.sees_details(request.scope):
            body = {"ready": not failing}
        return JSONResponse(body, status_code=200 if not failing else 503)

    async def figures(request: Request) -> Response:
        try:
            require(await gateway.principal(request), READ)
        except Refused as refused:
            return unauthorized(refused)
        return PlainTextResponse(gateway.metrics.text(gateway), media_type="text/plain; version=0.0.4")

    asked: list[tuple[str, Callable[[Request], Awaitable[Response]]]] = [
        ("/health", live),
        ("/healthz", live),
        ("/ready", ready),
        ("/readyz", ready),
        ("/startupz", started),
    ]
    asked += [(path, figures) for path in ("/metrics", "/api/diagnostics/prometheus")]
    return [Route(path, answer, methods=["GET"]) for path, answer in asked]
