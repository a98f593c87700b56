"""`homarus prompt` on a home of its own: stdout is the system message and nothing else."""

from __future__ import annotations

import contextlib
import io
import json
import re
from datetime import UTC, datetime

import pytest
from tests.cli.helpers import configure
from tests.fixtures.homes import HOMES, snapshot, unpack
from tests.hooks.helpers import write_hook

from homarus.agent.compose import Composer, PromptRequest
from homarus.agent.toolkit import tool_specs
from homarus.cli.main import run
from homarus.cli.table import COMMANDS
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.clock import ManualClock
from homarus.core.messages import Trust
from homarus.core.prompt import BOUNDARY, CONTEXT_BEGIN
from homarus.core.routes import SessionKey
from homarus.prompt.facts import StableFacts
from homarus.prompt.section import Mode
from homarus.prompt.sections.tooling import command_line


@pytest.fixture
def home(own_home):
    workspace = own_home / ".openclaw" / "workspace"
    workspace.mkdir()
    (workspace / "SOUL.md").write_text("Calm.\n")
    (workspace / "MEMORY.md").write_text("Ada likes tea.\n")
    agents = [{"id": "main"}, {"id": "work", "workspace": str(own_home / "work")}]
    # What this machine has for a sandbox must not show in these tests.
    configure(own_home, json.dumps({"agents": {"defaults": {"sandbox": {"mode": "off"}}, "list": agents}}))
    return own_home


def system_text(home, key: str = "main", **request) -> str:
    env = {"HOME": str(home)}
    config = load_config(resolve_paths(env), env)
    composer = Composer(config, env, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)))
    if request.get("mode") is not Mode.NONE:
        request["tools"] = tool_specs(config, "main")
    wanted = PromptRequest(session=SessionKey.parse(key), trust=Trust.OWNER, chat_type="direct", **request)
    return composer.prompt_for(wanted).prompt.system.text


def test_stdout_is_exactly_the_system_message(home, capsys):
    assert run(["prompt"]) == 0
    out, err = capsys.readouterr()
    assert out == system_text(home)
    assert "Ada likes tea." in out
    assert err == ""


def test_a_pipe_gets_utf8_whatever_the_locale_says(home):
    (home / ".openclaw" / "workspace" / "SOUL.md").write_text("🦞")
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding="ascii")
    with contextlib.redirect_stdout(screen):
        assert run(["prompt"]) == 0
    assert raw.getvalue().decode() == system_text(home)


def test_boundary_adds_the_line_and_nothing_else(home, capsys):
    run(["prompt", "--boundary"])
    marked = capsys.readouterr().out
    assert marked.count(f"\n{BOUNDARY}\n") == 1
    assert marked.replace(f"\n{BOUNDARY}\n", "\n\n") == system_text(home)


def test_turn_prints_the_carrier(home, capsys):
    run(["prompt", "--turn"])
    out = capsys.readouterr().out
    assert out.startswith(f"{CONTEXT_BEGIN}\n## Date\n")
    assert "agent=main" in out


@pytest.mark.parametrize("mode", ["full", "minimal", "none"])
def test_modes(home, capsys, mode):
    run(["prompt", "--mode", mode])
    assert capsys.readouterr().out == system_text(home, mode=Mode(mode))


def test_a_group_sees_no_memory(home, capsys):
    run(["prompt", "--session", "agent:main:telegram:group:42"])
    out = capsys.readouterr().out
    assert "Calm." in out
    assert "likes tea" not in out


def test_another_agent_has_another_home(home, capsys):
    run(["prompt", "--agent", "work"])
    out = capsys.readouterr().out
    assert f"Working directory: {home}/work" in out
    assert "Calm." not in out


