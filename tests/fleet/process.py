"""A worker as a process of its own: `python -m tests.fleet.process <dsn> <name> <root> <host> <secret>`; it prints its address."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

from tests.fleet.stacks import tell_on_signal

from homarus.fleet.database import Database
from homarus.fleet.worker import Worker, serve


async def main(dsn: str, name: str, root: str, host: str, secret: str) -> None:
    tell_on_signal()
    logging.basicConfig(format="%(created).2f %(name)s: %(message)s")
    logging.getLogger("homarus.fleet").setLevel(logging.INFO)
    with Database(dsn, name=name) as database:
        port = socket.create_server((host, 0))
        address = f"http://{host}:{port.getsockname()[1]}"
        worker = Worker(database, name, Path(root), secret=secret, env=os.environ)
        await serve(worker, port, address, ready=lambda _worker: print(address, flush=True))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
