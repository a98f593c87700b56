"""`homarus models`: what it shows, what it changes, and that it never shows a key."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.models.servers import OPENAI, Answer, Server, problem, serving

from homarus.cli.app import App
from homarus.cli.models import command
from homarus.core.errors import ConfigError, HomarusError, Unknown

QUIET = {name: {"baseUrl": "http://127.0.0.1:9/v1"} for name in ("ollama", "lmstudio", "llamacpp", "vllm", "sglang")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw").mkdir()
    write(tmp_path)
    return tmp_path


def write(home: Path, **document: object) -> None:
    document.setdefault("models", {}).setdefault("providers", {}).update(QUIET)  # type: ignore[attr-defined]
    (home / ".openclaw" / "openclaw.json").write_text("// mine\n" + json.dumps(document, indent=2))


def read(home: Path) -> dict[str, object]:
    text = (home / ".openclaw" / "openclaw.json").read_text()
    assert text.startswith("// mine\n"), "comments stay"
    return json.loads(text.removeprefix("// mine\n"))


def models(home: Path, *args: str, **env: str) -> Result:
    app = App(env={"HOME": str(home), **env})
    return CliRunner().invoke(command, args, obj=app, catch_exceptions=False, standalone_mode=False)


def answer(home: Path, *args: str, **env: str):
    return json.loads(models(home, *args, "--json", **env).output)


@contextlib.contextmanager
def running(*answers: Answer) -> Iterator[Server]:
    """A model server in a thread of its own, because a command runs its own event loop."""
    ready, done = threading.Event(), threading.Event()
    box: list[Server] = []

    async def serve() -> None:
        async with serving(*answers) as server:
            box.append(server)
            ready.set()
            while not done.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    try:
        yield box[0]
    finally:
        done.set()
        thread.join(60)


def mock(url: str) -> dict[str, object]:
    row = {"id": "m1", "contextWindow": 32000, "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}
    return {"providers": {"mock": {"baseUrl": url, "apiKey": "sk-very-secret-key-1234", "models": [row]}}}


def test_status_of_an_empty_home_is_the_notebook(home: Path):
    report = answer(home, "status")
    assert report["model"] == "builtin/notebook"
    assert report["source"] == "auto"
    text = models(home).output
    assert "builtin/notebook answers for agent 'main'" in text
    assert "ANTHROPIC_API_KEY" in text


def test_status_names_the_key_and_never_shows_it(home: Path):
    key = "sk-ant-0123456789abcdefghij"
    for output in (
        models(home, "status", ANTHROPIC_API_KEY=key).output,
        models(home, "status", "--json", ANTHROPIC_API_KEY=key).output,
    ):
        assert "env:ANTHROPIC_API_KEY" in output
        assert key not in output
        assert "anthropic/claude-opus-5-5" in output
    assert "0123456789abcdef" not in models(home, "status", ANTHROPIC_API_KEY="0123456789abcdef").output


def test_status_of_a_chain(home: Path):
    write(
        home,
        agents={"defaults": {"model": {"primary": "mock/m1", "fallbacks": ["openai/gpt-6.1-sol"]}}},
        models=mock("http://127.0.0.1:9/v1"),
    )
    report = answer(home, "status")
    assert [row["model"] for row in report["chain"]] == ["mock/m1", "openai/gpt-6.1-sol"]
    assert report["chain"][0]["contextTokens"] == 32000
    assert report["chain"][1]["credentials"] == []
    text = models(home, "status").output
    assert "then openai/gpt-6.1-sol" in text
    assert "no key" in text
    with pytest.raises(ConfigError, match="no agent 'nobody'"):
        models(home, "status", "--agent", "nobody")


def test_list(home: Path):
    assert [row["model"] for row in answer(home, "list")] == ["builtin/notebook"]
    everything = answer(home, "list", "--all")
    assert len(everything) > 100
    assert {"anthropic/claude-opus-5-5", "openrouter/moonshotai/kimi-k2"} <= {row["model"] for row in everything}
    google = answer(home, "list", "--provider", "gemini")
    assert {row["model"].partition("/")[0] for row in google} == {"google"}
    mine = answer(home, "list", MISTRAL_API_KEY="k")
    assert any(row["model"].startswith("mistral/") and row["usable"] for row in mine)
    assert "$ / M IN / OUT" in models(home, "list", "--all").output
    assert "qwen3.5-2b" in models(home, "list", "--pullable").output
    assert answer(home, "list", "--pullable")[0]["present"] is False


def test_set_writes_the_configuration_and_keeps_the_rest(home: Path):
    models(home, "set", "openai/gpt-6.1-sol", "--fallback", "anthropic/claude-opus-5-5")
    assert read(home)["agents"]["defaults"]["model"] == {
        "primary": "openai/gpt-6.1-sol",
        "fallbacks": ["anthropic/claude-opus-5-5"],
    }
    models(home, "set", "mistral/mistral-large-4")
    assert read(home)["agents"]["defaults"]["model"]["primary"] == "mistral/mistral-large-4"
    assert read(home)["agents"]["defaults"]["model"]["fallbacks"] == ["anthropic/claude-opus-5-5"]
    models(home, "set", "auto")
    assert answer(home, "status")["model"] == "builtin/notebook"
    assert "models" in read(home)


def test_set_for_one_agent(home: Path):
    write(home, agents={"entries": {"main": {}, "work": {}}})
    models(home, "set", "openai/gpt-6.1-terra", "--agent", "work")
    entries = read(home)["agents"]["entries"]
    assert entries["work"]["model"]["primary"] == "openai/gpt-6.1-terra"
    assert "model" not in entries["main"]
    assert answer(home, "status", "--agent", "work")["model"] == "openai/gpt-6.1-terra"


@pytest.mark.parametrize("model", ["nowhere/m", "/", "provider/"])
def test_set_refuses_what_cannot_work(home: Path, model: str):
    before = (home / ".openclaw" / "openclaw.json").read_bytes()
    with pytest.raises(ConfigError):
        models(home, "set", model)
    assert (home / ".openclaw" / "openclaw.json").read_bytes() == before


@pytest.mark.parametrize("model", ["notebok", "mock/m", "mok/m1"])
def test_set_refuses_a_slip_beside_a_provider_of_ones_own(home: Path, model: str):
    write(home, agents={"defaults": {"model": "mock/m1"}}, models=mock("http://127.0.0.1:9/v1"))
    before = (home / ".openclaw" / "openclaw.json").read_bytes()
    with pytest.raises(ConfigError, match="did you mean"):
        models(home, "set", model)
    assert (home / ".openclaw" / "openclaw.json").read_bytes() == before


def test_what_a_configured_model_lacks_is_said_instead_of_that_it_answers(home: Path):
    write(
        home,
        agents={"defaults": {"model": {"primary": "mock/m1", "fallbacks": ["local/tiny"]}}},
        models=mock("notaurl"),
    )
    text = models(home, "status").output
    assert "mock/m1 is to answer for agent 'main'" in text
    assert "'notaurl' is no http address" in text and "there is no local model 'tiny'" in text
    set_ = models(home, "set", "openai/gpt-6.1-sol")
    assert "openai/gpt-6.1-sol is to answer" in set_.output and "no key for openai" in set_.output
    assert "builtin/notebook answers for every agent" in models(home, "set", "builtin/notebook").output


def test_aliases(home: Path):
    assert answer(home, "aliases") == {}
    models(home, "aliases", "add", "Fast", "openai/gpt-6.1-terra")
    assert answer(home, "aliases") == {"fast": "openai/gpt-6.1-terra"}
    models(home, "aliases", "add", "fast", "openai/gpt-6-luna")
    assert answer(home, "aliases")["fast"] == "openai/gpt-6-luna"
    assert answer(home, "test", "builtin/notebook")["ok"], "an alias forbids nobody else"
    models(home, "set", "FAST")
    assert read(home)["agents"]["defaults"]["model"]["primary"] == "openai/gpt-6-luna"
    models(home, "aliases", "remove", "fast")
    assert "fast" not in answer(home, "aliases")
    with pytest.raises(ConfigError, match="no alias"):
        models(home, "aliases", "remove", "fast")


def test_what_is_no_alias_is_refused(home: Path):
    before = sorted(home.rglob("*"))
    for alias in ("", "a/b", "a@b", "a b", "a\tb"):
        with pytest.raises(click.UsageError):
            models(home, "aliases", "add", alias, "openai/gpt-6.1-terra")
    for args in (("auto", "openai/gpt-6.1-terra"), ("x" * 65, "openai/gpt-6.1-terra"), ("fast", "nosuch/x")):
        with pytest.raises(Unknown):
            models(home, "aliases", "add", *args)
    assert sorted(home.rglob("*")) == before
    models(home, "aliases", "add", "quick", "openai/gpt-6.1-terra")
    said = models(home, "aliases", "add", "fast", "openai/gpt-6.1-terra").output
    assert "quick is no alias any more" in said


def test_auto_has_no_fallbacks_and_is_none(home: Path):
    for args in (("auto", "--fallback", "builtin/notebook"), ("builtin/notebook", "--fallback", "auto")):
        with pytest.raises(click.UsageError, match="chooses by itself"):
            models(home, "set", *args)


def test_models_of_a_provider_that_is_not_there(home: Path):
    with pytest.raises(Unknown, match="there is no provider 'antropic'") as wrong:
        models(home, "list", "--provider", "antropic")
    assert "did you mean anthropic?" in wrong.value.cure
    assert answer(home, "list", "--provider", "builtin")


def test_an_alias_joins_an_old_list_of_allowed_models(home: Path):
    write(home, agents={"defaults": {"models": {"openai/gpt-6-luna": {}}}})
    models(home, "aliases", "add", "fast", "openai/gpt-6.1-terra")
    assert "modelPolicy" not in read(home)["agents"]["defaults"]
    with pytest.raises(ConfigError, match="not on the list"):
        models(home, "test", "builtin/notebook")


def test_test_asks_for_real(home: Path):
    with running(Answer(OPENAI["text"])) as server:
        write(home, agents={"defaults": {"model": "mock/m1"}}, models=mock(server.url))
        report = answer(home, "test")
        assert report["ok"]
        assert report["reply"] == "Grüße, wörld 🦞"
        assert report["tokens"] == {"input": 20, "output": 7, "cacheRead": 100}
        assert report["cost"] == pytest.approx(0.000034)
        assert report["firstTokenSeconds"] <= report["seconds"]
        assert "answered" in models(home, "test", "mock/m1").output
        assert server.seen[0].headers["authorization"] == "Bearer sk-very-secret-key-1234"


def test_test_fails_with_the_reason(home: Path):
    with running(problem("openai", 401)) as server:
        write(home, agents={"defaults": {"model": "mock/m1"}}, models=mock(server.url))
        with pytest.raises(HomarusError, match="Incorrect API key") as caught:
            models(home, "test")
        assert "models status" in caught.value.cure
        result = models(home, "test", "--json")
        assert json.loads(result.output)["kind"] == "auth"


def test_test_gives_up_in_time(home: Path):
    with running(Answer([], hang=True)) as server:
        write(home, agents={"defaults": {"model": "mock/m1"}}, models=mock(server.url))
        with pytest.raises(HomarusError, match=r"within 0\.2 s"):
            models(home, "test", "--timeout", "0.2")


def test_pull(home: Path):
    data = b"GGUF" + bytes(2000)
    digest = hashlib.sha256(data).hexdigest()
    with running(Answer([data], chunked=False)) as server:
        found = answer(home, "pull", f"{server.url}/tiny.gguf", "--sha256", digest)
        assert found["model"] == "local/tiny"
        assert Path(found["path"]).read_bytes() == data
        assert Path(found["path"]).parent == home / ".openclaw" / "models"
        assert "is there" in models(home, "pull", f"{server.url}/tiny.gguf", "--sha256", digest).output
    with pytest.raises(ConfigError, match="no model to fetch"):
        models(home, "pull", "nonsense")
