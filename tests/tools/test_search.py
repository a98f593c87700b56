"""grep and find give the same answer with ripgrep and without it, and never more than their limits."""

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.calling import fail, say
from tests.tools.context import context

from homarus.core.cancel import Cancel
from homarus.sandbox.process import available
from homarus.sandbox.spec import Access, Backend, SandboxSpec
from homarus.tools.paths import Reach
from homarus.tools.search import search_tools
from homarus.tools.tool import ToolContext

RG = shutil.which("rg") or ""
ENGINES = [
    pytest.param("", id="ours"),
    pytest.param(RG, id="ripgrep", marks=() if RG else pytest.mark.skip("ripgrep is not installed")),
]


@pytest.fixture
def place(tmp_path: Path) -> ToolContext:
    ctx = context(tmp_path)
    ws = ctx.workspace
    (ws / ".gitignore").write_text("*.log\n!keep.log\nbuild/\n/only-here.txt\n")
    for name, text in {
        "a.py": "import os\nprint('Needle')\n\n\n\n# tail\n",
        "src/b.py": "needle = 1\nneedle = 2\n",
        "src/deep/c.md": "no\nneedle here\n",
        "src/only-here.txt": "needle\n",
        "only-here.txt": "needle\n",
        "noise.log": "needle\n",
        "keep.log": "needle\n",
        "build/out.py": "needle\n",
        ".hidden": "needle\n",
        ".git/config": "needle\n",
        "node_modules/m.js": "x\n",
        "we ird [x].txt": "needle\n",
    }.items():
        (ws / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / name).write_text(text)
    (ws / "binary").write_bytes(b"\x00needle\n")
    (tmp_path / "secret").write_text("needle outside\n")
    (ws / "link").symlink_to(tmp_path / "secret")
    (ws / "loop").symlink_to(ws)
    return ctx


@pytest.mark.parametrize("rg", ENGINES)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"pattern": "needle"},
            (
                ".hidden:1: needle|keep.log:1: needle|src/b.py:1: needle = 1|src/b.py:2: needle = 2"
                "|src/deep/c.md:2: needle here|src/only-here.txt:1: needle|we ird [x].txt:1: needle"
            ),
        ),
        ({"pattern": "needle", "glob": "*.py"}, "src/b.py:1: needle = 1|src/b.py:2: needle = 2"),
        ({"pattern": "needle", "glob": "src/**/*.md"}, "src/deep/c.md:2: needle here"),
        ({"pattern": "NEEDLE", "ignoreCase": True, "path": "a.py"}, "a.py:2: print('Needle')"),
        ({"pattern": "('N", "literal": True}, "a.py:2: print('Needle')"),
        ({"pattern": r"need.e = \d", "path": "src"}, "b.py:1: needle = 1|b.py:2: needle = 2"),
        ({"pattern": "here", "context": 1, "path": "src/deep"}, "c.md-1- no|c.md:2: needle here"),
        ({"pattern": "-needle"}, ""),
        ({"pattern": "--files"}, ""),
    ],
)
async def test_grep(place: ToolContext, rg: str, arguments: dict[str, object], expected: str) -> None:
    text = await say(search_tools(Reach(), ripgrep=rg), "grep", place, **arguments)
    assert text.split("\n") == expected.split("|") if expected else "No matches" in text


@pytest.mark.parametrize("rg", ENGINES)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"pattern": "*.py"}, "a.py|src/b.py"),
        ({"pattern": "src/**/*.md"}, "src/deep/c.md"),
        ({"pattern": "deep"}, "src/deep/"),
        ({"pattern": "*.{md,py}", "path": "src"}, "b.py|deep/c.md"),
        ({"pattern": "[ab].py"}, "a.py|src/b.py"),
        ({"pattern": "**/*.txt"}, "src/only-here.txt|we ird [x].txt"),
        ({"pattern": "*.js"}, ""),
        ({"pattern": "config"}, ""),
    ],
)
async def test_find(place: ToolContext, rg: str, arguments: dict[str, object], expected: str) -> None:
    text = await say(search_tools(Reach(), ripgrep=rg), "find", place, **arguments)
    assert text.split("\n") == expected.split("|") if expected else "Nothing found" in text


ODD = {
    "a.go": b"func main() {\n\tx := 1\n}\ntype T interface {\n",
    "crlf.txt": b"foo\r\nbar\r\n",
    "long.txt": b"x" * 3_000_000 + b" end\nafter\n",
    "wide.txt": "wide words\n".encode("utf-16"),
    "late.bin": b"bits\n" + b"x\n" * 500 + b"\0\nbits\n",
    "two\nlines.txt": b"broken name\n",
}


