"""A home as a folder and as a row of items, and back: nothing is lost and nothing is made up. Knows no database.

An item is a folder, a file or a link with its mode and, for files, when it changed. The names of derived databases are known here
too: they are made anew wherever the home lies, and travel nowhere.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.text import single_line
from homarus.storage.faults import write_all

PIECE = 256 << 10
_PIECE = 1 << 20
_ODD = re.compile("[\udc80-\udcff\uf8ff]")
_SPELLED = re.compile("\uf8ff([0-9a-f]{4})")
_BESIDE = ("-wal", "-shm", "-journal")
# What homarus makes from a home's own files, by its place below the state folder; and what speaks of a process on one machine.
_DERIVED = re.compile(
    r"\.openclaw(?:-[^/]+)?/(?:state/memory/[^/]+\.sqlite|homarus/sessions-search\.sqlite"
    r"|homarus/gateway\.(?:sock|lock)|models/.*|tmp/.*)"
    r"|(?:.*/)?\.memory/index\.sqlite|(?:.*/)?\.homarus-\d+-[0-9a-f]{16}\.tmp",
    re.DOTALL,
)


class Item(Struct, frozen=True):
    """One thing in a home. `path` is its name as text, parts divided by '/'; `mode` has the kind in it, as `lstat` gives it."""

    path: str
    mode: int
    size: int = 0
    mtime_ns: int = 0
    link: str = ""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


class Seen(Struct, frozen=True):
    """What a name on the disk was when the rows were last equal to it."""

    mode: int
    size: int = 0
    mtime_ns: int = 0
    ino: int = 0
    link: str | None = None


Skip = Callable[[str, str], None]
# Gives the bytes of a file, in pieces of any size.
Content = Callable[[Item], Iterable[bytes]]


def spelled(path: str) -> str:
    """Return a path as a row can hold it: bytes that are no UTF-8 are written in digits, and nothing else can look like them."""
    return _ODD.sub(lambda found: f"\uf8ff{ord(found[0]):04x}", path)


def unspelled(path: str) -> str:
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), path)


def is_derived(path: str) -> bool:
    """Say whether a file is made from the others, or belongs to one process: it is never stored."""
    base = next((path.removesuffix(end) for end in _BESIDE if path.endswith(end)), path)
    return _DERIVED.fullmatch(base) is not None


def scan(root: Path, *, below: str = "", skip: Skip = lambda _path, _why: None) -> Iterator[Item]:
    """Yield what lies in a folder, parents before children, by name. `below` goes before each path.

    What is neither file, folder nor link (a socket, a device) and what may not be read is named to `skip`.
    """
    yield from _scan(str(root), below, skip)


def _scan(folder: str, prefix: str, skip: Skip) -> Iterator[Item]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as problem:
        skip(prefix, f"cannot be read: {problem.strerror}")
        return
    for entry in entries:
        path = f"{prefix}/{spelled(entry.name)}" if prefix else spelled(entry.name)
        if is_derived(path):
            continue
        try:
            facts = entry.stat(follow_symlinks=False)
            link = spelled(os.readlink(entry.path)) if entry.is_symlink() else ""  # noqa: PTH115 - as it is
        except OSError as problem:
            skip(path, f"cannot be read: {problem.strerror}")
            continue
        if stat.S_ISDIR(facts.st_mode):
            yield Item(path, facts.st_mode)
            yield from _scan(entry.path, path, skip)
        elif stat.S_ISREG(facts.st_mode):
            yield Item(path, facts.st_mode, facts.st_size, facts.st_mtime_ns)
        elif link:
            yield Item(path, facts.st_mode, link=link)
        else:
            skip(path, "is no file, folder or link")


def read_pieces(root: Path, path: str, size: int = PIECE) -> Iterator[bytes]:
    """Yield the bytes of a file below a folder; a link in its place is refused."""
    try:
        fd = os.open(root / unspelled(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            while piece := file.read(size):
                yield piece
    except OSError as problem:
        raise StorageError(f"cannot read {shown(path)}: {problem.strerror}") from problem


def whole_lines(pieces: Iterable[bytes], size: int = PIECE) -> Iterator[bytes]:
    """Cut a log into pieces of about this size that end where a line ends; only the last may be without its end."""
    held = b""
    for piece in pieces:
        held += piece
        cut = held.rfind(b"\n") + 1
        if cut and len(held) >= size:
            yield held[:cut]
            held = held[cut:]
    if held:
        yield held


def lay_out(target: Path, items: Iterable[Item], content: Content) -> None:
    """Make a folder of items. It appears whole, with this name, or not at all; raises StorageError where the name is taken."""
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise StorageError(f"{target} is not empty", cure="name a folder that does not exist yet")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as problem:
        raise StorageError(f"cannot write {target}: {problem.strerror}", cure="name another place") from problem
    try:
        fill(Path(made), items, content)
        os.sync()
        Path(made).rename(target)
    except OSError as problem:
        raise StorageError(f"cannot write {target}: {problem.strerror}") from problem
    finally:
        shutil.rmtree(made, ignore_errors=True)


def fill(root: Path, items: Iterable[Item], content: Content) -> None:
    """Write items into a folder that nobody else writes to. A path that leads out of it, also through a link, is refused."""
    folders, links = dict[str, int](), set[str]()
    for item in items:
        parts = item.path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        if any(part in {"", ".", ".."} or "\0" in part for part in parts) or not links.isdisjoint(above):
            raise StorageError(f"{shown(item.path)} would lie outside the home", cure="its rows were tampered with")
        for each in above:
            if each not in folders:
                folders[each] = stat.S_IFDIR | 0o700
                (root / unspelled(each)).mkdir(0o700)
        place = root / unspelled(item.path)
        if item.is_folder:
            if item.path not in folders:
                place.mkdir(0o700)
            folders[item.path] = item.mode
        elif item.is_link:
            os.symlink(unspelled(item.link), place)  # noqa: PTH211 - a Path would tidy up where it leads
            links.add(item.path)
        else:
            _write(place, item, content(item))
    for path, mode in sorted(folders.items(), reverse=True):
        (root / unspelled(path)).chmod(mode & 0o777)


def _write(place: Path, item: Item, pieces: Iterable[bytes]) -> None:
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fchmod(fd, stat.S_IMODE(item.mode) & 0o777)
        if item.mtime_ns:
            os.utime(fd, ns=(item.mtime_ns, item.mtime_ns))


def shown(path: str) -> str:
    """Return a path as it may be shown to people: whoever named the file may have meant to move their cursor."""
    return single_line(path, 200)


def pieces_of(fd: int, size: int) -> Iterator[bytes]:
    place = 0
    while place < size and (piece := os.pread(fd, _PIECE, place)):
        yield piece
        place += len(piece)


def write_new(path: Path, pieces: Iterable[bytes], mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for piece in pieces:
            write_all(fd, piece)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def seen_of(found: os.stat_result) -> Seen:
    if stat.S_ISDIR(found.st_mode):
        return Seen(found.st_mode)
    return Seen(found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino)
