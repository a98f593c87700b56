"""A configuration that cannot be read never gives weaker rules than it held, whatever the command."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from homarus.cli.main import run

TEXT = '{\n  tools: { deny: ["exec"] },\n}\n'
BROKEN = '{\n  tools: { deny: ["exec" },\n}\n'


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    # A message is read from standard input, too, where it is no terminal.
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    for name in [name for name in os.environ if name.startswith("OPENCLAW_")]:
        monkeypatch.delenv(name)
    path = tmp_path / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def spoil(path: Path, how: str) -> None:
    """Make the file unreadable in one of the ways in which files become so."""
    if how in ("folder", "gone"):
        path.unlink()
    if how == "folder":
        path.mkdir()
    texts = {
        "bracket": BROKEN.encode(),
        "empty": b"",
        "bytes": TEXT.encode("utf-16"),
        "include": b"{$include:'x.json'}",
    }
    if how in texts:
        path.write_bytes(texts[how])


@pytest.mark.parametrize("how", ["bracket", "empty", "bytes", "include", "folder"])
def test_a_file_that_nobody_read_before_stops_every_turn(config: Path, capsys, how: str) -> None:
    spoil(config, how)
    for args in (["agent", "-m", "hello"], ["prompt"], ["setup"], ["config", "get"], ["models", "list"]):
        assert run(args) == 78, args
        heard = capsys.readouterr().err
        assert str(config) in heard
        assert "(" in heard, "the cure"
    assert not (config.parent / "workspace").exists()


@pytest.mark.parametrize("how", ["bracket", "empty", "bytes", "folder", "gone"])
def test_the_rules_of_the_last_turn_hold_until_the_file_is_mended(config: Path, capsys, how: str) -> None:
    assert run(["agent", "-m", "hello"]) == 0
    capsys.readouterr()
    spoil(config, how)
    assert run(["prompt"]) == 0
    said = capsys.readouterr()
    assert "- read:" in said.out
    assert "- exec:" not in said.out
    assert "the last good content stands in" in said.err
    config.rmdir() if config.is_dir() else config.unlink(missing_ok=True)
    config.write_text(TEXT)
    assert run(["prompt"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (BROKEN, "tools"),
        ('{ session: { dmScope: "main }', "session"),
        ("{ $include: 'x.json' }", "$include"),
        ("{ $include: './x.json5', }}", "$include"),
    ],
)
def test_a_rule_that_came_with_the_slip_is_not_left_out(config: Path, capsys, text: str, place: str) -> None:
    config.write_text("{ logging: { level: 'info' } }")
    assert run(["agent", "-m", "hello"]) == 0
    config.write_text(text)
    capsys.readouterr()
    for args in (["agent", "-m", "hello"], ["prompt"]):
        assert run(args) == 78
        said = capsys.readouterr().err
        assert f"{config}:" in said
        assert f"the last good content does not stand in, because this text differs from it at '{place}'" in said
    assert run(["config", "validate"]) == 78
    assert "does not stand in" in capsys.readouterr().out


def test_a_slip_in_an_included_file_is_judged_like_one_in_the_file_itself(config: Path, capsys) -> None:
    rules = config.with_name("rules.json5")
    rules.write_text('{ deny: ["exec"] }')
    config.write_text("{ tools: { $include: './rules.json5' } }")
    assert run(["agent", "-m", "hello"]) == 0
    for text, code in (('{ deny: ["exec" }', 0), ('{ deny: ["exec", "write" }', 78), ("{ deny: ", 0)):
        rules.write_text(text)
        assert run(["prompt"]) == code, text
    assert run(["config", "validate"]) == 78
    rules.unlink()
    capsys.readouterr()
    assert run(["prompt"]) == 0
    assert "- exec:" not in capsys.readouterr().out


def test_what_a_command_forbade_is_remembered_without_a_turn(config: Path, capsys) -> None:
    assert run(["config", "set", "tools.deny", '["exec", "web_fetch"]']) == 0
    config.write_text(config.read_text().replace("]", ""))
    assert run(["prompt"]) == 0
    said = capsys.readouterr().out
    assert "- exec:" not in said
    assert "- web_fetch:" not in said


@pytest.mark.parametrize(
    "reads",
    [["config", "validate"], ["config", "get", "tools.deny"], ["config", "file"], ["doctor"], ["security", "audit"]],
)
def test_every_command_that_reads_the_file_remembers_what_it_forbids(config: Path, capsys, reads: list[str]) -> None:
    config.write_text("{}")
    assert run(["agent", "-m", "hello"]) == 0
    config.write_text(TEXT)
    run(reads)
    spoil(config, "bracket")
    capsys.readouterr()
    assert run(["prompt"]) == 0
    assert "- exec:" not in capsys.readouterr().out


@pytest.mark.parametrize("known", [False, True])
def test_a_damaged_file_is_never_overwritten(config: Path, capsys, known: bool) -> None:
    if known:
        assert run(["agent", "-m", "hello"]) == 0
    spoil(config, "bracket")
    for args in (
        ["config", "set", "a.b", "1"],
        ["config", "unset", "tools"],
        ["models", "set", "ollama/x"],
        ["hooks", "enable", "session-memory"],
        ["setup", "--workspace", "/tmp/elsewhere"],
    ):
        capsys.readouterr()
        assert run(args) == 78, args
        assert "openclaw.json:2: " in capsys.readouterr().err, args
        assert config.read_text() == BROKEN


def test_a_new_file_never_takes_the_place_of_one_that_went_missing(config: Path, capsys) -> None:
    assert run(["agent", "-m", "hello"]) == 0
    config.unlink()
    for args in (["setup"], ["config", "set", "a", "1"]):
        assert run(args) == 78
        assert "start afresh" in capsys.readouterr().err
    assert not config.exists()
    (config.parent / "homarus" / "openclaw.last-good.json").unlink()
    assert run(["setup"]) == 0


def test_what_shows_and_mends_a_configuration_works_on_a_broken_one(config: Path, capsys, monkeypatch) -> None:
    spoil(config, "bracket")
    assert run(["config", "validate"]) == 78
    assert "openclaw.json:2" in capsys.readouterr().out
    assert run(["config", "file"]) == 0
    assert run(["config", "file", "--json"]) == 0
    assert run(["doctor"]) == 1
    assert "openclaw.json:2" in capsys.readouterr().out
    monkeypatch.setenv("EDITOR", 'sed -i s/exec./exec\\"]/')
    assert run(["config", "edit"]) == 0
    assert config.read_text() == TEXT


@pytest.mark.parametrize(
    ("settings", "key", "meant"),
    [
        ("tools: { exec: { mode: 'dney' } }", "tools.exec.mode", "deny"),
        ("tools: { elevated: { enabled: 'flase' } }", "tools.elevated.enabled", "false"),
        ("agents: { defaults: { tools: { exec: { mode: 'dney' } } } }", "agents.defaults.tools.exec.mode", "deny"),
        ("agents: { list: [{ id: 'main', tools: { exec: { mode: 'alow' } } }] }", "agents.list[0].tools.exec.mode", ""),
        ("agents: { defaults: { sandbox: { mode: 'al' } } }", "agents.defaults.sandbox.mode", "all"),
    ],
)
def test_a_value_that_no_rule_has_is_said_once_with_the_turn_by_the_key_as_it_is_written(
    config: Path, capsys, settings: str, key: str, meant: str
) -> None:
    config.write_text(f"{{ {settings} }}")
    assert run(["agent", "--model", "builtin/notebook", "-m", "hello"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1, said
    assert f"openclaw.json:1: {key}: " in said[0]
    assert not meant or f"did you mean '{meant}'?" in said[0]
