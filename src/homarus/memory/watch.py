"""Follow the notes in the background: after a pause without changes the index is brought up to date.

Searches do not depend on it (they look at the files themselves); it only does the work before somebody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from homarus.core.errors import ConfigError, HomarusError
from homarus.memory.files import SUFFIX
from homarus.memory.memory import Memory

Changes = Callable[[list[Path], int], AsyncIterator[object]]


async def watch(memory: Memory, *, changes: Changes | None = None, report: Callable[[str], None] | None = None) -> None:
    """Sync after every burst of changes until cancelled. A failure is reported and does not end the watch."""
    settings = memory.settings.sync
    source = changes or _watchfiles
    while True:
        folders = [folder for folder in memory.watched() if folder.is_dir()]
        if not folders:
            await memory.clock.sleep(max(1.0, settings.watch_debounce_ms / 1000))
            continue
        async for _ in source(folders, settings.watch_debounce_ms):
            try:
                await asyncio.to_thread(memory.sync, background=True)
            except HomarusError as problem:
                if report:
                    report(str(problem))
            if [folder for folder in memory.watched() if folder.is_dir()] != folders:
                break  # new folders: watch them too
        else:
            return


async def _watchfiles(folders: list[Path], debounce_ms: int) -> AsyncIterator[object]:
    try:
        from watchfiles import Change, awatch
    except ImportError:
        cure = "pip install 'homarus[memory]'; a search finds fresh lines without it"
        raise ConfigError("watching the notes needs the package watchfiles", cure=cure) from None

    def wanted(change: Change, path: str) -> bool:
        name = Path(path).name
        return not name.startswith(".") and (name.lower().endswith((SUFFIX, ".jsonl")) or "." not in name)

    async for found in awatch(
        *folders, watch_filter=wanted, debounce=max(50, debounce_ms), step=min(debounce_ms, 200), recursive=False
    ):
        yield found
