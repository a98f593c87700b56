"""Homes by hand: brought into the rows of a fleet, taken out again byte for byte, sealed, bounded and removed.

Whatever is done here is fenced like everything else: who brings a home in holds it meanwhile, and no worker takes half of one.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from homarus.core.errors import ConfigError, Fenced, StorageError, Unknown
from homarus.fleet.database import Database
from homarus.fleet.objects import Store
from homarus.fleet.placement import TTL
from homarus.fleet.rows import INLINE, LARGEST_INLINE, Lease, Stored
from homarus.fleet.schema import FORMAT
from homarus.fleet.settings import refuse_name
from homarus.fleet.transfer import Item, lay_out, read_pieces, scan, shown

UNFINISHED = 1_000_000  # the format of a home that is being brought in: newer than what any worker takes
_BATCH, _MANY = 1 << 20, 200
SEAL_BYTES, MERGE_ROWS = 1 << 20, 64
PATIENCE = 30.0  # seconds for a worker to take an invitation in
STATE = ".openclaw"
INVITE = "invite:"  # how the keys of letters begin that are invitations, and no web hooks
Progress = Callable[[int, int, str], None]


class Invited(msgspec.Struct, frozen=True):
    """A device that the operator lets in without having seen it: the first that brings the code, until then."""

    digest: str
    until_ms: int


def source(folder: Path, skip: Callable[[str, str], None]) -> tuple[str, list[Item]]:
    """Return what a folder brings into a home: a whole home, or a state folder alone, whose path then goes before all names."""
    if (folder / STATE).is_dir():
        return "", list(scan(folder, skip=skip))
    if not (folder / "openclaw.json").is_file():
        raise ConfigError(
            f"{folder} is no home: it has neither {STATE} nor openclaw.json", cure="name a folder with a home in it"
        )
    return f"{STATE}/", [Item(STATE, folder.stat().st_mode), *scan(folder, below=STATE, skip=skip)]


def bring_in(
    database: Database,
    store: Store | None,
    home: str,
    folder: Path,
    *,
    tenant: str = "",
    replace: bool = False,
    progress: Progress = lambda _done, _all, _name: None,
) -> dict[str, Any]:
    """Make rows of a folder. They are all there, or the home is not. Raises ConfigError where the name is taken."""
    refuse_name(home)
    skipped: list[str] = []
    below, items = source(folder, lambda path, why: skipped.append(f"{shown(path)} {why}"))
    lease, fresh = _begun(database, home, tenant, replace=replace)
    size = 0
    try:
        batch: list[Stored] = []
        for number, item in enumerate(items, 1):
            row = _row(store, home, item, folder, item.path.removeprefix(below))
            if row is None:
                skipped.append(f"{shown(item.path)} is gone meanwhile")
                continue
            batch.append(row)
            size += row.size
            progress(number, len(items), shown(item.path))
            if len(batch) >= _MANY or sum(len(each.bytes or b"") for each in batch) >= _BATCH:
                _put(database, lease, batch)
                batch = []
        _put(database, lease, batch)
        _end(database, lease)
    except BaseException:
        if fresh:
            database.rows(
                "delete from home using lease where home.home = $1 and lease.home = $1 and epoch = $2",
                home,
                lease.epoch,
            )
        raise
    return {"home": home, "files": len(items) - len(skipped), "bytes": size, "skipped": skipped}


def _begun(database: Database, home: str, tenant: str, *, replace: bool) -> tuple[Lease, bool]:
    mover = f"import:{uuid4().hex[:12]}"
    made = database.rows(
        """with made as (insert into home (home, tenant, format) values ($1, $2, $4) on conflict do nothing returning home)
        insert into lease (home, epoch, worker, since) select home, 1, $3, clock_timestamp() from made returning epoch""",
        home, tenant, mover, UNFINISHED,
    )  # fmt: skip
    if made:
        return Lease(home, 1, mover), True
    if not replace:
        raise ConfigError(f"there is a home '{home}' already", cure="choose another name, or say --replace")
    taken = database.rows(
        """with marked as (update home set format = $3 where home = $1)
        update lease set epoch = epoch + 1, worker = $2, since = clock_timestamp(), wish = null where home = $1 returning epoch""",
        home, mover, UNFINISHED,
    )  # fmt: skip
    lease = Lease(home, taken[0]["epoch"], mover)
    _fenced(database, lease, "delete from line using mine where line.home = mine.home")
    _fenced(database, lease, "delete from file using mine where file.home = mine.home")
    return lease, False


def _fenced(database: Database, lease: Lease, change: str, *args: Any) -> None:
    mine = "with mine as (select home from lease where home = $1 and epoch = $2 and worker = $3 for share)"
    done = database.rows(
        f"{mine}, done as ({change}) select count(*) as held from mine",  # noqa: S608 - our own words
        lease.home,
        lease.epoch,
        lease.worker,
        *args,
    )
    if not done[0]["held"]:
        raise Fenced(f"home {lease.home} was taken by somebody else meanwhile")


def _row(store: Store | None, home: str, item: Item, root: Path, path: str) -> Stored | None:
    if item.is_folder or item.is_link:
        return Stored(item.path, item.mode, link=item.link if item.is_link else None)
    digest, size, first = hashlib.sha256(), 0, b""
    try:
        for piece in read_pieces(root, path, INLINE + 1):
            first = first or piece
            digest.update(piece)
            size += len(piece)
    except StorageError:
        if not os.path.lexists(root / path):
            return None
        raise
    if size <= INLINE:
        return Stored(item.path, item.mode, size, item.mtime_ns, digest.digest(), bytes=first)
    if store is None:
        if size > LARGEST_INLINE:
            raise ConfigError(f"{shown(item.path)} has {size:,} bytes and the fleet no store", cure="set 'objects'")
        whole = b"".join(read_pieces(root, path))
        return Stored(item.path, item.mode, len(whole), item.mtime_ns, hashlib.sha256(whole).digest(), bytes=whole)
    name = digest.hexdigest()
    store.put(home, name, read_pieces(root, path))
    return Stored(item.path, item.mode, size, item.mtime_ns, digest.digest(), object=name)


def _put(database: Database, lease: Lease, rows: list[Stored]) -> None:
    if not rows:
        return
    columns = [list(column) for column in zip(*map(msgspec.structs.astuple, rows), strict=True)]
    marks = ", ".join(f"${number}" for number in range(1, len(columns) + 4))
    done = database.rows(f"select put_files({marks}) as done", lease.home, lease.epoch, lease.worker, *columns)
    if not done[0]["done"]:
        raise Fenced(f"home {lease.home} was taken by somebody else meanwhile")


def _end(database: Database, lease: Lease) -> None:
    done = database.rows(
        """with mine as (update lease set worker = null, epoch = epoch + 1, since = clock_timestamp()
          where home = $1 and epoch = $2 and worker = $3 returning home)
        update home set format = $4 from mine where home.home = mine.home returning 1""",
        lease.home, lease.epoch, lease.worker, FORMAT,
    )  # fmt: skip
    if not done:
        raise Fenced(f"home {lease.home} was taken by somebody else meanwhile")


_EVERYTHING = """select path, -1::bigint as at, mode, size, mtime, bytes, object, link from file where home = $1
union all select path, at, null, null, null, bytes, null, null from line where home = $1 order by path, at"""


def take_out(database: Database, store: Store | None, home: str, target: Path) -> dict[str, Any]:
    """Make a folder of a home's rows as they are in one moment, also while somebody works with it. The home stays where it is."""
    known(database, home)
    counts = {"files": 0, "bytes": 0}
    groups = itertools.groupby(database.stream(_EVERYTHING, home), key=lambda row: row["path"])
    rows: dict[str, Iterator[Any]] = {}
    heads: dict[str, Any] = {}

    def items() -> Iterator[Item]:
        for path, group in groups:
            head = next(group)
            if head["at"] != -1:
                raise StorageError(f"{shown(path)} has lines and no file", cure="homarus fleet doctor")
            rows.clear()
            heads.clear()
            rows[path], heads[path] = group, head
            counts["files"] += 1
            kind = head["mode"] if stat.S_IFMT(head["mode"]) else head["mode"] | stat.S_IFREG
            yield Item(path, kind, head["size"], head["mtime"] or 0, head["link"] or "")

    def content(item: Item) -> Iterator[bytes]:
        place, head = 0, heads[item.path]
        first = _stored(store, home, item, head)
        for piece in itertools.chain(first, _lines(rows[item.path], item)):
            place += len(piece)
            counts["bytes"] += len(piece)
            yield piece

    lay_out(target, items(), content)
    return {"home": home, "folder": str(target), **counts}


