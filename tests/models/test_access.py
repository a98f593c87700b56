"""A configuration's models: names, chains, levels, keys, and the order in which `auto` looks."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.models.servers import OPENAI, Answer, Seen, Server, serving
from tests.models.test_gguf import PAIRS, head

from homarus.config.blocks import validate
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ConfigError
from homarus.core.messages import Text, User
from homarus.core.prompt import SystemPrompt
from homarus.models.access import Models
from homarus.models.discover import OLLAMA_WINDOW, Served, discover, probe
from homarus.models.provider import ModelRequest, Stop
from homarus.models.providers.anthropic import AnthropicProvider
from homarus.models.providers.notebook import NotebookProvider
from homarus.models.providers.openai import OpenAIProvider
from homarus.models.providers.pydantic_ai import LibraryProvider
from homarus.models.ref import ModelRef
from homarus.models.rotation import Credential
from homarus.models.select import Override
from homarus.models.settings import AgentModelSettings
from homarus.net.client import HttpClient

# Nothing listens on port 9 here, so that a test machine's own servers are not found.
NOWHERE = {name: {"baseUrl": "http://127.0.0.1:9/v1"} for name in ("ollama", "lmstudio", "llamacpp", "vllm", "sglang")}


def open_models(tmp_path: Path, document: dict[str, Any] | None = None, **env: str) -> Models:
    state = tmp_path / ".openclaw"
    state.mkdir(exist_ok=True)
    document = document or {}
    providers = document.setdefault("models", {}).setdefault("providers", {})
    for name, value in NOWHERE.items():
        providers.setdefault(name, value)
    (state / "openclaw.json").write_text(json.dumps(document))
    environment = {"HOME": str(tmp_path), **env}
    config = load_config(resolve_paths(environment), environment)
    models = Models(config, environment, clock=ManualClock(datetime(2026, 11, 15, tzinfo=UTC)))
    models.server_seconds = 60.0
    return models


async def chosen(models: Models, **options: Any) -> list[str]:
    found = await models.chain(models.config.default_agent, **options)
    await models.aclose()
    return [ref.key for ref in found.models]


MOCK = {
    "baseUrl": "http://127.0.0.1:9/v1",
    "apiKey": "sk-x",
    "api": "openai-completions",
    "models": [{"id": "mock-model"}],
}


# --- auto ------------------------------------------------------------------------------------------------------------


async def test_a_configured_model_comes_first(tmp_path: Path):
    document = {"agents": {"defaults": {"model": "mock/mock-model"}}, "models": {"providers": {"mock": dict(MOCK)}}}
    assert await chosen(open_models(tmp_path, document, OPENAI_API_KEY="k")) == ["mock/mock-model"]


async def test_then_a_key_in_the_environment(tmp_path: Path):
    assert await chosen(open_models(tmp_path, ANTHROPIC_API_KEY="a", OPENAI_API_KEY="o")) == [
        "anthropic/claude-opus-5-5"
    ]
    models = open_models(tmp_path, GEMINI_API_KEY="g")
    picked = await models.auto(models.config.default_agent)
    assert picked.ref.provider == "google"
    assert "GEMINI_API_KEY" in picked.why


async def test_a_stored_profile_is_a_key_too(tmp_path: Path):
    folder = tmp_path / ".openclaw" / "agents" / "main" / "agent"
    folder.mkdir(parents=True)
    (folder / "auth-profiles.json").write_text(
        '{"profiles":{"groq:default":{"type":"api_key","provider":"groq","key":"k"}}}'
    )
    assert await chosen(open_models(tmp_path)) == ["groq/openai/gpt-oss-120b"]


def listing(*rows: dict[str, Any]) -> Answer:
    return Answer(
        [json.dumps({"data": list(rows)}).encode()], headers={"content-type": "application/json"}, chunked=False
    )


async def test_then_a_server_on_this_machine(tmp_path: Path):
    (tmp_path / ".openclaw" / "models").mkdir(parents=True)
    (tmp_path / ".openclaw" / "models" / "tiny.gguf").write_bytes(head(*PAIRS))
    async with serving(listing({"id": "nomic-embed-text"}, {"id": "qwen3.5", "max_model_len": 32768})) as server:
        models = open_models(tmp_path, {"models": {"providers": {"vllm": {"baseUrl": server.url}}}})
        picked = await models.auto(models.config.default_agent)
        assert picked.ref == ModelRef("vllm", "qwen3.5")
        assert models.info(picked.ref).window == 32768
        assert server.url in picked.why
        assert await models.auto(models.config.default_agent) is picked, "the choice holds"
        await models.aclose()


async def test_then_a_file_in_the_models_folder(tmp_path: Path):
    pytest.importorskip("xllamacpp")
    folder = tmp_path / ".openclaw" / "models"
    folder.mkdir(parents=True)
    (folder / "broken.gguf").write_bytes(b"no")
    (folder / "tiny.gguf").write_bytes(head(*PAIRS))
    models = open_models(tmp_path)
    assert await chosen(models) == ["local/tiny"]
    assert models.info(ModelRef("local", "tiny")).window == 8192


async def test_a_file_that_nothing_here_can_run_is_not_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    folder = tmp_path / ".openclaw" / "models"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(head(*PAIRS))
    models = open_models(tmp_path)
    picked = await models.auto(models.config.default_agent)
    assert picked.ref.key == "builtin/notebook" and "extra 'local' that runs model files" in picked.why
    await models.aclose()


async def test_and_the_notebook_at_last(tmp_path: Path):
    models = open_models(tmp_path)
    started = time.monotonic()
    assert await chosen(models) == ["builtin/notebook"]
    assert time.monotonic() - started < 60
    request = ModelRequest("", SystemPrompt(""), (User((Text("help"),)),))
    agent = models.config.default_agent
    events = [event async for event in models.client(agent).stream(request, await models.chain(agent), cancel=Cancel())]
    assert isinstance(events[-1], Stop)
    assert "notebook" in events[-1].message.text


# --- discovery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer([], hang=True),
        Answer([b"<html>"], chunked=False),
        Answer([b'{"data": []}'], chunked=False),
        Answer([b'{"data": [{"id": "m"}]}'], status=401, chunked=False),
    ],
)
async def test_servers_that_are_slow_or_something_else_are_passed_over(answer: Answer):
    http = HttpClient()
    async with serving(answer) as server:
        found = await probe(http, "x", server.url)
        assert found is None or (found.models == () and found.wants_key == (answer.status == 401))
        await http.aclose()
    assert await probe(http, "x", server.url) is None


@pytest.mark.parametrize(
    ("row", "window"),
    [
        ({"id": "a", "meta": {"n_ctx_train": 2048}}, 2048),
        ({"id": "a", "context_length": 4096}, 4096),
        ({"id": "a", "max_context_length": 0}, 0),
        ({"name": "a"}, 0),
    ],
)
async def test_what_a_server_says_about_its_model(row: dict[str, Any], window: int):
    http = HttpClient()
    async with serving(listing(row, {"no": "name"}, {"id": 3})) as server:
        found = await probe(http, "x", server.url, seconds=60)
        assert found is not None
        assert found.models == (Served("a", window),)
        await http.aclose()


class Local(Server):
    """A model server on this machine, with what it answers to whom."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self.known = answers

    def choose(self, seen: Seen) -> Answer:
        answer = self.known.get(seen.path)
        if isinstance(answer, Answer):
            return answer
        return Answer([json.dumps(answer).encode()], status=404 if answer is None else 200, chunked=False)


