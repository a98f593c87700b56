from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fixtures.homes import HOMES, unpack

import homarus
from homarus.config.blocks import BLOCKS, build_schema, described, load_block, validate
from homarus.config.redact import MARKER
from homarus.config.report import as_json, has_errors, ordered, table_rows
from homarus.core.errors import HomarusError


@pytest.mark.parametrize("path", sorted(BLOCKS))
def test_every_block_has_a_class_with_defaults(path: str) -> None:
    into = load_block(path)
    assert issubclass(into, msgspec.Struct)
    assert msgspec.convert({}, into) == into()


def test_every_block_is_checked_and_problems_are_placed(load) -> None:
    config = load(
        """{
  env: { vars: { A: 5 } },
  messages: { queue: { cap: "many" } },
  agents: { entries: { a: { sandbox: { mode: "maybe" } } } },
  secrets: { providers: { p: { source: "moon" } } },
}"""
    )
    found = {(p.key, p.line) for p in validate(config)}
    assert {("env.vars.A", 2), ("messages.queue.cap", 3), ("agents.entries.a.sandbox.mode", 4)} <= found
    assert ("secrets.providers.p", 5) in found
    assert has_errors(config.problems)


def test_a_rule_that_names_no_tool_is_mentioned_where_it_stands(load) -> None:
    config = load(
        """{
  tools: { allow: ["read", "wrote", "group:fs", "Bash", "memory_*"], sandbox: { tools: { deny: ["xyz_*"] } } },
  agents: { entries: { a: { tools: { deny: ["browser", "shel"] } } } },
  channels: { telegram: { groups: { "7": { tools: { allow: ["wreb_*"] } } } } },
}"""
    )
    found = [(p.key, p.line, p.message) for p in validate(config) if "names no tool" in p.message]
    assert [(key, line) for key, line, _ in found] == [
        ("tools.allow", 2),
        ("tools.sandbox.tools.deny", 2),
        ("agents.entries.a.tools.deny", 3),
        ("channels.telegram.groups.7.tools.allow", 4),
    ]
    assert [message.split("'")[1] for _, _, message in found] == ["wrote", "xyz_*", "shel", "wreb_*"]
    assert not has_errors(config.problems)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('{ agents: { defaults: { sandbox: { mode: "al" } } } }', "the strictest reading of its block holds"),
        ("{ agents: { defaults: { sandbox: { memoryMb: -1 } } } }", "the strictest reading of its block holds"),
        ('{ skills: { entries: { pdf: { enabled: "noo" } } } }', "the strictest reading of its block holds"),
        ("{ skills: { entries: { pdf: 5 } } }", "the strictest reading of its block holds"),
        ("{ skills: { load: { watch: [] } } }", "the default is used"),
        ('{ messages: { queue: { cap: "many" } } }', "the default is used"),
    ],
)
def test_what_holds_instead_of_a_bad_value_is_said(load, text: str, holds: str) -> None:
    [problem] = validate(load(text))
    assert problem.cure == f"correct the value or remove the key; {holds} until then"


def test_a_marker_in_the_file_is_an_error(load) -> None:
    [problem] = [p for p in validate(load(f'{{ a: {{ b: ["{MARKER}"] }} }}')) if p.severity == "error"]
    assert problem.key == "a.b[0]"


@pytest.mark.parametrize("name", HOMES)
def test_the_real_homes_are_valid(name: str, home, tmp_path) -> None:
    real = unpack(name, tmp_path)
    home.env = real.env
    assert {problem.severity for problem in validate(home.load())} <= {"info"}


def test_problems_as_rows_and_as_data(load) -> None:
    config = load('{\n messages: { queue: { cap: "many" } },\n logging: "${NOT_SET}",\n}')
    problems = validate(config)
    assert [p.severity for p in ordered(problems)] == ["error", "warning"]
    rows = table_rows(problems, home=str(config.paths.home))
    assert rows[0][:3] == ("error", "~/openclaw.json:2", "messages.queue.cap")
    assert as_json(problems)[1]["line"] == 3


