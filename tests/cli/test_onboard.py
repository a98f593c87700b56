import asyncio
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

from homarus.admin.choices import NOTEBOOK, model_choices
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock


def homarus(home: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **more}
    return subprocess.run(
        [sys.executable, "-m", "homarus", *args], env=env, capture_output=True, text=True, check=False
    )


def test_onboarding_without_questions_makes_a_home_and_keeps_it(tmp_path: Path) -> None:
    done = homarus(tmp_path, "onboard", "--non-interactive", "--model", "builtin/notebook")
    assert done.returncode == 0, done.stderr
    config = tmp_path / ".openclaw" / "openclaw.json"
    before = config.read_bytes()
    assert b"builtin/notebook" in before
    again = homarus(tmp_path, "configure", "--non-interactive")
    assert again.returncode == 0, again.stderr
    assert "builtin/notebook" in again.stdout
    assert config.read_bytes() == before


def test_status_of_a_new_and_of_a_set_up_home(tmp_path: Path) -> None:
    assert "homarus setup" in homarus(tmp_path, "status").stdout
    assert list(tmp_path.iterdir()) == []
    homarus(tmp_path, "setup")
    status = json.loads(homarus(tmp_path, "status", "--json").stdout)
    (agent,) = status["agents"]
    assert (agent["id"], agent["model"], agent["workspaceExists"], agent["sessions"]) == ("main", NOTEBOOK, True, 0)
    assert status["errors"] == 0


def test_homarus_alone_is_a_friendly_start(tmp_path: Path) -> None:
    assert "homarus onboard" in homarus(tmp_path).stdout
    homarus(tmp_path, "setup")
    assert "homarus chat" in homarus(tmp_path).stdout


def test_a_key_in_the_environment_is_found(tmp_path: Path) -> None:
    for variables, taken in (({}, NOTEBOOK), ({"ANTHROPIC_API_KEY": "k"}, "anthropic/")):
        env = {"HOME": str(tmp_path), **variables}
        config = load_config(resolve_paths(env), env)
        choices = asyncio.run(model_choices(config, env, SystemClock()))
        assert choices[0].ref == "auto"
        assert f"now {taken}" in choices[0].why
        assert any(choice.ref.startswith(taken) for choice in choices[1:])
        assert choices[-1].ref == NOTEBOOK


def test_what_is_set_now_is_offered_first(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    config = load_config(resolve_paths(env), env)
    assert asyncio.run(model_choices(config, env, SystemClock(), "x/y"))[0].ref == "x/y"


def at_a_terminal(home: Path, *args: str, says: dict[str, bytes]) -> tuple[int, str]:
    """Run a command on a terminal and type what is said as soon as its question is there; return code and all text."""
    ours, theirs = pty.openpty()
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
    line = [sys.executable, "-m", "homarus", *args]
    with subprocess.Popen(line, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        seen, questions = b"", list(says.items())
        while True:
            if not select.select([ours], [], [], 60)[0]:
                process.kill()  # it waits for something that was not said
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal is gone with the last that had it open
                break
            if not piece:
                break
            seen += piece
            if b"\x1b[6n" in piece:
                os.write(ours, b"\x1b[1;1R")  # where the cursor is, asked by the line editor
            if questions and questions[0][0].encode() in seen:
                os.write(ours, questions.pop(0)[1])
        code = process.wait(timeout=60)
    os.close(ours)
    return code, seen.decode("utf-8", "replace")


def test_the_questions_at_a_terminal(tmp_path: Path) -> None:
    code, text = at_a_terminal(tmp_path, "onboard", says={"files live?": b"\r", "as provider/model": b"2\r"})
    assert code == 0, text
    written = (tmp_path / ".openclaw" / "openclaw.json").read_text()
    assert f'primary: "{NOTEBOOK}"' in written, "2 is the second choice"
    assert (tmp_path / ".openclaw" / "workspace" / "AGENTS.md").exists()


def test_leaving_the_questions_makes_nothing(tmp_path: Path) -> None:
    code, text = at_a_terminal(tmp_path, "onboard", says={"files live?": b"\x03"})
    assert code == 130
    assert "homarus: stopped" in text
    assert list(tmp_path.iterdir()) == []
