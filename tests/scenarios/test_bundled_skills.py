"""Every skill that comes with the program: listed where its programs are, read in a turn, and called by name."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

import homarus.skills as package
from homarus.core.messages import ToolResult
from homarus.hooks.manifest import Facts
from homarus.skills.discover import standard_roots
from homarus.skills.gate import Gate, judge
from homarus.skills.header import read_header
from homarus.skills.library import discover
from homarus.skills.settings import SkillSettings

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


# What is on every machine that this program runs on, and what comes in one package with a program that a skill asks for.
WORDS = "du find grep head homarus ls mv python3 rsync sed sha256sum sort ss tail uniq"
EVERYWHERE = frozenset(WORDS.split())
BESIDE = {"pdftotext": {"pdfinfo", "pdftoppm", "pdfunite", "pdfseparate"}}
CODE = re.compile(r"`([^`\n]+)`")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.parent.name)
async def test_what_a_bundled_skill_names_exists_or_its_gate_asks_for_it(file: Path, tmp_path: Path) -> None:
    needs = read_header(file.read_text()).requires
    there = {*EVERYWHERE, *needs.bins, *needs.any_bins}.union(*(BESIDE.get(each, set()) for each in needs.bins))
    house = House(tmp_path, config=OFF)
    async with house.agent() as agent:
        await agent.ask("hello")
    tools = {tool.name for tool in house.model.requests[0].tools}
    for code in CODE.findall(file.read_text()):
        if re.fullmatch(r"[a-z]+_[a-z_]+", code):
            assert code in tools, code
        elif re.match(r"[a-z0-9]+ (-|[a-z]+ )", code):
            for step in re.split(r"\\?\|", code):
                assert step.split()[0] in there | tools, code


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.parent.name)
def test_a_bundled_skill_whose_programs_are_missing_says_which(file: Path) -> None:
    skill = next(each for each in discover(standard_roots()).skills if each.file == str(file))
    verdict = judge(skill, Gate(SkillSettings(), Facts("linux", {}, lambda _program: False, lambda _setting: None)))
    assert verdict.eligible is (not skill.header.requires.bins)
    assert all(f"needs {program} on PATH" in str(verdict.steps) for program in skill.header.requires.bins)


def test_the_program_that_the_skill_for_tables_shows_counts_right(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('month,amount\nMay,"1.000,50"\nMay,"2,50"\nJune,7\n')
    text = next(file for file in FILES if file.parent.name == "csv").read_text()
    program = textwrap.dedent(text.split("```")[1]).split("<<'PY'\n")[1].split("\nPY")[0]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "{'May': 1003.0, 'June': 7.0}" in done.stdout
