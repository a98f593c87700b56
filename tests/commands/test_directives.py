"""Inline directives: what is taken out, what stays to the byte, and what is never read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.commands.directives import CLEAR, Reader, Wishes, parse
from homarus.queue.modes import Overrides, parse_command
from homarus.queue.settings import Mode

READER = Reader(
    model=lambda text: {"opus": "anthropic/opus", "openai/gpt": "openai/gpt"}.get(text.lower()),
    aliases={"opus": "anthropic/opus"},
    queue=parse_command,
)


@pytest.mark.parametrize(
    ("text", "left", "wishes"),
    [
        ("fix this:\n    if x:\n        y /think high", "fix this:\n    if x:\n        y", Wishes(thinking="high")),
        ("/think high\n    indented", "    indented", Wishes(thinking="high")),
        ("/t extra high go", "go", Wishes(thinking="xhigh")),
        ("a /think:off b", "a b", Wishes(thinking="off")),
        ("a  /thinking ultrathink  b", "a   b", Wishes(thinking="high")),
        ("/v full", "", Wishes(verbose="full")),
        ("/verbose on /reasoning stream hi", "hi", Wishes(verbose="on", reasoning="stream")),
        ("hi /elev ask", "hi", Wishes(elevated="ask")),
        ("hi /fast auto there", "hi there", Wishes(fast="auto")),
        ("/think low /think high", "", Wishes(thinking="high")),
        ("/think reset", "", Wishes(thinking=CLEAR)),
        ("use /model opus please", "use please", Wishes(model="anthropic/opus")),
        ("/model openai/gpt", "", Wishes(model="openai/gpt")),
        ("/OPUS hello", "hello", Wishes(model="anthropic/opus")),
        ("/exec host=sandbox ask=always run it", "run it", Wishes(exec={"host": "sandbox", "ask": "always"})),
        (
            "/queue collect debounce:2s cap:5 hello",
            "hello",
            Wishes(queue=Overrides(mode=Mode.COLLECT, debounce_ms=2000, cap=5)),
        ),
        ("/queue clear", "", Wishes(queue=Overrides(clear=True))),
        ("what /status now", "what now", Wishes(shortcuts=("status",))),
        ("hi /id", "hi", Wishes(shortcuts=("whoami",))),
    ],
)
def test_a_directive_is_taken_out_and_nothing_else(text: str, left: str, wishes: Wishes) -> None:
    parsed = parse(text, READER)
    assert (parsed.text, parsed.wishes) == (left, wishes)


@pytest.mark.parametrize(
    "text",
    [
        "> you said /think high",
        "```\n/think high\n```",
        "~~~\n```\n/think high\n~~~",
        "see `a /think high b`",
        'he wrote "use /think high" to me',
        "path/think high",
        "/thinker high",
        "/think about it",
        "ls /model",
        "/model no-such-model",
        "cd /v /t /exec",
        "/queue hello",
        "http://x/status",
        "no directive at all",
        "",
    ],
)
def test_what_is_no_directive_stays_as_it_is(text: str) -> None:
    assert parse(text, READER).text == text
    assert parse(text, READER).wishes == Wishes()


def test_a_message_of_directives_alone_is_told_apart() -> None:
    assert parse("/think high /verbose on", READER).only_directives
    assert not parse("/think high go", READER).only_directives
    assert not parse("", READER).only_directives


WORDS = st.sampled_from(["a", "if x:", "  b", "\n", "    return 1", "\t", "don't", "c:/x", ">", "é", "/no", "1 < 2"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


@given(TEXTS, TEXTS, st.sampled_from(["/think high", "/v on", "/reasoning: off", "/model opus", "/status"]))
def test_a_directive_between_two_texts_leaves_exactly_the_two_texts(before: str, after: str, directive: str) -> None:
    text = f"{before}\nx {directive} y\n{after}"
    parsed = parse(text, READER)
    assert parsed.text == f"{before}\nx y\n{after}"
    assert not parsed.wishes.empty


@given(st.text(alphabet='/ \n\t`~>"thinkmodelhgofv:=x', max_size=80))
def test_any_text_is_read_and_reading_again_finds_nothing_more_than_before(text: str) -> None:
    parsed = parse(text, READER)
    if parsed.wishes.empty:
        assert parsed.text == text
    # Whatever is left is made of what was there, in the same order.
    rest = iter(text)
    assert all(char in rest for char in parsed.text)
