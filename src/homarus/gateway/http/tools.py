"""One tool, called by a program; and vectors of texts, from the embedder that memory uses."""

from __future__ import annotations

import asyncio
import base64
import struct
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from homarus.core.messages import Image, Text, Trust
from homarus.gateway.http.openai import Json, agent_of, endpoint
from homarus.gateway.http.openai_input import Problem
from homarus.gateway.http.page import posted
from homarus.gateway.methods import passed
from homarus.gateway.scopes import READ, WRITE, Principal
from homarus.tools.policy import Layer, Rules

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

MAX_TEXTS = 2_048
# Nobody is asked here before a call, so what acts on the machine or reaches others is closed until the owner opens it.
CLOSED = passed(
    "exec bash spawn shell process write edit fs_write fs_delete fs_move apply_patch sessions_spawn sessions_send "
    "subagents cron gateway nodes message"
)


def routes(gateway: Gateway) -> list[Route]:
    async def invoke(_principal: Principal, _request: Request, body: Json) -> Response:
        name = body.get("tool") or body.get("name")
        arguments = body.get("args", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise Problem("a call needs 'tool', a name, and 'args', an object")
        if body.get("action") is not None:
            arguments = {"action": body["action"], **arguments}
        key = gateway.key(str(body.get("sessionKey") or "main"), str(body.get("agentId") or ""))
        rules = gateway.live.settings.tools
        denied = Layer("gateway tools", Rules(deny=rules.deny))  # in the words of `tools.deny`
        known = gateway.client.home.toolkit.box(key.agent_id, more=(denied,)).tools
        plain, opened = name.strip().lower(), {word.strip().lower() for word in rules.allow}
        if name not in known or (plain in CLOSED and plain not in opened):
            error = {"type": "not_found", "message": f"Tool not available: {name[:80]}"}
            return JSONResponse({"ok": False, "error": error}, 404)
        result = await gateway.client.call_tool(key, name, arguments, Trust.OWNER)
        content = [_part(part) for part in result.parts]
        if result.is_error:
            error = {"type": "tool_error", "message": result.text}
            return JSONResponse({"ok": False, "error": error, "result": {"content": content}})
        return JSONResponse({"ok": True, "result": {"content": content}})

    async def embeddings(_principal: Principal, _request: Request, body: Json) -> Response:
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise Problem("input must be a text or a list of texts, none of them empty", param="input")
        if len(texts) > MAX_TEXTS:
            raise Problem(f"more than {MAX_TEXTS} texts", param="input")
        agent = agent_of(gateway, str(body.get("model") or "openclaw"))
        name, rows = await asyncio.to_thread(gateway.client.home.memory(agent).vectors, texts)
        packed = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": at, "embedding": _packed(row) if packed else row}
            for at, row in enumerate(rows)
        ]
        tokens = sum(len(text) // 4 + 1 for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})

    return [
        *posted("/tools/invoke", endpoint(gateway, WRITE, invoke)),
        *posted("/v1/embeddings", endpoint(gateway, READ, embeddings, "either")),
    ]


def _part(part: Any) -> Json:
    if isinstance(part, Image):
        return {"type": "image", "data": part.data, "mimeType": part.mime_type}
    return {"type": "text", "text": part.text if isinstance(part, Text) else ""}


def _packed(row: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()