TRAINED = {"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]}
LOADED = {"models": [{"name": "m", "context_length": 32_768}]}


@pytest.mark.parametrize(
    ("provider", "answers", "window"),
    [
        ("llamacpp", {"/v1/models": TRAINED, "/props": {"default_generation_settings": {"n_ctx": 4096}}}, 4096),
        ("llamacpp", {"/v1/models": TRAINED}, 131_072),
        ("llamacpp", {"/v1/models": TRAINED, "/props": Answer([b"oh"], status=500, chunked=False)}, 131_072),
        ("llamacpp", {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 2048, "n_ctx_train": 9000}}]}}, 2048),
        ("ollama", {"/v1/models": {"data": [{"id": "m"}]}, "/api/ps": LOADED}, 32_768),
        (
            "ollama",
            {"/v1/models": {"data": [{"id": "m"}]}, "/api/show": {"parameters": "stop x\nnum_ctx   8192"}},
            8192,
        ),
        ("ollama", {"/v1/models": {"data": [{"id": "m"}]}, "/api/ps": [], "/api/show": 3}, OLLAMA_WINDOW),
        ("vllm", {"/v1/models": {"data": [{"id": "m", "max_model_len": 16_000}]}}, 16_000),
        ("vllm", {}, 200_000),
    ],
)
async def test_a_model_that_is_named_has_the_window_that_its_server_runs_it_with(
    tmp_path: Path, provider: str, answers: dict[str, Any], window: int
):
    async with serving(server=Local(answers)) as server:
        address = {"baseUrl": server.url}
        agents = {"defaults": {"model": f"{provider}/m"}}
        document: dict[str, Any] = {"models": {"providers": {provider: address}}, "agents": agents}
        models, ref = open_models(tmp_path, document), ModelRef(provider, "m")
        for _ in range(2):
            assert await chosen(models) == [ref.key]
        assert models.window(models.config.default_agent, ref) == window
        listed = [seen.path for seen in server.seen].count("/v1/models")
        assert listed == (2 if provider == "ollama" or not answers else 1), "asked once, where that does not change"
        await models.aclose()
        asked = len(server.seen)
        said = {provider: {**address, "models": [{"id": "m", "contextWindow": 5000}]}}
        models = open_models(tmp_path, {"models": {"providers": said}, "agents": agents})
        await chosen(models)
        assert models.window(models.config.default_agent, ref) == 5000, "what the file says needs no question"
        assert len(server.seen) == asked
        await models.aclose()


