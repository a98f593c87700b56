"""Block streaming: what is given out, when, and that nothing is given out twice."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.clock import ManualClock
from homarus.core.events import MessageEnded, ModelCalled, RunEnded, RunEvent, TextDelta, ToolStarted
from homarus.core.messages import Assistant, Text
from homarus.delivery.blocks import Block, BlockStream
from homarus.delivery.place import Place
from homarus.delivery.sanitize import shape
from homarus.delivery.settings import BlockSettings, HumanDelay

START = datetime(2026, 1, 1, tzinfo=UTC)


def ended(text: str) -> MessageEnded:
    return MessageEnded(Assistant((Text(text),)))


def said(text: str, step: int = 5) -> list[RunEvent]:
    return [*(TextDelta(text[at : at + step]) for at in range(0, len(text), step)), ended(text)]


class Screen:
    """Collects blocks, at the pace of a clock."""

    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock(START)
        self.blocks: list[Block] = []
        usual = {"least": 20, "most": 40, "join": False, "join_least": 20, "join_most": 200}
        chosen = BlockSettings(enabled=True, **{**usual, **settings})  # type: ignore[arg-type]
        self.stream = BlockStream(chosen, Place(limit=100), self.blocks.append, clock=self.clock, roll=lambda: 0.5)

    def take(self, *events: RunEvent) -> list[str]:
        for event in events:
            self.stream.take(event)
        return self.texts

    def wait(self, seconds: float) -> list[str]:
        self.clock.advance(seconds)
        self.stream.tick()
        return self.texts

    @property
    def texts(self) -> list[str]:
        return [block.text for block in self.blocks]


PARAGRAPHS = "The first paragraph.\n\nThe second paragraph.\n\nThe end."
THREE = ["The first paragraph.", "The second paragraph.", "The end."]


def test_blocks_go_out_while_the_text_is_written() -> None:
    screen = Screen()
    assert screen.take(*said(PARAGRAPHS)[:-2]) == THREE[:2]
    assert screen.take(*said(PARAGRAPHS)[-2:], RunEnded("", "ok")) == THREE


def test_or_at_the_end_of_the_message() -> None:
    screen = Screen(at_end=True)
    assert screen.take(*said(PARAGRAPHS)[:-1]) == []
    assert screen.take(said(PARAGRAPHS)[-1]) == THREE


def test_what_a_model_says_before_a_tool_goes_out_before_its_answer() -> None:
    screen = Screen()
    screen.take(*said("Let me look."), ToolStarted("1", "read", {}))
    assert screen.texts == ["Let me look."]
    assert screen.take(*said("Here it is."), RunEnded("", "ok")) == ["Let me look.", "Here it is."]


@pytest.mark.parametrize("text", ["NO_REPLY", "no_reply.", "**NO_REPLY**", "<think>hm</think>NO_REPLY", "HEARTBEAT_OK"])
@pytest.mark.parametrize("step", [1, 2, 100])
def test_silence_is_silent_however_it_comes(text: str, step: int) -> None:
    assert Screen(least=1).take(*said(text, step), RunEnded("", "ok")) == []


def test_text_that_only_begins_like_the_token_is_shown() -> None:
    assert Screen().take(*said("NOTE: all is well", 1)) == ["NOTE: all is well"]
    assert Screen().take(*said("Done. NO_REPLY", 1)) == ["Done."]


def test_a_model_that_does_not_stream_is_shown_in_blocks_too() -> None:
    assert Screen().take(ended(PARAGRAPHS)) == THREE


def test_an_answer_that_breaks_off_is_not_shown_twice_when_it_comes_again() -> None:
    screen = Screen()
    screen.take(ModelCalled("m"), *said(PARAGRAPHS)[:8], ModelCalled("m", 2))
    assert screen.texts == THREE[:1]
    assert screen.take(*said(PARAGRAPHS)) == THREE


def test_two_answers_with_the_same_words_are_both_shown() -> None:
    screen = Screen()
    assert screen.take(ModelCalled("m"), *said("Same."), ModelCalled("m"), *said("Same.")) == ["Same.", "Same."]


def test_files_come_after_the_words_before_them_and_once() -> None:
    screen = Screen(join=True)
    screen.take(*said("Look at this.\nMEDIA: a.png"), *said("Again.\nMEDIA: a.png\nMEDIA: b.png"), RunEnded("", "ok"))
    assert [(block.text, block.media) for block in screen.blocks] == [
        ("Look at this.", ()),
        ("", ("a.png",)),
        ("Again.", ()),
        ("", ("b.png",)),
    ]


def test_directives_ride_on_the_blocks() -> None:
    screen = Screen()
    screen.take(*said("[[reply_to: 42]] An answer to that one."))
    assert [(block.text, block.directives.reply_to) for block in screen.blocks] == [("An answer to that one.", "42")]


# --- joining ---


def test_blocks_that_come_close_together_are_joined_and_go_out_when_nothing_comes() -> None:
    screen = Screen(join=True, join_least=30)
    screen.take(*said(PARAGRAPHS)[:-1])
    assert screen.texts == []
    assert screen.wait(0.5) == []
    assert screen.wait(0.5) == ["The first paragraph.\n\nThe second paragraph."]
    assert screen.take(said(PARAGRAPHS)[-1], RunEnded("", "ok"))[1:] == ["The end."]


def test_too_little_waits_on_until_the_end() -> None:
    screen = Screen(join=True, join_least=100)
    screen.take(*said(PARAGRAPHS))
    assert screen.wait(100.0) == []
    due = screen.stream.next_due()
    assert due is not None
    assert due > screen.clock.monotonic()
    assert screen.take(RunEnded("", "ok")) == ["\n\n".join(THREE)]
    assert screen.stream.next_due() is None


def test_what_would_be_too_much_goes_out_first() -> None:
    screen = Screen(join=True, join_most=45)
    assert screen.take(*said(PARAGRAPHS), RunEnded("", "ok")) == ["\n\n".join(THREE[:2]), THREE[2]]


@pytest.mark.parametrize(("prefer", "joiner"), [("paragraph", "\n\n"), ("newline", "\n"), ("sentence", " ")])
def test_the_joiner_is_what_blocks_are_cut_at(prefer: str, joiner: str) -> None:
    screen = Screen(join=True, prefer=prefer, join_least=1000)
    assert screen.take(*said("First of all."), *said("Then the rest."), RunEnded("", "ok")) == [
        f"First of all.{joiner}Then the rest."
    ]


def test_answers_to_different_messages_are_not_joined() -> None:
    screen = Screen(join=True)
    screen.take(*said("[[reply_to: 1]] One."), *said("[[reply_to: 2]] Two."), RunEnded("", "ok"))
    assert [(block.text, block.directives.reply_to) for block in screen.blocks] == [("One.", "1"), ("Two.", "2")]


# --- as if typed ---


def test_a_pause_comes_before_every_block_but_the_first() -> None:
    screen = Screen(delay=HumanDelay("natural"))
    screen.take(*said(PARAGRAPHS))
    assert [block.pause for block in screen.blocks] == [0.0, 1.65, 1.65]


def test_pauses_are_as_configured() -> None:
    assert HumanDelay("off", 100, 200).seconds(0.5) == 0.0
    assert HumanDelay("natural", 1, 2).seconds(0.0) == 0.8
    assert HumanDelay("custom", 100, 200).seconds(0.5) == 0.15
    assert HumanDelay("custom", 5000).seconds(1.0) == 5.0
    assert HumanDelay("custom").seconds(1.0) == 2.5


@given(
    st.lists(st.sampled_from(["word ", "A sentence. ", "\n\n", "\n", "NO_REPLY", "<think>", "</think>", "```\n", "x = 1\n"]), max_size=30),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_the_words_of_all_blocks_are_the_words_of_the_reply(
    parts: list[str], step: int, join: bool, at_end: bool
) -> None:
    text = "".join(parts)
    shown = Screen(join=join, at_end=at_end).take(*said(text, step), RunEnded("", "ok"))
    if "</think>" not in text:  # what stands before one was shown before it came
        marks = str.maketrans("", "", " \n`")
        assert "".join(shown).translate(marks) == shape(text).text.translate(marks)
