"""A guarded folder: files inside are read as they were at one moment, and nothing outside is ever touched.

Every test runs on both ways to open: the kernel's own call, and the portable walk that macOS and old kernels use.
"""

import os
import socket
import stat
import sys
import threading
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.core.errors import StorageError
from homarus.storage.atomic import write_atomic
from homarus.storage.beneath import Beneath, real_path
from homarus.storage.boundary import BoundaryError, Root
from homarus.storage.faults import Missing

WAYS = [pytest.param(True, id="kernel"), pytest.param(False, id="walk")]


def open_root(path, kernel, **options):
    if kernel and sys.platform != "linux":
        pytest.skip("openat2 is Linux")
    root = Root(path, **options)
    root._beneath = Beneath(root._beneath.fd, root.realpath, kernel=kernel)
    return root


@pytest.fixture(params=WAYS)
def root(request, tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    with open_root(folder, request.param) as root:
        yield root


def read(root, name, max_bytes=1000):
    return root.read(name, max_bytes=max_bytes)


def test_a_regular_file(root):
    path = Path(root.realpath, "AGENTS.md")
    path.write_bytes(b"hello")
    found = read(root, "AGENTS.md")
    state = path.stat()
    assert (found.kind, found.data, found.truncated, found.size) == ("ok", b"hello", False, 5)
    assert found.realpath == str(path)
    assert found.fingerprint == (
        f"{path}|{state.st_dev}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}"
    )
    assert root.fingerprint(PurePosixPath("AGENTS.md")).fingerprint == found.fingerprint
    assert root.exists("AGENTS.md")


def test_too_long_is_cut_and_says_so(root):
    Path(root.realpath, "f").write_bytes(b"x" * 100)
    assert (len(read(root, "f", 99).data), read(root, "f", 99).truncated, read(root, "f", 99).size) == (99, True, 100)
    assert (len(read(root, "f", 100).data), read(root, "f", 100).truncated) == (100, False)


@pytest.mark.parametrize("name", ["nope", "folder/nope", "file/below", "dangling", "", "."])
def test_what_is_not_there(root, name):
    base = Path(root.realpath)
    (base / "folder").mkdir()
    (base / "file").write_bytes(b"")
    (base / "dangling").symlink_to("nowhere")
    expected = "missing" if name.strip(".") else "validation"
    assert read(root, name).kind == root.fingerprint(name).kind == expected
    assert root.exists(name) is (not name.strip("."))


@pytest.mark.parametrize(
    "target",
    ["real/file", "./real/../real/file", "{root}/real/file", "../root/real/file", "chain", "{alias}/real/file"],
)
def test_links_that_stay_inside_are_followed(root, tmp_path, target):
    base = Path(root.realpath)
    (base / "real").mkdir()
    (base / "real" / "file").write_bytes(b"inside")
    (base / "chain").symlink_to("real/up")
    (base / "real" / "up").symlink_to("../real/file")
    (tmp_path / "alias").symlink_to("root")
    (base / "link").symlink_to(target.format(root=base, alias=tmp_path / "alias"))
    found = read(root, "link")
    assert (found.kind, found.data, found.realpath) == ("ok", b"inside", str(base / "real" / "file"))
    (base / "folder").symlink_to("real")
    assert read(root, "folder/file").data == b"inside"
    assert read(root, "folder/../real/./file").data == b"inside"


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "a/../../secret",
        "link",
        "folder/secret",
        "absolute",
        "out-and-in/../secret",
        "/etc/hostname",
        "a\0b",
        "\ud800",
    ],
)
def test_whatever_leaves_is_refused(root, tmp_path, name):
    base = Path(root.realpath)
    (base / "a").mkdir()
    (base / "link").symlink_to("../secret")
    (base / "folder").symlink_to("..")
    (base / "absolute").symlink_to(tmp_path / "secret")
    (base / "out-and-in").symlink_to("../root")
    found = read(root, name)
    assert (found.kind, found.data, found.fingerprint) == ("validation", b"", "")
    assert found.reason
    assert root.fingerprint(name).kind == "validation"
    assert not root.exists(name)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
        with pytest.raises(BoundaryError) as caught:
            root.open(name, flags)
        assert caught.value.kind == "validation"
    for change in (lambda: root.write(name, b"x"), lambda: root.remove(name), lambda: root.make_dirs(name + "/deep")):
        with pytest.raises(BoundaryError):
            change()
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert sorted(os.listdir(tmp_path)) == ["root", "secret"]


def test_a_sibling_with_the_same_beginning_is_outside(root, tmp_path):
    (tmp_path / "root-evil").mkdir()
    (tmp_path / "root-evil" / "f").write_bytes(b"x")
    Path(root.realpath, "link").symlink_to("../root-evil/f")
    assert read(root, "link").kind == "validation"


def test_circles_of_links_end(root):
    base = Path(root.realpath)
    (base / "a").symlink_to("b")
    (base / "b").symlink_to("a")
    assert read(root, "a").kind == "validation"
    assert read(root, "a/x").kind == "validation"
    with pytest.raises(BoundaryError):
        root.write("a", b"x")


