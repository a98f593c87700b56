"""One running command: its output, its input, and its end. It has no way to start but inside a spec.

A command and everything that it starts die together: by its process group, by its sandbox, and by a mark in its
environment that finds what slipped out of both. Its private folder and its control group go when they are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack

from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.errors import Denied, ToolError
from homarus.sandbox import bwrap, cgroups, docker, scratch
from homarus.sandbox.ownership import MARK, all_marked, is_orphan, left_of, owned
from homarus.sandbox.spawn import Process, adopt, spawn
from homarus.sandbox.spec import Backend, Limits, SandboxSpec
from homarus.storage.volume import changed

GRACE_SECONDS = 0.3
LINGER_SECONDS = 0.2
_BLOCK = 65536
_IN_A_ROW = 64
_ROUNDS = 100
_YOUNG_SECONDS = 0.5


class Order(Struct, frozen=True):
    """What to run. `argv` is what was approved, to the byte; no shell looks at it unless it names one."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    mark: str
    tty: bool = False
    stdin: bool = False
    # Where its second stream goes, as a descriptor; both go the same way where there is none.
    stderr: int = -1


class Exit(Struct, frozen=True):
    code: int | None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0


class Resources(Struct):
    """What belongs to one command on our side: where its output comes from and its input goes, and what is removed at its end."""

    source: int = -1  # a pipe, or the near end of its terminal
    stdin: int = -1
    cage: cgroups.Cage | None = None
    folder: scratch.Scratch | None = None

    def let_go(self) -> None:
        source, stdin, self.source, self.stdin = self.source, self.stdin, -1, -1
        for fd, forget in ((source, "remove_reader"), (stdin, "remove_writer")):
            if fd >= 0:
                with contextlib.suppress(RuntimeError):  # no loop is running any more
                    getattr(asyncio.get_running_loop(), forget)(fd)
                os.close(fd)

    def remove(self) -> None:
        """Close the pipes and remove the rest, once nobody uses it any more."""
        self.let_go()
        if self.cage is not None:
            self.cage.close()
        if self.folder is not None and not self.folder.removed_empty():
            threading.Thread(target=self.folder.remove).start()  # a command may leave a million files


