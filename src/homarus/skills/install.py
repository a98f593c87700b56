"""Skills from elsewhere: fetched from a folder, an archive or git, looked through, shown, copied, and locked by their bytes.

What is installed starts in quarantine: an agent may read it, and a turn that did may neither run commands nor reach the
network until the owner has approved the skill. One whose files change falls back into quarantine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import HomarusError
from homarus.core.patterns import late
from homarus.skills.audit import Finding, scan
from homarus.skills.header import SkillHeader, read_header
from homarus.skills.quarantine import LOCK
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.volume import changed

MAX_FILES, MAX_BYTES, GIT_SECONDS = 500, 20_000_000, 120
_ARCHIVES = (".zip", ".skill", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
_GIT = late(r"(?:https?|ssh|git|file)://.+|[\w.-]+@[\w.-]+:.+|.+\.git")
_URL = late(r"https?://(?:[^\s/@\"'`<>]{1,80}@)?([\w.-]{1,253}|\[[0-9a-f:.]+\])", re.IGNORECASE)
_PLACE = late(r"(?<![\w./])(?:~|/(?:etc|home|root|usr|var|opt|Users|Library))/[\w./-]{1,120}|\$HOME/[\w./-]{1,120}")
_NAME = late(r"[a-z0-9][a-z0-9._-]{0,63}")
_PROGRAMS = frozenset({".sh", ".bash", ".py", ".js", ".ts", ".mjs", ".rb", ".pl", ".ps1", ".bat", ".exe", ".command"})


class Wants(Struct, frozen=True):
    """What a skill asks for or names: nothing of it is granted by installing."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def beyond(self, other: Wants) -> tuple[str, ...]:
        """Return what this one names and the other does not."""
        pairs = ((field, set(getattr(self, field)) - set(getattr(other, field))) for field in self.__struct_fields__)
        return tuple(f"{field}: {', '.join(sorted(more))}" for field, more in pairs if more)


class Locked(Struct, frozen=True):
    """One installed skill: where it came from, its bytes, what it named then, and whether its owner approved it."""

    source: str
    sha256: str
    wants: Wants = Wants()
    approved: bool = False


class Candidate(Struct, frozen=True):
    """A skill that could be installed, looked through."""

    name: str
    folder: Path
    header: SkillHeader
    sha256: str
    wants: Wants
    findings: tuple[tuple[str, Finding], ...]

    def facts(self, source: str) -> dict[str, Any]:
        """Return what whoever may refuse it is told."""
        found = [f"{file}: {finding.rule}" for file, finding in self.findings]
        facts = {"kind": "skill", "name": self.name, "source": source, "folder": str(self.folder)}
        return {**facts, "sha256": self.sha256, "findings": found}


# Asked before a skill is put here. Raises HomarusError to refuse it.
Leave = Callable[[dict[str, Any]], None]


def _lets_all(_facts: dict[str, Any]) -> None:
    return None


class LockFile:
    """What was installed here, by name."""

    def __init__(self, own_dir: Path) -> None:
        self._path = own_dir / LOCK

    def read(self) -> dict[str, Locked]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Locked])
        except (OSError, ValueError):
            return {}

    def write(self, name: str, row: Locked | None) -> None:
        rows = {key: each for key, each in self.read().items() if key != name}
        ensure_dir(self._path.parent)
        write_atomic(self._path, msgspec.json.format(msgspec.json.encode({**rows, **({name: row} if row else {})})))


class Outcome(Struct, frozen=True):
    """What became of one skill. `more` is what it asks for beyond what it asked for before."""

    skill: Candidate
    installed: bool
    approved: bool = False
    changed: bool = True
    more: tuple[str, ...] = ()


def install(
    source: str, own_dir: Path, skills_dir: Path, *, anyway: bool = False, leave: Leave = _lets_all
) -> list[Outcome]:
    """Install the skills of a source into quarantine; what looks like an attack stays out unless `anyway`."""
    lock, done = LockFile(own_dir), []
    with fetched(source) as folder:
        offered = candidates(folder)
        for found in offered:  # all of them first: of a source that is refused nothing is put here
            leave(found.facts(_whole(source)))
        for found in offered:
            fine = anyway or not found.findings
            if fine:
                put(found, skills_dir)
                lock.write(found.name, Locked(_whole(source), found.sha256, found.wants))
            done.append(Outcome(found, fine))
    return done


