"""The examples name commands, options and variables that exist."""

import shlex
from pathlib import Path

import click
import yaml

from homarus.cli.fleet import command
from homarus.fleet.settings import _VARIABLES

FOLDER = Path(__file__).parent.parent.parent / "examples" / "fleet"


def parses(words: list[str]) -> None:
    named = command.commands[words[0]]
    named.make_context(words[0], words[1:], resilient_parsing=False, parent=click.Context(command))


def test_the_compose_file_calls_what_there_is():
    found = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services = {name: each for name, each in found["services"].items() if name != "postgres"}
    assert {"tables", "worker-1", "worker-2", "edge"} <= set(services)
    for each in services.values():
        parses(each["command"])
        assert set(each["environment"]) <= set(_VARIABLES.values())
        assert len(each["environment"]["HOMARUS_FLEET_SECRET"]) >= 24


def test_the_units_call_what_there_is():
    for name in ("worker", "edge"):
        text = (FOLDER / f"homarus-{name}.service").read_text()
        line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
        words = shlex.split(line.removeprefix("ExecStart="))
        assert words[:3] == ["/opt/homarus/bin/homarus", "fleet", name]
        parses(words[2:])
