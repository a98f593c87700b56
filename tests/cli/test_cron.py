"""`homarus cron` and `homarus system`: what a person types, and what a program reads."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from homarus.automation.scheduler import Automation
from homarus.cli.main import run
from homarus.config.paths import resolve_paths
from homarus.runtime.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TZ", "UTC")
    for name in ("OPENCLAW_STATE_DIR", "OPENCLAW_HOME", "OPENCLAW_PROFILE", "OPENCLAW_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text("{}")
    return tmp_path


def made(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_life_of_a_job(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cron"]) == 0
    assert "No jobs" in capsys.readouterr().out
    job = made(
        capsys,
        "cron",
        "add",
        "--cron",
        "0 8 * * 1-5",
        "--tz",
        "Europe/Vienna",
        "--exact",
        "-m",
        "mail?",
        "--name",
        "mail",
    )
    assert job["schedule"] == {"kind": "cron", "expr": "0 8 * * 1-5", "tz": "Europe/Vienna", "staggerMs": 0}
    assert job["delivery"] == {"mode": "announce"}
    assert "homarus" not in job  # the owner typed it
    changed = made(
        capsys, "cron", "edit", "mail", "--every", "2h", "--model", "builtin/notebook", "--tools", "read, ls"
    )
    assert changed["schedule"] == {"kind": "every", "everyMs": 7_200_000}
    assert changed["payload"] == {
        "kind": "agentTurn",
        "message": "mail?",
        "model": "builtin/notebook",
        "toolsAllow": ["read", "ls"],
    }
    assert made(capsys, "cron", "disable", "mail")["enabled"] is False
    assert made(capsys, "cron", "list")["total"] == 1
    assert run(["cron", "list"]) == 0
    assert "No jobs" in capsys.readouterr().out  # those that are off are shown with --all
    assert "nextRunAtMs" in made(capsys, "cron", "enable", job["id"][:6])["state"]
    assert run(["cron", "list"]) == 0
    shown = capsys.readouterr()
    assert "every 2 h" in shown.out
    assert "no gateway runs" in shown.err
    assert made(capsys, "cron", "rm", "mail")["removed"] == job["id"]
    assert made(capsys, "cron", "status")["jobs"] == 0


def test_a_run_by_hand_happens_here_and_is_written_down(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(
        capsys,
        "cron",
        "add",
        "Remember that the boiler was serviced.",
        "--every",
        "1d",
        "--name",
        "boiler",
        "--no-deliver",
    )
    row = made(capsys, "cron", "run", "boiler")
    assert row["status"] == "ok"
    assert row["trigger"] == "manual"
    assert made(capsys, "cron", "runs", "boiler")["entries"][0]["runId"] == row["runId"]
    assert run(["cron", "runs"]) == 0
    assert "ok" in capsys.readouterr().out
    assert made(capsys, "cron", "run", "boiler", "--due") == {"ok": True, "enqueued": False}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["-m", "x"], "say when"), (["--every", "2h"], "say what"), (["--every", "2x", "-m", "x"], "no length of time"),
     (["--at", "soon", "-m", "x"], "no moment"), (["--every", "2h", "--at", "5m", "-m", "x"], "exclude each other"),
     (["--cron", "99 * * * *", "-m", "x"], "Bad minute"), (["--every", "2h", "--tz", "UTC", "-m", "x"], "belong to --cron"),
     (["--at", "2001-01-01", "-m", "x"], "past"), (["--every", "2h", "-m", "x", "--channel", "fax", "--to", "1"], "fax"),
     (["--every", "2h", "-m", "x", "--session", "main"], "systemEvent")],
)  # fmt: skip
def test_what_cannot_be_is_said_before_anything_is_written(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["cron", "add", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (home / ".openclaw" / "cron").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--model", "nosuch/x"), 1, "there is no provider 'nosuch'"),
        (("--model", ""), 2, "it is empty"),
        (("--thinking", "much"), 2, "'much' is no thinking level"),
        (("--session", "session:"), 2, "use main, isolated or session:<key>"),
        (("--system-event", "hi"), 2, "exclude each other"),
        (("--agent", ""), 2, "it is empty"),
        (("--timeout-seconds", "nan"), 2, "nan is no number"),
    ],
)
def test_a_job_that_could_not_run_is_not_made(
    home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    assert run(["cron", "add", "--every", "2h", "-m", "mail?", *words]) == code
    assert said in capsys.readouterr().err
    assert made(capsys, "cron", "list", "--all")["jobs"] == []


def test_the_heartbeat_of_an_agent_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["system", "heartbeat", "last", "--agent", "nosuch"]) == 1
    assert "there is no agent 'nosuch'" in capsys.readouterr().err


def test_a_job_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("edit", "rm", "enable", "disable", "run", "runs"):
        assert run(["cron", command, "nothing", *(["--every", "1h"] if command == "edit" else [])]) == 1
        assert "no job 'nothing'" in capsys.readouterr().err


def test_events_and_the_switch_of_heartbeats(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert made(capsys, "system", "event", "the door bell rang") == {"ok": True, "queued": True, "mode": "now"}
    assert made(capsys, "system", "event", "the door bell rang")["queued"] is False
    assert made(capsys, "system", "heartbeat", "last") == {}
    assert made(capsys, "system", "heartbeat", "disable") == {"enabled": False}
    assert made(capsys, "cron", "status")["heartbeats"]["enabled"] is False
    made(capsys, "system", "heartbeat", "enable")
    assert made(capsys, "cron", "status")["heartbeats"]["enabled"] is True
    assert made(capsys, "system", "presence") == []


def test_hostile_names_move_no_cursor(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(capsys, "cron", "add", "--every", "1h", "-m", "x", "--name", "\x1b[2Jgone\x07")
    for command in (["cron", "list"], ["cron", "runs"], ["cron", "status"]):
        assert run(command) == 0
        assert "\x1b" not in capsys.readouterr().out


async def test_a_process_that_runs_jobs_hears_of_a_change_at_once(home: Path) -> None:
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TZ": "UTC"}
    first, second = (Runtime.open(resolve_paths(env), env) for _ in range(2))
    try:
        runner, other = first.automation, second.automation
        runner.start()
        await _until(lambda: runner.runs_here)
        before = runner.wakeups
        other.add({"name": "x", "schedule": {"kind": "every", "everyMs": 86_400_000}, "payload": {"message": "x"}})
        await _until(lambda: runner.wakeups > before)
        other.set_heartbeats(False)
        await _until(lambda: not runner.heartbeats.pulses.enabled)
        assert other.status()["running"]
        assert _is_waiting(runner)
    finally:
        await first.aclose()
        await second.aclose()
    assert not (home / ".openclaw" / "homarus" / "automation.sock").exists()


def _is_waiting(automation: Automation) -> bool:
    return automation.status()["nextWakeAtMs"] is not None


async def _until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)