class Child:
    """A command that was started. Read `output` to its end, then `wait`; `kill` may come at any moment, `close` at the end."""

    def __init__(self, process: Process, order: Order, spec: SandboxSpec, things: Resources) -> None:
        self._process = process
        self._order = order
        self._spec = spec
        self._things = things
        self._feeding = asyncio.Lock()
        self._killed = self._closed = False
        self._exit: Exit | None = None

    def __del__(self) -> None:
        if not self._closed and self._exit is None:
            self._sweep(signal.SIGKILL)
            self.close()

    @property
    def pid(self) -> int:
        """Return the process id of the command or of the sandbox around it; also its process group."""
        return self._process.pid

    @property
    def private(self) -> str:
        """Return the folder that is this command's alone and lies on a disk; nothing where there is none."""
        return self._things.folder.path if self._things.folder is not None else ""

    @property
    def running(self) -> bool:
        return not self._process.ended.is_set()

    @property
    def is_terminal(self) -> bool:
        return self._order.tty

    async def output(self) -> AsyncIterator[bytes]:
        """Yield what the command prints, both streams in the order of arrival, until it has ended."""
        loop, source = asyncio.get_running_loop(), self._things.source
        if source < 0:
            return
        readable = asyncio.Event()
        loop.add_reader(source, readable.set)
        # What a command left running may hold its output open for ever; nobody waits for that.
        self._process.then(lambda: loop.call_later(LINGER_SECONDS, readable.set))
        try:
            in_a_row = 0
            while self._things.source == source and (block := _read(source)) != b"":
                if block is not None:
                    yield block
                    in_a_row += 1
                    if in_a_row % _IN_A_ROW == 0:
                        await asyncio.sleep(0)  # what prints faster than we read must not keep all else waiting
                elif readable.is_set() and not self.running:
                    break
                else:
                    readable.clear()
                    await readable.wait()
        finally:
            # After `close` the number may already belong to somebody else.
            if self._things.source == source:
                loop.remove_reader(source)

    async def write(self, data: bytes, *, eof: bool = False) -> None:
        if self._things.stdin < 0:
            raise ToolError("this command takes no input", cure="start it with input or a terminal")
        async with self._feeding:
            with contextlib.suppress(OSError):  # nobody reads any more
                await self._feed(data + b"\x04" if eof and self._order.tty else data)
        if eof and not self._order.tty and self._things.stdin >= 0:
            os.close(self._things.stdin)
            self._things.stdin = -1

    async def _feed(self, data: bytes) -> None:
        """Write all of it, as fast as the command reads, or what it takes until its end."""
        loop, pipe, room, rest = asyncio.get_running_loop(), self._things.stdin, asyncio.Event(), memoryview(data)
        self._process.then(room.set)
        while rest and self._things.stdin == pipe:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                if not self.running:
                    return
                room.clear()
                loop.add_writer(pipe, room.set)
                try:
                    await room.wait()
                finally:
                    if self._things.stdin == pipe:
                        loop.remove_writer(pipe)

    def resize(self, rows: int, columns: int) -> None:
        if self._order.tty and self._things.source >= 0:
            import fcntl
            import termios

            fcntl.ioctl(self._things.source, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> Exit:
        """Wait for the end. Whatever the command left behind is ended too."""
        await self._process.ended.wait()
        return self._finish()

    async def kill(self) -> None:
        """End the command and everything it started: politely, and a moment later by force."""
        if self._killed or self._exit is not None:
            await self._process.ended.wait()
            return
        self._killed = True
        self._sweep(signal.SIGTERM)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._process.ended.wait()
        except TimeoutError:
            pass
        self._sweep(signal.SIGKILL)
        if self._spec.backend is Backend.DOCKER:
            await docker.called(docker.stop_command(self._spec, _container(self._order)))
        await self.wait()

    def close(self) -> None:
        """Let go of its output and its input, and of all the rest as soon as it has ended."""
        self._closed = True
        self._things.let_go()
        self._process.then(self._finish)

    def _finish(self) -> Exit:
        """Take note of the end, once. Until then the number of the process is still its own, and so is its group's."""
        if self._exit is None:
            self._sweep(signal.SIGKILL)
            code = self._process.reap()
            self._exit = Exit(None, -code) if code < 0 else Exit(code)
            self._things.remove()
            changed(self._spec.instead_of or self._spec.workspace)
        return self._exit

    def _sweep(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
        if self._spec.backend not in {Backend.OFF, Backend.LANDLOCK}:
            return
        # What is being killed may still have started something; whatever is left then is looked for again.
        for _ in range(_ROUNDS if number == signal.SIGKILL else 1):
            left = self._left()
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            if not left:
                return

    def _left(self) -> set[int]:
        """Return the processes of the command besides itself, wherever they went."""
        own = self._process.pid
        # In a longer time the numbers of processes may have gone round, and the youngest is not the highest any more.
        since = own if self._process.age < _YOUNG_SECONDS else 0
        # No command under Landlock can leave its session; one without a sandbox is found by its mark.
        found = left_of(own, self._order.mark, since=since, marked=self._spec.backend is Backend.OFF)
        inside = self._things.cage.processes() if self._things.cage is not None else []
        return {*found, *inside} - {0, own}


async def start(spec: SandboxSpec, order: Order) -> Child:
    """Start a command inside its spec. A program that does not exist is the model's mistake and says so."""
    if spec.refused:
        raise Denied(spec.refused)
    if not order.argv or not all(order.argv[:1]) or any("\x00" in part for part in order.argv):
        raise ToolError("the command is empty or holds a NUL byte", cure="give a program and its arguments")
    if any("\0" in word for pair in order.env.items() for word in pair):
        # A wrapping that reads words up to such a byte would take what follows for an option of its own.
        raise ToolError("a variable holds a NUL byte", cure="leave it out")
    if spec.backend is Backend.DOCKER:
        await docker.end_orphans(spec)
    things = Resources()
    with ExitStack() as lent:  # what only the command needs
        try:
            process = _begin(spec, order, things, lent)
        except BaseException as problem:
            things.remove()
            if isinstance(problem, OSError):
                cure = "check the command and its folder"
                raise ToolError(f"cannot run {order.argv[0]}: {problem.strerror or problem}", cure=cure) from None
            raise
    if spec.backend is Backend.OFF:
        _limit(process.pid, spec.limits)
    return Child(process, order, spec, things)


def _begin(spec: SandboxSpec, order: Order, things: Resources, lent: ExitStack) -> Process:
    env = {**order.env, MARK: owned(order.mark)}
    things.source, sink = os.openpty() if order.tty else os.pipe()
    lent.callback(os.close, sink)
    os.set_blocking(things.source, False)
    stdin = sink
    if order.tty:
        things.stdin = os.dup(things.source)
    else:
        if order.stdin:
            stdin, things.stdin = os.pipe()
            os.set_blocking(things.stdin, False)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        lent.callback(os.close, stdin)
    if spec.backend in {Backend.BWRAP, Backend.LANDLOCK}:
        things.cage = cgroups.make(order.mark, spec.limits)
    groups = things.cage.entrances if things.cage is not None else ()
    if spec.backend is Backend.LANDLOCK:
        from homarus.sandbox import landlock

        scratch.sweep_once()
        things.folder = scratch.make()
        # Its launcher takes one output: a second one that somebody else would read is left out.
        silent = ("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh") if order.stderr >= 0 else ()
        words = landlock.words(spec, (*silent, *order.argv), cwd=order.cwd, env=env)
        return adopt(landlock.launch(words, things.folder, groups=groups, stdin=stdin, sink=sink))
    held: list[int] = []
    lent.callback(_close, held)
    line = command_line(spec, order, env, held)
    if groups:
        enter = 'echo $$ > "$1" && shift && ' * len(groups)
        line = ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *groups, *line]
    cwd = order.cwd if spec.backend is Backend.OFF else "/"
    variables = env if spec.backend is not Backend.DOCKER else None
    pipes = (stdin, sink, order.stderr if order.stderr >= 0 else sink)
    return spawn(line, pipes, cwd=cwd, env=variables, held=held)


def command_line(spec: SandboxSpec, order: Order, env: Mapping[str, str], held: list[int]) -> list[str]:
    """Return what is really executed: the approved argv, in the wrapping that its spec asks for.

    `held` takes descriptors that the wrapping reads; whoever starts the command passes them on and closes them.
    """
    match spec.backend:
        case Backend.BWRAP:
            return bwrap.command(spec, order.argv, cwd=order.cwd, env=env, held=held)
        case Backend.DOCKER:
            given, name = docker.variables(env, held), _container(order)
            return docker.command(spec, order.argv, cwd=order.cwd, variables=given, name=name, tty=order.tty)
        case _:
            return list(order.argv)


def available(backend: Backend) -> bool:
    """Say whether a backend works on this machine; each is really tried, once."""
    match backend:
        case Backend.BWRAP:
            return bwrap.available()
        case Backend.LANDLOCK:
            from homarus.sandbox import landlock

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


def end_orphans() -> list[int]:
    """End commands of our processes that were killed, remove what was theirs, and return the ids. For a start-up.

    Nothing of a process that lives is touched, nor anything of another user's.
    """
    ended = []
    for pid, value in all_marked():
        if is_orphan(value):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    scratch.sweep()
    cgroups.sweep()
    return ended


def _close(held: list[int]) -> None:
    for fd in held:
        os.close(fd)


def _limit(pid: int, limits: Limits) -> None:
    import resource

    wanted = {resource.RLIMIT_CPU: limits.cpu_seconds, resource.RLIMIT_AS: limits.memory_bytes, resource.RLIMIT_CORE: 1}
    if not hasattr(resource, "prlimit"):
        return  # macOS: time and output are bounded all the same
    for what, value in wanted.items():
        if value:
            with contextlib.suppress(OSError, ValueError):
                resource.prlimit(pid, what, (value, value))


def _container(order: Order) -> str:
    return f"homarus-{order.mark}"


def _read(source: int) -> bytes | None:
    """Return the next block, nothing at the end, or None when there is none yet."""
    try:
        return os.read(source, _BLOCK)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # the last process with this terminal is gone
