"""What many machines cost over one: fenced commits, the edge's hop, a home's way in and out, idle homes, status. Wants Debian's postgresql."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.measure import Ctx, Row, against

LINE = b'{"type":"message","text":"' + b"x" * 2000 + b'"}\n'
IDLE, LEASES, MEGABYTES = 10_000, 200_000, 40


def run(ctx: Ctx) -> list[Row]:
    """Measure against a server of its own, with fsync on; nothing where there is none."""
    if not (shutil.which("postgres") or list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))):
        print("fleet: no Postgres here (Debian: postgresql)", file=sys.stderr)
        return []
    from tests.fleet.postgres import running

    from homarus.fleet.database import Database

    with running() as server, Database(server.dsn()) as database:
        database.migrate()
        rows = [*_appends(ctx, database), *_in_and_out(ctx, database), *asyncio.run(_edge(ctx))]
        rows += _status(server, database)
        return rows + _idle(ctx, server)


def _lease(database: Any, home: str) -> Any:
    from homarus.fleet.placement import Placement

    async def take() -> Any:
        placement = Placement(database, f"bench-{home}", ttl=3600)
        await placement.join("http://127.0.0.1:1")
        await placement.add(home)
        return await placement.take(home)

    return asyncio.run(take())


def _appends(ctx: Ctx, database: Any) -> list[Row]:
    from homarus.fleet.rows import HomeVolume

    volume, at = HomeVolume(database, _lease(database, "one"), ctx.folder("one")), [0]
    bare = os.open(ctx.folder("bare") / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def fenced() -> None:
        volume.append("log.jsonl", at[0], LINE, 0o600, durable=True)
        at[0] += len(LINE)

    def synced() -> None:
        os.write(bare, LINE)
        os.fdatasync(bare)

    wall = ctx.calls({"fenced": fenced, "bare": synced}, number=20, clock=time.perf_counter)
    os.close(bare)
    many = [HomeVolume(database, _lease(database, f"many{n}"), ctx.folder(f"many{n}")) for n in range(8)]
    count = 100

    def work(each: HomeVolume) -> None:
        for number in range(count):
            each.append("log.jsonl", number * len(LINE), LINE, 0o600, durable=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(len(many)) as pool:
        list(pool.map(work, many))
    rate = len(many) * count / (time.perf_counter() - began)
    return [
        against("fenced append of 2 kB", wall["fenced"], "append and fdatasync here", wall["bare"]),
        Row("fenced appends of 8 homes", rate, "/s"),
    ]


def _in_and_out(ctx: Ctx, database: Any) -> list[Row]:
    from homarus.fleet.homes import bring_in, take_out
    from homarus.fleet.objects import Folder, Store

    home, store = ctx.folder("laptop"), Store(Folder(ctx.folder("objects")))
    (home / ".openclaw").mkdir()
    for number in range(MEGABYTES):
        (home / f"{number}.bin").write_bytes(os.urandom(1 << 20))
    for number in range(500):
        (home / f"{number}.md").write_bytes(LINE)
    began = time.perf_counter()
    bring_in(database, store, "moved", home)
    middle = time.perf_counter()
    take_out(database, store, "moved", ctx.folder("back") / "home")
    ended = time.perf_counter()
    store.close()
    return [
        Row("import of a home, 500 small files and large ones", MEGABYTES / (middle - began), "MB/s"),
        Row("export of it", MEGABYTES / (ended - middle), "MB/s"),
    ]


async def _edge(ctx: Ctx) -> list[Row]:
    """A request a hundredth of a second, straight to an owner and through the edge."""
    from tests.fleet.test_edge import Book, Owner, served

    from homarus.fleet.edge import Edge, Place
    from homarus.fleet.settings import Fleet, Quota
    from homarus.net.client import HttpClient

    book, http, client = Book(), HttpClient(most=1000), HttpClient()

    async def median(url: str) -> float:
        took = []
        for _ in range(30 * ctx.runs):
            began = time.perf_counter()
            reply = await client.request("GET", url)
            await reply.read(1000)
            await reply.close()
            took.append(time.perf_counter() - began)
            await asyncio.sleep(max(0.0, 0.01 - took[-1]))
        return statistics.median(took)

    async with served(Owner()) as owner, served(Edge(Fleet(secret="s" * 32), book, http)) as edge:
        book.places["ada"] = Place(Quota(messages_per_second=10_000), owner)
        straight, through = await median(f"{owner}/x"), await median(f"{edge}/h/ada/x")
    await client.aclose()
    await http.aclose()
    return [
        Row(
            "the edge's hop, p50 at 100/s", (through - straight) * 1000, "ms", "6 ms", (through - straight) / 0.006, 1.0
        )
    ]


def _status(server: Any, database: Any) -> list[Row]:
    from homarus.fleet.status import status

    server.sql(
        f"""set search_path = homarus; insert into home (home) select 'h' || n from generate_series(1, {LEASES}) n;
        insert into lease (home, worker) select 'h' || n, 'w' || n % 40 from generate_series(1, {LEASES}) n"""
    )
    began = time.perf_counter()
    for _ in range(10):
        status(database)
    each = (time.perf_counter() - began) / 10
    return [Row(f"status with {LEASES:,} leases", each * 1000, "ms", "500 ms", each / 0.5, 1.0)]


def _idle(ctx: Ctx, server: Any) -> list[Row]:
    server.sql(
        f"""set search_path = homarus; truncate home cascade; delete from worker; update tally set count = 0;
        insert into home (home) select 'i' || n from generate_series(1, {IDLE}) n;
        insert into lease (home) select 'i' || n from generate_series(1, {IDLE}) n"""
    )
    env = {**os.environ, "HOMARUS_FLEET_DATABASE": server.dsn(), "HOMARUS_FLEET_SECRET": "s" * 32}
    env["HOMARUS_FLEET_ROOT"] = str(ctx.folder("homes"))
    words = [sys.executable, "-m", "homarus", "fleet", "worker", "--name", "idle"]
    worker = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 300
        while int(server.sql("select coalesce(max(homes), 0) from homarus.worker")) < IDLE and time.monotonic() < ends:
            time.sleep(0.5)
        facts = Path(f"/proc/{worker.pid}/status").read_text()
        kilobytes = int(facts.partition("VmRSS:")[2].split()[0])
    finally:
        worker.kill()
        worker.wait(60)
    return [Row(f"a worker with {IDLE:,} idle homes", kilobytes / 1024, "MB", "2 GB", kilobytes / (2 << 20), 1.0)]
