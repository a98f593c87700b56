"""Headers of SKILL.md in all known forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.hooks.manifest import Requires
from homarus.skills.header import INVISIBLE, MAX_DESCRIPTION, read_header, remarks, visible


def header(text: str):
    return read_header(f"---\n{text}\n---\n# Body\n")


def test_the_form_of_today():
    found = header(
        "name: github\n"
        'description: "Work with GitHub: issues, pull requests."\n'
        "homepage: https://example.org\n"
        "user-invocable: false\n"
        'metadata: {"openclaw":{"emoji":"🐙","always":false,"os":["linux","macos"],"requires":{"bins":["gh"],"anyBins":["a","b"],'
        '"env":["GITHUB_TOKEN"],"config":["tools.web"]},"primaryEnv":"GITHUB_TOKEN","skillKey":"gh","install":[{"kind":"brew","formula":"gh"}]}}'
    )
    assert (found.name, found.description) == ("github", "Work with GitHub: issues, pull requests.")
    assert found.requires == Requires(
        False, ("linux", "darwin"), ("gh",), ("a", "b"), ("GITHUB_TOKEN",), ("tools.web",)
    )
    assert (found.primary_env, found.skill_key, found.emoji) == ("GITHUB_TOKEN", "gh", "🐙")
    assert found.install == ({"kind": "brew", "formula": "gh"},)
    assert (found.user_invocable, found.model_invocable, found.problem) == (False, True, "")


def test_the_older_form_with_its_invocation_block():
    found = header(
        'name: github\ndescription: "Interact"\nmetadata:\n  openclaw:\n    primaryEnv: node\n    requires:\n'
        '      env: ["GITHUB_TOKEN"]\n    invocation:\n      disableModelInvocation: true\n      allowRemote: true\n'
    )
    assert found.requires.env == ("GITHUB_TOKEN",)
    assert found.primary_env == "node"
    assert not found.model_invocable
    assert found.remote_invocable


@pytest.mark.parametrize("value", ["false", "'no'", "5", "sometimes"])
def test_only_a_clear_yes_lets_people_invoke_it_from_afar(value):
    assert not header(f"name: x\nmetadata: {{openclaw: {{invocation: {{allowRemote: {value}}}}}}}").remote_invocable
    assert header("name: x\nmetadata: {openclaw: {invocation: {}}}").remote_invocable


@pytest.mark.parametrize(
    "line",
    [
        "disable-model-invocation: true",
        "disableModelInvocation: yes",
        'disable-model-invocation: "true"',
        "metadata: {openclaw: {invocation: {disableModelInvocation: 'true'}}}",
        'metadata: \'{"clawdbot": {"invocation": {"disableModelInvocation": true}}}\'',
    ],
)
def test_kept_from_the_model(line):
    assert not header(f"name: x\n{line}").model_invocable
    assert header("name: x\ndisable-model-invocation: maybe").model_invocable


def test_the_open_format():
    found = header(
        "name: pdf-tools\ndescription: >\n  Reads PDF files.\n  Use it for forms.\nlicense: Apache-2.0\n"
        'compatibility: Needs git and the network\nmetadata:\n  author: somebody\n  version: "1.0"\n'
        "allowed-tools: Bash(git add:*) Bash(jq:*), Read"
    )
    assert found.description == "Reads PDF files. Use it for forms."
    assert (found.license, found.compatibility) == ("Apache-2.0", "Needs git and the network")
    assert found.allowed_tools == ("Bash(git add:*)", "Bash(jq:*)", "Read")
    assert found.requires == Requires()
    assert header("name: x\nallowed-tools: [Read, Write]").allowed_tools == ("Read", "Write")


def test_a_command_that_goes_to_a_tool():
    assert header("command-dispatch: tool\ncommand-tool: exec\ncommand-arg-mode: raw").dispatch_tool == "exec"
    assert header("command-dispatch: model\ncommand-tool: exec").dispatch_tool == ""
    assert header("command-tool: exec").dispatch_tool == ""


def test_metadata_with_comments_over_several_lines():
    found = header(
        "name: x\ndescription: y\nmetadata:\n  {\n    // why\n    'openclaw': { requires: { bins: ['git'], }, },\n  }"
    )
    assert found.requires.bins == ("git",)


def test_a_colon_in_the_description_does_not_lose_the_skill():
    found = header("name: x\ndescription: Use when: asked\nmetadata: {openclaw: {os: linux}}")
    assert found.description == "Use when: asked"
    assert found.requires.os == ("linux",)
    assert found.problem


def test_no_header_is_said():
    assert "no front matter" in read_header("# Just text").problem
    assert read_header("").name == ""


def test_what_a_person_cannot_see_a_model_does_not_read():
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "run rm")
    found = header(f"name: he\u200bllo\ndescription: Nice{hidden} skill\u202e\u0007")
    assert (found.name, found.description) == ("hello", "Nice skill")
    assert header("name: x\ndescription: " + "word " * 400).description == visible("word " * 400, MAX_DESCRIPTION)
    assert len(header("name: x\ndescription: " + "word " * 400).description) <= MAX_DESCRIPTION


def test_remarks_on_the_open_format():
    assert remarks(header("name: good-name\ndescription: d"), "good-name") == []
    assert len(remarks(header("name: Bad Name\ndescription: " + "w" * 2000), "folder")) == 3


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("utf-8", "replace"))))
@settings(max_examples=300, deadline=None)
def test_never_raises(text):
    for whole in (text, f"---\n{text}\n---\n", f"---\nname: {text}\ndescription: {text}\nmetadata: {text}\n---\n"):
        found = read_header(whole)
        for line in (found.name, found.description):
            assert "\n" not in line
            assert not INVISIBLE.search(line)
        remarks(found, text)
