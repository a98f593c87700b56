"""The agent behind OpenAI's chat completions and model list. What a request asks becomes one turn through the client contract.

A request is a conversation of its own unless it names a session or a `user`. Who holds the secret is the owner here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from homarus.core.errors import HomarusError
from homarus.core.events import MessageEnded, ModelCalled, Notice, TextDelta
from homarus.core.messages import ToolCall, Usage
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.delivery.stream import StreamFilter
from homarus.gateway.http.openai_input import (
    Conversation,
    Problem,
    caller_tools,
    chat_messages,
    conversation,
    output_schema,
    tool_choice,
)
from homarus.gateway.http.page import posted, unauthorized
from homarus.gateway.methods import passed
from homarus.gateway.methods.chat import command_scope
from homarus.gateway.protocol import Code, Refused, where
from homarus.gateway.scopes import READ, WRITE, Principal, require
from homarus.runtime.client import RunOptions
from homarus.runtime.reply import Reply, ReplyFold

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

_log = logging.getLogger(__name__)
MAX_BODY = 20 << 20
BEAT_SECONDS = 15.0  # a stream in which nothing is said shows that it is alive
CHANNEL = "openai"
_RESERVED = ("subagent:", "cron:", "acp:", "hook:", "boot:", "heartbeat:")
_FAMILY = ("openclaw", "homarus")
# What callers often send and what changes nothing here; an answer names those that it got.
_IGNORED = passed(
    "temperature top_p n stop max_tokens max_completion_tokens max_output_tokens presence_penalty frequency_penalty "
    "logit_bias logprobs top_logprobs seed service_tier store metadata parallel_tool_calls truncation prediction "
    "reasoning include background verbosity"
)
Json = dict[str, Any]
Handler = Callable[[Principal, Request, Json], Awaitable[Response]]


class Asked(Struct, frozen=True, kw_only=True):
    """One request, checked: where it runs and what is said there."""

    session: SessionKey
    # Nobody else talks in this session, so it ends with the request.
    own: bool
    talk: Conversation
    options: RunOptions
    model: str
    ignored: tuple[str, ...] = ()


def endpoint(gateway: Gateway, scope: str, handler: Handler, switch: str = "") -> Callable[..., Awaitable[Response]]:
    """Return a route's function: who asks and what they may is decided before the body is read."""

    async def answer(request: Request) -> Response:
        try:
            principal = await gateway.principal(request)
        except Refused as refused:
            return unauthorized(refused)
        try:
            require(principal, scope)
            _check_open(gateway, switch)
            if scope != READ:
                gateway.ledger.called(principal, request.url.path, "allowed")
            body = await read_body(request, MAX_BODY) if request.method == "POST" else {}
            return await handler(principal, request, body)
        except Problem as problem:
            return JSONResponse(problem.body(), problem.status, {"x-should-retry": "false"})
        except Refused as refused:
            if refused.code is not Code.FORBIDDEN:
                return JSONResponse(Problem(refused.message).body(), 400)
            error = {"message": refused.message, "type": "forbidden", "details": refused.details}
            return JSONResponse({"error": error}, 403)
        except ClientDisconnect:
            return Response(status_code=499)
        except HomarusError as problem:
            return JSONResponse(Problem(str(problem)).body(), 400)
        except Exception as problem:  # noqa: BLE001 - one request that goes wrong is that request's matter
            _log.error("%s failed: %s", request.url.path, where(problem))
            body = Problem("internal error; the gateway's log says more", kind="api_error").body()
            return JSONResponse(body, 500)

    return answer


def _check_open(gateway: Gateway, switch: str) -> None:
    endpoints = gateway.live.settings.http.endpoints
    on = {
        "": True,
        "chatCompletions": endpoints.chat_completions.enabled,
        "responses": endpoints.responses.enabled,
        "either": endpoints.chat_completions.enabled or endpoints.responses.enabled,
    }
    if not on[switch]:
        key = "chatCompletions" if switch == "either" else switch
        raise Problem(f"this endpoint is off: set gateway.http.endpoints.{key}.enabled to true", status=404)
    if gateway.stopping:
        raise Problem(gateway.stopping, status=503, kind="api_error")


