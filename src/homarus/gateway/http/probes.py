"""Is it alive, has it started, can it serve: for supervisors and for clients that wait. Nothing here needs a credential or tells a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from homarus import __version__

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

    asked = [("/health", live), ("/healthz", live), ("/ready", ready), ("/readyz", ready), ("/startupz", started)]
    return [Route(path, answer, methods=["GET"]) for path, answer in asked]
