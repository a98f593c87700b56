"""Which folder is whose: every rule of the resolution, for every era."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.config.load import Config, load_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import Denied, StorageError
from homarus.workspace.agents import all_workspaces, describe, put_away, refuse_shared, resolve_workspace, trash_place


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


NOW = datetime(2026, 4, 15, 12, 0, tzinfo=UTC)


def full(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "MEMORY.md").write_text("dear")
    return path


def test_a_folder_is_moved_whole(tmp_path):
    folder = full(tmp_path / "w")
    place = trash_place(tmp_path / "trash", "work", NOW)
    assert place.name == "work-2026-04-15T12-00-00.000Z"
    target = put_away(folder, place, "workspace")
    assert target == place / "workspace"
    assert (target / "MEMORY.md").read_text() == "dear"
    assert not folder.exists()


def test_the_same_moment_twice_gives_two_places(tmp_path):
    first = trash_place(tmp_path, "work", NOW)
    first.mkdir()
    assert trash_place(tmp_path, "work", NOW).name == first.name + "-2"


def test_what_is_not_there_leaves_no_trace(tmp_path):
    assert put_away(tmp_path / "gone", tmp_path / "trash", "x") is None
    assert not (tmp_path / "trash").exists()


def test_a_link_is_moved_and_not_what_it_points_to(tmp_path):
    folder = full(tmp_path / "real")
    (tmp_path / "link").symlink_to(folder)
    target = put_away(tmp_path / "link", tmp_path / "trash", "workspace")
    assert target is not None
    assert target.is_symlink()
    assert (folder / "MEMORY.md").exists()


def test_another_disk_is_no_obstacle(tmp_path):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second disk here")
    with tempfile.TemporaryDirectory(dir=shm) as other:
        folder = full(Path(other) / "w")
        target = put_away(folder, tmp_path / "trash", "workspace")
        assert target is not None
        assert (target / "MEMORY.md").read_text() == "dear"
        assert not folder.exists()


def test_a_place_that_is_taken_is_an_error_and_loses_nothing(tmp_path):
    folder, taken = full(tmp_path / "w"), full(tmp_path / "trash" / "workspace")
    with pytest.raises(StorageError, match="cannot move"):
        put_away(folder, tmp_path / "trash", "workspace")
    assert (folder / "MEMORY.md").exists()
    assert (taken / "MEMORY.md").exists()


def test_a_folder_that_holds_what_must_stay_is_refused(tmp_path):
    inner = full(tmp_path / "w" / "inner")
    (tmp_path / "alias").symlink_to(tmp_path / "w")
    for folder in (tmp_path / "w", tmp_path / "alias", inner):
        with pytest.raises(Denied):
            refuse_shared(folder, [inner])
    refuse_shared(inner, [tmp_path / "w", tmp_path / "inner-not"])
