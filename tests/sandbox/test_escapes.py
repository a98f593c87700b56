"""Hostile commands against every sandbox that works here, as root and as an ordinary user.

Each line is one attempt. What must not happen is looked for outside, after the command: a file that was made, a secret
that was printed, a process that was reached. `docs/sandbox.md` shows the table.
"""

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.sandbox.process import Order, available, run
from homarus.sandbox.resolve import clean_environment
from homarus.sandbox.spec import Backend, Limits, SandboxSpec

BACKENDS = [backend for backend in (Backend.BWRAP, Backend.LANDLOCK) if available(backend)]
SECRET = "the-hidden-word"
# {out}: a folder outside of the workspace with a secret file. {ws}: the workspace. {pid}: a process outside.
READS = [
    "cat {out}/secret",
    "cat {ws}/../out/secret",
    "cat {ws}/link",
    "cat {ws}/dirlink/secret",
    "cd {ws}/dirlink && cat secret",
    "ln -s {out}/secret s && cat s",
    "ln -s / root && cat root{out}/secret",
    "ln {out}/secret hard && cat hard",
    "cp {out}/secret copy && cat copy",
    "cat /proc/{pid}/root{out}/secret",
    "cat /proc/1/root{out}/secret",
    "cat /proc/self/root{out}/secret",
    "cat /proc/{pid}/environ",
    "cat /proc/{pid}/cwd/secret",
    "tar cf - {out}/secret",
    "find {out} -type f -exec cat {{}} +",
    "python3 -c 'print(open(\"{out}/secret\").read())'",
    "dd if={out}/secret",
    "cat < {out}/secret",
    "exec 9< {out}/secret; cat <&9",
    "cat /etc/shadow",
    "cat /etc/sudoers",
    "cat /root/.ssh/id_rsa /root/.bash_history",
    "ls {out}",
    "stat {out}/secret && cat {out}/secret",
    "mount --bind {out} {ws}/mnt && cat mnt/secret",
    "unshare -rm sh -c 'mount --bind / mnt; cat mnt{out}/secret'",
    "unshare -rm sh -c 'umount -l /tmp; cat {out}/secret'",
    "nsenter -t {pid} -m cat {out}/secret",
    "chroot /proc/{pid}/root cat {out}/secret",
    'python3 -c \'import ctypes;l=ctypes.CDLL(None);l.chroot(b".");import os;[os.chdir("..") for _ in range(9)];l.chroot(b".");print(open("{out}/secret").read())\'',
    "git -c core.fsmonitor='cat {out}/secret' status",
    "sh -c 'PATH={out}:$PATH evil'",
    "LD_PRELOAD={out}/evil.so true; cat {out}/secret",
    "cat /dev/fd/3 /dev/fd/4 /dev/fd/5 /dev/fd/6 /dev/fd/7 /dev/fd/8 /dev/fd/9",
    "for f in /proc/self/fd/*; do cat $f/secret $f/out/secret; done",
    "cat /proc/*/environ /proc/*/cmdline",
    "cat /sys/kernel/debug/* /proc/kcore | head -c 100; cat {out}/secret",
    "busybox cat {out}/secret || perl -e 'print <>' {out}/secret",
    "awk 1 {out}/secret; sed p {out}/secret; head {out}/secret",
]
WRITES = [
    "echo x > {out}/made",
    "touch {out}/made",
    "echo x > {ws}/../out/made",
    "echo x > {ws}/dirlink/made",
    "ln -s {out} d && echo x > d/made",
    "mv f {out}/made",
    "cp f {out}/made",
    "mkdir {out}/made",
    "echo x | tee {out}/made",
    "echo x >> {out}/secret",
    "rm -f {out}/secret",
    "rm -rf {out}",
    "mv {out}/secret {ws}/stolen && cat stolen",
    "ln f {out}/made",
    'python3 -c \'open("{out}/made","w")\'',
    "install -m 755 f {out}/made",
    "echo x > /proc/{pid}/root{out}/made",
    "echo x > /usr/bin/homarus-made",
    "echo x > /etc/homarus-made",
    "echo 'x' > /etc/ld.so.preload",
    "echo x > {ws}/link",
    "chmod 777 {out}",
    "mknod {ws}/disk b 8 0 && dd if={ws}/disk bs=1 count=1 && echo made > {out}/made",
    "mkfifo p && echo ok && ln -f p {out}/made",
    "mount -t tmpfs none {out} && echo x > {out}/made",
    "unshare -rm mount -o remount,rw / && echo x > {out}/made",
    "crontab -l; echo '* * * * * touch {out}/made' | crontab -",
    "at now <<< 'touch {out}/made'",
    "systemd-run touch {out}/made",
]
PROCESSES = [
    "kill -9 {pid}",
    "kill -STOP {pid}",
    "python3 -c 'import os; os.kill({pid}, 9)'",
    "pkill -9 -f homarus-escape-victim",
    "for p in $(ls /proc | grep '^[0-9]'); do test $p -gt 50 && kill -9 $p; done",
    "gdb -p {pid} -batch || strace -p {pid} -o /dev/null",
    'python3 -c \'import ctypes; print("ptraced" if ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0 else "no")\'',
    "renice 19 {pid} && echo reniced",
    "echo 1000 > /proc/{pid}/oom_score_adj && echo scored",
]
NETWORK = [
    'python3 -c \'import socket; s=socket.create_connection(("127.0.0.1", {port}), 2); s.send(b"x")\'',
    'python3 -c \'import socket; s=socket.socket(socket.AF_UNIX); s.connect("{out}/socket"); s.send(b"x")\'',
    'python3 -c \'import socket; s=socket.socket(socket.AF_UNIX); s.connect("\\0homarus-{port}"); s.send(b"x")\'',
    "bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'",
    "curl -s http://127.0.0.1:{port}/ || wget -qO- http://127.0.0.1:{port}/",
    'python3 -c \'import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", {port}))\'',
    'python3 -c \'import socket; s=socket.socket(socket.AF_INET6); s.connect(("::ffff:127.0.0.1", {port})); s.send(b"x")\'',
    "unshare -rn sh -c 'ip link set lo up; nc 127.0.0.1 {port} </dev/null'",
]


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

    def order(self, spec: SandboxSpec, command: str) -> Order:
        text = command.format(out=self.out, ws=self.ws, pid=self.victim.pid, port=self.port)
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
        found += [
            path
            for path in ("/usr/bin/homarus-made", "/etc/homarus-made", "/etc/ld.so.preload")
            if os.path.exists(path)
        ]
        if self.victim.poll() is not None:
            found.append("a process outside was ended")
        if Path(f"/proc/{self.victim.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            found.append("a process outside was stopped")
        return found

    def close(self) -> None:
        os.killpg(self.victim.pid, 9)
        self.victim.wait()


@pytest.fixture
def yard(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Yard(tmp_path)
    yield made
    made.close()


async def run_all(yard: Yard, backend: Backend) -> list[str]:
    """Make every attempt, several at a time, and return what got through."""
    through = []
    spec = SandboxSpec(backend, str(yard.ws), limits=Limits(20, 1 << 30, 64))
    for command in READS:
        if SECRET in await yard.attempt(spec, command):
            through.append(f"read: {command}")
    for command in [*WRITES, *PROCESSES]:
        output = await yard.attempt(spec, command)
        through += [f"{what}: {command}" for what in yard.breaches()]
        if any(word in output.split() for word in ("ptraced", "reniced", "scored")):
            through.append(f"process: {command}")
    heard = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append("tcp")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yard.port = server.sockets[0].getsockname()[1]
    abstract = await asyncio.start_unix_server(serve, f"\0homarus-{yard.port}")
    socket_path = yard.out.parent / "socket"
    local = await asyncio.start_unix_server(serve, socket_path)
    for command in NETWORK:
        await yard.attempt(spec, command.replace("{out}/socket", str(socket_path)))
        if heard:
            through.append(f"network: {command}")
            heard.clear()
    for made in (server, abstract, local):
        made.close()
    return through


@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_gets_out(yard: Yard, backend: Backend) -> None:
    assert len(READS) + len(WRITES) + len(PROCESSES) + len(NETWORK) >= 80
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
