"""What many machines cost over one: fenced commits, the edge's hop, whole turns, a worker's death, a home's way in and out, idle homes, status. Wants Debian's postgresql."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.fleet_load import Stand, alone, failover, paced, saturated
from bench.measure import Ctx, Row, against

LINE = b'{"type":"message","text":"' + b"x" * 2000 + b'"}\n'
IDLE, LEASES, MEGABYTES = 10_000, 1_000_000, 40
HOMES, WORKERS, RATE = 40, 2, 100.0


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
        _empty(server)
        rows += _turns(ctx, server)
        _empty(server)
        rows += _status(ctx, server, database)
        _empty(server)
        return rows + _idle(ctx, server)


def _empty(server: Any) -> None:
    server.sql(
        "set search_path = homarus; truncate home cascade; delete from worker; update tally set count = 0; checkpoint"
    )


def _row(item: str, value: float, unit: str, target: float, *, least: bool = False) -> Row:
    """Return a figure beside what is wanted: at most so much, or at least."""
    text = f"{'at least' if least else 'at most'} {target:g} {unit}".strip()
    return Row(item, value, unit, text, target / value if least else value / target, 1.0)


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
        book.known["ada"] = Place(Quota(messages_per_second=10_000), owner)
        straight, through = await median(f"{owner}/x"), await median(f"{edge}/h/ada/x")
    await client.aclose()
    await http.aclose()
    return [Row("the edge's hop alone, p50 at 100/s", (through - straight) * 1000, "ms")]


def _turns(ctx: Ctx, server: Any) -> list[Row]:
    """Whole turns with a model of 20 ms: what they cost, how much longer they take than on one machine, and a worker's death."""
    with Stand(server, ctx.folder("turns"), HOMES, WORKERS) as stand, alone(ctx.folder("alone"), stand.port) as one:
        stand.settle()
        urls = [stand.url(home) for home in stand.homes]
        asyncio.run(saturated(urls, 2, "warm"))
        before = stand.spent()
        rate = asyncio.run(saturated(urls, 2 * ctx.runs, "many"))
        cost = {part: (now - before[part]) / (HOMES * (2 * ctx.runs + 1)) for part, now in stand.spent().items()}
        seconds = max(2.0, ctx.runs / 2)
        through = asyncio.run(paced(urls, RATE, seconds, "paced"))
        calm, straight = asyncio.run(_alone(one, seconds))
        over = asyncio.run(failover(stand, "w0"))
    taken, answered = (statistics.median(each) * 1000 for each in zip(*through, strict=True))
    # One home is one process. Where it cannot take that many, what is added is counted from a turn that nobody waits for.
    keeps_up = straight < 4 * calm
    floor = straight if keeps_up else calm
    beside = f"{RATE:g}/s" if keeps_up else f"{RATE / 10:g}/s; at {RATE:g}/s it takes {straight:.0f} ms"
    parts = ", ".join(f"{part} {each * 1000:.1f}" for part, each in cost.items())
    return [
        _row(f"what a fleet adds to a turn, p50 at {RATE:g}/s", answered - floor, "ms", 6),
        Row(f"  a turn through edge and worker, p50 at {RATE:g}/s", answered, "ms"),
        Row("  until it is acknowledged, p50", taken, "ms"),
        Row(f"  a turn on one machine alone, p50 at {beside}", floor, "ms"),
        _row("turns by CPU time on two cores, model of 20 ms", 2 / sum(cost.values()), "/s", 400, least=True),
        Row(f"  CPU of a turn ({parts})", sum(cost.values()) * 1000, "ms"),
        Row("  turns beside those who ask and the model, by the clock", rate, "/s"),
        _row(f"a worker's death, p50 of {len(over)} homes", statistics.median(over), "s", 3),
        Row("  the last of them", over[-1], "s"),
    ]


async def _alone(url: str, seconds: float) -> tuple[float, float]:
    """Return the median milliseconds of a turn on one machine alone: at a tenth of the rate, and at the fleet's.

    Few sockets, because each of them hears of every session of its home.
    """
    found = []
    for number, rate in enumerate((RATE / 10, RATE)):
        took = await paced([f"{url}?{each}" for each in range(8)], rate, seconds, f"straight{number}")
        found.append(statistics.median(answered for _, answered in took) * 1000)
    return found[0], found[1]


def _status(ctx: Ctx, server: Any, database: Any) -> list[Row]:
    from homarus.fleet.status import status

    server.sql(
        f"""set search_path = homarus; insert into home (home) select 'h' || n from generate_series(1, {LEASES}) n;
        insert into lease (home, worker) select 'h' || n, 'w' || n % 40 from generate_series(1, {LEASES}) n;
        insert into timer (home, due) select 'h' || n, now() + interval '1 hour' from generate_series(1, {LEASES}) n;
        insert into worker (name, address, version, homes) select 'w' || n, 'x', 1, {LEASES // 40} from generate_series(0, 39) n"""
    )
    asked = ctx.calls({"status": lambda: status(database)}, clock=time.perf_counter)["status"]
    words = [*ctx.homarus(), "fleet", "status"]
    env = {**os.environ, "HOMARUS_FLEET_DATABASE": server.dsn()}
    took, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(max(3, ctx.runs // 3)):
        began = time.perf_counter()
        subprocess.run(words, env=env, stdout=subprocess.DEVNULL, check=True)
        took.append(time.perf_counter() - began)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [
        _row(f"fleet status with {LEASES:,} leases, the command", statistics.median(took), "s", 0.5),
        Row("  its CPU time, most of it Python's start", spent / len(took), "s"),
        Row("  what it asks the database", asked * 1000, "ms"),
    ]


def _idle(ctx: Ctx, server: Any) -> list[Row]:
    server.sql(
        f"""set search_path = homarus; insert into home (home) select 'i' || n from generate_series(1, {IDLE}) n;
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
    return [_row(f"a worker with {IDLE:,} idle homes", kilobytes / 1024, "MB", 2048)]
