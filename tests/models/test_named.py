"""A name that means no model is said so wherever a configuration is checked, with the one that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from homarus.config.blocks import validate
from homarus.config.load import Config, inspect_config
from homarus.config.paths import resolve_paths
from homarus.config.write import Operation, change
from homarus.core.errors import ConfigError

OWN = "models: { providers: { fake: { baseUrl: 'http://127.0.0.1:9/v1', models: [{ id: 'fake' }, { id: 'other' }] } } }"


def read(folder: Path, defaults: str, entries: str = "") -> Config:
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}
    text = f"{{ {OWN}, agents: {{ defaults: {{ {defaults} }}, entries: {{ main: {{ {entries} }} }} }} }}"
    (folder / "openclaw.json").write_text(text)
    return inspect_config(resolve_paths(env), env)


@pytest.mark.parametrize(
    ("defaults", "key", "severity", "meant"),
    [
        ("model: 'notebok'", "model", "error", "builtin/notebook"),
        ("model: { primary: 'notebok' }", "model.primary", "error", "builtin/notebook"),
        ("model: 'builtin/notebok'", "model", "error", "builtin/notebook"),
        ("model: 'fake/fak'", "model", "warning", "fake/fake"),
        ("model: 'fkae/fake'", "model", "warning", "fake/fake"),
        ("model: { primary: 'fake/fake', fallbacks: ['auto', 'fake/othr'] }", "model.fallbacks[1]", "warning", "other"),
        ("model: 'fake/fake', models: { 'fake/fakee': {}, 'fake/*': {} }", "models.fake/fakee", "warning", "fake/fake"),
        ("imageModel: 'fake/fak'", "imageModel", "warning", "fake/fake"),
        ("subagents: { model: 'fake/fak' }", "subagents.model", "warning", "fake/fake"),
    ],
)
def test_a_name_with_a_slip_is_named_with_what_was_meant(
    tmp_path: Path, defaults: str, key: str, severity: str, meant: str
) -> None:
    (found,) = validate(read(tmp_path, defaults))
    assert (found.severity, found.key, found.line) == (severity, f"agents.defaults.{key}", 1)
    assert "did you mean" in found.cure and meant in found.cure


def test_a_provider_that_nobody_knows_is_named(tmp_path: Path) -> None:
    (found,) = validate(read(tmp_path, "model: { primary: 'fake/fake', fallbacks: ['nobody/nothing'] }"))
    assert (found.key, found.message) == ("agents.defaults.model.fallbacks[0]", "there is no provider 'nobody' here")


@pytest.mark.parametrize(
    "defaults",
    [
        "model: 'auto'",
        "model: ''",
        "model: { primary: 'fake/fake', fallbacks: ['builtin/notebook', 'sonnet', 'local/tiny'] }",
        "model: 'quick', models: { 'fake/fake': { alias: 'quick' } }",
        "model: 'fake/mine', models: { 'fake/mine-7b': {}, 'anthropic/claude-9-new': {} }, imageModel: 'FAKE'",
    ],
)
def test_what_means_a_model_is_left_alone(tmp_path: Path, defaults: str) -> None:
    found = [each for each in validate(read(tmp_path, defaults)) if "fake/mine" not in defaults or "7b" in each.key]
    assert [each for each in found if each.key != "agents.defaults.models.fake/mine-7b"] == []


def test_an_agent_of_its_own_name_is_checked_with_its_own_short_names(tmp_path: Path) -> None:
    config = read(tmp_path, "model: 'fake/fake'", "model: 'quik', models: { 'fake/fake': { alias: 'quick' } }")
    (found,) = validate(config)
    assert found.key == "agents.entries.main.model" and "did you mean" in found.cure


def test_what_surely_means_none_is_not_written_and_what_may_is_said(tmp_path: Path) -> None:
    config, env = read(tmp_path, "model: 'fake/fake'"), {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    before = (tmp_path / "openclaw.json").read_bytes()
    with pytest.raises(ConfigError, match=r"'notebok' is no model") as refused:
        change(config, env, [Operation("set", ("agents", "defaults", "model"), "notebok")])
    assert "did you mean builtin/notebook?" in refused.value.cure
    assert (tmp_path / "openclaw.json").read_bytes() == before
    heard = []
    change(config, env, [Operation("set", ("agents", "defaults", "model"), "fake/fak")], notify=heard.append)
    assert [each.cure for each in heard] == ["did you mean fake/fake?"]
