"""Private folders: ours alone, removed with all that is in them, and swept when nobody holds them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from homarus.sandbox import scratch


def names(top: Path) -> list[str]:
    return sorted(os.listdir(top))


def test_a_folder_is_new_and_for_us_alone(tmp_path: Path) -> None:
    made = [scratch.make(str(tmp_path)) for _ in range(20)]
    for folder in made:
        facts = os.lstat(folder.path)
        assert stat.S_ISDIR(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o700
        assert facts.st_uid == os.geteuid() and os.path.samestat(facts, os.fstat(folder.fd))
        assert not os.get_inheritable(folder.fd)
    assert len(names(tmp_path)) == 20
    for folder in made:
        folder.remove()
        folder.remove()
    assert names(tmp_path) == []


def test_what_is_held_is_not_swept(tmp_path: Path) -> None:
    held, left = scratch.make(str(tmp_path)), scratch.make(str(tmp_path))
    Path(left.path, "file").write_text("x")
    os.close(left.fd)  # as the kernel does when a process is killed
    (tmp_path / "other").mkdir()
    (tmp_path / f"{scratch.PREFIX}file").write_text("not a folder")
    (tmp_path / f"{scratch.PREFIX}link").symlink_to(tmp_path / "other")
    assert scratch.sweep(str(tmp_path)) == [Path(left.path).name]
    assert Path(held.path).is_dir() and not Path(left.path).exists()
    assert {"other", f"{scratch.PREFIX}file", f"{scratch.PREFIX}link"} <= set(names(tmp_path))
    held.remove()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_folders_of_other_users_are_not_touched(tmp_path: Path) -> None:
    theirs = tmp_path / f"{scratch.PREFIX}theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    assert scratch.sweep(str(tmp_path)) == []
    assert theirs.is_dir()


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_text("kept")
    folder = scratch.make(str(tmp_path))
    Path(folder.path, "in", "deeper").mkdir(parents=True)
    for place in (Path(folder.path), Path(folder.path, "in", "deeper")):
        (place / "to-folder").symlink_to(outside)
        (place / "to-file").symlink_to(outside / "file")
        os.link(outside / "file", place / "hard")
        os.mkfifo(place / "pipe")
    folder.remove()
    assert names(tmp_path) == ["outside"]
    assert names(outside) == ["file", "inner"] and (outside / "file").read_text() == "kept"


def test_a_name_that_leads_elsewhere_meanwhile_empties_nothing_else(tmp_path: Path) -> None:
    folder = scratch.make(str(tmp_path))
    Path(folder.path, "mine").write_text("x")
    os.rename(folder.path, tmp_path / "moved")
    other = Path(folder.path)
    other.mkdir()
    (other / "precious").write_text("kept")
    folder.remove()
    assert (other / "precious").read_text() == "kept"
    assert names(tmp_path / "moved") == []


def test_a_tree_deeper_than_anything_recurses_goes_too(tmp_path: Path) -> None:
    folder = scratch.make(str(tmp_path))
    at = os.open(folder.path, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        folder.remove()
        assert names(tmp_path) == []
    finally:
        subprocess.run(["rm", "-rf", folder.path], check=True)  # what stays here could not be removed by the test run


def test_folders_that_were_closed_go_too(tmp_path: Path) -> None:
    """Root can open them anyway, so this is done by a process that gave root up."""
    code = """
import os
from homarus.sandbox import scratch
if os.getuid() == 0:
    os.chown(".", 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
made = scratch.make(".")
os.makedirs(f"{made.path}/shut/inner/more")
os.mknod(f"{made.path}/shut/inner/file")
for path in ("shut/inner/more", "shut/inner", "shut"):
    os.chmod(f"{made.path}/{path}", 0)
made.remove()
print(os.listdir("."))
"""
    source = Path(scratch.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(source)},
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_makers_and_sweepers_do_not_disturb_each_other(tmp_path: Path) -> None:
    stop = threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            scratch.sweep(str(tmp_path))

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(300):
            folder = scratch.make(str(tmp_path))
            Path(folder.path, "file").write_text("x")
            assert Path(folder.path, "file").exists()
            folder.remove()
    finally:
        stop.set()
        for sweeper in sweepers:
            sweeper.join()
    scratch.sweep(str(tmp_path))
    assert names(tmp_path) == []
