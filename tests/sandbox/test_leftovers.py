"""Nothing of a command stays: not after its end, not after a kill, and not after a kill of our own process and a new start."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.sandbox.found import marked

from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled, ToolError
from homarus.sandbox import cgroups, scratch
from homarus.sandbox.ownership import all_marked, is_orphan
from homarus.sandbox.process import Child, Exit, Order, available, end_orphans, run, start
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Backend, Limits, SandboxSpec

BACKENDS = [backend for backend in (Backend.OFF, Backend.BWRAP, Backend.LANDLOCK) if available(backend)]
needs_landlock = pytest.mark.skipif(not available(Backend.LANDLOCK), reason="needs Landlock")
# Something of every kind is left in the private folder.
MESS = 'mkdir -p "$HOME/a/b"; echo x > "$HOME/a/b/c"; ln -s /usr "$HOME/link"; '


def order(spec: SandboxSpec, script: str, **more: object) -> Order:
    env = clean_environment(spec, os.environ, {})
    return Order(("/bin/sh", "-c", script), spec.workspace, env, os.urandom(6).hex(), **more)  # type: ignore[arg-type]


async def told(child: Child) -> str:
    """Return the first line that a command prints."""
    text = b""
    async for block in child.output():
        text += block
        if b"\n" in text:
            break
    return text.decode().splitlines()[0]


async def gone(path: str) -> bool:
    """Say whether a folder goes; what was left in it is removed beside what is going on."""
    for _ in range(3000):
        if not os.path.exists(path):
            return True
        await asyncio.sleep(0.02)
    return False


def groups() -> list[str]:
    """Return the control groups of this process."""
    probe = cgroups.make("probe-" + os.urandom(4).hex(), Limits())
    if probe is None:
        return []
    base = Path(probe.entrances[0]).parent.parent
    probe.close()
    return [path.name for path in base.glob(f"homarus-{os.getpid()}.*")]


async def ends(child: Child) -> None:
    assert (await child.wait()).ok


async def is_killed(child: Child) -> None:
    await child.kill()


async def ends_by_itself_after_close(child: Child) -> None:
    child.close()
    while child.running:
        await asyncio.sleep(0.01)


async def is_killed_hard(child: Child) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    assert (await child.wait()) == Exit(None, signal.SIGKILL)


async def loses_its_kill(child: Child) -> None:
    """Whoever ends it is stopped in the middle."""
    killing = asyncio.ensure_future(child.kill())
    await asyncio.sleep(0)
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)


@needs_landlock
@pytest.mark.parametrize(
    ("way", "script"),
    [
        (ends, "true"),
        (is_killed, "sleep 60"),
        (is_killed, "trap '' TERM; while :; do sleep 1; done"),
        (is_killed_hard, "exec sleep 60"),
        (ends_by_itself_after_close, "true"),
        (loses_its_kill, "sleep 60"),
    ],
)
async def test_its_folder_goes_with_the_command(
    tmp_path: Path, way: Callable[[Child], Awaitable[None]], script: str
) -> None:
    spec = SandboxSpec(Backend.LANDLOCK, str(tmp_path))
    child = await start(spec, order(spec, f'{MESS} echo "$HOME"; {script}'))
    home = await told(child)
    assert home.startswith(f"{scratch.TOP}/{scratch.PREFIX}") and Path(home, "a/b/c").exists()
    assert os.stat(home).st_mode & 0o777 == 0o700
    await way(child)
    child.close()
    assert await gone(home)
    assert not marked(child._order.mark)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_command_that_nobody_holds_any_more_is_ended(tmp_path: Path, backend: Backend) -> None:
    spec = SandboxSpec(backend, str(tmp_path))
    child = await start(spec, order(spec, f'echo "$HOME"; {MESS if spec.enforced else ""} exec sleep 60'))
    home, pid = await told(child), child.pid
    del child
    gc.collect()
    while os.path.exists(f"/proc/{pid}"):
        await asyncio.sleep(0.02)
    assert backend is not Backend.LANDLOCK or await gone(home)


@needs_landlock
async def test_a_timeout_and_a_stop_leave_nothing(tmp_path: Path) -> None:
    spec = SandboxSpec(Backend.LANDLOCK, str(tmp_path))
    output, ended = await run(
        spec, order(spec, f'{MESS} echo "$HOME"; sleep 60'), limit=999, seconds=0.5, cancel=Cancel()
    )
    assert ended is None and await gone(output.decode().strip())

    cancel, wanted = Cancel(), order(spec, f'{MESS} echo "$HOME" > home; sleep 60')
    running = asyncio.ensure_future(run(spec, wanted, limit=999, seconds=60, cancel=cancel))
    while not (tmp_path / "home").exists() or not (tmp_path / "home").read_text():
        await asyncio.sleep(0.02)
    cancel.cancel("stop")
    with pytest.raises(Cancelled):
        await running
    assert await gone((tmp_path / "home").read_text().strip())


@needs_landlock
async def test_what_goes_on_keeps_its_folder_while_others_end(tmp_path: Path) -> None:
    spec = SandboxSpec(Backend.LANDLOCK, str(tmp_path))
    child = await start(spec, order(spec, 'echo x > "$HOME/x"; echo "$HOME"; read go; cat "$HOME/x"', stdin=True))
    home = await told(child)
    for _ in range(3):
        await run(spec, order(spec, "true"), limit=99, seconds=20, cancel=Cancel())
    scratch.sweep()
    end_orphans()
    assert Path(home, "x").exists()
    await child.write(b"go\n")
    assert [block async for block in child.output()] == [b"x\n"]
    assert (await child.wait()).ok and await gone(home)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_descriptors_and_groups_do_not_pile_up(tmp_path: Path, backend: Backend) -> None:
    spec = SandboxSpec(backend, str(tmp_path))

    async def several() -> int:
        for script in ("true", "exit 3", "sleep 60"):
            await run(spec, order(spec, script, stdin=True), limit=99, seconds=0.3, cancel=Cancel())
        with pytest.raises(ToolError):
            await start(spec, Order(("",), str(tmp_path), {}, "none"))
        with pytest.raises((ToolError, ValueError)):
            await start(spec, Order(("/bin/true",), str(tmp_path), {"A": "x\0write=/"}, "nul"))
        return len(os.listdir("/proc/self/fd"))

    before = await several()
    assert await several() <= before
    # The very last may still be going; it is removed by the next.
    assert len(groups()) <= 1


@needs_landlock
@pytest.mark.skipif(os.getuid() != 0, reason="only root has control groups here")
async def test_what_throws_its_mark_away_is_found_by_its_group(tmp_path: Path) -> None:
    if not groups() and cgroups.make("any", Limits()) is None:
        pytest.skip("groups cannot be made here")
    spec = SandboxSpec(Backend.LANDLOCK, str(tmp_path))
    await run(
        spec, order(spec, "env -i setsid sh -c 'echo $$ > pid; exec sleep 61' & until test -s pid; do sleep 0.02; done"), limit=99, seconds=20,
        cancel=Cancel(),
    )  # fmt: skip
    pid = int((tmp_path / "pid").read_text())
    for _ in range(3000):
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it goes on")


ENV = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
RUNTIME = """
import asyncio, sys
from homarus.sandbox.process import Order, start
from homarus.sandbox.spec import Backend, SandboxSpec
async def main():
    spec = SandboxSpec(Backend(sys.argv[1]), sys.argv[2])
    script = 'mkdir "$HOME/d"; setsid sleep 62 & echo "$HOME" > home.new; mv home.new home; sleep 62'
    child = await start(spec, Order(("/bin/sh", "-c", script), sys.argv[2], {"PATH": "/usr/bin:/bin"}, sys.argv[3]))
    await asyncio.sleep(60)
