"""What must never reach a person, in every dress it was seen in."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homarus.delivery.directives import Directives, extract
from homarus.delivery.sanitize import is_silent, shape, without_heartbeat, without_reasoning
from homarus.delivery.stream import StreamFilter


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "no_reply.",
        "  NO_REPLY\n",
        "**NO_REPLY**",
        "`NO_REPLY`",
        '"NO_REPLY"',
        "NO_REPLY NO_REPLY",
        "NO_REPLY\n\nNO_REPLY.",
        '{"action":"NO_REPLY"}',
        '{ "action" : "no_reply" }',
        "<think>nothing to say</think>NO_REPLY",
        "<thinking>\nhm\n</thinking>\n\n**NO_REPLY**",
    ],
)
def test_silence_in_every_dress(text: str) -> None:
    assert shape(text).silent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Done. NO_REPLY", "Done."),
        ("Done.\n\n**NO_REPLY**", "Done."),
        ("NOTE: this stays", "NOTE: this stays"),
        ("The token is NO_REPLY_X", "The token is NO_REPLY_X"),
        ("Write NO_REPLY to be silent", "Write NO_REPLY to be silent"),
        ("SNO_REPLY", "SNO_REPLY"),
        ('{"action":"NO_REPLY","why":1}', '{"action":"NO_REPLY","why":1}'),
        ("<think>plan</think>Hello", "Hello"),
        ("Hello <think>unfinished", "Hello"),
        ("<think>all that there is", "all that there is"),
        ("use `<think>` tags", "use `<think>` tags"),
        ("```\n<think>x</think>\n```", "```\n<think>x</think>\n```"),
        ("a < b and c > d", "a < b and c > d"),
        ("HEARTBEAT_OK", ""),
        ("**HEARTBEAT_OK**", ""),
        ("<b>HEARTBEAT_OK</b>", ""),
        ("Fine. HEARTBEAT_OK", "Fine."),
        ("HEARTBEAT_OK means fine, you said", "means fine, you said"),
        ("say HEARTBEAT_OK and go on", "say HEARTBEAT_OK and go on"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert shape(text).text == shown


def test_only_the_final_part_is_visible_when_the_model_was_told_so() -> None:
    text = "<think>plan</think>draft <final>Hello</final> rest"
    assert shape(text, final_tags=True).text == "Hello"
    assert shape("<final>Hel", final_tags=True).text == "Hel"
    assert shape("no tags at all", final_tags=True).text == "no tags at all"


def test_a_short_rest_beside_the_heartbeat_token_is_an_acknowledgement() -> None:
    assert shape("HEARTBEAT_OK all quiet", heartbeat=True).silent
    assert shape("x" * 301 + " HEARTBEAT_OK", heartbeat=True).text == "x" * 301
    assert without_heartbeat("in the HEARTBEAT_OK middle") == ("in the HEARTBEAT_OK middle", False)


@pytest.mark.parametrize(
    ("text", "clean", "found"),
    [
        ("[[reply_to_current]] Hi", "Hi", Directives(reply_to_current=True)),
        ("Hi [[ reply_to : 42 ]]", "Hi", Directives(reply_to="42")),
        ("[[audio_as_voice]]\nHi", "Hi", Directives(as_voice=True)),
        ("Look\nMEDIA: /tmp/a.png\nend", "Look\nend", Directives(media=("/tmp/a.png",))),
        ("MEDIA:`b.jpg`", "", Directives(media=("b.jpg",))),
        ("```\nMEDIA: x\n[[reply_to_current]]\n```", "```\nMEDIA: x\n[[reply_to_current]]\n```", Directives()),
        ("a [[link]] stays", "a [[link]] stays", Directives()),
    ],
)
def test_directives_become_facts(text: str, clean: str, found: Directives) -> None:
    assert extract(text) == (clean, found)


def test_media_goes_out_with_a_silent_text() -> None:
    reply = shape("MEDIA: a.png\nNO_REPLY")
    assert reply.text == ""
    assert not reply.silent


@given(st.text())
def test_text_without_our_words_comes_back_as_it_was(text: str) -> None:
    if not any(mark in text.upper() for mark in ("<", "[[", "MEDIA:", "NO_REPLY", "HEARTBEAT_OK")):
        assert shape(text).text == text.strip()
        assert without_reasoning(text) == text
        assert not is_silent(text)


PIECES = st.sampled_from(
    ["NO_REPLY", "NO", "_RE", "PLY", "HEARTBEAT_OK", "<think>", "</think>", "hm", " ", "\n", ".", "**", "Done", "[[", "]]",
     "reply_to_current", "MEDIA: a.png", "`", "```\n", "NOTE: x", "<final>", "</final>", "é", "<", '{"action":"NO_REPLY"}']
)  # fmt: skip


@given(st.lists(PIECES, max_size=12))
@example(["NO", "_RE", "PLY"])
@example([".", "NO_REPLY"])
def test_a_stream_shows_what_the_whole_shows(pieces: list[str]) -> None:
    whole = "".join(pieces)
    stream = StreamFilter()
    shown = "".join(stream.feed(char) for char in whole)
    rest, reply = stream.finish()
    assert reply == shape(whole)
    visible = shown + rest
    if not any(mark in whole for mark in ("`", "final>", "MEDIA")):
        assert visible == reply.text
    # Code marks and stray tags can change what earlier text meant; even then no token is shown that the whole hides.
    assert all(token in reply.text.upper() or token not in visible.upper() for token in ("NO_REPLY", "HEARTBEAT_OK"))


@pytest.mark.parametrize(
    "text", ["NO_REPLY", "**NO_REPLY**", "<think>long\nplan</think>NO_REPLY", '{"action":"NO_REPLY"}', "HEARTBEAT_OK"]
)
def test_not_a_letter_of_a_silent_message_is_streamed(text: str) -> None:
    for size in (1, 2, 3, 7):
        stream = StreamFilter()
        shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size))
        assert shown + stream.finish()[0] == ""


def test_ordinary_text_is_streamed_early_and_whole() -> None:
    stream = StreamFilter()
    shown = [stream.feed(piece) for piece in ("Note", ": the plan is", " good", ", and so on")]
    assert "".join(shown).startswith("Note: the plan is")
    assert "".join(shown) + stream.finish()[0] == "Note: the plan is good, and so on"
