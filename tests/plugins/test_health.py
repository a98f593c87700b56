"""Plugins inside the program that misbehave: contained as far as code in one process can be, and always named."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.test_plugins import health, house, locked, opened, plugin
from tests.scenarios.home import House, until
from tests.tools.context import context

from homarus.admin.doctor.finding import Home
from homarus.admin.doctor.home import check_plugins
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import HomarusError
from homarus.plugins.health import HealthBook, Strain

GIL = "import ctypes; ctypes.PyDLL(None).usleep(1_500_000); return 'done'"
LINUX = any(Path("/proc/self/task").glob("*/children"))
measured = pytest.mark.skipif(not LINUX, reason="needs Linux' /proc with the children of a process")


async def called(home: House, body: str, **more: Any) -> str:
    """Call the tool of a plugin inside the program, and return what the model reads."""
    locked(home, plugin(home.state, "p", body))
    plugins = opened(home, **more)
    try:
        (tool,) = await plugins.tools()
        output = await tool.run(context(home.folder), {})
        return "".join(part.text for part in output.parts)
    finally:
        await plugins.aclose()


def named(home: House, words: str) -> None:
    """See that the doctor says of the plugin what is wrong with it."""
    found = check_plugins(Home(load_config(resolve_paths(home.env), home.env), home.env, home.clock))
    assert len(found) == 1, found
    assert words in found[0].message
    assert "p" in found[0].message


@pytest.mark.parametrize("body", ["raise ValueError('oh')", "sys.exit('oh')", "raise KeyboardInterrupt('oh')"])
async def test_one_that_throws(body: str, tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    assert "the plugin p failed" in await called(home, body)
    named(home, "oh")


async def test_one_that_hangs(tmp_path: Path) -> None:
    home, flag = house(tmp_path, inProcess=True), tmp_path / "flag"
    body = f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)"
    try:
        assert "took too long" in await called(home, body, seconds=1.0)
    finally:
        flag.touch()
    named(home, "took too long")


async def test_one_that_floods(tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    assert len(await called(home, "return 'x' * 20_000_000")) < 1_001_000
    named(home, "it floods: an answer of 20000000 characters was cut")


async def test_one_that_starts_processes_without_end(tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    body = f"while True: subprocess.run([{sys.executable!r}, '-c', ''], check=True)"
    assert "at most 3 processes in a minute" in await called(home, body, starts=3)
    named(home, "at most 3 processes in a minute")
    subprocess.run([sys.executable, "-c", ""], check=True)  # what is not its code starts what it likes


BOMB = """
import asyncio, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.plugins.test_plugins import house, opened
from tests.tools.context import context

async def main():
    home = house(Path({folder!r}), inProcess=True)
    plugins = opened(home)
    (tool,) = await plugins.tools()
    await tool.run(context(home.folder), {{}})
    await plugins.aclose()

asyncio.run(main())
"""


def test_one_that_forks_copies_of_the_program_gets_no_further_than_its_children(tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    # Without a limit these are 64 processes, of which each says that it is there.
    body = f"""
    try:
        for _ in range(6):
            os.fork()
    finally:
        open(os.path.join({str(tmp_path)!r}, f"there-{{os.getpid()}}"), "w").close()
        if os.getppid() == START:
            os._exit(0)
    """
    folder = plugin(home.state, "p", body)
    (folder / "plugin.py").write_text("import os\nSTART = os.getpid()\n" + (folder / "plugin.py").read_text())
    locked(home, folder)
    code = BOMB.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, cwd=tmp_path)
    assert 2 <= len(list(tmp_path.glob("there-*"))) <= 7


def let_go(kept: Any) -> None:
    for each in kept if isinstance(kept, list) else ():
        if isinstance(each, subprocess.Popen):
            each.communicate(b"\n")
        else:
            each.close()


@measured
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sys.kept = b'x' * (60 << 20)", "MB of memory"),
        ("sys.kept = [open(__file__) for _ in range(60)]", "open files"),
        ("sys.kept = [subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1) for _ in range(3)]", "processes"),
    ],
)
async def test_one_that_leaks(body: str, told: str, tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    try:
        assert "None" in await called(home, body, growth=Strain(30 << 20, 30, 2))
    finally:
        let_go(vars(sys).pop("kept", None))
    named(home, "it leaks: after a call of it the program has ")
    assert told in health(home)["p"].last


async def test_one_that_keeps_every_thread_from_running_is_named_when_it_lets_go(tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    locked(home, plugin(home.state, "p", GIL))
    plugins = opened(home, stall=0.2)
    try:
        (tool,) = await plugins.tools()
        await asyncio.sleep(0)  # the thread that watches has begun
        while "held" not in str(list((resolve_paths(home.env).own_dir / "plugins").glob("held-*"))):
            await asyncio.sleep(0.01)
        for _ in range(3):  # whatever the machine does meanwhile
            await tool.run(context(tmp_path), {})
        await until(lambda: "p" in health(home))
    finally:
        await plugins.aclose()
    named(home, "it blocks the whole program (plugin.py, line ")


async def test_one_that_kept_every_thread_until_the_program_was_killed_runs_apart_after_that(tmp_path: Path) -> None:
    home = house(tmp_path, inProcess=True)
    folder = plugin(home.state, "p", code="raise SystemExit", tools=[], providers=["echo"])
    locked(home, folder)
    own = resolve_paths(home.env).own_dir / "plugins"
    # As the interpreter writes it; no process has this number.
    (own / "held-999999999.txt").write_text(
        f'Thread 0x1 (most recent call first):\n  File "{folder}/plugin.py", line 7 in act\n'
    )
    await opened(home).aclose()
    found = HealthBook(resolve_paths(home.env).own_dir).of("p")
    assert found.blocked
    assert "has blocked the whole program" in found.last
    assert not list(own.glob("held-*"))


def test_a_damaged_book_lets_nobody_back_inside_and_is_not_overwritten(tmp_path: Path):
    book = HealthBook(tmp_path)
    book.note("p", "it blocks", blocked=True)
    path = tmp_path / "plugins" / "health.json"
    for damaged in (path.read_bytes()[:-4], b"\xff\xfe", b"[]"):
        path.write_bytes(damaged)
        assert book.of("p").blocked
        assert str(path) in book.of("q").last
        with pytest.raises(HomarusError, match=re.escape(str(path))):
            book.read()
        book.note("q", "it throws")
        book.note("p", None)
        assert path.read_bytes() == damaged
    path.unlink()
    assert not book.of("p").blocked
