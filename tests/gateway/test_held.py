"""What a gateway holds does not grow with the number of sessions and runs that it has seen. Counted, not weighed."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.gateway.served import ADMIN, Served, Wire, served
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus.core.routes import SessionKey, SessionKind, named_session
from homarus.gateway.feed import MAX_ATTENDED
from homarus.gateway.page_feed import MAX_SESSIONS
from homarus.gateway.runs import KEPT, KEPT_SECONDS, Runs

SCOPES = {"gateway": {"auth": {"secretScopes": ["operator.admin"]}}}


def held() -> Counter[str]:
    """Count what keeps others alive: functions and what they closed over, locks, tasks, timers.

    A timer that was cancelled holds nothing; the event loop drops up to a hundred of them when it likes.
    """
    gc.collect()
    kinds = {"function", "cell", "method", "Lock", "Event", "Task", "Future", "partial", "TimerHandle", "deque"}
    live = [each for each in gc.get_objects() if not (isinstance(each, asyncio.TimerHandle) and each.cancelled())]
    names = [type(each).__name__ for each in live]
    return Counter(name for name in names if name in kinds or name in {"Queued", "SessionLane", "OpenSession", "Inbox"})


async def come_and_go(client: Wire, name: str, count: int) -> None:
    for number in range(count):
        key = f"agent:main:{name}{number}"
        order = {"message": "hello", "sessionKey": key, "idempotencyKey": f"{name}{number}"}
        assert (await client.response(await client.send("agent", order)))["payload"]["status"] == "accepted"
        await client.call("agent.wait", {"runId": order["idempotencyKey"], "timeoutMs": 30_000})
        await client.call("sessions.reset", {"key": key})
        assert (await client.call("sessions.delete", {"key": key}))["deleted"]
        client.events.clear()


async def test_sessions_that_are_gone_leave_nothing(tmp_path: Path) -> None:
    async with served(House(tmp_path, config=SCOPES)) as home, home.client(scopes=ADMIN) as client:
        await come_and_go(client, "warm", 10)
        before = held()
        await come_and_go(client, "new", 40)
        await until(lambda: not home.gateway.runtime.lanes.known, 60)
        more = held() - before
        assert {kind: count for kind, count in more.items() if count >= 20} == {}


def attended(home: Served) -> int:
    return len(home.gateway.client.home.toolkit.approvers._here)


def session(number: int) -> SessionKey:
    return named_session("main", SessionKind.EXPLICIT, f"s{number}")


async def test_quiet_sessions_are_attended_to_up_to_a_number_and_busy_ones_always(tmp_path: Path) -> None:
    house = House(tmp_path, Line("later", hang=True))
    async with served(house) as home, home.client(scopes=("operator.write", "operator.approvals")) as client:
        busy = {"sessionKey": "agent:main:busy", "message": "take your time", "idempotencyKey": "r1"}
        await client.call("chat.send", busy)
        await until(lambda: house.model.active == 1, 60)
        for number in range(MAX_ATTENDED + 50):
            home.gateway.feed.attend(session(number))
        assert attended(home) == MAX_ATTENDED
        here = home.gateway.client.home.toolkit.approvers._here
        assert {busy["sessionKey"], str(session(MAX_ATTENDED + 49))} <= set(here)
        assert str(session(0)) not in here
        await client.call("chat.abort", {"sessionKey": busy["sessionKey"]})


async def test_keeping_turns_out_of_a_session_leaves_no_lock(tmp_path: Path) -> None:
    runtime = House(tmp_path).agent().client.runtime
    try:
        for number in range(20):
            async with runtime.exclusively(session(number)):
                assert len(runtime._alone) == 1
        assert not runtime._alone
    finally:
        await runtime.aclose()


def test_runs_that_ended_are_forgotten_and_those_that_go_on_are_not() -> None:
    runs = Runs()
    runs.begin("goes on", session(0), 0)
    for number in range(5 * KEPT):
        run = runs.begin(f"r{number}", session(number), number)
        run.end("ok", number)
        runs.close(run)
        assert len(runs._runs) <= 2 * KEPT
    runs.begin("last", session(1), round(KEPT_SECONDS * 1000) + 6 * KEPT)
    assert len(runs._runs) == KEPT
    assert runs.get("goes on")
    assert set(runs._open) == {session(0), session(1)}


async def test_how_far_sessions_were_told_is_known_of_the_newest(tmp_path: Path) -> None:
    async with served(House(tmp_path)) as home:
        for number in range(MAX_SESSIONS + 10):
            home.gateway.page_feed.tell(session(number), "reset")
        assert home.gateway.page_feed.state(session(0))["seq"] == 0
        assert home.gateway.page_feed.state(session(MAX_SESSIONS + 9))["seq"] == 1


PIECES = """
import ctypes
from homarus.gateway.server import preload

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

info = ctypes.CDLL(None).mallinfo2
info.restype = Info
preload()
bytes(4_000_000)  # freed at once: from now on glibc would keep pieces up to this size
before = info().hblks
piece = bytes(500_000)
print(info().hblks - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="this is not glibc 2.33 or newer")
def test_large_pieces_of_memory_are_given_back_whatever_was_freed_before() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "1", done.stderr