def test_the_schema_of_everything_and_of_a_part() -> None:
    whole = build_schema()
    assert {"agents", "env", "secrets", "messages"} <= whole["properties"].keys()
    assert "sandbox" in whole["properties"]["agents"]["properties"]["entries"]["additionalProperties"]["properties"]
    part = build_schema("messages.queue")
    assert part["type"] == "object"
    assert "cap" in part["properties"]
    assert "$defs" not in part
    assert build_schema("secrets.providers.any.timeoutMs")["maximum"] == 120_000
    assert "bootstrapMaxChars" in build_schema("agents.defaults")["properties"]
    assert build_schema("agents.entries.work.sandbox.mode")["enum"]
    with pytest.raises(HomarusError, match="no schema"):
        build_schema("messages.queue.nothing")


def test_the_schema_says_what_a_key_is_for() -> None:
    assert "port" in build_schema("gateway.port")["description"]
    # An agent's own entry has the same words, and so has an account of a channel.
    own = build_schema("agents.entries.work.timeoutSeconds")["description"]
    assert own == build_schema("agents.defaults.timeoutSeconds")["description"]
    assert build_schema("channels.telegram.accounts.work.dmPolicy")["description"]


def keys_at(place: str) -> dict[str, Any]:
    """Return the keys of the object at a place, also where something else may stand there instead."""
    found = build_schema(place.replace("*", "any"))
    either = [part["$ref"].rpartition("/")[2] for part in found.get("anyOf", ()) if "$ref" in part]
    return found["properties"] if not either else found["$defs"][either[0]]["properties"]


def test_every_description_is_of_a_key_that_is_read() -> None:
    for place, below in described().items():
        assert below.keys() <= keys_at(place).keys(), place
        assert all(text.endswith(".") and "\n" not in text for text in below.values()), place


def test_an_object_whose_keys_are_described_has_all_of_them_described() -> None:
    """Objects within it may be left out: their keys stand below a name of their own."""
    for place in described():
        missing = [
            key
            for key, row in keys_at(place).items()
            if not row.get("description") and row.get("type") in ("string", "integer", "number", "boolean", "array")
        ]
        assert missing == [], place


def test_a_key_written_twice_is_mentioned(load) -> None:
    [problem] = validate(load("{\n env: { vars: 1,\n  vars: {} } }"))
    assert (problem.severity, problem.line, problem.key) == ("warning", 3, "env.vars")


def test_every_block_that_the_program_reads_is_in_the_table() -> None:
    known = {line.partition(":")[2] for line in BLOCKS.values()}
    read = set()
    for path in (Path(homarus.__file__).parent).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "block":
                read |= {
                    (path.name, arg.id) for arg in node.args[1:2] if isinstance(arg, ast.Name) and arg.id != "into"
                }
    assert len(read) > 20
    assert {(file, name) for file, name in read if name not in known} == set(), "add a line to BLOCKS"


def test_two_owners_of_one_object_are_both_checked_and_know_each_others_keys(load) -> None:
    config = load(
        "{ agents: { defaults: { skipBootstrap: true, timeoutSeconds: 'soon', contextTokens: 'many', resume: 'maybe' } } }"
    )
    found = {problem.key: problem.message for problem in validate(config)}
    assert found == {
        "agents.defaults.timeoutSeconds": "must be a number, not text",
        "agents.defaults.contextTokens": "must be a whole number or null, not text",
        "agents.defaults.resume": "'maybe' is none of continue, end",
    }
    schema = build_schema("agents.defaults")
    assert {"workspace", "timeoutSeconds", "contextTokens"} <= set(schema["properties"])


@pytest.mark.parametrize(
    "key",
    ["agents", "agents.defaults", "agents.list", "bindings", "channels", "gateway", "hooks", "messages", "plugins"],
)
def test_a_value_where_a_whole_part_should_be_is_said(key: str, load) -> None:
    text = "5"
    for step in reversed(key.split(".")):
        text = f"{{ {step}: {text} }}"
    assert key in {problem.key for problem in validate(load(text)) if problem.severity == "error"}
