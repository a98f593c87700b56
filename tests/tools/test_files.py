"""read, write and ls: good, bad and hostile calls, and limits that hold whatever the size."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.calling import call, fail, say, text_of
from tests.tools.context import context

from homarus.sandbox.spec import Access, Backend, Mount, SandboxSpec
from homarus.tools.files import MAX_BYTES, file_tools
from homarus.tools.paths import Reach
from homarus.tools.tool import ToolContext

TOOLS = file_tools(Reach())
STRICT = file_tools(Reach(workspace_only=True))


@pytest.fixture
def place(tmp_path: Path) -> ToolContext:
    ctx = context(tmp_path)
    ws = ctx.workspace
    (ws / "f").write_text("one\ntwo\nthree\n")
    (ws / "dir").mkdir()
    (ws / "empty").touch()
    (tmp_path / "secret").write_text("hidden")
    (ws / "out").symlink_to(tmp_path / "secret")
    (ws / "dirout").symlink_to(tmp_path)
    (ws / "in").symlink_to("f")
    os.mkfifo(ws / "pipe")
    return ctx


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "f"}, "one\ntwo\nthree"),
        ({"file_path": "@f", "limit": "1"}, "one\n\n[lines 1-1; go on with offset=2]"),
        ({"path": "f", "offset": 3}, "three"),
        ({"path": "in"}, "one\ntwo\nthree"),
        ({"path": "./dir/../f", "offset": 2, "limit": 1}, "two\n\n[lines 2-2; go on with offset=3]"),
    ],
)
async def test_read(place: ToolContext, arguments: dict[str, object], expected: str) -> None:
    assert await say(TOOLS, "read", place, **arguments) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read", {}, "'path' is missing"),
        ("read", {"path": ""}, "empty"),
        ("read", {"path": "a\x00b"}, "NUL"),
        ("read", {"path": "nowhere"}, "does not exist"),
        ("read", {"path": "dir"}, "use ls"),
        ("read", {"path": "pipe"}, "not a regular file"),
        ("read", {"path": "f", "offset": 9}, "has 3 lines"),
        ("read", {"path": "f", "offset": 0}, "at least 1"),
        ("read", {"path": "out"}, "leads out"),
        ("read", {"path": "dirout/secret"}, "leads out"),
        ("read", {"path": "../secret"}, "outside"),
        ("read", {"path": "/etc/passwd"}, "outside"),
        ("read", {"path": "/proc/self/environ"}, "outside"),
        ("read", {"path": "dir/../../secret"}, "outside"),
        ("read", {"path": "f/../../secret"}, "outside"),
        ("read", {"path": "~/.ssh/id_rsa"}, "outside|does not exist"),
        ("read", {"path": "\ud800"}, "half a character"),
        ("read", {"path": "x" * 5000}, "long"),
        ("write", {"path": "out", "content": "x"}, "link is not followed"),
        ("write", {"path": "dirout/new", "content": "x"}, "link is not followed"),
        ("write", {"path": "../new", "content": "x"}, "outside"),
        ("write", {"path": "pipe", "content": "x"}, "regular|FIFO|pipe"),
        ("write", {"path": "dir", "content": "x"}, "folder|directory"),
        ("write", {"path": "f/sub", "content": "x"}, "folder|directory"),
        ("write", {"path": ".", "content": "x"}, "folder"),
        ("write", {"path": "big", "content": "x" * (9 << 20)}, "more than"),
        ("write", {"path": "f"}, "'content' is missing"),
        ("write", {"path": "made/in/vain/" + "x" * 300, "content": "x"}, "long"),
        ("write", {"path": "f", "content": {"a": 1}}, "'content' must be a text"),
        ("write", {"path": ["f"], "content": "x"}, "'path' must be a text"),
        ("ls", {"path": "f"}, "ls needs a folder"),
        ("ls", {"path": "dirout"}, "leads out"),
        ("ls", {"path": "/"}, "outside"),
        ("ls", {"path": "nowhere"}, "ls needs a folder"),
    ],
)
async def test_bad_and_hostile_calls(
    place: ToolContext, name: str, arguments: dict[str, object], expected: str
) -> None:
    text = await fail(STRICT, name, place, **arguments)
    assert any(part in text for part in expected.split("|")), text
    assert (place.workspace.parent / "secret").read_text() == "hidden"
    assert not (place.workspace.parent / "new").exists()
    assert not (place.workspace / "made").exists()


async def test_write_makes_folders_and_says_when_nothing_changed(place: ToolContext) -> None:
    assert "Created" in await say(TOOLS, "write", place, path="a/b/c.md", content="é\n")
    assert (place.workspace / "a/b/c.md").read_bytes() == "é\n".encode()
    result = await call(TOOLS, "write", place, path="a/b/c.md", content="é\n")
    assert "already has" in text_of(result)
    assert result.details == {"changed": False, "bytes": 3}


async def test_ls(place: ToolContext) -> None:
    assert await say(TOOLS, "ls", place) == "dir/\ndirout\nempty\nf\nin\nout\npipe"
    assert "2 of more" in await say(TOOLS, "ls", place, limit=2)
    assert "is empty" in await say(TOOLS, "ls", place, path="dir")


@pytest.mark.parametrize("access", [Access.RO, Access.NONE])
async def test_file_tools_see_what_commands_see(place: ToolContext, tmp_path: Path, access: Access) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "g").write_text("mounted")
    spec = SandboxSpec(Backend.BWRAP, str(place.workspace), access, mounts=(Mount(str(tmp_path / "shown")),))
    ctx = context(tmp_path, sandbox=spec)
    assert await say(TOOLS, "read", ctx, path=str(tmp_path / "shown" / "g")) == "mounted"
    assert "only be read" in await fail(TOOLS, "write", ctx, path=str(tmp_path / "shown" / "h"), content="x")
    assert "outside" in await fail(TOOLS, "read", ctx, path=str(tmp_path / "secret"))
    if access is Access.RO:
        assert await say(TOOLS, "read", ctx, path="f")
        assert "only be read" in await fail(TOOLS, "write", ctx, path="f", content="x")
    else:
        assert "outside" in await fail(TOOLS, "read", ctx, path="f")


async def test_a_file_of_three_gigabytes(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    path = ctx.workspace / "huge"
    with path.open("wb") as file:
        file.write(b"first\nsecond\n")
        file.truncate(3 << 30)
    text = await say(TOOLS, "read", ctx, path="huge")
    assert text.startswith("first\nsecond")
    assert len(text) < MAX_BYTES + 100
    assert "alone is longer" in await fail(TOOLS, "read", ctx, path="huge", offset=3)
    assert "first 64 MB" in await fail(TOOLS, "read", ctx, path="huge", offset=4)


def expected_lines(data: bytes, offset: int, limit: int) -> tuple[str, bool] | str:
    """What `read` shows of a file and whether it says that there is more, or a word of why it shows nothing."""
    lines = data.split(b"\n")
    whole, last = [line + b"\n" for line in lines[:-1]], lines[-1]
    rest = [*whole, *([last] if last else [])][offset - 1 :]
    shown: list[bytes] = []
    while rest and len(shown) < limit and len(b"".join(shown)) + len(rest[0]) <= MAX_BYTES:
        shown.append(rest.pop(0))
    if not shown:
        return "longer than" if rest else "there is no line" if offset > 1 else "is empty"
    return b"".join(shown).removesuffix(b"\n").decode(), bool(rest)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 40, 9_000, 51_199, 51_200, 65_535, 70_000]), max_size=9),
    st.booleans(),
    st.integers(1, 8),
    st.integers(1, 5),
)
async def test_the_lines_that_are_shown_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], closed: bool, offset: int, limit: int
) -> None:
    ctx = context(tmp_path_factory.mktemp("home"))
    data = b"\n".join(bytes([97 + place]) * length for place, length in enumerate(lengths)) + b"\n" * closed
    (ctx.workspace / "lines").write_bytes(data)
    result = await call(TOOLS, "read", ctx, path="lines", offset=offset, limit=limit)
    found, _, note = text_of(result).partition("\n\n[lines ")
    expected = expected_lines(data, offset, limit)
    if isinstance(expected, str):
        assert expected in found
    else:
        assert (found, bool(note)) == expected


@pytest.mark.parametrize(
    ("data", "shown"), [(b"a\r\nb\r\n", "a\nb"), (b"a\r\nb\r", "a\nb\r"), (b"a\r\r\nb", "a\nb"), (b"\xff\n", "\ufffd")]
)
async def test_lines_of_other_systems(tmp_path: Path, data: bytes, shown: str) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "lines").write_bytes(data)
    assert await say(TOOLS, "read", ctx, path="lines") == shown


async def test_many_short_lines_are_cut_between_lines(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "f").write_text("".join(f"line {number}\n" for number in range(10_000)))
    text = await say(TOOLS, "read", ctx, path="f")
    assert text.endswith("line 1999\n\n[lines 1-2000; go on with offset=2001]")


@pytest.mark.parametrize("count", [3_000, pytest.param(1_000_000, marks=pytest.mark.deep)])
async def test_a_folder_of_many_entries(tmp_path: Path, count: int) -> None:
    ctx = context(tmp_path)
    folder = ctx.workspace / "many"
    folder.mkdir()
    first = folder / "000000"
    first.touch()
    for number in range(1, count):
        os.link(first, folder / f"{number:06}") if number % 30_000 else (folder / f"{number:06}").touch()
        if number % 30_000 == 0:
            first = folder / f"{number:06}"
    text = await say(TOOLS, "ls", ctx, path="many")
    assert text.startswith("000000\n000001\n")
    assert "500 of more entries" in text
    assert text.count("\n") == 501


async def test_a_link_that_is_swapped_all_the_time_never_leads_out(tmp_path: Path) -> None:
    """A link that points inside and outside in turn while files behind it are read and written."""
    import threading

    ctx = context(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("hidden")
    (ctx.workspace / "real").mkdir()
    (ctx.workspace / "real" / "f").write_text("fine")
    link, spare = ctx.workspace / "d", ctx.workspace / "spare"
    link.symlink_to("real")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in (str(outside), "real"):
                spare.symlink_to(target)
                spare.replace(link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            result = await call(STRICT, "read", ctx, path="d/f")
            assert "hidden" not in text_of(result)
            await call(STRICT, "write", ctx, path="d/g", content="x")
    finally:
        stop.set()
        thread.join()
    assert os.listdir(outside) == ["f"]


async def test_names_that_look_like_others(place: ToolContext) -> None:
    (place.workspace / "dir" / "a\nb").touch()
    (place.workspace / "dir" / "c\x1b[2K").touch()
    assert await say(TOOLS, "ls", place, path="dir") == "a\\nb\nc\\x1b[2K"
