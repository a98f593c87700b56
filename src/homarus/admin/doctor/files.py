"""Checks of files and folders: permissions, damage, left-overs, room on the disk."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from homarus.admin.doctor.finding import Finding, Home, Severity, ok
from homarus.core.text import human_bytes
from homarus.storage.atomic import sweep_temps
from homarus.storage.locks import holder

LOW_BYTES = 200_000_000
_MAX_LISTED = 20
_PRIVATE_FILES = ("openclaw.json", ".env", "credentials/oauth.json")
_PRIVATE_PATTERNS = ("agents/*/agent/auth-profiles.json", "agents/*/agent/auth.json", "agents/*/sessions/sessions.json")
_TEMP_FOLDERS = (".", "agents/*/agent", "agents/*/sessions", "homarus", "homarus/inbox", "cron")


def check_state(home: Home) -> list[Finding]:
    """The state folder: there, ours to write, and closed to others."""
    folder = home.config.paths.state_dir
    try:
        found = folder.stat()
    except FileNotFoundError:
        return [Finding("state.missing", Severity.INFO, "there is no home yet", str(folder), "run 'homarus setup'")]
    except OSError as problem:
        return [
            Finding(
                "state.unreadable",
                Severity.ERROR,
                f"cannot be read: {problem.strerror}",
                str(folder),
                "check its owner and permissions",
            )
        ]
    if not stat.S_ISDIR(found.st_mode):
        cure = "move it away, then run 'homarus setup'"
        return [Finding("state.no_folder", Severity.ERROR, "is a file, not a folder", str(folder), cure)]
    findings = []
    if not os.access(folder, os.W_OK):
        findings.append(
            Finding(
                "state.read_only", Severity.ERROR, "cannot be written", str(folder), "check its owner, or free the disk"
            )
        )
    if found.st_uid != os.getuid() and os.getuid() != 0:
        findings.append(
            Finding(
                "state.owner",
                Severity.WARNING,
                f"belongs to user {found.st_uid}",
                str(folder),
                f"chown -R {os.getuid()} {folder}",
            )
        )
    findings += _open_to_others("state.permissions", folder, found.st_mode, 0o700)
    return findings or ok("state", f"{folder} is private and writable")


def check_permissions(home: Home) -> list[Finding]:
    """Files with secrets or conversations: readable by nobody else."""
    state = home.config.paths.state_dir
    paths = [state / name for name in _PRIVATE_FILES]
    paths += [path for pattern in _PRIVATE_PATTERNS for path in state.glob(pattern)]
    findings = [
        finding
        for path in paths
        if (mode := _mode(path)) is not None
        for finding in _open_to_others("files.permissions", path, mode, 0o600)
    ]
    return findings or ok("files.permissions", "private files are private")


def check_locks(home: Home) -> list[Finding]:
    """Lock files that outlived their process: harmless for us, but they stop an older program."""
    findings = []
    for path in _some(home.config.paths.state_dir.glob("agents/*/sessions/*.lock")):
        if holder(path) is None and not _legacy_owner_alive(path):
            findings.append(
                Finding("locks.stale", Severity.WARNING, "its process is gone", str(path), "remove it", _remover(path))
            )
    return findings or ok("locks", "no stale lock")


def check_temps(home: Home) -> list[Finding]:
    """Half-written temp files of killed processes."""
    state = home.config.paths.state_dir
    findings = []
    for pattern in _TEMP_FOLDERS:
        for folder in state.glob(pattern) if "*" in pattern else [state / pattern]:
            if folder.is_dir() and any(folder.glob(".homarus-*.tmp")):
                findings.append(
                    Finding(
                        "files.leftovers",
                        Severity.INFO,
                        "holds temp files of a killed process",
                        str(folder),
                        "remove them",
                        _sweeper(folder),
                    )
                )
    return findings or ok("files.leftovers", "no left-overs")


def check_set_aside(home: Home) -> list[Finding]:
    """Damaged files that were moved aside: nothing was lost, and somebody should look."""
    state = home.config.paths.state_dir
    aside = [path for path in _some(state.glob("**/*.corrupt.*")) if path.is_file()]
    return [
        Finding(
            "files.set_aside",
            Severity.INFO,
            "a damaged file was moved aside here",
            str(path),
            "look at it, then delete it",
        )
        for path in aside
    ] or ok("files.set_aside", "no damaged file was moved aside")


def check_disk(home: Home) -> list[Finding]:
    """Room on the disk; a full one makes every write fail, safely but surely."""
    folder = home.config.paths.state_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < LOW_BYTES:
        return [Finding("disk.low", Severity.WARNING, f"only {human_bytes(free)} are free", str(folder), "make room")]
    return ok("disk", f"{human_bytes(free)} are free")


def _open_to_others(check: str, path: Path, mode: int, wanted: int) -> list[Finding]:
    if stat.S_IMODE(mode) & 0o077 == 0:
        return []
    message = f"is open to other users ({stat.S_IMODE(mode):04o})"
    return [Finding(check, Severity.WARNING, message, str(path), f"chmod {wanted:o} {path}", _closer(path, wanted))]


def _closer(path: Path, mode: int) -> Callable[[], str]:
    def fix() -> str:
        path.chmod(mode)
        return f"closed {path} to other users"

    return fix


def _remover(path: Path) -> Callable[[], str]:
    def fix() -> str:
        if holder(path) is None:
            path.unlink(missing_ok=True)
        return f"removed {path}"

    return fix


def _sweeper(folder: Path) -> Callable[[], str]:
    def fix() -> str:
        return f"removed {len(sweep_temps(folder))} temp files from {folder}"

    return fix


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _legacy_owner_alive(path: Path) -> bool:
    """OpenClaw's lock files hold a process id and no kernel lock."""
    try:
        pid = json.loads(path.read_bytes()[:4096]).get("pid")
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, TypeError, AttributeError):
        return False
    return True


def _some(paths: Iterator[Path]) -> list[Path]:
    found = []
    for path in paths:
        found.append(path)
        if len(found) >= _MAX_LISTED:
            break
    return sorted(found)
