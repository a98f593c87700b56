import itertools
import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fleet.homes import mounted, taken, tree

from homarus.core.errors import Fenced, StorageError
from homarus.fleet.commits import Commits
from homarus.fleet.large import STREAMED
from homarus.fleet.rows import HomeVolume, spelled, unspelled
from homarus.storage.atomic import backup, create_new, ensure_dir, keep_copy, move_aside, remove, write_atomic
from homarus.storage.boundary import Root
from homarus.storage.jsonl import JsonlWriter, append_shared
from homarus.storage.volume import changed, mount, unmount

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_numbers = itertools.count()
NAMES = st.sampled_from(["a.md", "log.jsonl", "s/a.jsonl", "s/deep/b.md", "ä ö.md", "s/\udcff.md", "\uf8ff00e4"])
DATA = st.binary(max_size=300)


@pytest.mark.parametrize("text", ["plain", "a/ä", "\udc80\udcff", "\uf8ff", "\uf8ff0041", "\uf8ff\udcaa"])
def test_any_name_of_the_disk_has_a_spelling_of_its_own(text):
    assert unspelled(spelled(text)) == text
    spelled(text).encode()


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.binary().map(os.fsdecode))
def test_spelling_is_reversible(text):
    assert unspelled(spelled(text)) == text


class Machine:
    """Calls storage as the packages above it do, and programs that do not know it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writers: dict[Path, JsonlWriter] = {}

    def do(self, verb: str, name: str, data: bytes) -> None:
        path = self.folder / name
        ensure_dir(path.parent)
        try:
            getattr(self, verb)(path, data)
        except StorageError as problem:
            assert not isinstance(problem, Fenced)

    def append(self, path: Path, data: bytes, durable: bool = True) -> None:
        writer = self.writers.get(path)
        if writer is None or not writer.is_named:
            if writer is not None:
                writer.close()
            writer = self.writers[path] = JsonlWriter.open(path)
        writer.append_many([{"text": data.hex()}, {"n": 1}], durable=durable)

    def append_lazily(self, path: Path, data: bytes) -> None:
        self.append(path, data, durable=False)

    def append_shared(self, path: Path, data: bytes) -> None:
        append_shared(path, {"data": data.hex()}, mode=0o640)

    def write(self, path: Path, data: bytes) -> None:
        write_atomic(path, data, mode=0o644)

    def write_in_pieces(self, path: Path, data: bytes) -> None:
        write_atomic(path, (data[i : i + 1] for i in range(len(data))))

    def create(self, path: Path, data: bytes) -> None:
        create_new(path, data)

    def guarded(self, path: Path, data: bytes) -> None:
        with Root(self.folder) as root:
            root.make_dirs("r/s")
            root.write("r/s/x", data)
            root.remove("r/s/x")
            root.remove_dirs(["r/s"])
            root.write(str(path.relative_to(self.folder)), data)

    def aside(self, path: Path, _data: bytes) -> None:
        move_aside(path, "damaged", NOW)

    def back_up(self, path: Path, _data: bytes) -> None:
        backup(path, keep=3)

    def copy(self, path: Path, _data: bytes) -> None:
        keep_copy(path, "old")

    def remove(self, path: Path, _data: bytes) -> None:
        remove(path)

    def command(self, path: Path, data: bytes) -> None:
        """Change files as a command does that the agent ran."""
        path.unlink(missing_ok=True)
        (self.folder / "made").mkdir(exist_ok=True)
        (self.folder / "made" / "empty").mkdir(exist_ok=True, mode=0o711)
        (self.folder / "made" / f"f{data[:4].hex()}").write_bytes(data)
        link = self.folder / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(os.fsdecode(data[:6].replace(b"\0", b"x") or b"nowhere"))
        changed(self.folder)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


VERBS = [name for name in vars(Machine) if not name.startswith("_") and name not in {"do", "close"}]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(VERBS), NAMES, DATA), max_size=12), st.booleans())
@example(
    [("append", "a.md", b""), ("append", "a.md", b""), ("command", "a.md", b""), ("append_lazily", "a.md", b"")], False
)
@example([("append", "a.md", b""), ("command", "a.md", b""), ("remove", "a.md", b"")], False)
def test_whatever_storage_does_the_rows_give_the_folder_back(session_rows, steps, later):
    database, tmp = session_rows
    home, commits = f"h{next(_numbers)}", Commits(database) if later else None
    with mounted(database, taken(database, home), tmp / home / "first", commits=commits) as volume:
        machine = Machine(tmp / home / "first")
        for step in steps:
            machine.do(*step)
        found = volume.settle()
        assert found == [] or "command" in {
            verb for verb, _, _ in steps
        }  # every verb of storage told the rows by itself
        machine.close()
        before = tree(tmp / home / "first")
    with mounted(database, taken(database, home, "two"), tmp / home / "second") as again:
        assert tree(tmp / home / "second") == before
        assert again.settle() == []


@pytest.fixture(scope="session")
def session_rows(server, tmp_path_factory):
    from homarus.fleet.database import Database

    server.sql("create database rows")
    with Database(server.dsn("rows")) as database:
        database.migrate()
        yield database, tmp_path_factory.mktemp("rows")


def test_what_a_command_changed_is_committed_before_its_result(database, tmp_path):
    with mounted(database, taken(database, "ada"), tmp_path / "ada"):
        log = JsonlWriter.open(tmp_path / "ada" / "session.jsonl")
        (tmp_path / "ada" / "made.txt").write_text("by a command")
        changed(tmp_path / "ada")
        log.append({"result": "done"})
        log.close()
        paths = [row["path"] for row in database.rows("select path from file where home = 'ada' order by path")]
    assert paths == ["made.txt", "session.jsonl"]


def test_a_late_write_of_an_old_lease_is_refused_and_leaves_no_trace(database, tmp_path):
    lost = []
    with mounted(database, taken(database, "ada"), tmp_path / "old", lost=lambda: lost.append(1)) as old:
        log = JsonlWriter.open(tmp_path / "old" / "log.jsonl")
        log.append({"n": 1})
        before = (tmp_path / "old" / "log.jsonl").read_bytes()
        new = taken(database, "ada", "two")
        assert new.epoch > old.lease.epoch
        for act in (
            lambda: log.append({"n": 2}),
            lambda: write_atomic(tmp_path / "old" / "x", b"late"),
            lambda: remove(tmp_path / "old" / "log.jsonl"),
            lambda: move_aside(tmp_path / "old" / "log.jsonl", "damaged", NOW),
            lambda: ensure_dir(tmp_path / "old" / "folder"),
        ):
            with pytest.raises(Fenced, match="another worker"):
                act()
        assert lost == [1]
        assert tree(tmp_path / "old") == {"log.jsonl": (0o100600, before)}
        log.close()
        with mounted(database, new, tmp_path / "new"):
            assert tree(tmp_path / "new") == tree(tmp_path / "old")


def test_removing_what_is_not_there_leaves_nothing_to_look_for(database, tmp_path):
    with mounted(database, taken(database, "ada"), tmp_path / "ada") as volume:
        write_atomic(volume.folder / "a.md", b"one")
        assert not remove(volume.folder / "b.md")
        assert not volume.waits
        (volume.folder / "a.md").unlink()  # by somebody who does not say so
        assert not remove(volume.folder / "a.md")
        assert volume.settle() == ["a.md"]


def test_what_need_not_be_durable_rides_with_the_next_durable_line(database, tmp_path):
    with mounted(database, taken(database, "ada"), tmp_path / "ada") as volume:
        log = JsonlWriter.open(tmp_path / "ada" / "log.jsonl")
        log.append({"n": 1}, durable=False)
        assert database.rows("select 1 from line") == []
        assert volume.waits
        log.append({"n": 2})
        assert [bytes(row["bytes"]) for row in database.rows("select bytes from line order by at")] == [
            b'{"n":1}\n', b'{"n":2}\n',
        ]  # fmt: skip
        assert not volume.waits
        log.close()


def test_a_disk_that_cannot_follow_takes_the_rows_back_with_it(database, tmp_path):
    with mounted(database, taken(database, "ada"), tmp_path / "ada") as volume:
        path = tmp_path / "ada" / "log.jsonl"
        log = JsonlWriter.open(path)
        log.append({"n": 1})
        fd, log._fd = log._fd, os.open(path, os.O_RDONLY)  # a disk that takes nothing any more
        with pytest.raises(StorageError, match="append to"):
            log.append({"n": 2})
        os.close(log._fd)
        log._fd = fd
        log.append({"n": 3})
        log.close()
        volume.settle()
    with mounted(database, taken(database, "ada", "two"), tmp_path / "two"):
        assert (tmp_path / "two" / "log.jsonl").read_bytes() == path.read_bytes() == b'{"n":1}\n{"n":3}\n'


class Shelf:
    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        self.held[name] = data

    def get(self, name: str) -> bytes:
        return self.held[name]

    def put_pieces(self, name, pieces) -> None:
        self.held[name] = b"".join(pieces)

    def get_pieces(self, name: str) -> list[bytes]:
        return [self.held[name]]


def test_a_large_file_lies_in_the_object_store_and_damage_there_is_noticed(database, tmp_path):
    shelf, data = Shelf(), os.urandom(300_000)
    with mounted(database, taken(database, "ada"), tmp_path / "one", objects=shelf):
        write_atomic(tmp_path / "one" / "big", data)
    assert list(shelf.held.values()) == [data]
    lease = taken(database, "ada", "two")
    with mounted(database, lease, tmp_path / "two", objects=shelf):
        assert (tmp_path / "two" / "big").read_bytes() == data
    shelf.held = dict.fromkeys(shelf.held, b"other")
    (tmp_path / "three").mkdir()
    with pytest.raises(StorageError, match="damaged"):
        HomeVolume(database, lease, tmp_path / "three", objects=shelf).materialise()


class SlowShelf(Shelf):
    """A store that takes something only when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may, self.calls = threading.Event(), threading.Event(), 0

    def put_pieces(self, name, pieces) -> None:
        self.calls += 1
        self.asked.set()
        assert self.may.wait(120)
        super().put_pieces(name, pieces)


