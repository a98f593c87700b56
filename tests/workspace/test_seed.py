"""Seeding creates what is missing, overwrites nothing, happens once, and notices a workspace that vanished."""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.fixtures.homes import snapshot

from homarus.core.errors import StorageError
from homarus.workspace import names
from homarus.workspace.seed import RecordPaths, Seeded, ensure_workspace, init_git, is_brand_new, missing_files
from homarus.workspace.settings import WorkspaceSettings
from homarus.workspace.templates import template

NOW = datetime(2026, 4, 15, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


class Git:
    def __init__(self) -> None:
        self.calls: list[Path] = []

    def __call__(self, workspace, env) -> bool:
        self.calls.append(workspace)
        return True


@pytest.fixture
def git() -> Git:
    return Git()


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home" / "workspace"


def seed(home: Path, *, now: datetime = NOW, git=lambda *_: False, places=None, **settings) -> Seeded:
    return ensure_workspace(
        home, settings=WorkspaceSettings(**settings), now=now, env={}, places=places or RecordPaths(), git=git
    )


def state(home: Path) -> dict:
    return json.loads((home / names.STATE_FILE).read_text())


def test_a_brand_new_workspace_gets_everything(home, git):
    done = seed(home, git=git)
    assert done.brand_new
    assert set(done.created) == {*names.SEEDED, names.BOOTSTRAP}
    assert git.calls == [home]
    for name in done.created:
        assert (home / name).read_text() == template(name)
    assert state(home) == {"version": 1, "bootstrapSeededAt": "2026-04-15T12:00:00.000Z"}
    assert home.stat().st_mode & 0o077 == 0


def test_the_second_time_nothing_is_written(home, git):
    seed(home, git=git)
    before = snapshot(home)
    assert seed(home, git=git, now=NOW + timedelta(minutes=5)).created == ()
    assert snapshot(home) == before
    assert len(git.calls) == 1


def test_existing_files_are_never_overwritten(home, git):
    home.mkdir(parents=True)
    (home / "AGENTS.md").write_text("mine")
    (home / "SOUL.md").symlink_to("nowhere")
    done = seed(home, git=git)
    assert (home / "AGENTS.md").read_text() == "mine"
    assert os.readlink(home / "SOUL.md") == "nowhere"
    assert set(done.created) == {"IDENTITY.md", "USER.md", "TOOLS.md", "HEARTBEAT.md"}
    assert not (home / "BOOTSTRAP.md").exists()
    assert not done.brand_new
    assert git.calls == []


@pytest.mark.parametrize("sign", ["memory/", "MEMORY.md", "memory.md", "HEARTBEAT.md", "TOOLS.md", "skills/a/SKILL.md"])
def test_any_sign_of_life_means_not_brand_new(home, sign):
    path = home / sign
    (path if sign.endswith("/") else path.parent).mkdir(parents=True)
    if not sign.endswith("/"):
        path.write_text("x")
    assert not is_brand_new(home)
    assert "BOOTSTRAP.md" not in seed(home).created


def test_other_things_do_not_count_as_life(home):
    (home / "skills" / "empty").mkdir(parents=True)
    (home / "README").write_text("x")
    assert is_brand_new(home)


def test_pages_that_newer_homes_retired_are_not_brought_back(home):
    home.mkdir(parents=True)
    (home / "AGENTS.md").write_text("# Rules\n\n## Tools\n\n- x\n")
    assert {"TOOLS.md", "HEARTBEAT.md"}.isdisjoint(seed(home).created)
    assert missing_files(home, WorkspaceSettings(), RecordPaths()) == ()


def test_every_default_that_is_missing_is_created_in_a_home_in_use(home):
    home.mkdir(parents=True)
    (home / "memory.md").write_text("- Ada likes tea.")
    assert missing_files(home, WorkspaceSettings(), RecordPaths()) == names.SEEDED
    done = seed(home)
    assert set(done.created) == set(names.SEEDED)
    assert not (home / "BOOTSTRAP.md").exists()
    assert missing_files(home, WorkspaceSettings(), RecordPaths()) == ()


def test_a_newer_homes_database_stands_for_the_retired_pages(home, tmp_path):
    home.mkdir(parents=True)
    (home / "AGENTS.md").write_text("# Rules\n")
    newer = RecordPaths(shared_database=tmp_path / "openclaw.sqlite")
    assert {"TOOLS.md", "HEARTBEAT.md"}.isdisjoint(seed(home, places=newer).created)


def test_skip_bootstrap_makes_the_folder_alone(home, git):
    done = seed(home, git=git, skip_bootstrap=True)
    assert done == Seeded(home)
    assert list(home.iterdir()) == []
    assert git.calls == []


def test_optional_files_can_be_left_out_and_the_rules_cannot(home):
    wanted = ("SOUL.md", "USER.md", "IDENTITY.md", "HEARTBEAT.md", "AGENTS.md")
    done = seed(home, skip_optional_bootstrap_files=wanted)
    assert set(done.created) == {"AGENTS.md", "TOOLS.md", "BOOTSTRAP.md"}


def test_deleting_the_ritual_completes_the_setup_for_good(home):
    seed(home)
    (home / "BOOTSTRAP.md").unlink()
    done = seed(home, now=NOW + timedelta(hours=1))
    assert done.state.completed_at == "2026-04-15T13:00:00.000Z"
    assert state(home)["setupCompletedAt"] == "2026-04-15T13:00:00.000Z"
    for name in names.SEEDED:
        (home / name).unlink()
    again = seed(home, now=NOW + DAY)
    assert "BOOTSTRAP.md" not in again.created
    assert state(home)["setupCompletedAt"] == "2026-04-15T13:00:00.000Z"


def test_a_ritual_under_way_is_not_cut_off_by_its_own_edits(home):
    seed(home)
    (home / "IDENTITY.md").write_text("- Name: Juno\n")
    assert not seed(home, now=NOW + timedelta(hours=2)).state.completed
    assert seed(home, now=NOW + DAY).state.completed


def test_an_untouched_ritual_stays_pending_however_long(home):
    seed(home)
    assert not seed(home, now=NOW + 30 * DAY).state.completed


@pytest.mark.parametrize("use", ["memory", "soul"])
def test_a_home_in_use_without_a_record_is_complete(home, use):
    home.mkdir(parents=True)
    for name in names.SEEDED:
        (home / name).write_text(template(name))
    if use == "memory":
        (home / "memory").mkdir()
    else:
        (home / "SOUL.md").write_text("somebody")
    assert seed(home).state.completed
    assert not (home / "BOOTSTRAP.md").exists()


def test_a_crash_after_the_ritual_page_loses_nothing(home):
    home.mkdir(parents=True)
    (home / "BOOTSTRAP.md").write_text(template("BOOTSTRAP.md"))
    done = seed(home)
    assert set(done.created) == set(names.SEEDED)
    assert done.state.seeded_at
    assert not done.state.completed


def test_unknown_keys_and_the_other_file_name_are_kept(home):
    home.mkdir(parents=True)
    (home / "AGENTS.md").write_text("x")
    (home / names.LEGACY_STATE_FILE).write_text(
        '{"version": 1, "bootstrapSeededAt": "2026-01-01T00:00:00.000Z", "x": 1}'
    )
    assert seed(home).state.completed
    assert not (home / names.STATE_FILE).exists()
    assert json.loads((home / names.LEGACY_STATE_FILE).read_text()) == {
        "version": 1,
        "bootstrapSeededAt": "2026-01-01T00:00:00.000Z",
        "x": 1,
        "setupCompletedAt": "2026-04-15T12:00:00.000Z",
    }


def test_the_old_key_counts_as_complete(home):
    home.mkdir(parents=True)
    (home / ".openclaw").mkdir()
    old = '{"onboardingCompletedAt": "2025-12-01T00:00:00Z"}'
    (home / names.STATE_FILE).write_text(old)
    assert "BOOTSTRAP.md" not in seed(home).created
    assert (home / names.STATE_FILE).read_text() == old


@pytest.mark.parametrize(
    "text", ["{torn", "[]", '{"setupCompletedAt": 12e99, "bootstrapSeededAt": "soon"}', "\xff\xfe"]
)
def test_a_damaged_record_is_moved_aside_or_kept_and_never_trusted(home, text):
    home.mkdir(parents=True)
    (home / ".openclaw").mkdir()
    (home / names.STATE_FILE).write_bytes(text.encode("latin-1"))
    done = seed(home)
    assert done.state.seeded_at == "2026-04-15T12:00:00.000Z"
    assert "BOOTSTRAP.md" in done.created
    aside = list((home / ".openclaw").glob("workspace-state.json.damaged.*"))
    assert len(aside) == (0 if text.startswith('{"') else 1)


def test_the_database_of_a_newer_home_is_read_when_there_is_no_file(home, tmp_path):
    home.mkdir(parents=True)
    database = tmp_path / "openclaw.sqlite"
    conn = sqlite3.connect(database)
    conn.execute(
        "CREATE TABLE workspace_setup_state (workspace_key TEXT PRIMARY KEY, workspace_path TEXT, version INTEGER,"
        " bootstrap_seeded_at TEXT, setup_completed_at TEXT, updated_at INTEGER)"
    )
    conn.execute(
        "INSERT INTO workspace_setup_state VALUES ('k', ?, 1, NULL, '2026-02-16T15:34:29.510Z', 1)", (str(home),)
    )
    conn.commit()
    conn.close()
    before = database.read_bytes()
    done = seed(home, places=RecordPaths(shared_database=database))
    assert done.state.completed_at == "2026-02-16T15:34:29.510Z"
    assert "BOOTSTRAP.md" not in done.created
    assert database.read_bytes() == before
    assert seed(tmp_path / "other", places=RecordPaths(shared_database=database)).state.completed_at == ""


def test_a_database_that_is_none_is_ignored(home, tmp_path):
    bad = tmp_path / "openclaw.sqlite"
    bad.write_bytes(b"not a database" * 100)
    assert "BOOTSTRAP.md" in seed(home, places=RecordPaths(shared_database=bad)).created


def test_a_workspace_that_vanished_today_is_not_replaced(home, tmp_path):
    places = RecordPaths(folder=tmp_path / "own")
    seed(home, places=places)
    (home / "BOOTSTRAP.md").unlink()
    assert seed(home, places=places, now=NOW).state.completed
    home.rename(tmp_path / "unmounted")
    with pytest.raises(StorageError, match=r"is gone .*bring it back") as caught:
        seed(home, places=places, now=NOW + timedelta(hours=23))
    assert str(home) in str(caught.value)
    assert not home.exists()
    assert seed(home, places=places, now=NOW + DAY).brand_new


def test_a_workspace_still_in_its_ritual_may_be_thrown_away(home, tmp_path):
    places = RecordPaths(folder=tmp_path / "own")
    seed(home, places=places)
    home.rename(tmp_path / "gone")
    assert seed(home, places=places).brand_new


def test_the_record_of_workspaces_is_bounded_and_forgiving(tmp_path):
    places = RecordPaths(folder=tmp_path / "own")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "workspaces.json").write_text("{torn")
    for number in range(70):
        home = tmp_path / f"w{number}"
        (home / "memory").mkdir(parents=True)
        seed(home, places=places)
    known = json.loads((tmp_path / "own" / "workspaces.json").read_text())
    assert len(known) == 64
    assert str(tmp_path / "w69") in known


def test_git_makes_a_repository_and_ignores_the_callers_own(tmp_path):
    import shutil

    if shutil.which("git") is None:
        pytest.skip("no git here")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_DIR": "/nowhere"}
    assert init_git(tmp_path, env)
    assert (tmp_path / ".git").is_dir()


def test_no_git_or_a_bad_git_is_no_failure(tmp_path):
    assert not init_git(tmp_path, {"PATH": str(tmp_path)})
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    assert not init_git(tmp_path, {"PATH": f"{tmp_path}:/bin:/usr/bin"})
