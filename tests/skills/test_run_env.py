"""Variables for a run: only what is missing, only for that run."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from homarus.core.errors import ConfigError
from homarus.skills.settings import SkillEntry, SkillSettings
from homarus.skills.snapshot import Snapshot, SnapshotSkill, env_for_run


def values(*given, **options) -> dict[str, str]:
    return env_for_run(*given, **options).values


def snapshot(*skills: SnapshotSkill) -> Snapshot:
    return Snapshot(skills=skills)


def test_set_only_if_unset():
    settings = SkillSettings(
        entries={"a": SkillEntry(env={"ONE": "1", "TWO": "2", "THREE": 3, "FOUR": True, "EMPTY": "", "NONE": None})}
    )
    added = values(snapshot(SnapshotSkill("a")), settings, {"ONE": "mine", "TWO": ""}, str)
    assert added == {"TWO": "2", "THREE": "3", "FOUR": "true"}


def test_the_key_goes_to_the_primary_variable():
    settings = SkillSettings(entries={"k": SkillEntry(api_key="secret", env={"OTHER": "x"})})
    skills = snapshot(SnapshotSkill("a", "GITHUB_TOKEN", "k"))
    assert values(skills, settings, {}, str) == {"OTHER": "x", "GITHUB_TOKEN": "secret"}
    assert values(skills, settings, {"GITHUB_TOKEN": "mine"}, str) == {"OTHER": "x"}
    explicit = SkillSettings(entries={"k": SkillEntry(api_key="secret", env={"GITHUB_TOKEN": "explicit"})})
    assert values(skills, explicit, {}, str) == {"GITHUB_TOKEN": "explicit"}


def test_only_eligible_and_enabled_skills_bring_anything():
    settings = SkillSettings(entries={"a": SkillEntry(env={"A": "1"}), "b": SkillEntry(enabled=False, env={"B": "1"})})
    assert values(snapshot(SnapshotSkill("b")), settings, {}, str) == {}
    assert values(snapshot(SnapshotSkill("unknown", "X")), settings, {}, str) == {}


def test_a_reference_is_resolved_and_a_broken_one_is_left_out(caplog):
    def resolve(value):
        if value == {"source": "env", "id": "K"}:
            return "resolved"
        raise ConfigError("no such secret", cure="set it")

    settings = SkillSettings(
        entries={"a": SkillEntry(api_key={"source": "env", "id": "K"}), "b": SkillEntry(api_key={"source": "file"})}
    )
    with caplog.at_level(logging.WARNING):
        added = values(snapshot(SnapshotSkill("a", "A_KEY"), SnapshotSkill("b", "B_KEY")), settings, {}, resolve)
    assert added == {"A_KEY": "resolved"}
    assert "B_KEY stays unset" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "PATH",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "https_proxy",
        "OPENCLAW_STATE_DIR",
    ],
)
def test_a_skill_cannot_name_a_variable_that_steers_programs(name):
    settings = SkillSettings(entries={"a": SkillEntry(api_key="/tmp/evil.so")})
    assert values(snapshot(SnapshotSkill("a", name)), settings, {}, str) == {}
    # The owner may: the configuration is theirs.
    owned = SkillSettings(entries={"a": SkillEntry(env={name: "x"})})
    assert values(snapshot(SnapshotSkill("a")), owned, {}, str) == {name: "x"}


@pytest.mark.parametrize("name", ["", "A=B", "1A", "A B", "A\0", "Ä"])
def test_impossible_names_are_left_out(name):
    settings = SkillSettings(entries={"a": SkillEntry(env={name: "x"}, api_key="y")})
    assert values(snapshot(SnapshotSkill("a", name)), settings, {}, str) == {}
    assert (
        values(snapshot(SnapshotSkill("a")), SkillSettings(entries={"a": SkillEntry(env={"A": "x\0y"})}), {}, str) == {}
    )


@pytest.mark.parametrize(
    "name", ["NODE_AUTH_TOKEN", "GITHUB_TOKEN", "GIT_TOKEN", "BRAVE_API_KEY", "HOMEASSISTANT_TOKEN"]
)
def test_ordinary_keys_pass(name):
    settings = SkillSettings(entries={"a": SkillEntry(api_key="k")})
    assert values(snapshot(SnapshotSkill("a", name)), settings, {}, str) == {name: "k"}


async def test_runs_at_the_same_time_see_only_their_own():
    skills = snapshot(SnapshotSkill("a", "API_KEY"))
    before = dict(os.environ)

    async def run(key: str) -> str:
        added = values(skills, SkillSettings(entries={"a": SkillEntry(api_key=key)}), {}, str)
        await asyncio.sleep(0)
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", 'printf %s "$API_KEY"', env=added, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await shell.communicate()
        return out.decode()

    assert await asyncio.gather(*(run(f"key-{number}") for number in range(5))) == [
        f"key-{number}" for number in range(5)
    ]
    assert dict(os.environ) == before


def test_names_that_nobody_may_set_are_refused_and_named(caplog):
    settings = SkillSettings(entries={"a": SkillEntry(env={"LD_PRELOAD": "x", "FINE": "y"})})
    with caplog.at_level(logging.WARNING):
        added = values(snapshot(SnapshotSkill("a")), settings, {}, str, closed=lambda name: name.startswith("LD_"))
    assert added == {"FINE": "y"}
    assert "LD_PRELOAD cannot be set" in caplog.text


def test_keys_are_hidden_and_plain_settings_are_not():
    env = {"LEDGER_URL": "https://x.example", "OTHER_TOKEN": "t-123456", "INDIRECT": {"source": "env", "id": "X"}}
    settings = SkillSettings(entries={"a": SkillEntry(env=env, api_key="k-123456")})
    given = env_for_run(
        snapshot(SnapshotSkill("a", "LEDGER_ID")),
        settings,
        {},
        lambda value: value if isinstance(value, str) else "r-1",
    )
    assert set(given.values) == {"LEDGER_URL", "OTHER_TOKEN", "INDIRECT", "LEDGER_ID"}
    assert given.hidden == ("t-123456", "r-1", "k-123456")
