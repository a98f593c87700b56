import json
import multiprocessing
import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.core.clock import ManualClock, SystemClock
from homarus.core.errors import Locked
from homarus.core.routes import SessionKey
from homarus.sessions.index import SessionIndex
from homarus.sessions.places import own
from homarus.sessions.row import SessionEntry, changes, read_row
from homarus.storage.locks import PATIENCE

NOW = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)
MAIN = SessionKey.parse("main")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.json"


def index(path, **more):
    return SessionIndex(path, "main", ManualClock(NOW), **more)


def test_rows_merge_and_strangers_stay(path):
    path.write_text('// mine\n{"agent:main:main": {sessionId: "a", "novel": [1,2,],}, "odd": 5}')
    index(path).put(MAIN, {"label": "work", "updatedAt": 3})
    assert json.loads(path.read_text()) == {
        "agent:main:main": {"sessionId": "a", "novel": [1, 2], "label": "work", "updatedAt": 3},
        "odd": 5,
    }
    assert path.read_text().startswith('{\n  "agent:main:main": {\n    "sessionId"')
    assert oct(path.stat().st_mode & 0o777) in {"0o644", "0o600"}


def test_a_new_file_is_private(path):
    index(path).put(MAIN, {"sessionId": "ü"})
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert "ü" in path.read_text()
    assert not path.with_name("sessions.json.lock").exists()


def test_none_removes_a_field_and_nothing_changed_is_nothing_written(path):
    one = index(path)
    one.put(MAIN, {"sessionId": "a", "label": "x"})
    assert one.put(MAIN, {"label": None}) == {"sessionId": "a"}
    before = path.stat().st_mtime_ns
    one.put(MAIN, {"sessionId": "a"})
    assert path.stat().st_mtime_ns == before


def test_what_is_returned_is_a_copy(path):
    one = index(path)
    one.put(MAIN, {"sessionId": "a", "origin": {"label": "x"}})
    one.rows()["agent:main:main"]["origin"]["label"] = "changed"
    one.get(MAIN)[1]["origin"]["label"] = "changed"
    assert one.get(MAIN)[1]["origin"] == {"label": "x"}


def test_a_change_by_another_process_is_seen_and_kept(path):
    ours, theirs = index(path), index(path)
    ours.put(MAIN, {"sessionId": "a"})
    assert theirs.get(MAIN)[1] == {"sessionId": "a"}
    theirs.put(SessionKey.parse("agent:main:explicit:b"), {"sessionId": "b"})
    ours.put(MAIN, {"label": "x"})
    assert set(ours.rows()) == {"agent:main:main", "agent:main:explicit:b"}


def test_the_list_form_is_read_and_converted_by_the_first_write(path):
    item = {
        "id": "abc123",
        "name": "my-api",
        "created_at": "2026-04-15T10:00:00Z",
        "updated_at": "2026-04-15T12:30:00Z",
        "message_count": 47,
        "agent_id": "default",
    }
    path.write_text(json.dumps([item, "junk", {"id": ""}]))
    before = path.read_bytes()
    one = index(path)
    key = SessionKey.parse("agent:default:explicit:abc123")
    assert one.get(key)[1] == {
        "sessionId": "abc123",
        "label": "my-api",
        "sessionStartedAt": 1776247200000,
        "updatedAt": 1776256200000,
        "message_count": 47,
    }
    assert path.read_bytes() == before
    one.put(MAIN, {"sessionId": "m"})
    assert set(json.loads(path.read_text())) == {"agent:default:explicit:abc123", "agent:main:main"}
    assert path.with_name("sessions.json.array.bak").read_bytes() == before


def test_a_damaged_index_is_moved_aside_and_never_overwritten(path):
    path.write_text('{"agent:main:main": {"sessionId"')
    one = index(path)
    assert (one.rows(), one.form) == ({}, "damaged")
    one.put(MAIN, {"sessionId": "new"})
    aside = [p for p in path.parent.iterdir() if ".corrupt." in p.name]
    assert [p.read_text() for p in aside] == ['{"agent:main:main": {"sessionId"']
    assert one.rows() == {"agent:main:main": {"sessionId": "new"}}


def test_the_other_spelling_of_a_direct_message_is_found_and_kept(path):
    path.write_text(
        '{"agent:main:telegram:dm:42": {"sessionId": "a"}, "agent:main:Telegram:group:-1": {"sessionId": "g"}}'
    )
    one = index(path)
    assert one.get(SessionKey.parse("agent:main:telegram:direct:42"))[0] == "agent:main:telegram:dm:42"
    assert one.get(SessionKey.parse("agent:main:telegram:group:-1"))[1]["sessionId"] == "g"
    one.put(SessionKey.parse("agent:main:telegram:direct:42"), {"label": "x"})
    assert one.rows()["agent:main:telegram:dm:42"] == {"sessionId": "a", "label": "x"}


def test_a_held_lock_is_an_error_after_the_wait(path):
    with own(path, NOW), pytest.raises(Locked):
        index(path, wait=0.05).put(MAIN, {"sessionId": "a"})


