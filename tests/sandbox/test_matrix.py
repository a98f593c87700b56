"""The same promises on other machines: a bubblewrap that is too old, Landlock without mounts, an ordinary user, neither of them."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from homarus.core.errors import Denied
from homarus.core.routes import main_session
from homarus.sandbox import bwrap
from homarus.sandbox.process import available
from homarus.sandbox.resolve import Place, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Backend

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = [backend for backend in (Backend.BWRAP, Backend.LANDLOCK) if available(backend)]
OLD = """#!/bin/sh
for word; do case $word in --*bind-fd) echo "bwrap: Unknown option $word" >&2; exit 1;; esac; done
exec {program} "$@"
"""


@pytest.mark.skipif(Backend.BWRAP not in BACKENDS, reason="needs bubblewrap (apt install bubblewrap)")
def test_a_bubblewrap_without_descriptors_is_none(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(OLD.format(program=bwrap.program()))
    program.chmod(0o755)
    assert bwrap.usable(bwrap.program(), os.getuid())
    assert not bwrap.usable(str(program), os.getuid())

    def works(backend: Backend) -> bool:
        return bwrap.usable(str(program), os.getuid()) if backend is Backend.BWRAP else available(backend)

    place = Place(main_session("main"), tmp_path / "ws", tmp_path / "home", tmp_path / "state")
    if Backend.LANDLOCK in BACKENDS:
        assert resolve(SandboxSettings(), place, works).backend is Backend.LANDLOCK
    with pytest.raises(Denied, match="apt install bubblewrap"):
        resolve(SandboxSettings(backend="bwrap"), place, works)


@pytest.mark.skipif(Backend.LANDLOCK not in BACKENDS, reason="needs Landlock (Linux 5.13)")
@pytest.mark.parametrize(
    "tests",
    [
        pytest.param("tests/sandbox/test_folders.py", id="folders"),
        pytest.param("tests/sandbox/test_escapes.py", id="escapes", marks=pytest.mark.deep),
    ],
)
def test_landlock_without_mounts(tests: str) -> None:
    """In a namespace of users that may have no view of the files of its own."""
    limit = "echo 0 > /proc/sys/user/max_mnt_namespaces && "
    check = "from homarus.sandbox import landlock; print(landlock.available(), landlock.can_mount())"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def inside(*line: str) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "-Ur", "sh", "-c", f'{limit}exec "$@"', "sh", sys.executable, *line]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=env, cwd=ROOT)

    if inside("-c", check).stdout.split() != ["True", "False"]:
        pytest.skip("no such namespace can be made here")
    short = tempfile.mkdtemp(prefix="h", dir="/var/tmp")  # the name of a socket has little room
    done = inside(
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "landlock and not ordinary",
        f"--basetemp={short}/inner",
        tests,
    )
    shutil.rmtree(short, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.skipif(os.getuid() != 0, reason="the test itself already runs as an ordinary user")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git (apt install git)")
@pytest.mark.parametrize("backend", BACKENDS)
def test_repositories_as_an_ordinary_user(backend: Backend) -> None:
    home, user = Path("/var/tmp") / f"homarus-git-{os.getpid()}-{backend.value}", pwd.getpwnam("nobody")
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    # Everything is loaded before root is given up: our own files may lie where others cannot read.
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT / 'src')!r}, {str(ROOT)!r}]\n"
        "import asyncio, os; from pathlib import Path; from homarus.sandbox.spec import Backend\n"
        "from homarus.sandbox import landlock; from homarus.sandbox.process import available\n"
        "from tests.sandbox.test_folders import *\n"
        f"os.setgroups([]); os.setgid({user.pw_gid}); os.setuid({user.pw_uid})\n"
        "landlock.available.cache_clear(); landlock.can_mount.cache_clear()\n"
        "if not os.access(sys.executable, os.X_OK): sys.executable = '/usr/bin/python3'\n"
        f"backend, home = Backend({backend.value!r}), Path({str(home)!r})\n"
        "if not available(backend): print('unavailable'); sys.exit(0)\n"
        "for place in ('workspace', 'bind', 'nested', 'locked'):\n"
        "    folder = home / place; folder.mkdir()\n"
        "    asyncio.run(test_nothing_is_planted_in_a_repository(folder, backend, place))\n"
        "(home / 'c').mkdir(); asyncio.run(test_the_agent_commits_all_the_same(home / 'c', backend)); print('held')\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    finally:
        shutil.rmtree(home)
    if "unavailable" in done.stdout:
        pytest.skip(f"{backend} cannot be used by another user here")
    assert done.stdout.strip() == "held", done.stdout + done.stderr[-3000:]
