"""Terminals, pipes, locales and homes as they are in the world: every command ends with a word and a code, never a traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOMARUS = [sys.executable, "-m", "homarus"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home with a name in it that is no ASCII, and an environment without a locale."""
    workspace = tmp_path / ".openclaw" / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "IDENTITY.md").write_text("- Name: J\u00fcrgen \U0001f989\n", encoding="utf-8")
    path = os.pathsep.join(part for part in sys.path if part)
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": path}


def call(env: dict[str, str], *line: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*HOMARUS, *line], env=env, capture_output=True, check=False, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "utf-16"])
def test_a_name_that_the_terminal_cannot_show_stops_nothing(env: dict[str, str], encoding: str):
    env["PYTHONIOENCODING"] = encoding
    text = call(env, "agents", "list")
    assert (text.returncode, text.stderr) == (0, b"")
    done = call(env, "agents", "list", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout.decode(encoding))[0]["name"] == "J\u00fcrgen \U0001f989"


def test_a_path_that_is_no_text_is_printed_and_stays_json(env: dict[str, str], tmp_path: Path):
    odd = os.fsencode(tmp_path) + b"/b\xffd"
    os.mkdir(odd)
    env |= {"HOME": os.fsdecode(odd), "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8:strict"}
    assert call(env, "setup").returncode == 0
    done = call(env, "status", "--json")
    assert done.returncode == 0
    assert os.fsencode(json.loads(done.stdout)["stateDir"]) == odd + b"/.openclaw"


def test_standard_input_that_is_no_text_is_read(env: dict[str, str]):
    done = call(env, "agent", input=b"Remember that caf\xe9 is open.")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"caf" in done.stdout


def test_a_reader_that_goes_away_is_no_failure(env: dict[str, str]):
    line = [*HOMARUS, "config", "schema"]
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_closed_streams_are_no_traceback(env: dict[str, str]):
    for words, code, redirection in (
        ("config get nothing", 1, ">&- 2>&- <&-"),
        ("agents list", 0, ">&-"),
        ("agents list", 0, "2>&-"),
        ("agents list", 0, "<&-"),
        ("agents set-identity --name Ann", 0, ">&- 2>&- <&-"),
        ("--version", 0, ">&-"),
        ("--help", 0, ">&-"),
    ):
        line = f'"$@" {words} {redirection}'
        done = subprocess.run(["sh", "-c", line, "sh", *HOMARUS], env=env, capture_output=True, check=False)
        assert done.returncode == code, (line, done)
        assert done.stderr == b"", line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["--version", "--help", "agents list", "config schema", "config --help"])
def test_output_that_finds_no_room_is_a_failure_in_one_line(env: dict[str, str], words: str):
    line = f'"$@" {words} >/dev/full'
    done = subprocess.run(["sh", "-c", line, "sh", *HOMARUS], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert done.stderr == "homarus: cannot write to standard output: No space left on device\n"


def test_an_interrupt_is_one_word_and_130(env: dict[str, str], tmp_path: Path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\ntouch started\nexec sleep 60\n")
    slow.chmod(0o755)
    line, here = [*HOMARUS, "config", "edit"], {**env, "EDITOR": str(slow)}
    process = subprocess.Popen(line, env=here, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all that run in it
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"homarus: stopped\n")
    assert not (tmp_path / ".openclaw" / "openclaw.json").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="takes another user's identity")
def test_a_home_that_is_closed_to_this_user_is_named_with_its_cure(env: dict[str, str], tmp_path: Path):
    (tmp_path / ".openclaw").chmod(0)
    for line in (["status"], ["setup"], ["sessions"], ["memory", "search", "x"], ["agent", "-m", "x"], ["doctor"], []):
        code = f"import os, sys; os.setgid(65534); os.setuid(65534); from homarus.cli.main import run; sys.exit(run({line!r}))"
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        if "ModuleNotFoundError" in done.stderr:
            pytest.skip("the code itself is closed to other users")
        assert "unexpected" not in done.stderr, done.stderr
        if line:
            assert done.returncode == 1, (line, done)
            assert "ermission denied" in done.stderr + done.stdout or "cannot be" in done.stdout


def test_an_option_for_all_commands_goes_first_and_it_says_so(env: dict[str, str]):
    for option in ("--debug", "--profile", "--no-color"):
        done = call(env, "status", option)
        assert done.returncode == 2
        assert done.stderr.decode().startswith(f"homarus: {option} goes before the command: homarus {option}")


def test_a_configuration_that_was_named_and_is_not_there_is_said(env: dict[str, str], tmp_path: Path):
    nowhere = str(tmp_path / "nowhere.json5")
    for extra, line in (({}, ["--config", nowhere]), ({"OPENCLAW_CONFIG_PATH": nowhere}, [])):
        done = call({**env, **extra}, *line, "agents", "list")
        assert (done.returncode, b"there is no such file" in done.stderr) == (78, True)
        assert call({**env, **extra}, *line, "config", "validate").returncode == 78
    assert call(env, "--config", nowhere, "config", "set", "session.reset.mode", "daily").returncode == 0
    assert call(env, "--config", nowhere, "config", "validate").returncode == 0
    assert call(env, "config", "validate").returncode == 0, "without a name, no file means the defaults"


def test_what_was_named_and_is_not_there_is_a_plain_failure(env: dict[str, str]):
    for line in (
        ["sessions", "show", "nobody"],
        ["agent", "-m", "x", "--agent", "nobody"],
        ["memory", "search", "x", "--agent", "nobody"],
        ["sandbox", "explain", "--agent", "nobody"],
        ["skills", "list", "--agent", "nobody"],
        ["models", "status", "--agent", "nobody"],
        ["models", "aliases", "remove", "nothing"],
    ):
        done = call(env, *line)
        assert done.returncode == 1, (line, done)
        assert done.stderr.count(b"\n") == 1


def test_the_level_of_the_log_may_come_from_the_environment(env: dict[str, str]):
    code = (
        "import logging; from homarus.cli.main import run; run(['config', 'file']); logging.getLogger('x').info('seen')"
    )
    for level, seen in (("trace", True), ("info", True), ("warn", False), ("silent", False), ("nonsense", False)):
        line = [sys.executable, "-c", code]
        done = subprocess.run(line, env={**env, "OPENCLAW_LOG_LEVEL": level}, capture_output=True, check=True)
        assert (b"seen" in done.stderr) is seen, level
