"""The look at the machine."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from homarus.prompt.gather import clock_time, docs_path, machine, repo_root, text_path, today, zone_name


def test_machine_is_this_machine():
    facts = machine({"SHELL": "/usr/bin/zsh"})
    assert facts.host == os.uname().nodename
    assert facts.python.count(".") == 2
    assert facts.shell == "zsh"
    assert machine({}).shell == ""


class TestZone:
    def etc(self, tmp_path, *, timezone: str = "", link: str = ""):
        if timezone:
            (tmp_path / "timezone").write_text(timezone)
        if link:
            (tmp_path / "localtime").symlink_to(link)
        return tmp_path

    def test_the_configured_zone_wins(self, tmp_path):
        assert zone_name("Asia/Tokyo", {"TZ": "Europe/Berlin"}, etc=tmp_path) == "Asia/Tokyo"

    @pytest.mark.parametrize("bad", ["Mars/Olympus", "", None, 7, "../../etc/passwd", "/etc/localtime"])
    def test_a_bad_one_falls_back_to_the_host(self, tmp_path, bad):
        assert zone_name(bad, {"TZ": ":Europe/Berlin"}, etc=tmp_path) == "Europe/Berlin"

    def test_the_host_is_asked_in_order(self, tmp_path):
        etc = self.etc(tmp_path, timezone="Europe/Paris\n", link="/usr/share/zoneinfo/Asia/Tokyo")
        assert zone_name(None, {}, etc=etc) == "Europe/Paris"
        (tmp_path / "timezone").unlink()
        assert zone_name(None, {}, etc=etc) in {"Asia/Tokyo", "Japan"}
        (tmp_path / "localtime").unlink()
        assert zone_name(None, {}, etc=etc) == "UTC"


def test_today_is_the_users_day():
    night = datetime(2026, 3, 1, 20, tzinfo=UTC)
    assert today(night, "UTC") == "Sunday 2026-03-01"
    assert today(night, "Asia/Tokyo") == "Monday 2026-03-02"
    assert today(night, "Mars/Olympus") == "Sunday 2026-03-01"


class TestRepoRoot:
    def test_nearest_repository_above_the_workspace(self, tmp_path):
        (tmp_path / "repo" / ".git").mkdir(parents=True)
        inside = tmp_path / "repo" / "a" / "b"
        inside.mkdir(parents=True)
        assert repo_root(None, inside, tmp_path) == str(tmp_path / "repo")

    def test_then_the_working_directory_where_git_may_be_a_file(self, tmp_path):
        work = tmp_path / "worktree"
        work.mkdir()
        (work / ".git").write_text("gitdir: elsewhere")
        home = tmp_path / "home"
        home.mkdir()
        assert repo_root(None, home, work) == str(work)
        assert repo_root("", home, home) == ""

    def test_the_configured_one_if_it_is_a_folder(self, tmp_path):
        assert repo_root(str(tmp_path), tmp_path, tmp_path) == str(tmp_path)
        assert repo_root(str(tmp_path / "gone"), tmp_path, tmp_path) == ""


class TestDocs:
    def test_an_installed_package_has_them_inside(self, tmp_path):
        package = tmp_path / "site-packages" / "homarus"
        (package / "docs").mkdir(parents=True)
        (package / "docs" / "prompt.md").touch()
        assert docs_path(package) == str(package / "docs")

    def test_a_checkout_has_them_beside_the_source(self, tmp_path):
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "prompt.md").touch()
        assert docs_path(tmp_path / "src" / "homarus") == str(tmp_path / "docs")

    def test_a_folder_of_that_name_is_not_enough(self, tmp_path):
        (tmp_path / "docs").mkdir()
        assert docs_path(tmp_path / "src" / "homarus") == ""

    def test_this_very_checkout(self):
        assert docs_path().endswith("docs")


def test_a_name_that_is_no_utf8_becomes_text():
    assert text_path(os.fsdecode(b"/tmp/\xff\xfe")) == "/tmp/\ufffd\ufffd"


@pytest.mark.parametrize(
    ("hour", "wanted", "env", "expected"),
    [
        (0, "12", {}, "12:05 AM"),
        (12, "12", {}, "12:05 PM"),
        (15, "12", {"LANG": "de_DE.UTF-8"}, "3:05 PM"),
        (15, "24", {"LANG": "en_US.UTF-8"}, "15:05"),
        (15, "auto", {"LANG": "en_US.UTF-8"}, "3:05 PM"),
        (15, "auto", {"LANG": "en_US.UTF-8", "LC_TIME": "en_GB.UTF-8"}, "15:05"),
        (15, "auto", {}, "15:05"),
    ],
)
def test_the_time_of_day_as_the_user_writes_it(hour, wanted, env, expected):
    assert clock_time(datetime(2026, 3, 1, hour, 5, tzinfo=UTC), wanted, env) == expected
