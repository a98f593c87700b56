"""Fetching weights: resumed, checked, redirected, and never under their name before they are whole."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
from tests.models.servers import Answer, serving

from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled, ConfigError, StorageError
from homarus.models.pull import Puller, PullFailed, Source, find_source, known
from homarus.net.client import HttpClient

DATA = b"GGUF" + bytes(range(256)) * 40
DIGEST = hashlib.sha256(DATA).hexdigest()


def whole(data: bytes = DATA, **headers: str) -> Answer:
    return Answer([data], headers={"content-type": "application/octet-stream", **headers}, chunked=False)


class Fetch:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[int, int | None]] = []

    async def __call__(self, url: str, sha256: str = DIGEST, **options: object) -> tuple[Path, str]:
        http = HttpClient()
        puller = Puller(http, self.folder, progress=lambda done, total: self.seen.append((done, total)))
        options.setdefault("cancel", Cancel())
        try:
            return await puller.pull(Source(f"{url}/tiny.gguf", sha256, "tiny.gguf"), **options)  # type: ignore[arg-type]
        finally:
            await http.aclose()


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path / "models")


async def test_a_file_is_fetched_and_checked(fetch: Fetch):
    async with serving(whole()) as server:
        path, digest = await fetch(server.url)
        assert path.read_bytes() == DATA
        assert digest == DIGEST
        assert fetch.seen[-1] == (len(DATA), len(DATA))
        assert [item.name for item in fetch.folder.iterdir()] == ["tiny.gguf"]
        again, _ = await fetch(server.url)
        assert again == path
        assert len(server.seen) == 1, "what is there and right is not fetched again"


async def test_a_broken_transfer_is_taken_up_again(fetch: Fetch):
    half = len(DATA) // 2
    rest = Answer([DATA[half:]], status=206, chunked=False)
    async with serving(Answer([DATA[:half]], cut=True), rest) as server:
        with pytest.raises(PullFailed, match="middle"):
            await fetch(server.url)
        assert not (fetch.folder / "tiny.gguf").exists()
        assert (fetch.folder / "tiny.gguf.part").read_bytes() == DATA[:half]
        path, _ = await fetch(server.url)
        assert path.read_bytes() == DATA
        assert server.seen[1].headers["range"] == f"bytes={half}-"


async def test_a_server_that_cannot_resume_starts_over(fetch: Fetch):
    fetch.folder.mkdir()
    (fetch.folder / "tiny.gguf.part").write_bytes(b"GGUF old rubbish")
    async with serving(whole()) as server:
        path, _ = await fetch(server.url)
    assert path.read_bytes() == DATA


async def test_a_part_that_was_already_whole(fetch: Fetch):
    fetch.folder.mkdir()
    (fetch.folder / "tiny.gguf.part").write_bytes(DATA)
    async with serving(Answer([], status=416, chunked=False)) as server:
        path, _ = await fetch(server.url)
    assert path.read_bytes() == DATA


async def test_a_wrong_file_is_thrown_away(fetch: Fetch):
    async with serving(whole(DATA + b"x")) as server:
        with pytest.raises(PullFailed, match="SHA-256"):
            await fetch(server.url)
    assert list(fetch.folder.iterdir()) == []


async def test_a_web_page_is_no_model(fetch: Fetch):
    async with serving(whole(b"<html>sign in</html>")) as server:
        with pytest.raises(PullFailed, match="no GGUF"):
            await fetch(server.url)


@pytest.mark.parametrize("status", [404, 500])
async def test_refusals(fetch: Fetch, status: int):
    async with serving(Answer([b"no"], status=status, chunked=False)) as server:
        with pytest.raises(PullFailed, match=str(status)):
            await fetch(server.url)


async def test_redirects_are_followed_and_the_hubs_digest_believed(fetch: Fetch):
    linked = {"location": "/cdn/tiny.gguf", "x-linked-etag": f'"{DIGEST}"'}
    async with serving(Answer([], status=302, headers=linked, chunked=False), whole()) as server:
        _, digest = await fetch(server.url, "")
        assert digest == DIGEST
        assert server.seen[1].path == "/cdn/tiny.gguf"


async def test_without_a_digest_somebody_must_say_so(fetch: Fetch):
    async with serving(whole()) as server:
        with pytest.raises(ConfigError, match="nobody says"):
            await fetch(server.url, "")
        path, digest = await fetch(server.url, "", unverified=True)
        assert (path.read_bytes(), digest) == (DATA, DIGEST)


async def test_circles_and_another_file_in_the_way(fetch: Fetch):
    async with serving(Answer([], status=302, headers={"location": "/x.gguf"}, chunked=False)) as server:
        with pytest.raises(PullFailed, match="circles"):
            await fetch(server.url)
    (fetch.folder / "tiny.gguf").write_bytes(b"mine")
    with pytest.raises(StorageError, match="another file"):
        await fetch("http://127.0.0.1:9")
    assert (fetch.folder / "tiny.gguf").read_bytes() == b"mine"


async def test_a_stop_keeps_what_came(fetch: Fetch):
    cancel = Cancel()
    fetch.folder.mkdir()
    async with serving(Answer([DATA[:100]], hang=True)) as server:
        asyncio.get_running_loop().call_later(0.1, cancel.cancel, "user")
        with pytest.raises(Cancelled):
            await fetch(server.url, cancel=cancel)
    assert (fetch.folder / "tiny.gguf.part").read_bytes() == DATA[:100]


@pytest.mark.parametrize(
    ("text", "url", "name"),
    [
        (
            "hf:owner/repo/sub/file.Q4.gguf",
            "https://huggingface.co/owner/repo/resolve/main/sub/file.Q4.gguf",
            "file.Q4.gguf",
        ),
        ("https://x.example/a%20b.gguf?download=1", "https://x.example/a%20b.gguf?download=1", "a_b.gguf"),
    ],
)
def test_sources(text: str, url: str, name: str):
    found = find_source(text, "SHA256:" + "a" * 64)
    assert (found.url, found.name, found.sha256) == (url, name, "a" * 64)


def test_known_names_are_complete():
    for name, source in known().items():
        assert source.url.startswith("https://")
        assert source.url.endswith(".gguf")
        assert len(source.sha256) == 64
        assert find_source(name.upper()) == source


@pytest.mark.parametrize("text", ["nope", "https://x.example/page.html", "ftp://x/y.gguf", "hf:owner", ""])
def test_what_is_no_source(text: str):
    with pytest.raises(ConfigError):
        find_source(text)
    with pytest.raises(ConfigError, match="64"):
        find_source("qwen3.5-2b", "abc")