def _add(path, name, count):
    one = SessionIndex(path, "main", SystemClock())
    for number in range(count):
        one.put(SessionKey.parse(f"agent:main:explicit:{name}-{number}"), {"sessionId": f"{name}-{number}"})


def test_two_processes_lose_no_row(path):
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_add, args=(path, name, 15)) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(index(path).rows()) == 30


def test_typed_view_of_a_row():
    row = {
        "sessionId": "s",
        "updatedAt": 5,
        "provider": "telegram",
        "lastProvider": "t",
        "room": "r",
        "novel": 1,
        "memoryFlush": {"compactionCount": 3},
    }
    entry = read_row(row)
    assert (entry.session_id, entry.channel, entry.last_channel, entry.group_channel) == ("s", "telegram", "t", "r")
    assert entry.flushed_at_compaction == 3
    assert "channel" not in row


def test_a_bad_field_costs_only_itself():
    entry = read_row(
        {
            "sessionId": "s",
            "compactionCount": "many",
            "updatedAt": "2026-04-15T10:00:00Z",
            "label": 5,
            "lastThreadId": 7,
        }
    )
    assert entry == SessionEntry(session_id="s", updated_at=1776247200000, last_thread_id=7)
    assert read_row(None) == read_row([]) == SessionEntry()


def test_changes_have_the_names_of_the_file():
    assert changes(session_id="a", last_to=None) == {"sessionId": "a", "lastTo": None}
    with pytest.raises(TypeError):
        changes(nonsense=1)


ROWS = st.dictionaries(
    st.text(max_size=8),
    st.dictionaries(
        st.text(max_size=5), st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8), max_size=4
    )
    | st.lists(st.integers(), max_size=2)
    | st.none(),
    max_size=5,
)


@settings(max_examples=30, deadline=None)
@given(ROWS, st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6))
def test_the_file_is_the_same_whether_rows_are_remembered_or_read(rows, steps):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.json"
        path.write_text(json.dumps(rows))
        # To this one every file is old, so it never reads one that it knows.
        remembers = SessionIndex(path, "main", ManualClock(datetime(2100, 1, 1, tzinfo=UTC)))
        expected = {name: row for name, row in rows.items() if isinstance(row, dict)}
        for number, (peer, own_write) in enumerate(steps):
            key = SessionKey.parse(f"agent:main:telegram:group:{peer}")
            fields = {"text": "line\nbreak", "deep": {"a": [1, {"b": 2}]}, "longer": "x" * number}
            # Another process of ours, which knows nothing, may write in between.
            (remembers if own_write else index(path)).put(key, fields)
            expected[str(key)] = fields
            stored = json.loads(path.read_text())
            assert {name: row for name, row in stored.items() if isinstance(row, dict)} == expected
            assert remembers.rows() == expected
            assert path.read_bytes() == msgspec.json.format(msgspec.json.encode(stored), indent=2)


def test_what_a_caller_does_with_a_row_stays_with_the_caller(path):
    rows = index(path)
    rows.replace(MAIN, lambda row: {**row, "deep": {"a": 1}})
    returned = rows.put(MAIN, {"x": 1})
    returned["deep"]["a"] = 2
    rows.replace(MAIN, lambda row: row["deep"].update(a=3) or {"deep": {"a": 1}, "x": 1})
    assert rows.rows()[str(MAIN)] == {"deep": {"a": 1}, "x": 1}
    assert json.loads(path.read_text())[str(MAIN)] == {"deep": {"a": 1}, "x": 1}


def test_a_settled_file_is_not_read_again_and_a_young_one_is(path):
    clock = ManualClock(datetime(2100, 1, 1, tzinfo=UTC))
    settled, young = SessionIndex(path, "main", clock), SessionIndex(path, "main", SystemClock())
    settled.put(MAIN, {"n": 1})
    young.put(MAIN, {"n": 2})
    assert settled.get(MAIN)[1]["n"] == 2
    # Written behind the back of both, with the very times and size that they know.
    seen = path.stat()
    with path.open("r+b") as file:
        file.write(path.read_bytes().replace(b'"n": 2', b'"n": 3'))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert young.put(MAIN, {"x": 1}) == {"n": 3, "x": 1}


def test_what_was_noted_is_seen_at_once_and_written_by_flush(path):
    rows = index(path)
    rows.put(MAIN, {"sessionId": "a", "inputTokens": 1})
    before = path.read_bytes()
    assert rows.note(MAIN, {"inputTokens": 2, "label": None})["inputTokens"] == 2
    assert path.read_bytes() == before
    assert rows.get(MAIN)[1]["inputTokens"] == rows.rows()["agent:main:main"]["inputTokens"] == 2
    rows.flush()
    assert json.loads(path.read_bytes())["agent:main:main"] == {"sessionId": "a", "inputTokens": 2}
    written = path.stat().st_mtime_ns
    rows.flush()
    assert path.stat().st_mtime_ns == written


