"""Many lines become one row, and the file stays what it was to the byte."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fleet.homes import mounted, taken, tree

from homarus.fleet.homes import merge, take_out
from homarus.fleet.rows import Lease
from homarus.storage.jsonl import JsonlWriter


def rows(database, home: str = "ada") -> int:
    return database.rows("select count(*) as n from line where home = $1", home)[0]["n"]


def test_a_log_is_the_same_before_and_after_and_goes_on(database, tmp_path: Path) -> None:
    lease = taken(database, "ada")
    with mounted(database, lease, tmp_path / "ada"):
        log, short = (JsonlWriter.open(tmp_path / "ada" / name) for name in ("log.jsonl", "short.jsonl"))
        for number in range(70):
            log.append({"n": number})
        short.append({"n": 1})
        assert merge(database, lease) == ["log.jsonl"]
        assert rows(database) == 2
        log.append({"n": "after"})
        assert merge(database, lease) == []
        for writer in (log, short):
            writer.close()
        before = tree(tmp_path / "ada")
    take_out(database, None, "ada", tmp_path / "out")
    assert tree(tmp_path / "out") == before
    with mounted(database, taken(database, "ada", "two"), tmp_path / "two"):
        assert tree(tmp_path / "two") == before


def test_only_the_owner_may_and_only_while_nothing_is_on_its_way(database, tmp_path: Path) -> None:
    lease = taken(database, "ada")
    with mounted(database, lease, tmp_path / "ada"):
        log = JsonlWriter.open(tmp_path / "ada" / "log.jsonl")
        for number in range(5):
            log.append({"n": number})
        log.close()
    assert merge(database, lease, least=2, calm=lambda: False) == []
    assert merge(database, Lease("ada", lease.epoch - 1, "one"), least=2) == []
    assert rows(database) == 5
    database.rows("delete from line where at = 8")
    assert merge(database, lease, least=2) == [], "what is damaged is left for the doctor"
    assert rows(database) == 4


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(pieces=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=12), at=st.integers(0, 12))
def test_bytes_stay_bytes(database, pieces, at) -> None:
    lease, place = taken(database, "ada"), 0
    database.rows("delete from file where home = 'ada'")
    database.rows("delete from line where home = 'ada'")
    for number, piece in enumerate(pieces):
        database.rows(
            "select append_lines('ada', $1, 'one', array['log'], array[33152], array[$2::bigint], array[$3::bytea])",
            lease.epoch, place, piece,
        )  # fmt: skip
        place += len(piece)
        if number == at:
            merge(database, lease, least=2)
    merge(database, lease, least=2)
    found = database.rows("select at, bytes from line where home = 'ada' order by at")
    assert [(row["at"], bytes(row["bytes"])) for row in found] == [(0, b"".join(pieces))]