def test_json(home, capsys):
    run(["prompt", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["text"] == system_text(home)
    assert f"{document['aboveBoundary']}\n\n{document['belowBoundary']}" == document["text"]
    assert document["mode"] == "full"
    assert document["session"] == "agent:main:main"
    assert {section["tier"] for section in document["sections"]} == {"stable", "session", "volatile"}


def test_a_sandbox_that_cannot_be_had_is_a_warning_and_no_part_of_the_prompt(home, capsys):
    config = {"agents": {"defaults": {"sandbox": {"backend": "podman"}}}}
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    assert run(["prompt"]) == 0
    out, err = capsys.readouterr()
    assert "## Sandbox" not in out
    assert "warning: sandbox.backend 'podman' is not supported" in err


def test_an_unknown_agent_is_named_with_those_there_are(home, capsys):
    assert run(["prompt", "--agent", "ghost"]) == 1
    assert (
        "there is no agent 'ghost' (agents are: main, work; 'homarus agents add' makes one)" in capsys.readouterr().err
    )


def test_agent_and_session_must_agree(home, capsys):
    assert run(["prompt", "--agent", "work", "--session", "agent:main:main"]) == 2
    assert "belongs to agent 'main'" in capsys.readouterr().err


@pytest.mark.parametrize("what", [("prompt",), ("context",), ("context", "map")])
def test_a_session_that_is_not_there_is_no_name_for_one_that_would_be(home, capsys, what):
    assert run([*what, "--session", "nosuch"]) == 1
    assert "no session 'nosuch' ('homarus sessions list --all' shows them all)" in capsys.readouterr().err
    assert run([*what, "--session", "agent:main:telegram:group:7"]) == 0
    assert "there is no session agent:main:telegram:group:7 yet; so it would begin" in capsys.readouterr().err
    assert run([*what, "--session", "main"]) == 0
    assert "no session" not in capsys.readouterr().err


def test_a_session_is_found_by_what_it_is_called(home, capsys):
    folder = home / ".openclaw" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    row = {"sessionId": "4f0c2a91-0000-4000-8000-000000000001", "updatedAt": 1, "label": "The Lamps"}
    (folder / "sessions.json").write_text(json.dumps({"agent:main:explicit:lamps": row}))
    for name in ("lamps", "the lamps", "4f0c", "4f0c2a91"):
        assert run(["prompt", "--json", "--session", name]) == 0
        assert json.loads(capsys.readouterr().out)["session"] == "agent:main:explicit:lamps"


def test_a_bad_session_key_is_refused(home, capsys):
    assert run(["prompt", "--session", "agent:"]) == 1
    assert "is not a session key" in capsys.readouterr().err


@pytest.mark.parametrize("name", HOMES)
def test_real_homes_are_only_read(name, tmp_path, monkeypatch, capsys):
    real = unpack(name, tmp_path)
    for key, value in real.env.items():
        monkeypatch.setenv(key, value)
    before = snapshot(real.root)
    assert run(["prompt"]) == 0
    assert run(["context", "detail"]) == 0
    assert str(real.workspace) in capsys.readouterr().out
    assert snapshot(real.root) == before


def test_commands_that_the_prompt_names_exist():
    named = set(re.findall(r"`homarus ([a-z]+)", command_line(StableFacts(workspace="/w"))))
    assert named
    assert named <= set(COMMANDS)


def test_the_hooks_are_those_of_the_process_whoever_speaks(home, capfdbinary):
    code = "def handle(event):\n    event.context['bootstrapFiles'].append({'name': 'X.md', 'path': 'X.md', 'content': %r})\n"
    metadata = 'openclaw: {"events": ["agent:bootstrap"]}'
    write_hook(home / ".openclaw" / "workspace" / "hooks", "mine", metadata=metadata, code=code % "FROM MAIN")
    write_hook(home / "work" / "hooks", "mine", metadata=metadata, code=code % "FROM WORK")
    config = json.loads((home / ".openclaw" / "openclaw.json").read_text())
    configure(home, json.dumps({**config, "hooks": {"internal": {"entries": {"mine": {"enabled": True}}}}}))
    assert run(["prompt", "--agent", "work"]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert "FROM MAIN" in shown
    assert "FROM WORK" not in shown