def test_pipes_sockets_folders_and_devices_are_refused_without_waiting(root):
    base = Path(root.realpath)
    os.mkfifo(base / "pipe")
    (base / "folder").mkdir()
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            os.chdir(base)  # the path of a socket may be short only
            server.bind("socket")
        finally:
            os.chdir(here)
    for name in ("pipe", "socket", "folder"):
        assert read(root, name).kind == "validation", name
        assert root.fingerprint(name).kind == "validation", name
        with pytest.raises(BoundaryError):
            root.open(name, os.O_RDONLY)
    with pytest.raises(BoundaryError):
        root.open("pipe", os.O_WRONLY)
    with open_root(Path("/dev"), root._beneath._kernel) as devices:
        assert devices.read("zero", max_bytes=10).kind == "validation"


def test_open_never_follows_when_told_so(root):
    base = Path(root.realpath)
    (base / "real").mkdir()
    (base / "real" / "f").write_bytes(b"x")
    (base / "link").symlink_to("real/f")
    (base / "folder").symlink_to("real")
    os.close(root.open("real/f", os.O_RDONLY, follow="never"))
    for name in ("link", "folder/f"):
        os.close(root.open(name, os.O_RDONLY))
        with pytest.raises(BoundaryError) as caught:
            root.open(name, os.O_RDONLY, follow="never")
        assert caught.value.kind == "validation"


