"""Which folder is whose: every rule of the resolution, for every era."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from homarus.config.load import Config, load_config
from homarus.config.paths import resolve_paths
from homarus.workspace.agents import all_workspaces, describe, resolve_workspace


def config(home: Path, document: dict | None = None, *, profile: str | None = None) -> Config:
    paths = resolve_paths({"HOME": str(home)}, profile=profile)
    paths.state_dir.mkdir(parents=True, exist_ok=True)
    if document is not None:
        paths.config_path.write_text(json.dumps(document))
    return load_config(paths, {"HOME": str(home)})


def test_without_settings_it_is_in_the_state_folder(tmp_path):
    assert resolve_workspace(config(tmp_path), "main", {}) == tmp_path / ".openclaw" / "workspace"


def test_the_agents_own_entry_wins(tmp_path):
    loaded = config(
        tmp_path,
        {"agents": {"defaults": {"workspace": "/common"}, "entries": {"a": {"workspace": " ~/my\u0000home "}}}},
    )
    assert resolve_workspace(loaded, "a", {"OPENCLAW_WORKSPACE_DIR": "/env"}) == tmp_path / "myhome"


@pytest.mark.parametrize(
    ("document", "env", "expected"),
    [
        ({"agents": {"defaults": {"workspace": "~/d"}}}, {"OPENCLAW_WORKSPACE_DIR": "/env"}, "{home}/d"),
        ({"agent": {"workspace": "~/old"}}, {}, "{home}/old"),
        ({"agents": {"defaults": {"workspace": "  "}}}, {"OPENCLAW_WORKSPACE_DIR": "~/env"}, "{home}/env"),
        ({"agents": {"defaults": {"workspace": 7}}}, {}, "{home}/.openclaw/workspace"),
        ({}, {"OPENCLAW_WORKSPACE_DIR": "\u0000"}, "{home}/.openclaw/workspace"),
    ],
)
def test_the_default_agent_uses_the_common_setting_then_the_environment(tmp_path, document, env, expected):
    assert resolve_workspace(config(tmp_path, document), "main", env) == Path(expected.format(home=tmp_path))


def test_the_default_agent_is_the_marked_one_or_the_first(tmp_path):
    marked = config(tmp_path, {"agents": {"list": [{"id": "a"}, {"id": "b", "default": True}]}})
    assert resolve_workspace(marked, "b", {}).name == "workspace"
    assert resolve_workspace(marked, "a", {}).name == "workspace-a"
    first = config(tmp_path, {"agents": {"list": [{"agentId": "x"}, {"id": "y"}]}})
    assert resolve_workspace(first, "x", {}).name == "workspace"


def test_other_agents_have_a_folder_of_their_own(tmp_path):
    loaded = config(tmp_path, {"agents": {"defaults": {"workspace": "~/w"}, "entries": {"main": {}, "b": {}}}})
    usual, nested = tmp_path / ".openclaw" / "workspace-b", tmp_path / "w" / "b"
    assert resolve_workspace(loaded, "b", {"OPENCLAW_WORKSPACE_DIR": "/env"}) == usual
    nested.mkdir(parents=True)
    assert resolve_workspace(loaded, "b", {}) == nested
    usual.mkdir(parents=True)
    assert resolve_workspace(loaded, "b", {}) == usual
    assert resolve_workspace(loaded, "Stranger", {}) == tmp_path / ".openclaw" / "workspace-stranger"


def test_a_profile_uses_the_place_that_exists(tmp_path):
    seed_place = tmp_path / ".openclaw" / "workspace-work"
    new_place = tmp_path / ".openclaw-work" / "workspace"
    loaded = config(tmp_path, profile="work")
    assert resolve_workspace(loaded, "main", {}) == seed_place
    new_place.mkdir(parents=True)
    assert resolve_workspace(loaded, "main", {}) == new_place


def test_all_workspaces_are_listed_once(tmp_path):
    loaded = config(
        tmp_path,
        {"agents": {"entries": {"a": {}, "b": {"default": True}, "c": {"workspace": "~/.openclaw/workspace"}}}},
    )
    state = tmp_path / ".openclaw"
    assert all_workspaces(loaded, {}) == (state / "workspace", state / "workspace-a")


def test_an_agent_is_described_from_configuration_and_record(tmp_path):
    loaded = config(
        tmp_path,
        {
            "agents": {"entries": {"main": {"model": "mock/m"}, "b": {"identity": {"name": "Bea"}}}},
            "bindings": [
                {"agentId": "b", "match": {"channel": "telegram"}},
                {"agentId": "main", "match": {"channel": "x"}},
                "odd",
            ],
        },
    )
    folder = tmp_path / ".openclaw" / "workspace"
    folder.mkdir()
    (folder / "IDENTITY.md").write_text("- Name: Juno\n- Emoji: 🦞\n")
    main, bea = (describe(loaded, agent, {}) for agent in loaded.agents)
    assert (main.id, main.default, main.name, main.emoji, main.model, main.exists) == (
        "main",
        True,
        "Juno",
        "🦞",
        "mock/m",
        True,
    )
    assert (bea.name, bea.exists, bea.bindings) == ("Bea", False, ({"channel": "telegram"},))
