"""What each run of reflecting or dreaming changed, so that it can be undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.memory.bank.pages import change, read_page
from homarus.storage.atomic import ensure_dir, remove, write_atomic

JOURNAL, RUNS = ".memory/reflect", 20


def record(workspace: Path, before: dict[str, str], today: date) -> str:
    """Keep what the changed pages were, for `undo`; old runs go."""
    folder = workspace / JOURNAL
    ensure_dir(folder)
    runs = sorted(folder.glob("*.json"))
    number = int(runs[-1].stem.split("-")[0]) + 1 if runs else 1
    name = f"{number:06d}-{today.isoformat()}"
    after = {path: read_page(workspace, path) for path in before}
    write_atomic(folder / f"{name}.json", json.dumps({"before": before, "after": after}).encode())
    for old in runs[: max(0, len(runs) + 1 - RUNS)]:
        remove(old)
    return name


def runs(workspace: Path) -> list[str]:
    return sorted(path.stem for path in (workspace / JOURNAL).glob("*.json"))


def undo(workspace: Path, run: str = "") -> tuple[str, list[str], list[str]]:
    """Put the pages back as they were before a run (the last one, if none is named); return it, the pages, and those changed since."""
    runs = sorted((workspace / JOURNAL).glob("*.json"))
    chosen = next(
        (path for path in reversed(runs) if not run or path.stem == run or path.stem.startswith(f"{run}-")), None
    )
    if chosen is None:
        raise StorageError(
            f"there is no reflection '{run}' to undo" if run else "there is no reflection to undo",
            cure="'homarus memory undo --list' shows them",
        )
    told = json.loads(chosen.read_text(encoding="utf-8"))
    done: list[str] = []
    left: list[str] = []
    for path, text in told["before"].items():
        back = _if_unchanged(told["after"][path], text)
        if read_page(workspace, path) != told["after"][path]:
            left.append(path)
        elif text:
            change(workspace, path, back)
            done.append(path)
        else:
            remove(workspace / path)
            done.append(path)
    if not left:
        remove(chosen)
    return chosen.stem, done, left


def _if_unchanged(after: str, text: str) -> Callable[[str], str]:
    return lambda now: text if now == after else now
