"""Batch jobs against servers that speak like the real ones: files and batches, or one long operation."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from homarus.memory.embed.remote import RemoteEmbedder
from homarus.memory.settings import Batch, MemorySettings, Remote

np = pytest.importorskip("numpy")


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 2.0]


class Service:
    """OpenAI's and Voyage's files and batches, Gemini's operations, and the plain endpoints of all three."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.states = ["validating", "in_progress", "completed"]
        self.files: dict[str, list[dict]] = {}
        self.batches: dict[str, dict] = {}
        self.texts: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                data = self.rfile.read(int(self.headers["Content-Length"]))
                assert "topsecret" in str(self.headers)
                self.reply(owner.post(self.path, data, self.headers["Content-Type"]))

            def do_GET(self):
                self.reply(owner.get(self.path))

            def reply(self, out):
                status = 200 if out is not None else 500
                body = out if isinstance(out, bytes) else json.dumps(out).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    def post(self, path, data, kind):
        self.asked.append(f"POST {path}")
        if path == "/files":
            assert b'name="purpose"' in data
            boundary = kind.partition("boundary=")[2].encode()
            body = next(part for part in data.split(b"--" + boundary) if b"filename=" in part).split(b"\r\n\r\n", 1)[1]
            self.files["in"] = [json.loads(line) for line in body.decode().splitlines() if line.startswith("{")]
            return {"id": "in", "purpose": "batch"}
        given = json.loads(data)
        if path == "/batches":
            assert given["endpoint"] == "/v1/embeddings"
            assert given["completion_window"] == ("12h" if "request_params" in given else "24h")
            return {"id": "b1", "status": "validating"}
        if path.endswith(":asyncBatchEmbedContent"):
            self.batches["op"] = given["batch"]
            return {"name": "batches/op", "metadata": {"state": "BATCH_STATE_PENDING"}}
        if "batchEmbedContents" in path:
            return {"embeddings": [{"values": vector(r["content"]["parts"][0]["text"])} for r in given["requests"]]}
        return {"data": [{"index": at, "embedding": vector(text)} for at, text in enumerate(given["input"])]}

    def get(self, path):
        self.asked.append(f"GET {path}")
        if path == "/batches/op":
            state = self.states.pop(0)
            if state != "completed":
                return {"name": "batches/op", "metadata": {"state": f"BATCH_STATE_{state.upper()}"}}
            requests = self.batches["op"]["inputConfig"]["requests"]["requests"]
            answers = [
                {"metadata": r["metadata"], "response": {"embedding": {"values": vector(r["request"]["content"]["parts"][0]["text"])}}}
                for r in requests
            ]  # fmt: skip
            return {"done": True, "response": {"inlinedResponses": {"inlinedResponses": answers}}}
        if path == "/batches/b1":
            state = self.states.pop(0)
            return {"id": "b1", "status": state, **({"output_file_id": "out"} if state == "completed" else {})}
        rows = []
        for request in self.files["in"]:
            given = request["body"]["input"]
            text = given if isinstance(given, str) else given[0]
            body = {"data": [{"embedding": vector(text)}]}
            rows.append({"custom_id": request["custom_id"], "response": {"status_code": 200, "body": body}})
        return "".join(json.dumps(row) + "\n" for row in reversed(rows)).encode()  # in no order

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.close()


def embedder(service, name, waits, **batch):
    remote = Remote(base_url=service.url, api_key="topsecret", batch=Batch(enabled=True, **batch))
    return RemoteEmbedder(name, MemorySettings(model="some-model", remote=remote), sleep=waits.append)


@pytest.mark.parametrize("name", ["openai", "voyage", "gemini"])
def test_texts_come_back_in_order(service, name):
    waits: list[float] = []
    made = embedder(service, name, waits)
    texts = ["one", "three", "a longer text", "", "ünïcode 東京"]
    rows = made.encode(texts)
    expected = np.array([vector(text or " ") for text in texts])
    assert np.allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-4)
    assert waits == [2.0, 2.0]
    assert sum(line.startswith("POST") for line in service.asked) == (1 if name == "gemini" else 2)
    assert made.batch == 10_000


def test_a_question_never_waits_for_a_job(service):
    made = embedder(service, "openai", [])
    made.encode(["where is it"], query=True)
    assert service.asked == ["POST /embeddings"]


@pytest.mark.parametrize("name", ["openai", "voyage", "gemini"])
@pytest.mark.parametrize("state", ["failed", "expired", "cancelled"])
def test_two_failed_jobs_end_it_and_the_texts_are_sent_all_the_same(service, name, state):
    service.states = [state] * 9
    made = embedder(service, name, [])
    for _ in range(3):
        assert made.encode(["one", "two"]).shape == (2, 3)
    assert sum("atch" in line and line.startswith("GET") for line in service.asked) == 2


def test_a_job_that_takes_too_long_is_given_up(service):
    service.states = ["in_progress"] * 100
    waits: list[float] = []
    assert embedder(service, "openai", waits, timeout_minutes=0.1).encode(["one"]).shape == (1, 3)
    assert sum(waits) == pytest.approx(6.0)


def test_services_without_jobs_and_settings_without_them(service):
    made = embedder(service, "openai-compatible", [])
    made.encode(["one"])
    assert service.asked == ["POST /embeddings"]
    remote = Remote(base_url=service.url, api_key="topsecret")
    RemoteEmbedder("openai", MemorySettings(model="m", remote=remote)).encode(["one"])
    assert service.asked == ["POST /embeddings"] * 2