def _stored(store: Store | None, home: str, item: Item, head: Any) -> Iterable[bytes]:
    if head["object"] is None:
        return [bytes(head["bytes"] or b"")]
    if store is None:
        raise ConfigError(f"{shown(item.path)} lies in a store of objects", cure="set 'objects' as the workers have it")
    return store.get(home, head["object"])


def _lines(rows: Iterator[Any], item: Item) -> Iterator[bytes]:
    place = item.size
    for row in rows:
        if row["at"] != place:
            raise StorageError(f"the lines of {shown(item.path)} have a hole at {place:,}", cure="homarus fleet doctor")
        place += len(row["bytes"])
        yield bytes(row["bytes"])


def merge(
    database: Database, lease: Lease, *, least: int = MERGE_ROWS, calm: Callable[[], bool] = lambda: True
) -> list[str]:
    """Make one row of many lines of a log; only the owner of a home may. The file stays what it is, byte for byte.

    `calm` says whether no write is on its way that began before: one that is asked again would find its row gone.
    """
    many = database.rows(
        """select path, max(at) as last from line where home = $1 group by path
        having count(*) >= $2 and sum(length(bytes)) < $3 order by path""",
        lease.home, least, SEAL_BYTES,
    )  # fmt: skip
    if not calm():
        return []
    done = []
    for found in many:
        # What is newer than what was counted is left alone; a log with a hole is left as it is for the doctor.
        merged = database.rows(
            """with mine as (select home from lease where home = $1 and epoch = $2 and worker = $3 for share),
            whole as (select min(at) as first, max(line.epoch) as epoch, string_agg(bytes, ''::bytea order by at) as bytes
              from line join mine using (home) where path = $4 and at <= $5
              having min(at) + sum(length(bytes)) = max(at + length(bytes)) and count(*) > 1),
            rest as (delete from line using whole where home = $1 and path = $4 and at > first and at <= $5)
            update line set bytes = whole.bytes, epoch = whole.epoch from whole where home = $1 and path = $4 and at = first
            returning 1""",
            lease.home, lease.epoch, lease.worker, found["path"], found["last"],
        )  # fmt: skip
        done += [found["path"]] if merged else []
    return done


