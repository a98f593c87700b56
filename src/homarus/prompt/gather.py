"""Look at the machine, once, at the edge: host, system, shell, zone, repository, documentation.

The only module of this package that touches the outside. What it returns are plain values for `facts.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path, PurePath

from msgspec import Struct

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Regions whose locales count the hours of a day twice to twelve.
_TWELVE = ("_US", "_CA", "_AU", "_NZ", "_IN", "_PH", "_PK", "_EG", "_SA", "_MX", "_CO", "_MY")
_PACKAGE = Path(__file__).resolve().parent.parent


class Machine(Struct, frozen=True):
    host: str = ""
    os: str = ""
    arch: str = ""
    python: str = ""
    shell: str = ""


def machine(env: Mapping[str, str]) -> Machine:
    """Return what is known of this computer; nothing here costs a process or an import of weight."""
    system = os.uname()
    version = ".".join(map(str, sys.version_info[:3]))
    return Machine(system.nodename, system.sysname, system.machine, version, PurePath(env.get("SHELL", "")).name)


def text_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text that every encoder takes; bytes of a name that are no UTF-8 show as replacement marks."""
    return os.fsencode(path).decode("utf-8", "replace")


def repo_root(configured: object, workspace: Path, cwd: Path) -> str:
    """Return the configured root if it is a folder, else the nearest repository above the workspace, then the cwd."""
    if isinstance(configured, str) and configured.strip():
        named = Path(configured.strip()).expanduser()
        if named.is_dir():
            return text_path(named)
    for start in (workspace, cwd):
        for folder in (start, *start.parents):
            # A worktree or a submodule has a file of that name.
            if (folder / ".git").exists():
                return text_path(folder)
    return ""


def zone_name(configured: object, env: Mapping[str, str], *, etc: Path = Path("/etc")) -> str:
    """Return the user's time zone: the configured one if it exists, else the host's, else UTC."""
    for name in (configured if isinstance(configured, str) else "", env.get("TZ", "").removeprefix(":")):
        if find_zone(name.strip()) is not None:
            return name.strip()
    files = (f"{etc}/timezone", f"{etc}/localtime")
    return _host_zone(files, tuple(map(_stamp, files)))


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return what changes when somebody sets the clock of this machine to another zone."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


@lru_cache(8)
def _host_zone(files: tuple[str, str], _stamps: tuple[object, ...]) -> str:
    """Return the zone that these files name. Every turn asks, and they are read when they changed."""
    named = _first_line(Path(files[0])).strip()
    if find_zone(named) is None:
        named = os.path.realpath(files[1]).partition("zoneinfo/")[2].strip()
    return "UTC" if find_zone(named) is None else named


def today(now: datetime, zone: str) -> str:
    """Return weekday and date where the user is, in words that no locale changes."""
    local = now.astimezone(find_zone(zone) or UTC)
    return f"{_DAYS[local.weekday()]} {local:%Y-%m-%d}"


def clock_time(moment: datetime, time_format: str, env: Mapping[str, str]) -> str:
    """Return the time of day as the user writes it: `12`, `24`, or (`auto`) as the locale of this machine has it."""
    named = next((env[name] for name in ("LC_ALL", "LC_TIME", "LANG") if env.get(name)), "")
    if time_format == "12" or (time_format != "24" and named.partition(".")[0].endswith(_TWELVE)):
        return f"{moment.hour % 12 or 12}:{moment:%M} {'AM' if moment.hour < 12 else 'PM'}"
    return f"{moment:%H:%M}"


def docs_path(package: Path = _PACKAGE) -> str:
    """Return the folder of this installation's documentation: inside an installed package, or beside `src`."""
    for folder in (package / "docs", package.parent.parent / "docs"):
        if (folder / "prompt.md").is_file():
            return text_path(folder)
    return ""


def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by its name, None if this machine knows none of that name."""
    if not name or name in {"UTC", "Etc/UTC"}:
        return UTC if name else None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(200)
    except OSError:
        return ""
