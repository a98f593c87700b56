"""Addresses at which other programs wake the agent or give it work. No address here answers without a token or a signature.

Who may call and what a call asks for is decided in `automation.webhooks`; here it is only carried there.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from homarus.automation.webhooks import (
    Call,
    HookSettings,
    Refused,
    authorize,
    find_mapping,
    is_signed,
    order_for,
    read_body,
)
from homarus.core.clock import iso_ms
from homarus.core.errors import HomarusError
from homarus.core.text import single_line
from homarus.gateway.http.page import posted
from homarus.gateway.limits import Failures
from homarus.gateway.peer import Peer, peer_of
from homarus.gateway.protocol import Refused as Locked
from homarus.gateway.settings import RateLimit

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

LIMIT = RateLimit(max_attempts=20, window_ms=60_000, lockout_ms=60_000)
_KIND = "hook"


def routes(gateway: Gateway) -> list[Route]:
    path = gateway.live.config.block("hooks", HookSettings).path.strip("/") or "hooks"
    door = _Door(gateway)
    return posted(f"/{path}/{{rest:path}}", door.knock)


class _Door:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._failures = Failures(gateway.clock.monotonic)

    async def knock(self, request: Request) -> Response:
        gateway, rest = self._gateway, request.path_params["rest"]
        peer = peer_of(request.scope, gateway.live.settings)
        try:
            answer = await self._take(request, peer, rest)
            outcome = "taken"
        except Refused as refused:
            outcome = str(refused.status)
            plain = refused.status == 401
            body = {"ok": False, "error": str(refused)}
            answer = PlainTextResponse("Unauthorized", 401) if plain else JSONResponse(body, refused.status)
        except Locked as locked:
            outcome, wait = "429", (locked.retry_ms or 1000) // 1000 + 1
            answer = JSONResponse({"ok": False, "error": locked.message}, 429, {"Retry-After": str(wait)})
        except ClientDisconnect:
            return Response(status_code=499)
        except HomarusError as problem:
            outcome = "400"
            answer = JSONResponse({"ok": False, "error": single_line(str(problem), 300)}, 400)
        gateway.metrics.add("webhook_received_total", outcome=outcome)
        gateway.ledger.note("hook", path=rest, outcome=outcome, address=peer.address)
        return answer

    async def _take(self, request: Request, peer: Peer, rest: str) -> Response:
        gateway, settings = self._gateway, self._gateway.live.config.block("hooks", HookSettings)
        if not settings.enabled:
            raise Refused(404, "web hooks are off", cure="set hooks.enabled")
        if peer.unattributed or (peer.origin and not peer.same_origin):
            raise Refused(403, "a page, or a proxy that is not listed, cannot call a web hook")
        if gateway.stopping:
            raise Refused(503, gateway.stopping)
        self._failures.check(peer.address, _KIND)
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(
            path=rest, body=b"", headers=headers, query=dict(request.query_params), now=iso_ms(gateway.clock.now())
        )
        signs = any(rule.signature is not None for rule in settings.mappings)
        if not signs:
            await self._let_in(peer, call, settings)  # before a byte of the body is read
        call = Call(path=rest, body=await _body(request, settings), headers=headers, query=call.query, now=call.now)
        # Whoever kept the call while nobody could answer it gives it a name: brought twice, it counts once.
        ident = request.scope.get("state", {}).get("ident") or gateway.ids.uuid()
        if signs:
            ident = await self._signed(peer, call, settings) or ident
        order = order_for(call, settings, ident)
        run = gateway.runtime.automation.hook(order)
        if order.action == "wake":
            return JSONResponse(
                {"ok": True, "mode": "now" if order.now else "next-heartbeat", "eventOutcome": "queued"}
            )
        return JSONResponse({"ok": True, "runId": run})

    async def _let_in(self, peer: Peer, call: Call, settings: HookSettings) -> None:
        token, own = await self._secret(settings.token), await self._gateway.live.secret()
        try:
            authorize(call, token, own)
        except Refused as refused:
            if refused.status == 401 and {"authorization", "x-openclaw-token"}.intersection(call.headers):
                self._failures.failed(peer.address, _KIND, LIMIT)
            raise

    async def _signed(self, peer: Peer, call: Call, settings: HookSettings) -> str:
        """Check a call as its mapping says; return an id by which the same signed body counts once."""
        rule = find_mapping(settings, call.path, read_body(call, settings))
        if call.path.strip("/") in {"wake", "agent"} or rule is None or rule.signature is None:
            await self._let_in(peer, call, settings)
            return ""
        if not is_signed(call.body, call.headers, rule.signature, await self._secret(rule.signature.secret)):
            self._failures.failed(peer.address, _KIND, LIMIT)
            raise Refused(401, "unauthorized")
        return hashlib.sha256(call.body).hexdigest()[:32]

    async def _secret(self, value: Any) -> str:
        if value in (None, ""):
            return ""
        try:
            return await asyncio.to_thread(self._gateway.live.config.resolve, value)
        except HomarusError:
            return ""  # a secret that cannot be had lets nobody in


async def _body(request: Request, settings: HookSettings) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > settings.max_body_bytes:
            raise Refused(413, f"the body is longer than {settings.max_body_bytes:,} bytes")
    return bytes(data)
