"""What the program tells people to type can be typed: every command and option that a text in the source names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.tree import every_command
from tests.sessions.lines import header, jsonl, user

import homarus
from homarus.cli.main import run

SOURCE = Path(homarus.__file__).parent
_QUOTED = re.compile(r"['`]homarus ([^'`\n]+)['`]")
_PLAIN = re.compile(r"homarus ((?:[a-z][a-z-]*)(?: [^'`\"\n|]*)?)")
COMMANDS = {" ".join(path): command for path, command in every_command()}
GROUPS = {" ".join(path.split()[:length]) for path in COMMANDS for length in range(1, len(path.split()))}
LIMIT = 4  # words of the longest path, and one more


def texts(path: Path) -> Iterator[str]:
    """Yield the strings of a file; what is filled in stands as X."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def split(line: str) -> tuple[str, list[str]]:
    """Return the command that a line calls and the words behind it."""
    words = line.split()
    known = [" ".join(words[:length]) for length in range(min(LIMIT, len(words)), 0, -1)]
    path = next((each for each in known if each in COMMANDS or each in GROUPS), "")
    return path, words[len(path.split()) :]


def options(command: click.Command) -> set[str]:
    return {"--help", "-h", *(name for each in command.params for name in (*each.opts, *each.secondary_opts))}


def wrong(text: str) -> Iterator[str]:
    for line in _QUOTED.findall(text):
        path, rest = split(line)
        if not path and re.match(r"[a-z]+( |\Z)", line):
            yield f"there is no command: homarus {line}"
        if path in GROUPS and path not in COMMANDS and rest and re.fullmatch("[a-z]+", rest[0]):
            yield f"there is no sub-command: homarus {line}"
    for line in [*_QUOTED.findall(text), *_PLAIN.findall(text)]:
        path, rest = split(line)
        for word in rest if path in COMMANDS else ():
            if re.match("--[a-z]", word) and word.partition("=")[0].rstrip(".,;:)]") not in options(COMMANDS[path]):
                yield f"there is no option {word}: homarus {line}"


def test_whatever_people_are_told_to_type_is_there() -> None:
    found = {f"{path.name}: {each}" for path in SOURCE.rglob("*.py") for text in texts(path) for each in wrong(text)}
    assert not found, "\n".join(sorted(found))


def test_what_is_not_there_is_found() -> None:
    assert list(wrong("run 'homarus models auth add X'")) == ["there is no sub-command: homarus models auth add X"]
    assert list(wrong("run 'homarus modles'")) == ["there is no command: homarus modles"]
    assert list(wrong("'homarus agent --session-key X' continues it")) != []
    assert list(wrong("see homarus agent --json, or 'homarus sessions resume X --agent main'")) == []


WITH_A_PROFILE = [
    ((), "homarus --profile yy onboard"),
    (("setup",), "homarus --profile yy doctor"),
    (("onboard", "--non-interactive"), "homarus --profile yy chat"),
    (("doctor",), "run 'homarus --profile yy setup'"),
    (("sessions", "show", "nope"), "'homarus --profile yy sessions list --all' shows them all"),
    (("sessions", "resume"), "'homarus --profile yy sessions list --all' shows them"),
    (("sessions", "list"), "'homarus --profile yy agent -m hello' starts one"),
    (("agents", "add", "otto"), "next: homarus --profile yy agents bind otto CHANNEL"),
]


@pytest.mark.parametrize(("words", "told"), WITH_A_PROFILE)
def test_what_people_are_told_to_type_leads_to_the_home_they_are_in(
    words: tuple[str, ...], told: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["--profile", "yy", *words])
    said = "".join(capsys.readouterr())
    assert told in said
    assert not re.search("homarus (onboard|setup|chat|agent|agents|doctor|sessions list)", said)


def test_a_configuration_that_was_named_is_named_again(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_home / "a b.json"
    path.write_text("{}")
    run(["--config", str(path), "sessions", "show", "nope"])
    assert f"homarus --config '{path}' sessions list --all" in capsys.readouterr().err
    run(["sessions", "show", "nope"])
    assert "'homarus sessions list --all'" in capsys.readouterr().err


def test_what_others_wrote_is_shown_as_it_is(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions = own_home / ".openclaw-yy/agents/main/sessions"
    sessions.mkdir(parents=True)
    (sessions / "s1.jsonl").write_bytes(jsonl(header("s1"), user("a", None, "what does homarus chat do?")))
    run(["--profile", "yy", "sessions", "show", "s1"])
    assert "what does homarus chat do?" in capsys.readouterr().out
