from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.config import json5_texts as texts

from homarus.config.edit import apply_data, same, set_value, unset_value
from homarus.config.scan import comments, find, parse, scan
from homarus.core.errors import ConfigError


def comment_texts(text: str, skip: range = range(0)) -> list[str]:
    return [text[a:b] for a, b in comments(text) if a not in skip]


def others(text: str, path: tuple) -> dict[tuple, str]:
    return {key: value for key, value in texts.slices(text, scan(text)).items() if key[: len(path)] != path}


def check_set_existing(text: str, path: tuple, value: object) -> None:
    found = find(scan(text), path).node
    new = set_value(text, path, value)
    assert same(parse(new), apply_data(parse(text), path, value))
    # Outside the value nothing moved: the same bytes before it and after it.
    assert new.startswith(text[: found.start])
    assert new.endswith(text[found.end :])
    assert len(new) >= len(text) - (found.end - found.start)


def check_set_new(text: str, path: tuple, value: object) -> None:
    new = set_value(text, path, value)
    assert same(parse(new), apply_data(parse(text), path, value))
    # Pure addition: every old byte is still there, in order; blanks between empty braces make room.
    assert texts.is_subsequence(re.sub(r"([\[{])[ \t]+([\]}])", r"\1\2", text), new)
    assert comment_texts(new) == comment_texts(text)
    before = others(text, path)
    assert before.items() <= others(new, path).items()


def check_unset(text: str, path: tuple) -> None:
    root = scan(text)
    parent = find(root, path[:-1])
    parent = getattr(parent, "node", parent)
    gone = [m for m in parent.members if m.key == path[-1]]
    spans = [range(m.key_start, m.node.end) for m in gone]
    new = unset_value(text, path)
    assert same(parse(new), apply_data(parse(text), path))
    assert texts.is_subsequence(new, text)
    kept = [text[a:b] for a, b in comments(text) if not any(a in span for span in spans)]
    assert comment_texts(new) == kept
    if parent.kind == "object":
        assert others(new, path) == others(text, path)


def editable(text: str) -> list[tuple]:
    # A path below a key that is written twice exists only in its last spelling.
    root = scan(text)
    return [path for path in dict.fromkeys(texts.paths(root)) if find(root, path) is not None]


def run(data: st.DataObject) -> None:
    text = data.draw(texts.documents())
    value = data.draw(texts.plain)
    known = editable(text)
    if known:
        path = data.draw(st.sampled_from(known))
        check_set_existing(text, path, value)
        check_unset(text, path)
    root = scan(text)
    holders = [(), *(p for p in known if find(root, p).node.kind == "object")]
    holder = data.draw(st.sampled_from(holders))
    check_set_new(text, (*holder, "new", *data.draw(st.sampled_from([(), ("deep", "er"), ("x.y",), (0,)]))), value)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_an_edit_touches_its_key_alone(data: st.DataObject) -> None:
    run(data)


# In parts, because the generator remembers every case of a part.
@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
@settings(max_examples=2000, deadline=None, database=None)
@given(data=st.data())
def test_an_edit_touches_its_key_alone_deep(part: int, data: st.DataObject) -> None:
    run(data)
    in_arrays(data)


def in_arrays(data: st.DataObject) -> None:
    text = data.draw(texts.documents())
    root = scan(text)
    arrays = [path for path in editable(text) if find(root, path).node.kind == "array"]
    if arrays:
        path = data.draw(st.sampled_from(arrays))
        check_set_new(text, (*path, len(find(root, path).node.members)), data.draw(texts.plain))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_appending_to_a_list_touches_nothing_else(data: st.DataObject) -> None:
    in_arrays(data)