@pytest.mark.parametrize("how", ["settle", "tidy"])
def test_while_a_large_file_is_on_its_way_the_home_goes_on_writing(database, tmp_path, how):
    shelf, data = SlowShelf(), os.urandom(STREAMED + 1)
    with mounted(database, taken(database, "ada"), tmp_path / "one", objects=shelf) as volume:
        log = JsonlWriter.open(tmp_path / "one" / "log.jsonl")
        log.append({"n": 1})
        (tmp_path / "one" / "big").write_bytes(data)  # as a command does
        volume.unknown = how == "tidy"
        with ThreadPoolExecutor(1) as pool:
            settling = pool.submit(getattr(volume, how))
            try:
                assert shelf.asked.wait(120)
                volume.unknown = False  # else the line would settle first, and wait as well
                log.append({"n": 2})  # this test ends only if it needs nothing of the store
                volume.unknown = how == "tidy"
            finally:
                shelf.may.set()
            settling.result(120)
        log.close()
        assert shelf.calls == 1  # what was sent ahead is not sent again
    with mounted(database, taken(database, "ada", "two"), tmp_path / "two", objects=shelf):
        assert (tmp_path / "two" / "big").read_bytes() == data
        assert (tmp_path / "two" / "log.jsonl").read_bytes() == b'{"n":1}\n{"n":2}\n'


