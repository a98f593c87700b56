"""Numbers that make no sense mean the default, and old spellings of a mode are understood."""

from __future__ import annotations

import json

import msgspec
import pytest

from homarus.config.blocks import build_schema, validate
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.workspace.settings import FileLimits, Injection, StartupContext, WorkspaceSettings


def settings(**values) -> WorkspaceSettings:
    return msgspec.convert(values, WorkspaceSettings)


def test_the_defaults_are_the_seeds():
    plain = settings()
    assert plain.limits == FileLimits(file=20_000, total=150_000, user_file=None, digest=False)
    assert plain.injection is Injection.ALWAYS
    assert plain.startup_context == StartupContext()


def test_limits_that_are_not_positive_mean_the_default():
    odd = settings(bootstrapMaxChars=0, bootstrapTotalMaxChars=-5, userFileMaxChars=0)
    assert odd.limits == FileLimits()
    set_ = settings(bootstrapMaxChars=10, bootstrapTotalMaxChars=60_000, userFileMaxChars=4000, bootstrapDigest=True)
    assert set_.limits == FileLimits(10, 60_000, 4000, digest=True)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("always", Injection.ALWAYS),
        ("continuation-skip", Injection.SKIP),
        ("continuation-light", Injection.LIGHT),
        ("lightweight", Injection.LIGHT),
        ("limited", Injection.LIGHT),
        ("never", Injection.NEVER),
    ],
)
def test_every_spelling_of_a_mode(text, mode):
    assert settings(contextInjection=text).injection is mode


def test_startup_numbers_are_kept_within_their_ranges():
    wild = msgspec.convert(
        {"dailyMemoryDays": 99, "maxFileBytes": 10**9, "maxFileChars": 0, "maxTotalChars": 10**9}, StartupContext
    )
    assert (wild.days, wild.file_bytes, wild.file_chars, wild.total_chars) == (14, 65_536, 1, 50_000)


def test_a_bad_value_is_reported_for_defaults_and_agents_and_falls_back(tmp_path):
    env = {"HOME": str(tmp_path)}
    paths = resolve_paths(env)
    paths.state_dir.mkdir()
    document = {
        "agents": {
            "defaults": {"bootstrapMaxChars": "many", "bootstrapTotalMaxChars": 7000, "other": {"x": 1}},
            "entries": {"main": {"contextInjection": "sometimes"}},
        }
    }
    paths.config_path.write_text(json.dumps(document))
    config = load_config(paths, env)
    keys = {problem.key for problem in validate(config) if problem.severity == "error"}
    assert keys == {"agents.defaults.bootstrapMaxChars", "agents.entries.main.contextInjection"}
    found = config.agent("main").block("", WorkspaceSettings)
    assert found.limits == FileLimits(file=20_000, total=7000)
    assert found.injection is Injection.ALWAYS


def test_the_schema_knows_the_keys():
    found = build_schema("agents.defaults.startupContext.dailyMemoryDays")
    assert (found["type"], found["default"]) == ("integer", 2)
