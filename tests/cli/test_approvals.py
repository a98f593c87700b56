"""`homarus approvals` and `homarus sandbox`, as a person and as a program use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from homarus.cli.main import run
from homarus.core.clock import SystemClock, SystemIds
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend
from homarus.tools.approval import Approvals, Book, Request, approvals_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "OPENCLAW_STATE_DIR",
        "OPENCLAW_HOME",
        "OPENCLAW_PROFILE",
        "OPENCLAW_CONFIG_PATH",
        "OPENCLAW_WORKSPACE_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / ".openclaw" / "workspace").mkdir(parents=True)
    return tmp_path


def question(home: Path, *, lasting: bool = True) -> Request:
    path = approvals_path(home / ".openclaw")
    book = Approvals(path, SystemClock(), SystemIds())
    asked = book.new_request(
        digest="d",
        kind="exec",
        subject="/bin/ls #1",
        summary="ls\x1b[2K",
        reason="host",
        agent_id="main",
        session="s",
        lasting=lasting,
    )
    path.parent.mkdir(exist_ok=True)
    book._write(Book(pending=(asked,)))
    return asked


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == code
    return "".join(capsys.readouterr())


def test_answering(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Nothing waits" in output(capsys, "approvals")
    asked = question(home)
    shown = output(capsys, "approvals", "list")
    assert asked.id in shown
    assert "\x1b" not in shown
    assert json.loads(output(capsys, "approvals", "show", asked.id, "--json"))["digest"] == "d"
    assert (
        json.loads(output(capsys, "approvals", "allow", asked.id, "--always", "--json"))["decision"] == "allow-always"
    )
    rules = json.loads(output(capsys, "approvals", "list", "--json"))["rules"]
    assert rules[0]["subject"] == "/bin/ls #1"
    assert "No longer allowed" in output(capsys, "approvals", "revoke", rules[0]["id"])
    assert json.loads(output(capsys, "approvals", "list", "--json"))["rules"] == []


@pytest.mark.parametrize(
    "arguments", [("allow", "nosuch"), ("deny", "nosuch"), ("show", "nosuch"), ("revoke", "nosuch")]
)
def test_what_does_not_exist(home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str]) -> None:
    assert "nosuch" in output(capsys, "approvals", *arguments, code=1)


def test_always_is_not_always_possible(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = question(home, lasting=False)
    assert "once only" in output(capsys, "approvals", "allow", asked.id, "--always", code=1)
    assert "deny" in output(capsys, "approvals", "deny", asked.id)


@pytest.mark.skipif(not available(Backend.BWRAP), reason="needs bubblewrap (apt install bubblewrap)")
def test_the_sandbox_explained_and_probed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(output(capsys, "sandbox", "explain", "--json"))
    assert (facts["backend"], facts["network"], facts["access"]) == ("bwrap", False, "rw")
    assert json.loads(output(capsys, "sandbox", "probe", "--json"))["holds"] is True
    (home / ".openclaw" / "openclaw.json").write_text('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    assert "Nothing holds" in output(capsys, "sandbox", "explain")
    assert "switched off" in output(capsys, "sandbox", "probe", code=1)


def test_a_sandbox_that_cannot_be_had_is_explained_as_such(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is said here is what happens: see the scenarios of tools."""
    (home / ".openclaw" / "openclaw.json").write_text('{agents: {defaults: {sandbox: {backend: "podman"}}}}')
    assert "sandbox.backend 'podman' is not supported" in output(capsys, "sandbox", "explain", code=1)
    assert "sandbox.backend 'podman' is not supported" in output(capsys, "sandbox", "probe", code=1)
