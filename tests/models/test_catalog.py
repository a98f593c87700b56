"""The catalogue: sane data, and the user's entries on top."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from homarus.config.blocks import validate
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.messages import Usage
from homarus.models.catalog import DATA, Catalog
from homarus.models.info import ModelInfo, Price, Quirks, priced
from homarus.models.levels import LEVELS
from homarus.models.ref import ModelRef, normalize_provider
from homarus.models.settings import ModelsSettings


def catalog(**document: object) -> Catalog:
    return Catalog(msgspec.convert(document, ModelsSettings))


@pytest.mark.parametrize(
    ("provider", "found"),
    [
        ({"api": "openai-completion"}, ("error", "models.providers.x.api", "did you mean 'openai-completions'?")),
        ({"baseUrl": "notaurl"}, ("error", "models.providers.x.baseUrl", "write it like https://host/v1")),
        ({"baseUrl": "127.0.0.1:8080/v1"}, ("error", "models.providers.x.baseUrl", "write it like https://host/v1")),
        (
            {"api": "cohere"},
            ("info", "models.providers.x.api", "spoken here are openai-completions, anthropic-messages"),
        ),
        (
            {"contextWindow": 0},
            ("warning", "models.providers.x.contextWindow", "leave it out: unknown ones count 200,000 tokens"),
        ),
        (
            {"models": [{"id": "m", "contextTokens": -1}]},
            (
                "warning",
                "models.providers.x.models[0].contextTokens",
                "leave it out: unknown ones count 200,000 tokens",
            ),
        ),
        ({"api": "anthropic", "baseUrl": "http://[::1]:8080/v1"}, None),
        ({"api": "bedrock-converse-stream"}, None),
    ],
)
def test_a_provider_that_cannot_be_called_is_named_by_validate(
    tmp_path: Path, provider: dict[str, object], found: tuple[str, str, str] | None
) -> None:
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    (tmp_path / "openclaw.json").write_text(json.dumps({"models": {"providers": {"x": provider}}}))
    problems = validate(inspect_config(resolve_paths(env), env))
    assert [(each.severity, each.key, each.cure) for each in problems] == ([found] if found else [])


def test_every_built_in_row_is_usable():
    data = msgspec.json.decode(DATA.read_bytes())
    everything = Catalog()
    for name in data["providers"]:
        provider = everything.provider(name)
        if name in {"builtin", "local"}:
            continue
        assert provider.base_url.startswith("http")
        assert provider.env
        assert name == normalize_provider(name)
        if provider.default:
            assert provider.default in data["models"][name]
    rows = list(everything.models())
    assert len(rows) > 100
    for info in rows:
        assert info.known
        assert 0 < info.max_output <= info.context_window
        assert set(info.levels) <= set(LEVELS)
        assert list(info.levels) == sorted(info.levels, key=LEVELS.index)
        assert set(info.input) <= {"text", "image"}
        assert info.name
        if info.price:
            assert info.price.output >= info.price.input > 0
            assert info.price.cache_read <= info.price.input
        if info.provider == "anthropic":
            assert info.thinking in {"adaptive", "budget"}


def test_an_unknown_model_gets_cautious_defaults():
    info = Catalog().model(ModelRef("acme", "new"))
    assert (info.window, info.known, info.levels, info.price, info.sees) == (200_000, False, (), None, False)
    assert Catalog().provider("acme").base_url == ""


OWN = {
    "providers": {
        "mock": {
            "baseUrl": "http://127.0.0.1:8099/v1",
            "api": "openai-completions",
            "models": [
                {
                    "id": "mock-model", "name": "Mock", "reasoning": False, "input": ["text"], "maxTokens": 8192,
                    "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25},
                    "contextWindow": 200000, "contextTokens": 50000,
                },
                {"id": "thinker", "reasoning": True, "compat": {"thinkingFormat": "qwen", "maxTokensField": "x"}},
            ],
        },
        "openai": {"models": [{"id": "gpt-6.1-sol", "contextTokens": 160000}, {"id": "gpt-6-luna", "reasoning": False}]},
        "claude-proxy": {"baseUrl": "http://proxy", "api": "anthropic-messages", "authHeader": True},
        "z.ai": {"baseUrl": "http://mirror/v4"},
    }
}  # fmt: skip


def test_the_users_models_are_merged():
    own = catalog(**OWN)
    mock = own.model(ModelRef("mock", "mock-model"))
    assert (mock.window, mock.context_window, mock.max_output, mock.name) == (50_000, 200_000, 8_192, "Mock")
    assert mock.price == Price(input=1, output=2, cache_read=0.1, cache_write=1.25)
    assert own.provider("mock").env == ("MOCK_API_KEY",)
    capped = own.model(ModelRef("openai", "gpt-6.1-sol"))
    assert capped.window == 160_000
    assert capped.context_window == Catalog().model(ModelRef("openai", "gpt-6.1-sol")).context_window
    assert capped.levels == Catalog().model(ModelRef("openai", "gpt-6.1-sol")).levels
    assert own.model(ModelRef("openai", "gpt-6-luna")).levels == ()
    thinker = own.model(ModelRef("mock", "thinker"))
    assert thinker.levels == ("off", "low", "medium", "high")
    quirks = own.quirks(ModelRef("mock", "thinker"))
    assert (quirks.thinking_format, quirks.max_tokens_field) == ("qwen", "x")
    assert own.quirks(ModelRef("mock", "mock-model")) == Quirks()
    assert own.provider("claude-proxy").api == "anthropic-messages"
    assert own.provider("zai").base_url == "http://mirror/v4"
    assert own.provider("zai").quirks.replay_reasoning == "reasoning_content"
    assert own.configured()[:2] == ("mock/mock-model", "mock/thinker")
    assert next(own.models("mock")).id == "mock-model"


def test_replace_forgets_the_built_in_list():
    own = catalog(mode="replace", **OWN)
    assert not Catalog(own.settings).model(ModelRef("anthropic", "claude-opus-5-5")).known
    assert set(own.providers()) == {"mock", "openai", "claude-proxy", "zai"}


@pytest.mark.parametrize(
    ("api", "adapter"),
    [("openai-responses", "openai-completions"), ("ollama", "openai-completions"), ("google-vertex", "google-vertex")],
)
def test_protocol_names(api: str, adapter: str):
    own = catalog(providers={"p": {"baseUrl": "http://x", "api": api}})
    assert own.provider("p").api == adapter


def test_how_a_key_travels():
    own = catalog(providers={
        "a": {"baseUrl": "http://x", "api": "anthropic-messages"},
        "b": {"baseUrl": "http://x", "api": "anthropic-messages", "authHeader": True},
        "c": {"baseUrl": "http://x"},
        "d": {"baseUrl": "http://gpu:11434", "api": "ollama"},
    })  # fmt: skip
    assert [own.provider(name).auth for name in "abc"] == ["x-api-key", "bearer", "bearer"]
    assert own.provider("d").base_url == "http://gpu:11434/v1"
    assert Catalog().provider("anthropic").auth == "x-api-key"


def test_windows():
    assert ModelInfo(provider="p", id="m", context_window=1000, context_tokens=5000).window == 1000
    assert (
        catalog(providers={"p": {"models": [{"id": "m", "contextWindow": 0}]}}).model(ModelRef("p", "m")).window
        == 200_000
    )
    assert catalog(providers={"p": {"contextWindow": 8192}}).model(ModelRef("p", "m")).window == 8_192


def test_money():
    usage = Usage(input=1000, output=100, cache_read=10_000, cache_write=2000)
    price = Price(input=4, output=20, cache_read=0.4, cache_write=5, above=50_000, long=Price(input=8, output=40))
    cost = priced(usage, price).cost
    assert (cost.input, cost.output, cost.cache_read, cost.cache_write) == (0.004, 0.002, 0.004, 0.01)
    assert cost.total == pytest.approx(0.02)
    long = priced(Usage(input=100_000, output=1000), price).cost
    assert long.total == pytest.approx(0.84)
    assert priced(usage, None) == usage
    assert priced(usage, None, reported=0.5).cost.total == pytest.approx(0.5)
