"""Reasoning between tags never passes for the answer, however the text is cut."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.agent.tagged import Event, TagReader, told_apart
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Assistant, Text, Thinking
from homarus.models.provider import Stop


def read(pieces: list[str]) -> tuple[str, str]:
    reader = TagReader()
    found = [*map(reader.feed, pieces), reader.finish()]
    return "".join(thought for thought, _ in found), "".join(said for _, said in found)


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>why</think><final>Because.</final>", "why", "Because."),
        ("<THINK>why</ Think >\n< final >Be\ncause.", "why", "Be\ncause."),
        ("chatter <final>One</final> more <final>Two</final>", "", "OneTwo"),
        ("<think>only</think>\nThe answer.", "only", "The answer."),
        ("no tags", "", "no tags"),
        ("<think>never ends", "never ends", ""),
        ("a <b> c < d <fin", "", "a <b> c < d <fin"),
        ("<final>x <y> 1<2 <thin", "", "x <y> 1<2 <thin"),
        ("", "", ""),
    ],
)
def test_examples(text: str, thought: str, said: str) -> None:
    assert read([text]) == read(list(text)) == (thought, said)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<final>", "</final>", "<", "a", " b", "\n", "fin", ">"])))
def test_the_cuts_do_not_matter(pieces: list[str]) -> None:
    assert read(pieces) == read(["".join(pieces)])


async def test_a_stream_and_the_stored_message_say_the_same() -> None:
    pieces = ["<thi", "nk>secret</think><fi", "nal>He", "llo</final>"]

    async def events() -> AsyncIterator[Event]:
        for piece in pieces:
            yield TextDelta(piece)
        yield Stop(Assistant((Text("".join(pieces)),)))

    found = [event async for event in told_apart(events())]
    assert found[:-1] == [ThinkingDelta("secret"), TextDelta("He"), TextDelta("llo")]
    stop = found[-1]
    assert isinstance(stop, Stop) and stop.message.parts == (Thinking("secret"), Text("Hello"))
