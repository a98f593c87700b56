"""The variables of skills reach the commands of a run, in a sandbox and outside of one, and nobody else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.core.messages import ToolResult
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend

PRINT = (
    "echo url=$LEDGER_URL; echo key=${#LEDGER_KEY}:$LEDGER_KEY; echo path=$PATH; echo preload=$LD_PRELOAD."
    " home=$HOME. keep=$KEEP. process=$PROCESS_ONLY."
)
KEY = "lk-0123456789"
SKILLS = {
    "entries": {
        "ledger": {
            "apiKey": {"source": "env", "id": "WORK_KEY"},
            "env": {
                "LEDGER_URL": "https://ledger.example.org",
                "PATH": "/evil",
                "LD_PRELOAD": "/evil.so",
                "HOME": "/evil",
                "KEEP": "from the entry",
            },
        },
        "absent": {"env": {"LEDGER_URL": "nobody has this skill"}},
    }
}
OUTER = {"WORK_KEY": KEY, "KEEP": "from outside", "PROCESS_ONLY": "leak"}


def house(folder: Path, sandbox: dict[str, Any], *lines: Line | str) -> House:
    defaults = {"sandbox": {"env": ["KEEP"], **sandbox}}
    config = {"skills": SKILLS, "agents": {"defaults": defaults}, "tools": {"exec": {"mode": "full"}}}
    made = House(folder, *lines, config=config)
    made.env |= OUTER
    # As JSON, as most skills in the wild have it.
    made.skill("ledger", metadata='{"openclaw": {"primaryEnv": "LEDGER_KEY", "requires": {"env": ["LEDGER_KEY"]}}}')
    return made


def results(made: House) -> list[str]:
    return [message.text for message in made.model.requests[-1].messages if isinstance(message, ToolResult)]


@pytest.mark.parametrize("backend", ["bwrap", "landlock", "off"])
async def test_commands_of_a_run_have_the_variables_of_its_skills(tmp_path: Path, backend: str) -> None:
    if backend != "off" and not available(Backend(backend)):
        pytest.skip(f"this machine has no {backend}")
    sandbox = {"mode": "off"} if backend == "off" else {"backend": backend}
    made = house(tmp_path, sandbox, Line(calls=(("exec", {"command": PRINT}),)), "done")
    before = dict(os.environ)
    async with made.agent() as agent:
        assert (await agent.ask("go")).ok
    (text,) = results(made)
    assert "url=https://ledger.example.org" in text
    assert f"key={len(KEY)}:[hidden]" in text
    assert "path=/usr/local/sbin:" in text
    assert "preload=." in text
    assert "evil" not in text
    # What a command sees anyway is not replaced, and the rest of our own environment stays outside.
    assert "keep=from outside." in text
    assert "process=." in text
    assert dict(os.environ) == before
    written = b"".join(path.read_bytes() for path in made.state.rglob("*") if path.is_file())
    assert KEY.encode() not in written


async def test_a_skill_that_the_agent_may_not_use_brings_nothing(tmp_path: Path) -> None:
    made = house(tmp_path, {}, Line(calls=(("exec", {"command": PRINT}),)), "done")
    path = made.state / "openclaw.json"
    path.write_text(path.read_text().replace('"defaults": {', '"defaults": {"skills": [], ', 1))
    async with made.agent() as agent:
        assert (await agent.ask("go")).ok
    (text,) = results(made)
    assert "url=\n" in text
    assert "key=0:" in text
