"""Somebody's plain function in a thread of its own, which nobody waits for once they have given it up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from homarus.core.text import single_line

_log = logging.getLogger(__name__)


async def beside_the_loop(function: Callable[..., Any], *given: Any) -> Any:
    """Return what a plain function does.

    Whoever is cancelled here leaves at once: the function runs on to its end, and what it returns is thrown away. Its
    thread does not keep the program from ending, which a pool's would for minutes. What would leave the loop, such as
    SystemExit, is raised as a RuntimeError with it as its cause.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, problem: BaseException | None) -> None:
        if answer.done():
            return
        if problem is None:
            answer.set_result(result)
        elif isinstance(problem, Exception) and not isinstance(problem, StopIteration):
            answer.set_exception(problem)
        else:  # a Future does not take StopIteration, and SystemExit would leave the loop
            contained = RuntimeError(describe(problem))
            contained.__cause__ = problem
            answer.set_exception(contained)

    def work() -> None:
        result, problem = None, None
        try:
            result = function(*given)
        except BaseException as raised:  # noqa: BLE001 - handed over to the loop
            problem = raised
        try:
            loop.call_soon_threadsafe(settle, result, problem)
        except RuntimeError:
            _log.debug("a function came back after its loop had closed")

    name = getattr(function, "__name__", "a function")
    threading.Thread(target=copy_context().run, args=(work,), name=f"beside: {name}", daemon=True).start()
    return await answer


def describe(problem: BaseException) -> str:
    """Return what a stranger's exception says, on one line; it may fail even at that."""
    try:
        text = str(problem)
    except Exception:  # noqa: BLE001 - see above
        text = "(it cannot even say what)"
    return single_line(f"{type(problem).__name__}: {text}", 300)
