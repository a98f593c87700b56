"""Links that are swapped while a call is judged and carried out, names that no disk can have, and notes that others look for."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calling import call, text_of
from tests.tools.context import context
from tests.tools.test_hostile import Place

from homarus.core.messages import Trust
from homarus.sandbox.spec import Backend, Mount, SandboxSpec
from homarus.tools.paths import Reach
from homarus.tools.search import search_tools
from homarus.tools.tool import Taint

TRIES = [pytest.param(15), pytest.param(500, marks=pytest.mark.deep)]
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def swapped(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names without a pause, as a command in the background can."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            _libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("folder", [False, True])
async def test_a_write_never_ends_where_a_link_leads(tmp_path: Path, tries: int, folder: bool) -> None:
    """The gate asks before `.git` is changed; the name that it saw was harmless."""
    place = Place(tmp_path)
    workspace = place.context.workspace
    git = workspace / ".git"
    git.mkdir()
    (git / "config").write_text("mine\n")
    plain, link = (workspace / "d", workspace / "l") if folder else (workspace / "x", workspace / "l")
    if folder:
        plain.mkdir()
        (plain / "config").write_text("old\n")
    else:
        plain.write_text("old\n")
    link.symlink_to(git if folder else git / "config")
    named = "d/config" if folder else "x"
    patch = f"*** Begin Patch\n*** Update File: {named}\n@@\n-old\n+evil\n*** End Patch"
    with swapped(plain, link):
        for number in range(tries):
            await place.call("write", path=named, content=f"evil {number}")
            await place.call("edit", path=named, oldText="mine", newText="evil")
            await place.call("apply_patch", input=patch.replace("old", "mine"))
            assert (git / "config").read_text() == "mine\n"


@pytest.mark.parametrize("tries", TRIES)
async def test_a_tainted_turn_deletes_nothing_behind_a_link(tmp_path: Path, tries: int) -> None:
    place = Place(tmp_path, taint=Taint(("web_fetch",)))
    workspace = place.context.workspace
    (workspace / "SOUL.md").write_text("me\n")
    for name in ("x", "l"):
        (workspace / name).unlink(missing_ok=True)
    (workspace / "l").symlink_to("SOUL.md")
    for _ in range(tries):
        (workspace / "x").write_text("me\n") if not os.path.lexists(workspace / "x") else None
        with swapped(workspace / "x", workspace / "l"):
            await place.call("apply_patch", input="*** Begin Patch\n*** Delete File: x\n*** End Patch")
        assert (workspace / "SOUL.md").read_text() == "me\n"
        if not (workspace / "l").is_symlink() and not (workspace / "x").is_symlink():
            (workspace / "l").unlink(missing_ok=True)
            (workspace / "l").symlink_to("SOUL.md")


@pytest.mark.parametrize("tries", TRIES)
async def test_what_was_opened_is_judged_and_not_its_name(tmp_path: Path, tries: int) -> None:
    place = Place(tmp_path, trust=Trust.EXTERNAL)
    workspace = place.context.workspace
    (workspace / "MEMORY.md").write_text("private\n")
    (workspace / "x").write_text("open\n")
    (workspace / "l").symlink_to("MEMORY.md")
    with swapped(workspace / "x", workspace / "l"):
        for _ in range(tries):
            assert "private" not in await place.call("read", path="x")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "a\ud800b"}), ("write", {"path": "\udfff", "content": "x"}), ("ls", {"path": "\ud800"}), ("grep", {"path": "\ud800", "pattern": "x"}),
        ("read", {"path": "x/" * 3000}), ("write", {"path": "y" * 300 + "/z", "content": "x"}), ("read", {"path": "loop/loop"}), ("write", {"path": "loop", "content": "x"}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: \ud800\n+x\n*** End Patch"}), ("exec", {"command": "ls", "workdir": "\ud800"}), ("image", {"image": "\ud800"}),
        ("read", {"path": "a\0b"}), ("exec", {"command": "ls \ud800"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("trust", list(Trust))
async def test_a_name_that_cannot_be_judged_is_refused(
    tmp_path: Path, tool: str, arguments: dict[str, Any], trust: Trust
) -> None:
    place = Place(tmp_path, trust=trust)
    (place.context.workspace / "loop").symlink_to("loop")
    text = await place.call(tool, **arguments)
    assert "unexpectedly" not in text
    assert not {"z", "\udfff"} & set(os.listdir(place.context.workspace))


@pytest.mark.parametrize("trust", [Trust.GROUP, Trust.EXTERNAL])
@pytest.mark.parametrize("path", ["", None, ".", " ", "@", "./", "./.", "loop", "sub/.."])
@pytest.mark.parametrize("tool", ["grep", "find"])
async def test_the_whole_workspace_is_not_searched_for_others(
    tmp_path: Path, trust: Trust, path: str | None, tool: str
) -> None:
    place = Place(tmp_path, trust=trust)
    (place.context.workspace / "MEMORY.md").write_text("private")
    (place.context.workspace / "sub").mkdir()
    (place.context.workspace / "loop").symlink_to(".")
    text = await place.call(tool, pattern="p*" if tool == "grep" else "*", **({} if path is None else {"path": path}))
    assert "private" not in text
    assert "MEMORY" not in text


@pytest.mark.parametrize("ripgrep", [None, ""])
@pytest.mark.parametrize("trust", list(Trust))
async def test_no_search_shows_the_notes_of_the_owner_to_others(
    tmp_path: Path, trust: Trust, ripgrep: str | None
) -> None:
    ctx = context(tmp_path, trust=trust)
    for name in ("p/MEMORY.md", "p/memory/day.md", "p/bank/x/y.md", "p/q/User.md", "p/open.md"):
        (ctx.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (ctx.workspace / name).write_text("word\n")
    tools = search_tools(Reach(), ripgrep=ripgrep)
    for tool, pattern in (("grep", "word"), ("find", "*.md")):
        text = text_of(await call(tools, tool, ctx, pattern=pattern, path="p"))
        assert "open.md" in text
        assert ("MEMORY.md" in text) is (trust in {Trust.OWNER, Trust.PAIRED})
        assert ("day.md" in text or "y.md" in text or "User.md" in text) is (trust in {Trust.OWNER, Trust.PAIRED})


@pytest.mark.parametrize("name", [".git/config", ".git/hooks/pre-commit", "sub/.git/config", "AGENTS.md", "sub/SOUL.md", "hooks/x/handler.py"])  # fmt: skip
async def test_a_bind_has_the_protections_of_the_workspace(tmp_path: Path, name: str) -> None:
    bind = tmp_path / "bind"
    (bind / "sub" / ".git").mkdir(parents=True)
    (bind / ".git").mkdir()
    spec = SandboxSpec(Backend.BWRAP, str(tmp_path / "ws"), mounts=(Mount(str(bind), True),))
    place = Place(tmp_path, sandbox=spec, taint=Taint(("web_fetch",)))
    assert (await place.call("write", path=str(bind / name), content="evil")).startswith("Denied")
    assert len(place.owner.asked) == 1
    assert not (bind / name).exists()
    assert not (await place.call("write", path=str(bind / "fine"), content="x")).startswith("Denied")
