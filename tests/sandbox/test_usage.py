"""Who filled a disk: counted on real files and real processes."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.sandbox.usage import MODEST, is_too_much, taken

SIZES = st.integers(0, 1 << 40)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@given(SIZES, SIZES, SIZES, SIZES)
def test_whoever_took_little_ends_only_with_the_disk_itself(before: int, now: int, most: int, own: int) -> None:
    ended = is_too_much(before, now, most, own)
    if now >= before // 8 and own <= min(most, MODEST):
        assert not ended
    if own > most or now < before // 8:
        assert ended


def beside(code: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a program in a folder that has done something once it says so."""
    line = [sys.executable, "-c", f"import mmap, os, sys\n{code}\nprint(flush=True); sys.stdin.read()"]
    started = subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert started.stdout is not None and started.stdout.readline()
    return started


@pytest.mark.parametrize(
    ("code", "least", "most"),
    [
        ("", 0, 100_000),
        ("open('f', 'wb').write(bytes(2_000_000))", 2_000_000, 5_000_000),
        ("open('f', 'wb').truncate(1 << 40)", 0, 100_000),  # a hole takes nothing
        ("open('f', 'wb').write(bytes(2_000_000)); os.link('f', 'g')", 2_000_000, 5_000_000),
        ("f = open('f', 'wb'); f.write(bytes(2_000_000)); f.flush(); os.remove('f')", 2_000_000, 5_000_000),
        ("f = open('f', 'wb'); os.remove('f'); os.posix_fallocate(f.fileno(), 0, 2_000_000)", 2_000_000, 5_000_000),
        ("os.fork() or (os.setsid(), setattr(sys, 'f', open('f', 'wb')), os.remove('f'), sys.f.write(bytes(2_000_000)), sys.f.flush())", 2_000_000, 5_000_000),
    ],
)  # fmt: skip
def test_what_a_command_took_is_found_and_what_lay_there_is_not(
    code: str, least: int, most: int, tmp_path: Path
) -> None:
    (tmp_path / "old").write_bytes(bytes(9_000_000))
    time.sleep(0.1)  # the kernel's clock for files is coarse
    since = time.time_ns()
    started = beside(code, tmp_path)
    try:
        ends = time.monotonic() + 60
        found = taken([str(tmp_path)], started.pid, since, 1 << 40)
        while found is not None and found < least and time.monotonic() < ends:  # its child may be slower than itself
            time.sleep(0.05)
            found = taken([str(tmp_path)], started.pid, since, 1 << 40)
        assert found is not None and least <= found <= most
    finally:
        started.communicate(timeout=60)


def test_what_cannot_be_seen_is_not_guessed(tmp_path: Path) -> None:
    since = time.time_ns()
    code = f"f = open('f', 'w+b'); f.truncate({mmap.PAGESIZE}); m = mmap.mmap(f.fileno(), 0); os.remove('f'); os.closerange(3, 99)"
    started = beside(code, tmp_path)
    try:
        assert taken([str(tmp_path)], started.pid, since, 1 << 40) is None
    finally:
        started.communicate(timeout=60)
    assert taken([str(tmp_path / "gone")], os.getpid(), since, 1 << 40) is None
