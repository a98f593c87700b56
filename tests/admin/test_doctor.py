"""The doctor on homes with one thing wrong each."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.admin.doctor.examine import examine
from homarus.admin.doctor.files import (
    check_disk,
    check_locks,
    check_permissions,
    check_set_aside,
    check_state,
    check_temps,
)
from homarus.admin.doctor.finding import Finding, Home, Severity
from homarus.admin.doctor.home import check_config, check_openclaw, check_workspaces
from homarus.admin.doctor.machine import check_models, check_programs, check_sandbox
from homarus.admin.doctor.sessions import check_sessions
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import ManualClock, SystemClock
from homarus.models.calls import CallBook
from homarus.storage.locks import OwnerLock
from homarus.workspace.names import SEEDED

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / ".openclaw"
    (folder / "agents" / "main" / "sessions").mkdir(parents=True)
    folder.chmod(0o700)
    return folder


def home(state: Path, text: str | None = None) -> Home:
    if text is not None:
        (state / "openclaw.json").write_text(text)
        (state / "openclaw.json").chmod(0o600)
    env = {"HOME": str(state.parent), "PATH": os.environ["PATH"]}
    return Home(inspect_config(resolve_paths(env), env), env, ManualClock(NOW))


def bad(findings: list[Finding]) -> list[str]:
    return [finding.check for finding in findings if finding.severity is not Severity.OK]


def test_a_new_machine_is_told_to_set_up(tmp_path: Path) -> None:
    (finding,) = check_state(home(tmp_path / "none" / ".openclaw"))
    assert (finding.check, finding.severity) == ("state.missing", Severity.INFO)
    assert "homarus setup" in finding.cure


def test_what_others_can_read_is_closed_again(state: Path) -> None:
    secret = state / "agents" / "main" / "agent" / "auth-profiles.json"
    secret.parent.mkdir()
    secret.write_text("{}")
    secret.chmod(0o644)
    state.chmod(0o755)
    subject = home(state, "{}")
    findings = check_state(subject) + check_permissions(subject)
    assert bad(findings) == ["state.permissions", "files.permissions"]
    for finding in findings:
        assert finding.fix is not None
        finding.fix()
    assert secret.stat().st_mode & 0o777 == 0o600
    assert bad(check_state(subject) + check_permissions(subject)) == []


def test_the_configuration_is_checked_by_the_validator_of_a_start(state: Path) -> None:
    findings = check_config(home(state, "{ agents: { defaults: { bootstrapMaxChars: 'many' } } "))
    assert findings[0].severity is Severity.ERROR
    assert "openclaw.json" in findings[0].path
    assert bad(check_config(home(state, "{ }"))) == []


def test_a_workspace_that_nobody_uses_is_named(state: Path) -> None:
    for name in ("workspace", "workspace-old"):
        (state / name).mkdir()
        for file in SEEDED:
            (state / name / file).write_text("x")
    older = state.parent / "openclaw"
    older.mkdir()
    (older / "AGENTS.md").write_text("x")
    findings = check_workspaces(home(state, "{}"))
    assert bad(findings) == ["workspace.extra", "workspace.extra"]
    assert str(older) in [finding.path for finding in findings]
    assert findings[0].path.endswith("workspace-old")


def test_a_workspace_without_a_default_file_is_not_in_place(state: Path) -> None:
    (state / "workspace").mkdir()
    (state / "workspace" / "AGENTS.md").write_text("x")
    (finding,) = check_workspaces(home(state, "{}"))
    assert finding.check == "workspace.incomplete"
    assert finding.message == "has no SOUL.md, TOOLS.md, IDENTITY.md, USER.md, HEARTBEAT.md"


def test_a_lock_is_stale_only_when_its_process_is_gone(state: Path) -> None:
    folder = state / "agents" / "main" / "sessions"
    mine = OwnerLock.acquire(folder / "a.jsonl.lock", purpose="test", now=NOW)
    (folder / "b.jsonl.lock").write_text(json.dumps({"pid": os.getpid(), "createdAt": "now"}))
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    (folder / "c.jsonl.lock").write_text(json.dumps({"pid": int(dead.stdout)}))
    (finding,) = check_locks(home(state))
    assert finding.path.endswith("c.jsonl.lock")
    assert finding.fix is not None
    finding.fix()
    assert bad(check_locks(home(state))) == []
    assert mine.held
    mine.release()


def test_left_overs_and_damaged_files(state: Path) -> None:
    (state / ".homarus-1-0123456789abcdef.tmp").write_text("half")
    (state / "agents" / "main" / "sessions" / "x.jsonl.corrupt.2026-01-01").write_text("?")
    (left,) = check_temps(home(state))
    assert left.fix is not None
    assert "1 temp file" in left.fix()
    assert bad(check_temps(home(state))) == []
    assert bad(check_set_aside(home(state))) == ["files.set_aside"]
    assert bad(check_disk(home(state))) == []


def test_a_running_openclaw_on_the_same_home_is_found(state: Path) -> None:
    assert bad(check_openclaw(home(state))) == []
    lock = state / "tmp" / "openclaw-0" / "gateway.state.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": os.getpid()}))
    (finding,) = check_openclaw(home(state))
    assert str(os.getpid()) in finding.message


@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
def test_a_running_openclaw_is_found_by_its_process_too(state: Path) -> None:
    code = "import time; print('up', flush=True); time.sleep(60)"
    line = [sys.executable, "-c", code, "openclaw", "gateway"]
    env = {**os.environ, "OPENCLAW_STATE_DIR": str(state)}
    with subprocess.Popen(line, env=env, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        findings = check_openclaw(home(state))
        child.kill()
    assert str(child.pid) in findings[0].message


def test_an_agent_without_a_sandbox_is_named(state: Path) -> None:
    findings = check_sandbox(home(state, "{ agents: { defaults: { sandbox: { mode: 'off' } } } }"))
    assert bad(findings) == ["sandbox.off"]
    findings = check_sandbox(home(state, "{ agents: { defaults: { sandbox: { binds: ['/etc'] } } } }"))
    assert bad(findings) == ["sandbox.config"]


def test_damaged_conversations_are_named_and_left_alone(state: Path) -> None:
    folder = state / "agents" / "main" / "sessions"
    transcript = folder / "s1.jsonl"
    transcript.write_text(
        '{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":""}\n{"type":"mess'
    )
    (folder / "sessions.json").write_text("[]")
    before = transcript.read_bytes()
    checks = {finding.check for finding in check_sessions(home(state)) if finding.severity is not Severity.OK}
    assert "sessions.array-index" in checks
    assert any(check.startswith("sessions.") and check != "sessions.array-index" for check in checks)
    assert transcript.read_bytes() == before


def test_a_check_that_fails_hides_no_other(state: Path) -> None:
    def check_broken(_: Home) -> list[Finding]:
        raise ZeroDivisionError("oh")

    findings = examine(home(state), [check_broken, check_disk])
    assert [finding.check for finding in findings] == ["broken", "disk"]


def test_looking_changes_nothing(state: Path) -> None:
    (state / "openclaw.json").write_text("{ broken")

    def picture() -> list[tuple[str, int, int]]:
        return sorted((str(path), path.lstat().st_mtime_ns, path.lstat().st_mode) for path in state.parent.rglob("*"))

    before = picture()
    examine(home(state))
    assert picture() == before


def test_a_file_where_the_home_should_be_is_an_error(tmp_path: Path):
    (tmp_path / ".openclaw").write_text("not a folder")
    env = {"HOME": str(tmp_path)}
    home = Home(inspect_config(resolve_paths(env), env), env, ManualClock(NOW))
    (finding,) = check_state(home)
    assert (finding.check, finding.severity) == ("state.no_folder", Severity.ERROR)


def test_a_check_that_may_not_look_says_where_and_what_helps(state: Path):
    def check_closed(_home: Home) -> list[Finding]:
        raise PermissionError(13, "Permission denied", "/closed/door")

    env = {"HOME": str(state.parent)}
    (finding,) = examine(Home(inspect_config(resolve_paths(env), env), env, ManualClock(NOW)), [check_closed])
    assert finding.message == "cannot look at /closed/door: Permission denied"
    assert "chmod" in finding.cure


def test_a_missing_program_is_named_with_the_package_that_brings_it(state: Path, tmp_path: Path) -> None:
    (bins := tmp_path / "bins").mkdir()
    for name in ("apt-get", "git"):
        (bins / name).write_text("#!/bin/sh\n")
        (bins / name).chmod(0o755)
    env = {"HOME": str(state.parent), "PATH": str(bins)}
    subject = Home(inspect_config(resolve_paths(env), env), env, SystemClock())
    found = {finding.message.split()[0]: finding.cure for finding in check_programs(subject)}
    assert found == {"bwrap": "apt install bubblewrap", "rg": "apt install ripgrep"}


def test_a_model_without_a_key_or_a_meaning_is_named(state: Path) -> None:
    env = {"HOME": str(state.parent), "PATH": ""}
    cases = {
        '"openai/gpt-5.5"': "OPENAI_API_KEY",
        '"notebok"': "did you mean builtin/notebook",
        '"nopro/xyz"': "there is no provider 'nopro'",
        '{ primary: "builtin/notebook", fallbacks: ["local/tiny"] }': "there is no local model 'tiny'",
        '"mine/bgi"': "did you mean mine/big?",
    }
    for model, words in cases.items():
        mine = '{ baseUrl: "https://mine.example/v1", apiKey: "k", models: [{ id: "big" }] }'
        (state / "openclaw.json").write_text(
            f"{{ agents: {{ defaults: {{ model: {model} }} }}, models: {{ providers: {{ mine: {mine} }} }} }}"
        )
        subject = Home(inspect_config(resolve_paths(env), env), env, SystemClock())
        # Once: what means no model is told with the configuration.
        (finding,) = [each for each in examine(subject, [check_config, check_models]) if each.severity != "ok"]
        assert words in f"{finding.message} ({finding.cure})"


def test_models_that_answered_failed_or_were_never_called_are_told_apart(state: Path) -> None:
    env = {"HOME": str(state.parent), "PATH": ""}
    mine = '{ baseUrl: "https://mine.example/v1", apiKey: "k", models: [{ id: "good" }, { id: "bad" }, { id: "new" }] }'
    chain = '{ primary: "mine/good", fallbacks: ["mine/bad", "mine/new", "builtin/notebook"] }'
    (state / "openclaw.json").write_text(
        f"{{ agents: {{ defaults: {{ model: {chain} }} }}, models: {{ providers: {{ mine: {mine} }} }} }}"
    )
    subject = Home(inspect_config(resolve_paths(env), env), env, SystemClock())
    book, now = CallBook(subject.config.paths.own_dir), 1_790_000_000_000
    book.write("mine/good", "", now)
    book.write("mine/bad", "boom", now)
    found = {finding.severity.value: finding for finding in check_models(subject)}
    assert "mine/good last answered 20" in found["ok"].message
    assert "mine/bad: when it was last asked" in found["warning"].message and "boom" in found["warning"].message
    assert "nobody has asked it yet" in found["info"].message and found["info"].cure == "homarus models test mine/new"
    (state / "openclaw.json").write_text("{}")
    (plain,) = check_models(Home(inspect_config(resolve_paths(env), env), env, SystemClock()))
    assert plain.severity == "ok" and "no model is named" in plain.message
