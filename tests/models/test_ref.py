"""Model references, aliases, profiles and the allowlist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.errors import ConfigError
from homarus.models.ref import ModelRef, Names, allows, build_names, split_ref

MODELS = {
    "anthropic/claude-opus-5-5": {"alias": "Opus"},
    "anthropic/claude-sonnet-5-5": {},
    "openai/gpt-6.1-sol": {},
    "openai/gpt-6.1-terra": {"alias": "small"},
    "google/gemini-3.8-flash": {},
    "vertex/claude-3@20240620": {},
    "not a ref": {"alias": "broken"},
}
NAMES = build_names(MODELS, ("mock/mock-model", "other/shared", "third/shared"))


@pytest.mark.parametrize(
    ("text", "provider", "model", "profile", "how"),
    [
        ("openrouter/moonshotai/kimi-k2", "openrouter", "moonshotai/kimi-k2", "", "ref"),
        (" Anthropic/claude-x ", "anthropic", "claude-x", "", "ref"),
        ("z.ai/glm-5", "zai", "glm-5", "", "ref"),
        ("Z-AI/glm-5", "zai", "glm-5", "", "ref"),
        ("Opus", "anthropic", "claude-opus-5-5", "", "alias"),
        ("oPUS", "anthropic", "claude-opus-5-5", "", "alias"),
        ("sonnet", "anthropic", "claude-sonnet-5-5", "", "alias"),
        ("gpt", "openai", "gpt-6.1-sol", "", "alias"),
        ("small", "openai", "gpt-6.1-terra", "", "alias"),
        ("gemini-flash", "google", "gemini-3.8-flash", "", "alias"),
        ("mock-model", "mock", "mock-model", "", "unique"),
        ("lonely", "anthropic", "lonely", "", "default"),
        ("gpt-mini", "anthropic", "gpt-mini", "", "default"),
        ("x/y@z", "x", "y", "z", "ref"),
        ("opus@work", "anthropic", "claude-opus-5-5", "work", "alias"),
        ('x/y@"openai:me@example.com"', "x", "y", "openai:me@example.com", "ref"),
        ("x/y@'p q'", "x", "y", "p q", "ref"),
        ("x/y@me@example.com", "x", "y", "me@example.com", "ref"),
        ("vertex/claude-3@20240620", "vertex", "claude-3@20240620", "", "ref"),
        ("vertex/claude-3@20240620@work", "vertex", "claude-3@20240620", "work", "ref"),
        ("openrouter/@preset/kimi", "openrouter", "@preset/kimi", "", "ref"),
        ("openrouter/@preset/kimi@work", "openrouter", "@preset/kimi", "work", "ref"),
        ("openai/@cf/openai/gpt-oss-20b", "openai", "@cf/openai/gpt-oss-20b", "", "ref"),
        ("openai/@cf/openai/gpt-oss-20b@cf:default", "openai", "@cf/openai/gpt-oss-20b", "cf:default", "ref"),
        ("x/foo@bar/baz", "x", "foo@bar/baz", "", "ref"),
        ("lmstudio/qwen3.6-27b@iq3_xxs", "lmstudio", "qwen3.6-27b@iq3_xxs", "", "ref"),
        ("lmstudio/qwen3.6-27b@Q4_K_M@work", "lmstudio", "qwen3.6-27b@Q4_K_M", "work", "ref"),
        ("lmstudio/qwen3.6-27b@8bit", "lmstudio", "qwen3.6-27b@8bit", "", "ref"),
        ("lmstudio/qwen3.6-27b@bf16", "lmstudio", "qwen3.6-27b@bf16", "", "ref"),
        ("litellm/claude-haiku@20251001", "litellm", "claude-haiku@20251001", "", "ref"),
        ("x/y@v1.2.3", "x", "y@v1.2.3", "", "ref"),
        ("x/y@1.0.0-beta.1", "x", "y@1.0.0-beta.1", "", "ref"),
        ("claude-haiku@20251001", "anthropic", "claude-haiku@20251001", "", "default"),
        (
            "sonnet@google-gemini-cli:me@example.com",
            "anthropic",
            "claude-sonnet-5-5",
            "google-gemini-cli:me@example.com",
            "alias",
        ),
        ("openrouter:auto", "openrouter", "auto", "", "alias"),
        ("OpenRouter:Auto@work", "openrouter", "auto", "work", "alias"),
        ("openrouter:free", "openrouter", "free", "", "alias"),
        ("openrouter/openrouter/auto", "openrouter", "auto", "", "ref"),
        ("MOCK-model", "mock", "mock-model", "", "unique"),
    ],
)
def test_what_a_text_means(text: str, provider: str, model: str, profile: str, how: str):
    found = NAMES.resolve(text)
    assert found.ref == ModelRef(provider, model, profile)
    assert found.how == how
    assert bool(found.warning) == (how == "default")


@pytest.mark.parametrize("text", ["", "  ", "/model", "provider/", "/", "@x", "  / "])
def test_what_means_nothing(text: str):
    with pytest.raises(ConfigError, match="no model"):
        NAMES.resolve(text)


KNOWN = ("builtin/notebook", "openai/gpt-5", "openai/gpt-5.5", "anthropic/claude-opus-5")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("notebok", "builtin/notebook"),
        ("gpt5x", "openai/gpt-5"),
        ("fake-bgi", "lmx/fake-big"),
        ("opuss", "opus"),
        ("nope", ""),
    ],
)
@pytest.mark.parametrize("default", ["lmx", ""])
def test_a_slip_is_refused_also_where_there_is_a_provider_of_ones_own(text: str, meant: str, default: str):
    names = build_names({}, ("lmx/fake-big",), default, KNOWN)
    with pytest.raises(ConfigError) as caught:
        names.resolve(text)
    assert (f"did you mean {meant}" in caught.value.cure) == bool(meant)


def test_only_a_provider_that_lists_no_models_may_have_any():
    names = build_names({"lmx/first": {}}, (), "lmx", KNOWN)
    assert names.resolve("qwerty").ref.key == "lmx/qwerty" and names.resolve("qwerty").warning
    with pytest.raises(ConfigError, match="did you mean builtin/notebook"):
        names.resolve("notebok")


def test_a_name_that_two_providers_list_is_refused_with_both():
    with pytest.raises(ConfigError, match="did you mean other/shared, third/shared"):
        NAMES.resolve("shared")


def test_a_model_that_its_provider_does_not_list_is_doubted():
    names = build_names({}, ("lmx/fake-big", "openai/gpt-mine"), "", KNOWN)
    assert "lists no model 'fake-bgi'; did you mean lmx/fake-big?" in names.resolve("lmx/fake-bgi").warning
    assert "lists no model 'zzz'; add it to models.providers.lmx.models" in names.resolve("lmx/zzz").warning
    for fine in ("lmx/fake-big", "openai/gpt-5.5", "openai/gpt-mine", "anthropic/claude-new"):
        assert not names.resolve(fine).warning


def test_openrouters_free_name_means_a_configured_free_model_where_there_is_one():
    names = build_names({"openrouter/acme/big": {}, "openrouter/acme/small:free": {}}, ())
    assert names.resolve("openrouter:free").ref.key == "openrouter/acme/small:free"


def test_a_built_in_alias_yields_to_a_configured_one():
    names = build_names({"anthropic/claude-opus-5": {"alias": "x"}, "local/tiny": {"alias": "opus"}}, ())
    assert names.resolve("opus").ref.key == "local/tiny"
    assert build_names({}, ()).resolve("opus").how == "default"


@given(st.text(max_size=60))
def test_any_text_resolves_or_says_why(text: str):
    try:
        found = NAMES.resolve(text)
    except ConfigError:
        return
    assert found.ref.provider
    assert found.ref.model


@given(st.text(alphabet="abc/@.-", max_size=12))
def test_splitting_keeps_everything_after_the_first_slash(text: str):
    ref = split_ref(text)
    if ref is not None:
        assert text.partition("/")[2] == ref.model


@pytest.mark.parametrize(
    ("raw", "allowed", "forbidden"),
    [
        ({}, ["any/thing"], []),
        ({"models": {"a/b": {}}}, ["a/b"], ["a/c"]),
        ({"models": {"a/b": {}}, "modelPolicy": {}}, ["a/c"], []),
        (
            {"modelPolicy": {"allow": ["a/b", "opus", "x/*"]}},
            ["a/b", "anthropic/claude-opus-5-5", "x/q"],
            ["a/c", "y/q"],
        ),
        ({"modelPolicy": {"allow": ["z.ai/*"]}}, ["zai/glm"], ["x/y"]),
        ({"modelPolicy": {"allow": "nonsense"}}, ["a/b"], []),
    ],
)
def test_allowlist(raw: dict[str, object], allowed: list[str], forbidden: list[str]):
    question = allows(raw, NAMES.resolve)
    for text in allowed:
        assert question(NAMES.resolve(text).ref), text
    for text in forbidden:
        assert not question(NAMES.resolve(text).ref), text


def test_a_ref_reads_as_it_is_written():
    assert str(ModelRef("a", "b/c", "p")) == "a/b/c"
    assert Names().resolve("m").ref.provider == "anthropic"
