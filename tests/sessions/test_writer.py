import json
import multiprocessing
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sessions.lines import entry, header, jsonl, says, user

from homarus.core.clock import CountingIds, ManualClock, iso_ms
from homarus.core.errors import Cancelled, Locked, StorageError
from homarus.core.messages import Assistant, Image, StopReason, Text, ToolCall, ToolResult, User
from homarus.sessions.codec import is_synthetic
from homarus.sessions.log import identify, load_tail
from homarus.sessions.repair import OPENAI
from homarus.sessions.view import project, visible
from homarus.sessions.writer import SessionWriter

NOW = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)


def start(path: Path, **more) -> SessionWriter:
    return SessionWriter(path, "s1", clock=ManualClock(NOW), ids=CountingIds(), cwd="/w", **more)


def ask(text="hi", **more):
    return User((Text(text),), timestamp=1, **more)


def call(*ids):
    return Assistant(tuple(ToolCall(i, "read", {"p": i}) for i in ids), timestamp=2, stop_reason=StopReason.TOOL_USE)


def answer(ident, text="out", **more):
    return ToolResult(ident, "read", (Text(text),), timestamp=3, **more)


def done(text="done"):
    return Assistant((Text(text),), timestamp=4)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def roles(path):
    return [row["message"]["role"] for row in rows(path) if row["type"] == "message"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions" / "s1.jsonl"


def test_the_first_append_writes_header_and_message_in_one_piece(path):
    with start(path) as session:
        assert not path.exists()
        session.append_message(ask())
        first, second = rows(path)
    assert first == {"type": "session", "version": 3, "id": "s1", "timestamp": iso_ms(NOW), "cwd": "/w"}
    assert second["parentId"] is None and len(second["id"]) == 8
    assert second["message"] == {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1}
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_what_was_written_is_what_is_read(path):
    said = [
        ask("q", context="monday", idempotency_key="k", provenance={"kind": "x"}),
        call("1"),
        answer("1", details={"a": 1}),
        done("ü日本🦞"),
    ]
    with start(path) as session:
        for message in said:
            session.append_message(message)
        assert list(session.history()) == said
    assert project(visible(load_tail(identify(path)).entries)) == said
    with start(path) as session:
        assert list(session.history()) == said
        assert session.knows("k") and not session.knows("other") and not session.knows("")


def test_old_programs_see_the_context_as_their_own_carrier(path):
    with start(path) as session:
        session.append_message(ask("q", context="monday"))
    carrier = rows(path)[2]
    assert (carrier["type"], carrier["customType"], carrier["display"]) == (
        "custom_message",
        "openclaw.runtime-context",
        False,
    )
    assert (carrier["content"], carrier["parentId"]) == ("monday", rows(path)[1]["id"])


def test_every_line_hangs_on_the_one_before(path):
    with start(path) as session:
        for message in (ask(context="c"), call("1"), answer("1"), done()):
            session.append_message(message)
        session.append("custom", {"customType": "openclaw:bootstrap-context:full", "data": {}})
    found = rows(path)[1:]
    assert [row["parentId"] for row in found] == [None, *(row["id"] for row in found[:-1])]


def test_a_pending_call_gets_its_result_before_anything_else_is_said(path):
    with start(path) as session:
        session.append_message(ask())
        session.append_message(call("1", "2"))
        session.append_message(answer("2"))
        assert [c.id for c in session.open_calls] == ["1"]
    with start(path) as session:  # as after a crash
        assert [c.id for c in session.open_calls] == ["1"]
        session.append_message(ask("again"))
        assert session.open_calls == ()
    assert roles(path) == ["user", "assistant", "toolResult", "toolResult", "user"]
    assert rows(path)[4]["message"]["details"] == {"openclawSyntheticMissingToolResult": True}


def test_a_real_result_replaces_a_synthetic_one_and_nothing_else_comes_twice(path):
    with start(path) as session:
        session.append_message(ask())
        session.append_message(call("1"))
        session.append_message(ask("still there?"))
        session.append_message(answer("1", "late"))
        assert [m.text for m in session.history() if isinstance(m, ToolResult)] == ["late"]
        for unwanted in (answer("1"), answer("unknown")):
            with pytest.raises(StorageError):
                session.append_message(unwanted)
        before = path.read_bytes()
    with start(path) as session:
        with pytest.raises(StorageError):
            session.append_message(answer("1"))
        assert [m.text for m in session.history() if isinstance(m, ToolResult)] == ["late"]
    assert path.read_bytes() == before


def test_a_call_of_an_aborted_answer_gets_no_synthetic_result(path):
    with start(path) as session:
        session.append_message(ask())
        session.append_message(Assistant((Text("so"), ToolCall("1", "read", {})), stop_reason=StopReason.ABORTED))
        session.append_message(ask("go on"))
    assert roles(path) == ["user", "assistant", "user"]


def test_a_torn_line_stays_and_the_next_entry_is_whole(path):
    path.parent.mkdir()
    path.write_bytes(jsonl(header(), user("a", None), says("b", "a"))[:-7])
    before = path.read_bytes()
    with start(path) as session:
        session.append_message(done("again"))
        assert [m.text for m in session.history()] == ["a", "again"]
    assert path.read_bytes().startswith(before + b"\n")
    assert rows_after(path, before)[0]["parentId"] == "a"


def rows_after(path, before):
    return [json.loads(line) for line in path.read_bytes()[len(before) + 1 :].splitlines()]


def test_unknown_lines_and_fields_survive(path):
    path.parent.mkdir()
    data = (
        jsonl(header(novel=1), user("a", None, extra=[1]), entry("novelty", "n", "a", x={"y": None}))
        + b'{"no": "type"}\n'
    )
    path.write_bytes(data)
    with start(path) as session:
        session.append_message(done())
    assert path.read_bytes().startswith(data)


def test_a_flat_file_is_converted_once_and_kept(path):
    path.parent.mkdir()
    flat = jsonl(
        {"role": "user", "content": "q", "timestamp": "2026-04-15T10:01:00Z"}, {"role": "assistant", "content": "a"}
    )
    path.write_bytes(flat)
    with start(path) as session:
        session.append_message(ask("more"))
        assert [m.text for m in session.history()] == ["q", "a", "more"]
    assert path.with_name("s1.jsonl.flat.bak").read_bytes() == flat
    assert rows(path)[0] == {
        "type": "session",
        "version": 3,
        "id": "s1",
        "timestamp": "2026-04-15T10:01:00Z",
        "cwd": "/w",
    }
    with start(path) as session:
        assert len(session.history()) == 3
    assert sorted(p.name for p in path.parent.iterdir()) == ["s1.jsonl", "s1.jsonl.flat.bak"]


def test_version_1_is_converted_with_its_header(path):
    path.parent.mkdir()
    path.write_bytes(
        jsonl(
            {"type": "session", "id": "s1", "timestamp": "T", "cwd": "/old", "provider": "x"},
            {"type": "message", "message": {"role": "user", "content": "q"}},
        )
    )
    with start(path) as session:
        session.append_message(done())
    assert rows(path)[0] | {"version": 3, "cwd": "/old", "provider": "x", "timestamp": "T"} == rows(path)[0]
    assert path.with_name("s1.jsonl.v1.bak").exists()


def test_a_hopeless_file_is_moved_aside(path):
    path.parent.mkdir()
    path.write_bytes(b"\0\0\0garbage")
    with start(path) as session:
        session.append_message(ask())
    aside = [p for p in path.parent.iterdir() if ".corrupt." in p.name]
    assert len(aside) == 1 and aside[0].read_bytes() == b"\0\0\0garbage"
    assert roles(path) == ["user"]


def test_a_newer_version_is_read_but_not_written(path):
    path.parent.mkdir()
    path.write_bytes(jsonl(header(version=5), user("a", None)))
    with pytest.raises(StorageError, match="version 5"):
        start(path)
    assert project(visible(load_tail(identify(path)).entries))[0].text == "a"
    assert not path.with_name("s1.jsonl.lock").exists()


def test_compaction_keeps_the_file_and_shortens_the_context(path):
    with start(path) as session:
        for i in range(10):
            last = session.append_message(ask(f"q{i}"))
            session.append_message(done(f"a{i}"))
        session.compact("the story", last.id, 1000, details={"readFiles": []})
        live = session.history(OPENAI)
        assert [m.text for m in live][1:] == ["q9", "a9"] and "the story" in live[0].text
        assert len(session.branch) == 3
    assert len(rows(path)) == 22
    with start(path) as session:
        assert session.history(OPENAI) == live


def test_an_undo_goes_back_behind_the_compaction(path):
    with start(path) as session:
        for i in range(3):
            session.append_message(ask(f"q{i}"))
            last = session.append_message(done(f"a{i}"))
        full = session.history()
        session.compact("S", last.id, 10)
        session.move_leaf(last.id)
        assert session.history() == full
        session.append_message(ask("and now"))
        live = session.history()
    with start(path) as session:
        assert session.history() == live == (*full, ask("and now"))
        with pytest.raises(StorageError, match="no entry"):
            session.move_leaf("nowhere")
    assert any(row["type"] == "compaction" for row in rows(path))


def test_memory_stays_flat_without_any_compaction(path):
    with start(path, window=20_000) as session:
        for i in range(400):
            session.append_message(ask(f"q{i} " + "x" * 100), durable=False)
            session.append_message(done(f"a{i}"), durable=False)
            assert sum(e.weight for e in session.branch) <= 25_200
            assert len(session.branch) <= 400
        assert not session.complete
        assert session.history()[-1].text == "a399"
        assert isinstance(session.history()[0], User)
        prefix = session.history()
        session.append_message(ask("next"))
        assert session.history()[: len(prefix)] == prefix


def test_memory_stays_flat_after_the_last_compaction_too(path):
    with start(path, window=20_000) as session:
        first = session.append_message(ask("q"))
        session.compact("S", first.id, 1)
        for i in range(300):
            session.append_message(ask(f"q{i} " + "x" * 100), durable=False)
            session.append_message(done(f"a{i}"), durable=False)
            assert sum(e.weight for e in session.branch) <= 25_200


def test_what_is_carried_over_is_written_down_again_and_read_back(path):
    def carry(gone):
        words = [e.message.text for e in gone if e.type == "message"]
        return [("custom", {"customType": "kept", "data": words[0]})]

    with start(path, window=20_000) as session:
        session.carry = carry
        for i in range(400):
            session.append_message(ask(f"q{i} " + "x" * 100), durable=False)
            session.append_message(done(f"a{i}"), durable=False)
        notes = [note.data["data"] for note in session.notes]
        assert notes
        assert session.append_message(ask("next")).parent_id == session.branch[-2].id
    with start(path, window=20_000) as session:
        assert [note.data["data"] for note in session.notes][-1] == notes[-1]


def test_a_larger_model_sees_more_of_the_same_session(path):
    with start(path, window=1_000) as session:
        for i in range(100):
            session.append_message(ask(f"q{i} " + "x" * 100), durable=False)
            session.append_message(done(f"a{i}"), durable=False)
        assert len(session.history()) < 40
        session.widen(200_000)
        assert session.complete and session.history()[0].text.startswith("q0 ")
        session.widen(10)
        assert session.complete


def test_a_picture_does_not_push_the_conversation_out(path):
    picture = Image("A" * 300_000, "image/png")
    with start(path, window=200_000) as session:
        for i in range(12):
            parts = (Text(f"q{i}"), picture) if i in {3, 11} else (Text(f"q{i}"),)
            session.append_message(User(parts), durable=False)
            session.append_message(done(f"a{i}"), durable=False)
        live = session.history()
        assert live[0].text == "q0" and session.complete
        assert picture in live[22].parts
        assert live[6].parts == (Text("q3"), Text("[image data removed - already processed by model]"))
    with start(path, window=200_000) as session:
        assert session.history() == live
    assert path.read_bytes().count(b'"type":"image"') == 2


def test_a_superseded_run_cannot_append(path):
    with start(path) as session:
        session.begin_run("one")
        session.append_message(ask(), run_id="one")
        session.begin_run("two")
        with pytest.raises(Cancelled, match="superseded"):
            session.append_message(done(), run_id="one")
        session.append_message(done(), run_id="two")
    assert roles(path) == ["user", "assistant"]


def test_large_details_are_cut_and_say_so(path):
    with start(path) as session:
        session.append_message(ask())
        session.append_message(call("1"))
        session.append_message(answer("1", details={"exitCode": 0, "all": "x" * 50_000}))
    assert rows(path)[3]["message"]["details"] == {"exitCode": 0, "persistedDetailsTruncated": True}


def test_a_closed_session_takes_nothing_more(path):
    session = start(path)
    session.append_message(ask())
    session.close()
    session.close()
    assert session.size == path.stat().st_size
    with pytest.raises(StorageError, match="closed"):
        session.append_message(done())
    for kind in ("message", "leaf", "session"):
        with pytest.raises(ValueError, match="own method"):
            session.append(kind, {})


def test_a_failed_write_changes_nothing(path):
    with start(path) as session:
        session.append_message(ask())
        before = session.history()
        path.unlink()
        with pytest.raises(StorageError):
            session.append_message(done())
        assert session.history() == before
        assert session.leaf == session.branch[-1].id


HOLD = """
import sys, time
from pathlib import Path
from homarus.core.clock import SystemClock, SystemIds
from homarus.sessions.writer import SessionWriter
SessionWriter(Path(sys.argv[1]), "s1", clock=SystemClock(), ids=SystemIds())
print("open", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_at_once_and_no_lock_survives_its_owner(path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"}
    )
    try:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(Locked) as refused:
            start(path)
        assert refused.value.pid == other.pid
        assert str(other.pid) in str(refused.value) and "stop process" in str(refused.value)
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
        other.stdout.close()
    with start(path) as session:
        session.append_message(ask())


def test_the_same_process_is_refused_too(path):
    with start(path), pytest.raises(Locked, match="this process"):
        start(path)


def _sleep():
    signal.pause()


def test_a_living_openclaw_lock_is_honoured_and_a_dead_one_is_not(path):
    path.parent.mkdir()
    lock = path.with_name("s1.jsonl.lock")
    other = multiprocessing.get_context("spawn").Process(target=_sleep)
    other.start()
    try:
        lock.write_text(json.dumps({"pid": other.pid, "createdAt": iso_ms(datetime.now(UTC))}))
        with pytest.raises(Locked) as refused:
            start(path)
        assert refused.value.pid == other.pid
        # the same number, but made long before this process began
        lock.write_text(json.dumps({"pid": other.pid, "createdAt": "2020-01-01T00:00:00.000Z"}))
        start(path).close()
    finally:
        other.kill()
        other.join()
    lock.write_text(json.dumps({"pid": other.pid, "createdAt": iso_ms(datetime.now(UTC))}))
    start(path).close()
    assert not lock.exists()


def test_synthetic_results_are_marked(path):
    with start(path) as session:
        session.append_message(ask())
        session.append_message(call("1"))
        session.append_message(done())
        assert is_synthetic(session.history()[2])
