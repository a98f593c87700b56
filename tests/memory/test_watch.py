from __future__ import annotations

import asyncio

import pytest

from homarus.memory.changes import Freshness
from homarus.memory.watch import watch


async def test_changes_are_indexed_in_the_background(notes):
    notes.write("memory/a.md", "one\n")
    memory = notes.open()
    asked = []

    async def changes(folders, debounce):
        asked.append((sorted(folder.name for folder in folders), debounce))
        notes.write("memory/b.md", "two\n")
        yield object()

    await watch(memory, changes=changes)
    assert asked == [(["memory", "workspace"], 1500)]
    assert memory.status().files == 2
    assert memory.status().stale == ""


async def test_new_folders_are_watched_too(notes):
    notes.write("memory/a.md", "one\n")
    memory = notes.open()
    asked = []

    async def changes(folders, debounce):
        asked.append(len(folders))
        if len(asked) == 1:
            notes.write("memory/new/b.md", "two\n")
        yield object()

    await watch(memory, changes=changes)
    assert asked == [2, 3]


async def test_the_real_watcher_sees_a_new_note(notes):
    notes.write("memory/a.md", "one\n")
    memory = notes.open()
    import msgspec

    sync = msgspec.structs.replace(memory.settings.sync, watch_debounce_ms=60)
    memory.settings = msgspec.structs.replace(memory.settings, sync=sync)
    memory.sync()
    task = asyncio.create_task(watch(memory))
    try:
        for attempt in range(900):
            notes.write(f"memory/b{attempt}.md", "two\n")  # again, should the watcher not be up yet
            await asyncio.sleep(0.1)
            if memory.status().files > 1:
                break
        assert memory.status().files > 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_freshness_asks_the_disk_only_after_a_notice(notes):
    path = notes.write("memory/a.md", "one\n")
    memory = notes.open()
    fresh = Freshness(memory.notes, None, lambda: 0.0)
    assert fresh.maybe_changed()  # the first question
    assert fresh.maybe_changed()  # watching starts
    fresh.maybe_changed()
    if not fresh.blind:
        assert not fresh.maybe_changed()
    path.write_text("two\n")
    assert fresh.maybe_changed()
    notes.write("memory/sub/b.md", "three\n")
    assert fresh.maybe_changed()
    fresh.maybe_changed()
    notes.write("memory/sub/c.md", "four\n")
    assert fresh.maybe_changed()
    fresh.close()
    assert fresh.maybe_changed()


def test_time_makes_it_look_again(notes):
    notes.write("memory/a.md", "one\n")
    now = [0.0]
    fresh = Freshness(notes.open().notes, None, lambda: now[0])
    for _ in range(3):
        fresh.maybe_changed()
    now[0] = 1.5
    assert fresh.maybe_changed()
    fresh.close()


def test_more_folders_than_anybody_has_are_watched_as_well(notes):
    for number in range(4_200):
        (notes.root / "memory" / f"{number % 70}" / f"{number}").mkdir(parents=True)
    fresh = Freshness(notes.open().notes, None, lambda: 0.0)
    for _ in range(3):  # the first question, the start of the watch, and what happened before it
        fresh.maybe_changed()
    if fresh.blind:
        pytest.skip("this kernel watches fewer folders")
    assert not fresh.maybe_changed()
    notes.write("memory/7/77/a.md", "one\n")
    assert fresh.maybe_changed()
    fresh.close()
