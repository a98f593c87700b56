"""exec and process against real commands, with a sandbox and without."""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.sandbox.found import marked
from tests.tools.calling import call, fail, say, text_of
from tests.tools.context import context

from homarus.core.cancel import Cancel
from homarus.core.clock import SystemClock, SystemIds
from homarus.core.errors import Denied
from homarus.core.routes import SessionKind, named_session
from homarus.sandbox.claims import Claim, Claims
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend, Limits, SandboxSpec
from homarus.tools.exec import exec_tools
from homarus.tools.processes import MAX_OUTPUT, Ended, ProcessManager, ProcessSettings
from homarus.tools.tool import Taint, Tool, ToolContext

BACKENDS = [
    pytest.param(
        backend,
        marks=() if available(backend) else pytest.mark.skip(f"{backend} does not work here (apt install bubblewrap)"),
    )
    for backend in (Backend.OFF, Backend.BWRAP, Backend.LANDLOCK)
]


# Seconds that no other test run on this machine sleeps.
MINE = f"0{os.getpid()}"


class AnyGrant:
    def take(self, call_id: str, digest: str) -> Claim:
        return Claim()

    def drop(self, call_id: str) -> None:
        return None


class NoGrant:
    def take(self, call_id: str, digest: str) -> Claim:
        raise Denied("nobody approved this")

    def drop(self, call_id: str) -> None:
        return None


class Bench:
    """Tools, the manager behind them, and what it announced."""

    def __init__(self) -> None:
        self.told: list[Ended] = []
        self.manager = ProcessManager(SystemClock(), SystemIds(), notify=self.told.append)
        self.tools: list[Tool] = exec_tools(self.manager, AnyGrant(), os.environ)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.manager.aclose()


def at(folder: Path, backend: Backend = Backend.OFF, **changes: object) -> ToolContext:
    (folder / "ws").mkdir(exist_ok=True)
    return context(
        folder, sandbox=SandboxSpec(backend, str(folder / "ws")), ids=SystemIds(), clock=SystemClock(), **changes
    )


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_command_and_its_result(bench: Bench, tmp_path: Path, backend: Backend) -> None:
    ctx = at(tmp_path, backend)
    result = await call(bench.tools, "bash", ctx, cmd="echo out; echo err >&2; exit 3")
    assert text_of(result) == "out\nerr\n(Command exited with code 3)"
    assert not result.is_error
    details = result.details or {}
    assert (details["status"], details["exitCode"], details["sandbox"]) == ("failed", 3, backend.value)
    assert await say(bench.tools, "exec", ctx, command="true") == "(no output)"
    assert await say(bench.tools, "exec", ctx, command="echo $X", env={"X": "1"}) == "1"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("exec", {}, "'command' is missing"),
        ("exec", {"command": " "}, "empty"),
        ("exec", {"command": "a\x00b"}, "NUL"),
        ("exec", {"command": "ls", "workdir": "nowhere"}, "no folder"),
        ("exec", {"command": "ls", "env": {"PATH": "/tmp"}}, "cannot be set"),
        ("exec", {"command": "ls", "env": {"LD_PRELOAD": "/tmp/x.so"}}, "cannot be set"),
        ("exec", {"command": "ls", "env": {"X": 5}}, "needs a text"),
        ("exec", {"command": "ls", "timeout": -1}, "at least 0"),
        ("exec", {"command": "nosuchprogram"}, "no program"),
        ("exec", {"command": "./nosuch"}, "cannot run"),
        ("exec", {"command": "ls", "host": "sandbox"}, "no sandbox"),
        ("exec", {"command": "ls", "host": "moon"}, "must be one of"),
        ("process", {}, "'action' is missing"),
        ("process", {"action": "poll"}, "needs sessionId"),
        ("process", {"action": "poll", "sessionId": "zz"}, "no command 'zz'"),
        ("process", {"action": "dance", "sessionId": "zz"}, "must be one of"),
    ],
)
async def test_bad_calls(bench: Bench, tmp_path: Path, name: str, arguments: dict[str, object], expected: str) -> None:
    assert expected in await fail(bench.tools, name, at(tmp_path), **arguments)


@pytest.mark.parametrize("backend", BACKENDS[1:])
async def test_the_folder_of_a_sandboxed_command_must_be_visible(
    bench: Bench, tmp_path: Path, backend: Backend
) -> None:
    assert "not in the sandbox" in await fail(bench.tools, "exec", at(tmp_path, backend), command="ls", workdir="/etc")