def test_open_creates_inside_only_and_exclusively(root):
    base = Path(root.realpath)
    (base / "dangling").symlink_to("made")
    os.close(root.open("dangling", os.O_WRONLY | os.O_CREAT, mode=0o640))
    assert (base / "made").is_file()
    with pytest.raises(BoundaryError):
        root.open("dangling", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    fd = root.open("new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_open_a_folder(root):
    Path(root.realpath, "folder").mkdir()
    fd = root.open("folder", os.O_RDONLY | os.O_DIRECTORY)
    assert stat.S_ISDIR(os.fstat(fd).st_mode)
    os.close(fd)


def test_listing_is_exact_and_sorted(root):
    base = Path(root.realpath)
    for name in ("memory.md", "MEMORY.md.bak", "a b", "é"):
        (base / name).write_bytes(b"")
    raw = os.fsdecode(b"not-\xff-utf8")
    (base / raw).write_bytes(b"odd")
    assert root.listdir() == sorted(["memory.md", "MEMORY.md.bak", "a b", "é", raw])
    assert read(root, raw).data == b"odd"
    with pytest.raises(BoundaryError) as caught:
        root.listdir("nowhere")
    assert caught.value.kind == "missing"
    with pytest.raises(BoundaryError):
        root.listdir("..")


def test_write_is_atomic_and_goes_through_no_link(root):
    base = Path(root.realpath)
    root.make_dirs("a/b")
    root.make_dirs("a/b")
    (base / "link").symlink_to("a/b/f")
    (base / "folder").symlink_to("a/b")
    root.write("a/b/f", b"one")
    root.write("a/b/f", b"two")
    for change in (
        lambda: root.write("link", b"x"), lambda: root.remove("link"), lambda: root.write("folder/f", b"x"),
        lambda: root.remove("folder/f"), lambda: root.make_dirs("folder/c"), lambda: root.make_dirs("folder"),
        lambda: root.write("a/../folder/f", b"x"), lambda: root.write("..", b"x"), lambda: root.write(".", b"x"),
    ):  # fmt: skip
        with pytest.raises(BoundaryError) as caught:
            change()
        assert caught.value.kind == "validation"
    assert (base / "link").is_symlink()
    assert (base / "a/b/f").read_bytes() == b"two"
    assert os.listdir(base / "a/b") == ["f"]
    root.remove("a/b/f")
    assert os.listdir(base / "a/b") == []
    with pytest.raises(BoundaryError) as caught:
        root.write("nowhere/f", b"x")
    assert caught.value.kind == "missing"
    with pytest.raises(StorageError):
        root.write("a/b", b"x")
    with pytest.raises(StorageError):
        root.make_dirs("a/b/../../a/b/f/g/" + "x" * 300)


def test_a_name_that_is_too_long_is_an_io_failure(root):
    assert read(root, "x" * 256).kind == "io"
    assert read(root, "x/" * 3000 + "y").kind in {"io", "missing"}


def test_a_renamed_root_stays_the_same_folder(root, tmp_path):
    Path(root.realpath, "f").write_bytes(b"x")
    Path(root.realpath).rename(tmp_path / "moved")
    (tmp_path / "root").mkdir()
    assert read(root, "f").data == b"x"


def test_a_missing_root_and_a_closed_one(tmp_path):
    with pytest.raises(Missing):
        Root(tmp_path / "nope")
    root = Root(tmp_path)
    root.close()
    root.close()
    assert read(root, "f").kind == "io"
    with pytest.raises(BoundaryError):
        root.listdir()


@pytest.mark.parametrize("swap", [False, True])
def test_a_file_that_changes_or_is_swapped_while_it_is_read_is_read_again(tmp_path, swap):
    path = tmp_path / "f"
    path.write_bytes(b"x" * (3 << 20))
    pauses = []

    class Changing(Root):
        def _real_of(self, fd, name):
            if not pauses and swap:
                write_atomic(path, b"new")
            elif not pauses:
                path.write_bytes(b"new")
            return super()._real_of(fd, name)

    with Changing(tmp_path, sleep=pauses.append) as root:
        found = read(root, "f", 4 << 20)
    assert (found.kind, found.data, pauses) == ("ok", b"new", [0.05])
    assert found.fingerprint.split(":")[1] == str(path.stat().st_ino)


def test_a_file_that_never_rests_is_an_io_failure(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x")

    class Restless(Root):
        def _real_of(self, fd, name):
            with path.open("ab") as file:
                file.write(b"x")
            return super()._real_of(fd, name)

    pauses = []
    with Restless(tmp_path, sleep=pauses.append) as root:
        found = read(root, "f")
    assert (found.kind, pauses) == ("io", [0.05, 0.05])
    assert "changes" in found.reason


@pytest.mark.parametrize("kernel", WAYS)
def test_a_link_that_is_swapped_in_a_loop_never_leads_outside(tmp_path, kernel):
    """The classic race: a checked folder becomes a link to the outside before it is opened."""
    base = tmp_path / "root"
    (base / "good").mkdir(parents=True)
    (base / "good" / "f").write_bytes(b"inside")
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "f").write_bytes(b"secret")
    (base / "link").symlink_to("good")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for target in ("../evil", "good"):
                (base / "next").symlink_to(target)
                (base / "next").replace(base / "link")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        with open_root(base, kernel, sleep=lambda _: None) as root:
            for number in range(400):
                found = read(root, "link/f")
                assert found.data in {b"", b"inside"}
                assert found.kind in {"ok", "validation", "io", "missing"}
                try:
                    root.write("link/f", b"inside")
                except BoundaryError:
                    pass
                if number % 50 == 0:
                    assert (tmp_path / "evil" / "f").read_bytes() == b"secret"
    finally:
        stop.set()
        thread.join()
    assert (tmp_path / "evil" / "f").read_bytes() == b"secret"


parts = st.sampled_from(["a", "b", "f", "in", "out", "up", "abs", "loop", "..", ".", "", "x" * 300, "é", "nope"])


def check_that_no_name_reads_outside(maze, names, leading):
    name = ("/" if leading else "") + "/".join(names)
    results = []
    for kernel in (True, False):
        root = Root(maze)
        root._beneath = Beneath(root._beneath.fd, root.realpath, kernel=kernel and sys.platform == "linux")
        with root:
            found = read(root, name)
            assert found.data in {b"", b"inside"}
            results.append((found.kind, found.data, found.realpath, found.fingerprint, root.exists(name)))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "examples", [pytest.param(300, id="some"), pytest.param(30_000, id="many", marks=pytest.mark.deep)]
)
def test_no_name_reads_outside_and_both_ways_agree(maze, examples):
    @settings(deadline=None, max_examples=examples)
    @given(st.lists(parts, max_size=8), st.booleans())
    def check(names, leading):
        check_that_no_name_reads_outside(maze, names, leading)

    check()


@pytest.fixture(scope="module")
def maze(tmp_path_factory):
    base = tmp_path_factory.mktemp("maze")
    root = base / "a"
    (root / "a" / "b").mkdir(parents=True)
    (root / "b").mkdir()
    for folder in (root, root / "a", root / "a" / "b"):
        (folder / "f").write_bytes(b"inside")
        (folder / "in").symlink_to("f")
        (folder / "up").symlink_to("..")
        (folder / "out").symlink_to(base)
        (folder / "abs").symlink_to(root / "a")
        (folder / "loop").symlink_to("loop")
    (base / "f").write_bytes(b"secret")
    return root


PIECES = st.lists(
    st.sampled_from(["a", "b", "..", ".", "to_a", "to_b", "to_file", "loop", "gone", "file", "no\u00e9"]), max_size=6
)


@given(PIECES)
@settings(max_examples=200)
def test_the_real_path_is_that_of_a_walk(tmp_path_factory, pieces):
    top = tmp_path_factory.getbasetemp() / "links"
    if not top.exists():
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "file").touch()
        (top / "a" / "no\u00e9").mkdir()
        (top / "to_a").symlink_to("a")
        (top / "a" / "to_b").symlink_to(top / "a" / "b")
        (top / "a" / "to_file").symlink_to("../to_a/file")
        (top / "loop").symlink_to("loop")
        (top / "gone").symlink_to("nowhere")
    path = "/".join([str(top), *pieces])
    assert real_path(path) == os.path.realpath(path)


def test_a_real_path_waits_for_nothing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert real_path(str(tmp_path / "pipe")) == os.path.realpath(tmp_path / "pipe")
