from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from homarus.config.load import Config, load_config
from homarus.config.paths import resolve_paths


@pytest.fixture
def load(tmp_path: Path):
    def load(text: str, **env: str) -> Config:
        (tmp_path / "openclaw.json").write_bytes(text.encode())
        env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path), **env}
        return load_config(resolve_paths(env), env)

    return load


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    max_chars: int = 3


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    idle_minutes: Annotated[int, msgspec.Meta(ge=0)] = 60
    enabled: bool = True
    inner: Inner = Inner()
    by_name: dict[str, Inner] = {}


class Strict(msgspec.Struct, frozen=True):
    on: bool = True
    mode: str = "open"

    @classmethod
    def disabled(cls) -> Strict:
        return cls(on=False)


def test_missing_file_is_an_empty_configuration(tmp_path: Path):
    env = {"HOME": str(tmp_path)}
    config = load_config(resolve_paths(env), env)
    assert (config.raw, config.problems) == ({}, [])
    assert [agent.id for agent in config.agents] == ["main"]
    assert config.default_agent.id == "main"


def test_bad_value_falls_back_alone(load):
    config = load('{ session: { idleMinutes: "soon", enabled: false, inner: {maxChars: "7"}, byName: {a: 5, b: {}} } }')
    found = config.block("session", Settings)
    assert (found.enabled, found.inner.max_chars, list(found.by_name)) == (False, 7, ["b"])


def test_a_block_that_cannot_run_on_half_of_it_is_disabled(load):
    config = load("{ x: { mode: 5 } }")
    assert config.block("x", Strict) == Strict(on=False)
    assert [problem.key for problem in config.problems] == ["x.mode"]


def test_problems_are_recorded_once(load):
    config = load("{ session: { enabled: 3 } }")
    config.block("session", Settings)
    config.block("session", Settings)
    assert [(p.severity, p.key) for p in config.problems] == [("error", "session.enabled")]


def test_agents_merge_defaults_with_their_entry(load):
    config = load(
        """{ agents: { defaults: { model: {primary: "a/b", fallbacks: ["c/d"]}, inner: {maxChars: 9}, thinkingDefault: "low" },
             list: [ {id: "Work Bot", model: "x/y", thinkingDefault: null}, {agentId: "home", default: true, inner: {}} ] } }"""
    )
    work, home = config.agents
    assert (work.id, work.default, work.get("model")) == ("work-bot", False, {"primary": "x/y", "fallbacks": []})
    assert work.get("thinkingDefault") is None
    assert (home.id, home.get("model.fallbacks"), home.block("inner", Inner)) == ("home", ["c/d"], Inner(9))
    assert config.default_agent is home
    assert config.agent("WORK BOT") is work
    assert config.agent("stranger").get("thinkingDefault") == "low"


def test_unparsable_file_is_a_problem_not_a_crash(load):
    config = load("{ a: ")
    assert [problem.severity for problem in config.problems] == ["error"]