async def test_a_host_command_needs_its_grant(tmp_path: Path) -> None:
    manager = ProcessManager(SystemClock(), SystemIds())
    tools = exec_tools(manager, NoGrant(), {})
    assert "nobody approved" in await fail(tools, "exec", at(tmp_path), command="touch made")
    assert not (tmp_path / "ws" / "made").exists()
    if available(Backend.BWRAP):
        ctx = at(tmp_path, Backend.BWRAP)
        assert await say(tools, "exec", ctx, command="echo in") == "in"
        assert "nobody approved" in await fail(tools, "exec", ctx, command="echo out", host="host")
    await manager.aclose()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_command_that_goes_on(bench: Bench, tmp_path: Path, backend: Backend) -> None:
    ctx = at(tmp_path, backend)
    result = await call(
        bench.tools, "exec", ctx, command="sh -c 'echo ready; read x; echo got $x; read y'", background=True
    )
    ident = str((result.details or {})["sessionId"])
    begun = text_of(result)
    begun += (
        ""
        if "ready" in begun
        else await say(bench.tools, "process", ctx, action="poll", sessionId=ident, timeout=5_000)
    )
    assert "ready" in begun
    await say(bench.tools, "process", ctx, action="submit", sessionId=ident, data="word")
    assert "got word" in await say(bench.tools, "process", ctx, action="poll", sessionId=ident, timeout=5_000)
    assert "running" in await say(bench.tools, "process", ctx, action="list")
    assert "got word" in await say(bench.tools, "process", ctx, action="log", sessionId=ident)
    assert "no command" in await fail(
        bench.tools, "process", at(tmp_path, agent_id="other"), action="kill", sessionId=ident
    )
    assert "has ended" in await say(bench.tools, "process", ctx, action="kill", sessionId=ident)
    assert bench.told[0].id == ident
    assert bench.told[0].text.startswith(f"Exec failed ({ident}, ")
    assert "has ended" in await fail(bench.tools, "process", ctx, action="write", sessionId=ident, data="x")
    assert "gone" in await say(bench.tools, "process", ctx, action="remove", sessionId=ident)


async def test_a_terminal(bench: Bench, tmp_path: Path) -> None:
    ctx = at(tmp_path)
    command = 'python3 -c "import sys; print(sys.stdin.isatty()); print(repr(input()))"'
    result = await call(bench.tools, "exec", ctx, command=command, pty=True, background=True)
    ident = str((result.details or {})["sessionId"])
    await say(bench.tools, "process", ctx, action="send-keys", sessionId=ident, keys=["h", "i", "Enter"])
    text = str(result.parts)  # it may have been fast
    for _ in range(20):
        text += await say(bench.tools, "process", ctx, action="poll", sessionId=ident, timeout=1_000)
        if "ended with" in text:
            break
    assert "True" in text
    assert "'hi'" in text


async def test_a_process_that_prints_for_ever(bench: Bench, tmp_path: Path) -> None:
    ctx = at(tmp_path)
    result = await call(bench.tools, "exec", ctx, command="yes", timeout=0.7)
    text = text_of(result)
    # Which of the two bounds comes first depends on the machine; one of them always does.
    assert "longer than 0.7 seconds" in text or "printed more than" in text
    assert len(text) <= 64_000
    result = await call(bench.tools, "exec", ctx, command="yes", yieldMs=100)
    item = bench.manager.listed("main")[0]
    await asyncio.sleep(0.3)
    assert len(item.output.text()) <= MAX_OUTPUT + 100
    assert len(item.pending.text()) <= 30_100


@pytest.mark.parametrize("backend", BACKENDS)
async def test_cancelling_ends_the_whole_family(bench: Bench, tmp_path: Path, backend: Backend) -> None:
    cancel = Cancel()
    ctx = at(tmp_path, backend, cancel=cancel)
    asyncio.get_running_loop().call_later(0.4, cancel.cancel, "stop")
    result = await call(bench.tools, "exec", ctx, command=f"setsid sleep 77.{MINE} & sleep 78.{MINE}")
    assert result.is_error
    assert bench.manager.listed("main") == []
    assert gone("77")
    assert gone("78")


async def test_what_a_command_leaves_behind_ends_with_it(bench: Bench, tmp_path: Path) -> None:
    assert await say(bench.tools, "exec", at(tmp_path), command=f"sleep 79.{MINE} & echo done") == "done"
    assert gone("79")


