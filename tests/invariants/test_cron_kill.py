"""kill -9 while jobs run by the clock: every due time has exactly one end, and its effect happened at most once."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.invariants import cron_driver
from tests.invariants.test_kill import Victims

from homarus.core.clock import epoch_ms
from homarus.sessions.codec import keys_of


def make_home(folder: Path) -> Path:
    home = folder / "home"
    (home / ".openclaw").mkdir(parents=True)
    (home / ".openclaw" / "openclaw.json").write_text(cron_driver.CONFIG)
    return home


def check_times(rows: list[dict[str, Any]], every: int) -> list[dict[str, Any]]:
    """Check that each due time of a job has one end and that none was skipped; return how they ended, in order."""
    claimed = Counter(row["runId"] for row in rows if row["action"] == "claimed")
    ended = Counter(row["runId"] for row in rows if row["action"] == "finished")
    assert set(claimed) == set(ended), "a due time without an end"
    assert set(ended.values()) <= {1}, "a due time that ended twice"
    ran = sorted((row for row in rows if row["action"] == "finished"), key=lambda row: row["dueAtMs"])
    for row, after in itertools.pairwise(ran):
        # The times follow each other without a gap; a pause after a failure is the only one. A run that such a pause put
        # off counts for the time at which it would have been, so that the next one is on time again.
        late = (row["dueAtMs"] - ran[0]["dueAtMs"]) % every
        gap = row["dueAtMs"] - late + every * (1 + row.get("missed", 0))
        assert after["dueAtMs"] == gap or row["status"] == "error", "a due time was skipped"
    return ran


def verify(home: Path) -> dict[str, int]:
    """Check everything that must hold when no process is left; return what was counted."""
    folder = home / ".openclaw" / "cron"
    jobs = json.loads((folder / "jobs.json").read_text())["jobs"]
    assert len(jobs) == 3
    now = epoch_ms(datetime.fromisoformat((home / "clock").read_text()))
    runs: set[str] = set()  # of the jobs that have a session for each run, by its key
    interrupted = 0
    for job in jobs:
        rows = [json.loads(line) for line in (folder / "runs" / f"{job['id']}.jsonl").read_text().splitlines()]
        assert "runningAtMs" not in job["state"]
        assert job["state"]["nextRunAtMs"] > now - 60_000
        every = {"often": 120_000, "cron": 180_000, "remind": 240_000}[job["name"]]
        ended = {row["runId"] for row in check_times(rows, every)}
        interrupted += sum("interrupted" in str(row.get("error")) for row in rows)
        if job["name"] == "remind":
            told = told_of(home, job["id"])
            assert set(told.values()) <= {1}, "a reminder was told twice"
            assert set(told) == ended, "a reminder was lost"
        else:
            runs |= {row["sessionKey"] for row in rows if row["action"] == "finished"}
    marks = Counter((home / "ledger").read_text().split())
    assert set(marks.values()) <= {1}, "a job did its work twice"
    # The reminders are heard in the main session, which marks once for all of them.
    assert set(marks) <= runs | {"agent:main:main"}, "a mark of no run"
    return {"runs": len(runs), "marks": len(runs & set(marks)), "interrupted": interrupted}


def told_of(home: Path, job_id: str) -> Counter[str]:
    """Return how often the main session was told of each run of a job, by what its messages carry."""
    index = json.loads((home / ".openclaw/agents/main/sessions/sessions.json").read_text())
    lines = Path(index["agent:main:main"]["sessionFile"]).read_text().splitlines()
    stored = [json.loads(line).get("message", {}) for line in lines if '"role":"user"' in line]
    keys = [key for message in stored for key in keys_of(message)]
    prefix = f"event:cron:{job_id}:"
    return Counter(key.removeprefix(prefix) for key in keys if key.startswith(prefix))


def massacre(folder: Path, kills: int) -> dict[str, int]:
    home, dice = make_home(folder), random.Random(kills)
    victims = Victims(home, "cron_driver.py")
    try:
        usual = victims.run(0, cron_driver.MINUTES, kill_after=None)
        assert verify(home)["interrupted"] == 0
        for number in range(1, kills + 1):
            victims.run(number, cron_driver.MINUTES, kill_after=dice.randint(1, usual))
        victims.run(200_000, 2, kill_after=None)
    finally:
        victims.close()
    return verify(home)


def test_ten_kills(tmp_path: Path) -> None:
    counted = massacre(tmp_path, 10)
    assert counted["runs"] >= 20
    assert counted["marks"] > 0


@pytest.mark.deep
@pytest.mark.parametrize("part", range(3))
def test_hundreds_of_kills(tmp_path: Path, part: int) -> None:
    counted = massacre(tmp_path, 100 + part)
    assert counted["runs"] > 100
    # A call that was cut off is not made again, because nobody knows what it did; nearly all were not.
    assert counted["marks"] > 0.9 * counted["runs"]


def test_the_checks_would_notice(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    victims = Victims(home, "cron_driver.py")
    try:
        victims.run(0, 6, kill_after=None)
    finally:
        victims.close()
    verify(home)
    ledger = home / "ledger"
    ledger.write_text(ledger.read_text() + ledger.read_text().splitlines()[0] + "\n")
    with pytest.raises(AssertionError, match="twice"):
        verify(home)
