import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from homarus.core.clock import CountingIds, ManualClock, epoch_ms
from homarus.core.messages import Text, User
from homarus.core.routes import SessionKey
from homarus.sessions.maintenance import Stored, carry_out, drop_results, make_plan, plan_for
from homarus.sessions.places import Kind, Place
from homarus.sessions.row import read_row
from homarus.sessions.settings import MaintenanceSettings
from homarus.sessions.store import SessionInfo, SessionStore

NOW = 1_777_636_800_000
DAY = 86_400_000


def info(name, days, **row):
    row = {"sessionId": name, "updatedAt": NOW - int(days * DAY), **row}
    return SessionInfo(name, "main", read_row(row), row, Place("main", name, Kind.FILE, Path(name)))


def gone(*sessions, files=(), busy=(), **settings):
    plan = make_plan(sessions, files, MaintenanceSettings(**settings), NOW, busy=frozenset(busy))
    return [removal.what for removal in plan.removals]


def test_old_sessions_go_and_some_never_do():
    names = [
        info("agent:main:main", 400),
        info("agent:main:explicit:old", 31),
        info("agent:main:explicit:young", 29),
        info("agent:main:explicit:pinned", 90, pinnedAt=1),
        info("agent:main:explicit:busy", 90),
        info("agent:main:explicit:running", 90, status="running"),
        info("agent:main:telegram:group:-1", 90),
        info("agent:main:slack:channel:c:thread:1", 90),
        info("agent:main:subagent:x", 40),
    ]
    assert set(gone(*names, busy=["agent:main:explicit:busy"])) == {"agent:main:explicit:old", "agent:main:subagent:x"}
    assert gone(*names, prune_after="1000d") == []


def test_runs_of_jobs_go_after_a_day():
    assert gone(
        info("agent:main:cron:j:run:1", 1.1), info("agent:main:cron:j:run:2", 0.5), info("agent:main:cron:j", 20)
    ) == ["agent:main:cron:j:run:1"]


def test_too_many_sessions_lose_the_oldest_that_may_go():
    names = [info("agent:main:main", 9), *(info(f"agent:main:explicit:{n}", n) for n in range(1, 6))]
    assert set(gone(*names, max_entries=4)) == {"agent:main:explicit:5", "agent:main:explicit:4"}


def test_archives_have_their_time_and_the_folder_its_size():
    files = [
        Stored(Path("live.jsonl"), 700, NOW - 90 * DAY, False),
        Stored(Path("old.jsonl.reset.x"), 100, NOW - 31 * DAY, True),
        Stored(Path("a.jsonl.reset.x"), 100, NOW - 20 * DAY, True),
        Stored(Path("b.jsonl.reset.x"), 100, NOW - 10 * DAY, True),
    ]
    assert gone(files=files) == ["old.jsonl.reset.x"]
    assert gone(files=files, reset_archive_retention=False) == []
    assert gone(files=files, reset_archive_retention="15d") == ["old.jsonl.reset.x", "a.jsonl.reset.x"]
    assert gone(files=files, max_disk_bytes=850) == ["old.jsonl.reset.x", "a.jsonl.reset.x", "b.jsonl.reset.x"]
    assert gone(files=files, max_disk_bytes="850b", high_water_bytes=800) == ["old.jsonl.reset.x", "a.jsonl.reset.x"]


@pytest.fixture
def store(tmp_path):
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    return SessionStore(tmp_path / "main" / "sessions", "main", clock=clock, ids=CountingIds(), main_key="main")


def test_a_plan_changes_nothing_and_carrying_it_out_archives_first(store, tmp_path):
    key = SessionKey.parse("agent:main:explicit:old")
    with store.open_writer(key) as writer:
        writer.append_message(User((Text("hello"),)))
    results = tmp_path / "overflow"
    for name in (writer.session_id, "another"):
        (results / name).mkdir(parents=True)
    store.clock.advance(timedelta(days=40).total_seconds())
    before = sorted(p.name for p in store.folder.iterdir())
    plan = plan_for(store, MaintenanceSettings())
    assert [r.what for r in plan.removals] == ["agent:main:explicit:old"]
    assert sorted(p.name for p in store.folder.iterdir()) == before
    assert carry_out(store, plan, results=results) == []
    assert (results / writer.session_id).is_dir()  # the archive still speaks of them
    archive = store.archives()[0].path
    assert b"hello" in archive.read_bytes()
    assert store.list() == []
    moment = epoch_ms(store.clock.now()) / 1000
    os.utime(archive, (moment, moment))
    store.clock.advance(timedelta(days=31).total_seconds())
    carry_out(store, plan_for(store, MaintenanceSettings()), results=results)
    assert store.archives() == []
    assert [path.name for path in results.iterdir()] == ["another"]


def test_files_outside_are_never_taken_for_the_results_of_a_session(tmp_path):
    (tmp_path / "inside").mkdir()
    for session_id in ("..", ".", "", "../inside", "a/b"):
        drop_results(tmp_path / "inside", session_id)
    assert (tmp_path / "inside").is_dir()


def test_a_session_in_use_stays(store):
    key = SessionKey.parse("agent:main:explicit:old")
    with store.open_writer(key) as writer:
        writer.append_message(User((Text("hello"),)))
        store.clock.advance(timedelta(days=40).total_seconds())
        assert plan_for(store, MaintenanceSettings()).removals == ()


def test_a_main_session_under_another_name_is_never_cleaned_away(tmp_path):
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    named = SessionStore(tmp_path / "main" / "sessions", "main", clock=clock, ids=CountingIds(), main_key="home")
    with named.open_writer(named.key("home")) as writer:
        writer.append_message(User((Text("hello"),)))
    clock.advance(timedelta(days=400).total_seconds())
    assert named.list()[0].key.is_main
    assert plan_for(named, MaintenanceSettings()).removals == ()
