import msgspec
import pytest

from homarus.core.errors import ConfigError, HomarusError, ModelError, ModelFailure
from homarus.core.messages import Assistant, Cost, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage, User


def test_messages_survive_json() -> None:
    messages: list[Message] = [
        User((Text("hello"), Image("aGk=", "image/png")), timestamp=1, context="date: today"),
        Assistant((Thinking("hm", "sig"), Text("I look."), ToolCall("c1", "read", {"path": "a.md"}))),
        ToolResult("c1", "read", (Text("text"),), is_error=True, details={"bytes": 4}),
    ]
    again = msgspec.json.decode(msgspec.json.encode(messages), type=list[Message])
    assert again == messages


def test_text_and_calls_are_found_among_the_parts() -> None:
    call = ToolCall("c1", "ls", {})
    message = Assistant((Thinking("secret"), Text("a"), call, Text("b")))
    assert message.text == "ab"
    assert message.calls == (call,)


def test_messages_cannot_be_changed() -> None:
    message = User((Text("x"),))
    with pytest.raises(AttributeError):
        message.context = "y"  # type: ignore[misc]


def test_usage_adds_up() -> None:
    usage = Usage(input=10, output=5, cache_read=100, cache_write=20, cost=Cost(0.1, 0.2, 0.3, 0.4))
    assert usage.total == 135
    assert usage.prompt == 130
    assert usage.cost.total == pytest.approx(1.0)


def test_an_error_names_its_cure() -> None:
    assert str(ConfigError("openclaw.json:3: `port` is no number", cure="write 18789")).endswith("(write 18789)")
    assert str(HomarusError("plain")) == "plain"
    error = ModelError(ModelFailure.RATE_LIMIT, "slow down", status=429, retry_after=3.0)
    assert (error.kind, error.status, error.retry_after) == (ModelFailure.RATE_LIMIT, 429, 3.0)