async def test_all_local_servers_are_asked(tmp_path: Path):
    async with serving(listing({"id": "m"})) as server:
        models = open_models(tmp_path, {"models": {"providers": {name: {"baseUrl": server.url} for name in NOWHERE}}})
        found = await discover(models.http, models.catalog, seconds=60)
        assert {item.provider for item in found} == set(NOWHERE)
        await models.aclose()


# --- configuration ---------------------------------------------------------------------------------------------------

FULL = {
    "agents": {
        "defaults": {
            "model": {"primary": "mock/mock-model", "fallbacks": ["anthropic/claude-opus-5-5"]},
            "imageModel": "google/gemini-3.8-flash",
            "thinkingDefault": "low",
            "models": {
                "mock/mock-model": {"alias": "Mock", "params": {"temperature": 0.1, "topP": 0.5}},
                "anthropic/claude-opus-5-5": {"params": {"thinking": "high"}},
            },
        },
        "entries": {
            "main": {},
            "strict": {"model": "mock/mock-model"},
            "thinker": {"thinkingDefault": "max", "models": {"mock/mock-model": {"params": {"temperature": 0.9}}}},
        },
    },
    "models": {"providers": {"mock": {**MOCK, "params": {"seed": 7}}}},
}  # fmt: skip


async def test_chains_from_the_configuration(tmp_path: Path):
    models = open_models(tmp_path, json.loads(json.dumps(FULL)))
    assert await chosen(models) == ["mock/mock-model", "anthropic/claude-opus-5-5"]
    strict = await models.chain(models.config.agent("strict"))
    assert ([ref.key for ref in strict.models], strict.strict) == (["mock/mock-model"], True)
    assert await chosen(models, override=Override("mock")) == ["mock/mock-model"]
    assert await chosen(models, images=True) == ["google/gemini-3.8-flash"]
    with pytest.raises(ConfigError, match="not on the list"):
        await chosen(models, override=Override("openai/gpt-4o"))


def test_levels_and_params(tmp_path: Path):
    models = open_models(tmp_path, json.loads(json.dumps(FULL)))
    main, thinker = models.config.agent("main"), models.config.agent("thinker")
    opus, mock = ModelRef("anthropic", "claude-opus-5-5"), ModelRef("mock", "mock-model")
    assert models.level(main, opus) == "high"
    assert models.level(main, opus, session="low", inline="xhigh") == "xhigh"
    assert models.level(main, opus, session="off") == "low", "this model cannot stop thinking"
    assert models.level(thinker, opus) == "max"
    assert models.level(main, mock, inline="high") == "off", "this model does not reason"
    assert models.level(main, ModelRef("openai", "gpt-6.1-terra")) == "low"
    assert models.params(main, mock) == {"seed": 7, "temperature": 0.1, "topP": 0.5}
    assert models.params(thinker, mock)["temperature"] == 0.9
    plain = open_models(tmp_path, {})
    assert plain.level(plain.config.default_agent, ModelRef("openai", "gpt-6.1-terra")) == "medium"


