"""Whatever was written into a home, no command lets it reach the terminal's own language."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from tests.cli.tree import every_command
from tests.sessions.lines import header, jsonl, result, says, user

from homarus.cli.main import run
from homarus.cli.output import Output, problem_line

# The clipboard (OSC 52), a device string, C1 forms of both, a cleared screen, hidden text, and writing that turns round.
HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07\x1bPq#0\x1b\\\x9d52;c;eA==\x9c\x90q\x9c\x9b2J\x1b[2J\x1b[8m\x1b[31;47m\x08\x7f\r\x85"
    "\u202eevil\u202c\u2066x\u2069\u200f\u061c\u2028\ufeff\U000e0041"
)
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
# What asks at the keyboard, opens an editor, downloads, serves or measures for minutes.
ELSEWHERE = {("chat",), ("onboard",), ("configure",), ("config", "edit"), ("demo",), ("models", "pull"), ("memory", "bench"),
             ("memory", "export-minilm"), ("sandbox", "probe"), ("models", "test"), ("gateway", "run")}  # fmt: skip
WORDS = {
    "path": "agents.list", "agent": f"a{HOSTILE}", "channel": f"c{HOSTILE}", "name": f"n{HOSTILE}", "alias": f"x{HOSTILE}", "model": f"m/{HOSTILE}",
    "session": "main", "query": "lamp", "citation": "memory/2026-05-01.md", "ident": f"i{HOSTILE}", "request": f"q{HOSTILE}", "device": f"d{HOSTILE}", "rule": f"r{HOSTILE}", "shell": "bash",
    "source": f"s{HOSTILE}", "archive": f"b{HOSTILE}", "plugin_id": f"p{HOSTILE}", "folder": f"f{HOSTILE}", "method": f"m{HOSTILE}", "fact": f"k{HOSTILE}", "entity": f"e{HOSTILE}",
    "job": f"j{HOSTILE}", "text": f"t{HOSTILE}", "sender": f"s{HOSTILE}", "code": f"c{HOSTILE}", "who": f"w{HOSTILE}", "message_id": f"i{HOSTILE}", "question": f"q{HOSTILE}",
    "target": f"t{HOSTILE}", "node": f"n{HOSTILE}", "message": f"m{HOSTILE}", "emoji": f"e{HOSTILE}", "home": f"h{HOSTILE}", "worker": f"w{HOSTILE}",
}  # fmt: skip


@pytest.fixture
def hostile(own_home: Path) -> Path:
    """Return a home in which everything that somebody else may have written is hostile."""
    state = own_home / ".openclaw"
    sessions = state / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    rows = [
        user("a", None, f"find the lamp {HOSTILE}"),
        says(
            "b", "a", f"it is upstairs, the lamp {HOSTILE}", calls=["k1"], model=f"m{HOSTILE}", provider=f"p{HOSTILE}"
        ),
        result("c", "b", "k1", f"lamp.txt {HOSTILE}\nline two {HOSTILE}"),
        says("d", "c", f"done {HOSTILE}", errorMessage=f"failed {HOSTILE}", stopReason="error"),
    ]
    rows[1]["message"]["content"][1]["arguments"] = {"path": HOSTILE}
    (sessions / "s1.jsonl").write_bytes(jsonl(header("s1", cwd=f"/w{HOSTILE}"), *rows))
    row = {
        "sessionId": "s1",
        "updatedAt": 1_777_000_000_000,
        "label": f"lamps {HOSTILE}",
        "model": f"m{HOSTILE}",
        "displayName": HOSTILE,
    }
    (sessions / "sessions.json").write_text(json.dumps({"agent:main:main": row, f"agent:main:x{HOSTILE}": row}))
    workspace = state / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "2026-05-01.md").write_text(f"# lamp {HOSTILE}\n\nThe lamp is upstairs {HOSTILE}.\n")
    (workspace / "MEMORY.md").write_text(f"The lamp {HOSTILE} is red.\n")
    (workspace / "SOUL.md").write_text(f"Be kind {HOSTILE}.\n")
    (workspace / "IDENTITY.md").write_text(f"- **Name:** Ada{HOSTILE}\n")
    skill = workspace / "skills" / "evil"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: evil\ndescription: does {json.dumps(HOSTILE)}\n---\n{HOSTILE}\n")
    (state / "openclaw.json").write_text(
        json.dumps(
            {
                "agents": {
                    "list": [
                        {"id": "main", "name": f"Main {HOSTILE}", "identity": {"name": HOSTILE, "emoji": HOSTILE}}
                    ],
                    "defaults": {"model": {"primary": f"prov/m{HOSTILE}"}},
                },
                "models": {
                    "providers": {
                        f"prov{HOSTILE}": {
                            "baseUrl": f"http://127.0.0.1:9/{HOSTILE}",
                            "api": HOSTILE,
                            "models": [{"id": HOSTILE}],
                        }
                    }
                },
                f"unknown{HOSTILE}": HOSTILE,
            }
        )
    )
    return own_home


def _lines(path: tuple[str, ...], required: list[str], *, as_json: bool) -> list[str]:
    return [*path, *(WORDS[name] for name in required), *(["--json"] if as_json else [])]


CASES = [
    pytest.param(path, [p.name for p in command.params if p.required], as_json, id=f"{' '.join(path)}{' --json' * as_json}")
    for path, command in every_command()
    if path not in ELSEWHERE
    for as_json in (False, True)
    if not as_json or any("--json" in p.opts for p in command.params)
]  # fmt: skip


@pytest.mark.parametrize(("path", "required", "as_json"), CASES)
def test_no_command_prints_what_a_terminal_obeys(
    path: tuple[str, ...],
    required: list[str],
    as_json: bool,
    hostile: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(hostile)  # some commands write where they are called
    words = _lines(path, required, as_json=as_json)
    if path == ("agent",):
        words += ["-m", "hello", "--model", "builtin/notebook"]
    run(words)
    shown = capfd.readouterr()
    # The prompt is given to a pipe byte for byte: it is what a model is told.
    if path != ("prompt",) or as_json:
        assert not OBEYED.search(shown.out), repr(shown.out[:2000])
    assert not OBEYED.search(shown.err), repr(shown.err[:2000])
    assert shown.out or shown.err


@pytest.mark.parametrize(
    "words",
    [
        ["sessions", "show", "--full", "--ids"],
        ["sessions", "show", "--branches", "--full"],
        ["sessions", "export", "--format", "html"],
        ["sessions", "export", "--format", "json"],
        ["sessions", "show", f"s{HOSTILE}"],
        [f"bogus{HOSTILE}"],
        ["sessions", "list", f"--bogus{HOSTILE}"],
        ["config", "get", f"agents.{HOSTILE}"],
        ["memory", "get", f"memory/{HOSTILE}.md"],
    ],
)
def test_neither_do_their_options_and_refusals(
    words: list[str], hostile: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(words)
    shown = capfd.readouterr()
    assert not OBEYED.search(shown.out + shown.err), repr((shown.out + shown.err)[:2000])


def test_our_own_colours_pass_and_nobody_elses(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(color=True, env={"FORCE_COLOR": "1"})
    out.line(out.style(f"red {HOSTILE}", "red", "bold"))
    shown = capsys.readouterr().out
    assert shown.startswith("\x1b[31;1mred ")
    assert shown.endswith("\x1b[0m\n")
    assert not OBEYED.search(shown.replace("\x1b[31;1m", "").replace("\x1b[0m", ""))


def test_json_keeps_every_character_by_escaping_it(capsys: pytest.CaptureFixture[str]) -> None:
    Output(color=False, env={}).json({"text": HOSTILE})
    assert json.loads(capsys.readouterr().out) == {"text": HOSTILE}


def test_what_went_wrong_is_told_without_keys() -> None:
    line = problem_line("401: Incorrect API key provided: sk-" + "a1" * 20 + "\x1b[2J\nsee the docs")
    assert line == "homarus: 401: Incorrect API key provided: [redacted] [2J see the docs"


def test_a_table_stays_in_line_whatever_a_cell_holds():
    out = io.StringIO()
    Output(color=False, env={}, out=out).table([("a\nb\x1b[31m", "one"), ("plain", "two")], ("name", "next"))
    assert [
        line.index(word) for line, word in zip(out.getvalue().splitlines(), ("next", "one", "two"), strict=True)
    ] == [9] * 3
