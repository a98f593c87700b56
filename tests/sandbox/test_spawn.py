"""The end of a process is heard of once, by whichever way the machine has."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable

import pytest

from homarus.sandbox.spawn import Process, adopt, spawn


def refused(_: int) -> int:
    raise OSError("no descriptor is left")


def by_descriptor(line: list[str]) -> Process:
    nothing = subprocess.DEVNULL
    return spawn(line, (nothing, nothing, nothing), cwd="/", env=None, held=())


def by_thread(line: list[str]) -> Process:
    process = subprocess.Popen(line)
    return Process(process.pid, process.wait, refused)


def adopted(line: list[str]) -> Process:
    return adopt(os.posix_spawn(line[0], line, {}))


WAYS = [by_descriptor, by_thread, adopted]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("sleep 0.05; exit 7", 7), ("kill -9 $$", -9)])
async def test_an_end_is_heard_of_once(way: Callable[[list[str]], Process], script: str, code: int) -> None:
    process, heard = way(["/bin/sh", "-c", script]), list[str]()
    process.then(lambda: heard.append("first"))
    async with asyncio.timeout(60):
        await process.ended.wait()
    process.then(lambda: heard.append("late"))
    assert heard == ["first", "late"]
    assert [process.reap(), process.reap()] == [code, code]
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def test_a_number_stays_taken_until_it_is_reaped() -> None:
    process = by_descriptor(["/bin/sh", "-c", "exit 0"])
    await process.ended.wait()
    os.kill(process.pid, 0)
    assert process.reap() == 0


async def test_a_child_that_somebody_else_waited_for() -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], {})
    os.waitpid(pid, 0)
    assert adopt(pid).reap() == 255