@pytest.mark.parametrize(
    ("defaults", "entry", "key"),
    [
        ({"thinkingDefault": "lowish"}, {}, "agents.defaults.thinkingDefault"),
        ({}, {"thinkingDefault": "lowish"}, "agents.entries.main.thinkingDefault"),
        ({"models": {"openai/gpt-6.1-terra": {"params": {"thinking": "lowish"}}}}, {}, None),
    ],
)
def test_a_word_that_is_no_level_is_said_once_by_its_own_key(
    tmp_path: Path, defaults: dict[str, Any], entry: dict[str, Any], key: str | None
):
    models = open_models(tmp_path, {"agents": {"defaults": defaults, "entries": {"main": entry}}})
    agent, ref = models.config.default_agent, ModelRef("openai", "gpt-6.1-terra")
    agent.block("", AgentModelSettings)
    assert models.level(agent, ref) == models.level(agent, ref) == "medium"
    (problem,) = models.config.problems
    assert problem.key == key or "params.thinking" in problem.key
    assert problem.message.endswith("; did you mean 'low'?")


def test_a_cap_on_the_window(tmp_path: Path):
    document = json.loads(json.dumps(FULL))
    document["agents"]["entries"]["strict"]["contextTokens"] = 30_000
    models = open_models(tmp_path, document)
    opus = ModelRef("anthropic", "claude-opus-5-5")
    assert models.window(models.config.agent("strict"), opus) == 30_000
    assert models.window(models.config.agent("main"), opus) == 1_000_000


def test_bad_settings_are_reported(tmp_path: Path):
    document = {
        "agents": {"defaults": {"model": {"primary": 3}, "thinkingDefault": "hgih", "models": {"a/b": {"alias": 5}}}}
    }
    models = open_models(tmp_path, document)
    assert models.level(models.config.default_agent, ModelRef("openai", "gpt-6.1-terra")) == "medium"
    keys = {problem.key for problem in validate(models.config)}
    assert {"agents.defaults.model.primary", "agents.defaults.models.a/b.alias"} <= keys
    assert any("did you mean 'high'?" in problem.message for problem in models.config.problems)


def test_keys_in_their_order(tmp_path: Path):
    models = open_models(tmp_path, json.loads(json.dumps(FULL)), MOCK_API_KEY="from-env")
    assert [item.secret for item in models.bare_keys("mock")] == ["from-env", "sk-x"]
    broken = open_models(
        tmp_path, {"models": {"providers": {"mock": {**MOCK, "apiKey": {"source": "env", "id": "UNSET_KEY"}}}}}
    )
    assert broken.bare_keys("mock") == []
    named = open_models(
        tmp_path,
        {"models": {"providers": {"mock": {**MOCK, "apiKey": {"source": "env", "id": "MY_KEY"}}}}},
        MY_KEY="found",
    )
    assert [item.secret for item in named.bare_keys("mock")] == ["found"]


def test_credentials_of_the_main_agent_are_shared_only_when_asked(tmp_path: Path):
    folder = tmp_path / ".openclaw" / "agents" / "main" / "agent"
    folder.mkdir(parents=True)
    (folder / "auth-profiles.json").write_text('{"profiles":{"mock:a":{"type":"api_key","provider":"mock","key":"k"}}}')
    for inherit, expected in ((False, 0), (True, 1)):
        models = open_models(tmp_path, {**json.loads(json.dumps(FULL)), "auth": {"inherit": inherit}})
        assert len(models.store(models.config.agent("strict")).credentials("mock")) == expected


