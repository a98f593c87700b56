"""grep and find show what ripgrep would show, to nobody what is not theirs, and never more than their limits."""

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.calling import fail, say
from tests.tools.context import context

from homarus.core.cancel import Cancel
from homarus.core.messages import ToolCall, Trust
from homarus.sandbox.spec import Access, Backend, SandboxSpec
from homarus.tools.approval import Approvals
from homarus.tools.exec import Granted
from homarus.tools.execute import Toolbox, execute
from homarus.tools.files import file_tools
from homarus.tools.gate import PolicyGate
from homarus.tools.globs import compile_glob
from homarus.tools.paths import Reach
from homarus.tools.search import search_tools, without_posix
from homarus.tools.tool import ToolContext

RG = shutil.which("rg") or ""


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
async def test_grep(place: ToolContext, arguments: dict[str, object], expected: str) -> None:
    text = await say(search_tools(Reach()), "grep", place, **arguments)
    assert text.split("\n") == expected.split("|") if expected else "No matches" in text


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
async def test_find(place: ToolContext, arguments: dict[str, object], expected: str) -> None:
    text = await say(search_tools(Reach()), "find", place, **arguments)
    assert text.split("\n") == expected.split("|") if expected else "Nothing found" in text


ODD = {
    "a.go": b"func main() {\n\tx := 1\n}\ntype T interface {\n",
    "crlf.txt": b"foo\r\nbar\r\n",
    "long.txt": b"x" * 3_000_000 + b" end\nafter\n",
    "wide.txt": "wide words\n".encode("utf-16"),
    "late.bin": b"bits\n" + b"x\n" * 500 + b"\0\nbits\n",
    "two\nlines.txt": b"broken name\n",
}


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
async def test_odd_patterns_and_files(tmp_path: Path, arguments: dict[str, object], expected: str) -> None:
    ctx = context(tmp_path)
    for name, data in ODD.items():
        (ctx.workspace / name).write_bytes(data)
    assert expected in await say(search_tools(Reach()), "grep", ctx, **arguments)


def test_sets_with_names() -> None:
    assert without_posix("[[:space:]_]+[^[:digit:]]") == r"[\s_]+[^0-9]"
    assert without_posix("[[:nothing:]] a[:b]") == "[[:nothing:]] a[:b]"


async def test_find_as_models_ask_for_it(place: ToolContext) -> None:
    tools = search_tools(Reach())
    (place.workspace / "two\nlines.py").touch()
    assert await say(tools, "find", place, pattern=f"{place.workspace}/src/*.py") == "src/b.py"
    assert await say(tools, "find", place, pattern="src/") == "src/"
    assert await say(tools, "find", place, name="two*", dir=".") == "two\\nlines.py"


async def test_rules_of_folders_above_are_not_the_workspace_s(tmp_path: Path) -> None:
    """Who keeps a home in git has `*` in its .gitignore."""
    (tmp_path / ".gitignore").write_text("*\n")
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("needle\n")
    assert await say(search_tools(Reach()), "grep", ctx, pattern="needle") == "f:1: needle"


async def test_limits_hold(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "long").write_text("x" * 3000 + "\n")
    (ctx.workspace / "many").write_text("x\n" * 5000)
    for number in range(1200):
        (ctx.workspace / f"f{number:04}").touch()
    tools = search_tools(Reach())
    text = await say(tools, "grep", ctx, pattern="x", limit=10_000)
    assert len(text) < 60_000
    assert "more than 100 matches" in text
    assert max(map(len, text.split("\n"))) < 600
    assert len((await say(tools, "grep", ctx, pattern="x", limit=2)).split("\n")) == 4
    text = await say(tools, "find", ctx, pattern="*")
    assert text.count("\n") == 1001
    assert "the first 1,000" in text


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
    place: ToolContext, name: str, arguments: dict[str, object], expected: str
) -> None:
    tools = search_tools(Reach(workspace_only=True))
    assert expected in await fail(tools, name, place, **arguments)


async def test_a_pattern_that_would_take_for_ever_can_be_stopped(tmp_path: Path) -> None:
    cancel = Cancel()
    ctx = context(tmp_path, cancel=cancel)
    (ctx.workspace / "f").write_text("a" * 60 + "!\n")
    asyncio.get_running_loop().call_later(0.5, cancel.cancel, "enough")
    text = await fail(search_tools(Reach()), "grep", ctx, pattern="(a+)+$")
    assert "stopped" in text