def update(name: str, own_dir: Path, skills_dir: Path, *, force: bool = False, leave: Leave = _lets_all) -> Outcome:
    """Fetch an installed skill again. It stays approved only if it asks for nothing more and nothing in it is suspicious."""
    row = installed(name, own_dir)
    if digest(skills_dir / name) != row.sha256 and not force:
        raise HomarusError(
            f"the files of {name} were changed here", cure="keep them, or add --force to lose the changes"
        )
    with fetched(row.source) as folder:
        found = next((each for each in candidates(folder) if each.name == name), None)
        if found is None:
            raise HomarusError(f"{row.source} holds no skill '{name}' any more")
        more, same = found.wants.beyond(row.wants), found.sha256 == row.sha256
        leave(found.facts(row.source))
        put(found, skills_dir)
    approved = row.approved and (same or not (more or found.findings))
    LockFile(own_dir).write(name, replace(row, sha256=found.sha256, wants=found.wants, approved=approved))
    return Outcome(found, True, approved, not same, more)


def installed(name: str, own_dir: Path) -> Locked:
    """Return what is known of an installed skill. Raises HomarusError, which names those that are."""
    rows = LockFile(own_dir).read()
    if name not in rows:
        known = ", ".join(sorted(rows)) or "none"
        raise HomarusError(f"no skill '{name}' was installed", cure=f"installed are: {known}")
    return rows[name]


def _whole(source: str) -> str:
    """Return a source as it can be found again from every folder."""
    place, mark, part = source.partition("#")
    path = Path(place).expanduser()
    return f"{path.absolute()}{mark}{part}" if path.exists() else source


def quarantined(own_dir: Path, skills_dir: Path) -> dict[str, str]:
    """Return the installed skills that are not approved, or not as they were approved, and their folders."""
    found = {}
    for name, row in LockFile(own_dir).read().items():
        folder = skills_dir / name
        if folder.is_dir() and not (row.approved and _digest_or_none(folder) == row.sha256):
            found[name] = str(folder)
    return found


@contextmanager
def fetched(source: str) -> Iterator[Path]:
    """Yield a folder with what a source holds; it is gone afterwards. `source#folder` names a part of it."""
    place, _, part = source.partition("#")
    with TemporaryDirectory(prefix="homarus-skill-") as temporary:
        root = Path(temporary) / "skill"
        path = Path(place).expanduser()
        if path.is_dir() and not place.endswith(".git"):
            _copy(path, root)
        elif path.is_file() and place.lower().endswith(_ARCHIVES):
            root.mkdir()
            _unpack(path, root)
        elif _GIT.fullmatch(place):
            _clone(place, root)
        else:
            raise HomarusError(
                f"'{place}' is no folder, archive or git address", cure=f"archives are: {', '.join(_ARCHIVES)}"
            )
        inside = root / part if part else root
        if ".." in PurePosixPath(part).parts or not inside.is_dir():
            raise HomarusError(f"there is no folder '{part}' in {place}")
        yield inside


def candidates(folder: Path) -> list[Candidate]:
    """Return the skills in a folder: itself, or those below it."""
    files = [folder / "SKILL.md"] if (folder / "SKILL.md").is_file() else sorted(folder.rglob("SKILL.md"))[:50]
    if not files:
        raise HomarusError("there is no SKILL.md in it", cure="name the folder of a skill, or one above several")
    return [look(file.parent) for file in files]


def look(folder: Path) -> Candidate:
    """Look through one skill: its name, its bytes, what it names, and what in it is suspicious."""
    text = (folder / "SKILL.md").read_bytes()[:300_000].decode("utf-8", "replace")
    header = read_header(text)
    name = header.name or folder.name
    if not _NAME.fullmatch(name):
        raise HomarusError(f"'{name}' is no name for a skill", cure="small letters, digits and '-'")
    texts = {path.relative_to(folder).as_posix(): _text(path) for path in _files(folder)}
    findings = [(file, finding) for file, each in texts.items() for finding in scan(each)]
    whole = "\n".join(texts.values())
    programs = [file for file in texts if Path(file).suffix.lower() in _PROGRAMS or texts[file].startswith("#!")]
    wants = Wants(
        bins=tuple(sorted({*header.requires.bins, *header.requires.any_bins})),
        env=tuple(sorted({*header.requires.env, *([header.primary_env] if header.primary_env else [])})),
        hosts=tuple(sorted({match[1].lower() for match in _URL.finditer(whole)})[:50]),
        paths=tuple(sorted({match[0] for match in _PLACE.finditer(whole)})[:50]),
        programs=tuple(programs[:50]),
        tools=tuple(header.allowed_tools),
    )
    return Candidate(name, folder, header, digest(folder), wants, tuple(findings))


