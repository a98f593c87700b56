"""A port for a server that cannot be told to take any: one that nobody else gets until this process ends."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

# Below what systems give to whoever asks for any port, so that no connection and no other test comes to have it by chance.
_LOWEST, _HIGHEST = 18_000, 32_000
_held: list[IO[bytes]] = []


def own_port() -> int:
    """Return a port that is free, and held for this process against every other that asks here."""
    folder = Path(tempfile.gettempdir()) / f"homarus-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.sample(range(_LOWEST, _HIGHEST), 500):
        lock = (folder / str(port)).open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", port)):
                _held.append(lock)
                return port
        except OSError as problem:
            lock.close()
            if problem.errno not in {errno.EAGAIN, errno.EACCES, errno.EADDRINUSE}:
                raise
    raise AssertionError("no port is free")
