"""Jobs as other programs may have left them: nothing in the file breaks the reader, and nothing of it is lost."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from homarus.automation.cron import concluded
from homarus.automation.jobs import Job, JobBook, patched
from homarus.core.clock import ManualClock
from homarus.core.errors import HomarusError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "id",
    "jobId",
    "name",
    "enabled",
    "agentId",
    "schedule",
    "payload",
    "delivery",
    "state",
    "sessionTarget",
    "homarus",
    "createdAtMs",
]
STATE = ["nextRunAtMs", "runningAtMs", "lastRunAtMs", "consecutiveErrors"]
ROWS = st.dictionaries(
    st.sampled_from([*KEYS, "x"]),
    JSON | st.dictionaries(st.sampled_from(["kind", "at", "everyMs", "expr", *STATE]), JSON),
    max_size=8,
)


@given(ROWS)
def test_no_object_breaks_a_job(raw: dict[str, Any]) -> None:
    job = Job(raw)
    assert isinstance(job.problem, str)
    for value in (
        job.name,
        job.trust,
        job.taint,
        job.tools,
        job.next_ms,
        job.seconds,
        job.delivery,
        job.agent_id,
        job.wakes_now,
    ):
        repr(value)
    row = {"status": "error", "runId": "1", "runAtMs": 1}
    for status in ("ok", "error", "skipped"):
        concluded(job, {**row, "status": status}, 1_700_000_000_000)
    try:
        patched(job, {"name": "n", "payload": {"message": "m"}}, 1)
    except HomarusError:
        pass


@given(st.lists(ROWS | JSON, max_size=4), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_a_change_of_one_job_keeps_every_other_byte_of_meaning(
    tmp_path_factory: Any, rows: list[Any], top: dict[str, Any]
) -> None:
    folder: Path = tmp_path_factory.mktemp("cron")
    mine = {"id": "mine", "schedule": {"everyMs": 60_000}, "payload": {"message": "m"}}
    rows = [row for row in rows if not (isinstance(row, dict) and (row.get("id") or row.get("jobId")) == "mine")]
    document = {**top, "version": 1, "jobs": [*rows, mine]}
    text = json.dumps(document)
    (folder / "jobs.json").write_text(text, encoding="utf-8", errors="replace")
    before = json.loads((folder / "jobs.json").read_text())
    book = JobBook(folder, ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), lambda _agent: UTC)
    assert book.get("mine") is not None
    book.change("mine", lambda job: job.with_state(nextRunAtMs=5))
    after = json.loads((folder / "jobs.json").read_text())
    assert after["jobs"].pop() == {**mine, "state": {"nextRunAtMs": 5}}
    before["jobs"].pop()
    assert json.dumps(after) == json.dumps(before)
