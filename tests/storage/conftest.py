"""Helpers for storage tests: children that lose rights, disks that are full, signals that do not stop."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import homarus

CANNOT = 77  # a child's exit code for "this machine does not let me set the scene"

PRELUDE = """
import contextlib, errno, json, os, resource, shutil, signal, sqlite3, stat, sys, tempfile
from datetime import UTC, datetime
from pathlib import Path
from homarus.core.errors import Locked, StorageError
from homarus.storage.atomic import backup, create_new, ensure_dir, move_aside, sweep_temps, write_atomic
from homarus.storage.boundary import Root
from homarus.storage.jsonl import JsonlWriter, read_lines
from homarus.storage.locks import OwnerLock, holder
from homarus.storage.sqlite import open_database, open_readonly, transaction
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
folder = Path(sys.argv[1])

def refused(action, *arguments, **options):
    try:
        action(*arguments, **options)
    except StorageError as error:
        assert error.cure, f"no cure in: {error}"
        return error
    raise AssertionError(f"{action.__name__} was not refused")

def mount_tmpfs(where, options):
    '''A file system of our own, gone with this process; as root directly, else in a user namespace.'''
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    newns, newuser, private = 0x20000, 0x10000000, 0x40000 | 0x4000
    uid, gid = os.geteuid(), os.getegid()
    if not hasattr(libc, "unshare") or libc.unshare(newns if uid == 0 else newns | newuser):
        sys.exit(77)
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    libc.mount(b"none", b"/", None, private, None)
    if libc.mount(b"tmpfs", os.fsencode(where), b"tmpfs", 0, options):
        sys.exit(77)
    return libc

@contextlib.contextmanager
def public_folder():
    '''A folder that everybody may reach, unlike those of pytest; it belongs to whom drop_rights makes us.'''
    path = Path(tempfile.mkdtemp(prefix="homarus-test-"))
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)

def drop_rights():
    '''Become nobody: root may do everything, so it cannot be refused anything.'''
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
"""


@pytest.fixture
def run_child(tmp_path):
    """Run code in its own process with the prelude above and a folder; its assertions are the test's."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(code: str) -> Path:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(code), str(folder)],
            env={**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode == CANNOT:
            pytest.skip("this user or machine cannot set the scene (root or user namespaces)")
        assert done.returncode == 0, done.stderr
        return folder

    return run
