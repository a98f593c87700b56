"""The measured report: its figures are the figures of the prompt, and its stored form is the known one."""

from __future__ import annotations

import json
from hashlib import sha256

from msgspec.structs import replace
from tests.prompt import samples
from tests.prompt.test_show import ABOUT, CONTEXT, report

from homarus.core.tools import ToolSpec
from homarus.prompt.build import build
from homarus.prompt.facts import PromptFacts
from homarus.prompt.report import About, Size, measure, schema_text


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
