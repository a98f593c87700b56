"""A real Postgres for tests: an unprivileged server in a short temp folder, killed, restarted and promoted at will."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 60.0


def programs() -> Path:
    """Return the folder of the server's programs, or skip the test."""
    pytest.importorskip("asyncpg", reason="needs asyncpg (pip install homarus[fleet])")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    here = found[-1] if found else shutil.which("postgres")
    if not here:
        pytest.skip("needs a Postgres server (Debian: postgresql)")
    return Path(here).parent


def _user() -> dict[str, object]:
    """Return what starts a program as somebody unprivileged: the server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    pytest.skip("needs an unprivileged user to run Postgres as")
    return {}


class Postgres:
    """One server with its folder. `dsn` speaks over a Unix socket, `tcp` over loopback."""

    def __init__(self, folder: Path, bin_dir: Path, port: int, *options: str) -> None:
        self.folder, self.bin, self.port = folder, bin_dir, port
        self._options, self.listen = options, "127.0.0.1"
        self._as = _user()
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def make(cls, folder: Path, *options: str) -> Postgres:
        """Make an empty server in a folder whose path is short. It is not started."""
        made = cls(folder, programs(), free_port(), *options)
        made._own(folder)
        made.run("initdb", "-D", f"{folder}/data", "-U", "homarus", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        return made

    def _own(self, folder: Path) -> None:
        folder.chmod(0o755)
        if "user" in self._as:
            os.chown(folder, self._as["user"], self._as["group"])

    def run(self, program: str, *args: str) -> str:
        done = subprocess.run(
            [self.bin / program, *args], capture_output=True, text=True, cwd="/", timeout=300, **self._as
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://homarus@/{database}?host={self.folder}&port={self.port}"

    def tcp(self, database: str = "postgres", host: str = "127.0.0.1") -> str:
        return f"postgresql://homarus@{host}:{self.port}/{database}"

    def start(self, *, fresh: bool = False) -> None:
        """Start the server and wait until it answers. A fresh one may take another port, where somebody has its own by now."""
        for _ in range(10 if fresh else 1):
            if self._started():
                return
            self.port = free_port() if fresh else self.port
        raise AssertionError((self.folder / "log").read_text())

    def _started(self) -> bool:
        settings = {
            "port": self.port, "listen_addresses": self.listen, "unix_socket_directories": self.folder,
            "max_connections": 200, "shared_buffers": "32MB", "log_min_messages": "fatal", "max_wal_senders": 4,
            "wal_retrieve_retry_interval": "500ms",  # until its standby is back, a primary that was restarted ends no commit
        }  # fmt: skip
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        log = open(self.folder / "log", "ab")  # noqa: SIM115 - the server has it
        (self.folder / "log").chmod(0o666)
        with log:
            self._process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.folder / "data", *words, *self._options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", **self._as,
            )  # fmt: skip
        return self._answers()

    def _answers(self) -> bool:
        ends = time.monotonic() + LIMIT
        while time.monotonic() < ends:
            asked = subprocess.run(
                [self.bin / "pg_isready", "-q", "-h", self.folder, "-p", str(self.port)], cwd="/", **self._as
            )
            # Another server may have the port: it must be ours that lives.
            if self._process is not None and self._process.poll() is not None:
                self._process = None
                return False
            if asked.returncode == 0:
                return True
            time.sleep(0.05)
        raise AssertionError("Postgres does not answer")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut does: nothing is told to anybody."""
        if self._process is not None:
            pids = [self._process.pid, *_children(self._process.pid)]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(LIMIT)
            for pid in pids[1:]:
                _gone(pid)
            self._process = None

    def signal(self, number: int) -> None:
        """Stop all of it as a machine that hangs (SIGSTOP), or let it go on (SIGCONT)."""
        assert self._process is not None
        for pid in (self._process.pid, *_children(self._process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast: connections are ended
            try:
                self._process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def sql(self, text: str, database: str = "postgres") -> str:
        return self.run(
            "psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-p", str(self.port),
            "-U", "homarus", "-d", database, "-c", text,
        )  # fmt: skip

    def standby(self, folder: Path) -> Postgres:
        """Make a synchronous standby of this running server, started. No commit is acknowledged without it from then on."""
        made = Postgres(folder, self.bin, free_port(), *self._options)
        made._own(folder)
        made.run("pg_basebackup", "-h", str(self.folder), "-p", str(self.port), "-U", "homarus",
                 "-D", f"{folder}/data", "-R", "-X", "stream", "-c", "fast")  # fmt: skip
        made.listen = self.listen
        made.start(fresh=True)
        self.sql("alter system set synchronous_standby_names = '*'")
        self.sql("select pg_reload_conf()")
        ends = time.monotonic() + LIMIT
        while "sync" not in self.sql("select sync_state from pg_stat_replication"):
            assert time.monotonic() < ends, "the standby does not follow"
            time.sleep(0.05)
        return made

    def promote(self) -> None:
        self.sql("alter system set synchronous_standby_names = ''")
        self.sql("select pg_promote(true, 60)")


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _gone(pid: int) -> None:
    """Wait until a killed process is no more: its shared memory would keep a new server from starting."""
    ends = time.monotonic() + LIMIT
    while time.monotonic() < ends:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return
        except OSError:
            return
        time.sleep(0.01)


def free_port() -> int:
    """Return a port that nobody has now, and that no outgoing connection is given while a server is restarted."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port := random.randrange(12_000, 30_000)))
            return port


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """Give a folder whose path is short enough for a Unix socket, also where TMPDIR is long."""
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def running(*options: str) -> Iterator[Postgres]:
    with short_folder() as folder:
        server = Postgres.make(folder, *options)
        server.start(fresh=True)
        try:
            yield server
        finally:
            server.stop()
