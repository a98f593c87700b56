import json
import os
import subprocess
import sys
from pathlib import Path


def homarus(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "homarus", *args], env=env, capture_output=True, text=True, check=False
    )


def picture(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_new_home_is_private_complete_and_valid(tmp_path: Path) -> None:
    report = json.loads(homarus(tmp_path, "setup", "--json").stdout)
    state = tmp_path / ".openclaw"
    assert report["configCreated"] is True
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "openclaw.json").stat().st_mode & 0o777 == 0o600
    assert {"AGENTS.md", "SOUL.md", "BOOTSTRAP.md"} <= set(os.listdir(state / "workspace"))
    assert homarus(tmp_path, "config", "validate").returncode == 0
    assert homarus(tmp_path, "doctor").returncode == 0


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    homarus(tmp_path, "setup")
    before = picture(tmp_path)
    done = homarus(tmp_path, "setup", "--non-interactive")
    assert done.returncode == 0
    assert picture(tmp_path) == before


def test_what_exists_is_kept(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    (state / "workspace").mkdir(parents=True)
    (state / "openclaw.json").write_text("{ /* mine */ other: 1 }")
    (state / "workspace" / "AGENTS.md").write_text("my rules")
    homarus(tmp_path, "setup")
    assert (state / "openclaw.json").read_text() == "{ /* mine */ other: 1 }"
    assert (state / "workspace" / "AGENTS.md").read_text() == "my rules"
    assert not (state / "workspace" / "BOOTSTRAP.md").exists()


def test_another_workspace_goes_into_the_configuration(tmp_path: Path) -> None:
    homarus(tmp_path, "setup")
    done = homarus(tmp_path, "setup", "--workspace", str(tmp_path / "notes"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "notes" / "AGENTS.md").exists()
    text = (tmp_path / ".openclaw" / "openclaw.json").read_text()
    assert str(tmp_path / "notes") in text
    assert text.startswith("// Settings of your agent")


def test_a_profile_is_a_second_home(tmp_path: Path) -> None:
    homarus(tmp_path, "--profile", "work", "setup")
    assert (tmp_path / ".openclaw-work" / "openclaw.json").exists()
    assert not (tmp_path / ".openclaw" / "openclaw.json").exists()


def test_a_home_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / ".openclaw").write_text("a file")
    done = homarus(tmp_path, "setup")
    assert done.returncode == 1
    assert done.stderr.startswith("homarus: ")
    assert done.stderr.count("\n") == 1


def test_the_workspace_of_the_environment_is_where_a_first_setup_puts_it(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    env["OPENCLAW_WORKSPACE_DIR"] = "~/elsewhere"
    line = [sys.executable, "-m", "homarus", "setup", "--json"]
    done = json.loads(subprocess.run(line, env=env, capture_output=True, check=True).stdout)
    assert [item["path"] for item in done["workspaces"]] == [str(tmp_path / "elsewhere")]
