"""The page for browsers: our own, or static files of a folder that the owner names, and nothing outside of either."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from homarus.gateway.protocol import Refused

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

# The page speaks to its own origin only, whatever a link tells it, and runs no script but its own.
POLICY = (
    "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; script-src 'self'{scripts}; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self'; connect-src 'self' data:"
)
# Our own page needs less: no style but its own file, no text that becomes markup, nothing from anywhere else.
OWN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
OWN_PAGE = "homarus.web"  # found by its name: it stands above this package
HEADERS = {
    "Content-Security-Policy": POLICY.format(scripts=""),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_NOT_PAGES = ("api/", "v1/", "tools/", "hooks/", "__openclaw__/")


def routes(gateway: Gateway) -> list[Route]:
    async def config(request: Request) -> Response:
        try:
            await gateway.principal(request)
        except Refused as refused:
            return unauthorized(refused)
        return JSONResponse(_facts(gateway), headers=HEADERS)

    async def page(request: Request) -> Response:
        settings = gateway.live.settings.control_ui
        path = request.path_params.get("path", "")
        if not settings.enabled or path.startswith(_NOT_PAGES):
            return PlainTextResponse("Not Found", status_code=404, headers=HEADERS)
        if settings.root:
            return _file(settings.root, path)
        found = _file(str(files(OWN_PAGE) / "page"), path)
        found.headers["Content-Security-Policy"] = OWN_POLICY
        found.headers["Cache-Control"] = "no-cache"
        etag = found.headers.get("etag", "")
        if etag and request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={**HEADERS, "ETag": etag})
        return found

    return [
        Route("/control-ui-config.json", config, methods=["GET"]),
        Route("/__openclaw__/control-ui-config.json", config, methods=["GET"]),
        Route("/{path:path}", page, methods=["GET"]),
    ]


def posted(path: str, answer: Callable[[Request], Awaitable[Response]]) -> list[Route]:
    """Return the routes of an address to which one can only post: whoever gets it is told so, and not shown the page."""

    async def refused(_request: Request) -> Response:
        return PlainTextResponse("Method Not Allowed", 405, headers={"Allow": "POST"})

    return [Route(path, answer, methods=["POST"]), Route(path, refused, methods=["GET", "PUT", "PATCH", "DELETE"])]


def unauthorized(refused: Refused) -> Response:
    """Return the answer to somebody who may not ask."""
    if refused.retry_ms is not None:
        headers = {"Retry-After": str(refused.retry_ms // 1000 + 1)}
        return JSONResponse({"error": {"message": refused.message, "type": "rate_limited"}}, 429, headers)
    if (refused.details or {}).get("authReason") == "proxy_attribution_required":
        return JSONResponse({"error": {"message": refused.message, "type": "forbidden"}}, 403)
    return JSONResponse({"error": {"message": "Unauthorized", "type": "unauthorized"}}, 401)


def _facts(gateway: Gateway) -> dict[str, Any]:
    agent = gateway.client.home.config.default_agent
    name = gateway.agent_name(agent.id)
    return {
        "basePath": "",
        "assistantName": name,
        "assistantAvatar": name[:1].upper(),
        "assistantAgentId": agent.id,
        "serverVersion": gateway.version,
        "terminalEnabled": False,
    }


def _file(root: str, path: str) -> Response:
    """Return a file below the root; anything else is the page itself, which knows its own routes."""
    base = Path(root).expanduser().resolve()
    try:
        target = (base / path).resolve()
    except (OSError, ValueError):
        return PlainTextResponse("Not Found", status_code=404, headers=HEADERS)
    if not target.is_relative_to(base):
        return PlainTextResponse("Not Found", status_code=404, headers=HEADERS)
    if path and target.is_file():
        return FileResponse(target, headers=HEADERS, stat_result=target.stat())
    index = base / "index.html"
    if Path(path).suffix or not index.is_file():
        return PlainTextResponse("Not Found", status_code=404, headers=HEADERS)
    state = index.stat()
    policy = {"Content-Security-Policy": POLICY.format(scripts=_own_scripts(str(index), state.st_mtime_ns))}
    return FileResponse(index, headers={**HEADERS, **policy, "Cache-Control": "no-cache"}, stat_result=state)


@lru_cache(4)
def _own_scripts(index: str, _changed: int) -> str:
    """Return the digests of the scripts that stand in the page itself, for its policy."""
    found = _INLINE.findall(Path(index).read_bytes())
    return "".join(f" 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in found)
