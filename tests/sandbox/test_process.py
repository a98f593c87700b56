"""Real commands in real sandboxes; a backend that this machine lacks is skipped by name."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.sandbox.found import marked

from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled, ToolError
from homarus.sandbox.ownership import MARK, start_of
from homarus.sandbox.process import Exit, Order, available, run, start
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Access, Backend, Mount, SandboxSpec

BACKENDS = [
    pytest.param(
        backend,
        marks=() if available(backend) else pytest.mark.skip(f"{backend} does not work here (apt install bubblewrap)"),
    )
    for backend in (Backend.OFF, Backend.BWRAP, Backend.LANDLOCK)
]
ENFORCED = BACKENDS[1:]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def shell(spec: SandboxSpec, script: str, **more: object) -> Order:
    env = clean_environment(spec, os.environ, {})
    mark = os.urandom(6).hex()
    return Order(("/bin/sh", "-c", script), spec.workspace, env, mark, **more)  # type: ignore[arg-type]


async def result(spec: SandboxSpec, script: str, seconds: float = 20) -> tuple[str, Exit | None]:
    output, ended = await run(spec, shell(spec, script), limit=10_000, seconds=seconds, cancel=Cancel())
    return output.decode(), ended


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_command_runs_in_its_workspace(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace))
    assert await result(spec, "pwd; echo err >&2; echo x > made; exit 3") == (f"{workspace}\nerr\n", Exit(3))
    assert (workspace / "made").read_text() == "x\n"


@pytest.mark.parametrize("backend", ENFORCED)
async def test_what_is_not_shown_cannot_be_read_or_written(backend: Backend, workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    output, _ = await result(
        SandboxSpec(backend, str(workspace)), f"cat {secret}; echo x > {tmp_path}/out; cat /etc/shadow"
    )
    assert "hidden" not in output
    assert "root:" not in output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("backend", ENFORCED)
@pytest.mark.parametrize("access", [Access.RO, Access.NONE])
async def test_a_narrower_workspace(backend: Backend, access: Access, workspace: Path) -> None:
    (workspace / "note").write_text("text")
    output, _ = await result(
        SandboxSpec(backend, str(workspace), access), f"cat {workspace}/note; echo x > {workspace}/new"
    )
    assert ("text" in output) == (access is Access.RO)
    assert not (workspace / "new").exists()


@pytest.mark.parametrize("backend", ENFORCED)
async def test_a_mount_is_as_wide_as_it_says(backend: Backend, workspace: Path, tmp_path: Path) -> None:
    for name in ("shown", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    mounts = (Mount(str(tmp_path / "shown")), Mount(str(tmp_path / "open"), writable=True))
    spec = SandboxSpec(backend, str(workspace), mounts=mounts)
    output, _ = await result(spec, f"cd {tmp_path}; cat shown/f open/f; echo x > shown/g; echo x > open/g")
    assert output.startswith("shownopen")
    assert not (tmp_path / "shown" / "g").exists()
    assert (tmp_path / "open" / "g").exists()


@pytest.mark.parametrize("backend", ENFORCED)
async def test_there_is_no_network_unless_allowed(backend: Backend, workspace: Path) -> None:
    heard = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()
        heard.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    probe = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo through"
    async with server:
        for network in (False, True):
            spec = SandboxSpec(backend, str(workspace), network=network)
            order = shell(spec, f"exec bash -c '{probe}'")
            output, _ = await run(spec, order, limit=1000, seconds=20, cancel=Cancel())
            assert (b"through" in output) is network
        await heard.wait()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_of_our_environment_leaks_in(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace), env=("ALLOWED", "LD_PRELOAD"))
    outer = {"SECRET": "s3", "ALLOWED": "yes", "LD_PRELOAD": "/evil.so", "PATH": "/evil"}
    env = clean_environment(spec, outer, {"ADDED": "1", "PATH": "/worse", "BASH_ENV": "/x"})
    order = Order(("/usr/bin/env",), str(workspace), env, "m-env")
    output, _ = await run(spec, order, limit=5000, seconds=20, cancel=Cancel())
    text = output.decode()
    assert "s3" not in text
    assert "evil" not in text
    assert "worse" not in text
    assert "BASH_ENV" not in text
    assert {"ALLOWED=yes", "ADDED=1"} <= set(text.splitlines())


@pytest.mark.parametrize("backend", BACKENDS)
async def test_cancelling_leaves_no_process(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace))
    order = shell(spec, "setsid sh -c 'trap \"\" TERM; sleep 60' & trap '' TERM; sleep 60 & echo up; wait")
    cancel = Cancel()
    child = asyncio.ensure_future(run(spec, order, limit=100, seconds=60, cancel=cancel))
    while len(marked(order.mark)) < 3:
        await asyncio.sleep(0.02)
    before = time.monotonic()
    cancel.cancel("stop")
    with pytest.raises(Cancelled):
        await child
    assert time.monotonic() - before < 50, "it did not wait for the command"
    while marked(order.mark):
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_time_and_output_are_bounded(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace))
    output, ended = await run(spec, shell(spec, "yes"), limit=5000, seconds=0.5, cancel=Cancel())
    assert len(output) == 5000
    assert ended is None


@pytest.mark.parametrize("backend", BACKENDS)
async def test_input_and_a_terminal(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace))
    child = await start(spec, shell(spec, "read x; echo got $x", stdin=True))
    await child.write(b"hello\n", eof=True)
    assert b"".join([block async for block in child.output()]) == b"got hello\n"
    assert (await child.wait()).ok

    child = await start(spec, shell(spec, "test -t 1 && echo terminal", tty=True))
    child.resize(40, 100)
    assert b"terminal" in b"".join([block async for block in child.output()])
    assert (await child.wait()).ok


async def test_a_wrong_program_is_the_callers_mistake(workspace: Path) -> None:
    spec = SandboxSpec(Backend.OFF, str(workspace))
    for argv in ((), ("",), ("/no/such/program",), ("a\x00b",)):
        with pytest.raises(ToolError):
            await start(spec, Order(argv, str(workspace), {}, "m"))


@pytest.mark.parametrize("backend", BACKENDS)
async def test_no_variable_stands_on_a_command_line_that_others_can_see(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace))
    env = {**clean_environment(spec, {}, {}), "API_KEY": "k-very-secret", "LONG": "x" * 100_000}
    order = Order(("/bin/sh", "-c", 'echo "$API_KEY:${#LONG}"; read go'), str(workspace), env, "m-seen", stdin=True)
    child = await start(spec, order)
    try:
        output = b""
        async with asyncio.timeout(20):
            async for piece in child.output():
                output += piece
                if b"\n" in output:
                    break
        assert output.strip() == b"k-very-secret:100000"
        pids = [child.pid, *marked(order.mark)]
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids if Path(f"/proc/{pid}").exists()]
        assert lines
        assert not any(b"k-very-secret" in line for line in lines)
    finally:
        await child.kill()
        child.close()


async def test_the_same_mark_in_another_process_of_ours_is_not_swept(workspace: Path) -> None:
    spec = SandboxSpec(Backend.OFF, str(workspace))
    order = shell(spec, "read go", stdin=True)
    child = await start(spec, order)
    # Of a process that lives: what belongs to none is ended by whoever starts next.
    other = f"{os.getppid()}.{start_of(os.getppid())}"
    theirs = await asyncio.create_subprocess_exec("sleep", "60", env={MARK: f"{other}.{order.mark}"})
    try:
        await child.write(b"go\n", eof=True)
        await child.wait()
        await asyncio.sleep(0.05)
        assert theirs.returncode is None
    finally:
        theirs.kill()
        await theirs.wait()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_more_input_than_a_pipe_holds(backend: Backend, workspace: Path) -> None:
    spec = SandboxSpec(backend, str(workspace))
    child = await start(spec, shell(spec, "sleep 0.1; tr -d '\\n' | wc -c", stdin=True))
    await asyncio.gather(*(child.write(b"x" * 300_000) for _ in range(3)))
    await child.write(b"\n", eof=True)
    assert b"".join([block async for block in child.output()]).split() == [b"900000"]
    assert (await child.wait()).ok


async def test_input_that_nobody_reads_any_more(workspace: Path) -> None:
    """The command has ended, and what it left behind keeps its input open."""
    spec = SandboxSpec(Backend.OFF, str(workspace))
    child = await start(spec, shell(spec, "exec 3<&0; sleep 60 <&3 & sleep 0.1", stdin=True))
    async with asyncio.timeout(60):
        await child.write(b"x" * 1_000_000)
    assert not child.running
    await child.kill()
