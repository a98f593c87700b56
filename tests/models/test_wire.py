"""Requests as bytes: each turn's request is a prefix of the next, in this process and in the next one."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from homarus.core.prompt import SystemPrompt
from homarus.core.tools import ToolSpec
from homarus.models.carrier import Carrier
from homarus.models.info import Endpoint, ModelInfo, Quirks
from homarus.models.provider import ModelRequest
from homarus.models.providers import anthropic_wire, openai_wire
from homarus.models.wire import WireCache, encode

SYSTEM = SystemPrompt("Stable part.", "Session part.")
TOOLS = (
    ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),
    ToolSpec("ls", "List a folder.", {"type": "object", "properties": {}}),
)
SEER = ModelInfo(provider="acme", id="m1", input=("text", "image"), levels=("off", "low", "high"))
BLIND = ModelInfo(provider="acme", id="m1")
PLAIN = Quirks()


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
    fragments = [openai_wire.encode_message(message, quirks, info) for message in messages]
    asked = request(messages, **changes)
    start, split = openai_wire.opening(asked, endpoint, info), openai_wire.Joined(quirks).split("s1", fragments)
    return b"".join(openai_wire.body(start, split, asked, endpoint, info))


def anthropic_body(messages: tuple[Message, ...], info: ModelInfo = SEER, **changes: object) -> bytes:
    fragments = [anthropic_wire.encode_message(message, info) for message in messages]
    asked = request(messages, **changes)
    return b"".join(anthropic_wire.body(anthropic_wire.opening(asked, info), asked, info, fragments))


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


def test_history_is_encoded_once():
    made: list[Message] = []

    def count(message: Message) -> bytes:
        made.append(message)
        return encode(message.text)

    cache: WireCache[bytes] = WireCache(count, len)
    requests = session()
    for messages in requests:
        assert len(cache.fragments("s", messages)) == len(messages)
    assert len(made) == len(requests[-1])
    # Equal messages that were read from disk again cost nothing either; a changed one is made again, with what follows it.
    cache.fragments("s", session()[-1])
    assert len(made) == len(requests[-1])
    changed = (*requests[-1][:5], said("edited"), *requests[-1][6:])
    cache.fragments("s", changed)
    assert len(made) == 2 * len(requests[-1]) - 5
    # A shorter history (after a compaction) and another session are right too.
    assert cache.fragments("s", changed[:3]) == [encode(message.text) for message in changed[:3]]
    assert cache.fragments("other", changed[2:4]) == [encode(message.text) for message in changed[2:4]]


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
    thought = Assistant((Thinking("hmm"), Text("ok")), provider="acme", model="m1")
    assert b"hmm" not in openai_body((said("x"), thought))
    wanted = json.loads(openai_body((said("x"), thought), Quirks(replay_reasoning="reasoning_content")))
    assert wanted["messages"][2]["reasoning_content"] == "hmm"
    foreign = Assistant((Thinking("hmm"), Text("ok")), provider="other", model="m1")
    assert b"hmm" not in openai_body((said("x"), foreign), Quirks(replay_reasoning="reasoning_content"))


def test_opaque_reasoning_travels_in_the_signature():
    carrier = Carrier()
    carrier.details(
        [
            {"type": "reasoning.text", "index": 0, "text": "a"},
            {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        ]
    )
    carrier.hang(0, {"google": {"thought_signature": "sig"}})
    reply = Assistant(
        (Thinking("ab", carrier.signature({0: "c1"})), ToolCall("c1", "ls", {})), provider="acme", model="m1"
    )
    wire = json.loads(openai_body((said("x"), reply, result("c1", "ok"))))["messages"][2]
    assert wire["reasoning_details"] == [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}]
    assert wire["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
    other = Assistant(reply.parts, provider="acme", model="m2")
    assert b"sig" not in openai_body((said("x"), other, result("c1", "ok")))


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
    foreign = Assistant(parts, api="openai-completions", provider="acme", model="m1")
    assert json.loads(anthropic_body((said("x"), foreign)))["messages"][1]["content"] == [
        {"type": "text", "text": "ok"}
    ]


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


def test_a_long_history_is_joined_the_same_at_every_step() -> None:
    roles = ["user", "assistant", "tool"] * 40
    fragments = [openai_wire.Fragment(role, b'{"n":%d}' % number) for number, role in enumerate(roles)]
    joined = openai_wire.Joined(PLAIN)
    for at in range(1, len(fragments) + 1):
        earlier, rest = joined.split("s", fragments[:at])
        assert len(earlier) <= openai_wire.MAX_PIECES
        assert b",".join([part for part in (b"".join(earlier), *rest) if part]) == b",".join(
            openai_wire.join_messages(fragments[:at], PLAIN)
        )


@given(st.lists(st.sampled_from(["user", "assistant", "tool", "pictured", "mute"]), max_size=30), st.data())
def test_joining_what_grew_gives_the_same_bytes_as_joining_everything(roles: list[str], data: st.DataObject) -> None:
    fragments = [
        openai_wire.Fragment(
            "tool" if role in {"tool", "pictured"} else "assistant" if role == "mute" else role,
            b"" if role == "mute" else b'{"n":%d}' % number,
            b'{"later":%d}' % number if role == "pictured" else b"",
        )
        for number, role in enumerate(roles)
    ]
    joined, at = openai_wire.Joined(PLAIN), 0
    while at < len(fragments):
        at = data.draw(st.integers(at + 1, len(fragments)))
        shown = fragments[:at]
        earlier, rest = joined.split("s", shown)
        assert b",".join([part for part in (b"".join(earlier), *rest) if part]) == b",".join(
            openai_wire.join_messages(shown, PLAIN)
        )
        if data.draw(st.booleans()):  # an edit of history: everything from there on is made anew
            cut = data.draw(st.integers(0, at - 1))
            fragments = fragments[:cut] + [
                openai_wire.Fragment(old.role, old.data and old.data + b" ", old.later) for old in fragments[cut:]
            ]
