"""`homarus mcp`, as a person and as a program use it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from homarus.cli.main import run

pytest.importorskip("mcp", reason="needs the package mcp")
SERVER = str(Path(__file__).parents[1] / "plugins/mcp/small_server.py")


@pytest.fixture
def home(own_home):
    return own_home


def said(capsys, *words: str, code: int = 0) -> dict:
    capsys.readouterr()
    assert run(["mcp", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_server_is_added_tried_shown_and_removed(home, capsys):
    assert run(["mcp"]) == 0
    assert "no servers" in capsys.readouterr().out
    assert run(["mcp", "add", "small", "--env", "A=${HOME}", "--", sys.executable, SERVER, "fine"]) == 0
    assert said(capsys, "list")["servers"][0]["tools"] is None
    assert said(capsys, "probe")["servers"][0]["ok"]
    (row,) = said(capsys, "list")["servers"]
    assert (row["state"], row["kind"]) == ("known", "stdio")
    assert row["tools"] == ["small__echo", "small__send", "small__env"]
    assert run(["mcp", "show", "small"]) == 0
    assert "small__echo (read): Say it again." in capsys.readouterr().out
    assert run(["prompt", "--json"]) == 0
    assert "small__echo" in capsys.readouterr().out
    assert run(["mcp", "remove", "small"]) == 0
    assert said(capsys, "list")["servers"] == []


def test_a_server_that_fails_is_named_with_its_last_words(home, capsys):
    assert run(["mcp", "add", "bad", "--", sys.executable, SERVER, "refuse"]) == 0
    (row,) = said(capsys, "probe", code=1)["servers"]
    assert "no database" in row["problem"]


@pytest.mark.parametrize("words", [["x"], ["x", "--url", "http://h", "--", "prog"], ["x", "--env", "A", "--", "p"]])
def test_what_makes_no_server_is_refused(home, capsys, words):
    assert run(["mcp", "add", *words]) == 1
    assert not (home / ".openclaw/openclaw.json").exists()


def test_a_server_that_is_not_there(home, capsys):
    assert run(["mcp", "show", "nothing"]) == 1
    assert "there is no MCP server 'nothing'" in capsys.readouterr().err


def test_the_doctor_names_a_server_that_is_incomplete(home, capsys):
    (home / ".openclaw/openclaw.json").write_text('{mcp: {servers: {half: {env: {A: "1"}}, off: {enabled: false}}}}')
    run(["doctor", "--json"])
    found = {row["checkId"]: row["message"] for row in json.loads(capsys.readouterr().out)["findings"]}
    assert found["mcp"] == "mcp.servers.half has neither a command nor a url"