def put(candidate: Candidate, skills_dir: Path) -> Path:
    """Copy a skill to where installed ones lie, whole or not at all."""
    ensure_dir(skills_dir)
    target, fresh = skills_dir / candidate.name, skills_dir / f".{candidate.name}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    _copy(candidate.folder, fresh)
    old = skills_dir / f".{candidate.name}.old"
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    changed(target)
    return target


def digest(folder: Path) -> str:
    """Return what changes when any file of a skill does, by name or by content."""
    whole = hashlib.sha256()
    for path in _files(folder):
        mode = b"x" if path.stat().st_mode & 0o111 else b"-"
        whole.update(
            path.relative_to(folder).as_posix().encode() + b"\0" + mode + hashlib.sha256(path.read_bytes()).digest()
        )
    return whole.hexdigest()


def _digest_or_none(folder: Path) -> str | None:
    try:
        return digest(folder)
    except (HomarusError, OSError):
        return None


def _files(folder: Path) -> list[Path]:
    found, total = [], 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted([*names, *(each for each in folders if (Path(base) / each).is_symlink())]):
            path = Path(base) / name
            kind = path.lstat()
            if not stat.S_ISREG(kind.st_mode):
                raise HomarusError(
                    f"{path.relative_to(folder)} is no plain file", cure="a skill holds plain files only"
                )
            found.append(path)
            total += kind.st_size
        if len(found) > MAX_FILES or total > MAX_BYTES:
            raise HomarusError("that is too much for a skill", cure=f"at most {MAX_FILES} files and 20 MB")
    return sorted(found)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(1_000_000)
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def _copy(source: Path, target: Path) -> None:
    for path in _files(source):
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to, follow_symlinks=False)
        to.chmod(0o755 if path.stat().st_mode & 0o111 else 0o644)


def _unpack(path: Path, root: Path) -> None:
    """Unpack an archive: plain files only, none outside, and not more than a skill may have."""
    count = total = 0

    def room(name: str, size: int) -> Path:
        nonlocal count, total
        count, total = count + 1, total + size
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or count > MAX_FILES or total > MAX_BYTES:
            raise HomarusError(
                f"the archive holds '{name[:80]}', which leads outside or is too much", cure="do not use it"
            )
        target = root.joinpath(*parts.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    try:
        if zipfile.is_zipfile(path):
            _unzip(path, room)
        else:
            _untar(path, room)
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, RuntimeError) as problem:
        raise HomarusError(f"the archive cannot be read: {problem}") from None


def _unzip(path: Path, room: Callable[[str, int], Path]) -> None:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.flag_bits & 1:
                raise HomarusError("the archive has a password, so nothing can look into it", cure="do not use it")
            if stat.S_ISLNK(info.external_attr >> 16):
                raise HomarusError(f"the archive holds a link: {info.filename[:80]}", cure="do not use it")
            if not info.is_dir():
                with archive.open(info) as file:
                    target = room(info.filename, info.file_size)
                    target.write_bytes(file.read(MAX_BYTES))
                    target.chmod(0o755 if info.external_attr >> 16 & 0o111 else 0o644)


def _untar(path: Path, room: Callable[[str, int], Path]) -> None:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isdir():
                continue
            source = archive.extractfile(member) if member.isreg() else None
            if source is None:
                raise HomarusError(f"the archive holds no plain file: {member.name[:80]}", cure="do not use it")
            target = room(member.name, member.size)
            target.write_bytes(source.read())
            target.chmod(0o755 if member.mode & 0o111 else 0o644)


def _clone(address: str, root: Path) -> None:
    """Fetch a repository: its newest files, without hooks, submodules, filters or a password prompt."""
    if address.startswith("-"):
        raise HomarusError("that is no address")
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "core.symlinks=false"]
    env = {key: os.environ[key] for key in ("PATH", "HOME", "SSH_AUTH_SOCK") if key in os.environ}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1"}
    line = ["git", *safe, "clone", "--quiet", "--depth", "1", "--no-recurse-submodules", "--", address, str(root)]
    try:
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except FileNotFoundError:
        raise HomarusError("git is not installed", cure="install git") from None
    except subprocess.TimeoutExpired:
        raise HomarusError(f"git did not end within {GIT_SECONDS} s") from None
    if done.returncode:
        raise HomarusError(f"git could not fetch it: {done.stderr.strip()[-300:]}")
    shutil.rmtree(root / ".git", ignore_errors=True)
