"""A home survives the way through its items: names, modes, links, empty folders and times."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from homarus.core.errors import StorageError
from homarus.fleet.rows import spelled, unspelled
from homarus.fleet.transfer import Item, fill, is_derived, lay_out, read_pieces, scan, whole_lines

NAMES = st.binary(min_size=1, max_size=12).filter(lambda n: b"/" not in n and b"\0" not in n and n not in {b".", b".."})
TREES = st.recursive(
    st.tuples(st.just("file"), st.binary(max_size=300), st.integers(0o400, 0o777), st.integers(1, 2**60))
    | st.tuples(st.just("link"), st.binary(min_size=1, max_size=20).filter(lambda t: b"\0" not in t)),
    lambda inner: st.tuples(
        st.just("folder"), st.dictionaries(NAMES, inner, max_size=4), st.integers(0o700, 0o777)
    ),
    max_leaves=12,
)  # fmt: skip


def make(place: bytes, tree: tuple) -> None:
    if tree[0] == "folder":
        os.mkdir(place)
        for name, inner in tree[1].items():
            make(os.path.join(place, name), inner)
        os.chmod(place, tree[2])
    elif tree[0] == "link":
        os.symlink(tree[1], place)
    else:
        with open(place, "wb") as file:
            file.write(tree[1])
        os.chmod(place, tree[2])
        os.utime(place, ns=(tree[3], tree[3]))


def picture(root: Path) -> dict[bytes, tuple]:
    """Return everything that must be the same, read without the code under test."""
    base, found = os.fsencode(root), {}
    for folder, folders, files in os.walk(base):
        for name in folders + files:
            place = os.path.join(folder, name)
            facts = os.lstat(place)
            what: object = b""
            if stat.S_ISLNK(facts.st_mode):
                what = os.readlink(place)
            elif stat.S_ISREG(facts.st_mode):
                with open(place, "rb") as file:
                    what = (file.read(), facts.st_mtime_ns)
            found[os.path.relpath(place, base)] = (facts.st_mode, what)
    return found


@given(st.dictionaries(NAMES, TREES, max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_home_survives(tmp_path_factory, tree):
    root = tmp_path_factory.mktemp("h")
    for name, inner in tree.items():
        make(os.path.join(os.fsencode(root), name), inner)
    items = list(scan(root))
    assert all("\0" not in item.path + item.link and (item.path + item.link).encode() for item in items)
    target = tmp_path_factory.mktemp("out")
    fill(target, items, lambda item: read_pieces(root, item.path))
    assert picture(target) == picture(root)


@given(st.binary().filter(lambda data: b"\0" not in data))
def test_every_name_has_one_text(name):
    text = spelled(os.fsdecode(name))
    assert os.fsencode(unspelled(text)) == name
    text.encode()


@given(st.lists(st.binary(max_size=40)), st.integers(1, 60))
def test_pieces_of_a_log_end_with_a_line(pieces, size):
    cut = list(whole_lines(pieces, size))
    assert b"".join(cut) == b"".join(pieces)
    assert all(piece.endswith(b"\n") for piece in cut[:-1])
    assert all(cut)


@pytest.mark.parametrize(
    "items",
    [
        [Item("../x", stat.S_IFREG | 0o600)],
        [Item("/x", stat.S_IFREG | 0o600)],
        [Item("a/../../x", stat.S_IFREG | 0o600)],
        [Item("a", stat.S_IFLNK | 0o777, link="/tmp"), Item("a/x", stat.S_IFREG | 0o600)],
        [Item("a", stat.S_IFLNK | 0o777, link=".."), Item("a/b/x", stat.S_IFREG | 0o600)],
        [Item("a", stat.S_IFLNK | 0o777, link="b"), Item("a", stat.S_IFREG | 0o600)],
    ],
)
def test_rows_that_lead_out_of_the_home_are_refused(items, tmp_path):
    target = tmp_path / "in" / "home"
    with pytest.raises(StorageError):
        lay_out(target, items, lambda _item: [b"evil"])
    assert not target.exists()
    assert [p.name for p in tmp_path.rglob("*")] == ["in"]


def test_nothing_is_written_over_what_is_there(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mine").write_text("x")
    with pytest.raises(StorageError, match="not empty"):
        lay_out(tmp_path / "home", [], lambda _item: [])
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="not empty"):
        lay_out(tmp_path / "link", [], lambda _item: [])


def test_a_failure_in_the_middle_leaves_nothing(tmp_path):
    def content(_item: Item) -> list[bytes]:
        raise StorageError("away")

    with pytest.raises(StorageError, match="away"):
        lay_out(tmp_path / "home", [Item("a", stat.S_IFREG | 0o600)], content)
    assert list(tmp_path.iterdir()) == []


def test_special_files_and_derived_ones_stay_behind(tmp_path):
    own = tmp_path / ".openclaw" / "homarus"
    own.mkdir(parents=True)
    for name in (
        "sessions-search.sqlite",
        "sessions-search.sqlite-wal",
        "gateway.lock",
        ".homarus-12-0123456789abcdef.tmp",
    ):
        (own / name).write_bytes(b"x")
    (own / "inbox.jsonl").write_bytes(b"{}\n")
    os.mkfifo(own / "pipe")
    left: list[tuple[str, str]] = []
    paths = [item.path for item in scan(tmp_path, skip=lambda *told: left.append(told))]
    assert paths == [".openclaw", ".openclaw/homarus", ".openclaw/homarus/inbox.jsonl"]
    assert left == [(".openclaw/homarus/pipe", "is no file, folder or link")]
    assert not is_derived(".openclaw/agents/main/agent/openclaw-agent.sqlite")
    assert not is_derived("ws/state/memory/main.sqlite")


def test_setuid_does_not_come_back(tmp_path):
    fill(tmp_path, [Item("a", stat.S_IFREG | 0o4755)], lambda _item: [b"x"])
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


def test_a_link_is_never_read_through(tmp_path):
    (tmp_path / "a").symlink_to("/etc/hostname")
    with pytest.raises(StorageError):
        list(read_pieces(tmp_path, "a"))
