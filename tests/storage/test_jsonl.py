"""Append-only logs: what was acknowledged stays, whatever bytes a crash or another program left around it."""

import os
import stat
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.core.errors import StorageError
from homarus.storage.faults import Missing
from homarus.storage.jsonl import JsonlWriter, read_lines, read_lines_reversed


def values(path):
    return [line.value for line in read_lines(path)]


def test_append_and_read_back(tmp_path):
    path = tmp_path / "log.jsonl"
    with JsonlWriter.open(path) as log:
        offsets = [log.append({"n": 1}), log.append(b'{"n": 2}'), *log.append_many([{"n": 3}, {"n": 4}])]
        assert log.size == path.stat().st_size
        assert log.append_many([]) == []
    lines = list(read_lines(path))
    assert [line.value["n"] for line in lines] == [1, 2, 3, 4]
    assert [line.offset for line in lines] == offsets
    assert lines[1].raw == b'{"n": 2}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_append_need_not_be_durable(tmp_path):
    with JsonlWriter.open(tmp_path / "log") as log:
        log.append({"n": 1}, durable=False)
    assert values(tmp_path / "log") == [{"n": 1}]


def test_start_and_end_choose_a_part(tmp_path):
    path = tmp_path / "log"
    with JsonlWriter.open(path) as log:
        offsets = [log.append({"n": number}) for number in range(5)]
    assert [line.value["n"] for line in read_lines(path, start=offsets[2])] == [2, 3, 4]
    assert [line.value["n"] for line in read_lines(path, end=offsets[2])] == [0, 1]
    assert [line.value["n"] for line in read_lines_reversed(path, end=offsets[2])] == [1, 0]
    cut = list(read_lines(path, end=offsets[2] + 3))[-1]
    assert (cut.torn, cut.value) == (True, None)


