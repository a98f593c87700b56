"""Globs: what they match, and that none of them can make matching slow."""

import re

import pytest

from homarus.tools.globs import compile_glob


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("*.py", ["a.py", "src/b.py", ".py", "line\nbreak/a.py"], ["a.pyc", "py"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/deep/a.py", "x/src/a.py"]),
        ("/a", ["a"], ["b/a"]),
        ("**/a", ["a", "b/a", "b/c/a"], ["ba", "a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("**/a/**/b", ["a/b", "x/a/b", "a/a/b", "x/a/y/a/b"], ["b/a", "a/x"]),
        ("*a*b*", ["ab", "xaxbx", "aab"], ["ba", "a/b"]),
        ("{a,b{c,d}}.md", ["a.md", "bc.md", "x/bd.md"], ["b.md", "ac.md"]),
        ("{a", ["{a"], ["a"]),
        ("[ab]", ["a", "x/b"], ["c", "ab"]),
        ("[!a]", ["b"], ["a", "/"]),
        ("[[]x]", ["[x]"], ["x"]),
        (r"\*", ["*"], ["a"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
    ],
)
def test_what_a_glob_matches(glob: str, matches: list[str], others: list[str]) -> None:
    compiled = compile_glob(glob)
    assert [name for name in matches if not compiled.fullmatch(name)] == []
    assert [name for name in others if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("*a" * 40 + "b", "a" * 250),
        ("[a-z]*" * 30 + "!", "a" * 250),
        ("*" * 300 + "b", "a" * 250),
        ("**/a/" * 20 + "x", "a/" * 400 + "y"),
        ("**" * 20 + "b", "a/" * 100),
        ("{*a,*b}" * 6 + "!", "ab" * 100),
    ],
)
def test_no_glob_takes_for_ever(glob: str, name: str) -> None:
    """With expressions that go back, each of these takes longer than the universe has time."""
    assert compile_glob(glob).fullmatch(name) is None


@pytest.mark.parametrize("glob", ["{a,b}" * 20, "*" * 5_000, "[b-a]"])
def test_globs_that_are_refused(glob: str) -> None:
    with pytest.raises(re.error):
        compile_glob(glob)