async def read_body(request: Request, most: int) -> Json:
    """Read a JSON object of at most so many bytes; what is larger is not even taken in."""
    too_large = Problem(f"the body is larger than {most >> 20} MiB", status=413)
    if int(request.headers.get("content-length") or 0) > most:
        raise too_large
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise too_large
    try:
        body = msgspec.json.decode(bytes(data) or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise Problem(f"the body is no JSON: {problem}") from None
    if not isinstance(body, dict):
        raise Problem("the body is no JSON object")
    return body


def asked(gateway: Gateway, principal: Principal, request: Request, body: Json, talk: Conversation) -> Asked:
    """Work out where a request runs and with what. Raises Problem or Refused."""
    require(principal, command_scope(talk.text))
    model = str(body.get("model") or "")
    agent = agent_of(gateway, model, request.headers.get("x-openclaw-agent-id", ""))
    session, own = _session(gateway, request, agent, body.get("user"))
    tools = caller_tools(body.get("tools"))
    text = body.get("text")
    form = body.get("response_format", text.get("format") if isinstance(text, dict) else None)
    schema = output_schema(form, "response_format")
    needs = (*(["call functions of a program"] if tools else []), *(["give a typed answer"] if schema else []))
    options = RunOptions(
        images=talk.images,
        model=request.headers.get("x-openclaw-model", ""),
        channel=CHANNEL,
        instructions=talk.instructions,
        output_schema=schema,
        needs=tuple(needs),
        tools=tools,
        tool_choice=tool_choice(body.get("tool_choice"), tools),
        taint=talk.taint,
    )
    ignored = tuple(sorted(_IGNORED.intersection(body)))
    return Asked(session=session, own=own, talk=talk, options=options, model=model, ignored=ignored)


def agent_of(gateway: Gateway, model: str, header: str = "") -> str:
    """Return the agent that a model's name means: `openclaw`, `openclaw/<agent>`, `agent:<agent>`."""
    config = gateway.client.home.config
    family, mark, rest = model.partition("/") if "/" in model else model.partition(":")
    if not ((family in _FAMILY and (rest or not mark)) or (family == "agent" and mark == ":" and rest)):
        shown = f"{_FAMILY[0]}, {_FAMILY[0]}/<agent>"
        raise Problem(f"unknown model '{model[:80]}': an agent is named as {shown}", param="model")
    wanted = header or (rest if rest != "default" else "")
    if not wanted:
        return config.default_agent.id
    if wanted not in {agent.id for agent in config.agents}:
        raise Problem(f"no agent '{wanted[:80]}' lives here", param="model")
    return wanted


def _session(gateway: Gateway, request: Request, agent: str, user: Any) -> tuple[SessionKey, bool]:
    named = request.headers.get("x-openclaw-session-key", "").strip()
    if named:
        if any(f":{word}" in f":{named}" for word in _RESERVED):
            raise Problem("x-openclaw-session-key names a session of the program's own")
        return gateway.key(named, agent), False
    if isinstance(user, str) and user.strip():
        # A caller's name is text of theirs: its digest cannot be mistaken for a part of a key.
        return gateway.key(f"agent:{agent}:openai-user:{hashlib.sha256(user.encode()).hexdigest()[:24]}", agent), False
    return gateway.key(f"agent:{agent}:openai:{gateway.ids.uuid()}", agent), True


class Answering:
    """Runs a request's turn: visible text in pieces, and in the end what it came to."""

    def __init__(self, gateway: Gateway, request: Asked) -> None:
        self._gateway = gateway
        self._asked = request
        self._names = {spec.name for spec in request.options.tools}
        self._fold = ReplyFold()
        self.calls: list[ToolCall] = []

    @property
    def reply(self) -> Reply[None]:
        return self._fold.reply()

    async def pieces(self, *, at_once: bool = False) -> AsyncIterator[str]:
        """Give out the visible text as it can be shown, or each message at once."""
        gateway, request, done = self._gateway, self._asked, False
        operations = gateway.client.operations
        if request.talk.history and operations.find(request.session) is None:
            await operations.begin_with(request.session, request.talk.history)
        gateway.feed.attend(request.session)
        shown, gap, sieve = False, False, StreamFilter()
        try:
            async for event in gateway.client.run(request.session, request.talk.text, request.options):
                self._fold.take(event)
                text = ""
                match event:
                    case Notice(kind="reply"):
                        text, gap = event.text, shown
                    case ModelCalled():
                        gap, sieve = shown, StreamFilter()
                    case TextDelta() if not at_once:
                        text = sieve.feed(event.text)
                    case MessageEnded():
                        text = shape(event.message.text).text if at_once else sieve.finish()
                        self.calls += [call for call in event.message.calls if call.name in self._names]
                if text:
                    yield f"\n\n{text}" if gap else text
                    shown, gap = True, False
            done = True
        finally:
            if not done and request.own:
                gateway.client.abort(request.session, "the caller left")
            if request.own:
                gateway.feed.forget(request.session)

    def check(self) -> Reply[None]:
        """Return the reply. Raises Problem where the turn failed, or where the model did not make a call that was demanded."""
        reply, choice = self.reply, self._asked.options.tool_choice
        if not reply.ok:
            # What could be tried again was tried again here.
            status = 504 if reply.status == "timeout" else 502
            raise Problem(reply.error or reply.status, status=status, kind="api_error", code=reply.status)
        if choice not in ("", "none") and not self.calls:
            raise Problem("the model called none of the tools that it had to call", status=502, kind="api_error")
        return reply


async def whole(request: Request, answering: Answering) -> str:
    """Return the whole visible text; a caller who leaves meanwhile is not waited for."""

    async def collect() -> str:
        return "".join([piece async for piece in answering.pieces(at_once=True)])

    work = asyncio.ensure_future(collect())
    try:
        while not (await asyncio.wait({work}, timeout=1.0))[0]:
            if await request.is_disconnected():
                raise ClientDisconnect
        return await work
    finally:
        work.cancel()
        await asyncio.wait({work})


async def beating(pieces: AsyncIterator[str]) -> AsyncIterator[str | None]:
    """Pass pieces on; None for each while in which none came."""
    coming = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            if not (await asyncio.wait({coming}, timeout=BEAT_SECONDS))[0]:
                yield None
                continue
            piece = await coming
            if piece is None:
                return
            yield piece
            coming = asyncio.ensure_future(anext(pieces, None))
    finally:
        coming.cancel()
        await asyncio.wait({coming})


def streamed(events: AsyncIterator[bytes], request: Asked) -> StreamingResponse:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **told(request)}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def told(request: Asked) -> dict[str, str]:
    return {"x-homarus-ignored": ", ".join(request.ignored)} if request.ignored else {}


