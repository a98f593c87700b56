from __future__ import annotations

import pyjson5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.config import json5_texts as texts

from homarus.config.edit import same
from homarus.config.scan import MAX_DEPTH, Node, ScanError, comments, find, line_and_column, parse, repeats, scan

_PIECES = [
    *"{}[],:\"'\\/*\n\r\t .+-_$aeEx019",
    *[
        "//",
        "/*",
        "*/",
        "\r\n",
        "\u2028",
        "\ufeff",
        "\x00",
        "\x85",
        "\u200c",
        "é",
        "0x",
        "null",
        "true",
        "NaN",
        "Infinity",
    ],
    *["\\u0041", "\\x41", '"a"', "'b'", "a:1", "-0", ".5", "5.", "1e3", "\ud800"],
]


def agrees_with_the_reader(text: str) -> None:
    try:
        expected = pyjson5.decode(text, MAX_DEPTH)
    except (pyjson5.Json5Exception, ValueError):
        with pytest.raises(ScanError) as caught:
            scan(text)
        assert 0 <= caught.value.offset <= len(text)
        return
    assert same(scan(text).data(), expected)


@settings(max_examples=300, deadline=None)
@given(texts.documents())
def test_same_values_as_the_reader(text: str) -> None:
    agrees_with_the_reader(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
def test_same_acceptance_as_the_reader(text: str) -> None:
    agrees_with_the_reader(text)


@settings(max_examples=300, deadline=None)
@given(texts.documents(), st.data())
def test_same_acceptance_after_damage(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    agrees_with_the_reader(
        text[:at] + data.draw(st.sampled_from(["", *_PIECES])) + text[at + data.draw(st.integers(0, 2)) :]
    )


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
@settings(max_examples=3000, deadline=None, database=None)
@given(text=texts.documents(), data=st.data())
def test_same_acceptance_after_damage_deep(part: int, text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    agrees_with_the_reader(
        text[:at] + data.draw(st.sampled_from(["", *_PIECES])) + text[at + data.draw(st.integers(0, 2)) :]
    )


@settings(max_examples=200, deadline=None)
@given(texts.documents())
def test_spans_cut_out_the_value_and_the_key(text: str) -> None:
    def walk(node: Node) -> None:
        assert same(pyjson5.decode(text[node.start : node.end], MAX_DEPTH), node.data())
        for member in node.members:
            if node.kind == "object":
                assert list(pyjson5.decode("{" + text[member.key_start : member.key_end] + ":0}")) == [member.key]
            assert member.comma == -1 or text[member.comma] == ","
            walk(member.node)

    walk(scan(text))
    assert all(text.startswith(("//", "/*"), start) for start, _ in comments(text))


def test_of_a_key_written_twice_the_last_counts() -> None:
    found = find(scan("{a: 1, b: 2, a: 3}"), ("a",))
    assert found.node.value == 3


@settings(max_examples=400, deadline=None)
@given(texts.documents())
def test_a_key_written_twice_is_seen_without_scanning(text: str) -> None:
    def twice(node: Node) -> bool:
        keys = [member.key for member in node.members]
        return len(set(keys)) < len(keys) or any(twice(member.node) for member in node.members)

    assert repeats(text, parse(text)) == twice(scan(text))


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("{\n  a: 1\n  b: 2\n}", 3, 3, "a comma or '}'"),
        ('{\n  a: "open\n}', 2, 6, "not closed"),
        ("{ a-b: 1 }", 1, 3, "needs quotes"),
        ("{ a: tru }", 1, 6, "text needs quotes"),
        ("{ a 1 }", 1, 5, "a colon must follow the key 'a'"),
        ("{ a: 1 } x", 1, 10, "nothing may follow"),
        ("{ a: /* open", 1, 6, "comment is not closed"),
        ("{ a:", 1, 5, "the file ends"),
        ('{ a: "\\8" }', 1, 6, "escape"),
        ("{,}", 1, 2, "a key is needed"),
    ],
)
def test_errors_name_the_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(ScanError, match=words) as caught:
        parse(text)
    assert line_and_column(text, caught.value.offset) == (line, column)


def test_errors_never_show_a_value() -> None:
    for text in ("{ token: hunter2 }", '{ token: "hunter2\\9" }', "{ token: 'x', hunter-2: 1 }", "{ hunter2 hunter2 }"):
        with pytest.raises(ScanError) as caught:
            parse(text)
        assert "hunter2 " not in caught.value.message.replace("key 'hunter2'", "")
        assert "hunter-2" not in caught.value.message


def test_nesting_and_numbers_are_bounded() -> None:
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(ScanError, match="levels"):
        parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    with pytest.raises(ScanError):
        parse("[" * 100_000)
    with pytest.raises(ScanError):
        parse("1" * 5000)


def test_lines_end_as_in_editors() -> None:
    assert line_and_column("a\r\nb\nc", 5) == (3, 1)
    assert line_and_column("a\rb", 2) == (2, 1)
