"""Every skill that comes with the program: listed where its programs are, read in a turn, and called by name."""

from pathlib import Path

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

import homarus.skills as package
from homarus.core.messages import ToolResult
from homarus.skills.header import read_header

FILES = sorted((Path(package.__file__).parent / "bundled").glob("*/SKILL.md"))
OFF = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.parent.name)
async def test_a_bundled_skill_in_a_turn(file: Path, tmp_path: Path) -> None:
    header = read_header(file.read_text())
    assert header.name == file.parent.name
    assert not header.problem
    assert "Use " in header.description
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in header.requires.bins:
        (programs / program).write_text("#!/bin/sh\n")
        (programs / program).chmod(0o755)
    house = House(tmp_path, Line(calls=(("read", {"path": str(file)}),)), "followed it", "called", config=OFF)
    house.env["PATH"] = f"{programs}:{house.env['PATH']}"
    async with house.agent() as agent:
        assert (await agent.ask("please")).text == "followed it"
        assert (f"<name>{header.name}</name>" in house.model.requests[0].system.text) is header.model_invocable
        (result,) = (message for message in house.model.requests[1].messages if isinstance(message, ToolResult))
        assert not result.is_error
        assert header.name in result.text
        await agent.ask(f"/skill {header.name} now")
    assert file.read_text().strip().splitlines()[-1] in house.model.prompts[2]