async def test_nothing_outlives_its_session(bench: Bench, tmp_path: Path) -> None:
    ctx = at(tmp_path, session=named_session("main", SessionKind.SUBAGENT, "x"))
    await call(bench.tools, "exec", ctx, command=f"sleep 80.{MINE}", background=True)
    await call(bench.tools, "exec", at(tmp_path), command=f"sleep 81.{MINE}", background=True)
    await bench.manager.close_session(str(ctx.session))
    assert gone("80")
    assert alive("81")
    await bench.manager.aclose()
    assert gone("81")
    assert bench.told == []


async def test_without_the_process_tool_a_command_is_waited_for(bench: Bench, tmp_path: Path) -> None:
    ctx = at(tmp_path, background=False)
    assert await say(bench.tools, "exec", ctx, command="sleep 0.3 && echo end", yieldMs=10, background=True) == "end"


async def test_commands_of_a_killed_program_are_found_and_ended(tmp_path: Path) -> None:
    import subprocess

    from homarus.sandbox.ownership import MARK
    from homarus.sandbox.process import end_orphans

    env = {**os.environ, MARK: "999999999.1.lost"}
    stray = subprocess.Popen(["sleep", "82"], env=env)
    mine = subprocess.Popen(["sleep", "83"], env={**os.environ, MARK: f"{os.getpid()}.{start_time()}.kept"})
    try:
        end_orphans()  # another test run may have been faster
        assert stray.wait(60) == -signal.SIGKILL
        assert mine.poll() is None
        assert marked("kept") == [mine.pid]
    finally:
        mine.kill()
        mine.wait()


def start_time() -> str:
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


def gone(seconds: str) -> bool:
    """Wait until no process of this test sleeps so long; one that was killed may need a moment to go."""
    for _ in range(100):
        if not alive(seconds):
            return True
        time.sleep(0.02)
    return False