MESSY = """\
// head
{
  "a": {
    "x": 1, // one
    'y': [1, 2]   /* two */
  },
  b: "s"  // tail
  // end
}
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("a", "x"), 2, '"x": 1,', '"x": 2,'),
        (("b",), 'it\'s "q"', 'b: "s"', 'b: "it\'s \\"q\\""'),
        (("a", "y", 1), "z", "[1, 2]", '[1, "z"]'),
        (("a", "y", 2), 3, "[1, 2]", "[1, 2, 3]"),
        (("a", "y"), [2, 3], "[1, 2]", "[2, 3]"),
        (("a", "z"), True, "'y': [1, 2]   /* two */\n", "'y': [1, 2],   /* two */\n    z: true\n"),
        (("c", "d"), 1, 'b: "s"  // tail\n', 'b: "s",  // tail\n  c: {\n    d: 1\n  }\n'),
        (("c.d",), 1, 'b: "s"  // tail\n', 'b: "s",  // tail\n  "c.d": 1\n'),
        (("a",), {"x": 1, "y": [1, 3]}, "[1, 2]", "[1, 3]"),
    ],
)
def test_a_value_is_written_in_the_hand_of_the_file(path: tuple, value: object, old: str, new: str) -> None:
    assert MESSY.count(old) == 1
    assert set_value(MESSY, path, value) == MESSY.replace(old, new)
    crlf = MESSY.replace("\n", "\r\n")
    assert set_value(crlf, path, value) == crlf.replace(old.replace("\n", "\r\n"), new.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (("a", "x"), '    "x": 1, // one\n', "    // one\n"),
        (("a", "y"), "1, // one\n    'y': [1, 2]   /* two */\n", "1 // one\n    /* two */\n"),
        (("a", "y", 0), "[1, 2]", "[2]"),
        (("a", "y", -1), "[1, 2]", "[1]"),
        (("b",), '},\n  b: "s"  // tail\n', "}  // tail\n"),
    ],
)
def test_a_key_goes_with_its_comma_and_comments_stay(path: tuple, old: str, new: str) -> None:
    assert MESSY.count(old) == 1
    assert unset_value(MESSY, path) == MESSY.replace(old, new)


@pytest.mark.parametrize(
    ("text", "path", "value", "new"),
    [
        ("", ("a",), 1, '{\n  "a": 1\n}\n'),
        ("{}", ("a", "b"), 1, '{\n  "a": {\n    "b": 1\n  }\n}'),
        ("{ a: {} }", ("a", "b"), 1, "{ a: { b: 1 } }"),
        ('{"a":{}}', ("a", "b"), 1, '{"a":{"b":1}}'),
        ("{\n\ta: 1,\n}", ("b", "c"), [1], "{\n\ta: 1,\n\tb: {\n\t\tc: [1],\n\t},\n}"),
        ("{ a: null }", ("a", "b"), 1, "{ a: { b: 1 } }"),
        ("{ a: 1, }", ("b",), 2, "{ a: 1, b: 2, }"),
        ("{'a': 'x'}", ("b",), "it's", "{'a': 'x', 'b': 'it\\'s'}"),
        ("\ufeff{ a: 1 }", ("a",), 2, "\ufeff{ a: 2 }"),
        ("{ a: 1, a: 2 }", ("a",), 3, "{ a: 1, a: 3 }"),
        ("{ l: [{a: 1}] }", ("l", 0, "a"), 2, "{ l: [{a: 2}] }"),
        ("{ l: [{a: 1}] }", ("l", "0", "b"), 2, "{ l: [{a: 1, b: 2}] }"),
        ("{ a: 1 }", ("a",), float("inf"), "{ a: Infinity }"),
        ("{ a: 'x' }", ("a",), "\u2028\x00\n", '{ a: "\\u2028\\u0000\\n" }'),
    ],
)
def test_new_keys(text: str, path: tuple, value: object, new: str) -> None:
    assert set_value(text, path, value) == new


def test_a_key_written_twice_goes_twice() -> None:
    assert unset_value("{ a: 1, b: 2, a: 3 }", ("a",)) == "{ b: 2 }"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("b", "c"), "b is a plain value"),
        (("new", 3), "no list yet"),
        (("a", "y", 5), "the list has 2 items"),
        (("a", "y", "name"), "the list has 2 items"),
        (("a", "y", 0, "k"), r"a\.y\[0\] is a plain value"),
    ],
)
def test_paths_that_cannot_be_followed(path: tuple, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        set_value(MESSY, path, 1)


@pytest.mark.parametrize("path", [("no",), ("b", "c"), ("a", "y", 7), ("a", "y", "k"), ()])
def test_what_is_not_there_cannot_be_unset(path: tuple) -> None:
    with pytest.raises(ConfigError):
        unset_value(MESSY, path)
