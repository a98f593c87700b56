"""A home in one file and back, byte for byte; an archive of somebody else's making gets nothing out of its folder."""

from __future__ import annotations

import io
import os
import random
import sqlite3
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.admin.backup import MANIFEST, STATE, Entry, Manifest, create, is_safe, restore, verify
from homarus.cli.main import run
from homarus.core.errors import HomarusError
from homarus.storage.locks import OwnerLock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    state = tmp_path / "home"
    (state / "workspace" / "models").mkdir(parents=True)
    (state / "workspace" / "MEMORY.md").write_text("the key is under the mat\n")
    (state / "workspace" / "poetry.lock").write_text("a file of the user's own")
    (state / "workspace" / "models" / "mine.txt").write_text("mine")
    (state / "workspace" / "here.md").symlink_to("MEMORY.md")
    (state / "workspace" / "out.md").symlink_to("/etc/passwd")
    (state / "openclaw.json").write_text("{}")
    (state / "openclaw.json").chmod(0o600)
    (state / "models").mkdir()
    (state / "models" / "big.gguf").write_bytes(b"x")
    os.mkfifo(state / "pipe")
    return state


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_saved_comes_back(home: Path, tmp_path: Path) -> None:
    with sqlite3.connect(home / "some.sqlite") as database:
        database.execute("pragma journal_mode=wal")
        database.execute("create table t (x)")
        database.execute("insert into t values (7)")
        database.commit()
        target = tmp_path / "b.tar.gz"
        made = create({STATE: home}, target, NOW)
    database.close()
    assert target.stat().st_mode & 0o77 == 0
    assert verify(target)[1] == []
    assert any("out.md" in each for each in made.skipped)
    place = tmp_path / "again"
    assert restore(target, {STATE: place}, NOW) == [f"restored {place}"]
    with sqlite3.connect(place / "some.sqlite") as copy:
        assert copy.execute("select x from t").fetchone() == (7,)
    copy.close()
    kept = {name: data for name, data in tree(home).items() if "sqlite" not in name and name != "models/big.gguf"}
    del kept["workspace/out.md"]
    assert {name: data for name, data in tree(place).items() if "sqlite" not in name} == kept
    assert (place / "openclaw.json").stat().st_mode & 0o777 == 0o600
    assert (place / "workspace/here.md").readlink() == Path("MEMORY.md")


def test_nothing_is_overwritten(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.tar.gz"
    create({STATE: home}, target, NOW)
    with pytest.raises(HomarusError, match="exists already"):
        create({STATE: home}, target, NOW)
    with pytest.raises(HomarusError, match="lies inside"):
        create({STATE: home}, home / "workspace" / "b.tar.gz", NOW)
    with pytest.raises(HomarusError, match="not empty"):
        restore(target, {STATE: home}, NOW)
    (home / "workspace" / "MEMORY.md").write_text("newer")
    done = restore(target, {STATE: home}, NOW, replace=True)
    assert (home / "workspace" / "MEMORY.md").read_text() == "the key is under the mat\n"
    aside = Path(done[0].rpartition(" to ")[2])
    assert (aside / "workspace" / "MEMORY.md").read_text() == "newer"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["b.tar.gz", "home", aside.name])


def test_a_damaged_archive_is_noticed_and_not_restored(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.tar.gz"
    create({STATE: home}, target, NOW)
    whole = target.read_bytes()
    for number, data in enumerate((whole[: len(whole) // 2], whole[:40] + b"\xff" + whole[41:], b"", b"no archive")):
        broken = tmp_path / f"broken-{number}"
        broken.write_bytes(data)
        with pytest.raises(HomarusError):
            restore(broken, {STATE: tmp_path / "never"}, NOW)
    assert not (tmp_path / "never").exists()
    with pytest.raises(HomarusError, match=r"nothere: No such file or directory \(check the path\)"):
        restore(tmp_path / "nothere", {STATE: tmp_path / "never"}, NOW)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("state/../../evil", ""),
        ("/evil", ""),
        ("state/link", "/etc"),
        ("state/link", "../../x"),
        ("elsewhere/file", ""),
        ("state/./x", ""),
    ],
)
def test_an_archive_of_an_attacker_writes_nothing(tmp_path: Path, name: str, link: str) -> None:
    target, data = tmp_path / "evil.tar.gz", b"x"
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    entry = Entry(0, "", 0, link) if link else Entry(1, digest, 0o777)
    manifest = Manifest(format=1, made="", version="", roots={STATE: "/"}, files={name: entry})
    with tarfile.open(target, "w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = 0 if link else 1
        if link:
            info.type, info.linkname = tarfile.SYMTYPE, link
        archive.addfile(info, None if link else io.BytesIO(data))
        body = msgspec.json.encode(manifest)
        last = tarfile.TarInfo(MANIFEST)
        last.size = len(body)
        archive.addfile(last, io.BytesIO(body))
    assert verify(target)[1]
    with pytest.raises(HomarusError, match="damaged"):
        restore(target, {STATE: tmp_path / "home"}, NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar.gz"]


def test_an_archive_does_not_choose_where_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    outside, state = tmp_path / "outside", tmp_path / "old"
    for folder in (outside, state):
        folder.mkdir()
        (folder / "file").write_text("x")
    target = tmp_path / "b.tar.gz"
    create({STATE: state, "workspace-1": outside}, target, NOW)
    (outside / "file").unlink()
    outside.rmdir()
    assert run(["backup", "restore", str(target)]) == 0
    assert not outside.exists()
    assert (tmp_path / "me/.openclaw-workspace-1/file").read_text() == "x"
    assert run(["backup", "restore", str(target)]) == 1, "the home is there now"
    assert run(["backup", "restore", str(target), "--elsewhere", "--replace"]) == 0
    assert (outside / "file").read_text() == "x"


@given(st.text(alphabet="ab./\\\0", max_size=12))
def test_a_safe_name_stays_below(name: str) -> None:
    if is_safe(name):
        where = os.path.normpath(os.path.join("/base", name))
        assert where.startswith("/base/")
        assert where == f"/base/{name}"


def test_a_home_in_use_is_left_alone(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.tar.gz"
    create({STATE: home}, target, NOW)
    for name, words in (
        ("homarus/gateway.lock", "gateway stop"),
        ("agents/main/sessions/a.jsonl.lock", "end that program"),
    ):
        (home / name).parent.mkdir(parents=True)
        before = tree(home)
        held = OwnerLock.acquire(home / name, purpose=name.split("/")[1].partition(".")[0], now=NOW)
        with held, pytest.raises(HomarusError) as refused:
            restore(target, {STATE: home}, NOW, replace=True)
        assert words in refused.value.cure and str(os.getpid()) in refused.value.message
        assert tree(home) == before
    restore(target, {STATE: home}, NOW, replace=True)


def test_an_archive_with_wrong_bits_is_named_and_nothing_is_put_back(home: Path, tmp_path: Path) -> None:
    target, dice = tmp_path / "b.tar.gz", random.Random(3)
    (home / "workspace" / "long.md").write_bytes(dice.randbytes(20_000))
    create({STATE: home}, target, NOW)
    whole, place = target.read_bytes(), tmp_path / "again"
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(3):
            data[dice.randrange(20, len(data) - 20)] ^= 1 << dice.randrange(8)
        target.write_bytes(data)
        with pytest.raises(HomarusError) as refused:
            restore(target, {STATE: place}, NOW)
        assert refused.value.cure
        assert not place.exists()
    with pytest.raises(HomarusError, match="No such file"):
        verify(tmp_path / "nowhere.tar.gz")
