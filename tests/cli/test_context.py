"""`homarus context`: sizes a person can act on."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from homarus.cli.main import run
from homarus.cli.prompt import _takes_blocks


@pytest.fixture
def home(own_home):
    workspace = own_home / ".openclaw" / "workspace"
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("Rules.\n")
    (workspace / "SOUL.md").write_text("long " * 10_000)
    return own_home


def test_list(home, capsys):
    assert run(["context", "list"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Context of agent:main:main with builtin/notebook\n")
    assert "- AGENTS.md: OK | raw 6 chars" in out
    assert "- SOUL.md: TRUNCATED | raw 49,999 chars" in out
    assert "- USER.md: MISSING" in out
    assert "Near the limit: SOUL.md: 49,999 of 20,000 characters" in out
    assert "workspace files  " in out


def test_detail_shows_every_section(home, capsys):
    run(["context", "detail"])
    out = capsys.readouterr().out
    assert "- Safety [stable]: " in out
    assert "- Runtime [volatile]: " in out


def test_map_alone_is_a_picture(home, capsys):
    run(["context", "map", "--mode", "none"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Window: ")
    assert [line.split("  ")[0] for line in lines[1:]] == ["instructions", "free"]


@pytest.mark.parametrize("what", ["list", "detail", "map"])
def test_json_is_the_stored_report(home, capsys, what):
    run(["context", what, "--json", "--session", "agent:main:telegram:group:1"])
    document = json.loads(capsys.readouterr().out)
    assert document["sessionKey"] == "agent:main:telegram:group:1"
    assert document["source"] == "estimate"
    soul = next(row for row in document["injectedWorkspaceFiles"] if row["name"] == "SOUL.md")
    assert soul["truncated"]
    assert soul["injectedChars"] <= 20_000 < soul["rawChars"]
    assert len(document["systemPrompt"]["stableSha256"]) == 64


@pytest.mark.parametrize(
    ("encoding", "blocks"), [("utf-8", True), ("ascii", False), ("latin-1", False), (None, False), ("?", False)]
)
def test_bars_fit_the_terminal(encoding, blocks):
    assert _takes_blocks(encoding) is blocks


def test_an_ascii_terminal_gets_no_error(home):
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding="ascii")
    with contextlib.redirect_stdout(screen):
        assert run(["context", "map"]) == 0
    assert b"####" in raw.getvalue()
