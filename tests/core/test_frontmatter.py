"""The header block: cut, read, and never a raise."""

from __future__ import annotations

import json
import string

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from homarus.core import frontmatter
from homarus.core.frontmatter import json5, parse, split, without_header
from homarus.skills.discover import BUNDLED

KEYS = st.text(string.ascii_lowercase + "-_", min_size=1, max_size=8).filter(lambda k: k[0] != "-")
WORDS = st.text(string.ascii_letters + string.digits + " .,;!?'\"#:-/()äß你", max_size=30)


@pytest.mark.parametrize(
    ("text", "header", "body"),
    [
        ("---\nname: a\n---\nbody\n", "name: a\n", "body\n"),
        ("---\n---\n", "", ""),
        ("---\nname: a\n---", "name: a\n", ""),
        ("\ufeff---\r\nname: a\r\n---\r\nbody", "name: a\n", "body"),
        ("---  \nrule: x\n----\n---foo\n---\t\nbody", "rule: x\n----\n---foo\n", "body"),
        ("no block\n---\n", None, "no block\n---\n"),
        ("---\nnever closed\n", None, "---\nnever closed\n"),
        ("---", None, "---"),
        ("", None, ""),
        ("\n---\nname: a\n---\n", None, "\n---\nname: a\n---\n"),
    ],
)
def test_split(text, header, body):
    assert split(text) == (header, body)


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("name: github\ndescription: Work with it, daily.", {"name": "github", "description": "Work with it, daily."}),
        ("a: \"x: y # z\"\nb: 'q'\nc:\n", {"a": "x: y # z", "b": "q", "c": None}),
        (
            'm:\n  o:\n    bins: [git, gh]\n    env: ["A"]\n  p: yes\n',
            {"m": {"o": {"bins": ["git", "gh"], "env": ["A"]}, "p": True}},
        ),
        ("list:\n- a\n- b\nnext: c", {"list": ["a", "b"], "next": "c"}),
        ("list:\n  - a\n  - b: c\n", {"list": ["a", {"b": "c"}]}),
        ("list:\n- a\n  - b\n", {"list": ["a - b"]}),
        ('metadata: {"openclaw":{"always":true}}', {"metadata": {"openclaw": {"always": True}}}),
        ("text: >\n  folded\n  words\n", {"text": "folded words\n"}),
        ("day: 2026-11-15\nversion: 1.2.3\nn: 12", {"day": "2026-11-15", "version": "1.2.3", "n": 12}),
        ("yes: 1", {"True": 1}),
        ("# only a comment\n", {}),
        ("a: b\na: c", {"a": "c"}),
    ],
)
def test_parse_clean(header, values):
    assert parse(header) == (values, "")


def test_one_bad_line_costs_one_value():
    header = "name: x\ndescription: Use when: asked\nlist: [a, b]\nmetadata:\n  openclaw:\n    requires: {bins: [git]}\nbad: [\n"
    values, problem = parse(header)
    assert values == {
        "name": "x",
        "description": "Use when: asked",
        "list": ["a", "b"],
        "metadata": {"openclaw": {"requires": {"bins": ["git"]}}},
        "bad": "[",
    }
    assert problem.startswith("not clean YAML")


def test_many_bad_keys_are_not_tried_one_by_one():
    values = parse("\n".join(f"k{number}: [" for number in range(5_000))).values
    assert len(values) == 5_000


def test_json5_over_several_lines_is_kept_as_text():
    result = parse("name: x\ndescription: Use when: the user asks\nmetadata:\n  {\n    // note\n    a: [1,],\n  }\n")
    assert result.values["description"] == "Use when: the user asks"
    assert json5(result.values["metadata"]) == {"a": [1]}
    assert result.problem.startswith("not clean YAML")


@pytest.mark.parametrize("unit", ["- ", "[", "a: {", "? ", "-\t", '{"a":', " - ?"])
@pytest.mark.parametrize("count", [100, 20_000, 32_000, 60_000])
def test_deep_nesting_does_not_reach_the_recursion_in_c(unit, count):
    # Thirty thousand levels crash the process inside the C loader.
    assert parse("name: x\nv: " + unit * count).problem
    assert parse(unit * count).problem


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 9)]
    assert "too large" in parse("\n".join(lines)).problem


@pytest.mark.parametrize(
    "hostile", ["!!int ''", "!!bool x", "!!timestamp x", "!!binary x", "!!python/name:os.system", "=", "<<: 1"]
)
def test_tags_cannot_break_out(hostile):
    assert isinstance(parse(f"name: x\nv: {hostile}").values, dict)
    assert isinstance(parse(hostile).values, dict)


@given(st.one_of(st.text(), st.binary().map(lambda b: b.decode("utf-8", "replace"))))
@example("\ud800: \udfff")
@settings(max_examples=300, deadline=None)
def test_never_raises(text):
    header, body = split("---\n" + text)
    assert isinstance(body, str)
    for candidate in (text, header or ""):
        values = parse(candidate).values
        assert frontmatter.plain(values) == values or values != values
    json5(text)


