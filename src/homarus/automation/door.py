"""A knock from one process of a home to the one that runs its jobs: something changed, look now. It says nothing else."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)


class Door:
    """A socket of the file system. Where there can be none, a change is seen within a minute all the same."""

    def __init__(self, path: Path, knocked: Callable[[], None]) -> None:
        self._path = path
        self._heard = knocked
        self._socket: socket.socket | None = None

    def open(self) -> None:
        self._path.unlink(missing_ok=True)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        door.setblocking(False)
        try:
            door.bind(str(self._path))
            self._path.chmod(0o600)
        except OSError as problem:  # such as a path that is too long
            _log.info("other processes cannot knock here: %s", problem)
            door.close()
            return
        self._socket = door
        asyncio.get_running_loop().add_reader(door, self._read, door)

    def _read(self, door: socket.socket) -> None:
        try:
            while door.recv(1):
                pass
        except OSError:
            pass
        self._heard()

    def knock(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            try:
                out.sendto(b".", str(self._path))
            except OSError:
                pass  # nobody runs jobs now

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)
