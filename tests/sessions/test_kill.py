"""kill -9 at any moment: what an append has returned for is there, every call has one result, and no lock is left."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sessions.provider_rules import check_both

from homarus.core.clock import SystemClock, SystemIds
from homarus.core.messages import Assistant, ToolResult, User
from homarus.sessions.writer import SessionWriter

CHILD = """
import sys
from pathlib import Path
from homarus.core.clock import SystemClock, SystemIds
from homarus.core.messages import *
from homarus.sessions.writer import SessionWriter
session = SessionWriter(Path(sys.argv[1]), "s1", clock=SystemClock(), ids=SystemIds())
number = int(sys.argv[2])
while True:
    number += 1
    session.append_message(User((Text(f"user {number}"),), context="now"))
    sys.stdout.write(f"user {number}\\n"); sys.stdout.flush()
    session.append_message(Assistant((ToolCall(f"c{number}", "read", {}),), stop_reason=StopReason.TOOL_USE))
    session.append_message(ToolResult(f"c{number}", "read", (Text(f"result {number}"),)))
    sys.stdout.write(f"result {number}\\n"); sys.stdout.flush()
    session.append_message(Assistant((Text(f"answer {number}"),)))
"""


def kill_once(path: Path, number: int, delay: float) -> list[str]:
    """Let a child talk for a moment, kill it, and return what it said that it had stored."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(number)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    first = child.stdout.readline()
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()
    child.wait()
    child.stdout.close()
    return (first + rest).decode().splitlines()


def survive(path: Path, kills: int) -> None:
    rng = random.Random(kills)
    stored: list[str] = []
    for round_number in range(kills):
        stored += kill_once(path, round_number * 100_000, rng.uniform(0, 0.03))
        with SessionWriter(path, "s1", clock=SystemClock(), ids=SystemIds(), window=64 << 20) as session:
            history = session.history()
        check_both(history)
        asked = [m.text for m in history if isinstance(m, User)]
        answered = [m.text for m in history if isinstance(m, ToolResult)]
        together = "\n".join(asked)
        for line in stored:
            assert line in (together if line.startswith("user") else answered), line
        calls = [call.id for m in history if isinstance(m, Assistant) for call in m.calls]
        assert len(calls) == len(set(calls)) == len(answered)


def test_a_few_kills(tmp_path):
    survive(tmp_path / "s1.jsonl", 4)


@pytest.mark.deep
def test_many_kills(tmp_path):
    survive(tmp_path / "s1.jsonl", 100)
