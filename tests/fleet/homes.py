"""Leased homes for tests, and whether two folders are the same to the byte."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.served import Key

from homarus.core.clock import SystemClock, SystemIds
from homarus.fleet.database import Database
from homarus.fleet.placement import Placement
from homarus.fleet.rows import HomeVolume, Lease
from homarus.gateway.devices import Devices, Pending
from homarus.gateway.scopes import ALL
from homarus.storage.volume import mount, unmount

DEVICE = Key()  # of everybody who talks to a home in these tests: nobody is local who comes through the edge


def pair(folder: Path, key: Key = DEVICE) -> str:
    """Let a device into a home that lies in a folder, as its owner would have; return its token."""
    devices = Devices(folder / ".openclaw" / "homarus" / "devices.json", SystemClock(), SystemIds())
    return devices.pair(Pending("", key.id, key.text, (), "test", 0), ALL, "owner")[1]


def taken(database: Database, home: str, worker: str = "one", *, ttl: float = 3600.0) -> Lease:
    """Make a home if there is none, and let a worker take it from whoever has it."""

    async def take() -> Lease:
        placement = Placement(database, worker, ttl=ttl)
        await placement.join(f"http://{worker}")
        await placement.add(home)
        database.rows("update lease set worker = null where home = $1", home)
        lease = await placement.take(home)
        assert lease is not None
        return lease

    return asyncio.run(take())


@contextmanager
def mounted(database: Database, lease: Lease, folder: Path, **given):
    """Give the folder of a leased home, made from its rows and kept in them; with `commits`, at the end at the latest."""
    folder.mkdir(parents=True)
    volume = HomeVolume(database, lease, Path(os.path.realpath(folder)), **given)
    volume.materialise()
    mount(str(folder), volume)
    try:
        yield volume
        if not volume.fenced:
            asyncio.run(volume.durable())
    finally:
        unmount(str(folder))


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every name below a folder with its mode and its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            content = os.fsencode(os.readlink(path))
        else:
            content = path.read_bytes() if stat.S_ISREG(state.st_mode) else b""
        found[str(path.relative_to(folder))] = (state.st_mode, content)
    return found