def test_what_was_noted_goes_with_the_next_change_of_any_row(path):
    rows, other = index(path), SessionKey.parse("agent:main:telegram:direct:7")
    rows.put(MAIN, {"sessionId": "a"})
    rows.put(other, {"sessionId": "b"})
    rows.note(MAIN, {"inputTokens": 2})
    rows.put(other, {"label": "x"})
    assert json.loads(path.read_bytes())["agent:main:main"] == {"sessionId": "a", "inputTokens": 2}
    rows.note(MAIN, {"inputTokens": 3})
    rows.remove([str(other)])
    assert json.loads(path.read_bytes()) == {"agent:main:main": {"sessionId": "a", "inputTokens": 3}}


def test_what_was_noted_joins_what_another_process_wrote_meanwhile(path):
    ours, theirs = index(path), index(path)
    ours.put(MAIN, {"sessionId": "a"})
    ours.note(MAIN, {"inputTokens": 2})
    theirs.put(MAIN, {"label": "named", "inputTokens": 1})
    ours.flush()
    assert theirs.get(MAIN)[1] == {"sessionId": "a", "label": "named", "inputTokens": 2}


def test_a_note_about_a_row_that_is_gone_brings_nothing_back(path):
    ours, theirs = index(path), index(path)
    ours.put(MAIN, {"sessionId": "a"})
    ours.note(MAIN, {"inputTokens": 2})
    theirs.remove(["agent:main:main"])
    ours.flush()
    assert ours.rows() == {}


def test_a_note_about_a_row_that_was_never_there_makes_it(path):
    index(path).note(MAIN, {"sessionId": "a"})
    assert index(path).get(MAIN)[1] == {"sessionId": "a"}


def test_what_could_not_be_written_stays_noted(path):
    rows = index(path, wait=0.0)
    rows.put(MAIN, {"sessionId": "a"})
    rows.note(MAIN, {"inputTokens": 2})
    with own(path, NOW), pytest.raises(Locked):
        rows.flush()
    rows.flush()
    assert index(path).get(MAIN)[1]["inputTokens"] == 2


def test_a_long_line_before_the_index_is_waited_out(tmp_path):
    first = own(tmp_path / "sessions.json", NOW)
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if sum(pauses) > 30:  # of hundreds of processes at once, the last one waits this long
            first.release()

    with own(tmp_path / "sessions.json", NOW, wait=PATIENCE, sleep=sleep):
        assert sum(pauses) > 30


def many(path):
    """An index that is too big to be written whole for every new session."""
    rows = {
        f"agent:main:telegram:direct:{number}": {"sessionId": str(number), "text": "x" * 900} for number in range(300)
    }
    path.write_text(json.dumps(rows))
    return index(path), path.with_name("sessions.json.new")


def test_a_new_session_among_many_is_one_line_until_the_next_write_of_all(path):
    rows, new = many(path)
    before, fresh = path.read_bytes(), SessionKey.parse("agent:main:telegram:direct:new")
    assert rows.put(fresh, {"sessionId": "n"}) == {"sessionId": "n"}
    assert path.read_bytes() == before
    assert [json.loads(line) for line in new.read_text().splitlines()] == [{str(fresh): {"sessionId": "n"}}]
    assert oct(new.stat().st_mode & 0o777) == "0o600"
    assert rows.get(fresh)[1] == index(path).get(fresh)[1] == {"sessionId": "n"}
    assert len(index(path).rows()) == 301
    rows.note(fresh, {"inputTokens": 2})
    rows.flush()
    assert json.loads(path.read_bytes())[str(fresh)] == {"sessionId": "n", "inputTokens": 2}
    assert not new.exists()
    rows.flush()
    assert len(index(path).rows()) == 301


def test_of_two_processes_that_make_new_sessions_each_sees_the_others(path):
    ours, new = many(path)
    theirs, keys = index(path), [SessionKey.parse(f"agent:main:irc:direct:{name}") for name in "abc"]
    assert theirs.get(keys[0]) is None
    ours.put(keys[0], {"sessionId": "a"})
    # What is there stays: the second one that makes a session takes the first one's.
    assert theirs.replace(keys[0], lambda there: there or {"sessionId": "other"}) == {"sessionId": "a"}
    theirs.put(keys[1], {"sessionId": "b"})
    ours.put(keys[2], {"sessionId": "c"})
    assert [index(path).get(key)[1]["sessionId"] for key in keys] == list("abc")
    theirs.remove([str(keys[1])])
    assert [each and each[1]["sessionId"] for each in map(ours.get, keys)] == ["a", None, "c"]
    assert not new.exists()


def test_a_crash_between_the_write_of_all_and_the_end_of_the_lines_changes_nothing(path):
    rows, new = many(path)
    fresh = SessionKey.parse("agent:main:irc:direct:a")
    rows.put(fresh, {"sessionId": "a"})
    left = new.read_bytes()
    rows.put(fresh, {"label": "named"})
    new.write_bytes(left + b'{"torn": {"sess')
    again = index(path)
    assert again.get(fresh)[1] == {"sessionId": "a", "label": "named"}
    assert len(again.rows()) == 301
    again.note(fresh, {"inputTokens": 1})
    again.flush(MAIN)
    assert new.exists()
    again.flush(fresh)
    assert index(path).get(fresh)[1] == {"sessionId": "a", "label": "named", "inputTokens": 1}
    assert not new.exists()
