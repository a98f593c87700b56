import asyncio
from contextvars import copy_context

from homarus.core.behind import durable, settled


async def test_whoever_was_begun_inside_waits_and_nobody_else_does():
    await durable()
    go, said = asyncio.Event(), []

    async def speak() -> None:
        await durable()
        said.append(1)

    async def begin() -> None:
        await asyncio.gather(asyncio.create_task(speak()), asyncio.create_task(speak()))

    inside = copy_context()
    inside.run(settled.set, go.wait)
    begun = asyncio.create_task(begin(), context=inside)
    await asyncio.create_task(speak())
    assert said == [1] and not begun.done()
    go.set()
    await begun
    assert said == [1, 1, 1]