@pytest.mark.parametrize(
    ("ref", "kind"),
    [
        ("openai/gpt-6.1-sol", OpenAIProvider),
        ("anthropic/claude-opus-5-5", AnthropicProvider),
        ("proxy/claude", AnthropicProvider),
        ("bedrock/nova", LibraryProvider),
        ("builtin/notebook", NotebookProvider),
    ],
)
def test_which_adapter_speaks(tmp_path: Path, ref: str, kind: type):
    document = {"models": {"providers": {
        "proxy": {"baseUrl": "http://x", "api": "anthropic-messages", "headers": {"X-Team": "me"}, "timeoutSeconds": 500},
        "bedrock": {"api": "bedrock-converse-stream"},
    }}}  # fmt: skip
    models = open_models(tmp_path, document)
    wanted = ModelRef(*ref.split("/"))
    credential = Credential("c", wanted.provider, "api_key", "secret-key")
    found = models.registry.provider(wanted, credential)
    assert isinstance(found, kind)
    assert models.registry.provider(wanted, credential) is found, (
        "opened once, with its connections and encoded history"
    )
    if ref == "proxy/claude":
        assert found.endpoint.headers == (("x-team", "me"),)
        assert found.endpoint.idle_timeout == 500
        assert "secret-key" not in repr(found.endpoint)


def test_logins_and_tokens_go_into_the_other_header(tmp_path: Path):
    registry, ref = open_models(tmp_path).registry, ModelRef("anthropic", "claude-opus-5-5")
    assert registry.endpoint(ref, Credential("a", "anthropic", "api_key", "k")).auth == "x-api-key"
    assert registry.endpoint(ref, Credential("b", "anthropic", "token", "k")).auth == "bearer"
    headers = (
        AnthropicProvider(
            registry.endpoint(ref, Credential("c", "anthropic", "token", "sk-ant-oat-x")),
            registry.info(ref),
            http=registry.http,
            clock=registry.clock,
        )
        .call(ModelRequest("m", SystemPrompt(""), (User((Text("hi"),)),)))
        .headers
    )
    assert headers["authorization"] == "Bearer sk-ant-oat-x"
    assert "oauth" in headers["anthropic-beta"]
    assert "x-api-key" not in headers


def test_what_cannot_be_reached_says_why(tmp_path: Path):
    models = open_models(tmp_path)
    for ref, says in (
        ("nowhere/m", "no provider 'nowhere'"),
        ("builtin/other", "no model"),
        ("local/none", "no local model"),
    ):
        wanted = ModelRef(*ref.split("/"))
        with pytest.raises(ConfigError, match=says):
            models.registry.provider(wanted, Credential("c", wanted.provider))


async def test_a_whole_call_through_the_configuration(tmp_path: Path):
    async with serving(Answer(OPENAI["text"])) as server:
        document = json.loads(json.dumps(FULL))
        document["models"]["providers"]["mock"]["baseUrl"] = server.url
        models = open_models(tmp_path, document)
        agent = models.config.default_agent
        chain = await models.chain(agent)
        request = ModelRequest(
            "", SystemPrompt("s"), (User((Text("hi"),)),), params=models.params(agent, chain.primary)
        )
        events = [event async for event in models.client(agent).stream(request, chain, cancel=Cancel())]
        assert isinstance(events[-1], Stop)
        assert events[-1].error is None
        assert server.seen[0].headers["authorization"] == "Bearer sk-x"
        assert server.seen[0].body["temperature"] == 0.1
        assert server.seen[0].body["seed"] == 7
        await models.aclose()


@pytest.mark.parametrize(
    ("dotenv", "file"), [("ACME_API_KEY=sk-from-dotenv", "{}"), ("", "{env: {vars: {ACME_API_KEY: 'sk-from-vars'}}}")]
)
def test_keys_of_the_home_count_like_those_of_the_process(dotenv: str, file: str, tmp_path: Path):
    (tmp_path / ".env").write_text(dotenv)
    document = {"providers": {"acme": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "m"}]}}}
    (tmp_path / "openclaw.json").write_text(
        file[:-1] + (", " if len(file) > 2 else "") + f"models: {json.dumps(document)}}}"
    )
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    models = Models(load_config(resolve_paths(env), env), env, clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    assert [key.id for key in models.bare_keys("acme")] == ["env:ACME_API_KEY"]