async def test_a_sandbox_that_hides_the_workspace_hides_it_from_searches(place: ToolContext, tmp_path: Path) -> None:
    seen = context(tmp_path, sandbox=SandboxSpec(Backend.BWRAP, str(place.workspace), Access.RO))
    assert "src/b.py:1" in await say(search_tools(Reach()), "grep", seen, pattern="needle")
    assert "outside" in await fail(search_tools(Reach()), "grep", seen, pattern="root", path="/etc")
    closed = context(tmp_path, sandbox=SandboxSpec(Backend.BWRAP, str(place.workspace), Access.NONE))
    assert "outside" in await fail(search_tools(Reach()), "grep", closed, pattern="needle")


@pytest.mark.parametrize("path", ["", " ", ".", "sub", "./", None])
@pytest.mark.parametrize("trust", list(Trust))
async def test_the_owners_notes_are_in_nobody_elses_results(tmp_path: Path, path: str | None, trust: Trust) -> None:
    ctx = context(tmp_path, trust=trust)
    for name in ("MEMORY.md", "sub/Memory.md", "sub/memory/2026-01-01.md", "sub/USER.md", "sub/bank/x", "sub/open.md"):
        (ctx.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (ctx.workspace / name).write_text("needle\n")
    tools = [*search_tools(Reach()), *file_tools(Reach())]
    lines = (await say(tools, "grep", ctx, pattern="needle", path=path)).split("\n")
    names = (await say(tools, "find", ctx, pattern="*", path=path)).split("\n")
    names += (await say(tools, "ls", ctx, path=path)).split("\n")
    if trust in {Trust.GROUP, Trust.EXTERNAL}:
        assert [line.partition(":")[0].rpartition("/")[2] for line in lines] == ["open.md"]
        assert {name.rpartition("/")[2] for name in names if not name.endswith("/")} == {"open.md"}
    else:
        assert len(lines) == 6 - (path == "sub")
        assert any("2026-01-01.md" in name for name in names)


async def test_notes_stay_closed_whatever_a_group_calls_the_folder(tmp_path: Path) -> None:
    """The gate and the tool read the same path: the empty one is the folder where the turn works."""
    ctx = context(tmp_path, trust=Trust.GROUP)
    (ctx.workspace / "memory").mkdir()
    (ctx.workspace / "memory" / "a.md").write_text("needle\n")
    gate = PolicyGate(Approvals(tmp_path / "approvals.json", ctx.clock, ctx.ids), Granted(), {})
    box = Toolbox({tool.name: tool for tool in search_tools(Reach())}, gate)
    for path in ("", " ", ".", "memory", "./memory/", "memory/a.md"):
        for name in ("grep", "find"):
            result = await execute(ToolCall("c", name, {"pattern": "needle", "path": path}), box, ctx)
            assert "a.md" not in result.text.replace(path, ""), (name, path)
            assert result.is_error or "No" in result.text


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
def test_what_is_found_in_any_tree_is_what_ripgrep_finds(
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
    asked = {"pattern": pattern, "literal": literal, "ignoreCase": ignore_case, **({"glob": glob} if glob else {})}
    wanted = compile_glob(glob) if glob else None

    def theirs(*options: str) -> list[list[bytes]]:
        line = [RG, "--no-config", "--hidden", "--no-require-git", "--no-ignore-dot", "--no-ignore-parent", "--crlf"]
        line += ["--no-ignore-global", "--no-ignore-exclude", "--null", "--glob=!.git", "--no-messages", *options]
        done = subprocess.run([*line, "--", "."], cwd=ctx.workspace, capture_output=True, check=False)
        return [re.split(rb"\0", piece) for piece in done.stdout.split(b"\n")]

    options = ["--no-heading", "--line-number", "--with-filename", *(["--fixed-strings"] if literal else [])]
    rows = theirs(*options, *(["--ignore-case"] if ignore_case else []), "--regexp", pattern)
    if not any(b"two" in row[0] for row in rows):  # a name in two lines is for find alone
        expected = {
            row[0].decode().removeprefix("./") + ":" + re.sub(r"^(\d+):", r"\1: ", row[1].decode()).rstrip("\r")
            for row in rows
            if len(row) == 2 and (wanted is None or wanted.fullmatch(row[0].decode().removeprefix("./")))
        }
        found = asyncio.run(say(search_tools(Reach()), "grep", ctx, **asked))
        assert (set() if found.startswith("No matches") else set(found.split("\n"))) == expected
    found = asyncio.run(say(search_tools(Reach()), "find", ctx, pattern=glob or "*"))
    files_found = {name for name in found.split("\n") if not name.endswith("/")} - {
        line for line in [found] if line.startswith("Nothing found")
    }
    listed = [name.decode().removeprefix("./") for row in theirs("--files") for name in row if name]
    whole = "\n".join(listed)
    names = {name for name in whole.replace("two\nlines", "two\\nlines").split("\n") if name}
    matching = compile_glob(glob or "*")
    assert files_found == {name for name in names if matching.fullmatch(name.replace("\\n", "\n"))}
