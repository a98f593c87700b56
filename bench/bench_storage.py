"""What durable files cost on this disk, against the bare system calls that no program can do without."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

import msgspec

from bench.measure import Ctx, Row, against
from homarus.storage.atomic import write_atomic
from homarus.storage.boundary import Root
from homarus.storage.cache import BoundedCache
from homarus.storage.jsonl import JsonlWriter, read_lines, read_lines_reversed
from homarus.storage.sqlite import open_database, transaction

PAGE = os.urandom(4096)
RECORD = {"type": "message", "id": "0123abcd", "message": {"role": "user", "content": "Where did I put my keys? " * 18}}
LINE = msgspec.json.encode(RECORD) + b"\n"


def run(ctx: Ctx) -> list[Row]:
    """Measure writing, reading and the cache; wall time where the disk decides, CPU time elsewhere."""
    return [*_whole_files(ctx), *_appends(ctx), *_reads(ctx), *_database(ctx), *_guarded(ctx), *_cache(ctx)]


def _whole_files(ctx: Ctx) -> list[Row]:
    folder = ctx.folder("atomic")
    by_hand = os.open(folder, os.O_RDONLY)

    def bare() -> None:
        fd = os.open(folder / "bare.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, PAGE)
        os.fsync(fd)
        os.close(fd)
        os.rename(folder / "bare.tmp", folder / "bare")
        os.fsync(by_hand)

    functions = {"ours": lambda: write_atomic(folder / "ours", PAGE), "bare": bare}
    wall = ctx.calls(functions, number=5, clock=time.perf_counter)
    cpu = ctx.calls(functions, number=5)
    os.close(by_hand)
    label = "write, fsync, rename, fsync"
    return [
        against("atomic write of 4 kB", wall["ours"], label, wall["bare"], 2.0),
        against("atomic write of 4 kB: CPU", cpu["ours"], label, cpu["bare"]),
    ]


def _appends(ctx: Ctx) -> list[Row]:
    folder = ctx.folder("append")
    log = JsonlWriter.open(folder / "ours")
    bare = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def synced() -> None:
        os.write(bare, LINE)
        os.fdatasync(bare)

    wall = ctx.calls({"ours": lambda: log.append(RECORD), "bare": synced}, number=10, clock=time.perf_counter)
    cpu = ctx.calls(
        {
            "ours": lambda: log.append(RECORD, durable=False),
            "bare": lambda: os.write(bare, json.dumps(RECORD).encode() + b"\n"),
        },
        number=200,
    )
    log.close()
    os.close(bare)
    return [
        against("durable append of 0.5 kB", wall["ours"], "write, fdatasync", wall["bare"], 1.5),
        against("append without sync: CPU", cpu["ours"], "json.dumps, write", cpu["bare"]),
    ]


def _reads(ctx: Ctx) -> list[Row]:
    folder = ctx.folder("read")
    huge, small = folder / "huge", folder / "small"
    small.write_bytes(LINE * 2000)
    with huge.open("wb") as file:
        file.truncate(500_000_000)  # a hole: its size counts, its bytes do not
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + LINE * 2000)

    def tail(path: Path) -> None:
        lines = read_lines_reversed(path)
        for _ in range(20):
            next(lines)
        lines.close()

    def whole() -> None:
        for line in small.read_bytes().splitlines():
            json.loads(line)

    def open_for_writing(path: Path) -> None:
        JsonlWriter.open(path).close()

    seconds = ctx.calls(
        {
            "huge": lambda: tail(huge),
            "small": lambda: tail(small),
            "open huge": lambda: open_for_writing(huge),
            "open small": lambda: open_for_writing(small),
            "stream": lambda: list(read_lines(small)),
            "whole": whole,
        },
        number=5,
    )
    return [
        against("last 20 lines of a 500 MB log", seconds["huge"], "of a 1 MB log", seconds["small"], 1.5),
        against("open a 500 MB log for appending", seconds["open huge"], "a 1 MB log", seconds["open small"], 1.5),
        against("read 2,000 lines", seconds["stream"], "read whole, json.loads", seconds["whole"], 1.5),
    ]


def _database(ctx: Ctx) -> list[Row]:
    folder = ctx.folder("sqlite")
    schema = "CREATE TABLE t (text TEXT)"
    ours = open_database(folder / "ours.db", schema=schema, version=1)
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    bare.execute("PRAGMA journal_mode = WAL")
    bare.execute("PRAGMA synchronous = NORMAL")
    bare.execute(schema)

    def commit() -> None:
        with transaction(ours):
            ours.execute("INSERT INTO t VALUES ('x')")

    seconds = ctx.calls({"ours": commit, "bare": lambda: bare.execute("INSERT INTO t VALUES ('x')")}, number=50)
    ours.close()
    bare.close()
    return [against("SQLite transaction: CPU", seconds["ours"], "bare commit", seconds["bare"], 2.0)]


def _guarded(ctx: Ctx) -> list[Row]:
    folder = ctx.folder("guarded")
    (folder / "AGENTS.md").write_bytes(PAGE * 2)
    with Root(folder) as root:
        seconds = ctx.calls(
            {
                "read": lambda: root.read("AGENTS.md", max_bytes=1 << 21),
                "fingerprint": lambda: root.fingerprint("AGENTS.md"),
                "bare": (folder / "AGENTS.md").read_bytes,
            },
            number=200,
        )
    return [
        against("guarded read of 8 kB", seconds["read"], "plain read", seconds["bare"]),
        against("guarded fingerprint", seconds["fingerprint"], "plain read", seconds["bare"]),
    ]


def _cache(ctx: Ctx) -> list[Row]:
    cache: BoundedCache[int, bytes] = BoundedCache(100)
    plain = {}
    for number in range(100):
        cache.put(number, PAGE)
        plain[number] = PAGE
    seconds = ctx.calls({"ours": lambda: cache.get(50), "bare": lambda: plain.get(50)}, number=20_000)
    return [against("cache hit", seconds["ours"], "dict", seconds["bare"])]
