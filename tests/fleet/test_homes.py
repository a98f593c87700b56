"""Homes in and out of the rows: byte for byte, all or nothing, and fenced."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fleet.test_transfer import NAMES, TREES, make, picture

from homarus.core.errors import ConfigError, StorageError, Unknown
from homarus.fleet import homes
from homarus.fleet.homes import bound, bring_in, remove, seal, take_out
from homarus.fleet.objects import Folder, Store
from homarus.fleet.placement import Placement
from homarus.fleet.rows import HomeVolume

LONG = b"".join(b'{"n":%d}\n' % n for n in range(60_000))


@pytest.fixture
def store(tmp_path: Path):
    made = Store(Folder(tmp_path / "objects"))
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "laptop"
    sessions = root / ".openclaw" / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True, mode=0o700)
    (root / ".openclaw" / "openclaw.json").write_text("{}")
    (sessions / "s1.jsonl").write_bytes(LONG)
    (sessions / "s2.jsonl").write_bytes(b'{"a":1}\n{"torn')
    (sessions / "empty.jsonl").write_bytes(b"")
    (root / "photos").mkdir()
    (root / "photos" / "cat.jpg").write_bytes(os.urandom(700_000))
    (root / "photos" / "latest").symlink_to("cat.jpg")
    (root / "photos" / "run.sh").write_text("#!/bin/sh\n")
    (root / "photos" / "run.sh").chmod(0o755)
    return root


def test_a_home_goes_to_the_fleet_and_back_and_to_the_fleet_again(database, store, home, tmp_path):
    done = bring_in(database, store, "ada", home, tenant="t1")
    assert done["skipped"] == [] and done["bytes"] > 700_000
    take_out(database, store, "ada", tmp_path / "back")
    assert picture(tmp_path / "back") == picture(home)
    bring_in(database, store, "bob", tmp_path / "back")
    take_out(database, store, "bob", tmp_path / "again")
    assert picture(tmp_path / "again") == picture(home)
    row = database.rows("select l.worker, h.format, h.tenant from lease l join home h using (home) where home = 'ada'")[
        0
    ]
    assert (row["worker"], row["format"], row["tenant"]) == (None, 1, "t1")


def test_it_works_without_a_store_of_objects(database, home, tmp_path):
    bring_in(database, None, "ada", home)
    take_out(database, None, "ada", tmp_path / "back")
    assert picture(tmp_path / "back") == picture(home)


def test_a_state_folder_alone_becomes_a_home(database, store, home, tmp_path):
    bring_in(database, store, "ada", home / ".openclaw")
    take_out(database, store, "ada", tmp_path / "back")
    assert picture(tmp_path / "back" / ".openclaw") == picture(home / ".openclaw")


@given(tree=st.dictionaries(NAMES, TREES, max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_home_survives_its_rows(database, store, tmp_path_factory, tree):
    root, out = tmp_path_factory.mktemp("in"), tmp_path_factory.mktemp("out")
    (root / ".openclaw").mkdir()
    for name, inner in tree.items():
        if name != b".openclaw":
            make(os.path.join(os.fsencode(root), name), inner)
    bring_in(database, store, "ada", root, replace=True) if homes_of(database) else bring_in(
        database, store, "ada", root
    )
    take_out(database, store, "ada", out / "x")
    assert picture(out / "x") == picture(root)


def homes_of(database) -> list[str]:
    return [row["home"] for row in database.rows("select home from home")]


def test_a_name_is_taken_once_and_replaced_only_when_told(database, store, home, tmp_path):
    bring_in(database, store, "ada", home)
    with pytest.raises(ConfigError, match="already"):
        bring_in(database, store, "ada", home)
    (home / "photos" / "cat.jpg").unlink()
    bring_in(database, store, "ada", home, replace=True)
    take_out(database, store, "ada", tmp_path / "back")
    assert picture(tmp_path / "back") == picture(home)
    for name in ("Ada", "../x", "a b", ""):
        with pytest.raises(ConfigError, match="cannot name"):
            bring_in(database, store, name, home)
    with pytest.raises(ConfigError, match="no home"):
        bring_in(database, store, "bob", tmp_path / "objects")
    with pytest.raises(Unknown):
        take_out(database, store, "nobody", tmp_path / "x")


async def test_nobody_takes_half_a_home_and_a_failure_leaves_none(database, store, home):
    worker = Placement(database, "w1")
    await worker.join("http://127.0.0.1:1")
    seen = []

    def watch(done: int, _all: int, _name: str) -> None:
        seen.append(database.rows("select format from home where home = 'ada'")[0]["format"])
        if done == 8:
            raise KeyboardInterrupt

    import asyncio

    with pytest.raises(KeyboardInterrupt):
        await asyncio.to_thread(bring_in, database, store, "ada", home, progress=watch)
    assert set(seen) == {homes.UNFINISHED}
    assert homes_of(database) == []
    lease, _ = homes._begun(database, "ada", "", replace=False)
    assert await worker.take("ada") is None and await worker.adopt(10) == []
    homes._end(database, lease)
    assert await worker.take("ada") is not None


async def test_a_home_that_is_replaced_is_no_longer_its_owners(database, store, home, tmp_path):
    bring_in(database, store, "ada", home)
    worker = Placement(database, "w1")
    await worker.join("http://127.0.0.1:1")
    lease = await worker.take("ada")
    volume = HomeVolume(database, lease, tmp_path / "copy")
    bring_in(database, store, "ada", home, replace=True)
    with pytest.raises(StorageError, match="another worker"):
        volume.append("x.jsonl", 0, b"{}\n", 0o600, durable=True)


async def test_sealed_logs_are_the_same_files_and_grow_on(database, store, home, tmp_path):
    (home / ".openclaw" / "log.jsonl").write_bytes(b"base\n")
    bring_in(database, store, "ada", home)
    worker = Placement(database, "w1")
    await worker.join("http://127.0.0.1:1")
    lease = await worker.take("ada")
    volume, whole = HomeVolume(database, lease, tmp_path / "copy"), b"base\n"
    for round_ in range(3):
        for _ in range(5):
            piece = LONG[: 100_000 + round_]
            volume.append(".openclaw/log.jsonl", len(whole), piece, 0o600, durable=True)
            whole += piece
        assert seal(database, store, lease, least=1000) == [".openclaw/log.jsonl"]
        assert seal(database, store, lease, least=1000) == []
        assert database.rows("select count(*) as n from line")[0]["n"] == 0
    volume.append(".openclaw/log.jsonl", len(whole), b"tail\n", 0o600, durable=True)
    take_out(database, store, "ada", tmp_path / "back")
    assert (tmp_path / "back" / ".openclaw" / "log.jsonl").read_bytes() == whole + b"tail\n"
    again = HomeVolume(database, lease, tmp_path / "made", objects=store.of("ada"))
    (tmp_path / "made").mkdir()
    again.materialise()
    assert (tmp_path / "made" / ".openclaw" / "log.jsonl").read_bytes() == whole + b"tail\n"
    await worker.release([lease])
    volume_size = database.rows("select count(*) as n from line")[0]["n"]
    assert seal(database, store, lease, least=1) == []  # it is nobody's to seal
    assert database.rows("select count(*) as n from line")[0]["n"] == volume_size


def test_holes_are_not_handed_out(database, store, home, tmp_path):
    bring_in(database, store, "ada", home)
    database.rows(
        "insert into line (home, path, at, epoch, bytes) values ('ada', '.openclaw/openclaw.json', 9, 1, 'x')"
    )
    with pytest.raises(StorageError, match="hole"):
        take_out(database, store, "ada", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_quotas_are_kept_with_the_home_and_a_removed_one_leaves_nothing(database, store, home, tmp_path):
    bring_in(database, store, "ada", home)
    bring_in(database, store, "bob", home)
    assert bound(database, "ada", {"files": 3, "processes": 2}) == {"files": 3, "processes": 2}
    assert bound(database, "ada", {"files": None}) == {"processes": 2}
    assert remove(database, store, "ada") == 2
    assert homes_of(database) == ["bob"]
    assert database.rows("select count(*) as n from file where home = 'ada'")[0]["n"] == 0
    take_out(database, store, "bob", tmp_path / "back")  # equal contents are nobody else's
    assert picture(tmp_path / "back") == picture(home)
