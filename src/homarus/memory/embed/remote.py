"""Embedders behind HTTP: OpenAI and everything that speaks like it, Gemini, Voyage, Ollama. One request shape each.

Texts are grouped by tokens, a few requests run at once, and each is tried three times. A key never enters an error text. With
`remote.batch.enabled` notes are handed in as batch jobs, cheaper and slower: asked after now and then, read when done; two failed
jobs end it for this process.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from homarus.core.text import estimate_tokens
from homarus.memory.embed.base import EmbedError, unit_rows
from homarus.memory.settings import Batch, MemorySettings
from homarus.net.client import HttpClient, ask
from homarus.net.errors import HttpError, Refused
from homarus.net.proxy import proxies_from
from homarus.net.trust import trust_from

MAX_FAILURES = 2
TEXTS = 10_000  # of one job; the services take 50,000 and more
ENDED = frozenset(
    [
        "failed",
        "expired",
        "cancelled",
        "cancelling",
        "batch_state_failed",
        "batch_state_cancelled",
        "batch_state_expired",
    ]
)
Row = Sequence[float]


Line = Callable[..., Any]  # how a service is reached: one request (method, path, content), retried, as JSON or as text


class FileJob:
    """OpenAI and Voyage: a file of requests, a batch over it, a file of answers.

    As with `GeminiJob`: `submit` returns the job's name, `state` says `done`, that it ended badly, or anything else while it runs,
    and what `rows` needs.
    """

    def __init__(self, line: Line, *, voyage: bool = False) -> None:
        self._line = line
        self._voyage = voyage

    def submit(self, model: str, texts: Sequence[str]) -> str:
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
        asked = _gemini_body(model, texts, False)["requests"]
        requests = [{"request": one, "metadata": {"key": str(number)}} for number, one in enumerate(asked)]
        named = f"models/{model}"
        batch = {"displayName": "memory", "model": named, "inputConfig": {"requests": {"requests": requests}}}
        return str(self._line("POST", f"/models/{model}:asyncBatchEmbedContent", json={"batch": batch})["name"])

    def state(self, name: str) -> tuple[str, Any]:
        found = self._line("GET", f"/{name}")
        state = str((found.get("metadata") or found).get("state") or "").lower()
        if found.get("error"):
            return "failed", None
        output = found.get("response") or (found.get("metadata") or found).get("output")
        return ("done" if state == "batch_state_succeeded" or (found.get("done") and output) else state), output

    def rows(self, found: Any, count: int) -> list[Row]:
        answers = found["inlinedResponses"]["inlinedResponses"]
        by_number = {
            str((answer.get("metadata") or {}).get("key", at)): answer["response"]["embedding"]["values"]
            for at, answer in enumerate(answers)
        }
        return [by_number[str(number)] for number in range(count)]


def make_job(provider: str, line: Line) -> FileJob | GeminiJob | None:
    """Return how a service takes jobs; None for one that takes none."""
    if provider == "gemini":
        return GeminiJob(line)
    return FileJob(line, voyage=provider == "voyage") if provider in {"openai", "voyage"} else None


class Jobs:
    """Hands texts in and waits for their vectors; gives up for good after two failures."""

    def __init__(self, job: FileJob | GeminiJob, *, every: float, limit: float, sleep: Callable[[float], None]) -> None:
        self._job = job
        self._every = max(0.0, every)
        self._limit = limit
        self._sleep = sleep
        self.failures = 0

    @property
    def usable(self) -> bool:
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


TRIES, PAUSE = 3, 0.5
AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}
MAX_CHARS = 24_000


class Service(Struct, frozen=True):
    """How one family of services wants to be asked."""

    base: str
    model: str
    path: str
    needs_key: bool
    body: Callable[[str, Sequence[str], bool], dict[str, Any]]
    read: Callable[[dict[str, Any]], list[Sequence[float]]]
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    per_call: int = 128


def _openai_body(model: str, texts: Sequence[str], query: bool) -> dict[str, Any]:
    return {"model": model, "input": list(texts), "encoding_format": "float"}


def _voyage_body(model: str, texts: Sequence[str], query: bool) -> dict[str, Any]:
    return {"model": model, "input": list(texts), "input_type": "query" if query else "document"}


def _gemini_body(model: str, texts: Sequence[str], query: bool) -> dict[str, Any]:
    task = "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"
    requests = [{"model": f"models/{model}", "content": {"parts": [{"text": t}]}, "taskType": task} for t in texts]
    return {"requests": requests}


def _ollama_body(model: str, texts: Sequence[str], query: bool) -> dict[str, Any]:
    return {"model": model, "input": list(texts), "truncate": True}


def _openai_read(data: dict[str, Any]) -> list[Sequence[float]]:
    return [entry["embedding"] for entry in sorted(data["data"], key=lambda entry: entry.get("index", 0))]


def _ollama_read(data: dict[str, Any]) -> list[Sequence[float]]:
    return list(data["embeddings"])


def _service(base: str, model: str, *, needs_key: bool = True) -> Service:
    return Service(base, model, "/embeddings", needs_key, _openai_body, _openai_read)


SERVICES = {
    "openai": _service("https://api.openai.com/v1", "text-embedding-3-small"),
    "openai-compatible": _service("", "", needs_key=False),
    "lmstudio": _service("http://127.0.0.1:1234/v1", "", needs_key=False),
    "mistral": _service("https://api.mistral.ai/v1", "mistral-embed"),
    "deepinfra": _service("https://api.deepinfra.com/v1/openai", "BAAI/bge-m3"),
    "voyage": Service("https://api.voyageai.com/v1", "voyage-3.5", "/embeddings", True, _voyage_body, _openai_read),
    "gemini": Service(
        "https://generativelanguage.googleapis.com/v1beta",
        "gemini-embedding-001",
        "/models/{model}:batchEmbedContents",
        True,
        _gemini_body,
        lambda data: [entry["values"] for entry in data["embeddings"]],
        key_header="x-goog-api-key",
        key_prefix="",
        per_call=100,
    ),
    "ollama": Service("http://127.0.0.1:11434", "nomic-embed-text", "/api/embed", False, _ollama_body, _ollama_read),
}


class RemoteEmbedder:
    """Asks one service. Nothing is sent before the first text."""

    remote = True
    static = False
    batch = 256

    def __init__(
        self,
        name: str,
        settings: MemorySettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        client: HttpClient | None = None,
    ) -> None:
        service = SERVICES[name]
        remote = settings.remote
        self.provider = name
        self.model = settings.model or service.model
        self._service = service
        self._base = (remote.base_url or service.base).rstrip("/")
        self._secret = remote.api_key if isinstance(remote.api_key, str) else ""  # a reference was resolved before
        self._headers = dict(remote.headers)
        self._timeout = remote.timeout_seconds
        self._tokens = max(100, remote.batch.max_tokens)
        self._parallel = max(1, remote.batch.concurrency)
        self._sleep = sleep
        self._client = client or HttpClient()
        self._jobs = self._make_jobs(name, remote.batch)
        if self._jobs is not None:
            self.batch = TEXTS
        if not self._base:
            raise EmbedError(f"{name} needs an address", cure="set memorySearch.remote.baseUrl")
        if not self.model:
            raise EmbedError(f"{name} needs a model", cure="set memorySearch.model")
        keyed = self._secret or any(h.lower() == service.key_header.lower() for h in self._headers)
        if service.needs_key and not keyed:
            raise EmbedError(f"{name} needs a key", cure="set memorySearch.remote.apiKey")
        shaping = sorted(
            (k.lower(), v) for k, v in self._headers.items() if k.lower() not in {"authorization", "x-goog-api-key"}
        )
        asks = [service.body(self.model, ["x"], True), service.body(self.model, ["x"], False)]
        self.key = sha256(json.dumps([self._base, shaping, asks], sort_keys=True).encode()).hexdigest()[:16]
        self.dims = 0

    def _make_jobs(self, name: str, batch: Batch) -> Jobs | None:
        job = make_job(name, self._line) if batch.enabled else None
        every, limit = batch.poll_interval_ms / 1000, 60 * batch.timeout_minutes
        return Jobs(job, every=every, limit=limit, sleep=self._sleep) if job is not None else None

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        """Return one row per text, in order."""
        import numpy as np

        parts = self._as_job(texts) if not query else None
        if parts is None:
            parts = self._in_groups(texts, query)
        rows = np.array([row for part in parts for row in part], dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            raise EmbedError(f"{self.provider} answered with {len(rows)} vectors for {len(texts)} texts")
        if self.dims and rows.shape[1] != self.dims:
            raise EmbedError(
                f"{self.provider} changed from {self.dims} to {rows.shape[1]} numbers a vector",
                cure="run 'homarus memory rebuild'",
            )
        self.dims = int(rows.shape[1])
        return unit_rows(rows)

    def _as_job(self, texts: Sequence[str]) -> list[list[Sequence[float]]] | None:
        """Return the vectors of a batch job; None where there is none, or it came to nothing."""
        if self._jobs is None or not self._jobs.usable:
            return None
        rows = self._jobs.encode(self.model, [text[:MAX_CHARS] or " " for text in texts])
        return [rows] if rows is not None else None

    def _in_groups(self, texts: Sequence[str], query: bool) -> list[list[Sequence[float]]]:
        groups = list(self._groups(texts))
        if len(groups) < 2 or self._parallel < 2:
            return [self._ask(group, query) for group in groups]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self._parallel) as pool:
            return list(pool.map(lambda group: self._ask(group, query), groups))

    def _groups(self, texts: Sequence[str]) -> Iterator[list[str]]:
        group: list[str] = []
        tokens = 0
        for text in texts:
            clean = text[:MAX_CHARS] or " "
            price = estimate_tokens(clean)
            if group and (tokens + price > self._tokens or len(group) >= self._service.per_call):
                yield group
                group, tokens = [], 0
            group.append(clean)
            tokens += price
        if group:
            yield group

    def _ask(self, texts: list[str], query: bool) -> list[Sequence[float]]:
        path = self._service.path.format(model=self.model)
        answer = self._request("POST", path, json.dumps(self._service.body(self.model, texts, query)).encode())
        try:
            return self._service.read(json.loads(answer))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise EmbedError(f"{self.provider} answered with something else than vectors") from problem

    def _line(self, method: str, path: str, *, text: bool = False, **content: Any) -> Any:
        """Ask as a batch job needs it: with JSON, with a form that holds a file, or with nothing."""
        body, kind = b"", "application/json"
        if "files" in content:
            body, kind = _form(content.get("data", {}), content["files"])
        elif "json" in content:
            body = json.dumps(content["json"]).encode()
        answer = self._request(method, path, body, kind)
        try:
            return answer.decode("utf-8", "replace") if text else json.loads(answer)
        except ValueError as problem:
            raise EmbedError(f"{self.provider} answered with something else than JSON") from problem

    def _request(self, method: str, path: str, body: bytes, kind: str = "application/json") -> bytes:
        headers = {**self._headers, **({"Content-Type": kind} if body else {})}
        if self._secret:
            headers.setdefault(self._service.key_header, self._service.key_prefix + self._secret)
        reason = ""
        for attempt in range(TRIES):
            if attempt:
                self._sleep(PAUSE * 2 ** (attempt - 1))
            try:
                status, answer = ask(self._client, method, self._base + path, headers, body, seconds=self._timeout)
            except Refused as problem:
                raise EmbedError(f"{self.provider}: {problem}", cure=problem.cure) from None
            except HttpError as problem:
                reason = f"{problem} ({self._base})"
                continue
            if status < 300:
                return answer
            reason = f"status {status} from {self._base}"
            if status not in AGAIN:
                break
        raise EmbedError(f"{self.provider}: {reason}", cure="check memorySearch.remote and the network")


def _form(fields: dict[str, str], files: dict[str, tuple[str, bytes, str]]) -> tuple[bytes, str]:
    """Return a form with files as bytes, and its type."""
    edge = "homarus-" + sha256(b"".join(data for _, data, _ in files.values())).hexdigest()[:24]
    parts = [
        f'--{edge}\r\ncontent-disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()
    ]
    for name, (file, data, kind) in files.items():
        head = f'content-disposition: form-data; name="{name}"; filename="{file}"\r\ncontent-type: {kind}'
        parts += [f"--{edge}\r\n{head}\r\n\r\n".encode(), data, b"\r\n"]
    return b"".join([*parts, f"--{edge}--\r\n".encode()]), f"multipart/form-data; boundary={edge}"


def make(name: str, settings: MemorySettings) -> RemoteEmbedder:
    """Return the embedder for a service, through the proxy and with the certificates that the environment names."""
    return RemoteEmbedder(
        name, settings, client=HttpClient(proxies=proxies_from(os.environ), trust=trust_from(os.environ))
    )
