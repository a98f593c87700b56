"""Model servers on loopback that replay event shapes of real providers, byte by byte if asked to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    connection: int

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Answer:
    """One reply: status and body, or a stream of pieces with pauses; `cut` closes the connection before the end."""

    pieces: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    cut: bool = False
    hang: bool = False
    chunked: bool = True


class Server:
    """Answers requests in the order of its script; the last answer repeats."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.seen: list[Seen] = []
        self.connections = 0
        self.open = 0
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        number = self.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
                raw = await reader.readexactly(int(headers.get("content-length", 0)))
                self.seen.append(Seen(method, path, headers, raw, number))
                answer = self.choose(self.seen[-1])
                if not await self.answer(writer, answer):
                    return
                if answer.hang:
                    await reader.read()
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    def choose(self, _seen: Seen) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def answer(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        headers = {"content-type": "text/event-stream; charset=utf-8", **answer.headers}
        if answer.chunked:
            headers["transfer-encoding"] = "chunked"
        else:
            headers["content-length"] = str(sum(map(len, answer.pieces)))
        head = f"HTTP/1.1 {answer.status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        writer.write(head.encode())
        for piece in answer.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.chunked else piece)
            await writer.drain()
            if answer.pause:
                await asyncio.sleep(answer.pause)
        if answer.hang:
            return True
        if answer.cut:
            writer.transport.abort()
            return False
        if answer.chunked:
            writer.write(b"0\r\n\r\n")
        return True


@contextlib.asynccontextmanager
async def serving(*answers: Answer, server: Server | None = None) -> AsyncIterator[Server]:
    """Run a server for a while; every connection is closed at the end."""
    server = server or Server(*answers)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 24)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def data(*events: Any, end: bool = True) -> list[bytes]:
    """Chat-completion events."""
    out = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    return [*out, b"data: [DONE]\n\n"] if end else out


def named(*events: dict[str, Any]) -> list[bytes]:
    """Anthropic events: each is named after its type."""
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def sliced(pieces: Iterable[bytes], size: int) -> list[bytes]:
    """The same bytes in pieces of another size."""
    whole = b"".join(pieces)
    return [whole[i : i + size] for i in range(0, len(whole), size)]


# --- chat completions ------------------------------------------------------------------------------------------------


def choice(delta: dict[str, Any], finish: str | None = None, **extra: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **extra,
    }


OPENAI_USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 7,
    "total_tokens": 127,
    "prompt_tokens_details": {"cached_tokens": 100},
}


def openai_tail(finish: str) -> list[dict[str, Any]]:
    return [choice({}, finish), {"id": "chatcmpl-1", "choices": [], "usage": OPENAI_USAGE}]


def openai_call(index: int, call_id: str, name: str, fragments: list[str]) -> list[dict[str, Any]]:
    first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    rest = [{"index": index, "function": {"arguments": fragment}} for fragment in fragments]
    return [choice({"tool_calls": [item]}) for item in (first, *rest)]


