"""The waiting launcher of the Landlock sandbox, seen from our side: hand it an order, get the number of the process.

There is one for each of our threads that starts commands, since what it bears is a child of that thread. It has no secrets,
dies with us, and is let go when it has had nothing to do for a while.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path

# As a module, and not as a script, the launcher is compiled once and not at every start.
_START = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import landlock_run; landlock_run.main()"
IDLE_SECONDS = 60.0
# A machine that cannot start a process in this time is in trouble that waiting does not cure.
_ANSWER_MS = 20_000
_here = threading.local()


class _Launcher:
    """One launcher: a process and our end of its socket."""

    def __init__(self) -> None:
        self.identity = _identity()
        self.idle: asyncio.TimerHandle | None = None
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(_ANSWER_MS / 1000)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        self.pid = process.pid
        self.close = weakref.finalize(self, _end, self.channel, process, self.identity)

    def launch(self, given: list[int]) -> int:
        """Hand over what belongs to an order and return the number of the process, zero if nobody is there any more."""
        answer, theirs = os.pipe()
        try:
            try:
                socket.send_fds(self.channel, [b"!"], [*given, theirs])
            except OSError:
                return 0
            finally:
                os.close(theirs)
            waiting = select.poll()
            waiting.register(answer, select.POLLIN)
            # Whatever comes too late finds nobody to answer to, and ends before it does anything.
            return int(os.read(answer, 20) or b"0") if waiting.poll(_ANSWER_MS) else 0
        finally:
            os.close(answer)


def launch(given: list[int]) -> int:
    """Return the number of the process that becomes the command: words, folder, input and output, as descriptors."""
    for _ in range(2):  # one that was killed is replaced
        launcher = _ready()
        if pid := launcher.launch(given):
            return pid
        launcher.close()
    raise OSError("the launcher of the sandbox does not answer")


def _ready() -> _Launcher:
    launcher: _Launcher | None = getattr(_here, "launcher", None)
    if launcher is None or not launcher.close.alive or launcher.identity != _identity():
        launcher = _here.launcher = _Launcher()
    if launcher.idle is not None:
        launcher.idle.cancel()
    with suppress(RuntimeError):  # no loop is running: then it stays until we end
        launcher.idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, launcher.close)
    return launcher


def _identity() -> tuple[object, ...]:
    """Return who we are. After a fork, or with other rights than before, a launcher is not ours any more."""
    return os.getpid(), os.getresuid(), os.getresgid(), os.getgroups()


def _end(channel: socket.socket, process: subprocess.Popen[bytes], identity: tuple[object, ...]) -> None:
    channel.close()
    if identity[0] == os.getpid():
        with suppress(PermissionError):  # we have given up the rights that it still has; it ends by itself
            process.kill()
        process.wait()
