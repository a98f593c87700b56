"""apply_patch: all of it or none of it."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.calling import fail, say
from tests.tools.context import context

from homarus.core.errors import ToolError
from homarus.tools.patch import Step, carry_out, patch_tool
from homarus.tools.patchtext import Hunk, Operation, occurrences, parse, patched
from homarus.tools.paths import Reach, Spot

TOOLS = [patch_tool(Reach(workspace_only=True))]


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body.strip(chr(10))}\n*** End Patch"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_every_operation(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    ws = ctx.workspace
    (ws / "a.py").write_bytes(b"def f():\r\n\treturn 1\r\n\r\ndef g():\r\n\treturn 1")
    (ws / "old").write_text("gone\n")
    (ws / "run.sh").write_text("#!/bin/sh\necho 1\n")
    (ws / "run.sh").chmod(0o755)
    text = patch(
        """
*** Update File: a.py
@@ def g():
-\treturn 1
+\treturn 2
+\t# done
*** Add File: new/dir/file.txt
+one
+two
*** Delete File: old
*** Update File: run.sh
*** Move to: bin/run
@@
-echo 1
+echo 2
"""
    )
    shown = await say(TOOLS, "apply_patch", ctx, input=text)
    assert "M a.py" in shown
    assert "run.sh -> bin/run" in shown
    assert snapshot(ws) == {
        "a.py": b"def f():\r\n\treturn 1\r\n\r\ndef g():\r\n\treturn 2\r\n\t# done",
        "new/dir/file.txt": b"one\ntwo\n",
        "bin/run": b"#!/bin/sh\necho 2\n",
    }
    assert (ws / "bin" / "run").stat().st_mode & 0o777 == 0o755


GOOD = "*** Update File: f\n@@\n-one\n+1\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (GOOD + "*** Update File: g\n@@\n-not there\n+x", "does not fit"),
        (GOOD + "*** Update File: missing\n@@\n-x\n+y", "does not exist"),
        (GOOD + "*** Add File: g\n+x", "exists already"),
        (GOOD + "*** Add File: new\nx", "begin with '+'"),
        (GOOD + "*** Delete File: missing", "does not exist"),
        (GOOD + "*** Update File: g\n*** Move to: f2\n@@\n-other\n+y", "exists already"),
        (GOOD + "*** Update File: g\n@@\n-same\n+y", "fits at 2 places"),
        (GOOD + "*** Update File: g\n@@ nowhere\n-same\n+y", "is not in g"),
        (GOOD + "*** Update File: f\n@@\n-two\n+2", "twice"),
        (GOOD + "*** Add File: ../outside\n+x", "outside"),
        (GOOD + "*** Add File: /etc/homarus-test\n+x", "outside"),
        (GOOD + "*** Add File: link/x\n+x", "leads out"),
        (GOOD + "*** Update File: passwd\n@@\n-root\n+x", "leads out"),
        (GOOD + "*** Update File: g\n@@\n*same", "neither"),
        (GOOD + "*** Update File: g\n", "changes nothing"),
        (GOOD + "*** Nonsense: g\n", "unexpected line"),
        (GOOD + "*** Add File: half\n+\ud800", "half a character"),
        ("", "empty"),
    ],
)
async def test_a_failed_patch_changes_nothing(tmp_path: Path, body: str, expected: str) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("one\ntwo\n")
    (ctx.workspace / "f2").write_text("there\n")
    (ctx.workspace / "g").write_text("same\nother\nsame\n")
    (ctx.workspace / "link").symlink_to("/tmp")
    (ctx.workspace / "passwd").symlink_to("/etc/passwd")
    before = snapshot(ctx.workspace)
    assert expected in await fail(
        TOOLS, "apply_patch", ctx, input=patch(body) if body else "*** Begin Patch\n\n*** End Patch"
    )
    assert snapshot(ctx.workspace) == before


async def test_text_without_the_frame_is_explained(tmp_path: Path) -> None:
    assert "*** Begin Patch" in await fail(TOOLS, "apply_patch", context(tmp_path), input="--- a\n+++ b\n")


def test_what_was_written_is_taken_back_when_a_later_file_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "blocked").write_text("a file where a folder should be")
    steps = [
        Step(Spot(tmp_path, "a", True), b"old", b"new"),
        Step(Spot(tmp_path, "b", True), None, b"new"),
        Step(Spot(tmp_path, "blocked/c", True), None, b"new"),
    ]
    with pytest.raises(ToolError, match="nothing was changed"):
        carry_out(steps)
    assert sorted(os.listdir(tmp_path)) == ["a", "blocked"]
    assert (tmp_path / "a").read_text() == "old"


LINES = st.lists(st.sampled_from(["a", "b", "  c", "\td", "", "é", "“x”"]), max_size=12)


@given(LINES, LINES, st.integers(0, 12), st.integers(0, 4), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_hunk_changes_exactly_its_lines(
    lines: list[str], fresh: list[str], at: int, count: int, ending: str, last: bool
) -> None:
    """A hunk with all lines of the file as context has one place; the result is the list operation it describes."""
    lines = ["the start", *lines, "the end"]
    at = min(at, len(lines))
    gone = lines[at : at + count]
    body = [(" ", line) for line in lines[:at]] + [("-", line) for line in gone] + [("+", line) for line in fresh]
    body += [(" ", line) for line in lines[at + count :]]
    text = ending.join(lines) + (ending if last else "")
    wanted = [*lines[:at], *fresh, *lines[at + count :]]
    expected = ending.join(wanted) + (ending if last and wanted else "")
    if not last and wanted and wanted[-1] == "":
        return  # such a file does end with a line ending
    operation = Operation("update", "f", hunks=(Hunk((), tuple(body)),))
    assert patched(text, operation) == expected


@given(st.text(max_size=200))
def test_any_text_parses_or_says_why(text: str) -> None:
    for candidate in (text, f"*** Begin Patch\n{text}\n*** End Patch"):
        try:
            parse(candidate)
        except ToolError as problem:
            assert problem.cure


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), LINES.map(lambda lines: "\r\n".join(lines)), min_size=1, max_size=3),
    st.sampled_from(["missing line", "added twice", "gone already", "outside", "moved onto another"]),
)
def test_a_patch_with_one_bad_part_changes_nothing_at_all(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str], flaw: str
) -> None:
    ctx = context(tmp_path_factory.mktemp("patch"))
    for name, text in files.items():
        (ctx.workspace / name).write_bytes(f"first\r\n{text}".encode())
    (ctx.workspace / "there").write_text("x\n")
    good = "".join(f"*** Update File: {name}\n@@\n-first\n+changed\n" for name in files)
    bad = {
        "missing line": "*** Update File: there\n@@\n-nowhere to be found\n+x\n",
        "added twice": "*** Add File: there\n+y\n",
        "gone already": "*** Delete File: nothing\n",
        "outside": "*** Add File: ../outside\n+y\n",
        "moved onto another": "*** Update File: there\n*** Move to: a\n@@\n-x\n+y\n",
    }[flaw]
    if flaw == "moved onto another" and "a" not in files:
        return
    before = snapshot(ctx.workspace)
    asyncio.run(fail(TOOLS, "apply_patch", ctx, input=f"*** Begin Patch\n{good}{bad}*** End Patch"))
    assert snapshot(ctx.workspace) == before
    assert not (ctx.workspace.parent / "outside").exists()


async def test_a_failed_patch_leaves_no_folder_behind(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("x\n")
    text = patch("*** Add File: new/deep/a\n+1\n*** Update File: f\n@@\n-x\n+y\n*** Add File: f/inner/b\n+2")
    assert "nothing was changed" in await fail(TOOLS, "apply_patch", ctx, input=text)
    assert sorted(path.name for path in ctx.workspace.rglob("*")) == ["f"]
    assert (ctx.workspace / "f").read_text() == "x\n"


async def test_two_names_of_one_file_are_one_file(tmp_path: Path) -> None:
    """Each section is worked out from the file as it was: the second would undo the first."""
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("one\ntwo\n")
    (ctx.workspace / "link").symlink_to("f")
    text = patch("*** Update File: f\n@@\n-one\n+1\n*** Update File: link\n@@\n-two\n+2")
    assert "twice" in await fail(TOOLS, "apply_patch", ctx, input=text)
    assert (ctx.workspace / "f").read_text() == "one\ntwo\n"


@given(
    st.lists(st.sampled_from("ab"), max_size=12),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_runs_of_lines_are_found_wherever_they_stand(lines: list[str], wanted: list[str], start: int) -> None:
    plain = [at for at in range(start, len(lines) - len(wanted) + 1) if lines[at : at + len(wanted)] == wanted]
    assert list(occurrences(lines, wanted, start)) == plain


def test_a_file_of_equal_lines_takes_no_longer_than_another() -> None:
    """Looked for at each of a million places anew, three thousand lines would take minutes."""
    hunk = Hunk((), (*((" ", ""),) * 3_000, ("-", "x")))
    with pytest.raises(ToolError, match="does not fit"):
        patched("\n" * 300_000, Operation("update", "f", hunks=(hunk,)))


@pytest.mark.parametrize(
    "wrap",
    ["{}", "\n\n{}\n\n", "```\n{}\n```", "```patch\n{}\n```", "apply_patch <<'EOF'\n{}\nEOF", "<<PATCH\n{}\nPATCH\n"],
)
def test_what_models_wrap_a_patch_in(wrap: str) -> None:
    (operation,) = parse(wrap.format(patch("*** Add File: a\n+```\n+EOF")))
    assert operation.content == "```\nEOF\n"


LENIENT = {
    "an empty line before the end": ("a\nb\n", "*** Update File: f\n@@\n-a\n+A\n\n", "A\nb\n"),
    "two empty lines before the end": ("a\nb\n", "*** Update File: f\n@@\n-b\n+B\n\n\n", "a\nB\n"),
    "an empty line between hunks": ("a\nb\nc\n", "*** Update File: f\n@@\n-a\n+A\n\n@@\n-c\n+C", "A\nb\nC\n"),
    "an empty line that is context": ("a\n\nc\na\nd\n", "*** Update File: f\n@@\n-a\n+A\n\n@@\n-c\n+C", "A\n\nC\na\nd\n"),
    "an empty line after the head": ("a\n", "*** Update File: f\n\n@@\n-a\n+A", "A\n"),
    "empty lines after the end of the file": ("a\nb\n", "*** Update File: f\n@@\n-b\n+B\n*** End of File\n\n\n", "a\nB\n"),
    "empty lines between the end of the file and a hunk": ("a\nb\n", "*** Update File: f\n@@\n-a\n+A\n\n@@\n-b\n+B\n*** End of File\n", "A\nB\n"),
    "an indented head": ("a\n", "  *** Update File: f\n@@\n-a\n+A", "A\n"),
    "a head with blanks behind it": ("a\n", "*** Update File: f  \n@@\n-a\n+A", "A\n"),
    "an addition before another hunk": ("a\nb\n", "*** Update File: f\n@@\n+end\n@@\n-a\n+A", "A\nb\nend\n"),
    "two additions and a hunk": ("a\nb\n", "*** Update File: f\n@@\n+one\n@@\n-b\n+B\n@@\n+two", "a\nB\none\ntwo\n"),
    "lines that end in a carriage return": ("a\rb\rc\r", "*** Update File: f\n@@\n a\n-b\n+B\n+B2", "a\rB\rB2\rc\r"),
    "the same without one at the end": ("a\rb", "*** Update File: f\n@@\n-b\n+B", "a\rB"),
    "a hunk without marks": ("a\nb\n", "*** Update File: f\n-a\n+A", "A\nb\n"),
    "only deletions": ("a\nb\nc\n", "*** Update File: f\n@@\n a\n-b\n c", "a\nc\n"),
    "mixed line endings": ("a\r\nb\nc\r\n", "*** Update File: f\n@@\n-b\n+B", "a\r\nB\r\nc\r\n"),
    "blanks at the ends of lines": ("a  \nb\n", "*** Update File: f\n@@\n-a\n+A", "A\nb\n"),
    "curly quotes": ("say \u201chi\u201d\n", '*** Update File: f\n@@\n-say "hi"\n+say "ho"', 'say "ho"\n'),
}  # fmt: skip


@pytest.mark.parametrize(("before", "body", "after"), LENIENT.values(), ids=LENIENT)
def test_patches_that_are_not_quite_in_form_are_understood(before: str, body: str, after: str) -> None:
    (operation,) = parse(f"*** Begin Patch\n{body}\n*** End Patch\n")
    assert patched(before, operation) == after


def test_empty_lines_between_sections_are_no_part_of_them() -> None:
    operations = parse(
        "*** Begin Patch\n\n*** Add File: new\n+one\n\n  *** Delete File: old\n\n\n*** Update File: f\n@@\n-a\n+A\n\n*** Add File: x\n+y\n\n*** End Patch"
    )
    assert [(each.kind, each.path, each.content) for each in operations] == [
        *[("add", "new", "one\n"), ("delete", "old", ""), ("update", "f", ""), ("add", "x", "y\n")]
    ]


@pytest.mark.parametrize("body", ["*** Update File: f\n@@\n\n", "*** Update File: f\n\n", "*** Add File: f\none", "\n"])
def test_what_says_nothing_is_still_refused(body: str) -> None:
    with pytest.raises(ToolError):
        parse(f"*** Begin Patch\n{body}\n*** End Patch")