OPENAI = {
    "text": data(
        choice({"role": "assistant", "content": ""}),
        choice({"content": "Grüße, "}),
        choice({"content": "wörld 🦞"}),
        *openai_tail("stop"),
    ),
    "thinking": data(
        choice({"role": "assistant", "reasoning_content": "Let me "}),
        choice({"reasoning_content": "see."}),
        choice({"content": "Done."}),
        *openai_tail("stop"),
    ),
    "parallel": data(
        choice({"role": "assistant", "content": "Two at once."}),
        *openai_call(0, "call_a", "read", ['{"path"', ': "A.md"}']),
        *openai_call(1, "call_b", "ls", ["{", "}"]),
        *openai_tail("tool_calls"),
    ),
    "interleaved": data(
        *[
            event
            for pair in zip(
                openai_call(0, "call_a", "read", ['{"path"', ': "A.md"}']),
                openai_call(1, "call_b", "ls", ["{", "}"]),
                strict=True,
            )
            for event in pair
        ],
        *openai_tail("tool_calls"),
    ),
    "cut": data(
        choice({"role": "assistant", "content": "Half a "}),
        *openai_call(0, "call_a", "exec", ['{"command": "rm -']),
        end=False,
    ),
    "cut_after_call": data(
        choice({"role": "assistant", "content": "Half a "}),
        *openai_call(0, "call_a", "exec", ['{"command": "true"}']),
        end=False,
    ),
    "malformed": data(*openai_call(0, "call_a", "read", ['{"path": A.md']), *openai_tail("tool_calls")),
    "repairable": data(*openai_call(0, "call_a", "read", ['{"path": "A.md",}']), *openai_tail("tool_calls")),
    "length": data(
        choice({"content": "Long"}), *openai_call(0, "call_a", "read", ['{"path": "A']), *openai_tail("length")
    ),
    "empty": data(choice({"role": "assistant", "content": ""}), *openai_tail("stop")),
    "refusal": data(choice({"content": "I can"}), *openai_tail("content_filter")),
    "error_in_stream": data(
        choice({"content": "So "}), {"error": {"code": 429, "message": "Rate limit exceeded", "type": "rate_limit"}}
    ),
    "no_json": [b"data: {not json}\n\n"],
}

# --- Anthropic messages ----------------------------------------------------------------------------------------------

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {
            "input_tokens": 20,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 100,
            "output_tokens": 1,
        },
    },
}
PING = {"type": "ping"}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *[{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": index},
    ]


def words(index: int, *texts: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *[{"type": "text_delta", "text": text} for text in texts])


def tool_use(index: int, call_id: str, name: str, *fragments: str) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(index, start, *[{"type": "input_json_delta", "partial_json": text} for text in fragments])


def finish(reason: str) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Let me "},
    {"type": "thinking_delta", "thinking": "see."},
    {"type": "signature_delta", "signature": "EqQBCkYIARgC"},
)

ANTHROPIC = {
    "text": named(START, PING, *words(0, "Grüße, ", "wörld 🦞"), *finish("end_turn")),
    "thinking": named(START, *THOUGHT, *words(1, "Done."), *finish("end_turn")),
    "redacted": named(
        START,
        *block(0, {"type": "redacted_thinking", "data": "opaque=="}),
        *words(1, "Done."),
        *finish("end_turn"),
    ),
    "parallel": named(
        START,
        *words(0, "Two at once."),
        *tool_use(1, "call_a", "read", "", '{"path"', ': "A.md"}'),
        *tool_use(2, "call_b", "ls"),
        *finish("tool_use"),
    ),
    "cut": named(START, *words(0, "Half a "), *tool_use(1, "call_a", "exec", '{"command": "rm -')[:-1]),
    "cut_after_call": named(START, *words(0, "Half a "), *tool_use(1, "call_a", "exec", '{"command": "true"}')),
    "malformed": named(START, *tool_use(0, "call_a", "read", '{"path": A.md'), *finish("tool_use")),
    "repairable": named(START, *tool_use(0, "call_a", "read", '{"path": "A.md",}'), *finish("tool_use")),
    "length": named(
        START, *words(0, "Long"), *tool_use(1, "call_a", "read", '{"path": "A')[:-1], *finish("max_tokens")
    ),
    "empty": named(START, *finish("end_turn")),
    "refusal": named(START, *words(0, "I can"), *finish("refusal")),
    "error_in_stream": named(
        START,
        *words(0, "So ")[:-1],
        {"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limit exceeded"}},
    ),
    "no_json": [b"event: message_start\ndata: {not json}\n\n"],
}

ERRORS = {
    "openai": {
        429: {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}},
        529: {"error": {"message": "Overloaded", "type": "server_error"}},
        401: {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}},
    },
    "anthropic": {
        429: {"type": "error", "error": {"type": "rate_limit_error", "message": "This would exceed your rate limit"}},
        529: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        401: {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    },
}


def problem(dialect: str, status: int, **headers: str) -> Answer:
    """An error reply as that provider writes it."""
    body = json.dumps(ERRORS[dialect][status]).encode()
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([body], status=status, headers={"content-type": "application/json", **extra}, chunked=False)