def alive(seconds: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().endswith(f"sleep\0{seconds}.{MINE}\0".encode()):
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("pty", [False, True])
async def test_a_command_that_does_not_read_holds_nobody_up(
    bench: Bench, tmp_path: Path, backend: Backend, pty: bool
) -> None:
    ctx = at(tmp_path, backend)
    result = await call(bench.tools, "exec", ctx, command="stty raw 2>/dev/null; sleep 60", background=True, pty=pty)
    ident = str((result.details or {})["sessionId"])
    cancel = Cancel()
    waiting = call(
        bench.tools, "process", replace(ctx, cancel=cancel), action="write", sessionId=ident, data="x\n" * 100_000
    )
    asyncio.get_running_loop().call_later(0.3, cancel.cancel, "enough")
    assert "stopped before it finished" in text_of(await waiting)
    assert "has ended" in await say(bench.tools, "process", ctx, action="kill", sessionId=ident)


@pytest.mark.parametrize(
    ("command", "network", "tainted"),
    [
        *(
            (command, True, True)
            for command in (
                "curl -m 1 http://127.0.0.1:9/ || true",
                "timeout 9 curl x || true",
                "FOO=1 curl x || true",
                "echo curl x > f.sh; sh f.sh || true",
                "pip download x || true",
                "cat < /dev/tcp/127.0.0.1/9 || true",
                "true",
            )
        ),
        ("curl -m 1 http://127.0.0.1:9/ || true", False, False),
        ("echo fine; grep fetch links.md; ls gh", False, False),
    ],
)
@pytest.mark.skipif(not available(Backend.BWRAP), reason="needs bubblewrap (apt install bubblewrap)")  # fmt: skip
async def test_what_a_command_may_have_fetched_taints_the_turn(
    bench: Bench, tmp_path: Path, command: str, network: bool, tainted: bool
) -> None:
    """The words of strangers are theirs, whether a tool fetched them or a command."""
    ctx = at(tmp_path)
    ctx = replace(ctx, sandbox=SandboxSpec(Backend.BWRAP, str(tmp_path / "ws"), network=network))
    await call(bench.tools, "exec", ctx, command=command)
    assert bool(ctx.taint) is tainted


@pytest.mark.parametrize("command", ["ls", "sleep 0", "cat missing"])
async def test_every_command_on_the_host_taints_the_turn(bench: Bench, tmp_path: Path, command: str) -> None:
    ctx = replace(at(tmp_path), sandbox=SandboxSpec(Backend.OFF, str(tmp_path / "ws")))
    await call(bench.tools, "exec", ctx, command=command)
    assert ctx.taint.sources == ("exec",)


def patient(_agent_id: str) -> ProcessSettings:
    """Wait for a command, however slow the machine is."""
    return ProcessSettings(background_ms=600_000)


@pytest.mark.parametrize("backend", [Backend.BWRAP, Backend.LANDLOCK])
@pytest.mark.parametrize(
    ("command", "left", "said"),
    [
        ("head -c 3000000 /dev/zero > f; sleep 600", 900, "more disk space"),
        ("exec 3>f; rm f; head -c 3000000 /dev/zero >&3; sleep 600", 900, "more disk space"),
        ("sleep 600", 100, "the disk is nearly full"),
    ],
)  # fmt: skip
async def test_a_command_that_fills_the_disk_is_ended(
    tmp_path: Path, backend: Backend, command: str, left: int, said: str
) -> None:
    if not available(backend):
        pytest.skip(f"{backend} cannot be used here (apt install bubblewrap)")
    looks = itertools.count()

    def free(_path: str) -> int:
        """Let it shrink from look to look, once it is watched: what it can write to are two places at most."""
        look = next(looks)
        return (1000 if look < 2 else left - min(look * 3, left // 10)) << 20

    manager = ProcessManager(SystemClock(), SystemIds(), settings=patient, free=free)
    tools = exec_tools(manager, AnyGrant(), {})
    spec = SandboxSpec(backend, str(tmp_path / "ws"), limits=Limits(disk_bytes=2 << 20))
    assert said in text_of(await call(tools, "exec", replace(at(tmp_path), sandbox=spec), command=command))
    await manager.aclose()


@pytest.mark.parametrize("backend", [Backend.BWRAP, Backend.LANDLOCK])
async def test_a_neighbour_who_fills_the_disk_ends_nobody_elses_command(tmp_path: Path, backend: Backend) -> None:
    if not available(backend):
        pytest.skip(f"{backend} cannot be used here (apt install bubblewrap)")
    go_on, looks = tmp_path / "ws" / "go-on", 0

    def free(_path: str) -> int:
        nonlocal looks
        looks += 1
        if looks == 10:
            go_on.touch()
        return (1000 if looks < 3 else 800 - min(looks * 60, 600)) << 20

    manager = ProcessManager(SystemClock(), SystemIds(), settings=patient, free=free)
    tools = exec_tools(manager, AnyGrant(), {})
    ctx = at(tmp_path)
    (ctx.workspace / "old").write_bytes(bytes(3_000_000))
    await asyncio.sleep(0.1)  # what lay there is older than the command, by the kernel's coarse clock, too
    spec = SandboxSpec(backend, str(ctx.workspace), limits=Limits(disk_bytes=2 << 20))
    command = "head -c 500000 /dev/zero > f; until test -e go-on; do sleep 0.1; done; echo untouched"
    assert "untouched" in await say(tools, "exec", replace(ctx, sandbox=spec), command=command)
    await manager.aclose()


@pytest.mark.parametrize("backend", [Backend.BWRAP, Backend.LANDLOCK])
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git (apt install git)")
async def test_git_alone_commits_and_everything_else_is_told_how(tmp_path: Path, backend: Backend) -> None:
    if not available(backend):
        pytest.skip(f"{backend} cannot be used here (apt install bubblewrap)")
    claims = Claims(tmp_path / "claims")
    manager = ProcessManager(SystemClock(), SystemIds(), claims=claims)
    tools = exec_tools(manager, AnyGrant(), {})
    ctx = replace(at(tmp_path), sandbox=SandboxSpec(backend, str(tmp_path / "ws")))
    subprocess.run(["git", "init", "-q", str(ctx.workspace)], check=True)
    (ctx.workspace / "f").write_text("x")
    told = text_of(await call(tools, "exec", ctx, command="true; git add f"))
    assert "run git add, commit and the like alone" in told
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "b"}
    assert "one" in await say(tools, "exec", ctx, command="git add f && git commit -m one", env=who)
    # What writes beside the repository does so alone.
    running = await call(tools, "exec", ctx, command="sleep 30", background=True)
    assert "could change" in await fail(tools, "exec", ctx, command="git checkout -b two")
    assert "exited" not in await say(tools, "exec", ctx, command="git tag v1")
    await call(tools, "process", ctx, action="kill", sessionId=(running.details or {})["sessionId"])
    assert "exited" not in await say(tools, "exec", ctx, command="git checkout -b two")
    # A turn that follows the words of others changes no repository.
    told = text_of(await call(tools, "exec", replace(ctx, taint=Taint(("web_fetch",))), command="git tag v2"))
    assert "changes no repository" in told
    await manager.aclose()