def test_a_torn_tail_stays_as_a_malformed_line_and_the_next_record_is_whole(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n{"n":2,"te')
    torn = list(read_lines(path))[-1]
    assert (torn.raw, torn.value, torn.torn) == (b'{"n":2,"te', None, True)
    assert torn.problem
    before = path.read_bytes()
    with JsonlWriter.open(path) as log:
        assert path.read_bytes() == before, "opening changes nothing"
        offset = log.append({"n": 3})
        log.append({"n": 4})
    assert path.read_bytes() == b'{"n":1}\n{"n":2,"te\n{"n":3}\n{"n":4}\n'
    assert [line.offset for line in read_lines(path)][2] == offset
    assert not any(line.torn for line in read_lines(path))


def test_a_last_line_that_lacks_only_its_newline_keeps_its_value(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}')
    (line,) = read_lines(path)
    assert (line.value, line.torn) == ({"n": 1}, True)
    with JsonlWriter.open(path) as log:
        log.append({"n": 2})
    assert values(path) == [{"n": 1}, {"n": 2}]


def test_a_foreign_append_between_ours_is_not_glued(tmp_path):
    path = tmp_path / "log"
    with JsonlWriter.open(path) as log:
        log.append({"n": 1})
        with path.open("ab") as other:
            other.write(b'{"n":2}')
        assert log.append({"n": 3}) == 16
    assert [value["n"] for value in values(path)] == [1, 2, 3]


@pytest.mark.parametrize("change", ["remove", "replace", "rename"])
def test_a_log_that_lost_its_name_takes_no_more_records(tmp_path, change):
    path = tmp_path / "log"
    log = JsonlWriter.open(path)
    log.append({"n": 1})
    if change == "replace":
        (tmp_path / "other").write_bytes(b"")
        (tmp_path / "other").replace(path)
    elif change == "rename":
        path.rename(tmp_path / "log.archived")
    else:
        path.unlink()
    with pytest.raises(StorageError, match="while it was open"):
        log.append({"n": 2})
    log.close()


def test_a_changed_working_folder_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = JsonlWriter.open(type(tmp_path)("log"))
    monkeypatch.chdir("/")
    log.append({"n": 1})
    log.close()
    assert values(tmp_path / "log") == [{"n": 1}]


def test_closed_twice_and_used_after(tmp_path):
    log = JsonlWriter.open(tmp_path / "log")
    log.close()
    log.close()
    with pytest.raises(StorageError, match="closed"):
        log.append({})


@pytest.mark.parametrize("record", [b"", b"  ", b"a\nb", b'{"a":1}\n'])
def test_bytes_that_are_not_one_line_are_a_mistake_of_the_caller(tmp_path, record):
    with JsonlWriter.open(tmp_path / "log") as log, pytest.raises(ValueError, match="one line"):
        log.append(record)
    assert (tmp_path / "log").read_bytes() == b""


def test_missing_files_are_told_from_empty_ones(tmp_path):
    with pytest.raises(Missing):
        JsonlWriter.open(tmp_path / "log", create=False)
    for reader in (read_lines, read_lines_reversed):
        with pytest.raises(Missing):
            list(reader(tmp_path / "log"))
    (tmp_path / "log").write_bytes(b"")
    assert list(read_lines(tmp_path / "log")) == list(read_lines_reversed(tmp_path / "log")) == []


def test_pipes_and_folders_do_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(StorageError):
            list(read_lines(tmp_path / name))
        with pytest.raises(StorageError):
            JsonlWriter.open(tmp_path / name)


def test_a_line_over_the_limit_is_reported_and_not_loaded(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"n":1}\n"' + b"x" * 300_000 + b'"\n{"n":2}\n"' + b"y" * 200_000)
    lines = list(read_lines(path, max_line=1000))
    assert [line.value for line in lines] == [{"n": 1}, None, {"n": 2}, None]
    assert [line.raw for line in lines[1::2]] == [b"", b""]
    assert "300002 bytes" in lines[1].problem
    assert lines[3].torn
    assert list(read_lines_reversed(path, max_line=1000))[::-1] == lines


def test_a_record_that_could_not_be_read_back_is_refused(tmp_path):
    with JsonlWriter.open(tmp_path / "log") as log, pytest.raises(StorageError, match="longer than a line"):
        log.append("x" * (64 << 20))
    assert (tmp_path / "log").stat().st_size == 0


def test_the_tail_of_a_huge_file_is_read_without_the_rest(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(8 << 30)  # sparse: reading all of it would take minutes
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"n":1}\n{"n":2}\n')
    with JsonlWriter.open(path) as log:
        log.append({"n": 3})
    tail = read_lines_reversed(path)
    assert [next(tail).value["n"] for _ in range(3)] == [3, 2, 1]
    tail.close()


def test_threads_do_not_mix_their_lines(tmp_path):
    log = JsonlWriter.open(tmp_path / "log")

    def work(name):
        for number in range(50):
            log.append({"t": name, "n": number, "pad": "x" * 3000}, durable=False)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    found = values(tmp_path / "log")
    assert len(found) == 200
    for name in range(4):
        assert [value["n"] for value in found if value["t"] == name] == list(range(50))


pieces = st.lists(
    st.sampled_from([b"\n", b'{"a":1}\n', b'{"a":1}', b"\r\n", b" ", b"\x00", b"\xff", b'"' + b"x" * 90 + b'"\n'])
    | st.binary(max_size=30),
    max_size=30,
).map(b"".join)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One file for all examples of a property; each begins by writing it anew."""
    return tmp_path_factory.mktemp("jsonl") / "log"


def for_some_and_for_many(some, many):
    """Run a property briefly in every test run and at length in the deep one."""
    examples = [pytest.param(some, id="some"), pytest.param(many, id="many", marks=pytest.mark.deep)]
    return pytest.mark.parametrize("examples", examples)


@for_some_and_for_many(200, 30_000)
def test_both_directions_see_the_same_lines(path, examples):
    @settings(deadline=None, max_examples=examples)
    @given(data=pieces, block=st.integers(1, 40), max_line=st.integers(1, 120), end=st.integers(0, 400) | st.none())
    def check(data, block, max_line, end):
        check_both_directions(path, data, block, max_line, end)

    check()


def check_both_directions(path, data, block, max_line, end):
    path.write_bytes(data)
    forward = list(read_lines(path, end=end, max_line=max_line))
    assert list(read_lines_reversed(path, end=end, block=block, max_line=max_line))[::-1] == forward
    seen = data if end is None else data[:end]
    expected = [part for part in seen.split(b"\n") if part.strip() or len(part) > max_line]
    assert [line.raw for line in forward] == [part if len(part) <= max_line else b"" for part in expected]
    assert [seen[line.offset :].split(b"\n")[0] for line in forward] == expected
    assert [line.torn for line in forward[:-1]] == [False] * len(forward[:-1])
    if forward:
        last = seen.rsplit(b"\n", 1)[-1]
        assert forward[-1].torn == (bool(last.strip()) or len(last) > max_line)


actions = st.lists(
    st.tuples(st.just("append"), st.text(max_size=20))
    | st.tuples(st.just("tear"), st.binary(min_size=1, max_size=20))
    | st.tuples(st.just("reopen"), st.none()),
    max_size=25,
)


@for_some_and_for_many(150, 10_000)
def test_no_foreign_bytes_cost_a_record(path, examples):
    @settings(deadline=None, max_examples=examples)
    @given(actions)
    def check(steps):
        check_that_no_record_is_lost(path, steps)

    check()


def check_that_no_record_is_lost(path, steps):
    """Whatever garbage gets between our appends, every record we acknowledged is read back, in order."""
    path.write_bytes(b"")
    log = JsonlWriter.open(path)
    acknowledged, written = [], b""
    for action, argument in steps:
        if action == "append":
            record = {"ours": argument}
            offset = log.append(record, durable=False)
            acknowledged.append((offset, record))
        elif action == "tear":
            with path.open("ab") as file:
                file.write(argument)
        else:
            log.close()
            log = JsonlWriter.open(path)
        assert path.read_bytes().startswith(written), "nothing that was there is lost"
        written = path.read_bytes()
    log.close()
    found = {line.offset: line.value for line in read_lines(path)}
    assert all(found[offset] == record for offset, record in acknowledged)


@for_some_and_for_many(100, 10_000)
def test_a_file_cut_at_any_byte_keeps_all_whole_records_and_takes_more(path, examples):
    @settings(deadline=None, max_examples=examples)
    @given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3), max_size=12), st.data())
    def check(records, data):
        check_a_cut(path, records, data)

    check()


def check_a_cut(path, records, data):
    path.write_bytes(b"")
    with JsonlWriter.open(path) as log:
        log.append_many(records, durable=False)
    cut = data.draw(st.integers(0, path.stat().st_size))
    whole = path.read_bytes()[:cut].count(b"\n")
    os.truncate(path, cut)
    with JsonlWriter.open(path) as log:
        log.append({"after": True})
    found = values(path)
    assert found[:whole] == records[:whole]
    assert found[-1] == {"after": True}
    assert len(found) - whole in (1, 2)
