"""The calls that Python does not have, and what stands in for them where the system has none either."""

import errno
import os
import sys
from pathlib import Path

import pytest

from homarus.storage.syscalls import BENEATH, _rename_claimed, openat2, rename_new


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("rename", [rename_new, _rename_claimed])
def test_a_rename_never_replaces(rename, folder, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "full").mkdir()
    assert not rename(folder, "a", "b")
    assert not rename(folder, "a", "link")
    assert not rename(folder, "a", "full")
    assert rename(folder, "a", "c")
    assert sorted(os.listdir(tmp_path)) == ["b", "c", "full", "link"]
    assert ((tmp_path / "b").read_bytes(), (tmp_path / "c").read_bytes()) == (b"b", b"a")


@pytest.mark.parametrize("rename", [rename_new, _rename_claimed])
def test_a_folder_and_a_link_can_be_renamed(rename, folder, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to("nowhere")
    assert rename(folder, "folder", "moved")
    assert rename(folder, "link", "moved link")
    assert (tmp_path / "moved" / "f").read_bytes() == b"x"
    assert (tmp_path / "moved link").is_symlink()


@pytest.mark.parametrize("rename", [rename_new, _rename_claimed])
def test_what_is_missing_leaves_nothing(rename, folder, tmp_path):
    with pytest.raises(FileNotFoundError):
        rename(folder, "nope", "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="openat2 is Linux")
def test_openat2(folder, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    try:
        fd = openat2(folder, "f", os.O_RDONLY | os.O_CLOEXEC, 0, BENEATH)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            pytest.skip("this kernel or container has no openat2")
        raise
    assert os.read(fd, 10) == b"x"
    os.close(fd)
    with pytest.raises(OSError, match="cross-device"):
        openat2(folder, "../" + Path(tmp_path).name, os.O_RDONLY, 0, BENEATH)