asyncio.run(main())
"""


def killed_runtime(folder: Path, backend: Backend) -> tuple[int, str, str]:
    """Run a process of ours that starts a command, kill it as `kill -9` does, and return its id, the mark and the folder."""
    mark = os.urandom(6).hex()
    process = subprocess.Popen(
        [sys.executable, "-c", RUNTIME, backend.value, str(folder), mark],
        env=ENV,
    )
    deadline = time.monotonic() + 30
    while not (folder / "home").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    return process.pid, mark, (folder / "home").read_text().strip()


def left(mark: str) -> list[int]:
    """Return the processes that carry a mark, whoever started them."""
    return [pid for pid, value in all_marked() if value.endswith(f".{mark}")]


def of(pid: int) -> list[str]:
    """Return the control groups of a process."""
    top = Path("/sys/fs/cgroup")
    # Groups of others come and go meanwhile; `os.walk` does not mind.
    return [
        f"{folder}/{name}" for folder, names, _ in os.walk(top) for name in names if name.startswith(f"homarus-{pid}.")
    ]


@needs_landlock
async def test_a_killed_runtime_and_a_new_start(tmp_path: Path) -> None:
    pid, mark, home = killed_runtime(tmp_path, Backend.LANDLOCK)
    end_orphans()
    assert await gone(home)  # another process of ours may have been faster, and be at it still
    while left(mark):
        await asyncio.sleep(0.02)
    for _ in range(1200):
        groups()  # what was not empty yet goes with the next
        if not of(pid):
            break
        await asyncio.sleep(0.05)
    assert of(pid) == []
    launchers = [path for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == pid]
    assert launchers == []


@needs_landlock
async def test_a_killed_runtime_and_the_first_command_of_the_next(tmp_path: Path) -> None:
    _, _, home = killed_runtime(tmp_path, Backend.LANDLOCK)
    # The next is a process of its own; it ends by itself and says when its command is through.
    code = RUNTIME.replace("sleep 62", "true").replace("await asyncio.sleep(60)", "await asyncio.sleep(0.5)")
    folder = tmp_path / "next"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", code, "landlock", str(folder), "next"], env=ENV, check=True)
    assert await gone(home)
    end_orphans()


@pytest.mark.skipif(Backend.BWRAP not in BACKENDS, reason="needs bubblewrap (apt install bubblewrap)")
async def test_bubblewrap_dies_with_the_runtime(tmp_path: Path) -> None:
    pid, mark, _ = killed_runtime(tmp_path, Backend.BWRAP)
    while left(mark):  # without anybody's help
        await asyncio.sleep(0.02)
    for _ in range(1200):
        end_orphans()
        groups()
        if not of(pid):
            break
        await asyncio.sleep(0.05)
    assert of(pid) == []


def _parent(path: Path) -> int:
    try:
        return int(path.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


DOCKER = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$1" in
  ps) cat "$(dirname "$0")/listed" ;;
  run) exec sleep 60 ;;
esac
"""


async def test_containers_of_a_killed_runtime_are_removed_by_the_next(tmp_path: Path) -> None:
    from homarus.sandbox import docker

    binary = tmp_path / "docker"
    binary.write_text(DOCKER)
    binary.chmod(0o755)
    spec = SandboxSpec(Backend.DOCKER, str(tmp_path), binary=str(binary), image="image")
    here = docker._owner()
    mine, elsewhere = here.rpartition(".")[2], "0-other-machine"
    (tmp_path / "listed").write_text(f"aa {here}\nbb 999999999.1.{mine}\ncc 999999999.1.{elsewhere}\ndd\n")
    for _ in range(2):
        child = await start(spec, Order(("true",), str(tmp_path), {}, "mark"))
        await child.kill()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line for line in calls if line.startswith(("ps", "rm"))] == [
        'ps --all --filter label=homarus.owner --format {{.ID}} {{.Label "homarus.owner"}}',
        "rm --force -- bb",
        "rm --force -- homarus-mark",
        "rm --force -- homarus-mark",
    ]
    assert all(f"--label homarus.owner={here}" in line for line in calls if line.startswith("run"))
    assert is_orphan(f"999999999.1.{mine}") and not is_orphan(here)
