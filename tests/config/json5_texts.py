"""Strategies for JSON5 texts: every spelling the format allows, with comments and odd white space everywhere."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from homarus.config.scan import Node

_GAPS = ["", " ", "\n", "\t", "  ", "\r\n", "\n\n  ", "\u00a0", "\u2028", "\ufeff", "/* c */", "/***/", "/* a\n b */"]
_LINE_COMMENTS = ["// note\n", "//\n", '// it\'s "quoted" { [ ,\r\n', "  // x\n    "]
gaps = st.lists(st.sampled_from(_GAPS + _LINE_COMMENTS), max_size=3).map("".join)

numbers = st.sampled_from(
    [
        "0",
        "-1",
        "+7",
        "42",
        ".5",
        "5.",
        "-0.25",
        "1e3",
        "1E-2",
        "0x1F",
        "-0xff",
        "Infinity",
        "-Infinity",
        "NaN",
        "1_000",
    ]
)
words = st.sampled_from(["true", "false", "null"])
strings = st.one_of(
    st.sampled_from(
        [
            '""',
            "''",
            '"plain"',
            "'single'",
            '"a\\nb"',
            "'it\\'s'",
            '"\\u00e9\\x41"',
            '"a\\\nb"',
            '"// no"',
            "'/* no */'",
        ]
    ),
    st.text(alphabet=st.characters(exclude_characters="\"'\\\n\r", exclude_categories=["Cs"]), max_size=8).map(
        lambda s: f'"{s}"'
    ),
)
scalars = st.one_of(numbers, words, strings)
keys = st.sampled_from(
    ["a", "b", "c", "$d", "_e", "é", "\\u0066", '"g"', "'h'", '"i.j"', '"with space"', "'q\"q'", '""', "null"]
)


@st.composite
def _joined(draw: st.DrawFn, opener: str, items: st.SearchStrategy[str], closer: str) -> str:
    parts = draw(st.lists(items, max_size=4))
    text = opener + draw(gaps)
    for index, part in enumerate(parts):
        text += part + draw(gaps)
        if index + 1 < len(parts) or draw(st.booleans()):
            text += "," + draw(gaps)
    return text + closer


@st.composite
def _member(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    return draw(keys) + draw(gaps) + ":" + draw(gaps) + draw(values)


values = st.recursive(
    scalars,
    lambda inner: st.one_of(_joined("[", inner, "]"), _joined("{", _member(inner), "}")),
    max_leaves=12,
)
objects = _joined("{", _member(values), "}")


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A whole file: an object with gaps around it, sometimes with a byte order mark."""
    return draw(st.sampled_from(["", "", "\ufeff"])) + draw(gaps) + draw(objects) + draw(gaps)


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


def paths(node: Node, at: tuple = ()) -> list[tuple]:
    """Every path of a tree."""
    found = []
    for member in node.members:
        found += [(*at, member.key), *paths(member.node, (*at, member.key))]
    return found


def slices(text: str, node: Node, at: tuple = ()) -> dict[tuple, str]:
    """The text of every scalar, by path; of a key written twice the last one counts."""
    found = {}
    for member in node.members:
        path = (*at, member.key)
        for old in [old for old in found if old[: len(path)] == path]:
            del found[old]
        if member.node.kind == "scalar":
            found[path] = text[member.key_start : member.key_end] + text[member.node.start : member.node.end]
        found |= slices(text, member.node, path)
    return found


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(char in rest for char in short)


def same_number(a: object, b: object) -> bool:
    return isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
