"""`homarus config` from the outside: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from homarus.cli.config import parse_value
from homarus.cli.main import run

TEXT = """// mine
{
  gateway: { port: 18789, auth: { token: "very-secret-token" } }, // keep
  agents: { list: [ { id: "work", model: "a/b" } ] },
}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("OPENCLAW_")]:
        monkeypatch.delenv(name)
    path = tmp_path / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def test_get_prints_values_bare_and_objects_as_json(config: Path, capsys) -> None:
    assert run(["config", "get", "gateway.port"]) == 0
    assert capsys.readouterr().out == "18789\n"
    assert run(["config", "get", "agents.list[0]"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "work", "model": "a/b"}
    assert run(["config", "get", "agents.entries.work.model", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == "a/b"
    assert run(["config", "get", "--effective"]) == 0
    assert json.loads(capsys.readouterr().out)["agents"]["entries"]["work"]["model"] == {"primary": "a/b"}


def test_get_of_what_is_not_set(config: Path, capsys) -> None:
    assert run(["config", "get", "nothing.here"]) == 1
    assert "nothing.here is not set" in capsys.readouterr().err
    assert run(["config", "get", "nothing.here", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"error": "nothing.here is not set"}


def test_secrets_are_never_printed(config: Path, capsys) -> None:
    for args in (
        ["get"],
        ["get", "gateway"],
        ["get", "gateway.auth.token"],
        ["get", "--effective", "--json"],
        ["set", "gateway.auth.token", "another-secret-token"],
        ["set", "gateway.auth.token", "third-secret-token", "--json"],
        ["patch", "--json", str(config.parent / "patch")],
        ["unset", "gateway.auth.token"],
        ["validate", "--json"],
    ):
        (config.parent / "patch").write_text('{ gateway: { auth: { token: "fourth-secret-token" } } }')
        assert run(["config", *args]) == 0
        captured = capsys.readouterr()
        assert "secret-token" not in captured.out + captured.err


def test_what_stands_around_a_value_decides_whether_it_is_shown(config: Path, capsys) -> None:
    config.write_text(
        '{ env: { vars: { X: "hide-me" }, Y: "hide-me" }, models: { providers: { p: { headers: { Z: "hide-me" } } } } }'
    )
    for path in ("env.vars.X", "env.Y", "env.vars.Y", "models.providers.p.headers.Z", "models.providers.p.headers"):
        for args in ([path], [path, "--effective"]):
            assert run(["config", "get", *args]) == 0
            assert "hide-me" not in capsys.readouterr().out


def test_get_says_when_something_else_stands_in(config: Path, capsys) -> None:
    config.write_text("{ broken")
    config.with_name("openclaw.json.last-good").write_text("{ a: 5 }")
    assert run(["config", "get", "a"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "5\n"
    assert "openclaw.json:1" in captured.err


def test_reveal_needs_a_terminal_or_a_yes(config: Path, capsys) -> None:
    assert run(["config", "get", "gateway.auth.token", "--reveal"]) == 2
    assert "secret-token" not in capsys.readouterr().out
    assert run(["config", "get", "gateway.auth.token", "--reveal", "--yes"]) == 0
    assert capsys.readouterr().out == "very-secret-token\n"


def test_set_changes_its_key_alone_and_shows_it(config: Path, capsys) -> None:
    assert run(["config", "set", "gateway.port", "19001"]) == 0
    out = capsys.readouterr().out
    assert "-  gateway: { port: 18789" in out
    assert "+  gateway: { port: 19001" in out
    assert config.read_text() == TEXT.replace("18789", "19001")
    assert config.with_name("openclaw.json.bak").read_text() == TEXT


def test_set_of_an_agent_finds_it_in_the_list(config: Path) -> None:
    assert run(["config", "set", "agents.entries.work.model", "c/d"]) == 0
    assert config.read_text() == TEXT.replace("a/b", "c/d")


def test_a_reference_instead_of_a_secret(config: Path) -> None:
    assert run(["config", "set", "gateway.auth.token", "--ref-source", "env", "--ref-id", "TOKEN"]) == 0
    assert 'token: { source: "env", provider: "default", id: "TOKEN" }' in config.read_text()
    assert run(["config", "set", "a", "1", "--ref-source", "env", "--ref-id", "X"]) == 2
    assert run(["config", "set", "a"]) == 2


def test_dry_runs_write_nothing(config: Path, capsys) -> None:
    before = sorted(config.parent.iterdir())
    for args in (["set", "a.b", "1"], ["unset", "agents"], ["patch", "-"]):
        if args[0] == "patch":
            done = subprocess.run(
                [sys.executable, "-m", "homarus", "config", "patch", "--dry-run"],
                input=b"{ x: 1 }", capture_output=True, env={**os.environ, "HOME": str(config.parent.parent)}, check=False,
            )  # fmt: skip
            assert done.returncode == 0
            assert b"+  x: 1" in done.stdout
        else:
            assert run(["config", *args, "--dry-run"]) == 0
            assert "dry run" in capsys.readouterr().out
    assert config.read_text() == TEXT
    assert sorted(config.parent.iterdir()) == before


def test_merge_lays_over_and_set_replaces(config: Path, capsys) -> None:
    assert run(["config", "set", "gateway.auth", '{ mode: "token" }', "--merge", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(config)]
    assert 'auth: { token: "very-secret-token", mode: "token" }' in config.read_text()
    assert run(["config", "set", "gateway.auth", "{}"]) == 0
    assert "auth: {}" in config.read_text().replace("{ }", "{}")


def test_unset(config: Path, capsys) -> None:
    assert run(["config", "unset", "agents"]) == 0
    assert config.read_text() == TEXT.replace('  agents: { list: [ { id: "work", model: "a/b" } ] },\n', "")
    assert run(["config", "unset", "agents"]) == 1
    assert "is not set" in capsys.readouterr().err


def test_a_change_the_checks_refuse(config: Path, capsys) -> None:
    assert run(["config", "set", "secrets.providers", "[5]"]) == 78
    assert "nothing was written" in capsys.readouterr().err
    assert config.read_text() == TEXT
    assert run(["config", "set", "secrets.providers", "[5]", "--force"]) == 0


def test_validate(config: Path, capsys) -> None:
    assert run(["config", "validate"]) == 0
    assert "ok" in capsys.readouterr().out
    config.write_text('{\n  env: { vars: 5 },\n  logging: { file: "${NOT_SET_ANYWHERE}" },\n  tts: { auto: 1 },\n}')
    assert run(["config", "validate"]) == 78
    out = capsys.readouterr().out
    assert "~/.openclaw/openclaw.json:2" in out
    assert "env.vars" in out
    assert "NOT_SET_ANYWHERE" in out
    assert run(["config", "validate", "--json"]) == 78
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], [p["severity"] for p in found["problems"]]) == (False, ["error", "warning", "info"])
    config.write_text("{ broken")
    assert run(["config", "validate"]) == 78


def test_validate_says_of_a_missing_file_what_it_is(config: Path, capsys) -> None:
    assert run(["config", "set", "a", "1"]) == 0
    config.unlink()
    config.symlink_to("nowhere.json")
    capsys.readouterr()
    assert run(["config", "validate"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    kept = config.parent / "homarus" / "openclaw.last-good.json"
    assert last == f"{config} is missing; what stands in for it, {kept}: ok"
    kept.unlink()
    config.with_name("openclaw.json.bak").unlink()
    assert run(["config", "validate"]) == 0
    assert capsys.readouterr().out == f"{config} does not exist; the defaults hold\n"
    assert run(["config", "validate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["exists"], found["standsIn"]) == (True, False, None)


def test_an_index_makes_no_key_of_an_object(config: Path, capsys) -> None:
    config.write_text('{ tools: { deny: ["exec"] }, mine: { "7": 1 } }')
    for path in ("tools[0]", "[0]", "mine[6]", "tools[0].deny"):
        assert run(["config", "set", path, "5", "--dry-run"]) == 78, path
        assert "is an object, not a list" in capsys.readouterr().err
    assert run(["config", "set", "mine[7]", "2"]) == 0
    assert run(["config", "set", 'mine["8"]', "3"]) == 0
    assert config.read_text() == '{ tools: { deny: ["exec"] }, mine: { "7": 2, "8": 3 } }'


def test_file_and_schema(config: Path, capsys) -> None:
    assert run(["config", "file"]) == 0
    assert capsys.readouterr().out == f"{config}\n"
    assert run(["config", "file", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exists"] is True
    assert run(["--config", str(config.parent / "other.json"), "config", "file"]) == 0
    assert capsys.readouterr().out.strip().endswith("other.json")
    assert run(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "object"
    assert run(["config", "schema", "env.vars", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "object"
    assert run(["config", "schema", "no.such"]) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-1.5", -1.5),
        ("0x10", 16),
        ("true", True),
        ("null", None),
        ('"5"', "5"),
        ("'a'", "a"),
        ("{a: [1,],}", {"a": [1]}),
        ("2h", "2h"),
        ("+491701234567", "+491701234567"),
        ("007", "007"),
        ("Infinity", "Infinity"),
        ("1_000", "1_000"),
        ("text with spaces", "text with spaces"),
        ("", ""),
        ("-", "-"),
    ],
)
def test_what_a_value_on_the_command_line_means(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_values_that_are_no_json5(config: Path) -> None:
    assert run(["config", "set", "a", "{broken"]) == 2
    assert run(["config", "set", "a", "words", "--strict-json"]) == 2
    assert run(["config", "set", "a", "5", "--string"]) == 0
    assert 'a: "5"' in config.read_text()
    assert run(["config", "set", "a..b", "5"]) == 2
    assert run(["config", "set", "", "5"]) == 2


def editor(folder: Path, script: str) -> str:
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def test_edit_writes_what_passes(config: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VISUAL", editor(config.parent, 'sed -i s/18789/1234/ "$1"'))
    assert run(["config", "edit"]) == 0
    assert config.read_text() == TEXT.replace("18789", "1234")
    assert "secret-token" not in capsys.readouterr().out
    monkeypatch.setenv("VISUAL", "true")
    assert run(["config", "edit"]) == 0
    assert "nothing to change" in capsys.readouterr().out


def test_edit_keeps_what_does_not_pass(config: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VISUAL", editor(config.parent, "echo '{ broken' > \"$1\""))
    assert run(["config", "edit"]) == 78
    assert config.read_text() == TEXT
    assert config.with_name("openclaw.json.rej").read_text() == "{ broken\n"
    assert "openclaw.json.rej" in capsys.readouterr().err


def test_edit_notices_another_writer(config: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VISUAL", editor(config.parent, f"echo '{{ a: 1 }}' > \"$1\"; echo '{{ b: 2 }}' > {config}"))
    assert run(["config", "edit"]) == 78
    assert config.read_text() == "{ b: 2 }\n"
    assert config.with_name("openclaw.json.rej").read_text() == "{ a: 1 }\n"


def test_edit_without_an_editor_or_with_a_failing_one(config: Path, monkeypatch, capsys) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    assert run(["config", "edit"]) == 2
    monkeypatch.setenv("EDITOR", "false")
    assert run(["config", "edit"]) == 1
    assert "the editor ended with code 1; nothing was changed" in capsys.readouterr().err
    assert config.read_text() == TEXT


def test_edit_asks_on_a_terminal(config: Path) -> None:
    script = (
        'if [ -e "$0.once" ]; then echo \'{ fixed: 1 }\' > "$1"; else touch "$0.once"; echo \'{ broken\' > "$1"; fi'
    )
    ours, theirs = pty.openpty()
    env = {**os.environ, "VISUAL": editor(config.parent, script)}
    child = subprocess.Popen(
        [sys.executable, "-m", "homarus", "config", "edit"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
    )
    os.close(theirs)
    os.write(ours, b"edit\n")
    out = child.communicate(timeout=120)[0]
    os.close(ours)
    assert child.returncode == 0, out
    assert b"Edit again" in out
    assert config.read_text() == "{ fixed: 1 }\n"


def test_a_broken_file_is_mended_with_edit(config: Path, monkeypatch) -> None:
    config.write_text("{ broken")
    assert run(["config", "set", "a", "1"]) == 78
    monkeypatch.setenv("VISUAL", editor(config.parent, "echo '{ mended: 1 }' > \"$1\""))
    assert run(["config", "edit"]) == 0
    assert config.read_text() == "{ mended: 1 }\n"
    assert config.with_name("openclaw.json.bak").read_text() == "{ broken"


def test_no_file_at_all(config: Path, capsys) -> None:
    config.unlink()
    config.parent.rmdir()
    assert run(["config", "get"]) == 0
    assert json.loads(capsys.readouterr().out) == {}
    assert not config.parent.exists()
    assert run(["config", "set", "session.reset.mode", "daily"]) == 0
    assert json.loads(config.read_text()) == {"session": {"reset": {"mode": "daily"}}}
    assert config.parent.stat().st_mode & 0o777 == 0o700


def test_a_patch_that_is_no_json5_is_a_usage_error_with_its_line(config: Path, capsys):
    file = config.parent / "patch.json5"
    file.write_text("{\n  a: ,\n}")
    assert run(["config", "patch", str(file)]) == 2
    assert f"the patch is no JSON5: {file}:2:" in capsys.readouterr().err


def test_an_editor_is_not_opened_for_nobody(config: Path, capsys, monkeypatch):
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    assert run(["config", "edit"]) == 2
    assert "set EDITOR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "shown"), [("1", "1"), ("0", "0"), ("1.0", "1.0"), ("true", "true"), ("false", "false"), ("null", "null")]
)
def test_numbers_and_flags_are_told_apart(config: Path, capsys, value: str, shown: str) -> None:
    assert run(["config", "set", "mine", value]) == 0
    capsys.readouterr()
    assert run(["config", "get", "mine"]) == 0
    assert capsys.readouterr().out == f"{shown}\n"


def test_an_editor_that_cannot_be_understood_is_a_usage_error(config: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("VISUAL", "vi 'unfinished")
    assert run(["config", "edit"]) == 2
    assert "EDITOR cannot be understood" in capsys.readouterr().err


def test_twelve_changes_at_once_are_all_made(config: Path) -> None:
    line = [sys.executable, "-m", "homarus", "config", "set"]
    started = [
        subprocess.Popen([*line, f"env.vars.K{number}", f"v{number}"], stdout=subprocess.DEVNULL)
        for number in range(12)
    ]
    assert [process.wait(timeout=120) for process in started] == [0] * 12
    assert run(["config", "validate"]) == 0
    assert all(f"K{number}: " in config.read_text() for number in range(12))


def test_a_change_that_looks_mistyped_is_made_and_said(config: Path, capsys) -> None:
    assert run(["config", "set", "agents.default.model", "a/b"]) == 0
    assert "did you mean 'defaults'" in capsys.readouterr().err
    assert run(["config", "set", "tools.denny", '["exec"]']) == 78
    assert "did you mean 'deny'" in capsys.readouterr().err