def usage_of(usage: Usage) -> Json:
    return {"prompt_tokens": usage.prompt, "completion_tokens": usage.output, "total_tokens": usage.total}


def _line(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def routes(gateway: Gateway) -> list[Route]:
    async def completions(principal: Principal, request: Request, body: Json) -> Response:
        want = asked(gateway, principal, request, body, conversation(chat_messages(body.get("messages"))))
        ident = f"chatcmpl-{gateway.ids.uuid()}"
        head = {"id": ident, "created": gateway.now_ms // 1000, "model": want.model}
        answering = Answering(gateway, want)
        if body.get("stream"):
            options = body.get("stream_options")
            counted = isinstance(options, dict) and bool(options.get("include_usage"))
            return streamed(_chunks(answering, head, counted=counted), want)
        text = await whole(request, answering)
        reply = answering.check()
        message: Json = {"role": "assistant", "content": text or None, "refusal": None}
        if answering.calls:
            message["tool_calls"] = [_tool_call(call) for call in answering.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answering)}
        usage = usage_of(reply.usage)
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage}, 200, told(want))

    def rows() -> list[Json]:
        agents = [agent.id for agent in gateway.client.home.config.agents]
        names = ["openclaw", "openclaw/default", *(f"openclaw/{agent}" for agent in agents)]
        facts = {"object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
        return [{"id": name, **facts} for name in names]

    async def models(_principal: Principal, _request: Request, _body: Json) -> Response:
        return JSONResponse({"object": "list", "data": rows()})

    async def model(_principal: Principal, request: Request, _body: Json) -> Response:
        wanted = request.path_params["name"]
        found = next((row for row in rows() if row["id"] == wanted), None)
        if found is None:
            raise Problem(f"no model '{wanted[:80]}' is here", status=404, code="model_not_found", param="model")
        return JSONResponse(found)

    answer = endpoint(gateway, WRITE, completions, "chatCompletions")
    return [
        *posted("/v1/chat/completions", answer),
        Route("/v1/models", endpoint(gateway, READ, models), methods=["GET"]),
        Route("/v1/models/{name:path}", endpoint(gateway, READ, model), methods=["GET"]),
    ]


async def _chunks(answering: Answering, head: Json, *, counted: bool) -> AsyncIterator[bytes]:
    head = {**head, "object": "chat.completion.chunk"}

    def chunk(delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _line({**head, "choices": [choice], **({"usage": None} if counted else {})})

    yield chunk({"role": "assistant", "content": ""})
    try:
        async for piece in beating(answering.pieces()):
            yield chunk({"content": piece}) if piece is not None else b": still at work\n\n"
        answering.check()
    except HomarusError as problem:
        failed = problem if isinstance(problem, Problem) else Problem(str(problem), kind="api_error")
        yield _line(failed.body())
    else:
        for at, call in enumerate(answering.calls):
            yield chunk({"tool_calls": [{"index": at, **_tool_call(call)}]})
        yield chunk({}, _reason(answering))
        if counted:
            yield _line({**head, "choices": [], "usage": usage_of(answering.reply.usage)})
    yield b"data: [DONE]\n\n"


def _tool_call(call: ToolCall) -> Json:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reason(answering: Answering) -> str:
    return "tool_calls" if answering.calls else "stop"
