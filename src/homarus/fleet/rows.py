"""One leased home as rows: a volume that commits before the disk follows, and the folder made from the rows again."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.errors import Fenced, StorageError
from homarus.fleet.commits import UPLOAD, Commits, again, refusal
from homarus.fleet.database import Database
from homarus.fleet.large import STREAMED, Objects, Uploads
from homarus.fleet.transfer import Seen, pieces_of, seen_of, spelled, unspelled, write_new
from homarus.storage.faults import shown, write_all
from homarus.storage.locks import held_paths

INLINE = 256 << 10  # larger files go to the object store, where there is one
_BATCH, _MANY = 4 << 20, 500  # bytes and names of changed files in one commit
RESERVE = 16 << 20
LARGEST_INLINE = 64 << 20  # what the database itself is given where there is no store
_OURS = re.compile(r"\.homarus-\d+-[0-9a-f]{16}\.tmp")
_BESIDE = ("", "-wal", "-shm", "-journal")


class Lease(msgspec.Struct, frozen=True):
    """The right to write a home: no older epoch can write any more."""

    home: str
    epoch: int
    worker: str


class Stored(msgspec.Struct, frozen=True):
    """A row of `file`, as `put_files` takes it."""

    path: str
    mode: int
    size: int = 0
    mtime: int | None = None
    sha256: bytes | None = None
    bytes: bytes | None = None
    object: str | None = None
    link: str | None = None


class HomeVolume:
    """The rows of one home under one lease. Once a write is refused, every later one is, and `lost` is told.

    Called from any thread. Writes of the home follow one another: the rows and the disk see the same order.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        folder: Path,
        *,
        objects: Objects | None = None,
        lost: Callable[[], None] = lambda: None,
        commits: Commits | None = None,
    ) -> None:
        self.lease, self.folder = lease, folder
        # Where there are commits, changes are durable a little later: `durable` waits for them.
        self._behind = commits.of(lease.home, lease.epoch, lease.worker, lost) if commits is not None else None
        self._fenced, self._needed = False, True
        self.written = 0  # bytes that were committed under this lease
        # What the home may keep. A log may go a little beyond, so that a home which is full can still be told to tidy up.
        self.most, self.most_files = 1 << 62, 1 << 62
        self._used = 0
        self.left_out: set[str] = set()
        self._database, self._objects, self._lost = database, objects, lost
        self._uploads = Uploads(objects) if objects is not None else None
        self._lock = threading.RLock()
        self._seen: dict[str, Seen] = {}
        self._derived: set[str] = set()
        self._waiting: list[tuple[str, int, int, bytes]] = []  # appends that need not be durable yet
        self.unknown = False  # whether the disk may differ

    @property
    def fenced(self) -> bool:
        return self._fenced or (self._behind is not None and self._behind.problem is not None)

    async def durable(self) -> None:
        """Return when the rows have all that storage was told to make durable. Raises StorageError where they never will."""
        if self._behind is None:
            return
        # What need not be durable rides along, unless another thread is just at it.
        if self._waiting and self._behind.done < self._behind.needed and self._lock.acquire(blocking=False):
            try:
                self.flush()
            finally:
                self._lock.release()
        await self._behind.durable()

    # What storage calls.

    def begin(self) -> None:
        self._lock.acquire()

    def end(self, path: str, problem: BaseException | None) -> None:
        try:
            if problem is None:
                self._note(path)
            elif not isinstance(problem, Fenced):
                if (before := self._seen.get(path)) is not None:  # whatever stands there now differs from the rows
                    self._remember(path, Seen(0, before.size))
                self.unknown = True
        finally:
            self._lock.release()

    def append(self, path: str, at: int, data: bytes, mode: int, *, durable: bool) -> None:
        with self._lock:
            self._check()
            if self.unknown:  # a line counts from the end of the file as it is now
                self._settle()
            if self._used + len(data) > self.most + RESERVE:
                raise _full(self.lease.home, self.most, self.most_files)
            self._waiting.append((spelled(path), stat.S_IFREG | mode, at, data))
            if durable:
                try:
                    self.flush()
                except Fenced:
                    raise
                except StorageError:
                    self._give_up()  # whether it was committed nobody knows: the next owner reads what is true
                    raise

    def put(self, path: str, fd: int, *, durable: bool) -> None:
        with self._lock:
            self._settle_first()
            if not self._fits(path, os.fstat(fd).st_size, RESERVE):
                raise _full(self.lease.home, self.most, self.most_files)
            self._put([self._stored(path, fd)], needed=durable)

    def make_dir(self, path: str, mode: int) -> None:
        with self._lock:
            self._settle_first()
            if not self._fits(path, 0, RESERVE):
                raise _full(self.lease.home, self.most, self.most_files)
            self._put([Stored(spelled(path), stat.S_IFDIR | mode)])

    def move(self, path: str, to: str) -> None:
        with self._lock:
            self._settle_first()
            self._commit("move_path", spelled(path), spelled(to))
            self._forget(to)
            for old in self._inside(path):
                self._seen[to + old[len(path) :]] = self._seen.pop(old)

    def remove(self, path: str) -> None:
        with self._lock:
            self._settle_first()
            self._commit("remove_paths", [spelled(path)])
            self._forget(path)

    def changed(self) -> None:
        self.unknown = True

    def derived(self, path: str) -> None:
        with self._lock:
            self._derived.update(path + suffix for suffix in _BESIDE)

    # What the worker calls.

    @property
    def waits(self) -> bool:
        """Say whether something is on this disk that is not committed yet."""
        return bool(self._waiting) or self.unknown

    @property
    def calm(self) -> int | None:
        """Return how many changes there were if none is on its way, else None."""
        if self.fenced or self._behind is None:
            return None if self.fenced else 0
        return self._behind.begun if self._behind.done >= self._behind.begun else None

    def flush(self) -> None:
        """Commit the appends that wait."""
        with self._lock:
            if self._waiting:
                paths, modes, offsets, pieces = map(list, zip(*self._waiting, strict=True))
                size = sum(map(len, pieces))
                self._commit("append_lines", paths, modes, offsets, pieces, size=size)
                self._waiting.clear()
                self.written += size

    def settle(self) -> list[str]:
        """Commit what changed on the disk without storage, and return those paths."""
        self._send_ahead()
        return self._settle()

    def _settle(self) -> list[str]:
        with self._lock:
            self.flush()
            self.unknown = False
            there, changed = dict(self._walk()), []
            self.left_out.clear()
            if gone := [path for path in self._seen if path not in there]:
                self._commit("remove_paths", [spelled(path) for path in gone])
                for path in gone:
                    self._remember(path, None)
            for path, now in there.items():
                before = self._seen.get(path)
                if now != before:
                    if before is not None and stat.S_IFMT(before.mode) != stat.S_IFMT(now.mode):
                        self._commit("remove_paths", [spelled(path)])
                    changed.append(path)
            self._keep({path: there[path] for path in changed})
            for path in self.left_out:
                self._take_back(path)
            if self._uploads is not None:
                self._uploads.done()
            return gone + changed

    def _send_ahead(self) -> None:
        """Bring large files to the store before the home stands still: its other writes need not wait for that."""
        if self._uploads is not None and not self.fenced:
            large = ((path, now) for path, now in self._walk() if now.size > STREAMED)
            self._uploads.ahead(
                self.folder,
                (path for path, now in large if now != self._seen.get(path) and self._fits(path, now.size)),
            )

    def tidy(self) -> None:
        """Let the rows follow, though nobody waits for it."""
        if self.unknown:
            self._send_ahead()
        with self._lock:
            self._needed = False
            try:
                self._settle() if self.unknown else self.flush()
            finally:
                self._needed = True

    def drop(self) -> None:
        """Refuse every write from now on: the home is somebody else's."""
        self._give_up(tell=False)

    def materialise(self) -> None:
        """Make the folder from the rows. What was there before, under another lease, must be gone."""
        files = self._database.rows("select * from file where home = $1 order by path", self.lease.home)
        modes: list[tuple[str, int]] = []
        for row in files:
            path = unspelled(row["path"])
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if row["link"] is not None:
                target.symlink_to(unspelled(row["link"]))
            elif stat.S_ISDIR(row["mode"]):
                target.mkdir(exist_ok=True)
                modes.append((path, row["mode"]))
            else:
                write_new(target, self._content(row), stat.S_IMODE(row["mode"]))
                if row["mtime"] is not None:
                    os.utime(target, ns=(row["mtime"], row["mtime"]))
        for path, pieces in self._lines().items():
            target = self.folder / path
            size = target.stat().st_size
            if pieces[0][0] != size or any(
                at + len(piece) != after for (at, piece), (after, _) in itertools.pairwise(pieces)
            ):
                raise StorageError(
                    f"the rows of {shown(path)} in home {self.lease.home} have a hole", cure="homarus fleet doctor"
                )
            fd = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                for _, piece in pieces:
                    write_all(fd, piece)
            finally:
                os.close(fd)
        for path, mode in sorted(modes, reverse=True):  # the innermost first: an outer one may forbid the way in
            (self.folder / path).chmod(stat.S_IMODE(mode))
        with self._lock:
            self._seen = dict(self._walk())
            self._used = sum(seen.size for seen in self._seen.values())

    # Inside.

    def _lines(self) -> dict[str, list[tuple[int, bytes]]]:
        found: dict[str, list[tuple[int, bytes]]] = {}
        for row in self._database.rows(
            "select path, at, bytes from line where home = $1 order by path, at", self.lease.home
        ):
            found.setdefault(unspelled(row["path"]), []).append((row["at"], row["bytes"]))
        return found

    def _content(self, row: Any) -> Iterator[bytes]:
        if row["object"] is None:
            yield row["bytes"] or b""
            return
        if self._objects is None:
            raise StorageError(f"{shown(row['path'])} lies in an object store, and none is set")
        digest = hashlib.sha256()
        for piece in self._objects.get_pieces(row["object"]):
            digest.update(piece)
            yield piece
        if digest.digest() != row["sha256"]:
            raise StorageError(f"the object of {shown(row['path'])} is damaged", cure="homarus fleet doctor")

    def _take_back(self, path: str) -> None:
        """Make the disk be again what the rows have, where a command made more than is kept: nobody fills a worker's disk by and by."""
        target, before = self.folder / path, self._seen.get(path)
        if before is None:
            shutil.rmtree(target, ignore_errors=True)
            target.unlink(missing_ok=True)
            return
        home, name = self.lease.home, spelled(path)
        rows = self._database.rows("select * from file where home = $1 and path = $2", home, name)
        lines = self._database.rows("select bytes from line where home = $1 and path = $2 order by at", home, name)
        if not rows or rows[0]["size"] + sum(len(line["bytes"]) for line in lines) != before.size:
            self.unknown = True  # the rows follow in a moment: then
            return
        made = target.with_name(f".homarus-{os.getpid()}-{secrets.token_hex(8)}.tmp")
        write_new(
            made, itertools.chain(self._content(rows[0]), (line["bytes"] for line in lines)), before.mode & 0o7777
        )
        os.utime(made, ns=(before.mtime_ns, before.mtime_ns))
        made.replace(target)
        self._note(path)

    def _check(self) -> None:
        if self._behind is not None and self._behind.problem is not None:
            raise again(self._behind.problem)
        if self._fenced:
            raise refusal(self.lease)

    def _commit(self, function: str, *args: Any, size: int = 0, needed: bool = True) -> None:
        """Carry one fenced change out, or see to it that it follows. Raises Fenced if the home is somebody else's."""
        self._check()
        if self._behind is not None:
            self._behind.add(function, args, size, needed=needed and self._needed)
            return
        marks = ", ".join(f"${number}" for number in range(1, len(args) + 4))
        lease = self.lease
        done = self._database.rows(f"select {function}({marks}) as done", lease.home, lease.epoch, lease.worker, *args)
        if not done[0]["done"]:
            self._give_up()
            raise refusal(lease)

    def _give_up(self, *, tell: bool = True) -> None:
        with self._lock:
            first, self._fenced = not self.fenced, True
            self._waiting.clear()
        if self._behind is not None:
            self._behind.give_up(refusal(self.lease))
        if first and tell:
            self._lost()

    def _settle_first(self) -> None:
        self._check()
        self._settle() if self.unknown else self.flush()

    def _stored(self, path: str, fd: int) -> Stored:
        """Return the row of an open file; a large content goes to the object store first."""
        found = os.fstat(fd)
        if found.st_size > STREAMED and self._uploads is not None:
            self._check()
            sha = self._uploads.digest(path, fd, found)
            return Stored(spelled(path), found.st_mode, found.st_size, found.st_mtime_ns, sha, object=sha.hex())
        data = b"".join(pieces_of(fd, found.st_size))
        digest, name = hashlib.sha256(data), None
        if self._objects is not None and len(data) > INLINE:
            self._check()
            name = digest.hexdigest()
            if self._behind is not None:
                self._behind.add(UPLOAD, (self._objects.put, name, data), len(data), needed=self._needed)
            else:
                self._objects.put(name, data)
        inline = None if name else data
        return Stored(
            spelled(path), found.st_mode, len(data), found.st_mtime_ns, digest.digest(), bytes=inline, object=name
        )

    def _put(self, rows: list[Stored], *, needed: bool = True) -> None:
        columns = [list(column) for column in zip(*map(msgspec.structs.astuple, rows), strict=True)]
        self._commit("put_files", *columns, size=sum(len(row.bytes or b"") for row in rows), needed=needed)
        self.written += sum(row.size for row in rows)

    def _keep(self, changed: dict[str, Seen]) -> None:
        """Put what stands on the disk under these names, many in one commit."""
        batch: list[tuple[str, Seen, Stored]] = []
        for path, now in changed.items():
            pending = sum(kept.size for _, kept, _ in batch), len(batch)
            outside = path.rpartition("/")[0] in self.left_out
            if outside or not self._fits(path, now.size, pending=pending):
                self.left_out.add(path)
                continue
            row = self._look(path, now)
            if row is not None:
                batch.append((path, *row))
            if len(batch) >= _MANY or sum(len(stored.bytes or b"") for _, _, stored in batch) > _BATCH:
                self._put_batch(batch)
                batch = []
        self._put_batch(batch)

    def _put_batch(self, batch: list[tuple[str, Seen, Stored]]) -> None:
        if batch:
            self._put([stored for _, _, stored in batch])
            for path, now, _ in batch:
                self._remember(path, now)

    def _look(self, path: str, now: Seen) -> tuple[Seen, Stored] | None:
        """Return a name of the disk as a row; None for what is gone, or may not be read, and for what is just being written."""
        if stat.S_ISDIR(now.mode) or now.link is not None:
            return now, Stored(spelled(path), now.mode, link=None if now.link is None else spelled(now.link))
        try:
            fd = os.open(self.folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            before = os.fstat(fd)
            try:
                stored = self._stored(path, fd)
            except StorageError:
                if seen_of(before) == seen_of(os.fstat(fd)):
                    raise
                self.unknown = True
                return None
            if seen_of(before) != seen_of(os.fstat(fd)):
                self.unknown = True  # once more, with the next write
            return seen_of(before), stored
        finally:
            os.close(fd)

    def _fits(self, path: str, size: int, reserve: int = 0, pending: tuple[int, int] = (0, 0)) -> bool:
        """Say whether a file may be kept at this size. One that becomes smaller always may."""
        before = self._seen.get(path)
        too_many = before is None and len(self._seen) + pending[1] >= self.most_files + bool(reserve) * _MANY
        if too_many or (self._objects is None and size > LARGEST_INLINE):
            return False  # also what is empty is a row
        grows = size - (before.size if before is not None else 0)
        return grows <= 0 or self._used + pending[0] + grows <= self.most + reserve

    def _note(self, path: str) -> None:
        """Remember how the disk looks now that it followed."""
        try:
            self._remember(path, seen_of(os.lstat(f"{self.folder}/{path}")))
        except OSError:  # a command took it away: the rows hear of it with the next look
            self.unknown = self.unknown or path in self._seen

    def _remember(self, path: str, now: Seen | None) -> None:
        before = self._seen.pop(path, None)
        self._used += (now.size if now is not None else 0) - (before.size if before is not None else 0)
        if now is not None:
            self._seen[path] = now

    def _inside(self, path: str) -> list[str]:
        return [name for name in self._seen if name == path or name.startswith(f"{path}/")]

    def _forget(self, path: str) -> None:
        for name in self._inside(path):
            self._remember(name, None)

    def _walk(self, inside: str = "", held: set[str] | None = None) -> Iterator[tuple[str, Seen]]:
        """Yield what stands on the disk and is to be kept: files, links and folders, outer ones first."""
        held = held_paths() if held is None else held
        try:
            with os.scandir(self.folder / inside) as entries:
                found = list(entries)
        except OSError:
            return
        for entry in found:
            path = f"{inside}/{entry.name}" if inside else entry.name
            if path in self._derived or entry.path in held or _OURS.fullmatch(entry.name):
                continue
            try:
                seen = entry.stat(follow_symlinks=False)
                link = os.readlink(entry.path) if stat.S_ISLNK(seen.st_mode) else None  # noqa: PTH115 - a name of any bytes
            except OSError:
                continue  # gone in this moment
            if stat.S_ISDIR(seen.st_mode):
                yield path, Seen(seen.st_mode)
                yield from self._walk(path, held)
            elif link is not None:
                yield path, Seen(seen.st_mode, link=link)
            elif stat.S_ISREG(seen.st_mode):
                yield path, seen_of(seen)


def _full(home: str, most: int, files: int) -> StorageError:
    what = f"home {home} has used up its {most:,} bytes or {files:,} files"
    return StorageError(what, cure="remove files, or ask for a larger quota")
