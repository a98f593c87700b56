"""A pattern finds the same lines in ripgrep as in Python, or is not given to ripgrep."""

import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.tools.dialect import for_ripgrep, without_posix

RG = shutil.which("rg") or ""


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("interface {", r"interface \{"),
        ("a{,3}", "a{0,3}"),
        ("x{2}y", "x{2}y"),
        (r"\"a\/b\-", r'"a/b\-'),
        ("[[a]", r"[\[a]"),
        ("[]a]", r"[\]a]"),
        (r"\Aa\Z", "^a$"),
        (r"\x41\u00e9", r"\x{41}\x{e9}"),
        ("(?:a|b)(?P<n>c)(?i:d)", "(?:a|b)(?P<n>c)(?i:d)"),
        # What one of the two does not know, or reads otherwise.
        *[
            (pattern, None)
            for pattern in (
                r"(a)\1",
                "a(?=b)",
                "(?<!a)b",
                "a++",
                "a{2}+",
                r"\n",
                r"[\b]",
                "[a--b]",
                "(?x)a b",
                r"\r",
                "(?#x)",
            )
        ],
    ],
)
def test_translations(pattern: str, expected: str | None) -> None:
    assert for_ripgrep(pattern) == expected


def test_sets_with_names() -> None:
    assert without_posix("[[:space:]_]+[^[:digit:]]") == r"[\s_]+[^0-9]"
    assert without_posix("[[:nothing:]] a[:b]") == "[[:nothing:]] a[:b]"


PIECES = st.sampled_from(
    ["a", "b", "{", "}", "[", "]", "(", ")", "|", ".", "*", "+", "?", "^", "\\", "/", '"', "-", ",", "1", "é", "(?:", r"\d", r"\w",
     r"\b", "[ab]", "[^a]", "{1,2}", "{2}", "{,2}", r"\/", r"\-", r"\{", "&", "~", "[a-b]", r"\s", " ", ":", "(?i)", r"\x41", "$"]
)  # fmt: skip
LINES = [
    "", "a", "ab", "a{", "a{1,2}", "b}a", "[ab]", "(a)", "a|b", "a.b", "a*b", "a+", "a?", "^a", "a$", "\\a", "a/b", '"a"', "a-b", "1,2",
    "é", "Aé", "a b", "aa1", "b:a", "&&~~", "x",
]  # fmt: skip


@pytest.mark.skipif(not RG, reason="ripgrep is not installed")
@settings(max_examples=40, deadline=None)
@given(pattern=st.lists(PIECES, min_size=1, max_size=6).map("".join))
def test_both_find_the_same_lines(tmp_path_factory: pytest.TempPathFactory, pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
    except (re.error, OverflowError):
        return
    theirs = for_ripgrep(pattern)
    if theirs is None or "$^" in theirs:  # which ripgrep does not find in an empty line
        return
    file: Path = tmp_path_factory.getbasetemp() / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    line = [RG, "--no-config", "--crlf", "--line-number", "--regexp", theirs, str(file)]
    found = subprocess.run(line, capture_output=True, text=True, check=False)
    assert found.returncode in (0, 1), found.stderr
    numbers = [int(row.partition(":")[0]) for row in found.stdout.splitlines()]
    assert numbers == [number for number, text in enumerate(LINES, 1) if compiled.search(text)]
