"""Both wire adapters against servers that replay real event shapes: same contract, same outcome."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from tests.models.servers import ANTHROPIC, OPENAI, Answer, Server, choice, data, problem, serving, sliced

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import StopReason, Text, Thinking, ToolCall, User
from homarus.core.prompt import SystemPrompt
from homarus.models.info import Endpoint, ModelInfo, Price
from homarus.models.provider import ModelRequest, Stop, StreamEvent, ToolCallDelta
from homarus.models.providers.anthropic import AnthropicProvider
from homarus.models.providers.openai import OpenAIProvider
from homarus.net.client import HttpClient
from homarus.net.proxy import Proxies

CLOCK = ManualClock(datetime(2026, 11, 15, tzinfo=UTC))
PRICE = Price(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
DIALECTS = {
    "openai": (OpenAIProvider, "openai-completions", OPENAI),
    "anthropic": (AnthropicProvider, "anthropic-messages", ANTHROPIC),
}


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def http():
    client = HttpClient()
    yield client
    await client.aclose()


def provider(dialect: str, url: str, http: HttpClient):
    build, api, _ = DIALECTS[dialect]
    endpoint = Endpoint(provider="acme", api=api, base_url=url, key="sk-test", auth="bearer")
    return build(endpoint, ModelInfo(provider="acme", id="m1", price=PRICE), http=http, clock=CLOCK)


def ask(text: str = "hello", **changes: object) -> ModelRequest:
    return ModelRequest("m1", SystemPrompt("You are terse."), (User((Text(text),)),), **changes)  # type: ignore[arg-type]


async def collect(stream) -> tuple[list[StreamEvent], Stop]:
    events = [event async for event in stream]
    stops = [event for event in events if isinstance(event, Stop)]
    assert len(stops) == 1
    assert events[-1] is stops[0], "Stop is the last event, exactly once"
    return events[:-1], stops[0]


async def play(dialect: str, http: HttpClient, answer: Answer | str, **changes: object):
    reply = Answer(DIALECTS[dialect][2][answer]) if isinstance(answer, str) else answer
    async with serving(reply) as server:
        events, stop = await collect(provider(dialect, server.url, http).stream(ask(**changes), cancel=Cancel()))
        await http.aclose()
    return events, stop, server


def texts(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_text(dialect: str, http: HttpClient):
    events, stop, server = await play(dialect, http, "text")
    assert texts(events) == "Grüße, wörld 🦞" == stop.message.text
    message = stop.message
    assert stop.error is None
    assert message.stop_reason is StopReason.STOP
    assert (message.provider, message.model, message.api) == ("acme", "m1", DIALECTS[dialect][1])
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (20, 7, 100, 0)
    assert usage.cost.total == pytest.approx((20 * 1 + 7 * 2 + 100 * 0.1) / 1e6)
    assert server.seen[0].headers["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100_000])
async def test_any_slicing_of_the_bytes_gives_the_same_message(dialect: str, http: HttpClient, size: int):
    for name in ("text", "thinking", "parallel"):
        pieces = DIALECTS[dialect][2][name]
        _, whole, _ = await play(dialect, http, Answer(pieces))
        _, cut, _ = await play(dialect, http, Answer(sliced(pieces, size)))
        assert whole.message == cut.message


async def test_thinking(dialect: str, http: HttpClient):
    events, stop, _ = await play(dialect, http, "thinking")
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "Let me see."
    signature = "EqQBCkYIARgC" if dialect == "anthropic" else None
    assert stop.message.parts == (Thinking("Let me see.", signature), Text("Done."))


async def test_redacted_thinking_is_kept_opaque(http: HttpClient):
    _, stop, _ = await play("anthropic", http, "redacted")
    assert stop.message.parts == (Thinking("", "opaque==", redacted=True), Text("Done."))


async def test_parallel_tool_calls(dialect: str, http: HttpClient):
    events, stop, _ = await play(dialect, http, "parallel")
    assert stop.message.parts == (
        Text("Two at once."),
        ToolCall("call_a", "read", {"path": "A.md"}),
        ToolCall("call_b", "ls", {}),
    )
    assert stop.message.stop_reason is StopReason.TOOL_USE
    deltas = [event for event in events if isinstance(event, ToolCallDelta) and event.id == "call_a"]
    assert "".join(event.arguments_fragment for event in deltas) == '{"path": "A.md"}'
    assert {event.name for event in deltas} == {"read"}


async def test_interleaved_tool_calls(http: HttpClient):
    _, stop, _ = await play("openai", http, "interleaved")
    assert [(call.name, call.arguments) for call in stop.message.calls] == [("read", {"path": "A.md"}), ("ls", {})]


async def test_calls_without_an_id_get_one_and_keep_what_was_hung_on_them(http: HttpClient):
    calls = [
        {
            "function": {"name": "ls", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "s1"}},
            "index": 0,
        },
        {"function": {"name": "read", "arguments": '{"path": "A"}'}, "index": 1},
    ]
    pieces = data(choice({"tool_calls": calls}), choice({}, "tool_calls"))
    _, stop, _ = await play("openai", http, Answer(pieces))
    assert [(call.id, call.name) for call in stop.message.calls] == [("call_1_0", "ls"), ("call_1_1", "read")]
    signature = stop.message.parts[0].signature
    assert json.loads(signature) == {"extra": {"call_1_0": {"google": {"thought_signature": "s1"}}}}


@pytest.mark.parametrize(
    "deltas",
    [
        # Every call with the same index, told apart by its id.
        [[{"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{"}}], [{"index": 0, "function": {"arguments": "}"}}],
         [{"index": 0, "id": "b", "function": {"name": "read", "arguments": '{"path": "A"}'}}]],
        # No index at all.
        [[{"id": "a", "function": {"name": "ls", "arguments": "{}"}}, {"id": "b", "function": {"name": "read", "arguments": {"path": "A"}}}]],
        # The id repeated with every fragment.
        [[{"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{"}}], [{"index": 0, "id": "a", "function": {"arguments": "}"}}],
         [{"index": 1, "id": "b", "function": {"name": "read", "arguments": '{"path":'}}], [{"index": 1, "id": "b", "function": {"arguments": '"A"}'}}]],
    ],
)  # fmt: skip
async def test_the_ways_servers_number_their_calls(http: HttpClient, deltas: list[list[dict[str, object]]]):
    pieces = data(*[choice({"tool_calls": calls}) for calls in deltas], choice({}, "tool_calls"))
    _, stop, _ = await play("openai", http, Answer(pieces))
    assert stop.message.calls == (ToolCall("a", "ls", {}), ToolCall("b", "read", {"path": "A"}))


@pytest.mark.parametrize("name", ["cut", "cut_after_call"])
@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_cut_stream_makes_no_tool_call(dialect: str, http: HttpClient, name: str, abrupt: bool):
    events, stop, _ = await play(dialect, http, Answer(DIALECTS[dialect][2][name], cut=abrupt))
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.TIMEOUT
    assert stop.message.calls == ()
    assert stop.message.text == texts(events) == "Half a "
    assert stop.message.stop_reason is StopReason.ERROR
    assert stop.message.error


async def test_rate_limit_with_retry_after(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, problem(dialect, 429, retry_after="17"))
    assert stop.error is not None
    assert (stop.error.kind, stop.error.status, stop.error.retry_after) == (ModelFailure.RATE_LIMIT, 429, 17.0)
    assert stop.message.parts == ()


@pytest.mark.parametrize(("status", "kind"), [(529, ModelFailure.OVERLOADED), (401, ModelFailure.AUTH)])
async def test_refused_requests(dialect: str, http: HttpClient, status: int, kind: ModelFailure):
    _, stop, _ = await play(dialect, http, problem(dialect, status))
    assert stop.error is not None
    assert stop.error.kind is kind
    assert str(stop.error).startswith("acme/m1: ")


async def test_malformed_arguments_are_an_error_and_not_a_guess(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, "malformed")
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.UNKNOWN
    assert "read" in stop.error.message
    assert stop.message.calls == ()


async def test_arguments_with_one_possible_meaning_are_read(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, "repairable")
    assert stop.error is None
    assert stop.message.calls == (ToolCall("call_a", "read", {"path": "A.md"}),)


async def test_a_reply_that_hit_its_limit_drops_the_unfinished_call(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, "length")
    assert stop.error is None
    assert stop.message.stop_reason is StopReason.LENGTH
    assert stop.message.parts == (Text("Long"),)


async def test_an_empty_reply_is_complete_and_empty(dialect: str, http: HttpClient):
    events, stop, _ = await play(dialect, http, "empty")
    assert (events, stop.error, stop.message.parts) == ([], None, ())
    assert stop.message.stop_reason is StopReason.STOP


async def test_a_refusal_is_typed(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, "refusal")
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.REFUSAL
    assert stop.message.text == "I can"


async def test_an_error_inside_the_stream(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, "error_in_stream")
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.RATE_LIMIT
    assert stop.message.text == "So "


async def test_an_event_that_is_no_json(dialect: str, http: HttpClient):
    _, stop, _ = await play(dialect, http, "no_json")
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.SERVER


async def test_nobody_listens(dialect: str, http: HttpClient):
    async with serving(Answer()) as server:
        url = server.url
    _, stop = await collect(provider(dialect, url, http).stream(ask(), cancel=Cancel()))
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.UNREACHABLE
    assert f"nothing listens on {urlsplit(url).netloc}" in stop.error.message
    assert "start the server" in stop.error.cure


async def test_another_machine_takes_no_connection(dialect: str):
    async def choose(host: str, port: int) -> str:
        return "127.0.0.1"

    async with serving(Answer()) as server:
        url = server.url.replace("127.0.0.1", "far.example")
    _, stop = await collect(provider(dialect, url, HttpClient(choose=choose)).stream(ask(), cancel=Cancel()))
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.NO_CONNECTION
    assert url in stop.error.message


async def test_a_silent_server_is_given_up(dialect: str, http: HttpClient):
    answer = Answer(DIALECTS[dialect][2]["text"][:3], hang=True)
    _, stop, _ = await play(dialect, http, answer, idle_timeout=0.05)
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.TIMEOUT
    assert "no data for 0.05 s" in stop.error.message


async def test_slow_but_steady_is_no_timeout(dialect: str, http: HttpClient):
    answer = Answer(DIALECTS[dialect][2]["text"], pause=0.02)
    _, stop, _ = await play(dialect, http, answer, idle_timeout=30.0)
    assert stop.error is None


@pytest.mark.parametrize("moment", ["before", "waiting", "streaming"])
async def test_abort_ends_the_stream_at_once(dialect: str, http: HttpClient, moment: str):
    pieces = [] if moment == "waiting" else DIALECTS[dialect][2]["text"][:4]
    cancel = Cancel()
    async with serving(Answer(pieces, hang=True)) as server:
        if moment == "before":
            cancel.cancel("user")
        stream = provider(dialect, server.url, http).stream(ask(), cancel=cancel)
        asyncio.get_running_loop().call_later(0.05, cancel.cancel, "user")
        async with asyncio.timeout(60):  # the server would be silent for ever
            events, stop = await collect(stream)
        await drained(server)
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.ABORTED
    assert stop.message.stop_reason is StopReason.ABORTED
    assert texts(events) == stop.message.text


async def test_connections_are_kept(dialect: str, http: HttpClient):
    pieces = DIALECTS[dialect][2]["text"]
    async with serving(Answer(pieces)) as server:
        model = provider(dialect, server.url, http)
        for _ in range(5):
            _, stop = await collect(model.stream(ask(), cancel=Cancel()))
            assert stop.error is None
        assert server.connections == 1
        await http.aclose()


async def test_a_server_that_does_not_stream(http: HttpClient):
    whole = {
        "openai": b'{"choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"c","function":'
        b'{"name":"ls","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}',
        "anthropic": b'{"type":"message","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"c","name":"ls",'
        b'"input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":1}}',
    }
    for dialect, body in whole.items():
        answer = Answer([body], headers={"content-type": "application/json"}, chunked=False)
        _, stop, _ = await play(dialect, http, answer)
        assert stop.message.parts == (Text("Hi"), ToolCall("c", "ls", {}))
        assert stop.message.usage.prompt == 3


async def test_an_address_that_is_no_model_is_named_and_not_asked_again(dialect: str, http: HttpClient):
    page = Answer([b"<html><title>Log in</title></html>"], headers={"content-type": "text/html"}, chunked=False)
    elsewhere = Answer([b""], status=302, headers={"location": "https://example.com/login"}, chunked=False)
    for answer, said in ((page, "is a web page"), (elsewhere, "https://example.com/login")):
        _, stop, _ = await play(dialect, http, answer)
        assert stop.error is not None
        assert stop.error.kind is ModelFailure.MODEL_NOT_FOUND
        assert said in stop.error.message


async def test_a_consumer_that_walks_away_frees_the_connection(dialect: str, http: HttpClient):
    async with serving(Answer(DIALECTS[dialect][2]["text"][:4], hang=True)) as server:
        stream = provider(dialect, server.url, http).stream(ask(), cancel=Cancel())
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()
        await drained(server)


async def drained(server: Server) -> None:
    """Wait until every connection is gone, not kept."""
    async with asyncio.timeout(60):
        while server.open:
            await asyncio.sleep(0.01)


async def test_a_key_that_the_server_repeats_is_neither_shown_nor_stored(dialect: str, http: HttpClient):
    body = b'{"error":{"message":"bad key sk-test for you","type":"authentication_error"}}'
    for status in (400, 401):
        answer = Answer([body], status=status, headers={"content-type": "application/json"})
        _, stop, _ = await play(dialect, http, answer)
        assert stop.error is not None
        assert "sk-test" not in f"{stop.error!r} {stop.error} {stop.message}"
        assert "bad key" in stop.message.error
        assert stop.error.kind is ModelFailure.AUTH


async def test_a_proxy_or_certificate_that_says_no_is_told_at_once_with_its_cure(dialect: str, http: HttpClient):
    async with serving(Answer([b"x"], status=407)) as server:
        refusing = HttpClient(proxies=Proxies(http=server.url.removesuffix("/v1")))
        model = provider(dialect, "http://models.example.invalid/v1", refusing)
        _, stop = await collect(model.stream(ask(), cancel=Cancel()))
        await refusing.aclose()
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.UNREACHABLE
    assert "407" in stop.error.message
    assert "user and password" in stop.error.cure
