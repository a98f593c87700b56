"""`homarus hooks`, as a person and as a program use it."""

from __future__ import annotations

import json

import pytest
from tests.cli.helpers import configure
from tests.hooks.helpers import write_hook

from homarus.cli.main import run


@pytest.fixture
def home(own_home):
    return own_home


def listed(capsys) -> dict[str, dict]:
    capsys.readouterr()
    assert run(["hooks", "list", "--json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)["hooks"]}


def test_a_fresh_home_runs_nothing(home, capsys):
    rows = listed(capsys)
    assert len(rows) == 5
    assert not any(row["on"] for row in rows.values())
    assert all(row["eligible"] for row in rows.values())
    assert run(["hooks"]) == 0
    assert "off  boot-md                bundled  gateway:startup" in capsys.readouterr().out
    assert run(["hooks", "check"]) == 0
    assert capsys.readouterr().out == "5 hooks, 0 run\n"


def test_enable_and_disable_keep_the_file_as_it_is_otherwise(home, capsys):
    before = "// mine\n{\n  gateway: { port: 1 }, // keep\n}\n"
    configure(home, before)
    file = home / ".openclaw" / "openclaw.json"
    assert run(["hooks", "enable", "session-memory"]) == 0
    assert "session-memory is enabled" in capsys.readouterr().out
    after = file.read_text()
    assert after.startswith("// mine\n{\n  gateway: { port: 1 }, // keep\n")
    assert listed(capsys)["session-memory"]["on"]
    assert run(["hooks", "enable", "session-memory"]) == 0
    assert "already enabled" in capsys.readouterr().out
    assert file.read_text() == after
    assert run(["hooks", "disable", "session-memory"]) == 0
    assert not listed(capsys)["session-memory"]["on"]
    assert "// keep" in file.read_text()


def test_enable_makes_a_file_where_there_is_none(home, capsys):
    assert run(["hooks", "enable", "boot-md"]) == 0
    assert listed(capsys)["boot-md"]["on"]


def test_enable_turns_the_master_switch_on(home, capsys):
    configure(home, "{hooks: {internal: {enabled: false, entries: {'boot-md': {enabled: true, x: 1}}}}}")
    assert not listed(capsys)["boot-md"]["on"]
    assert run(["hooks", "enable", "boot-md"]) == 0
    assert listed(capsys)["boot-md"]["on"]


def test_a_workspace_hook_waits_for_its_name(home, capsys):
    write_hook(home / ".openclaw" / "workspace" / "hooks", "mine", code="raise SystemExit('ran')\n")
    configure(home, "{hooks: {internal: {enabled: true}}}")
    assert listed(capsys)["mine"]["reason"] == "a workspace hook runs only when enabled by name"
    assert run(["hooks", "enable", "mine"]) == 0
    assert listed(capsys)["mine"]["on"]


def test_what_cannot_run_is_not_enabled(home, capsys):
    folder = write_hook(home / ".openclaw" / "hooks", "js", code=None)
    (folder / "handler.ts").write_text("export default () => {}")
    assert run(["hooks", "enable", "js"]) == 1
    assert "handler.ts is JavaScript: not loadable here" in capsys.readouterr().err
    assert not (home / ".openclaw" / "openclaw.json").exists()


def test_an_entry_under_the_hooks_name_is_used(home, capsys):
    write_hook(home / ".openclaw" / "hooks", "h", metadata='openclaw: {"events": ["command"], "hookKey": "other"}')
    configure(home, "{hooks: {internal: {entries: {h: {enabled: false, keep: 1}}}}}")
    assert run(["hooks", "enable", "h"]) == 0
    text = (home / ".openclaw" / "openclaw.json").read_text()
    assert "other" not in text
    assert "keep: 1" in text
    assert listed(capsys)["h"]["on"]


def test_info(home, capsys):
    write_hook(
        home / ".openclaw" / "hooks",
        "h",
        metadata='openclaw: {"events": ["command:nw"], "requires": {"bins": ["no-such-program"]}, "timeout": 5}',
    )
    assert run(["hooks", "info", "h"]) == 0
    out = capsys.readouterr().out
    assert "h  off: no hooks are enabled\nDoes h.\n" in out
    assert "time limit  5 s\n" in out
    assert "gate  shut  bins     needs no-such-program on PATH\n" in out
    assert "problem  nothing ever emits 'command:nw'\n" in out
    assert run(["hooks", "info", "h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gates"][0]["ok"] is False
    assert run(["hooks", "info", "nothing"]) == 1
    assert "hooks are: boot-md, " in capsys.readouterr().err


def test_check_fails_when_something_should_run_and_cannot(home, capsys):
    write_hook(
        home / ".openclaw" / "hooks",
        "h",
        metadata='openclaw: {"events": ["command"], "requires": {"env": ["NO_SUCH_VARIABLE"]}}',
    )
    write_hook(home / ".openclaw" / "hooks", "fine")
    configure(home, "{hooks: {internal: {entries: {h: {enabled: true}, gone: {}, off: {enabled: false}}}}}")
    assert run(["hooks", "check"]) == 1
    out = capsys.readouterr().out
    assert (
        "Broken\n  h is enabled and cannot run: env: needs NO_SUCH_VARIABLE set\n  hooks.internal.entries.gone: there is no such hook\n"
        in out
    )
    assert run(["hooks", "check", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["broken"]) == 2


def test_a_damaged_block_runs_nothing(home, capsys):
    configure(home, "{hooks: {internal: {enabled: 'perhaps', entries: {'boot-md': {enabled: true}}}}}")
    assert not any(row["on"] for row in listed(capsys).values())


def test_enabling_the_boot_hook_writes_a_first_page(home, capsys):
    workspace = home / ".openclaw" / "workspace"
    workspace.mkdir()
    assert run(["hooks", "enable", "boot-md"]) == 0
    captured = capsys.readouterr()
    assert "wrote " in captured.out
    page = workspace / "BOOT.md"
    assert page.read_text().startswith("# When the gateway starts")
    page.write_text("mine")
    assert run(["hooks", "enable", "boot-md"]) == 0
    assert page.read_text() == "mine"
