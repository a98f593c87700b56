"""A home in one file and back: an archive with a manifest of hashes. Making one never overwrites, restoring never mixes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from homarus import __version__
from homarus.config.view import Config
from homarus.core.clock import iso_ms
from homarus.core.errors import HomarusError
from homarus.storage.atomic import ensure_dir, move_aside
from homarus.storage.locks import holder
from homarus.workspace.agents import all_workspaces

MANIFEST, FORMAT = "manifest.json", 1
STATE = "state"
_SQLITE = b"SQLite format 3\x00"
_CHUNK = 1 << 20
_MAX_MANIFEST = 256 << 20
# Folders that can be fetched or made again, and what a database has beside it: the copy of it holds that already.
_LEFT_OUT = frozenset({"state/models", "state/tmp"})
_LEFT_OUT_ANYWHERE = frozenset({"node_modules", "__pycache__"})
_BESIDE = ("-wal", "-shm", "-journal")
_DAMAGED = "it is damaged, or it was cut off, or it is no backup of homarus; take another one"
Progress = Callable[[int, int, str], None]


class Entry(Struct, frozen=True):
    size: int
    sha256: str
    mode: int
    # Where a link leads, inside its own folder.
    link: str = ""


class Manifest(Struct, frozen=True, kw_only=True):
    format: int
    made: str
    version: str
    # The folders of the home: their name in the archive, and where they were.
    roots: dict[str, str]
    files: dict[str, Entry]
    skipped: tuple[str, ...] = ()


def roots_of(config: Config, env: Mapping[str, str]) -> dict[str, Path]:
    """Return the folders of a home: its state, and every workspace that lies elsewhere."""
    paths = config.paths
    found = {STATE: paths.state_dir}
    outside = [each for each in all_workspaces(config, env) if not each.is_relative_to(paths.state_dir)]
    found |= {f"workspace-{number}": each for number, each in enumerate(outside, 1) if each.is_dir()}
    if not paths.config_path.is_relative_to(paths.state_dir):
        found["config"] = paths.config_path
    return found


def create(
    roots: Mapping[str, Path], target: Path, now: datetime, progress: Progress = lambda _done, _all, _name: None
) -> Manifest:
    """Write an archive. Raises where it exists already, or would lie in what it holds."""
    target = target.absolute()
    for path in roots.values():
        if target.resolve().is_relative_to(path.resolve()):
            raise HomarusError(f"{target} lies inside {path}", cure="write the archive somewhere else")
    if target.exists():
        raise HomarusError(f"{target} exists already", cure="name another file; nothing is overwritten")
    if not roots[STATE].is_dir():
        raise HomarusError(f"there is no home at {roots[STATE]}", cure="run 'homarus setup'")
    part = target.with_name(f"{target.name}.part")
    files: dict[str, Entry] = {}
    skipped: list[str] = []
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise HomarusError(f"{part} is left from a backup that was cut off", cure="delete it") from None
    except OSError as problem:
        raise HomarusError(f"cannot write {part}: {problem.strerror}", cure="name another place") from None
    try:
        with os.fdopen(fd, "wb") as out, tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as archive:
            listed = [(each, path) for name, path in roots.items() for each in _walk(name, path, skipped)]
            for number, ((inner, source), path) in enumerate(listed, 1):
                progress(number, len(listed), inner)
                entry = _add(archive, inner, source, path, skipped)
                if entry is not None:
                    files[inner] = entry
            made = {"made": iso_ms(now), "version": __version__, "roots": {n: str(p) for n, p in roots.items()}}
            manifest = Manifest(format=FORMAT, files=files, skipped=tuple(skipped), **made)  # type: ignore[arg-type]
            _put(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
            archive.close()
            out.flush()
            os.fsync(out.fileno())
        os.link(part, target)  # fails where somebody was faster
    except FileExistsError:
        raise HomarusError(f"{target} exists already", cure="name another file") from None
    finally:
        part.unlink(missing_ok=True)
    return manifest


def _walk(name: str, path: Path, skipped: list[str]) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield f"{name}/{path.name}", path
        return
    for folder, folders, names in os.walk(path):
        here = Path(folder)
        inner = PurePosixPath(name, *here.relative_to(path).parts)
        for each in sorted(folders):
            if each in _LEFT_OUT_ANYWHERE or f"{inner}/{each}" in _LEFT_OUT:
                folders.remove(each)
                skipped.append(f"{inner}/{each}/")
            elif (here / each).is_symlink():
                folders.remove(each)
                names.append(each)
        folders.sort()
        for each in sorted(names):
            base = next((each.removesuffix(end) for end in _BESIDE if each.endswith(end)), "")
            if base not in names:
                yield str(inner / each), here / each


def _add(archive: tarfile.TarFile, inner: str, source: Path, root: Path, skipped: list[str]) -> Entry | None:
    """Add one file as it is at this moment: what grows meanwhile is cut, a database is copied by its own means."""
    try:
        found = source.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            where = str(source.readlink())
            inside = not where.startswith("/") and (source.parent / where).resolve().is_relative_to(root.resolve())
            if not inside:
                skipped.append(f"{inner} (a link to {where})")
                return None
            info = tarfile.TarInfo(inner)
            info.type, info.linkname = tarfile.SYMTYPE, where
            archive.addfile(info)
            return Entry(0, "", mode, where)
        if not stat.S_ISREG(found.st_mode):
            skipped.append(inner)
            return None
        with source.open("rb") as file:
            if file.read(len(_SQLITE)) == _SQLITE:
                data = _database(source)
                return _put(archive, inner, data, mode)
            file.seek(0)
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.sha256()
            info = tarfile.TarInfo(inner)
            info.size, info.mode, info.mtime = size, mode, int(found.st_mtime)
            archive.addfile(info, _Exactly(file, size, digest))  # type: ignore[arg-type]
            return Entry(size, digest.hexdigest(), mode)
    except FileNotFoundError:
        skipped.append(f"{inner} (gone meanwhile)")
        return None
    except PermissionError:
        skipped.append(f"{inner} (may not be read)")
        return None


class _Exactly:
    """Reads so many bytes of a file and hashes them; one that became shorter is filled up, so that the archive stays whole."""

    def __init__(self, file: Any, size: int, digest: Any) -> None:
        self._file, self._left, self._digest = file, size, digest

    def read(self, wanted: int) -> bytes:
        data = self._file.read(min(wanted, self._left)).ljust(min(wanted, self._left), b"\0")
        self._left -= len(data)
        self._digest.update(data)
        return bytes(data)


def _database(path: Path) -> bytes:
    """Return a whole copy of a database that others may be writing."""
    with tempfile.TemporaryDirectory(prefix="homarus-backup-") as folder:
        copy = Path(folder) / "copy"
        try:
            address = f"{path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            return copy.read_bytes()
        except sqlite3.Error:
            return path.read_bytes()  # damaged: kept as it is


def _put(archive: tarfile.TarFile, inner: str, data: bytes, mode: int = 0o600) -> Entry:
    info = tarfile.TarInfo(inner)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))
    return Entry(len(data), hashlib.sha256(data).hexdigest(), mode)


def verify(path: Path) -> tuple[Manifest, list[str]]:
    """Read a whole archive and return its manifest and everything that is wrong with it. Nothing is written."""
    problems: list[str] = []
    seen: dict[str, Entry] = {}
    manifest: Manifest | None = None
    with _opened(path) as archive:
        for member in archive:
            if member.name in seen or (member.name == MANIFEST and manifest is not None):
                problems.append(f"{member.name} is there twice")
            elif not is_safe(member.name) or not (member.isreg() or member.issym()):
                problems.append(f"{member.name} is no name or kind of file that belongs into a backup")
            elif member.issym():
                seen[member.name] = Entry(0, "", 0, member.linkname)
            elif member.name == MANIFEST:
                manifest = _manifest(archive, member)
            else:
                digest, file = hashlib.sha256(), archive.extractfile(member)
                while file is not None and (data := file.read(_CHUNK)):
                    digest.update(data)
                seen[member.name] = Entry(member.size, digest.hexdigest(), 0)
    if manifest is None:
        raise HomarusError(f"{path} has no manifest at its end", cure=_DAMAGED)
    for name, entry in manifest.files.items():
        found = seen.pop(name, None)
        if found is None:
            problems.append(f"{name} is missing")
        elif (found.size, found.sha256, found.link) != (entry.size, entry.sha256, entry.link):
            problems.append(f"{name} is not what was saved")
        elif entry.link and not _stays(name, entry.link):
            problems.append(f"{name} is a link that leads out")
        elif name.partition("/")[0] not in manifest.roots:
            problems.append(f"{name} belongs to no folder of the home")
    problems += [f"{name} is not in the manifest" for name in seen]
    return manifest, problems


def is_safe(name: str) -> bool:
    """Say whether a name in an archive stays below the folder into which it is unpacked."""
    parts = PurePosixPath(name).parts
    plain = name == str(PurePosixPath(name)) and "\\" not in name and "\0" not in name
    return bool(parts) and plain and not name.startswith("/") and ".." not in parts


def _stays(name: str, link: str) -> bool:
    where = os.path.normpath(f"{os.path.dirname(name)}/{link}")
    return not link.startswith("/") and where.partition("/")[0] == name.partition("/")[0]


def _manifest(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Manifest:
    file = archive.extractfile(member)
    data = file.read(_MAX_MANIFEST) if file is not None else b""
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise HomarusError(f"the manifest cannot be read: {problem}", cure=_DAMAGED) from None
    if found.format != FORMAT or STATE not in found.roots:
        raise HomarusError(f"the backup has the format {found.format}; this program reads {FORMAT}", cure=_DAMAGED)
    return found


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (FileNotFoundError, IsADirectoryError, PermissionError) as problem:
        raise HomarusError(f"cannot read {path}: {problem.strerror}", cure="check the path") from None
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as problem:
        raise HomarusError(f"cannot read {path}: {problem}", cure=_DAMAGED) from None


def restore(path: Path, places: Mapping[str, Path], now: datetime, *, replace: bool = False) -> list[str]:
    """Put a home back and say what was done. The archive is checked first, and nothing of an old home is overwritten or mixed in.

    With `replace` what is in the way is moved aside, with the moment in its name.
    """
    manifest, problems = verify(path)
    if problems:
        raise HomarusError(f"{path} is damaged: {problems[0]} ({len(problems)} problems)", cure="take another backup")
    for name in manifest.roots:
        place = places[name]
        _refuse_where_used(place)
        if not replace and place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise HomarusError(f"{place} is not empty", cure="--replace moves it aside first, or use --to FOLDER")
    with ExitStack() as held:
        fresh: dict[str, Path] = {}
        for name in manifest.roots:
            ensure_dir(places[name].parent)
            made = tempfile.mkdtemp(prefix=f".{places[name].name}.", dir=places[name].parent)
            held.callback(shutil.rmtree, made, ignore_errors=True)
            fresh[name] = Path(made)
        with _opened(path) as archive:
            for member in archive:
                root, _, inner = member.name.partition("/")
                if inner and member.name in manifest.files:
                    _unpack(archive, member, fresh[root] / inner, manifest.files[member.name])
        return _swap(fresh, places, now)


def _swap(made: Mapping[str, Path], places: Mapping[str, Path], now: datetime) -> list[str]:
    """Put what was unpacked in its place, and what was there aside."""
    done = []
    for name, fresh in made.items():
        place = places[name]
        if place.exists() and not (place.is_dir() and not any(place.iterdir())):
            done.append(f"moved {place} to {move_aside(place, 'before-restore', now)}")
        elif place.exists():
            place.rmdir()
        if name == "config":
            next(fresh.iterdir()).replace(place)
        else:
            fresh.replace(place)
        done.append(f"restored {place}")
    return done


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, entry: Entry) -> None:
    ensure_dir(target.parent)
    if entry.link:
        target.symlink_to(entry.link)
        return
    file = archive.extractfile(member)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        while file is not None and (data := file.read(_CHUNK)):
            out.write(data)
        os.fchmod(out.fileno(), entry.mode & 0o755)  # nothing becomes writable for others, or more
        out.flush()
        os.fsync(out.fileno())


def _refuse_where_used(place: Path) -> None:
    """Raise where a gateway serves a home, or somebody has one of its sessions open."""
    for pattern in ("*/gateway.lock", "agents/*/sessions/*.lock"):
        for user in filter(None, map(holder, sorted(place.glob(pattern)))):
            if user.get("purpose") == "gateway":
                raise HomarusError(f"a gateway serves this home: pid {user.get('pid')}", cure="homarus gateway stop")
            raise HomarusError(f"pid {user.get('pid')} has a session of this home open", cure="end that program first")
