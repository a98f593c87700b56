"""Batch jobs of embedding services: cheaper, and slower. A job is handed in, asked after now and then, and read when done.

Only for indexing, and only where `remote.batch.enabled` says so. Two failed jobs end it for this process: texts are then
sent one request at a time again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from homarus.memory.embed.base import EmbedError

MAX_FAILURES = 2
TEXTS = 10_000  # of one job; the services take 50,000 and more
ENDED = {
    *("failed", "expired", "cancelled", "cancelling"),
    *("batch_state_failed", "batch_state_cancelled", "batch_state_expired"),
}
Row = Sequence[float]


class Line(Protocol):
    """How a service is reached: one request, retried, as JSON or as text."""

    def __call__(self, method: str, path: str, **content: Any) -> Any:
        """Return the answer; EmbedError says why there is none."""
        ...


class Job(Protocol):
    """One family of services: hand in, ask after, read."""

    def submit(self, model: str, texts: Sequence[str]) -> str:
        """Hand texts in and return the job's name."""
        ...

    def state(self, name: str) -> tuple[str, Any]:
        """Return `done`, a state that says it ended badly, or anything else while it runs; and what `rows` needs."""
        ...

    def rows(self, found: Any, count: int) -> list[Row]:
        """Return one vector per text, in order."""
        ...


class FileJob:
    """OpenAI and Voyage: a file of requests, a batch over it, a file of answers."""

    def __init__(self, line: Line, *, voyage: bool = False) -> None:
        self._line = line
        self._voyage = voyage

    def submit(self, model: str, texts: Sequence[str]) -> str:
        """Upload the requests and start a batch over them."""
        rows = [self._request(number, model, text) for number, text in enumerate(texts)]
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "replace")
        file = self._line(
            "POST", "/files", files={"file": ("memory.jsonl", data, "application/jsonl")}, data={"purpose": "batch"}
        )
        body: dict[str, Any] = {"input_file_id": file["id"], "endpoint": "/v1/embeddings"}
        if self._voyage:
            body |= {"completion_window": "12h", "request_params": {"model": model, "input_type": "document"}}
        else:
            body["completion_window"] = "24h"
        return str(self._line("POST", "/batches", json=body)["id"])

    def _request(self, number: int, model: str, text: str) -> dict[str, Any]:
        if self._voyage:
            return {"custom_id": str(number), "body": {"input": [text]}}
        body = {"model": model, "input": text, "encoding_format": "float"}
        return {"custom_id": str(number), "method": "POST", "url": "/v1/embeddings", "body": body}

    def state(self, name: str) -> tuple[str, Any]:
        """Ask after the batch."""
        found = self._line("GET", f"/batches/{name}")
        status = str(found.get("status") or "")
        return ("done" if status == "completed" else status), found.get("output_file_id")

    def rows(self, found: Any, count: int) -> list[Row]:
        """Read the file of answers, which keeps no order."""
        if not found:
            raise EmbedError("the batch ended without a file of answers")
        by_number: dict[str, Row] = {}
        for raw in self._line("GET", f"/files/{found}/content", text=True).splitlines():
            if raw.strip():
                answer = json.loads(raw)
                by_number[answer["custom_id"]] = answer["response"]["body"]["data"][0]["embedding"]
        return [by_number[str(number)] for number in range(count)]


class GeminiJob:
    """Gemini: the requests in one call, the answers in the operation, both in order."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def submit(self, model: str, texts: Sequence[str]) -> str:
        """Hand the requests in."""
        task = "RETRIEVAL_DOCUMENT"
        requests = [
            {
                "request": {"model": f"models/{model}", "content": {"parts": [{"text": text}]}, "taskType": task},
                "metadata": {"key": str(number)},
            }
            for number, text in enumerate(texts)
        ]
        batch = {
            "displayName": "memory",
            "model": f"models/{model}",
            "inputConfig": {"requests": {"requests": requests}},
        }
        return str(self._line("POST", f"/models/{model}:asyncBatchEmbedContent", json={"batch": batch})["name"])

    def state(self, name: str) -> tuple[str, Any]:
        """Ask after the operation."""
        found = self._line("GET", f"/{name}")
        state = str((found.get("metadata") or found).get("state") or "").lower()
        if found.get("error"):
            return "failed", None
        output = found.get("response") or (found.get("metadata") or found).get("output")
        return ("done" if state == "batch_state_succeeded" or (found.get("done") and output) else state), output

    def rows(self, found: Any, count: int) -> list[Row]:
        """Read the answers."""
        answers = found["inlinedResponses"]["inlinedResponses"]
        by_number = {
            str((answer.get("metadata") or {}).get("key", at)): answer["response"]["embedding"]["values"]
            for at, answer in enumerate(answers)
        }
        return [by_number[str(number)] for number in range(count)]


def make_job(provider: str, line: Line) -> Job | None:
    """Return how a service takes jobs; None for one that takes none."""
    if provider == "gemini":
        return GeminiJob(line)
    return FileJob(line, voyage=provider == "voyage") if provider in {"openai", "voyage"} else None


class Jobs:
    """Hands texts in and waits for their vectors; gives up for good after two failures."""

    def __init__(self, job: Job, *, every: float, limit: float, sleep: Callable[[float], None]) -> None:
        self._job = job
        self._every = max(0.0, every)
        self._limit = limit
        self._sleep = sleep
        self.failures = 0

    @property
    def usable(self) -> bool:
        """Say whether it is worth another try."""
        return self.failures < MAX_FAILURES

    def encode(self, model: str, texts: Sequence[str]) -> list[Row] | None:
        """Return one vector per text, or None when this job came to nothing."""
        try:
            name = self._job.submit(model, texts)
            return self._job.rows(self._wait(name), len(texts))
        except (EmbedError, KeyError, TypeError, ValueError, IndexError, AttributeError):
            self.failures += 1
            return None

    def _wait(self, name: str) -> Any:
        waited = 0.0
        while True:
            state, found = self._job.state(name)
            if state == "done":
                return found
            if state.lower() in ENDED:
                raise EmbedError(f"the batch ended as {state}")
            if waited >= self._limit:
                raise EmbedError(f"the batch took longer than {self._limit / 60:.0f} minutes")
            self._sleep(self._every)
            waited += max(self._every, 0.001)
