import json
from datetime import UTC, datetime

import pytest
from tests.fixtures.homes import snapshot
from tests.sessions.lines import entry, header, jsonl, result, says, user

from homarus.core.clock import CountingIds, ManualClock
from homarus.sessions.check import check_store, mend, report
from homarus.sessions.store import SessionStore


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "main" / "sessions"
    folder.mkdir(parents=True)
    return SessionStore(
        folder, "main", clock=ManualClock(datetime(2026, 5, 1, tzinfo=UTC)), ids=CountingIds(), main_key="main"
    )


def put(store, data, name="s1"):
    (store.folder / f"{name}.jsonl").write_bytes(data)
    store.index.put(store.key(f"agent:main:explicit:{name}"), {"sessionId": name, "updatedAt": 1})


def names(store):
    before = snapshot(store.folder)
    found = {finding.check for finding in check_store(store)}
    assert snapshot(store.folder) == before
    return found


WHOLE = jsonl(header(), user("a", None), says("b", "a"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (WHOLE, set()),
        (WHOLE[:-9], {"torn-line"}),
        (WHOLE + b"garbage\n" + jsonl(user("c", "b")), {"damaged-line"}),
        (b"garbage", {"corrupt"}),
        (jsonl(user("a", None), says("b", "a")), {"no-header"}),
        (jsonl({"role": "user", "content": "x"}), {"old-form"}),
        (jsonl(header(version=1), {"type": "message", "message": {"role": "user", "content": "x"}}), {"old-form"}),
        (jsonl(header(version=9), user("a", None)), {"unknown-version"}),
        (jsonl(header(), user("a", None), says("b", "a", calls=("1",))), {"open-call"}),
        (
            jsonl(
                header(),
                user("a", None),
                says("b", "a", calls=("1",)),
                says("c", "b", calls=("2",)),
                result("d", "c", "2"),
            ),
            {"unpaired"},
        ),
        (jsonl(header(), user("a", None), user("a", None)), {"double-id"}),
        (jsonl(header(), user("a", None), user("c", "gone")), {"lost-parent"}),
        (jsonl(header(), entry("message", "a", None, message={})), {"no-role"}),
    ],
)
def test_one_transcript(store, data, expected):
    put(store, data)
    assert names(store) == expected


def test_the_index(store):
    put(store, WHOLE)
    (store.folder / "lost.jsonl").write_bytes(WHOLE)
    odd = {"agent:x": {"sessionId": "s1"}, "agent:main:main": {"sessionId": "never"}, "agent:main:odd": {}}
    (store.folder / "sessions.json").write_text(json.dumps({**store.index.rows(), **odd}))
    assert names(store) == {"orphan", "bad-key", "bad-row", "no-transcript"}
    (store.folder / "sessions.json").write_text(json.dumps([{"id": "s1"}]))
    assert names(store) == {"array-index", "orphan"}
    (store.folder / "sessions.json").write_text("{")
    assert "damaged-index" in names(store)


def test_mending_answers_open_calls_and_tells_what_it_did(store):
    put(store, jsonl(header(), user("a", None), says("b", "a", calls=("1",))))
    info = store.by_id("s1")
    assert report(info.place)["changes"] == ["results: 0 -> 1", "results put in for missing ones: 0 -> 1"]
    assert mend(store, info) == ["call 1 of read has a result now"]
    assert report(info.place)["changes"] == []
    put(store, jsonl({"role": "user", "content": "x"}), "flat")
    assert "version 3" in mend(store, store.by_id("flat"))[0]
