"""The agent behind OpenAI's responses: one item after the other, plain or as a stream of events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from homarus.core.errors import HomarusError
from homarus.core.messages import ToolCall, Usage
from homarus.core.routes import SessionKey
from homarus.gateway.http.openai import Answering, Asked, Json, asked, beating, endpoint, streamed, told, whole
from homarus.gateway.http.openai_input import Problem, Said, conversation, response_items
from homarus.gateway.scopes import WRITE, Principal

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

KEPT = 2_000  # responses that a caller can go on from


def routes(gateway: Gateway) -> list[Route]:
    # Which session a response came from, and who may go on with it.
    known: OrderedDict[str, tuple[SessionKey, str]] = OrderedDict()

    async def responses(principal: Principal, request: Request, body: Json) -> Response:
        said = response_items(body.get("input"))
        if isinstance(body.get("instructions"), str):
            said = [Said(role="system", text=body["instructions"]), *said]
        want = asked(gateway, principal, request, body, conversation(said))
        subject = f"{principal.method} {principal.user} {principal.device_id}"
        if before := body.get("previous_response_id"):
            session, whose = known.get(str(before), (None, ""))
            if session is None or whose != subject or session.agent_id != want.session.agent_id:
                raise Problem("no response with this id is known here", param="previous_response_id", status=404)
            want = replace(want, session=session, own=False)
        ident = f"resp_{gateway.ids.uuid().replace('-', '')}"
        known[ident] = (want.session, subject)
        while len(known) > KEPT:
            known.popitem(last=False)
        made = _Made(ident, gateway.now_ms // 1000, want, body)
        answering = Answering(gateway, want)
        if body.get("stream"):
            return streamed(_events(answering, made), want)
        text = await whole(request, answering)
        answering.check()
        items = [*([made.message(text)] if text else []), *map(made.call, answering.calls)]
        return JSONResponse(made.response("completed", items, answering.reply.usage), 200, told(want))

    return [Route("/v1/responses", endpoint(gateway, WRITE, responses, "responses"), methods=["POST"])]


class _Made:
    """One response as it is shown, at each moment of its life."""

    def __init__(self, ident: str, created: int, request: Asked, body: Json) -> None:
        self._id = ident
        self.message_id = ident.replace("resp_", "msg_")
        facts = {"id": ident, "object": "response", "created_at": created, "model": request.model, "error": None}
        kept = {key: body.get(key) for key in ("instructions", "previous_response_id", "user")}
        self._facts = {**facts, "incomplete_details": None, "metadata": {}, "parallel_tool_calls": True, **kept}
        self._facts |= {"tools": body.get("tools") or [], "tool_choice": body.get("tool_choice") or "auto"}

    def response(self, status: str, items: list[Json], usage: Usage | None = None, error: Json | None = None) -> Json:
        counted = None
        if usage is not None:
            counted = {"input_tokens": usage.prompt, "output_tokens": usage.output, "total_tokens": usage.total}
            counted |= {"input_tokens_details": {"cached_tokens": usage.cache_read}}  # type: ignore[dict-item]
            counted |= {"output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
        return {**self._facts, "status": status, "output": items, "usage": counted, "error": error}

    def message(self, text: str | None, status: str = "completed") -> Json:
        content = [] if text is None else [self.part(text)]
        facts = {"type": "message", "id": self.message_id, "role": "assistant", "status": status}
        return {**facts, "content": content, "phase": "final_answer"}

    @staticmethod
    def part(text: str) -> Json:
        return {"type": "output_text", "text": text, "annotations": []}

    @staticmethod
    def call(call: ToolCall) -> Json:
        arguments = msgspec.json.encode(call.arguments).decode()
        facts = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "status": "completed"}
        return {**facts, "name": call.name, "arguments": arguments}


async def _events(answering: Answering, made: _Made) -> AsyncIterator[bytes]:
    number = 0

    def event(kind: str, **facts: Any) -> bytes:
        nonlocal number
        data = msgspec.json.encode({"type": kind, "sequence_number": number, **facts})
        number += 1
        return f"event: {kind}\ndata: ".encode() + data + b"\n\n"

    text, items = "", list[Json]()
    place = {"item_id": made.message_id, "output_index": 0, "content_index": 0}
    yield event("response.created", response=made.response("in_progress", []))
    yield event("response.in_progress", response=made.response("in_progress", []))
    try:
        async for piece in beating(answering.pieces()):
            if piece is None:
                yield b": still at work\n\n"
                continue
            if not text:
                yield event("response.output_item.added", output_index=0, item=made.message(None, "in_progress"))
                yield event("response.content_part.added", **place, part=made.part(""))
            text += piece
            yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
        answering.check()
    except HomarusError as problem:
        error = {"code": "server_error", "message": problem.message}
        yield event("response.failed", response=made.response("failed", [], None, error))
    else:
        if text:
            items.append(made.message(text))
            yield event("response.output_text.done", **place, text=text, logprobs=[])
            yield event("response.content_part.done", **place, part=made.part(text))
            yield event("response.output_item.done", output_index=0, item=items[0])
        for call in answering.calls:
            item, at = made.call(call), {"output_index": len(items)}
            items.append(item)
            yield event("response.output_item.added", **at, item={**item, "arguments": "", "status": "in_progress"})
            at = {"item_id": item["id"], **at}
            yield event("response.function_call_arguments.delta", **at, delta=item["arguments"])
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **at, **done)
            yield event("response.output_item.done", output_index=len(items) - 1, item=item)
        yield event("response.completed", response=made.response("completed", items, answering.reply.usage))
    yield b"data: [DONE]\n\n"
