"""The measured report: its figures are the figures of the prompt, and its stored form is the known one."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.prompt import samples
from tests.prompt.test_show import ABOUT, CONTEXT, report

from homarus.core.tools import ToolSpec
from homarus.prompt.build import build
from homarus.prompt.facts import PromptFacts
from homarus.prompt.report import About, Size, keep, last_run, measure, recall, schema_text
from homarus.prompt.show import detail_lines, list_lines, map_lines


def test_sizes_are_those_of_the_texts():
    prompt = build(samples.main())
    measured = measure(prompt, About(), tools=samples.TOOLS, carrier="x" * 40)
    assert measured.system == Size.of(prompt.system.text)
    assert measured.stable.chars + 2 + measured.session.chars == measured.system.chars
    assert measured.turn == Size(40, 10)
    assert measured.stable_sha256 == sha256(prompt.system.stable.encode()).hexdigest()
    assert measured.total == measured.system + measured.tool_schemas + measured.turn
    assert [row.size.chars for row in measured.sections if row.tier == "session"] == [measured.session.chars]
    assert measured.project.chars == len(prompt.system.stable) - prompt.system.stable.index("# Project Context")


def test_the_prefix_digest_tells_a_changed_file_from_a_changed_turn():
    main = samples.main()
    other_turn = replace(main, turn=replace(main.turn, today="Monday"))
    other_file = replace(main, stable=replace(main.stable, files=main.stable.files[1:]))
    digests = [measure(build(facts), About()).stable_sha256 for facts in (main, other_turn, other_file)]
    assert digests[0] == digests[1] != digests[2]


def test_schemas_are_counted_as_they_are_sent_and_in_the_fixed_order():
    tools = [ToolSpec("zoo", "Z.", {"type": "object"}), ToolSpec("read", "R.", {"b": 1, "a": 2})]
    text = schema_text(tools)
    assert text == (
        '{"name":"read","description":"R.","parameters":{"b":1,"a":2}}'
        '{"name":"zoo","description":"Z.","parameters":{"type":"object"}}'
    )
    assert measure(build(PromptFacts(samples.STABLE)), About(), tools=tools).tool_schemas.chars == len(text)


def test_stored_form():
    document = json.loads(json.dumps(report().to_json()))
    assert document["source"] == "estimate"
    assert document["sessionKey"] == "agent:main:main"
    assert document["bootstrapTotalMaxChars"] == 150_000
    assert document["sandbox"] == {"mode": "off", "sandboxed": False}
    prompt = document["systemPrompt"]
    assert prompt["chars"] == prompt["projectContextChars"] + prompt["nonProjectContextChars"]
    first = document["injectedWorkspaceFiles"][0]
    known = {"name": "AGENTS.md", "path": "/w/AGENTS.md", "missing": False, "rawChars": 1234}
    assert known.items() <= first.items()
    assert first["injectedChars"] == 1200
    assert document["skills"]["entries"][0]["name"] == "daily-review"
    assert document["tools"]["entries"][0].keys() >= {"name", "summaryChars", "schemaChars", "propertiesCount"}
    assert document["nearLimit"] == list(CONTEXT.near_limit)
    assert document["omittedFiles"] == 2


def test_skills_are_read_from_the_listing_as_it_is_shown():
    listing = (
        "<available_skills><skill><name>b &amp; c</name></skill>\n<skill>\n<name> d </name></skill><skill></skill>"
    )
    prompt = build(PromptFacts(replace(samples.STABLE, skills=listing)))
    assert [(row.name, row.block_chars) for row in measure(prompt, ABOUT).skill_rows] == [("b & c", 37), ("d", 32)]


# As a row of OpenClaw's index has it.
FOREIGN = {
    "source": "run",
    "generatedAt": 1_771_000_000_000,
    "sessionKey": "agent:main:main",
    "provider": "anthropic",
    "model": "claude-x",
    "workspaceDir": "/w",
    "bootstrapMaxChars": 20_000,
    "sandbox": {"mode": "off", "sandboxed": False},
    "systemPrompt": {"chars": 9_000, "projectContextChars": 4_000, "nonProjectContextChars": 5_000},
    "injectedWorkspaceFiles": [
        {"name": "SOUL.md", "path": "/w/SOUL.md", "missing": False, "rawChars": 30_000, "injectedChars": 20_000,
         "truncated": True, "new": 1}
    ],
    "skills": {"promptChars": 100, "entries": [{"name": "gh", "blockChars": 100}]},
    "tools": {
        "listChars": 50,
        "schemaChars": 900,
        "entries": [{"name": "read", "summaryChars": 5, "schemaChars": 900, "propertiesCount": None}],
    },
}  # fmt: skip


def test_what_is_kept_has_openclaws_fields_and_no_more_than_figures():
    kept = json.loads(json.dumps(keep(report())))
    assert kept["source"] == "run"
    assert {"generatedAt", "sessionId", "sessionKey", "provider", "model", "workspaceDir"} <= kept.keys()
    prompt = kept["systemPrompt"]
    assert prompt["chars"] == prompt["projectContextChars"] + prompt["nonProjectContextChars"]
    first = kept["injectedWorkspaceFiles"][0]
    assert first.keys() == {"name", "path", "missing", "rawChars", "injectedChars", "truncated"}
    assert len(json.dumps(kept)) < 4_000


def test_what_is_kept_can_be_read_again():
    made = report()
    again = recall(json.loads(json.dumps(keep(made))))
    assert again is not None
    assert again.about.source == "run"
    assert (again.system.chars, again.project, again.stable_sha256) == (
        made.system.chars,
        made.project,
        made.stable_sha256,
    )
    assert [row.state for row in again.files] == [row.state for row in made.files]
    assert [row.name for row in again.tool_rows] == [row.name for row in made.tool_rows]
    assert keep(again)["systemPrompt"] == keep(made)["systemPrompt"]


def test_an_openclaw_report_is_shown():
    foreign = json.loads(json.dumps(FOREIGN).replace("null", "2"))
    shown = last_run(foreign, report())
    lines = list_lines(shown)
    assert lines[0] == "Context of agent:main:main with anthropic/claude-x"
    assert "System prompt (run): 9,000 chars (~2,250 tok) (Project Context 4,000 chars (~1,000 tok))" in lines
    assert "- SOUL.md: TRUNCATED | raw 30,000 chars (~7,500 tok) | injected 20,000 chars (~5,000 tok)" in lines
    assert any(line.startswith("  changed since: the next turn's would be ") for line in lines)
    assert "Sections:" not in detail_lines(shown)
    assert map_lines(shown)


@pytest.mark.parametrize("stored", [None, {}, [], "x", 3, FOREIGN, {"systemPrompt": {"chars": "many"}}])
def test_nothing_usable_means_an_estimate(stored):
    now = report()
    assert last_run(stored, now) is now


def test_an_unchanged_prompt_shows_all_its_figures_as_the_runs_own():
    now = report()
    kept = {**keep(now), "generatedAt": 7}
    shown = last_run(kept, now)
    assert (shown.about.source, shown.about.generated_at) == ("run", 7)
    assert shown.sections == now.sections
    assert shown.since is None


def test_a_changed_prompt_shows_the_run_as_it_was():
    now = report()
    before = keep(replace(now, stable_sha256="0" * 64, system=Size(50, 13)))
    shown = last_run(before, replace(now, about=replace(ABOUT, window=1000, session_tokens=99)))
    assert shown.system == Size(50, 13)
    assert shown.since == now.system
    assert (shown.about.window, shown.about.session_tokens) == (1000, 99)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10**9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(FOREIGN)), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(FOREIGN)), json_values))
def test_whatever_a_row_holds_can_be_asked(stored):
    recall(stored)
    recall({**FOREIGN, **stored})