@pytest.mark.parametrize("rg", ENGINES)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # Patterns that one of the two engines does not know, or would read otherwise.
        ({"pattern": "interface {"}, "a.go:4: type T interface {"),
        ({"pattern": "main() {", "literal": True}, "a.go:1: func main() {"),
        ({"pattern": "main() {"}, "set literal to find the text itself"),
        ({"pattern": "foo(?=$)"}, "crlf.txt:1: foo"),
        ({"pattern": r"(f)(o)\2"}, "crlf.txt:1: foo"),
        ({"pattern": r"\Afoo\Z"}, "crlf.txt:1: foo"),
        ({"pattern": "^[[:alpha:]]ar$"}, "crlf.txt:2: bar"),
        ({"pattern": "a{99999}|bar"}, "crlf.txt:2: bar"),
        # Files that are not what they seem.
        ({"pattern": "foo$", "path": "crlf.txt"}, "crlf.txt:1: foo"),
        ({"pattern": "after"}, "long.txt:2: after"),
        ({"pattern": " end$", "path": "long.txt"}, "long.txt:1: xxx"),
        ({"pattern": "wide", "path": "wide.txt"}, "wide.txt:1: wide words"),
        ({"pattern": "bits"}, "No matches"),
        ({"pattern": "bits", "path": "late.bin"}, "late.bin is no text; the pattern occurs in it"),
        ({"pattern": "broken"}, "two\\nlines.txt:1: broken name"),
    ],
)
async def test_odd_patterns_and_files(tmp_path: Path, rg: str, arguments: dict[str, object], expected: str) -> None:
    ctx = context(tmp_path)
    for name, data in ODD.items():
        (ctx.workspace / name).write_bytes(data)
    assert expected in await say(search_tools(Reach(), ripgrep=rg), "grep", ctx, **arguments)


@pytest.mark.parametrize("rg", ENGINES)
async def test_find_as_models_ask_for_it(place: ToolContext, rg: str) -> None:
    tools = search_tools(Reach(), ripgrep=rg)
    (place.workspace / "two\nlines.py").touch()
    assert await say(tools, "find", place, pattern=f"{place.workspace}/src/*.py") == "src/b.py"
    assert await say(tools, "find", place, pattern="src/") == "src/"
    assert await say(tools, "find", place, name="two*", dir=".") == "two\\nlines.py"


@pytest.mark.parametrize("rg", ENGINES)
async def test_rules_of_folders_above_are_not_the_workspace_s(tmp_path: Path, rg: str) -> None:
    """Who keeps a home in git has `*` in its .gitignore."""
    (tmp_path / ".gitignore").write_text("*\n")
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("needle\n")
    assert await say(search_tools(Reach(), ripgrep=rg), "grep", ctx, pattern="needle") == "f:1: needle"


@pytest.mark.parametrize("rg", ENGINES)
async def test_limits_hold(tmp_path: Path, rg: str) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "long").write_text("x" * 3000 + "\n")
    (ctx.workspace / "many").write_text("x\n" * 5000)
    for number in range(1200):
        (ctx.workspace / f"f{number:04}").touch()
    tools = search_tools(Reach(), ripgrep=rg)
    text = await say(tools, "grep", ctx, pattern="x", limit=10_000)
    assert len(text) < 60_000
    assert "more than 100 matches" in text
    assert max(map(len, text.split("\n"))) < 600
    assert len((await say(tools, "grep", ctx, pattern="x", limit=2)).split("\n")) == 4
    text = await say(tools, "find", ctx, pattern="*")
    assert text.count("\n") == 1001
    assert "the first 1,000" in text


@pytest.mark.parametrize("rg", ENGINES)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("grep", {"pattern": "("}, "no regular expression"),
        ("grep", {"pattern": ""}, "must not be empty"),
        ("grep", {"pattern": "x", "path": "nowhere"}, "does not exist"),
        ("grep", {"pattern": "x", "path": "link"}, "leads out"),
        ("grep", {"pattern": "x", "path": "/etc"}, "outside"),
        ("grep", {"pattern": "x", "context": 99}, "at most 20"),
        ("grep", {"pattern": "a\nb"}, "search for one line"),
        ("grep", {"pattern": "a\0b"}, "several lines"),
        ("grep", {"pattern": "x" * 200_000}, "more than 10,000 characters"),
        ("grep", {"pattern": r"\p{L}"}, "set literal"),
        ("grep", {"pattern": "x", "glob": "{a,b}" * 20}, "no glob"),
        ("find", {"pattern": "*" * 9_000}, "no glob"),
        ("find", {"pattern": "*", "path": "../.."}, "outside"),
        ("find", {"pattern": "*", "path": "a.py"}, "is a file"),
        ("find", {}, "'pattern' is missing"),
    ],
)
async def test_bad_and_hostile_calls(
    place: ToolContext, rg: str, name: str, arguments: dict[str, object], expected: str
) -> None:
    tools = search_tools(Reach(workspace_only=True), ripgrep=rg)
    assert expected in await fail(tools, name, place, **arguments)


