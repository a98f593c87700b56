"""Messages as `chat.history` shows them: what the model said to the program is left out, and the transcript stays as it is."""

from __future__ import annotations

import pytest

from homarus.core.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from homarus.gateway.rows import MAX_ROW, displayed


def spoken(*parts: Text | Thinking | ToolCall, **more: object) -> list[dict[str, object]] | None:
    body = displayed(Assistant(parts, **more))  # type: ignore[arg-type]
    return None if body is None else body["content"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[[reply_to_current]] Yes.", "Yes."),
        ("[[reply_to: 42]] Yes.", "Yes."),
        ("[[audio_as_voice]] Listen.", "Listen."),
        ("<think>which one?</think>The blue one.", "The blue one."),
        ('One moment. <tool_call>{"name": "ls"}</tool_call>', "One moment."),
        ("Done.<|im_end|>", "Done."),
        ("<relevant-memories>secret</relevant-memories>Hello.", "Hello."),
        ("Done. NO_REPLY", "Done."),
        ("Write `[[reply_to_current]]` to answer.", "Write `[[reply_to_current]]` to answer."),
    ],
)
def test_what_is_meant_for_the_program_is_not_shown(written: str, shown: str) -> None:
    message = Assistant((Text(written),))
    assert displayed(message)["content"] == [{"type": "text", "text": shown}]  # type: ignore[index]
    assert message.text == written, "the transcript keeps what was said"


@pytest.mark.parametrize("silent", ["NO_REPLY", "no_reply", "**NO_REPLY**", "<think>nothing to say</think>NO_REPLY"])
def test_a_row_of_silence_is_no_row(silent: str) -> None:
    assert spoken(Text(silent)) is None
    assert spoken(Thinking("only a thought")) is None


def test_thoughts_go_and_calls_stay() -> None:
    content = spoken(Thinking("hm", "signature"), Text("Look."), ToolCall("c1", "read", {"path": "a"}))
    assert content is not None
    assert [block["type"] for block in content] == ["text", "toolCall"]
    assert "hm" not in str(content) and "signature" not in str(content)
    assert spoken(Text(""), error="the model failed") == []


def test_long_rows_are_cut_and_huge_ones_replaced() -> None:
    for message in (
        User((Text("x" * 500),)),
        Assistant((Text("x" * 500),)),
        ToolResult("c1", "read", (Text("x" * 500),)),
    ):
        body = displayed(message, 100)
        assert body is not None
        [block] = body["content"]
        assert block["text"].startswith("x" * 100) and len(block["text"]) < 130 and "truncated" in block["text"]
    picture = displayed(User((Image("A" * (MAX_ROW + 1), "image/png"),)))
    assert picture is not None
    assert "too large" in picture["content"][0]["text"]


def test_what_the_program_says_around_a_message_is_not_among_its_words() -> None:
    body = displayed(User((Text("hello"),), context="[Sun 2026-11-15] secret facts"))
    assert body is not None
    assert "secret facts" not in str(body["content"])