def test_a_large_file_that_changes_after_it_was_sent_is_sent_again(database, tmp_path):
    shelf = Shelf()
    with mounted(database, taken(database, "ada"), tmp_path / "one", objects=shelf) as volume:
        big = tmp_path / "one" / "big"
        big.write_bytes(b"a" * (STREAMED + 1))
        volume._send_ahead()
        big.write_bytes(b"b" * (STREAMED + 2))
        volume._settle()
    with mounted(database, taken(database, "ada", "two"), tmp_path / "two", objects=shelf):
        assert (tmp_path / "two" / "big").read_bytes() == b"b" * (STREAMED + 2)


def test_rows_with_a_hole_are_told_and_not_served(database, tmp_path):
    lease = taken(database, "ada")
    with mounted(database, lease, tmp_path / "one"):
        log = JsonlWriter.open(tmp_path / "one" / "log.jsonl")
        for number in range(3):
            log.append({"n": number})
        log.close()
    database.rows("delete from line where at = 8")
    (tmp_path / "two").mkdir()
    with pytest.raises(StorageError, match="hole"):
        HomeVolume(database, lease, tmp_path / "two").materialise()


async def test_a_home_that_is_full_keeps_what_it_has_and_can_tidy_up(database, tmp_path):
    from homarus.fleet import rows
    from homarus.fleet.placement import Placement

    worker = Placement(database, "w1")
    await worker.join("http://127.0.0.1:1")
    await worker.add("ada")
    volume = rows.HomeVolume(database, await worker.take("ada"), tmp_path / "ada")
    (tmp_path / "ada").mkdir()
    volume.most, volume.most_files = 1000, 5
    mount(str(volume.folder), volume)
    try:
        write_atomic(volume.folder / "small", b"x" * 900)
        (volume.folder / "big").write_bytes(b"x" * 5000)  # as a command does
        volume.changed()
        write_atomic(volume.folder / "note", b"y")
        assert volume.left_out == {"big"}
        assert stored_paths(database) == ["note", "small"]
        assert not (volume.folder / "big").exists()  # nobody fills a worker's disk with what is not kept
        (volume.folder / "small").write_bytes(b"z" * 5000)
        volume.changed()
        write_atomic(volume.folder / "note", b"y")
        assert volume.left_out == {"small"}
        assert (volume.folder / "small").read_bytes() == b"x" * 900
        volume.changed()
        volume.settle()
        assert not volume.left_out and not volume.unknown
        volume.most = -rows.RESERVE
        with pytest.raises(StorageError, match="used up"):
            write_atomic(volume.folder / "more", b"y")
        assert not (volume.folder / "more").exists()
        write_atomic(volume.folder / "small", b"")  # to become smaller is always allowed
        volume.most = 1000
        for number in range(10):  # what is empty is a row as well
            (volume.folder / f"f{number}").write_bytes(b"z" * (number % 2))
        for number in range(10):
            (volume.folder / f"d{number}" / "inner").mkdir(parents=True)
            (volume.folder / f"d{number}" / "link").symlink_to("nowhere")
        volume.changed()
        write_atomic(volume.folder / "note", b"yy")
        assert len(stored_paths(database)) == 5
        assert sorted(path.name for path in volume.folder.rglob("*")) == sorted(
            path.rpartition("/")[2] for path in stored_paths(database)
        )
    finally:
        unmount(str(volume.folder))


