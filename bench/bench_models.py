"""What a model call costs beside the model: building the request and reading the stream, against a bare socket."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measure import Ctx, Row, against
from homarus.core.cancel import Cancel
from homarus.core.clock import SystemClock
from homarus.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from homarus.core.prompt import SystemPrompt
from homarus.core.tools import ToolSpec
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelRequest, Stop
from homarus.models.providers.anthropic import AnthropicProvider
from homarus.models.providers.openai import OpenAIProvider
from homarus.net.client import HttpClient

SIZES = (10, 300, 1_000)
END = b"0\r\n\r\n"
# An instant model in a process of its own, so that its time is not ours: six deltas, usage, the end.
SERVER = """
import asyncio, json
def event(delta, finish=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
events = [event({"content": "word " * 8}) for _ in range(6)]
events += [event({}, "stop"), {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}]
body = b"".join(b"data: " + json.dumps(e).encode() + b"\\n\\n" for e in events) + b"data: [DONE]\\n\\n"
reply = (b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
         + b"%x\\r\\n" % len(body) + body + b"\\r\\n0\\r\\n\\r\\n")
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            size = next(int(l.split(b":")[1]) for l in head.lower().split(b"\\r\\n") if l.startswith(b"content-length"))
            await reader.readexactly(size)
            writer.write(reply)
    except asyncio.IncompleteReadError:
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def run(ctx: Ctx) -> list[Row]:
    """Measure imports, building and whole calls; CPU time of this process only."""
    return [*_imports(ctx), *_build(ctx), *_calls(ctx)]


def _history(count: int) -> tuple[Message, ...]:
    made: list[Message] = []
    for number in range(0, count, 4):
        made.append(
            User((Text(f"Question {number}: " + "where did I put the keys? " * 6),), context="Date: 2026-11-15")
        )
        made.append(Assistant((Text("Let me look."), ToolCall(f"c{number}", "read", {"path": f"notes/{number}.md"}))))
        made.append(ToolResult(f"c{number}", "read", (Text("- the keys hang by the door\n" * 8),)))
        made.append(Assistant((Text("They hang by the door. " * 6),)))
    return tuple(made[:count])


TOOLS = tuple(
    ToolSpec(f"tool_{n}", "Does one thing well. " * 8, {"type": "object", "properties": {"path": {"type": "string"}}})
    for n in range(20)
)


def _request(messages: tuple[Message, ...]) -> ModelRequest:
    return ModelRequest("m", SystemPrompt("You are helpful. " * 600, "Session."), messages, TOOLS, session_id="s")


def _provider(
    url: str, kind: type[OpenAIProvider | AnthropicProvider], http: HttpClient
) -> OpenAIProvider | AnthropicProvider:
    endpoint = Endpoint(provider="bench", api="", base_url=url)
    return kind(endpoint, ModelInfo(provider="bench", id="m"), http=http, clock=SystemClock())


def _imports(ctx: Ctx) -> list[Row]:
    ours = "import homarus.models.access, homarus.models.providers.openai, homarus.models.providers.anthropic"
    base = "import asyncio, msgspec, homarus.config.load"
    commands = {
        "floor": [sys.executable, "-c", base],
        "ours": [sys.executable, "-c", f"{base}; {ours}"],
        "wire": [sys.executable, "-c", f"{base}; {ours}; import homarus.net.transport"],
    }
    spent = ctx.programs(commands)
    label = "asyncio, msgspec and the configuration"
    return [
        against("import of the model layer", spent["ours"].cpu, label, spent["floor"].cpu, 1.25),
        against("import with what the first request needs", spent["wire"].cpu, label, spent["floor"].cpu),
    ]


def _build(ctx: Ctx) -> list[Row]:
    rows = []
    for size in SIZES:
        for name, kind in (("chat completions", OpenAIProvider), ("Anthropic", AnthropicProvider)):
            model = _provider("http://x", kind, HttpClient())
            histories = [_request(_history(size)), _request((*_history(size), User((Text("and now?"),))))]
            whole = b"".join(model.call(histories[0]).body)
            pieces = [whole[i : i + 500] for i in range(0, len(whole), 500)]
            turn = iter(range(10**9))
            # Each call brings one new message, as the next turn of a session does.
            taken = ctx.calls(
                {
                    "ours": lambda m=model, h=histories, t=turn: m.call(h[next(t) % 2]),
                    "join": lambda p=pieces: b"".join(p),
                },
                number=20,
            )
            rows.append(
                against(
                    f"build a request, {size:,} messages, {name}", taken["ours"], "joining as many bytes", taken["join"]
                )
            )
    return rows


@contextmanager
def _server() -> Iterator[int]:
    child = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield int(child.stdout.readline())
    finally:
        child.terminate()
        child.wait()
        child.stdout.close()


def _calls(ctx: Ctx) -> list[Row]:
    rows = []
    loop = asyncio.new_event_loop()
    with _server() as port:
        http = HttpClient()
        model = _provider(f"http://127.0.0.1:{port}/v1", OpenAIProvider, http)
        plain = socket.create_connection(("127.0.0.1", port))
        for size in SIZES:
            request = _request(_history(size))
            body = b"".join(model.call(request).body)
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)

            async def ask(wanted: ModelRequest = request) -> None:
                async for event in model.stream(wanted, cancel=Cancel()):
                    if isinstance(event, Stop):
                        assert event.error is None, event.error

            def bare(head: bytes = head, body: bytes = body) -> None:
                plain.sendall(head + body)
                data = b""
                while not data.endswith(END):
                    data += plain.recv(65536)

            taken = ctx.calls({"ours": lambda a=ask: loop.run_until_complete(a()), "bare": bare}, number=5)
            target = None
            rows.append(
                against(
                    f"a whole streamed call, {size:,} messages", taken["ours"], "a bare socket", taken["bare"], target
                )
            )
        plain.close()
        loop.run_until_complete(http.aclose())
    loop.close()
    return rows
