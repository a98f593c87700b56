"""A folder that would open more than work to an agent, or that cannot be one, is refused before any file names it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from homarus.admin.doctor.finding import Home
from homarus.admin.doctor.home import check_config, check_workspaces
from homarus.admin.places import refuse
from homarus.agent.places import unfit
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.errors import Unknown

NEVER = ["~/.ssh", "~/.ssh/notes", "~", "~/.openclaw", "/etc", "/proc/x", "~/file", "~/file/below", "~/link"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with keys, a file, and a link to the keys."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(".ssh")
    return tmp_path


def homarus(home: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **more}
    line = [sys.executable, "-m", "homarus", *args]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False)


def picture(home: Path) -> list[str]:
    return sorted(str(path) for path in home.rglob("*"))


def spelled(home: Path, folder: str) -> str:
    return folder.replace("~", str(home), 1)


@pytest.mark.parametrize("folder", NEVER)
def test_what_holds_keys_or_is_no_folder_cannot_be_a_workspace(home: Path, folder: str) -> None:
    paths = resolve_paths({"HOME": str(home)})
    with pytest.raises(Unknown, match=r"holds keys|is not a folder"):
        refuse(Path(spelled(home, folder)), paths)


@pytest.mark.parametrize("folder", ["~/agent", "~/.openclaw/workspace", "~/.openclaw/workspaces/work"])
def test_a_folder_of_its_own_can(home: Path, folder: str) -> None:
    assert unfit(Path(spelled(home, folder)), resolve_paths({"HOME": str(home)})) == ""


@pytest.mark.parametrize("command", ["setup", "onboard", "configure"])
def test_a_new_home_is_not_begun_with_one(home: Path, command: str) -> None:
    before = picture(home)
    done = homarus(home, command, "--non-interactive", "--workspace", str(home / ".ssh"))
    assert done.returncode == 1 and f"{home}/.ssh holds keys" in done.stderr, done.stderr
    assert picture(home) == before
    done = homarus(home, command, "--non-interactive", OPENCLAW_WORKSPACE_DIR="~/.ssh")
    assert done.returncode == 1 and picture(home) == before


@pytest.mark.parametrize("folder", ["~/.ssh", "/proc/x", "~/file"])
def test_a_home_that_is_there_keeps_its_own(home: Path, folder: str) -> None:
    homarus(home, "setup")
    config = home / ".openclaw" / "openclaw.json"
    before, files, wanted = config.read_bytes(), picture(home), spelled(home, folder)
    for line in (
        ("setup", "--workspace", wanted),
        ("onboard", "--non-interactive", "--workspace", wanted),
        ("configure", "--non-interactive", "--workspace", wanted),
        ("config", "set", "agents.defaults.workspace", wanted),
        ("agents", "add", "work", "--workspace", wanted),
    ):
        done = homarus(home, *line)
        assert done.returncode in (1, 78) and ("holds keys" in done.stderr or "not a folder" in done.stderr), line
        assert config.read_bytes() == before, line
    assert [each for each in picture(home) if "/.openclaw/" not in each] == [
        each for each in files if "/.openclaw/" not in each
    ]
    assert homarus(home, "config", "set", "agents.defaults.workspace", wanted, "--force").returncode == 0


def test_the_doctor_names_one_that_is_set(home: Path) -> None:
    (home / ".openclaw").mkdir()
    entries = {"main": {"default": True}, "work": {"workspace": "~/file"}}
    document = {"agents": {"defaults": {"workspace": "~/.ssh"}, "entries": entries}}
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(home)}
    looked_at = Home(inspect_config(resolve_paths(env), env), env, SystemClock())
    told = [finding.message for finding in check_config(looked_at)]
    assert any("agents.defaults.workspace" in text and "holds keys" in text for text in told), told
    assert any("agents.entries.work.workspace" in text and "is not a folder" in text for text in told), told
    assert check_workspaces(looked_at) == []


def test_onboarding_asks_again(home: Path) -> None:
    from tests.cli.test_onboard import at_a_terminal

    says = [
        ("files live?", b"\x01\x0b/proc/x\r"),
        ("controls this machine", b"\x01\x0b" + str(home / "agent").encode() + b"\r"),
        ("as provider/model", b"builtin/notebook\r"),
    ]
    code, text = at_a_terminal(home, "onboard", says=says)
    assert code == 0 and (home / "agent" / "AGENTS.md").exists(), text


@pytest.mark.parametrize("folder", NEVER)
def test_no_run_begins_in_one_or_lays_anything_out_there(home: Path, folder: str) -> None:
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"agents": {"defaults": {"workspace": folder, "model": "builtin/notebook"}}}))
    before = picture(home)
    for line in (("agent", "hi"), ("setup",), ("config", "validate")):
        done = homarus(home, *line)
        assert done.returncode == 78, (line, done.stderr)
        said = done.stdout + done.stderr
        assert "agents.defaults.workspace" in said and ("holds keys" in said or "is not a folder" in said), line
        assert picture(home) == before, line


def test_one_agents_folder_stops_no_other_one(home: Path) -> None:
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir()
    agents = {"defaults": {"model": "builtin/notebook"}, "entries": {"main": {}, "work": {"workspace": "~/.ssh"}}}
    config.write_text(json.dumps({"agents": agents}))
    assert homarus(home, "agent", "hi").returncode == 0
    done = homarus(home, "agent", "--agent", "work", "hi")
    assert done.returncode == 78 and f"{config}:1: agents.entries.work.workspace: {home}/.ssh holds keys" in done.stderr
    assert not list((home / ".ssh").iterdir())
