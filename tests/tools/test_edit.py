"""edit: exactly the passage that was asked for changes, byte for byte."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.tools.calling import fail, say
from tests.tools.context import context

from homarus.core.errors import ToolError
from homarus.tools.edit import edit_tool
from homarus.tools.paths import Reach
from homarus.tools.textedit import Edit, apply, compare, loose, unbroken

TOOLS = [edit_tool(Reach())]
WORDS = st.lists(
    st.sampled_from(["a", "b", "ab", " ", "  ", "\t", "x=1", "\u201cq\u201d", "\u2014", "é", "ﬁ", "\x00"]), max_size=6
)
LINE = WORDS.map("".join)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("one\ntwo\n", "two", "2", "one\n2\n"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", "1\r\n2\r\n3\r\n"),
        ("\ufeffone\n", "one", "1", "\ufeff1\n"),
        ("\ufeffone\n", "\ufeffone", "1", "\ufeff1\n"),
        ("\tif x:\n\t\treturn", "\t\treturn", "\t\tpass", "\tif x:\n\t\tpass"),
        ("end", "end", "end\nmore", "end\nmore"),
        ("say \u201chi\u201d \u2014 now\n", 'say "hi" - now', "quiet", "quiet\n"),
        ("a  \nb\nc\n", "a\nb", "a\nB", "a  \nB\nc\n"),
        ("nb\u00a0sp\n", "nb sp", "x", "x\n"),
        ("e\u0301t\u00e9\n", "\u00e9t\u00e9", "x", "x\n"),
        ("mix\r\nkeep\nb\r\n", "keep", "k\nl", "mix\r\nk\nl\nb\r\n"),
    ],
)
async def test_what_is_asked_changes_and_nothing_else(
    tmp_path: Path, before: str, old: str, new: str, after: str
) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_bytes(before.encode())
    await say(TOOLS, "edit", ctx, path="f", oldText=old, newText=new)
    assert (ctx.workspace / "f").read_bytes() == after.encode()


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("a\nb\nc\n", "a\nB\nc\nd\n", "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d"),
        ("a\n\n", "b\n\n", "@@ -1,2 +1,2 @@\n-a\n+b\n "),
        ("", "a\n", "@@ -0,0 +1 @@\n+a"),
        ("a", "a\n", "@@ -1 +1,2 @@\n a\n+"),
        ("a\n", "a\n", ""),
    ],
)
def test_a_difference_counts_the_lines_of_the_file_and_no_other(old: str, new: str, diff: str) -> None:
    assert compare(old, new).diff == diff


async def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_bytes(b"\xff\xfe raw\nname = 1\n\x80")
    await say(TOOLS, "edit", ctx, path="f", oldText="name = 1", newText="name = 2")
    assert (ctx.workspace / "f").read_bytes() == b"\xff\xfe raw\nname = 2\n\x80"


async def test_several_edits_are_found_in_the_text_as_it_was(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("a\nb\nc\n")
    edits = [{"oldText": "a", "newText": "b2"}, {"old_string": "b\n", "new_string": "a\n"}]
    text = await say(TOOLS, "edit", ctx, file_path="f", edits=edits)
    assert (ctx.workspace / "f").read_text() == "b2\na\nc\n"
    assert "first at line 1" in text
    assert "+b2" in text
    assert "-b" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"oldText": "zz", "newText": "y"}, "does not occur"),
        ({"oldText": "a", "newText": "y"}, "occurs 3 times"),
        ({"oldText": "", "newText": "y"}, "is empty"),
        ({"oldText": "b", "newText": "b"}, "the same"),
        ({"oldText": "b"}, "needs oldText and newText"),
        ({}, "nothing to change"),
        ({"oldText": "b", "newText": "c", "edits": [{"oldText": "b", "newText": "c"}]}, "not both"),
        ({"edits": [{"oldText": "a b", "newText": "1"}, {"oldText": "b a", "newText": "2"}]}, "overlap"),
        ({"edits": [{"oldText": "b", "newText": 5}]}, "must be a text"),
        ({"oldText": "b", "newText": "\ud800"}, "half a character"),
        ({"path": "missing", "oldText": "b", "newText": "c"}, "does not exist"),
        ({"path": "folder", "oldText": "b", "newText": "c"}, "folder"),
        ({"path": "out", "oldText": "root", "newText": "c"}, "link leads out"),
        (
            {"path": "../../../etc/passwd", "oldText": "root", "newText": "c"},
            "does not occur|occurs|refused|outside|root",
        ),
    ],
)
async def test_a_call_that_cannot_be_done_changes_nothing(
    tmp_path: Path, arguments: dict[str, object], expected: str
) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("a b a a\n")
    (ctx.workspace / "folder").mkdir()
    (ctx.workspace / "out").symlink_to("/etc/passwd")
    text = await fail([edit_tool(Reach(workspace_only=True))], "edit", ctx, **{"path": "f", **arguments})
    assert any(part in text for part in expected.split("|"))
    assert (ctx.workspace / "f").read_text() == "a b a a\n"


@given(LINE, LINE, LINE, LINE, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_everything_around_a_unique_passage_stays(
    head: str, old: str, new: str, tail: str, ending: str, bom: bool, last: bool
) -> None:
    old = f"<{old}\n{old}>"
    assume(old != new)
    mark = "\ufeff" if bom else ""
    tail += "\n" if last else ""
    before = mark + (head + "\n" + old + tail).replace("\n", ending)
    after = mark + (head + "\n" + new + tail).replace("\n", ending)
    assert apply(before, [Edit(old, new)], "f") == after


@given(
    st.text(alphabet="ab \n\r\t\u201c\u00e9", max_size=40),
    st.text(alphabet="ab \n", min_size=1, max_size=4),
    st.text("abX\n", max_size=5),
)
def test_an_edit_either_fails_or_keeps_what_is_before_and_after_it(text: str, old: str, new: str) -> None:
    try:
        changed = apply(text, [Edit(old, new)], "f")
    except ToolError:
        return
    if text.count(old) == 1 and "\r" not in text:
        assert changed == text.replace(old, new)
    assert changed != text
    assert changed.count("X") - text.count("X") in {0, new.count("X")}


ENDINGS = st.sampled_from(["\n", "\r\n"])
BODIES = st.sampled_from(
    ["", "plain", "\tindented\t", "  spaces  ", "é combined e\u0301", "“quoted” – dash", "a\u00a0b", "\x0c"]
)


@given(
    st.lists(st.tuples(BODIES, ENDINGS), max_size=8),
    st.lists(st.tuples(BODIES, ENDINGS), max_size=8),
    st.sampled_from(["new", "", "two\nlines", "tab\there"]),
    ENDINGS,
    st.booleans(),
    st.booleans(),
)
def test_files_of_mixed_endings_keep_every_byte_around_an_edit(
    before: list[tuple[str, str]], after: list[tuple[str, str]], new: str, own: str, bom: bool, last: bool
) -> None:
    head = ("\ufeff" if bom else "") + "".join(body + ending for body, ending in before)
    tail = "".join(ending + body for body, ending in after) + (own if last else "")
    changed = apply(f"{head}<only here>{tail}", [Edit("<only here>", new)], "f")
    assert changed.startswith(head)
    assert changed.endswith(tail)
    middle = changed[len(head) : len(changed) - len(tail)] if tail else changed[len(head) :]
    assert middle.replace("\r\n", "\n") == new


@given(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=2, max_size=6), st.permutations(range(6)))
def test_several_edits_are_one_change_whatever_their_order(words: list[str], order: list[int]) -> None:
    text = "".join(f"<{word}>\n" for word in words)
    edits = [Edit(f"<{word}>", f"[{word}{word}]") for word in words]
    shuffled = [edits[at] for at in order if at < len(edits)]
    assert apply(text, shuffled, "f") == "".join(f"[{word}{word}]\n" for word in words)


async def test_an_empty_file_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "empty").touch()
    (ctx.workspace / "closed").write_text("b")
    (ctx.workspace / "closed").chmod(0)
    assert "does not occur" in await fail([edit_tool(Reach())], "edit", ctx, path="empty", oldText="b", newText="c")
    if os.getuid():
        await fail([edit_tool(Reach())], "edit", ctx, path="closed", oldText="b", newText="c")
        (ctx.workspace / "closed").chmod(0o600)
        assert (ctx.workspace / "closed").read_text() == "b"
    assert (ctx.workspace / "empty").read_bytes() == b""


def view_of(text: str) -> tuple[str, list[int], list[int]]:
    """The slow way to read a text as a reader sees it, one character after the other."""
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "\r" and text[end : end + 1] == "\n":
            form, end = "\n", end + 1
        elif text[at] == "\n":
            form = "\n"
        else:
            while end < len(text) and unicodedata.combining(text[end]):
                end += 1
            form = unicodedata.normalize("NFKC", text[at:end].translate(PLAIN)).translate(PLAIN)
        while form == "\n" and chars and chars[-1] in " \t":
            for row in (chars, starts, ends):
                row.pop()
        chars.extend(form)
        starts.extend([at] * len(form))
        ends.extend([end] * len(form))
        at = end
    return "".join(chars), starts, ends


PLAIN = str.maketrans({"\u201c": '"', "\u2014": "-", "\u00a0": " ", "\u3000": " "})
ODD = st.sampled_from(
    [
        "a",
        "b",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "é",
        "e\u0301",
        "\u0301",
        "\u201c",
        "\u2014",
        "\u00a0",
        "ﬁ",
        "①",
        "\udc80",
        "\u3000",
    ]
)


@given(st.lists(ODD, max_size=10).map("".join))
def test_lines_that_are_read_quickly_are_read_alike(text: str) -> None:
    seen = loose(text)
    assert (seen.text, list(seen.starts), list(seen.ends)) == view_of(text)
    seen = unbroken(text)
    assert seen.text == text.replace("\r\n", "\n")
    assert [text[one:other].replace("\r\n", "\n") for one, other in zip(seen.starts, seen.ends, strict=True)] == list(
        seen.text
    )


async def test_a_passage_that_is_not_in_a_large_file(tmp_path: Path) -> None:
    """Eight megabytes are looked through in three readings, a hundred times: once would take half a minute and a gigabyte."""
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_bytes("some words in a line — of many\r\n".encode() * 8_000)
    edits = [{"oldText": f"not there {number}", "newText": "x"} for number in range(100)]
    assert "does not occur" in await fail(TOOLS, "edit", ctx, path="f", edits=edits)


@pytest.mark.parametrize(
    "names", [("old_str", "new_str"), ("old_string", "new_string"), ("old_text", "new_text"), ("oldText", "newText")]
)
async def test_what_other_schools_call_the_arguments(tmp_path: Path, names: tuple[str, str]) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("a\n")
    await say(TOOLS, "edit", ctx, file_path="f", **{names[0]: "a", names[1]: "b"})
    await say(TOOLS, "edit", ctx, filename="f", edits=[{names[0]: "b", names[1]: "c"}])
    assert (ctx.workspace / "f").read_text() == "c\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("one\ntwo\n", "one  ", "ONE  ", "ONE\ntwo\n"),
        ("one\ntwo\n", "one\ntwo\t", "one\nTWO", "one\nTWO\n"),
        ("one  \ntwo\n", "one\ntwo", "1\n2", "1\n2\n"),
        ("one  two\n", "one  ", "1 ", "1 two\n"),
    ],
)
def test_blanks_at_the_end_of_a_passage_need_not_be_in_the_file(before: str, old: str, new: str, after: str) -> None:
    assert apply(before, [Edit(old, new)], "f") == after
