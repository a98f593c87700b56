from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.config.edit import apply_data, same, set_value, unset_value
from homarus.config.scan import comments, find, parse, scan

_spec = importlib.util.spec_from_file_location("json5_texts", Path(__file__).with_name("json5_texts.py"))
texts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(texts)


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


@pytest.mark.deep
@settings(max_examples=20_000, deadline=None)
@given(st.data())
def test_an_edit_touches_its_key_alone_deep(data: st.DataObject) -> None:
    run(data)