def test_a_huge_file_passes_through_piece_by_piece(database, tmp_path):
    from homarus.fleet.objects import Folder, Store
    from homarus.fleet.rows import STREAMED

    store, size = Store(Folder(tmp_path / "objects")), 20 * STREAMED
    with mounted(database, taken(database, "ada"), tmp_path / "one", objects=store.of("ada")) as volume:
        with (tmp_path / "one" / "hollow").open("wb") as file:  # it takes no space, and must take no memory either
            file.truncate(size)
        volume.changed()
        tracemalloc.start()
        volume.settle()
        most = tracemalloc.get_traced_memory()[1]
    assert most < 3 * STREAMED
    tracemalloc.reset_peak()
    with mounted(database, taken(database, "ada", "two"), tmp_path / "two", objects=store.of("ada")):
        assert (tmp_path / "two" / "hollow").stat().st_size == size
    assert tracemalloc.get_traced_memory()[1] < 3 * STREAMED
    tracemalloc.stop()
    store.close()


def test_without_a_store_no_huge_file_goes_into_the_database(database, tmp_path):
    from homarus.fleet.rows import LARGEST_INLINE

    with mounted(database, taken(database, "ada"), tmp_path / "one") as volume:
        with (tmp_path / "one" / "hollow").open("wb") as file:
            file.truncate(LARGEST_INLINE + 1)
        volume.changed()
        volume.settle()
        assert volume.left_out == {"hollow"}
    assert stored_paths(database) == []


def stored_paths(database) -> list[str]:
    return [row["path"] for row in database.rows("select path from file order by path")]
