"""Requests as bytes: each turn's request is a prefix of the next, in this process and in the next one."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from homarus.core.clock import SystemClock
from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from homarus.core.prompt import SystemPrompt
from homarus.core.tools import ToolSpec
from homarus.models.catalog import Catalog
from homarus.models.info import Endpoint, ModelInfo, Quirks
from homarus.models.provider import ModelRequest
from homarus.models.providers import anthropic_wire, openai_wire
from homarus.models.providers.anthropic import AnthropicProvider
from homarus.models.providers.base import HttpProvider
from homarus.models.providers.openai import OpenAIProvider
from homarus.models.providers.openai_wire import ReasoningState
from homarus.models.ref import Names
from homarus.net.client import HttpClient

SYSTEM = SystemPrompt("Stable part.", "Session part.")
TOOLS = (
    ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("ls", "List a folder.", {"type": "object", "properties": {}}),
)
SEER = ModelInfo(provider="acme", id="m1", input=("text", "image"), levels=("off", "low", "high"))
BLIND = ModelInfo(provider="acme", id="m1")
PLAIN = Quirks()
ENDPOINT = Endpoint(provider="acme", api="openai-completions", base_url="http://x/v1", quirks=PLAIN)


def said(text: str) -> User:
    return User((Text(text),), context=f"context of {text}")


def answered(text: str, *calls: ToolCall) -> Assistant:
    return Assistant((Text(text), *calls), provider="acme", model="m1")


def result(call_id: str, text: str, *more: Image) -> ToolResult:
    return ToolResult(call_id, "read", (Text(text), *more))


def session() -> list[tuple[Message, ...]]:
    """The messages of each request of a ten-turn session with two tool turns."""
    history: list[Message] = []
    requests = []
    for turn in range(10):
        history.append(said(f"turn {turn} ünïcode \U0001f99e"))
        requests.append(tuple(history))
        if turn in {3, 6}:
            history.append(
                answered("looking", ToolCall(f"a{turn}", "read", {"path": "A"}), ToolCall(f"b{turn}", "ls", {}))
            )
            history += [result(f"a{turn}", "one", Image("aGk=", "image/png")), result(f"b{turn}", "two")]
            requests.append(tuple(history))
        history.append(answered(f"reply {turn}"))
    return requests


def request(messages: tuple[Message, ...], **changes: object) -> ModelRequest:
    return ModelRequest("m1", SYSTEM, messages, TOOLS, session_id="s1", **changes)  # type: ignore[arg-type]


def openai_body(
    messages: tuple[Message, ...], quirks: Quirks = PLAIN, info: ModelInfo = SEER, **changes: object
) -> bytes:
    endpoint = Endpoint(provider="acme", api="openai-completions", base_url="http://x/v1", quirks=quirks)
    return sent(OpenAIProvider, endpoint, info, request(messages, **changes))


def anthropic_body(messages: tuple[Message, ...], info: ModelInfo = SEER, **changes: object) -> bytes:
    return sent(AnthropicProvider, ENDPOINT, info, request(messages, **changes))


def sent(kind: type[HttpProvider[Any]], endpoint: Endpoint, info: ModelInfo, asked: ModelRequest) -> bytes:
    return b"".join(kind(endpoint, info, http=HttpClient(), clock=SystemClock()).call(asked).body)


def opened(body: bytes) -> bytes:
    """A body up to the end of its last message: what stands behind the messages belongs to the one call."""
    start = body.index(b'"messages":[') + len(b'"messages":')
    text = body[start:].decode()
    _, end = json.JSONDecoder().raw_decode(text)
    return body[: start + len(text[:end].encode()) - 1].removesuffix(b"]}")


def test_openai_requests_are_prefixes_of_the_next():
    bodies = [openai_body(messages, Quirks(cache_key=True)) for messages in session()]
    assert len(bodies) == 12
    for body, following in itertools.pairwise(bodies):
        json.loads(body)
        assert following.startswith(opened(body))


def test_anthropic_requests_are_prefixes_of_the_next_but_for_the_moving_mark():
    mark = b',"cache_control":{"type":"ephemeral"}'
    plain = [anthropic_body(messages).replace(mark, b"") for messages in session()]
    assert plain == [anthropic_body(messages, cache=False) for messages in session()]
    for body, following in itertools.pairwise(plain):
        json.loads(body)
        assert following.startswith(opened(body))


LEVELS: list[dict[str, object]] = [{"thinking": "off"}, {"thinking": "high"}, {"params": {"serviceTier": "priority"}},
          {"thinking": "low", "max_tokens": None}, {"tool_choice": "none"}, {"response_schema": {"type": "object"}}]  # fmt: skip


@pytest.mark.parametrize("make", [partial(openai_body, quirks=Quirks(thinking_format="openai")), anthropic_body])
def test_what_one_turn_asks_for_does_not_change_the_beginning_of_its_request(make: Callable[..., bytes]):
    steps = zip(session(), itertools.cycle(LEVELS))
    bodies = [make(messages, cache=False, **changes) for messages, changes in steps]
    assert len({tuple(json.loads(body)) for body in bodies}) > 3, "the fields are there"
    for body, following in itertools.pairwise(bodies):
        assert following.startswith(opened(body))


def test_the_bytes_are_the_same_in_another_process():
    script = "from tests.models.test_wire import *; import sys; sys.stdout.buffer.write(openai_body(session()[-1]) + anthropic_body(session()[-1]))"
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert found.stdout == openai_body(session()[-1]) + anthropic_body(session()[-1])


class Counted(OpenAIProvider):
    """A provider that says what it encoded."""

    def __init__(self) -> None:
        super().__init__(ENDPOINT, SEER, http=HttpClient(), clock=SystemClock())
        self.made: list[Message] = []

    def encode(self, message: Message) -> openai_wire.Fragment:
        self.made.append(message)
        return super().encode(message)

    def sent(self, asked: ModelRequest) -> bytes:
        return b"".join(self.call(asked).body)


def test_history_is_encoded_once():
    counted, requests = Counted(), session()
    for messages in requests:
        assert counted.sent(request(messages)) == openai_body(messages)
    made = counted.made
    assert len(made) == len(requests[-1])
    # Equal messages that were read from disk again cost nothing either; a changed one is made again, with what follows it.
    counted.sent(request(session()[-1]))
    assert len(made) == len(requests[-1])
    changed = (*requests[-1][:5], said("edited"), *requests[-1][6:])
    assert counted.sent(request(changed)) == openai_body(changed)
    assert len(made) == 2 * len(requests[-1]) - 5
    # A shorter history (after a compaction) is right too.
    assert counted.sent(request(changed[:3])) == openai_body(changed[:3])


def test_sessions_do_not_share_their_bytes_and_a_single_question_leaves_none():
    counted, messages = Counted(), session()[-1]
    for name in ("a", "b", "a", "", "", "b"):
        asked = ModelRequest("m1", SYSTEM, messages, TOOLS, session_id=name)
        assert counted.sent(asked) == openai_body(messages)
    assert len(counted.made) == 4 * len(messages), "once for each session and for each question without a session"


def test_what_was_asked_before_stands_around_the_messages_no_longer():
    counted, messages = Counted(), session()[3]
    for changes in [*LEVELS, {"cache": False}, {"max_tokens": 7}, {"params": {"seed": 1}}, {}]:
        assert counted.sent(request(messages, **changes)) == openai_body(messages, **changes)


def test_openai_shape():
    body = json.loads(openai_body(session()[-1]))
    assert list(body)[-1] == "messages"
    assert body["tools"][0]["function"]["name"] == "read"
    messages = body["messages"]
    assert messages[0] == {"role": "system", "content": "Stable part.\n\nSession part."}
    assert messages[1]["content"].endswith("\n\ncontext of turn 0 ünïcode \U0001f99e")
    roles = [message["role"] for message in messages]
    first = roles.index("tool")
    assert roles[first - 1 : first + 4] == ["assistant", "tool", "tool", "user", "assistant"], (
        "images wait for the batch"
    )
    assert messages[first + 2]["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
    calls = messages[first - 1]["tool_calls"]
    assert calls[0] == {"id": "a3", "type": "function", "function": {"name": "read", "arguments": '{"path":"A"}'}}


def test_a_model_without_eyes_gets_words():
    messages = (
        User((Text("see"), Image("aGk=", "image/png"))),
        answered("", ToolCall("c", "read", {})),
        ToolResult("c", "read", (Image("aGk=", "image/png"),)),
    )
    for body in (openai_body(messages, info=BLIND), anthropic_body(messages, info=BLIND)):
        assert b"aGk=" not in body
        assert body.count(b"image left out") == 2


@pytest.mark.parametrize(
    ("rule", "given", "pattern"),
    [
        ("mistral", "call_1234567890", r"[A-Za-z0-9]{9}"),
        ("mistral", "abcdef123", "abcdef123"),
        ("alnum", "call_a-b", r"[A-Za-z0-9]{1,40}"),
        ("any", "toolu_01", "toolu_01"),
        ("any", "x" * 200, r"[A-Za-z0-9_]{1,64}"),
        ("any", "a b\n", r"call_[0-9a-f]{24}"),
    ],
)
def test_tool_call_ids(rule: str, given: str, pattern: str):
    made = openai_wire.wire_id(given, rule)
    assert re.fullmatch(pattern, made)
    assert made == openai_wire.wire_id(given, rule)


def test_call_and_result_keep_matching_after_rewriting_ids():
    messages = (said("x"), answered("", ToolCall("weird id", "ls", {})), result("weird id", "ok"))
    for rule in ("mistral", "alnum", "any"):
        body = json.loads(openai_body(messages, Quirks(tool_call_ids=rule)))["messages"]
        assert body[2]["tool_calls"][0]["id"] == body[3]["tool_call_id"]
    body = json.loads(anthropic_body(messages))["messages"]
    assert body[1]["content"][0]["id"] == body[2]["content"][0]["tool_use_id"]


def test_quirks_of_chat_completion_servers():
    messages = (said("x"), answered("", ToolCall("c", "ls", {})), result("c", "ok"), said("steer"))
    bridged = json.loads(openai_body(messages, Quirks(bridge_after_tool=True)))["messages"]
    assert [message["role"] for message in bridged][-3:] == ["tool", "assistant", "user"]
    plain = json.loads(
        openai_body(
            messages, Quirks(supports_usage_in_streaming=False, max_tokens_field="max_completion_tokens"), max_tokens=99
        )
    )
    assert "stream_options" not in plain
    assert plain["max_completion_tokens"] == 99
    assert "tools" not in json.loads(openai_body(messages, Quirks(supports_tools=False)))
    marked = json.loads(openai_body(messages, Quirks(cache_markers_for=("m",))))["messages"]
    assert [block["cache_control"] for block in marked[0]["content"]] == [{"type": "ephemeral"}] * 2
    assert marked[-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("form", "level", "expected"),
    [
        ("effort", "high", {"reasoning_effort": "high"}),
        ("effort", "off", {"reasoning_effort": "none"}),
        ("effort", "", {}),
        ("openrouter", "low", {"reasoning": {"effort": "low"}}),
        ("openrouter", "off", {"reasoning": {"enabled": False}}),
        ("thinking", "high", {"thinking": {"type": "enabled"}}),
        ("thinking", "off", {"thinking": {"type": "disabled"}}),
        ("qwen", "high", {"enable_thinking": True}),
        ("none", "high", {}),
    ],
)
def test_how_a_level_travels(form: str, level: str, expected: dict[str, object]):
    assert openai_wire.thinking_fields(level, Quirks(thinking_format=form), SEER) == expected
    assert openai_wire.thinking_fields(level, Quirks(thinking_format=form), BLIND) == {}


def test_reasoning_goes_back_only_where_it_is_wanted():
    chat = "openai-completions"
    thought = Assistant((Thinking("hmm"), Text("ok")), api=chat, provider="acme", model="m1")
    assert b"hmm" not in openai_body((said("x"), thought))
    wanted = json.loads(openai_body((said("x"), thought), Quirks(replay_reasoning="reasoning_content")))
    assert wanted["messages"][2]["reasoning_content"] == "hmm"
    for api, provider in ((chat, "other"), ("anthropic-messages", "acme"), ("", "acme")):
        foreign = Assistant((Thinking("hmm"), Text("ok")), api=api, provider=provider, model="m1")
        assert b"hmm" not in openai_body((said("x"), foreign), Quirks(replay_reasoning="reasoning_content"))


def test_opaque_reasoning_travels_in_the_signature():
    carrier = ReasoningState()
    carrier.details(
        [
            {"type": "reasoning.text", "index": 0, "text": "a"},
            {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        ]
    )
    carrier.hang(0, {"google": {"thought_signature": "sig"}})
    reply = Assistant(
        (Thinking("ab", carrier.signature({0: "c1"})), ToolCall("c1", "ls", {})),
        api="openai-completions",
        provider="acme",
        model="m1",
    )
    wire = json.loads(openai_body((said("x"), reply, result("c1", "ok"))))["messages"][2]
    assert wire["reasoning_details"] == [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}]
    assert wire["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
    for other in ({"model": "m2"}, {"provider": "other"}, {"api": "openai-responses"}):
        assert b"sig" not in openai_body((said("x"), replace(reply, **other), result("c1", "ok")))


@pytest.mark.parametrize(
    ("typed", "wire"),
    [
        ("openrouter/auto", "openrouter/auto"),
        ("openrouter/openrouter/auto", "openrouter/auto"),
        ("openrouter/free", "openrouter/free"),
        ("openrouter/moonshotai/kimi-k2", "moonshotai/kimi-k2"),
        ("openrouter/@preset/kimi", "@preset/kimi"),
        ("groq/llama-3", "llama-3"),
    ],
)
def test_a_servers_own_models_carry_its_name_on_the_wire(typed: str, wire: str):
    ref, catalog = Names().resolve(typed).ref, Catalog()
    endpoint = Endpoint(
        provider=ref.provider, api="openai-completions", base_url="http://x", quirks=catalog.quirks(ref)
    )
    request = ModelRequest(ref.model, SystemPrompt(""), (said("x"),))
    assert json.loads(sent(OpenAIProvider, endpoint, catalog.model(ref), request))["model"] == wire


def test_anthropic_shape_and_marks():
    body = json.loads(anthropic_body(session()[-1]))
    assert list(body)[-3:] == ["messages", "max_tokens", "thinking"]
    assert [block["text"] for block in body["system"]] == ["Stable part.", "Session part."]
    assert all(block["cache_control"] == {"type": "ephemeral"} for block in body["system"])
    roles = [message["role"] for message in body["messages"]]
    assert all(a != b for a, b in itertools.pairwise(roles)), "roles alternate"
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert json.dumps(body).count("cache_control") == 3
    assert b"cache_control" not in anthropic_body(session()[-1], cache=False)
    long = json.loads(anthropic_body(session()[-1], params={"cacheRetention": "long"}))
    assert long["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_a_long_step_gets_a_second_mark_within_the_servers_lookback():
    calls = [ToolCall(f"c{i}", "ls", {}) for i in range(12)]
    messages = (said("x"), answered("many", *calls), *(result(call.id, "ok") for call in calls))
    body = json.loads(anthropic_body(messages))
    marked = [m for m in body["messages"] if any("cache_control" in block for block in m["content"])]
    assert marked == [body["messages"][0], body["messages"][-1]]
    assert json.dumps(body).count("cache_control") == 4


def test_signed_thinking_goes_back_and_unsigned_does_not():
    parts = (Thinking("signed", "sig"), Thinking("", "blob", redacted=True), Thinking("unsigned"), Text("ok"))
    own = Assistant(parts, api="anthropic-messages", provider="acme", model="m1")
    content = json.loads(anthropic_body((said("x"), own, said("y"))))["messages"][1]["content"]
    assert content == [
        {"type": "thinking", "thinking": "signed", "signature": "sig"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "text", "text": "ok"},
    ]
    # MiniMax speaks the same protocol and signs its thinking; Claude would refuse that signature in every later turn.
    for other in ({"api": "openai-completions"}, {"provider": "minimax"}, {"model": "m2"}):
        body = json.loads(anthropic_body((said("x"), replace(own, **other))))
        assert body["messages"][1]["content"] == [{"type": "text", "text": "ok"}]


@pytest.mark.parametrize(
    ("style", "level", "fields", "most"),
    [
        ("adaptive", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, 20_480 + 1_000),
        ("adaptive", "adaptive", {"thinking": {"type": "adaptive"}}, 21_480),
        ("adaptive", "off", {"thinking": {"type": "disabled"}}, 1_000),
        ("budget", "low", {"thinking": {"type": "enabled", "budget_tokens": 4_096}}, 5_096),
        ("budget", "off", {"thinking": {"type": "disabled"}}, 1_000),
        ("budget", "", {}, 1_000),
    ],
)
def test_anthropic_levels(style: str, level: str, fields: dict[str, object], most: int):
    info = ModelInfo(provider="a", id="m", thinking=style, levels=("off", "low", "high", "adaptive"), max_output=64_000)
    assert anthropic_wire.thinking_fields(level, info, 1_000) == (fields, most)


def test_a_thinking_budget_fits_into_a_small_output_limit():
    info = ModelInfo(provider="a", id="m", thinking="budget", levels=("off", "high"), max_output=8_192)
    assert anthropic_wire.thinking_fields("high", info, 8_192) == (
        {"thinking": {"type": "enabled", "budget_tokens": 4_096}},
        8_192,
    )
    tiny = ModelInfo(provider="a", id="m", thinking="budget", levels=("off", "high"), max_output=2_000)
    assert anthropic_wire.thinking_fields("high", tiny, 2_000) == ({}, 2_000)


def test_a_forced_tool_yields_to_thinking():
    info = ModelInfo(provider="a", id="m", thinking="adaptive", levels=("off", "high"), max_output=64_000)
    free = json.loads(anthropic_body((said("x"),), info, tool_choice="required", thinking=""))
    assert free["tool_choice"] == {"type": "any"}
    bound = json.loads(anthropic_body((said("x"),), info, tool_choice="read", thinking="high"))
    assert bound["tool_choice"] == {"type": "auto"}


def test_half_an_emoji_does_not_stop_the_conversation():
    messages = (User((Text("cut \ud83e"),)), answered("", ToolCall("c", "ls", {"k\ud83e": "v"})), result("c", "\udc80"))
    for body in (openai_body(messages), anthropic_body(messages)):
        json.loads(body.decode("utf-8"))


def test_what_cannot_be_said_is_left_out():
    silent = (said("x"), Assistant(()), Assistant((Text("  "),)), said("y"))
    assert [m["role"] for m in json.loads(anthropic_body(silent))["messages"]] == ["user"]
    empty = (User((Text(""),)), answered("", ToolCall("c", "ls", {})), ToolResult("c", "ls", ()))
    for body in (openai_body(empty), anthropic_body(empty)):
        assert body.count(b"(no output)") == 2


def test_user_messages_in_a_row_go_out_as_one_where_a_template_insists():
    messages = (said("one"), said("two"))
    assert len(json.loads(openai_body(messages))["messages"]) == 3
    joined = json.loads(openai_body(messages, Quirks(alternate_roles=True)))["messages"]
    assert [message["role"] for message in joined] == ["system", "user"]
    assert joined[1]["content"].startswith("one\n\n")
    assert joined[1]["content"].endswith("two")


KINDS: dict[str, Callable[[int], Message]] = {
    "user": lambda n: said(f"words {n}"),
    "assistant": lambda n: answered(f"reply {n}"),
    "calling": lambda n: answered("", ToolCall(f"c{n}", "ls", {})),
    "tool": lambda n: result(f"c{n}", f"found {n}"),
    "pictured": lambda n: result(f"c{n}", "see", Image("aGk=", "image/png")),
    "mute": lambda n: Assistant((), timestamp=n),
}
DIALECTS = [PLAIN, Quirks(alternate_roles=True), Quirks(bridge_after_tool=True), Quirks(cache_markers_for=("m",))]


@given(st.data(), st.sampled_from(DIALECTS), st.sampled_from([SYSTEM, SystemPrompt("")]))
def test_joining_what_grew_gives_the_same_bytes_as_joining_everything(
    data: st.DataObject, quirks: Quirks, system: SystemPrompt
) -> None:
    endpoint = Endpoint(provider="acme", api="openai-completions", base_url="http://x/v1", quirks=quirks)
    steps = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6)
    kept, history = OpenAIProvider(endpoint, SEER, http=HttpClient(), clock=SystemClock()), ()
    for number in range(data.draw(st.integers(1, 12))):
        # History grows; now and then it is shortened or changed first, as by a compaction or an edit.
        history = history[: data.draw(st.integers(0, len(history)))] if data.draw(st.booleans()) else history
        history += tuple(KINDS[kind](10 * number + at) for at, kind in enumerate(data.draw(steps)))
        asked = ModelRequest("m1", system, history, TOOLS, session_id="s1")
        body = b"".join(kept.call(asked).body)
        assert body == sent(OpenAIProvider, endpoint, SEER, asked)
        texts = openai_wire.join_messages([kept.encode(message) for message in history], quirks)
        if not quirks.cache_markers_for:
            assert body.endswith(b",".join(texts) + b"]}")
        json.loads(body)