async def test_a_pattern_that_would_take_for_ever_can_be_stopped(tmp_path: Path) -> None:
    cancel = Cancel()
    ctx = context(tmp_path, cancel=cancel)
    (ctx.workspace / "f").write_text("a" * 60 + "!\n")
    asyncio.get_running_loop().call_later(0.5, cancel.cancel, "enough")
    text = await fail(search_tools(Reach(), ripgrep=""), "grep", ctx, pattern="(a+)+$")
    assert "stopped" in text


@pytest.mark.skipif(not RG or not available(Backend.BWRAP), reason="needs ripgrep and bubblewrap")
async def test_ripgrep_runs_inside_the_sandbox(place: ToolContext, tmp_path: Path) -> None:
    spec = SandboxSpec(Backend.BWRAP, str(place.workspace), Access.RO)
    ctx = context(tmp_path, sandbox=spec)
    assert "src/b.py:1" in await say(search_tools(Reach(), ripgrep=RG), "grep", ctx, pattern="needle")
    assert "outside" in await fail(search_tools(Reach(), ripgrep=RG), "grep", ctx, pattern="root", path="/etc")
    closed = context(tmp_path, sandbox=SandboxSpec(Backend.BWRAP, str(place.workspace), Access.NONE))
    assert "outside" in await fail(search_tools(Reach(), ripgrep=RG), "grep", closed, pattern="needle")


NAMES = st.sampled_from(
    [
        "a",
        "b.py",
        "c.md",
        ".d",
        "e f.txt",
        "g.log",
        "ä.py",
        "x[1].md",
        "Makefile",
        "two\nlines.py",
        "-v",
        "\U0001f600.md",
    ]
)
WHERE = st.lists(st.sampled_from(["p", "q", ".r", "s t", "build"]), max_size=3)
LINES = st.lists(
    st.sampled_from(
        ["needle", "Needle", "a needle here", "", "x.y", "tab\there", "ümlaut needle", "needle {", "nul\0", "needle\r"]
    ),
    max_size=5,
)
RULES = st.lists(
    st.sampled_from(
        [
            "*.log",
            "!g.log",
            "build/",
            "/p",
            "q/*",
            "**/c.md",
            "a",
            "#x",
            "*.p[xy]",
            "!b.py",
            "s t/",
            "{a,b.py}",
            "p**",
            "**/q/",
            "/*/c.md",
        ]
    ),
    max_size=4,
)
PATTERNS = st.sampled_from(
    [
        "needle",
        "n.*e",
        "^needle$",
        "x.y",
        "[Nn]eedle",
        "ümlaut",
        r"\bhere\b",
        "nothing",
        "needle {",
        "(?=needle)",
        r"(e)\1",
    ]
)
GLOBS = st.sampled_from(["", "*.py", "*.{md,txt}", "p/**", "**/*.md", "x[[]1].md", "?", "q/*.py", ".*", "**/p/**/a"])


@pytest.mark.skipif(not RG, reason="ripgrep is not installed")
@settings(max_examples=25, deadline=None)
@given(
    files=st.dictionaries(st.tuples(WHERE.map(tuple), NAMES), LINES, max_size=8),
    rules=st.dictionaries(WHERE.map(tuple), RULES, max_size=2),
    pattern=PATTERNS,
    glob=GLOBS,
    literal=st.booleans(),
    ignore_case=st.booleans(),
)
def test_both_engines_give_the_same_answers_in_any_tree(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[tuple[tuple[str, ...], str], list[str]],
    rules: dict[tuple[str, ...], list[str]],
    pattern: str,
    glob: str,
    literal: bool,
    ignore_case: bool,
) -> None:
    ctx = context(tmp_path_factory.mktemp("tree"))
    for (where, name), lines in files.items():
        path = ctx.workspace.joinpath(*where, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # a name that is a file here and a folder there
    for where, lines in rules.items():
        if ctx.workspace.joinpath(*where).is_dir():
            ctx.workspace.joinpath(*where, ".gitignore").write_text("".join(f"{line}\n" for line in lines))

    async def both(name: str, **arguments: object) -> list[list[str]]:
        answers = [await say(search_tools(Reach(), ripgrep=rg), name, ctx, **arguments) for rg in ("", RG)]
        return [sorted(answer.split("\n")) for answer in answers]

    asked = {"pattern": pattern, "literal": literal, "ignoreCase": ignore_case, **({"glob": glob} if glob else {})}
    ours, theirs = asyncio.run(both("grep", **asked))
    assert ours == theirs
    ours, theirs = asyncio.run(both("find", pattern=glob or "*"))
    assert ours == theirs
