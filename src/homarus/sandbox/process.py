"""One running command: its output, its input, and its end. It has no way to start but inside a spec.

A command and everything that it starts die together: by its process group, by its sandbox, and by a mark in its
environment that finds what slipped out of both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.errors import ToolError
from homarus.sandbox import bwrap, cgroups, docker, landlock
from homarus.sandbox.spec import Backend, Limits, SandboxSpec

MARK = "HOMARUS_COMMAND"
GRACE_SECONDS = 0.3
LINGER_SECONDS = 0.2
_BLOCK = 65536
_MAX_PIDS = 4096
# Up to this many numbers are looked at one by one; beyond that the list of all processes is shorter.
_MAX_SPAN = 256


class Order(Struct, frozen=True):
    """What to run. `argv` is what was approved, to the byte; no shell looks at it unless it names one."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    mark: str
    tty: bool = False
    stdin: bool = False


class Exit(Struct, frozen=True):
    """How a command ended: its code, or the signal that ended it."""

    code: int | None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        """Say whether it ended by itself with zero."""
        return self.code == 0


class Child:
    """A command that was started. Read `output` to its end, then `wait`; `kill` may come at any moment."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        order: Order,
        spec: SandboxSpec,
        source: int,
        cage: cgroups.Cage | None = None,
    ) -> None:
        self._process = process
        self._order = order
        self._spec = spec
        self._source = source  # where its output comes from: a pipe, or the near end of its terminal
        self._cage = cage
        self._killed = False

    @property
    def pid(self) -> int:
        """Return the process id of the command or of the sandbox around it; also its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether it has not ended."""
        return self._process.returncode is None

    @property
    def is_terminal(self) -> bool:
        """Say whether it has a terminal of its own."""
        return self._order.tty

    async def output(self) -> AsyncIterator[bytes]:
        """Yield what the command prints, both streams in the order of arrival, until it has ended."""
        loop, source = asyncio.get_running_loop(), self._source
        if source < 0:
            return
        readable = asyncio.Event()
        loop.add_reader(source, readable.set)
        ended = asyncio.create_task(self._process.wait())
        # What a command left running may hold its output open for ever; nobody waits for that.
        ended.add_done_callback(lambda _: loop.call_later(LINGER_SECONDS, readable.set))
        try:
            while self._source == source and (block := _read(source)) != b"":
                if block is not None:
                    yield block
                elif readable.is_set() and ended.done():
                    break
                else:
                    readable.clear()
                    await readable.wait()
        finally:
            ended.cancel()
            # After `close` the number may already belong to somebody else.
            if self._source == source:
                loop.remove_reader(source)

    async def write(self, data: bytes, *, eof: bool = False) -> None:
        """Give the command input."""
        if self._order.tty:
            os.write(self._source, data + (b"\x04" if eof else b""))
            return
        pipe = self._process.stdin
        if pipe is None or pipe.is_closing():
            raise ToolError("this command takes no input", cure="start it with input or a terminal")
        pipe.write(data)
        with contextlib.suppress(ConnectionError):
            await pipe.drain()
        if eof:
            pipe.close()

    def resize(self, rows: int, columns: int) -> None:
        """Tell the command's terminal how large it is."""
        if self._order.tty and self._source >= 0:
            import fcntl
            import termios

            fcntl.ioctl(self._source, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> Exit:
        """Wait for the end. Whatever the command left behind is ended too."""
        code = await self._process.wait()
        self._sweep(signal.SIGKILL)
        self.close()
        return Exit(None, -code) if code < 0 else Exit(code)

    async def kill(self) -> None:
        """End the command and everything it started: politely, and a moment later by force."""
        if self._killed:
            await self._process.wait()
            return
        self._killed = True
        self._sweep(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            pass
        self._sweep(signal.SIGKILL)
        if self._spec.backend is Backend.DOCKER:
            await _quietly(docker.stop_command(self._spec, _container(self._order)))
        await self._process.wait()
        if self._cage is not None:
            self._cage.close()

    def close(self) -> None:
        """Let go of its output and its input."""
        source, self._source = self._source, -1
        if source >= 0:
            with contextlib.suppress(RuntimeError):  # no loop is running any more
                asyncio.get_running_loop().remove_reader(source)
            os.close(source)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._cage is not None and not self.running:
            self._cage.close()

    def _sweep(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
        if self._spec.backend in {Backend.OFF, Backend.LANDLOCK}:
            for pid in marked(self._order.mark, self._process.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)


async def start(spec: SandboxSpec, order: Order) -> Child:
    """Start a command inside its spec. A program that does not exist is the model's mistake and says so."""
    env = {**order.env, MARK: _owned(order.mark)}
    held: list[int] = []
    line = command_line(spec, order, env, held)
    cage = cgroups.make(order.mark, spec.limits) if spec.backend in {Backend.BWRAP, Backend.LANDLOCK} else None
    if cage:
        line = ["/bin/sh", "-c", 'echo $$ > "$1" && shift && exec "$@"', "sh", cage.entrance, *line]
    source, sink = os.openpty() if order.tty else os.pipe()
    piped = asyncio.subprocess.PIPE if order.stdin else asyncio.subprocess.DEVNULL
    try:
        os.set_blocking(source, False)
        process = await asyncio.create_subprocess_exec(
            *line,
            stdin=sink if order.tty else piped,
            stdout=sink,
            stderr=sink,
            cwd=order.cwd if spec.backend is Backend.OFF else "/",
            env=env if spec.backend is not Backend.DOCKER else None,
            start_new_session=True,
            pass_fds=held,
        )
    except BaseException as problem:
        os.close(source)
        if cage:
            cage.close()
        if isinstance(problem, FileNotFoundError | PermissionError | NotADirectoryError):
            cure = "check the command and its folder"
            raise ToolError(f"cannot run {line[0]}: {problem.strerror}", cure=cure) from None
        raise
    finally:
        for fd in (sink, *held):
            os.close(fd)
    if spec.backend is Backend.OFF:
        _limit(process.pid, spec.limits)
    return Child(process, order, spec, source, cage)


def command_line(spec: SandboxSpec, order: Order, env: Mapping[str, str], held: list[int] | None = None) -> list[str]:
    """Return what is really executed: the approved argv, in the wrapping that its spec asks for.

    `held` takes descriptors that the wrapping reads; whoever starts the command passes them on and closes them.
    """
    if not order.argv or not all(order.argv[:1]) or any("\x00" in part for part in order.argv):
        raise ToolError("the command is empty or holds a NUL byte", cure="give a program and its arguments")
    match spec.backend:
        case Backend.BWRAP:
            return bwrap.command(spec, order.argv, cwd=order.cwd, env=env, held=held)
        case Backend.LANDLOCK:
            return landlock.command(spec, order.argv, cwd=order.cwd, env=env)
        case Backend.DOCKER:
            given = docker.variables(env, held) if held is not None else ()
            return docker.command(
                spec, order.argv, cwd=order.cwd, variables=given, name=_container(order), tty=order.tty
            )
        case Backend.OFF:
            return list(order.argv)


def available(backend: Backend) -> bool:
    """Say whether a backend works on this machine; each is really tried, once."""
    match backend:
        case Backend.BWRAP:
            return bwrap.available()
        case Backend.LANDLOCK:
            return landlock.available()
        case Backend.DOCKER:
            return docker.available()
        case Backend.OFF:
            return True


async def run(
    spec: SandboxSpec, order: Order, *, limit: int, seconds: float, cancel: Cancel
) -> tuple[bytes, Exit | None]:
    """Run a command to its end and return its output, cut at `limit` bytes; None instead of an exit when time ran out."""
    child = await start(spec, order)
    held = bytearray()

    async def drain() -> None:
        async for block in child.output():
            held.extend(block[: max(0, limit - len(held))])

    try:
        with cancel.interrupting():
            async with asyncio.timeout(seconds or None):
                await drain()
                return bytes(held), await child.wait()
    except TimeoutError:
        return bytes(held), None
    finally:
        if child.running:
            await child.kill()
        child.close()


def marked(mark: str, since: int = 0) -> list[int]:
    """Return the processes of ours whose environment carries this mark, wherever they went; Linux only.

    `since` is the process that began it: whatever came of it is younger.
    """
    return [pid for pid, value in _marks(since) if value.rpartition(".")[2] == mark]


def end_orphans() -> list[int]:
    """End commands that a process of ours left behind when it was killed, and return their ids. For a start-up."""
    ended = []
    for pid, value in _marks():
        owner, _, rest = value.partition(".")
        started = rest.rpartition(".")[0]
        if owner.isdigit() and started and start_of(int(owner)) != started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    return ended


def _owned(mark: str) -> str:
    """Return a mark that also says whose command it is: our process and the moment it began."""
    return f"{_self(os.getpid())}.{mark}"


@cache
def _self(pid: int) -> str:
    return f"{pid}.{start_of(pid)}"


def start_of(pid: int) -> str:
    """Return the moment when a process began, in the kernel's count: with its number, this names one process for good."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _marks(since: int = 0) -> list[tuple[int, str]]:
    needle = f"{MARK}=".encode()
    found: list[tuple[int, str]] = []
    for pid in _pids(since):
        data = _slurp(f"/proc/{pid}/environ")
        if needle in data:
            values = (part[len(needle) :] for part in data.split(b"\x00") if part.startswith(needle))
            found += [(pid, value.decode("utf-8", "replace")) for value in values]
        if len(found) >= _MAX_PIDS:
            break
    return found


def _pids(since: int) -> Sequence[int]:
    """Return the numbers under which processes may be found: those that were given out since one began, if that is few."""
    if since:
        newest = _slurp("/proc/loadavg").rpartition(b" ")[2].strip()
        if newest.isdigit() and since <= int(newest) < since + _MAX_SPAN:
            return range(since, int(newest) + 1)
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - pathlib costs more than the rest
    except OSError:
        return ()


def _slurp(path: str) -> bytes:
    """Return the content of a small file of the kernel's, nothing if it is gone meanwhile or not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while block := os.read(fd, _BLOCK):
            data += block
        return data
    except OSError:
        return b""
    finally:
        os.close(fd)


def _limit(pid: int, limits: Limits) -> None:
    import resource

    wanted = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_CORE: 1,
    }
    if not hasattr(resource, "prlimit"):
        return  # macOS: time and output are bounded all the same
    for what, value in wanted.items():
        if value:
            with contextlib.suppress(OSError, ValueError):
                resource.prlimit(pid, what, (value, value))


def _container(order: Order) -> str:
    return f"homarus-{order.mark}"


async def _quietly(argv: Sequence[str]) -> None:
    with contextlib.suppress(OSError):
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await process.wait()


def _read(source: int) -> bytes | None:
    """Return the next block, nothing at the end, or None when there is none yet."""
    try:
        return os.read(source, _BLOCK)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # the last process with this terminal is gone
