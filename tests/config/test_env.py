from __future__ import annotations

import pytest

from homarus.config.env import apply_overrides, inline_variables, layered, parse_dotenv, substitute


def fill(value: object, **env: str) -> tuple[object, list]:
    missing: list = []
    return substitute(value, env, lambda path, name: missing.append((path, name))), missing


def test_variables_are_filled_in_text_only() -> None:
    value, missing = fill({"${A}": "${A}", "url": "http://${A}:${B}/", "n": 1, "l": ["${B}", None]}, A="host", B="80")
    assert value == {"${A}": "host", "url": "http://host:80/", "n": 1, "l": ["80", None]}
    assert missing == []


def test_two_dollars_are_one() -> None:
    assert fill("$${A} and ${A}", A="x")[0] == "${A} and x"


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    assert fill("${A}", A="${B}", B="secret")[0] == "${B}"


@pytest.mark.parametrize("text", ["${lower}", "$A", "${A", "${A-B}", "${}"])
def test_other_dollars_are_left_alone(text: str) -> None:
    assert fill(text) == (text, [])


def test_a_missing_or_empty_variable_unsets_that_key_alone() -> None:
    value, missing = fill({"a": "${NO}", "b": {"c": "x${EMPTY}", "d": 1}, "l": ["${NO}", "kept"]}, EMPTY="")
    assert value == {"b": {"d": 1}, "l": ["kept"]}
    assert missing == [(("a",), "NO"), (("b", "c"), "EMPTY"), (("l", 0), "NO")]


def test_dotenv() -> None:
    text = "# c\nA=1\nexport B = two words # note\r\nC=\"q # not\\n\"\nD='$x'\nbad line\nA=3\nE=\nF=a#b\n"
    assert parse_dotenv(text) == {"A": "3", "B": "two words", "C": "q # not\n", "D": "$x", "E": "", "F": "a"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('A=`it\'s "both"`', 'it\'s "both"'),
        ("A=`two\nlines`", "two\nlines"),
        ('A="x # y" # z', "x # y"),
        ("A='x' # z", "x"),
        ("A=x # z", "x"),
        ("A='a\\nb'", "a\\nb"),
        ('A="tab\\tstays"', "tab\\tstays"),
        ("A: yaml", "yaml"),
        ('A="open', '"open'),
        ("A=''", ""),
        ("  export A = x  ", "x"),
    ],
)
def test_forms_of_dotenv(line: str, value: str) -> None:
    assert parse_dotenv(f"# c\r\n{line}\r\nB=1\r\n") == {"A": value, "B": "1"}


def test_dotenv_as_node_reads_it() -> None:
    text = 'A=`it\'s "so"` # ticks\nB=x # note\nC=x#note\nD=\'#1\'#c\nE="#2" # c\nF: yaml\nG.h-i=1\nJ=`two\nlines`\nK=""\nL=#\n'
    assert parse_dotenv(text) == {
        "A": 'it\'s "so"',
        "B": "x",
        "C": "x",
        "D": "#1",
        "E": "#2",
        "F": "yaml",
        "G.h-i": "1",
        "J": "two\nlines",
        "K": "",
        "L": "",
    }


def test_layers_only_fill_gaps() -> None:
    assert layered({"A": "1", "B": ""}, {"A": "2", "B": "2"}, {"B": "3", "C": "3"}) == {"A": "1", "B": "2", "C": "3"}


def test_variables_in_the_file_in_both_forms() -> None:
    document = {"env": {"OLD": "1", "vars": {"NEW": "2", "OLD": "3"}, "shellEnv": {"enabled": True}}}
    assert inline_variables(document) == {"OLD": "3", "NEW": "2"}
    assert inline_variables({"env": 5}) == {}


def test_the_environment_decides_ports_and_fills_in_secrets_by_reference() -> None:
    document = {"gateway": {"port": 1, "auth": {"password": "mine"}}}
    env = {
        "OPENCLAW_GATEWAY_PORT": "19001",
        "OPENCLAW_GATEWAY_TOKEN": "hidden",
        "OPENCLAW_GATEWAY_PASSWORD": "ignored",
        "OPENCLAW_HANDSHAKE_TIMEOUT_MS": "250",
        "OPENCLAW_LOG_LEVEL": "debug",
    }
    apply_overrides(document, env, lambda name, message: pytest.fail(message))
    assert document["gateway"] == {
        "port": 19001,
        "auth": {"password": "mine", "token": {"source": "env", "provider": "default", "id": "OPENCLAW_GATEWAY_TOKEN"}},
        "handshakeTimeoutMs": 250,
    }
    assert document["logging"] == {"level": "debug"}
    assert "hidden" not in str(document)


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "1.5", "９", "9" * 500])
def test_a_bad_port_is_reported_and_changes_nothing(port: str) -> None:
    document: dict = {"gateway": 5}
    bad: list = []
    apply_overrides(document, {"OPENCLAW_GATEWAY_PORT": port}, lambda name, message: bad.append(name))
    assert (document, bad) == ({"gateway": 5}, ["OPENCLAW_GATEWAY_PORT"])
