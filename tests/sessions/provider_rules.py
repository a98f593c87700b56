"""What OpenAI's and Anthropic's servers refuse, as strict as their documents and stricter than some of their servers."""

import re

from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")


def check_openai(messages: tuple[Message, ...]) -> None:
    """Raise AssertionError where a chat completions server would answer 400."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            assert message.call_id in waiting, f"tool message without a preceding call: {message}"
            waiting.remove(message.call_id)
            assert _text(message) or any(isinstance(part, Image) for part in message.parts), "empty tool message"
            continue
        assert not waiting, f"calls without a result directly behind them: {waiting}"
        if isinstance(message, User):
            assert message.parts and all(isinstance(part, Text | Image) for part in message.parts)
            assert _text(message) or any(isinstance(part, Image) for part in message.parts), "empty user message"
        else:
            assert _text(message) or message.calls, "assistant message with neither content nor calls"
            waiting = [call.id for call in message.calls]
            _check_calls(message)
    assert not waiting, f"the history ends in calls without results: {waiting}"


def _check_calls(message: Assistant) -> None:
    ids = [call.id for call in message.calls]
    assert len(set(ids)) == len(ids), f"one message with one id twice: {ids}"
    for call in message.calls:
        assert 0 < len(call.id) <= 40, f"bad id {call.id!r}"
        assert NAME.fullmatch(call.name), f"bad name {call.name!r}"
        assert isinstance(call.arguments, dict)


def check_anthropic(messages: tuple[Message, ...]) -> None:
    """Raise AssertionError where a messages server would answer 400."""
    turns = _turns(messages)
    seen: set[str] = set()
    expected: list[str] = []
    for number, (role, blocks) in enumerate(turns):
        assert role == ("user" if number % 2 == 0 else "assistant"), f"turn {number} is {role}"
        assert blocks, f"turn {number} is empty"
        for block in blocks:
            assert not isinstance(block, Text) or block.text.strip(), "blank text block"
        results = [block for block in blocks if isinstance(block, ToolResult)]
        if role == "user":
            assert [r.call_id for r in results] == expected, f"results {results} for calls {expected}"
            assert blocks[: len(results)] == results, "results are not first in their turn"
            assert all(r.parts for r in results)
            expected = []
            continue
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        for call in calls:
            assert ID.fullmatch(call.id) and call.id not in seen, f"bad or repeated id {call.id!r}"
            assert NAME.fullmatch(call.name), f"bad name {call.name!r}"
            seen.add(call.id)
        assert any(not isinstance(block, Thinking) for block in blocks), "a turn of thinking alone"
        expected = [call.id for call in calls]
    assert not expected, f"the history ends in calls without results: {expected}"


def _turns(messages: tuple[Message, ...]) -> list[tuple[str, list[object]]]:
    """Results are part of a user turn, together with the user message behind them; nothing else is merged."""
    turns: list[tuple[str, list[object]]] = []
    before: Message | None = None
    for message in messages:
        if isinstance(message, ToolResult):
            if isinstance(before, ToolResult):
                turns[-1][1].append(message)
            else:
                turns.append(("user", [message]))
        elif isinstance(message, User):
            blocks: list[object] = [*message.parts, *([Text(message.context)] if message.context.strip() else [])]
            if isinstance(before, ToolResult):
                turns[-1][1].extend(blocks)
            else:
                turns.append(("user", blocks))
        else:
            turns.append(("assistant", list(message.parts)))
        before = message
    return turns


def check_both(messages: tuple[Message, ...]) -> None:
    check_openai(messages)
    check_anthropic(messages)


def _text(message: Message) -> str:
    return message.text.strip()
