"""Text that is still arriving: what is shown in the end does not depend on how it was cut."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homarus.delivery.sanitize import shape
from homarus.delivery.stream import StreamFilter

VECTORS = json.loads((Path(__file__).parent / "visible.json").read_text())
LOST_OPENING = re.compile(r"/\s*(?:\w+:)?(?:ant)?th(?:ink|ought)|/THINK")

PIECES = st.sampled_from(
    ["NO_REPLY", "NO", "_RE", "PLY", "HEARTBEAT_OK", "<think>", "</think>", "<think", "hm", " ", "\n", ".", "**", "Done", "[[", "]]",
     "reply_to_current", "[[reply_to_current]]", "MEDIA: a.png", "`", "``", "```\n", "\n```\n", "~~~\n", "NOTE: x", "<final>", "é", "<",
     "</final>", '{"action":"NO_REPLY"}', "<tool_call>", "</tool_call>", '{"name":"x"}', '{"a":"', '"}', "<function_calls>", "exec",
     "</function_calls>", '<invoke name="x">', "</invoke>", '<function name="f">', '<parameter name="a">', "</function>", "<arg_key>",
     "</arg_key>", "<function_response>", "</function_response>", "<minimax:tool_call>", "</minimax:tool_call>", "<tool_result>",
     "</tool_result>", "[TOOL_CALL]", "[/TOOL_CALL]", "\n[mem]\n", "{", "}", "[END_TOOL_REQUEST]\n", "[Tool Call: x (ID: 1)]",
     "\nArguments: ", "[Tool Result for ID 1]", "[Historical context: y]", "<|assistant|>", "<|im_start|>", "assistant\n", "analysis",
     "<|channel|>", "final", "<|message|>", "<|end|>", "<｜DSML｜invoke>", "</｜DSML｜invoke>", "<|tool_call_begin|>", "<|tool_call_end|>",
     "◁think▷", "◁/think▷", "[THINK]", "[/THINK]", "]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>", "[TOOL_CALLS]", "[ARGS]",
     "<b>", "</b>", "think\n", "commentary to=functions.x y", '"', "'", ">", "/>", "<start_of_turn>", "<tool_call", ' a="b"', "[", "]",
     "<|", "|>", "&nbsp;", "_", "<relevant-memories>", "</relevant-memories>"]
)  # fmt: skip


def streamed(pieces: list[str]) -> str:
    stream = StreamFilter()
    return "".join(stream.feed(piece) for piece in pieces) + stream.finish()


@given(st.lists(PIECES, max_size=10), st.data())
@example(["NO", "_RE", "PLY"], None)
@example([".", "NO_REPLY"], None)
def test_a_stream_shows_what_the_whole_shows_however_it_is_cut(pieces: list[str], data: st.DataObject | None) -> None:
    whole = "".join(pieces)
    shown = streamed(list(whole))
    assert shown == streamed(pieces) == streamed([whole])
    if data is not None:
        cut = data.draw(st.integers(0, len(whole)))
        assert shown == streamed([whole[:cut], whole[cut:]])
    # Reasoning whose beginning was lost has been shown before its end comes; the message itself is without it.
    if not LOST_OPENING.search(whole):
        assert shown == shape(whole).text


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['kind']}: {vector['text'][:40]!r}")
def test_every_vector_streams_to_the_same_text(vector: dict[str, str]) -> None:
    text = vector["text"]
    shown = {streamed([text[at : at + size] for at in range(0, len(text), size)]) for size in (1, 2, 3, 7, len(text))}
    assert len(shown) == 1
    assert shown == {vector["shown"]} or "</" in text


def test_what_follows_a_lost_opening_tag_begins_a_paragraph() -> None:
    stream = StreamFilter()
    shown = stream.feed("they ask for the time") + stream.feed("</think>It is noon.")
    rest, whole = stream.finish(), stream.whole()
    assert shown + rest == "they ask for the time\n\nIt is noon."
    assert whole.text == "It is noon."


@pytest.mark.parametrize(
    "text", ["NO_REPLY", "**NO_REPLY**", "<think>long\nplan</think>NO_REPLY", '{"action":"NO_REPLY"}', "HEARTBEAT_OK"]
)
def test_not_a_letter_of_a_silent_message_is_streamed(text: str) -> None:
    for size in (1, 2, 3, 7):
        assert streamed([text[at : at + size] for at in range(0, len(text), size)]) == ""


def test_ordinary_text_is_streamed_early_and_whole() -> None:
    stream = StreamFilter()
    shown = [stream.feed(piece) for piece in ("Note", ": the plan is", " good", ", and so on")]
    assert "".join(shown).startswith("Note: the plan is")
    assert "".join(shown) + stream.finish() == "Note: the plan is good, and so on"


def test_nothing_is_shown_early_that_may_be_an_acknowledgement() -> None:
    beat = StreamFilter(heartbeat=True)
    assert beat.feed("All quiet. HEARTBEAT_OK") == ""
    assert beat.finish() == ""
