"""Put an agent's folders away: moved as they are, never deleted, and never one that holds something else."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from homarus.core.clock import iso_ms
from homarus.core.errors import Denied, StorageError
from homarus.storage.atomic import ensure_dir


def refuse_shared(folder: Path, keep: Iterable[Path]) -> None:
    """Raise if moving this folder would take along one that must stay: the home, the state, another's workspace."""
    real = folder.resolve()
    for other in keep:
        if other.resolve().is_relative_to(real):
            raise Denied(f"{folder} is not put away, because {other} lies in it; move by hand what you want gone")


def trash_place(trash: Path, name: str, now: datetime) -> Path:
    """Return a new place in the trash for what belongs together; it sorts by time and never holds older things."""
    stamp = iso_ms(now).replace(":", "-")
    place, count = trash / f"{name}-{stamp}", 1
    while os.path.lexists(place):
        count += 1
        place = trash / f"{name}-{stamp}-{count}"
    return place


def put_away(folder: Path, place: Path, label: str) -> Path | None:
    """Move a folder to `place/label` and return where it is now; None if there was none."""
    if not os.path.lexists(folder):
        return None
    target = place / label
    ensure_dir(place)
    try:
        folder.rename(target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise StorageError(
                f"cannot move {folder} to {target}: {problem.strerror}", cure="check permissions, or move it by hand"
            ) from problem
        _move_across(folder, target)
    return target


def _move_across(folder: Path, target: Path) -> None:
    import shutil

    try:
        shutil.move(folder, target)
    except (OSError, shutil.Error) as problem:
        raise StorageError(
            f"cannot move {folder} to {target}: {problem}", cure="nothing was deleted; move it by hand"
        ) from problem
