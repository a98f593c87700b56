"""Whole files: old or new, never neither, whatever is in the way."""

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import homarus
from homarus.core.errors import StorageError
from homarus.storage.atomic import backup, create_new, ensure_dir, move_aside, sweep_temps, write_atomic
from homarus.storage.faults import Missing

NOW = datetime(2026, 5, 4, 3, 2, 1, 987000, tzinfo=UTC)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_write_creates_and_replaces_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "config.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["config.json"]
    assert mode_of(path) == 0o600


def test_an_existing_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x")
    path.chmod(0o640)
    write_atomic(path, b"y", mode=0o600)
    assert mode_of(path) == 0o640


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    real = tmp_path / "dotfiles"
    real.mkdir()
    (real / "target").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("dotfiles/target")
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert (real / "target").read_bytes() == b"new"
    assert os.listdir(real) == ["target"]


def test_a_circle_of_links_and_a_missing_folder_are_named(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(StorageError, match="loop"):
        write_atomic(loop, b"x")
    assert loop.is_symlink()
    with pytest.raises(Missing, match="nowhere"):
        write_atomic(tmp_path / "nowhere" / "f", b"x")


def test_folders_pipes_and_devices_are_never_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(StorageError):
            write_atomic(tmp_path / name, b"x")
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


def test_create_new_is_exclusive(tmp_path):
    path = tmp_path / "once"
    assert create_new(path, b"first", mode=0o644)
    assert not create_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert mode_of(path) == 0o644
    assert os.listdir(tmp_path) == ["once"]


def test_create_new_does_not_follow_a_dangling_link(tmp_path):
    (tmp_path / "link").symlink_to("elsewhere")
    assert not create_new(tmp_path / "link", b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_ensure_dir_makes_parents_private_and_leaves_others_alone(tmp_path):
    (tmp_path / "there").mkdir(mode=0o755)
    ensure_dir(tmp_path / "there" / "a" / "b")
    ensure_dir(tmp_path / "there" / "a" / "b")
    assert mode_of(tmp_path / "there" / "a" / "b") == 0o700
    assert mode_of(tmp_path / "there") == 0o755
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="not a folder"):
        ensure_dir(tmp_path / "file" / "x")


def test_move_aside_never_overwrites(tmp_path):
    path = tmp_path / "s.jsonl"
    names = []
    for content in (b"1", b"2", b"3"):
        path.write_bytes(content)
        aside = move_aside(path, "corrupt", NOW)
        assert aside.read_bytes() == content
        assert not path.exists()
        names.append(aside.name)
    assert names[0] == "s.jsonl.corrupt.2026-05-04T03-02-01.987Z"
    assert len(set(names)) == 3


def test_backups_rotate_and_stay_bounded(tmp_path):
    path = tmp_path / "c.json"
    assert backup(path) is None
    for number in range(9):
        path.write_bytes(b"%d" % number)
        assert backup(path, keep=3) == tmp_path / "c.json.bak"
    found = {name: (tmp_path / name).read_bytes() for name in sorted(os.listdir(tmp_path))}
    assert found == {"c.json": b"8", "c.json.bak": b"8", "c.json.bak.1": b"7", "c.json.bak.2": b"6"}


def test_names_at_the_edge(tmp_path):
    for raw in (b"x" * 255, "é".encode() * 127, b"not-\xff-utf8", b"new\nline", b" ", b"-rf"):
        path = tmp_path / os.fsdecode(raw)
        write_atomic(path, b"1")
        write_atomic(path, b"2")
        assert backup(path).read_bytes() == b"2"
        assert move_aside(path, "corrupt", NOW).read_bytes() == b"2"
        assert create_new(path, b"3")
    for name in ("x" * 256, "nul\0", "\ud800", "folder/" * 2000 + "f"):
        for action in (
            lambda path: write_atomic(path, b"x"),
            lambda path: create_new(path, b"x"),
            lambda path: ensure_dir(path / "deeper"),
            lambda path: move_aside(path, "x", NOW),
        ):
            with pytest.raises(StorageError) as caught:
                action(tmp_path / name)
            assert caught.value.cure
            assert "\n" not in str(caught.value)


def test_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomic(Path("f"), b"1")
    assert create_new(Path("g"), b"2")
    assert backup(Path("f")) == Path("f.bak")
    assert move_aside(Path("f"), "old", NOW) == Path("f.old.2026-05-04T03-02-01.987Z")
    ensure_dir(Path("a/b"))
    assert sorted(os.listdir(tmp_path)) == ["a", "f.bak", "f.old.2026-05-04T03-02-01.987Z", "g"]


def test_a_folder_is_moved_aside_too(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").write_bytes(b"x")
    aside = move_aside(tmp_path / "folder", "old", NOW)
    assert (aside / "f").read_bytes() == b"x"
    with pytest.raises(Missing):
        move_aside(tmp_path / "folder", "old", NOW)


def test_text_instead_of_bytes_is_a_mistake_that_costs_nothing(tmp_path):
    write_atomic(tmp_path / "f", b"old")
    with pytest.raises(TypeError):
        write_atomic(tmp_path / "f", "text")
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


def test_many_writers_one_reader_and_a_sweeper(tmp_path):
    """Last one wins, every content is whole, and no living writer fails because of a sweep."""
    path = tmp_path / "f"
    write_atomic(path, b"start" * 1000)
    code = """
import sys
from pathlib import Path
from homarus.storage.atomic import write_atomic
for number in range(100):
    write_atomic(Path(sys.argv[1]), sys.argv[2].encode() * 30_000)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)}
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), letter], env=environment) for letter in "abc"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
        sweep_temps(tmp_path)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen <= {b"start" * 1000, b"a" * 30_000, b"b" * 30_000, b"c" * 30_000}
    assert os.listdir(tmp_path) == ["f"]


def test_sweep_removes_only_temps_without_a_writer(tmp_path):
    stale = tmp_path / ".homarus-1-0123456789abcdef.tmp"
    stale.write_bytes(b"half")
    mine = tmp_path / ".homarus-notes.tmp"
    mine.write_bytes(b"a user's file")
    assert sweep_temps(tmp_path) == [stale.name]
    assert os.listdir(tmp_path) == [mine.name]


def test_content_may_come_in_pieces_and_a_failure_among_them_leaves_nothing(tmp_path):
    def pieces():
        yield from (b"x" * 700_000 for _ in range(3))
        yield b"end"

    assert create_new(tmp_path / "a", pieces())
    assert (tmp_path / "a").read_bytes() == b"x" * 2_100_000 + b"end"
    write_atomic(tmp_path / "a", iter([b"one ", b"", b"two"]))
    assert (tmp_path / "a").read_bytes() == b"one two"

    def broken():
        yield b"y" * 2_000_000
        raise ValueError("no more")

    for write in (create_new, write_atomic):
        with pytest.raises(ValueError, match="no more"):
            write(tmp_path / "b", broken())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
