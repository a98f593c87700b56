"""What has one reading is taken apart as a shell would; everything else says that it needs a shell."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.tools.shell import parse, quoted


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        ("ls -l", [["ls", "-l"]]),
        ("  git  status\t-s ", [["git", "status", "-s"]]),
        ("grep 'a b' \"c d\" e\\ f", [["grep", "a b", "c d", "e f"]]),
        ("cat f|wc -l", [["cat", "f"], ["wc", "-l"]]),
        ("echo 'it''s' \"\\\"q\\\"\"", [["echo", "its", '"q"']]),
        ("echo '$HOME `x` * ; > <'", [["echo", "$HOME `x` * ; > <"]]),
        ("printf '%s\\n' é", [["printf", "%s\\n", "é"]]),
        ("echo ''", [["echo", ""]]),
        ("a=b' c' x", None),
        ("'a=b' c", [["a=b", "c"]]),
    ],
)
def test_plain_commands(text: str, pipeline: list[list[str]] | None) -> None:
    parsed = parse(text)
    assert [list(argv) for argv in parsed.pipeline] == (pipeline or [])
    assert parsed.plain is (pipeline is not None)


@pytest.mark.parametrize(
    "text",
    [
        "", "ls; id", "ls && id", "ls || id", "ls & id", "ls &", "ls |& id", "cat <<EOF\n$(id)\nEOF", "cat <<< x", "echo $(id)",
        "echo `id`", "echo \"$(id)\"", "echo \"`id`\"", "echo $HOME", "echo ${IFS}", "ls > f", "ls 2>&1", "cat < f", "(ls)", "{ ls; }",
        "ls *.py", "ls -l?", "ls [ab]", "ls {a,b}", "ls ~", "ls ~root", "PATH=/tmp ls", "A+=1 ls", "ls # hidden", "ls\nid", "ls\rid",
        "ls \\\nid", "echo 'open", 'echo "open', "ls |", "| ls", "a | | b", "eval id", ". f", "source f", "exec sh", "cd /", "if true",
        "! ls", "echo \"!!\"", "ls\x00", "ls \x1b[2K", "time ls", "alias a=b", "<(id)", "diff <(a) <(b)", "echo $'\\x41'", "x" * 200_000,
        "echo \\", "ls -l\u2028id\x85", "command id", "builtin id", "'' id", "echo \"a\\$b\"",
    ],
)  # fmt: skip
def test_what_only_a_shell_understands(text: str) -> None:
    parsed = parse(text)
    assert not parsed.plain
    assert parsed.reason


WORDS = st.lists(st.text(alphabet="ab'\" $`\\*|;&<>(){}~#!=\n[]?", min_size=1, max_size=6), min_size=1, max_size=4)


@given(WORDS)
def test_quoting_and_reading_are_each_others_reverse(words: list[str]) -> None:
    line = quoted((("printf", *words),))
    assert parse(line).pipeline == (("printf", *words),)


@given(st.text(alphabet="ab '\"\\|=-", max_size=12))
def test_what_is_understood_is_what_a_shell_understands(text: str) -> None:
    parsed = parse(text)
    if parsed.plain:
        # shlex splits words by the same rules, apart from the bars.
        lexer = shlex.shlex(text, posix=True, punctuation_chars="|")
        lexer.whitespace_split = True
        lexer.commenters = ""
        expected = [word for argv in parsed.pipeline for word in (*argv, "|")][:-1]
        assert list(lexer) == expected


@pytest.mark.parametrize(
    "text", ["printf '[%s]' 'a b' \"c\" d\\ e", "printf '%s' 'x'\"y\"z", "printf '[%s]' \"a\\\\b\" 'c\\d'"]
)
def test_the_same_as_a_real_shell(text: str) -> None:
    argv = parse(text).pipeline[0]
    ours = subprocess.run(argv, capture_output=True, check=True).stdout
    theirs = subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True).stdout
    assert ours == theirs
