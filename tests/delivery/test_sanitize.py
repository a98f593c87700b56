"""What must never reach a person, in every dress it was seen in."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.delivery.markup import Directives
from homarus.delivery.sanitize import Visible, is_silent, shape

VECTORS = json.loads((Path(__file__).parent / "visible.json").read_text())


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


def test_a_short_rest_beside_the_heartbeat_token_is_an_acknowledgement() -> None:
    assert shape("HEARTBEAT_OK all quiet", heartbeat=True).silent
    assert shape("x" * 301 + " HEARTBEAT_OK", heartbeat=True).text == "x" * 301
    assert shape("in the HEARTBEAT_OK middle", heartbeat=True) == Visible("in the HEARTBEAT_OK middle")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[reply_to_current]] Hi", Directives(reply_to_current=True)),
        ("Hi [[ reply_to : 42 ]]", Directives(reply_to="42")),
        ("[[audio_as_voice]]\nHi", Directives(as_voice=True)),
        ("Hi\nMEDIA: /tmp/a.png", Directives(media=("/tmp/a.png",))),
        ("Hi\nMEDIA:`b.jpg`\nMEDIA: c.mp3", Directives(media=("b.jpg", "c.mp3"))),
        ("Hi", Directives()),
    ],
)
def test_directives_become_facts(text: str, found: Directives) -> None:
    assert shape(text) == Visible("Hi", found)


def test_media_goes_out_with_a_silent_text() -> None:
    reply = shape("MEDIA: a.png\nNO_REPLY")
    assert reply.text == ""
    assert not reply.silent


@given(st.text())
def test_text_without_our_words_comes_back_as_it_was(text: str) -> None:
    if not any(
        mark in text.upper() for mark in ("<", "[", "\u25c1", "MEDIA:", "NO_REPLY", "HEARTBEAT_OK", "\U0001f6e0")
    ):
        assert shape(text).text == text.strip()
        assert not is_silent(text)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['kind']}: {vector['text'][:40]!r}")
def test_what_a_model_wrote_for_the_program_is_hidden_and_what_only_names_it_is_shown(vector: dict[str, str]) -> None:
    assert shape(vector["text"]).text == vector["shown"]
