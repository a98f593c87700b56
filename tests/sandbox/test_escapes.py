"""Hostile commands against every sandbox that works here, as root and as an ordinary user.

Each line of `attempts` is one attempt. What must not happen is looked for outside, after the command: a file that was made
or touched, a secret that was printed, a process that was reached. `docs/sandbox.md` shows the table.
"""

import asyncio
import ctypes
import os
import platform
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from tests.sandbox.attempts import LINGERERS, NETWORK, PROCESSES, REACHED, READS, SECRET, STUBBORN, WRITES

from homarus.core.cancel import Cancel
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Backend, Limits, SandboxSpec

INSIDE = Path(__file__).with_name("inside.py").read_text()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
BACKENDS = [backend for backend in (Backend.BWRAP, Backend.LANDLOCK) if available(backend)]
MADE = ("/usr/bin/homarus-made", "/etc/homarus-made", "/etc/ld.so.preload", "/etc/cron.d/homarus-made")
MADE += ("/root/homarus-made", "/sys/fs/cgroup/homarus-made", "/sys/fs/cgroup/pids/homarus-made")
_libc = ctypes.CDLL(None, use_errno=True)


class Yard:
    """A workspace with something to protect beside it."""

    def __init__(self, folder: Path) -> None:
        self.ws, self.out = folder / "ws", folder / "out"
        for path in (self.ws, self.out):
            path.mkdir()
        (self.out / "secret").write_text(SECRET)
        (self.out / "evil").write_text(f"#!/bin/sh\necho {SECRET}\n")
        (self.ws / "f").write_text("plain\n")
        (self.ws / "mnt").mkdir()
        (self.ws / "link").symlink_to(self.out / "secret")
        (self.ws / "dirlink").symlink_to(self.out)
        self.victim = subprocess.Popen(
            ["/bin/sh", "-c", "sleep 600; true homarus-escape-victim"],
            env={"WORD": SECRET, "PATH": "/usr/bin:/bin"},
            start_new_session=True,
            cwd=self.out,
        )
        self.port = 0
        # Places that are no files of the workspace's and hold the secret, too: shared memory of both kinds, and a key.
        self.name = f"homarus-{os.getpid()}"
        Path("/dev/shm", self.name).write_text(SECRET)
        self.shm = _libc.shmget(0, 4096, 0o1666)
        _libc.shmat.restype = ctypes.c_void_p
        ctypes.memmove(_libc.shmat(self.shm, None, 0), SECRET.encode(), len(SECRET))
        self.before = self.state()

    def keep_key(self) -> None:
        """Put the secret into the keyring of this session, under a name that an attempt can know."""
        if platform.machine() == "x86_64":
            _libc.syscall(248, b"user", f"homarus-{self.port}".encode(), SECRET.encode(), len(SECRET), -3)

    def state(self) -> list[object]:
        """Return everything about the files outside that must stay as it is."""
        found: list[object] = [socket.gethostname()]
        for path in (self.out, self.out / "secret", self.out / "evil"):
            facts = path.stat()
            found.append((path.name, facts.st_mode, facts.st_uid, facts.st_gid, facts.st_mtime_ns, os.listxattr(path)))
        return found

    def order(self, spec: SandboxSpec, command: str) -> Order:
        text = command.format(
            out=self.out, ws=self.ws, pid=self.victim.pid, port=self.port, shm=self.shm, name=self.name
        )
        return Order(
            ("/bin/sh", "-c", text), str(self.ws), clean_environment(spec, os.environ, {}), os.urandom(6).hex()
        )

    async def attempt(self, spec: SandboxSpec, command: str) -> str:
        output, _ = await run(spec, self.order(spec, command), limit=20_000, seconds=20, cancel=Cancel())
        return output.decode("utf-8", "replace")

    def breaches(self) -> list[str]:
        """Return what has happened that must not."""
        found = []
        if not (self.out / "secret").exists() or (self.out / "secret").read_text() != SECRET:
            found.append("the secret was changed")
        if sorted(os.listdir(self.out)) != ["evil", "secret"]:
            found.append(f"something was made outside: {os.listdir(self.out)}")
        elif self.state() != self.before:
            found.append(f"a mode, an owner, a time or a name was changed outside: {self.state()}")
        found += [path for path in MADE if os.path.exists(path)]
        if self.victim.poll() is not None:
            found.append("a process outside was ended")
        if Path(f"/proc/{self.victim.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            found.append("a process outside was stopped")
        return found

    def close(self) -> None:
        os.killpg(self.victim.pid, 9)
        self.victim.wait()
        Path("/dev/shm", self.name).unlink()
        _libc.shmctl(self.shm, 0, None)


def batched(commands: list[str], size: int = 8) -> list[list[str]]:
    return [commands[at : at + size] for at in range(0, len(commands), size)]


@pytest.fixture
def yard(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Yard(tmp_path)
    yield made
    made.close()


async def run_all(yard: Yard, backend: Backend) -> list[str]:
    """Make every attempt, several at a time, and return what got through."""
    through = []
    spec = SandboxSpec(backend, str(yard.ws), limits=Limits(20, 1 << 30, 64))
    yard.keep_key()
    for group in batched(READS):
        outputs = await asyncio.gather(*(yard.attempt(spec, command) for command in group))
        pairs = zip(group, outputs, strict=True)
        through += [f"read: {command}" for command, output in pairs if SECRET in output]
    for group in batched([*WRITES, *PROCESSES]):
        outputs = await asyncio.gather(*(yard.attempt(spec, command) for command in group))
        pairs = zip(group, outputs, strict=True)
        through += [f"{what}: one of {group}" for what in yard.breaches()]
        through += [f"reached: {command}" for command, output in pairs if set(REACHED) & set(output.split())]
    heard: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append("tcp")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yard.port = server.sockets[0].getsockname()[1]
    abstract = await asyncio.start_unix_server(serve, f"\0homarus-{yard.port}")
    socket_path = yard.out.parent / "socket"
    local = await asyncio.start_unix_server(serve, socket_path)
    for group in batched(NETWORK):
        await asyncio.gather(*(yard.attempt(spec, c.replace("{out}/socket", str(socket_path))) for c in group))
        if heard:
            through.append(f"network: one of {group}")
            heard.clear()
    if platform.machine() == "x86_64":
        through += await calls_inside(yard, spec, serve, heard)
    through += await stays_behind(yard, spec)
    for made in (server, abstract, local):
        made.close()
    return through


async def stays_behind(yard: Yard, spec: SandboxSpec) -> list[str]:
    """Start what wants to outlive its command in every way there is, and return what does."""
    token = f"9{os.getpid()}"
    outputs = await asyncio.gather(*(yard.attempt(spec, command.replace("{n}", token)) for command in LINGERERS))
    assert len(outputs) == len(LINGERERS)
    order = yard.order(spec, STUBBORN.replace("{n}", token))
    await run(spec, order, limit=1000, seconds=0.7, cancel=Cancel())
    # Its processes are dead when a command has ended, and gone a moment later.
    for _ in range(3000):
        alive = [line for line in map(_words, Path("/proc").glob("[0-9]*/cmdline")) if token in line]
        if not alive:
            return []
        await asyncio.sleep(0.02)
    return [f"still runs: {line}" for line in alive]


def _words(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


async def calls_inside(yard: Yard, spec: SandboxSpec, serve: Serve, heard: list[str]) -> list[str]:
    """Let one program make all attempts that need the kernel's own calls, and return what it says got through."""
    served = await asyncio.start_unix_server(serve, yard.ws / "served")
    (yard.ws / "calls").mkdir()  # where something can be made although an attempt left a repository beside it
    arguments = (str(yard.out), str(yard.victim.pid), str(yard.ws / "served"), spec.backend.value)
    order = Order(
        ("python3", "-c", INSIDE, *arguments),
        str(yard.ws / "calls"),
        clean_environment(spec, os.environ, {}),
        os.urandom(6).hex(),
    )
    output, _ = await run(spec, order, limit=50_000, seconds=30, cancel=Cancel())
    served.close()
    lines = output.decode("utf-8", "replace").splitlines()
    if not lines or not lines[-1].startswith(("tried", "through")):
        return ["the attempts inside did not come to an end", *lines[-3:]]
    found = [line for line in lines if line.startswith("through")] + yard.breaches()
    # What such a program leaves behind for later: nothing that lends its owner's rights.
    found += [f"lends rights: {path.name}" for path in yard.ws.rglob("*") if path.lstat().st_mode & 0o6000]
    return found + [f"heard: {word}" for word in heard]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_gets_out(yard: Yard, backend: Backend) -> None:
    assert len(READS) + len(WRITES) + len(PROCESSES) + len(NETWORK) >= 160
    assert await run_all(yard, backend) == []


@pytest.mark.skipif(os.getuid() != 0, reason="the test itself already runs as an ordinary user")
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_gets_out_as_an_ordinary_user(tmp_path: Path, backend: Backend) -> None:
    """The same attempts, by a process that gave root up."""
    home = Path("/var/tmp") / f"homarus-escape-{os.getpid()}-{backend.value}"
    user = pwd.getpwnam("nobody")
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    source = Path(__file__).resolve().parents[2]
    # Everything is loaded before root is given up: our own files may lie where others cannot read.
    code = (
        f"import sys; sys.path[:0] = [{str(source / 'src')!r}, {str(source)!r}]\n"
        "import asyncio, os; from pathlib import Path\n"
        "from tests.sandbox.test_escapes import Yard, run_all; from homarus.sandbox.spec import Backend\n"
        "from homarus.sandbox.process import available; from homarus.sandbox import landlock\n"
        f"os.setgroups([]); os.setgid({user.pw_gid}); os.setuid({user.pw_uid}); landlock.available.cache_clear()\n"
        "if not os.access(sys.executable, os.X_OK): sys.executable = '/usr/bin/python3'\n"
        f"backend = Backend({backend.value!r})\n"
        "if not available(backend): print('unavailable'); sys.exit(0)\n"
        f"yard = Yard(Path({str(home)!r}))\n"
        "through = asyncio.run(run_all(yard, backend)); yard.close(); print(through)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    finally:
        shutil.rmtree(home)
    if "unavailable" in done.stdout:
        pytest.skip(f"{backend} cannot be used by another user here")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("backend", BACKENDS)
async def test_limits_hold_inside(yard: Yard, backend: Backend) -> None:
    spec = SandboxSpec(backend, str(yard.ws), limits=Limits(2, 300 << 20, 40))
    assert "MemoryError" in await yard.attempt(spec, "python3 -c 'x = bytearray(1 << 30)' 2>&1 | tail -1")
    began = asyncio.get_running_loop().time()
    await yard.attempt(spec, "python3 -c 'while True: pass'")
    assert asyncio.get_running_loop().time() - began < 15
    forks = "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; ls /proc | grep -c '^[0-9]'"
    output = await yard.attempt(spec, forks)
    assert "fork" in output.lower() or "unavailable" in output.lower() or int(output.split()[-1]) < 100


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_locked_workspace_keeps_what_shapes_the_agent(yard: Yard, backend: Backend) -> None:
    (yard.ws / "SOUL.md").write_text("me")
    (yard.ws / "skills").mkdir()
    (yard.ws / "notes").mkdir()
    spec = SandboxSpec(backend, str(yard.ws), locked=("SOUL.md", "MEMORY.md", "skills"))
    for command in (
        "echo evil > SOUL.md", "rm SOUL.md", "mv SOUL.md x", "mv notes/x SOUL.md; cp f SOUL.md", "ln -sf f SOUL.md", "echo evil > MEMORY.md",
        "mkdir skills/x", "mv skills old", "rmdir skills", "ln -s SOUL.md notes/s; echo evil > notes/s", "sed -i s/me/evil/ SOUL.md",
        "ln SOUL.md notes/h; echo evil > notes/h", "chmod 777 SOUL.md; echo evil >> SOUL.md", "cd ..; echo evil > ws/SOUL.md",
    ):  # fmt: skip
        await yard.attempt(spec, command)
        assert (yard.ws / "SOUL.md").read_text() == "me", command
        assert not (yard.ws / "MEMORY.md").exists(), command
        assert os.listdir(yard.ws / "skills") == [], command
    assert await yard.attempt(spec, "echo fine > notes/new; cat notes/new") == "fine\n"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_network_does_not_reach_the_services_of_this_machine(yard: Yard, backend: Backend) -> None:
    """Sockets with a name belong to no network: Docker's, D-Bus's, and those without a file that any program can name."""
    heard, closed = list[str](), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append("here")
        writer.close()
        await writer.wait_closed()
        closed.set()

    name = f"homarus-net-{os.getpid()}"
    servers = [
        await asyncio.start_unix_server(serve, f"\0{name}"),
        await asyncio.start_unix_server(serve, yard.ws / "s"),
    ]
    tcp = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    spec = SandboxSpec(backend, str(yard.ws), network=True)
    connect = "import socket; s = socket.socket(socket.AF_UNIX); s.connect({!r})"
    for where in (f"\0{name}", str(yard.ws / "s")):
        await yard.attempt(
            spec, f"python3 -c {shlex.quote(connect.format(where))}".replace("{", "{{").replace("}", "}}")
        )
    await yard.attempt(spec, "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)' && echo raw")
    assert heard == []
    await yard.attempt(spec, f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'")
    await closed.wait()
    assert heard == ["here"]
    for server in (*servers, tcp):
        server.close()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_link_in_place_of_a_folder_shows_nothing(yard: Yard, backend: Backend) -> None:
    """What git would run is shown read-only; a link there must not show what it leads to, nor keep commands from running."""
    (yard.out / "config").write_text(SECRET)
    for link in (".git", "notes"):
        (yard.ws / link).symlink_to(yard.out)
        for locked in ((), ("SOUL.md",)):
            spec = SandboxSpec(backend, str(yard.ws), locked=locked)
            output = await yard.attempt(spec, f"cat {link}/config {link}/secret; echo x > {link}/made; echo ran")
            assert SECRET not in output
            assert "ran" in output
            assert not (yard.out / "made").exists()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_folder_that_becomes_a_link_while_commands_start(yard: Yard, backend: Backend) -> None:
    """CVE-2026-44112 and 44113: the swap goes on while a locked workspace is shown again and again."""
    spec = SandboxSpec(backend, str(yard.ws), locked=("SOUL.md",))
    folder, link = yard.ws / "notes", yard.ws / "spare"
    folder.mkdir()
    link.symlink_to(yard.out)
    stop = False

    def swap() -> None:
        while not stop:
            os.rename(folder, yard.ws / "t")
            os.rename(link, folder)
            os.rename(yard.ws / "t", link)

    swapper = asyncio.create_task(asyncio.to_thread(swap))
    try:
        for _ in range(12):
            output = await yard.attempt(spec, "cat notes/secret spare/secret; echo x > notes/made; echo x > spare/made")
            assert SECRET not in output
    finally:
        stop = True
        await swapper
    assert not (yard.out / "made").exists()


@pytest.mark.skipif(Backend.BWRAP not in BACKENDS, reason="needs bubblewrap (apt install bubblewrap)")
async def test_memory_behind_tmp_is_bounded(yard: Yard) -> None:
    spec = SandboxSpec(Backend.BWRAP, str(yard.ws), limits=Limits(20, 256 << 20, 64))
    output = await yard.attempt(spec, "dd if=/dev/zero of=/tmp/x bs=1M count=200 2>&1; stat -c %s /tmp/x")
    assert int(output.split()[-1]) <= 64 << 20
