from __future__ import annotations

from pathlib import Path

import pytest

from homarus.config.paths import resolve_paths
from homarus.core.errors import ConfigError


def test_defaults_to_the_folder_in_the_home(tmp_path: Path):
    paths = resolve_paths({"HOME": str(tmp_path)})
    assert paths.state_dir == tmp_path / ".openclaw"
    assert paths.config_path == tmp_path / ".openclaw" / "openclaw.json"
    assert paths.default_workspace == tmp_path / ".openclaw" / "workspace"
    assert paths.sessions_dir("main") == tmp_path / ".openclaw/agents/main/sessions"
    assert list(tmp_path.iterdir()) == []


def test_profile_gets_its_own_folder(tmp_path: Path):
    paths = resolve_paths({"HOME": str(tmp_path), "OPENCLAW_PROFILE": "old"}, profile="work")
    assert (paths.profile, paths.state_dir) == ("work", tmp_path / ".openclaw-work")


@pytest.mark.parametrize("name", ["default", "", " Default "])
def test_default_profile_is_none(tmp_path: Path, name: str):
    paths = resolve_paths({"HOME": str(tmp_path), "OPENCLAW_PROFILE": name})
    assert (paths.profile, paths.state_dir) == (None, tmp_path / ".openclaw")


@pytest.mark.parametrize("name", ["../up", "a/b", "-x", "a b", "x" * 65])
def test_profile_that_would_leave_the_home_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ConfigError, match="profile"):
        resolve_paths({"HOME": str(tmp_path)}, profile=name)


def test_an_older_profile_shares_the_folder_and_its_configuration(tmp_path: Path):
    for name in ("workspace", "workspace-work"):
        (tmp_path / ".openclaw" / name).mkdir(parents=True)
    paths = resolve_paths({"HOME": str(tmp_path)}, profile="work")
    assert paths.config_path == tmp_path / ".openclaw" / "openclaw.json"
    assert paths.default_workspace == tmp_path / ".openclaw" / "workspace-work"
    (tmp_path / ".openclaw-work").mkdir()
    assert resolve_paths({"HOME": str(tmp_path)}, profile="work").state_dir == tmp_path / ".openclaw-work"


def test_profile_workspace_is_whichever_exists(tmp_path: Path):
    paths = resolve_paths({"HOME": str(tmp_path)}, profile="work")
    old, new = tmp_path / ".openclaw/workspace-work", tmp_path / ".openclaw-work/workspace"
    assert paths.default_workspace == old
    new.mkdir(parents=True)
    assert paths.default_workspace == new


def test_state_dir_of_the_environment_keeps_everything_inside(tmp_path: Path):
    env = {"HOME": str(tmp_path / "home"), "OPENCLAW_STATE_DIR": str(tmp_path / "state"), "OPENCLAW_PROFILE": "work"}
    paths = resolve_paths(env)
    assert paths.state_dir == tmp_path / "state"
    assert paths.default_workspace == tmp_path / "state" / "workspace-work"


def test_config_path_from_option_wins_over_the_variable(tmp_path: Path):
    env = {"HOME": str(tmp_path), "OPENCLAW_CONFIG_PATH": "~/a.json"}
    assert resolve_paths(env).config_path == tmp_path / "a.json"
    assert resolve_paths(env, config_path=Path("/b.json")).config_path == Path("/b.json")


def test_blank_variables_count_as_unset(tmp_path: Path):
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": "  ", "OPENCLAW_CONFIG_PATH": ""}
    assert resolve_paths(env).state_dir == tmp_path / ".openclaw"


def test_another_home_can_be_named(tmp_path: Path):
    env = {"HOME": str(tmp_path), "OPENCLAW_HOME": "~/service"}
    assert resolve_paths(env).state_dir == tmp_path / "service" / ".openclaw"


def test_an_empty_home_variable_is_no_home():
    import os
    import pwd

    account = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for env in ({}, {"HOME": ""}, {"HOME": "  "}):
        assert resolve_paths(env).state_dir == account / ".openclaw"
