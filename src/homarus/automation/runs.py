"""What became of every due time: one JSONL file per job, `cron/runs/<id>.jsonl`, one line per step of a run.

A run is claimed before it begins and finished when its answer was delivered. Its id comes from its due time, so a run that a
crash cut off is the same run when it is taken up. OpenClaw's program reads the `finished` lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from homarus.automation.schedule import whole
from homarus.automation.settings import RunLogSettings
from homarus.core.text import slug
from homarus.storage.atomic import ensure_dir, remove, write_atomic
from homarus.storage.jsonl import alone_with, append_shared, read_lines, read_lines_reversed

Json = dict[str, Any]
CLAIMED, FINISHED = "claimed", "finished"
KEPT_SECONDS = 30 * 86_400.0  # how long the runs of a job that is gone can be looked at
MAX_SUMMARY = 2_000
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,100}")


class RunLog:
    """The runs of one job."""

    def __init__(self, folder: Path, job_id: str, settings: RunLogSettings | None = None) -> None:
        name = (
            job_id
            if _SAFE.fullmatch(job_id)
            else f"{slug(job_id, 40)}-{hashlib.sha256(job_id.encode()).hexdigest()[:12]}"
        )
        self.path = folder / f"{name}.jsonl"
        self._settings = settings or RunLogSettings()

    def note(self, row: Json) -> None:
        """Add a line, durably."""
        ensure_dir(self.path.parent)
        append_shared(self.path, {key: value for key, value in row.items() if value is not None})
        if row.get("action") == FINISHED and self.path.stat().st_size > self._settings.max_bytes:
            self._shrink()

    def open_runs(self) -> list[Json]:
        """Return the claims of runs that did not end, oldest first."""
        claims: dict[str, Json] = {}
        for row in self._rows():
            run_id = str(row.get("runId") or "")
            if row.get("action") == CLAIMED:
                claims[run_id] = row
            elif row.get("action") == FINISHED:
                claims.pop(run_id, None)
        return list(claims.values())

    def known(self) -> dict[str, int]:
        """Return the ids of all runs that were claimed, or left out, and until when each makes up for what was missed."""
        return {str(row.get("runId") or ""): whole(row.get("runAtMs")) or 0 for row in self._rows()}

    def last(self) -> Json | None:
        return next(iter(self.finished(1)), None)

    def finished(self, limit: int) -> list[Json]:
        """Return the newest runs that ended, newest first."""
        found: list[Json] = []
        if not self.path.exists():
            return found
        for line in read_lines_reversed(self.path):
            if isinstance(line.value, dict) and line.value.get("action") == FINISHED:
                found.append(line.value)
                if len(found) >= limit:
                    break
        return found

    def _rows(self) -> Iterable[Json]:
        lines = read_lines(self.path) if self.path.exists() else ()
        return (line.value for line in lines if isinstance(line.value, dict))

    def _shrink(self) -> None:
        """Keep the newest half of what may be kept, and every claim that is open."""
        with alone_with(self.path):
            rows = list(read_lines(self.path))
            kept = rows[-max(1, self._settings.keep_lines // 2) :]
            size = 0
            for at, line in enumerate(reversed(kept)):
                size += len(line.raw) + 1
                if size > self._settings.max_bytes // 2 and at:
                    kept = kept[-at:]
                    break
            ended = {_run(line.value, FINISHED) for line in rows}
            old = [line for line in rows[: -len(kept)] if (run := _run(line.value, CLAIMED)) and run not in ended]
            write_atomic(self.path, b"".join(line.raw + b"\n" for line in (*old, *kept)))


def _run(value: Any, action: str) -> str:
    """Return the run of a line of this kind; nothing for any other line."""
    return str(value.get("runId") or "") if isinstance(value, dict) and value.get("action") == action else ""


def _moment(row: Json) -> int:
    found = row.get("ts")
    return found if isinstance(found, int) else 0


def all_finished(folder: Path, limit: int) -> list[Json]:
    """Return the newest runs of all jobs, also of those that are gone."""
    logs = [RunLog(folder, path.stem) for path in folder.glob("*.jsonl")] if folder.is_dir() else []
    rows = [row for log in logs for row in log.finished(limit)]
    return sorted(rows, key=_moment, reverse=True)[:limit]


def sweep(folder: Path, living: Iterable[str], now: float) -> None:
    """Remove the runs of jobs that have been gone for a month."""
    known = {RunLog(folder, job_id).path for job_id in living}
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        if path not in known and now - path.stat().st_mtime > KEPT_SECONDS:
            remove(path)
