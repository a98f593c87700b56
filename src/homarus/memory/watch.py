"""Follow the notes in the background: after a pause without changes the index is brought up to date.

Searches do not depend on it (they look at the files themselves); it only does the work before somebody waits for it.
Between changes it costs nothing: it sleeps until the kernel has news.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

from homarus.core.errors import HomarusError
from homarus.memory.changes import News, Notices
from homarus.memory.files import SUFFIX
from homarus.memory.memory import Memory

Changes = Callable[[list[Path], int], AsyncIterator[object]]
_PATIENCE = 10  # a burst that does not end is indexed after this many pauses


async def watch(memory: Memory, *, changes: Changes | None = None, report: Callable[[str], None] | None = None) -> None:
    """Sync after every burst of changes until cancelled. A failure is reported and does not end the watch."""
    settings = memory.settings.sync

    async def bring_up_to_date() -> None:
        try:
            await _alone(worker)
        except HomarusError as problem:
            if report:
                report(str(problem))

    # A memory of its own: whoever asks the first one never waits for work in the background.
    with memory.twin() as worker:
        behind = settings.on_session_start
        while True:
            folders = worker.watched()
            source = changes or _source(folders)
            if source is None:
                return
            async with aclosing(_with_interval(source(folders, settings.watch_debounce_ms), memory)) as bursts:
                if behind:
                    await bring_up_to_date()
                async for burst in bursts:
                    await bring_up_to_date()
                    moved = not isinstance(burst, News) or burst.folders  # else there is no need to walk all folders
                    if moved and await asyncio.to_thread(worker.watched) != folders:
                        break  # new folders: watch them too
                else:
                    return
            behind = True  # what changed while nobody watched


async def _alone(worker: Memory) -> None:
    """Sync in a thread. Cancelled, it still waits for the thread, so that nobody closes the index under it."""
    running = asyncio.ensure_future(asyncio.to_thread(worker.sync, background=True))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(running, return_exceptions=True)
        raise


async def _with_interval(bursts: AsyncIterator[object], memory: Memory) -> AsyncGenerator[object]:
    """Yield with every burst and, if the settings name an interval, also when it has passed without one."""
    minutes = memory.settings.sync.interval_minutes
    following = asyncio.ensure_future(anext(bursts, None))
    try:
        while True:
            waiting = {following}
            timer = asyncio.ensure_future(memory.clock.sleep(60.0 * minutes)) if minutes > 0 else None
            try:
                await asyncio.wait(waiting | ({timer} if timer else set()), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if timer:
                    timer.cancel()
            if not following.done():
                yield News(set())
                continue
            found = following.result()
            if found is None:
                return
            yield found
            following = asyncio.ensure_future(anext(bursts, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _source(folders: list[Path]) -> Changes | None:
    notices = Notices.open(folders)
    if notices is not None:
        return lambda _, pause: _kernel(notices, pause)
    return _watchfiles if folders and find_spec("watchfiles") else None


async def _kernel(notices: Notices, debounce_ms: int) -> AsyncIterator[News]:
    """Yield once after every burst: news, and then a pause without any."""
    loop = asyncio.get_running_loop()
    awake = asyncio.Event()
    loop.add_reader(notices.fd, awake.set)
    try:
        while True:
            await awake.wait()
            burst = News(set())
            for _ in range(_PATIENCE):
                awake.clear()
                news = notices.read()
                if not _concerns(news):
                    break
                burst = News(burst.names | news.names, burst.folders or news.folders)
                await asyncio.sleep(debounce_ms / 1000)
            if _concerns(burst):
                yield burst
    finally:
        loop.remove_reader(notices.fd)
        notices.close()


def _concerns(news: News) -> bool:
    """Say whether any of this can be about a note or a transcript; lock files and the like are not."""
    return news.folders or any(_wanted(name) for name in news.names)


def _wanted(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((SUFFIX, ".jsonl"))


async def _watchfiles(folders: list[Path], debounce_ms: int) -> AsyncIterator[object]:
    from watchfiles import awatch

    def wanted(_: object, path: str) -> bool:
        name = Path(path).name
        return _wanted(name) or ("." not in name)

    step = max(50, min(debounce_ms, 1_000))  # how often it wakes up to look
    async for found in awatch(*folders, watch_filter=wanted, debounce=max(50, debounce_ms), step=step, recursive=False):
        yield found
