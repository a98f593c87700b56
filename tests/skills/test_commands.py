"""Skills by name: commands, references, and the text that a model gets."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.skills.helpers import skill

from homarus.skills.commands import command_table, find, instructions, invocation, prompt_for, references, sanitize

TABLE = command_table(
    [
        skill("daily-review"),
        skill("GitHub"),
        skill("hidden", model_invocable=False),
        skill("tool", dispatch_tool="exec"),
    ]
)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("daily-review", "daily_review"),
        ("GitHub", "github"),
        ("a--b!!c", "a_b_c"),
        ("日本語", "skill"),
        ("x" * 40, "x" * 32),
        ("_a_", "a"),
        ("", "skill"),
    ],
)
def test_commands_are_sanitised(name, command):
    assert sanitize(name) == command


def test_a_skill_for_this_machine_alone_has_no_command_on_a_channel():
    skills = [skill("near", remote_invocable=False), skill("far")]
    assert [each.command for each in command_table(skills)] == ["far", "near"]
    assert [each.command for each in command_table(skills, remote=True)] == ["far"]


def test_collisions_are_numbered_and_stay_short():
    made = [skill(name) for name in ("a-b", "a_b", "a.b", "stop", "skill", "y" * 33, "y" * 34)]
    table = {each.skill.name: each.command for each in command_table(reversed(made), reserved=["stop"])}
    assert table == {
        "a-b": "a_b",
        "a.b": "a_b_2",
        "a_b": "a_b_3",
        "stop": "stop_2",
        "skill": "skill_2",
        "y" * 33: "y" * 32,
        "y" * 34: "y" * 30 + "_2",
    }


@given(st.lists(st.text(max_size=50), max_size=20))
def test_commands_are_unique_and_accepted_everywhere(names):
    commands = [each.command for each in command_table([skill(name) for name in names])]
    assert len(set(commands)) == len(commands)
    assert all(re.fullmatch(r"[a-z0-9_]{1,32}", command) for command in commands)


def test_only_what_people_may_invoke_has_a_command():
    assert command_table([skill("a", user_invocable=False)]) == ()
    assert len(command_table([skill("a", "word " * 50)])[0].description) <= 100


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        ("/skill daily-review", "daily-review", ""),
        ("/skill daily_review for   monday\n  - x", "daily-review", "for   monday\n  - x"),
        ("/SKILL GITHUB: list", "GitHub", "list"),
        ("/skill: github list", "GitHub", "list"),
        ("/daily_review today", "daily-review", "today"),
        ("/Daily_Review: today", "daily-review", "today"),
        ("/github\nline", "GitHub", "line"),
        ("  /hidden go", "hidden", "go"),
        ("/skill hidden", "hidden", ""),
    ],
)
def test_invocations(text, name, rest):
    found = invocation(text, TABLE)
    assert (found.skill.name, found.input, found.tool) == (name, rest, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/skill",
        "/skill nothing",
        "/skill ???",
        "/nothing",
        "say /github",
        "/daily-review x",
        "/usr/bin/github",
        "skill github",
    ],
)
def test_other_text_is_no_invocation(text):
    assert invocation(text, TABLE) is None


def test_a_command_may_go_straight_to_a_tool():
    found = invocation("/tool  ls  -l ", TABLE)
    assert (found.tool, found.input) == ("exec", "ls  -l ")


@pytest.mark.parametrize(
    ("text", "names", "left"),
    [
        ("use $github and $daily-review, then $github", ["GitHub", "daily-review"], None),
        ("$daily_review.", ["daily-review"], None),
        ("$GITHUB and $HOME and $PATH", [], None),
        ("cost $5, a$github, $$github, ${github}, $(github)", [], None),
        (r"say \$github", [], "say $github"),
        (r"say \$other and \$HOME", [], None),
        ("$nothing", [], None),
        ("($github)", ["GitHub"], None),
        ("$github-", ["GitHub"], None),
    ],
)
def test_references(text, names, left):
    found = references(text, TABLE)
    assert [each.name for each in found.skills] == names
    assert found.text == (text if left is None else left)


def test_at_most_eight_references():
    table = command_table([skill(f"s{number}") for number in range(12)])
    found = references(" ".join(f"$s{number}" for number in range(12)), table)
    assert [each.name for each in found.skills] == [f"s{number}" for number in range(8)]


@given(st.text())
def test_text_without_known_names_is_left_alone(text):
    assert references(text, ()).text == text
    assert invocation(text, ()) is None
    find(TABLE, text)


def test_the_folder_is_filled_in():
    assert instructions("---\nname: x\n---\n\nRun {baseDir}/go.py\n", "/s/x") == "Run /s/x/go.py"


def test_the_turn_of_an_invoked_skill():
    found = invocation("/github list my issues", TABLE)
    said = prompt_for(found, "---\nname: GitHub\n---\nUse gh.\n")
    assert said.endswith("Use gh.\n\nRequest: list my issues")
    assert "/skills/GitHub/SKILL.md" in said
    assert prompt_for(invocation("/github", TABLE), "x").endswith("Request: (no further input)")
