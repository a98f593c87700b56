"""The launcher that waits: it knows nothing, it is replaced when it dies, and it goes when nobody needs it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.core.errors import ToolError
from homarus.sandbox import landlock
from homarus.sandbox.process import Exit, Order, available, run, start
from homarus.sandbox.spec import Backend, SandboxSpec

pytestmark = pytest.mark.skipif(not available(Backend.LANDLOCK), reason="needs Landlock")
ENV = {"PATH": "/usr/bin:/bin", "API_KEY": "k-very-secret"}


async def result(folder: Path, script: str) -> tuple[str, Exit | None]:
    spec = SandboxSpec(Backend.LANDLOCK, str(folder))
    order = Order(("/bin/sh", "-c", script), str(folder), ENV, os.urandom(6).hex())
    output, ended = await run(spec, order, limit=9_999, seconds=20, cancel=Cancel())
    return output.decode(), ended


def alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


async def test_one_launcher_serves_many_commands_and_keeps_nothing(tmp_path: Path) -> None:
    assert await result(tmp_path, "echo $API_KEY") == ("k-very-secret\n", Exit(0))
    first = landlock._ready().pid
    outputs = await asyncio.gather(*(result(tmp_path, f"echo {n}; exit {n}") for n in range(20)))
    assert outputs == [(f"{n}\n", Exit(n)) for n in range(20)]
    assert landlock._ready().pid == first
    assert Path(f"/proc/{first}/environ").read_bytes() == b""
    kinds = {os.readlink(path).partition(":")[0] for path in Path(f"/proc/{first}/fd").iterdir()}
    assert kinds == {"/dev/null", "socket"}
    try:
        with Path(f"/proc/{first}/mem").open("rb") as file:
            for line in Path(f"/proc/{first}/maps").read_text().splitlines():
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                if " rw" in line:
                    file.seek(begin)
                    assert b"k-very-secret" not in file.read(end - begin)
    except PermissionError:
        pytest.skip("this machine does not show the memory of a process even to its parent")


async def test_a_command_is_our_child_and_gets_only_what_it_should(tmp_path: Path) -> None:
    text, _ = await result(tmp_path, "echo $PPID; for f in /proc/$$/fd/*; do readlink $f; done")
    parent, *open_files = text.split()
    assert int(parent) == os.getpid()
    assert sorted({name.partition(":")[0] for name in open_files}) == ["/dev/null", "pipe"]


async def test_signals_are_as_a_command_expects_them(tmp_path: Path) -> None:
    assert await result(tmp_path, "kill -KILL $$") == ("", Exit(None, signal.SIGKILL))
    assert await result(tmp_path, "kill -PIPE $$") == ("", Exit(None, signal.SIGPIPE))
    assert await result(tmp_path, "yes | head -n 1") == ("y\n", Exit(0))


async def test_what_cannot_be_run_says_so(tmp_path: Path) -> None:
    spec = SandboxSpec(Backend.LANDLOCK, str(tmp_path))
    (tmp_path / "text").write_text("no program")
    for program, code in (("no-such-program", 127), (str(tmp_path / "text"), 126)):
        order = Order((program, "", "a b"), str(tmp_path), ENV, os.urandom(6).hex())
        output, ended = await run(spec, order, limit=999, seconds=20, cancel=Cancel())
        assert ended == Exit(code) and output


async def test_words_cannot_add_to_an_order(tmp_path: Path) -> None:
    """Neither an argument nor a variable can open anything: they are told apart by what no text can hold."""
    spec = SandboxSpec(Backend.LANDLOCK, str(tmp_path))
    for env in ({"A": "x\0write=/"}, {"A\0write=/": "x"}):
        with pytest.raises(ToolError, match="NUL"):
            await start(spec, Order(("/bin/true",), str(tmp_path), env, "m"))
    odd = {**ENV, "A": "--", "B": "write=/\n--\nread=/", "C": ""}
    argv = ("/bin/sh", "-c", 'printf "%s|" "$A" "$B" "$C" "$@"; ls /root/', "--", "", "write=/", "--")
    order = Order(argv, str(tmp_path), odd, os.urandom(6).hex())
    output, _ = await run(spec, order, limit=999, seconds=20, cancel=Cancel())
    assert output.decode().startswith("--|write=/\n--\nread=/||" + "|write=/|--|")
    assert b"cannot" in output


async def test_a_launcher_that_was_killed_is_replaced(tmp_path: Path) -> None:
    await result(tmp_path, "true")
    first = landlock._ready().pid
    os.kill(first, signal.SIGKILL)
    assert await result(tmp_path, "echo on") == ("on\n", Exit(0))
    assert landlock._ready().pid != first and not alive(first)


async def test_a_launcher_without_work_is_let_go(tmp_path: Path) -> None:
    await result(tmp_path, "true")
    ready = landlock._ready()
    assert ready.idle is not None and not ready.idle.cancelled()
    assert ready.idle.when() - asyncio.get_running_loop().time() <= landlock.IDLE_SECONDS
    ready.idle._run()  # as the loop does when the time has come
    assert not alive(ready.pid)
    assert await result(tmp_path, "echo again") == ("again\n", Exit(0))


async def test_the_end_of_another_thread_ends_none_of_our_commands(tmp_path: Path) -> None:
    seen: list[int] = []

    def other() -> None:
        assert asyncio.run(result(tmp_path, "echo there")) == ("there\n", Exit(0))
        seen.append(landlock._ready().pid)

    here = asyncio.ensure_future(result(tmp_path, "sleep 0.5; echo here"))
    await asyncio.sleep(0.05)
    thread = threading.Thread(target=other)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert await here == ("here\n", Exit(0))
    assert seen[0] != landlock._ready().pid and not alive(seen[0])
