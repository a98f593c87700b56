import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from homarus.core.beside import beside_the_loop


async def test_a_function_runs_in_a_thread_of_its_own_with_the_context_of_its_caller():
    who = ContextVar("who", default="nobody")
    who.set("me")
    assert await beside_the_loop(lambda *given: (who.get(), *given), 1, 2) == ("me", 1, 2)
    assert await beside_the_loop(threading.current_thread) is not threading.current_thread()


@pytest.mark.parametrize("problem", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()])
async def test_what_would_leave_the_loop_is_a_failure_with_its_cause(problem):
    def fail():
        raise problem

    with pytest.raises(RuntimeError, match=type(problem).__name__) as failed:
        await beside_the_loop(fail)
    assert failed.value.__cause__ is problem


async def test_whoever_is_cancelled_leaves_at_once_and_a_late_result_is_nobodys():
    go, gone = threading.Event(), threading.Event()

    def slow():
        go.wait(60)
        gone.set()

    task = asyncio.create_task(beside_the_loop(slow))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not gone.is_set()
    go.set()
    assert await asyncio.to_thread(gone.wait, 60)


def test_a_program_ends_though_a_function_does_not():
    program = """
import asyncio, threading
from homarus.core.beside import beside_the_loop
async def main():
    try:
        async with asyncio.timeout(0.01):
            await beside_the_loop(threading.Event().wait)
    except TimeoutError:
        print("given up")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "given up\n", "")