def seal(
    database: Database,
    store: Store,
    lease: Lease,
    *,
    least: int = SEAL_BYTES,
    calm: Callable[[], bool] = lambda: True,
) -> list[str]:
    """Move the lines of long logs into the store, packed; only the owner of a home may. The file stays what it is, byte for byte."""
    long = database.rows(
        """select path, sum(length(bytes)) as size, max(at) as last from line where home = $1
        group by path having sum(length(bytes)) >= $2 order by path""",
        lease.home, least,
    )  # fmt: skip
    done = []
    for found in long:
        path = found["path"]
        head = database.rows("select * from file where home = $1 and path = $2", lease.home, path)[0]
        item = Item(path, head["mode"], head["size"])
        rows = database.rows("select at, bytes from line where home = $1 and path = $2 order by at", lease.home, path)
        if not calm():
            break
        whole = b"".join([*_stored(store, lease.home, item, head), *_lines(iter(rows), item)])
        digest = hashlib.sha256(whole)
        store.put(lease.home, digest.hexdigest(), [whole])
        # Whoever replaced or cut the file meanwhile changed one of these, and nothing is sealed.
        changed = database.rows(
            """with mine as (select home from lease where home = $1 and epoch = $2 and worker = $3 for share),
            same as (update file set object = $5, sha256 = $6, size = $7, bytes = null from mine
              where file.home = mine.home and path = $4 and size = $8 and sha256 is not distinct from $9
              and (select count(*) from line where home = $1 and path = $4 and at < $7) = $10 returning file.home)
            delete from line using same where line.home = same.home and path = $4 and at < $7 returning 1""",
            lease.home, lease.epoch, lease.worker, path, digest.hexdigest(), digest.digest(), len(whole),
            head["size"], head["sha256"], len(rows),
        )  # fmt: skip
        done += [path] if changed else []
    return done


def known(database: Database, home: str) -> Any:
    """Return the row of a home. Raises Unknown."""
    found = database.rows("select * from home where home = $1", home)
    if not found:
        raise Unknown(f"there is no home '{shown(home)}'", cure="see: homarus fleet homes")
    return found[0]


def bound(database: Database, home: str, quota: dict[str, Any]) -> dict[str, Any]:
    """Change what a home may use; None takes a value back to the fleet's. Returns what the home has of its own."""
    known(database, home)
    rows = database.rows(
        "update home set quota = jsonb_strip_nulls(quota || $2::jsonb) where home = $1 returning quota::text as quota",
        home, msgspec.json.encode(quota).decode(),
    )  # fmt: skip
    found: dict[str, Any] = msgspec.json.decode(rows[0]["quota"])
    return found


def invite(
    database: Database, home: str, *, seconds: float, patience: float = PATIENCE, pause: float = 0.2
) -> dict[str, Any]:
    """Let the first device into a home that brings the returned token in time; with the rights of the home's owner.

    It is a letter, so it is right whoever holds the home, and only a digest of it is kept. Waits a moment for the owner to take it in.
    """
    if known(database, home)["format"] > FORMAT:
        raise ConfigError(f"'{home}' is brought in by half, or by a newer version", cure="see: homarus fleet doctor")
    token = secrets.token_urlsafe(32)
    held = hashlib.sha256(token.encode()).hexdigest()
    now = database.rows("select (extract(epoch from clock_timestamp()) * 1000)::bigint as now")[0]["now"]
    until = now + int(seconds * 1000)
    key = f"{INVITE}{held[:32]}"
    database.rows(
        "insert into mail (home, key, body) values ($1, $2, $3)",
        home,
        key,
        msgspec.msgpack.encode(Invited(held, until)),
    )
    ends = time.monotonic() + patience
    while waits := database.rows(
        """select exists (select from worker where beat > clock_timestamp() - make_interval(secs => $3)) as alive
        from mail where home = $1 and key = $2""",
        home, key, TTL,
    ):  # fmt: skip
        if time.monotonic() > ends or not waits[0]["alive"]:
            break
        time.sleep(pause)
    return {"home": home, "token": token, "expiresAtMs": until, "taken": not waits}


def remove(database: Database, store: Store | None, home: str) -> int:
    """Forget a home and everything it stored: its owner is fenced in the same instant. Returns how many objects went."""
    known(database, home)
    database.rows("delete from home where home = $1", home)
    return store.remove_all(home) if store is not None else 0
