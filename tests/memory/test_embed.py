from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from homarus.memory.embed.base import Embedders, EmbedError, Means, choose, read_tensors, unit_rows
from homarus.memory.embed.local import Gguf
from homarus.memory.embed.remote import SERVICES, RemoteEmbedder
from homarus.memory.settings import Batch, Local, MemorySettings, Remote, keys_in

np = pytest.importorskip("numpy")


class Server:
    """A service on loopback that answers in every known shape and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict, dict]] = []
        self.statuses: list[int] = []
        self.body: bytes | None = None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.asked.append((self.path, data, {name.lower(): value for name, value in self.headers.items()}))
                status = owner.statuses.pop(0) if owner.statuses else 200
                out = owner.body if owner.body is not None else json.dumps(owner.answer(self.path, data)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    @staticmethod
    def vector(text: str) -> list[float]:
        return [float(len(text)), 1.0, 2.0]

    def answer(self, path: str, data: dict) -> dict:
        if "batchEmbedContents" in path:
            return {"embeddings": [{"values": self.vector(r["content"]["parts"][0]["text"])} for r in data["requests"]]}
        if path == "/api/embed":
            return {"embeddings": [self.vector(text) for text in data["input"]]}
        rows = [{"index": at, "embedding": self.vector(text)} for at, text in enumerate(data["input"])]
        return {"data": rows[::-1]}

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def settings(server, provider, **remote):
    remote.setdefault("api_key", "topsecret")
    return MemorySettings(provider=provider, model="some-model", remote=Remote(base_url=server.url, **remote))


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_asked_in_its_own_way(server, name):
    embedder = RemoteEmbedder(name, settings(server, name))
    rows = embedder.encode(["a", "bbbb"])
    assert rows.shape == (2, 3)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows[1][0] > rows[0][0]
    path, body, headers = server.asked[0]
    assert path == SERVICES[name].path.format(model="some-model")
    assert "topsecret" in headers.get("x-goog-api-key", headers.get("authorization", ""))
    assert "topsecret" not in json.dumps(body)
    embedder.encode(["q"], query=True)
    if name == "voyage":
        assert [entry[1]["input_type"] for entry in server.asked] == ["document", "query"]
    if name == "gemini":
        assert server.asked[1][1]["requests"][0]["taskType"] == "RETRIEVAL_QUERY"


def test_texts_are_grouped_by_tokens_and_keep_their_order(server):
    embedder = RemoteEmbedder("openai", settings(server, "openai", batch=Batch(max_tokens=100, concurrency=3)))
    texts = ["x" * (n * 8) for n in range(1, 40)]
    rows = embedder.encode(texts)
    assert len(server.asked) > 5
    assert all(sum(len(t) for t in body["input"]) <= 400 or len(body["input"]) == 1 for _, body, _ in server.asked)
    order = rows[:, 0] / rows[:, 1]
    assert list(order) == sorted(order)


def test_a_busy_service_is_asked_again_and_a_refusal_is_not(server):
    waits = []
    embedder = RemoteEmbedder("openai", settings(server, "openai"), sleep=waits.append)
    server.statuses = [429, 503]
    assert len(embedder.encode(["a"])) == 1
    assert waits == [0.5, 1.0]
    server.statuses = [401]
    with pytest.raises(EmbedError) as caught:
        embedder.encode(["a"])
    assert "401" in str(caught.value)
    assert "topsecret" not in str(caught.value)
    assert len(server.asked) == 4


@pytest.mark.parametrize("body", [b"not json", b"{}", b'{"data": [{"embedding": [1.0]}]}', b"[]"])
def test_nonsense_is_an_embed_error(server, body):
    server.body = body
    embedder = RemoteEmbedder("openai", settings(server, "openai"), sleep=lambda _: None)
    with pytest.raises(EmbedError):
        embedder.encode(["a", "b"])


def test_nobody_answers(server):
    chosen = settings(server, "openai")
    server.close()
    embedder = RemoteEmbedder("openai", chosen, sleep=lambda _: None)
    with pytest.raises(EmbedError, match="openai"):
        embedder.encode(["a"])
    server.thread = threading.Thread(target=lambda: None)
    server.thread.start()


def test_the_key_tells_addresses_headers_and_services_apart_but_not_secrets(server):
    def key(**remote):
        return RemoteEmbedder("openai", settings(server, "openai", **remote)).key

    assert key() == key(api_key="other")
    assert key() != key(headers={"X-Dims": "256"})
    assert key() == key(headers={"Authorization": "Bearer x"})
    other = msgspec.structs.replace(settings(server, "openai"), remote=Remote(base_url="http://other", api_key="k"))
    assert RemoteEmbedder("openai", other).key != key()
    assert RemoteEmbedder("voyage", settings(server, "voyage")).key != key()


def test_what_is_missing_is_named():
    for provider, word in (("openai-compatible", "address"), ("lmstudio", "model"), ("gemini", "key")):
        choice = choose(MemorySettings(provider=provider))
        assert choice.embedder is None
        assert word in choice.degraded
    assert "modelPath" in choose(MemorySettings(provider="local")).degraded
    assert "export-minilm" in choose(MemorySettings(provider="minilm")).degraded


def test_fallbacks(server):
    chosen = msgspec.structs.replace(settings(server, "ollama"), provider="local", fallback="ollama")
    choice = choose(chosen)
    assert choice.embedder.provider == "ollama"
    assert choice.fallback == "local"
    assert "modelPath" in choice.degraded
    both = MemorySettings(provider="local", fallback="gemini")
    assert "words alone" in choose(both).degraded


def test_a_fallback_never_gets_what_belongs_to_another_service():
    keys = {"openai": "openai-key", "gemini": "gemini-env"}
    remote = Remote(base_url="http://gemini.test", api_key="gemini-key", headers={"x-team": "a"}, timeout_seconds=7)
    first = MemorySettings(provider="gemini", model="gemini-model", fallback="openai", remote=remote)
    gemini, openai = first.for_service("gemini", keys), first.for_service("openai", keys)
    assert (gemini.remote.api_key, gemini.remote.base_url, gemini.model) == (
        "gemini-key",
        "http://gemini.test",
        "gemini-model",
    )
    assert (openai.remote.api_key, openai.remote.base_url, openai.model) == ("openai-key", "", "")
    assert openai.remote.headers == {} and openai.remote.timeout_seconds == 7
    assert first.for_service("voyage", keys).remote.api_key == ""

    # Where the provider is none of the services, what is said about a service is said about the fallback.
    local = MemorySettings(provider="local", fallback="openai", model="big", remote=Remote(base_url="http://own.test"))
    assert (local.for_service("openai", keys).remote.api_key, local.for_service("openai", keys).model) == (
        "openai-key",
        "big",
    )
    choice = Embedders(local, keys=keys).choice
    assert (choice.embedder.provider, choice.embedder.model, choice.fallback) == ("openai", "big", "local")


@pytest.mark.parametrize(
    ("before", "chosen", "kept"),
    [
        (("gemini", "none"), "openai", False),
        (("gemini", "openai"), "wordllama", False),  # the fallback would get Gemini's key
        (("gemini", "openai"), "gemini", True),
        (("auto", "none"), "openai", True),
        (("local", "openai"), "openai", True),
    ],
)
def test_another_provider_by_option_never_gets_what_belongs_to_the_first(before, chosen, kept):
    remote = Remote(base_url="http://first.test", api_key="first-key")
    settings = MemorySettings(provider=before[0], fallback=before[1], model="m", remote=remote).with_provider(chosen)
    assert settings.provider == chosen
    assert (settings.remote.api_key, settings.remote.base_url, settings.model) == (
        ("first-key", "http://first.test", "m") if kept else ("", "", "")
    )


def test_keys_come_from_the_environment_by_service():
    found = keys_in({"GOOGLE_API_KEY": "g", "OPENAI_API_KEY": "o", "VOYAGE_API_KEY": ""})
    assert found == {"gemini": "g", "openai": "o"}


def test_model_files_are_looked_for_in_the_configured_folder(tmp_path):
    (tmp_path / "small.gguf").write_bytes(b"x")
    local = Local(model_path="small.gguf", model_cache_dir=str(tmp_path))
    assert choose(MemorySettings(provider="local", local=local)).embedder.model == "small.gguf"
    other = Means(models=tmp_path / "elsewhere")
    assert choose(MemorySettings(provider="local", local=local), other).embedder.model == "small.gguf"


def test_vectors_can_be_switched_off():
    settings = msgspec.json.decode(
        b'{"provider":"wordllama","store":{"vector":{"enabled":false}}}', type=MemorySettings
    )
    assert choose(settings).embedder is None
    assert choose(MemorySettings(provider="none")).embedder is None


def test_a_remote_memory_end_to_end(server, notes):
    notes.write("memory/a.md", "short\n\na much longer line of text here\n")
    memory = notes.open(settings=settings(server, "openai"), provider="openai")
    memory.sync()
    answer = memory.search("longer line")
    assert answer[0].end_line == 3
    assert (answer.provider, answer.model, answer.degraded) == ("openai", "some-model", "")


def test_local_files(tmp_path):
    class Backend:
        def handle_embeddings(self, body):
            return {"data": [{"embedding": [float(len(text)), 1.0]} for text in body["input"]]}

    embedder = Gguf(tmp_path / "model.gguf", server=Backend())
    assert embedder.encode(["a", "bb"]).shape == (2, 2)

    class Broken:
        def handle_embeddings(self, body):
            raise RuntimeError("no embeddings")

    with pytest.raises(EmbedError, match="no embeddings"):
        Gguf(tmp_path / "model.gguf", server=Broken()).encode(["a"])
    with pytest.raises(EmbedError, match="does not exist"):
        choose_local = MemorySettings(provider="local", local=Local(model_path=str(tmp_path / "none.gguf")))
        raise EmbedError(choose(choose_local).degraded)


def test_tensor_files(tmp_path):
    path = tmp_path / "x.safetensors"
    header = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"__metadata__":{}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + np.arange(4, dtype=np.float32).tobytes())
    assert read_tensors(path)["a"].tolist() == [[0, 1], [2, 3]]
    for damage in (b"", b"\xff" * 20, (3).to_bytes(8, "little") + b"{}{"):
        path.write_bytes(damage)
        with pytest.raises(EmbedError):
            read_tensors(path)


def test_wordllama_reads_the_wheels_files_directly(notes):
    pytest.importorskip("tokenizers")
    pytest.importorskip("wordllama", reason="the [memory] extra is not installed")
    from homarus.memory.embed.local import WordLlama

    embedder = WordLlama()
    rows = embedder.encode(["a boat on the sea", "a ship on the ocean", "tax forms"])
    assert rows.shape == (3, 256)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
    words = embedder.encode_words(["boat", "ship", "invoice"])
    assert words[0] @ words[1] > words[0] @ words[2]
    notes.write("memory/a.md", "Anna repaired her sailing boat\n\nthe tax forms are due\n")
    answer = notes.open(provider="wordllama").search("vessel maintenance")
    assert answer[0].citation == "memory/a.md#L1"
    assert answer.provider == "wordllama"


def test_wordllama_without_its_files(tmp_path):
    from homarus.memory.embed.local import WordLlama

    with pytest.raises(EmbedError, match="256-d"):
        WordLlama(tmp_path)


def test_what_is_no_number_counts_as_zero():
    rows = unit_rows(np.array([[3.0, 4.0], [np.nan, 2.0], [np.inf, np.nan], [0.0, 0.0]], dtype=np.float32))
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 1], [0, 0], [0, 0]]
    assert rows.dtype == np.float32
