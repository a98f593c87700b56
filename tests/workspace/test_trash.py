"""Folders are moved, never deleted, never over others, and never with somebody else's in them."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.core.errors import Denied, StorageError
from homarus.workspace.trash import put_away, refuse_shared, trash_place

NOW = datetime(2026, 4, 15, 12, 0, tzinfo=UTC)


def full(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "MEMORY.md").write_text("dear")
    return path


def test_a_folder_is_moved_whole(tmp_path):
    folder = full(tmp_path / "w")
    place = trash_place(tmp_path / "trash", "work", NOW)
    assert place.name == "work-2026-04-15T12-00-00.000Z"
    target = put_away(folder, place, "workspace")
    assert target == place / "workspace"
    assert (target / "MEMORY.md").read_text() == "dear"
    assert not folder.exists()


def test_the_same_moment_twice_gives_two_places(tmp_path):
    first = trash_place(tmp_path, "work", NOW)
    first.mkdir()
    assert trash_place(tmp_path, "work", NOW).name == first.name + "-2"


def test_what_is_not_there_leaves_no_trace(tmp_path):
    assert put_away(tmp_path / "gone", tmp_path / "trash", "x") is None
    assert not (tmp_path / "trash").exists()


def test_a_link_is_moved_and_not_what_it_points_to(tmp_path):
    folder = full(tmp_path / "real")
    (tmp_path / "link").symlink_to(folder)
    target = put_away(tmp_path / "link", tmp_path / "trash", "workspace")
    assert target is not None
    assert target.is_symlink()
    assert (folder / "MEMORY.md").exists()


def test_another_disk_is_no_obstacle(tmp_path):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second disk here")
    with tempfile.TemporaryDirectory(dir=shm) as other:
        folder = full(Path(other) / "w")
        target = put_away(folder, tmp_path / "trash", "workspace")
        assert target is not None
        assert (target / "MEMORY.md").read_text() == "dear"
        assert not folder.exists()


def test_a_place_that_is_taken_is_an_error_and_loses_nothing(tmp_path):
    folder, taken = full(tmp_path / "w"), full(tmp_path / "trash" / "workspace")
    with pytest.raises(StorageError, match="cannot move"):
        put_away(folder, tmp_path / "trash", "workspace")
    assert (folder / "MEMORY.md").exists()
    assert (taken / "MEMORY.md").exists()


def test_a_folder_that_holds_what_must_stay_is_refused(tmp_path):
    inner = full(tmp_path / "w" / "inner")
    (tmp_path / "alias").symlink_to(tmp_path / "w")
    for folder in (tmp_path / "w", tmp_path / "alias", inner):
        with pytest.raises(Denied):
            refuse_shared(folder, [inner])
    refuse_shared(inner, [tmp_path / "w", tmp_path / "inner-not"])