def tree() -> st.SearchStrategy:
    leaf = st.one_of(WORDS, st.booleans(), st.none(), st.integers(-5, 10_000), st.lists(WORDS, max_size=3))
    return st.dictionaries(
        KEYS, st.recursive(leaf, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6), max_size=4
    )


@given(tree(), st.sampled_from([False, None]), st.integers(2, 4))
@settings(max_examples=200, deadline=None)
def test_what_yaml_wrote_is_read_back(values, flow, indent):
    written = yaml.safe_dump(values, default_flow_style=flow, indent=indent, allow_unicode=True, width=10_000)
    assert parse(written) == (frontmatter.plain(yaml.safe_load(written)), "")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(
                ["a:", "b: x", "- x", "c: 'x'", "- ", "d", "e: [x, y]", "#", "", "f: x y: z", "on: off", 'g: {"x": 1}']
            ),
        ),
        max_size=8,
    )
)
@settings(max_examples=400, deadline=None)
def test_a_header_is_what_yaml_says(lines):
    header = "\n".join("  " * depth + text for depth, text in lines)
    try:
        expected = yaml.safe_load(header)
    except yaml.YAMLError:
        assert parse(header).problem
        return
    if isinstance(expected, dict):
        assert parse(header) == (frontmatter.plain(expected), "")
    elif expected is not None:
        assert parse(header).problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\ntitle: x\n---\n# Body\n", "# Body\n"),
        ("---\ntitle: x\n---\n\n\nBody", "Body"),
        ("---\r\ntitle: x\r\n---\r\nBody", "Body"),
        ("---\ntags:\n  - a\n  - b\n# note\nother: >\n  text\n---\nBody", "Body"),
        ("---\ntags:\n- a\n---\nBody", "Body"),
        ("---\na: 1\n---", ""),
    ],
)
def test_a_block_of_keys_is_stripped(text, expected):
    assert without_header(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n---\na: b\n---\n",
        "---\nA paragraph between two rules.\n---\nBody",
        "---\n---\nBody",
        "---\ntitle: never closed\n",
        "----\na: b\n----\n",
        " ---\na: b\n---\n",
        "---\nhttp://example.org\n---\nBody",
        "---\na: b\nthen prose follows here\n---\nBody",
        "",
    ],
)
def test_anything_else_stays_whole(text):
    assert without_header(text) == text


@given(st.text(alphabet="-:a \n#", max_size=60))
def test_what_is_left_is_always_an_end_of_the_text(text):
    assert text.endswith(without_header(text))


PLAIN_LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "", "  ", "  ", "    ", " ", "\t"]),
        st.sampled_from(["name", "a", "b", "näme", "yes", "True", "x-y", "null", "1a"]),
        st.sampled_from(
            [
                "",
                " ",
                " word",
                " true",
                " False",
                " tRue",
                " on",
                " y",
                ' "a: b # c"',
                ' "é你"',
                ' "\\n"',
                ' "a" b',
                " a b",
                " 'x: \"y\" # z'",
                " 'it''s'",
                " Bash(git:*) Read",
                ' {"o":{"bins":["gh"],"on":true,"none":null}}',
                ' {"o": 1e3}',
                ' {"o": "1e3", "o": "é"}',
                ' {"a": "b"} c',
                ' {"a": [{"b": "\\n"}]}',
                ' {"<<": "x", "yes": "no"}',
            ]
        ),
    )
    .map("".join)
    .map(lambda line: line.replace("name", "name:", 1) if "name" in line else line.replace("a", "a:", 1)),
    min_size=1,
    max_size=6,
).map("\n".join)


@given(PLAIN_LINES)
@example('name: a\nmeta:\n  o:\n    e: "x"\n  p: true\nq:\n')
@example("a:\n  b: c\na: d")
def test_plain_blocks_read_without_the_library_mean_what_the_library_says(header):
    simple = frontmatter._simple(header)
    if simple is not None:
        assert simple == frontmatter._yaml(header)


def test_bundled_headers_need_no_library():
    for file in BUNDLED.glob("*/SKILL.md"):
        header, _ = split(file.read_text())
        assert header is not None
        assert frontmatter._simple(header) == frontmatter._yaml(header), file


@given(
    st.recursive(
        st.one_of(st.text(max_size=12), st.booleans(), st.none(), st.floats(), st.integers()),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)
@settings(max_examples=300, deadline=None)
def test_an_object_in_one_line_of_json_is_what_yaml_says(value, marks):
    header = "metadata: " + json.dumps({"openclaw": value}, ensure_ascii=False, separators=marks)
    if (simple := frontmatter._simple(header)) is not None:
        assert simple == frontmatter._yaml(header)
