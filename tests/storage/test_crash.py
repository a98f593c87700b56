"""kill -9 and failing system calls at every point of every durable operation: old or new content, never neither.

The work is done by crash_driver.py in its own process, because it forks and a test worker has threads.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import homarus
from homarus.storage.jsonl import read_lines

DRIVER = Path(__file__).with_name("crash_driver.py")
FILES = ["replace", "create", "create_new", "through_link", "root_write", "make_folders", "move_aside", "backup"]
LOGS = ["append", "append_new", "append_after_tear"]
DATABASES = ["database", "database_new"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)}


def drive(tmp_path, *arguments):
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            str(DRIVER),
            arguments[0],
            arguments[1],
            str(tmp_path),
            *map(str, arguments[2:]),
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    if "skip" in report:
        pytest.skip(report["skip"])
    return report


@pytest.mark.parametrize("scenario", [*FILES, *LOGS, "lock"])
def test_killed_at_every_system_call(tmp_path, scenario):
    report = drive(tmp_path, "kill", scenario, 1, 1)
    assert report["problems"] == []
    assert report["kills"] == report["stops"] > 20


@pytest.mark.parametrize("scenario", DATABASES)
def test_a_database_killed_at_some_system_calls(tmp_path, scenario):
    report = drive(tmp_path, "kill", scenario, 17, 5)
    assert report["problems"] == []
    assert report["kills"] > 10


@pytest.mark.deep
@pytest.mark.parametrize("scenario", DATABASES)
def test_a_database_killed_at_every_system_call(tmp_path, scenario):
    report = drive(tmp_path, "kill", scenario, 1, 1)
    assert report["problems"] == []
    assert report["kills"] == report["stops"] > 200


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        *((name, code) for name in [*FILES, *LOGS, "lock"] for code in ("EIO", "EINTR")),
        *((name, "EIO") for name in DATABASES),
    ],
)
def test_every_system_call_fails_once(tmp_path, scenario, code):
    """Done or refused with a StorageError, nothing half-written, no descriptor leaked, and the next attempt works."""
    report = drive(tmp_path, "fail", scenario, code)
    assert report["problems"] == []
    assert report["failures"] >= 4


@pytest.mark.deep
@pytest.mark.parametrize("scenario", [*FILES, *LOGS, *DATABASES, "lock"])
@pytest.mark.parametrize(
    "code", ["EINTR", "ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EMFILE", "ENOMEM", "ESTALE", "EAGAIN", "ENOSYS"]
)
def test_every_system_call_fails_once_in_every_way(tmp_path, scenario, code):
    assert drive(tmp_path, "fail", scenario, code)["problems"] == []


def test_the_content_is_on_the_disk_before_its_name_and_the_name_before_the_answer(tmp_path):
    """What a power cut may undo is decided by the order of syncs: file, rename, folder."""
    calls = drive(tmp_path, "calls", "replace")["calls"]
    order = [name for name in calls if name in {"write", "fsync", "renameat"}]
    assert order == ["write", "fsync", "renameat", "fsync"]


def test_an_append_is_synced_before_it_is_acknowledged(tmp_path):
    calls = drive(tmp_path, "calls", "append")["calls"]
    assert [name for name in calls if name in {"write", "fdatasync"}] == ["write", "fdatasync"] * 3


@pytest.mark.parametrize("scenario", ["naive_replace", "naive_append"])
def test_the_harness_sees_a_careless_writer(tmp_path, scenario):
    assert drive(tmp_path, "kill", scenario, 1, 1)["problems"] != []


WRITER = """
import sys
from pathlib import Path
from homarus.storage.atomic import write_atomic
from homarus.storage.jsonl import JsonlWriter
folder = Path(sys.argv[1])
log = JsonlWriter.open(folder / "log")
start = int(sys.argv[2])
for number in range(start, start + 1_000_000):
    log.append({"n": number, "pad": "x" * (number * 37 % 20000)})
    write_atomic(folder / "state", b"%d " % number * 500)
    sys.stdout.write("%d\\n" % number)
    sys.stdout.flush()
"""


@pytest.mark.parametrize("rounds", [6, pytest.param(300, marks=pytest.mark.deep)])
def test_killed_at_random_moments(tmp_path, rounds):
    """One log and one file through many kills by the clock: nothing acknowledged is ever missing."""
    dice = random.Random(rounds)
    acknowledged = -1
    for _ in range(rounds):
        start = acknowledged + 1000
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(start)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
        )
        first = int(child.stdout.readline())
        time.sleep(dice.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        said = [first, *(int(line) for line in child.stdout.read().splitlines() if line)]
        child.stdout.close()
        child.wait()
        acknowledged = said[-1]
        state = (tmp_path / "state").read_bytes().split()
        assert len(state) == 500
        assert set(state) <= {b"%d" % acknowledged, b"%d" % (acknowledged + 1)}
        found = {line.value["n"] for line in read_lines(tmp_path / "log") if line.value is not None}
        assert set(said) <= found
