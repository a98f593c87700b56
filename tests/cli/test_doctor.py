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


def test_doctor_reports_and_mends(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir()
    state.chmod(0o755)
    done = homarus(tmp_path, "doctor")
    assert "state.permissions" in done.stdout
    assert "homarus doctor --fix" in done.stdout
    report = json.loads(homarus(tmp_path, "doctor", "--fix", "--json").stdout)
    assert len(report["fixed"]) == 1
    assert state.stat().st_mode & 0o777 == 0o700


def test_doctor_fails_when_an_error_is_left(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir(mode=0o700)
    (state / "openclaw.json").write_text("{ broken")
    assert homarus(tmp_path, "doctor").returncode == 1
