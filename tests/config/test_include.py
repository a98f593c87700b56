from __future__ import annotations

import os
from pathlib import Path

import pytest


def test_a_file_stands_for_the_object_that_includes_it(home) -> None:
    home.write('{ list: [ { id: "a" } ] }', "agents.json5")
    home.write("[ { agentId: 'a' } ]", "parts/bindings.json5")
    config = home.load('{ agents: { $include: "./agents.json5" }, bindings: { $include: "parts/bindings.json5" } }')
    assert [agent.id for agent in config.agents] == ["a"]
    assert config.get("bindings") == [{"agentId": "a"}]
    assert config.problems == []


def test_later_files_win_and_the_including_file_wins_over_all(home) -> None:
    home.write("{ x: 1, y: 1, z: { k: 1 }, l: [1] }", "a.json5")
    home.write("{ y: 2, z: { m: 2 }, l: [2] }", "b.json5")
    config = home.load('{ s: { $include: ["a.json5", "b.json5"], z: { m: 3 }, l: [3] } }')
    assert config.get("s") == {"x": 1, "y": 2, "z": {"k": 1, "m": 3}, "l": [1, 2, 3]}


def test_names_are_relative_to_the_including_file(home) -> None:
    home.write('{ deep: { $include: "inner.json5" } }', "sub/outer.json5")
    home.write("{ found: true }", "sub/inner.json5")
    assert home.load('{ $include: "sub/outer.json5" }').get("deep.found") is True


def test_variables_and_problems_reach_into_included_files(home) -> None:
    path = home.write("{\n\n  a: '${NOT_THERE}',\n}", "part.json5")
    [problem] = home.load('{ s: { $include: "part.json5" } }').problems
    assert (problem.file, problem.line, problem.key) == (str(path), 3, "s.a")


def refused(home, text: str) -> str:
    config = home.load(text)
    [problem] = [p for p in config.problems if p.severity == "error"]
    assert problem.line > 0
    assert problem.cure
    assert config.get("kept") == 1
    return problem.message


@pytest.mark.parametrize("name", ["../outside.json5", "/etc/passwd", "sub/../../outside.json5"])
def test_includes_stay_in_the_folder(home, name: str) -> None:
    home.folder = home.folder / "state"
    home.file = home.folder / "openclaw.json"
    home.env["OPENCLAW_STATE_DIR"] = str(home.folder)
    home.write("{ leaked: 1 }", "../outside.json5")
    assert "outside" in refused(home, f'{{ kept: 1, s: {{ $include: "{name}" }} }}')


def test_a_link_that_leaves_the_folder_is_refused(home, tmp_path: Path) -> None:
    home.folder = tmp_path / "state"
    home.env["OPENCLAW_STATE_DIR"] = str(home.folder)
    home.write("{ leaked: 1 }", "../secret.json5")
    home.write("{}")
    os.symlink(tmp_path / "secret.json5", home.folder / "link.json5")
    os.symlink(tmp_path, home.folder / "up")
    for name in ("link.json5", "up/secret.json5"):
        config = home.load(f'{{ kept: 1, s: {{ $include: "{name}" }} }}')
        assert [p.severity for p in config.problems] == ["error"]
        assert "leaked" not in str(config.raw)


def test_more_roots_can_be_allowed(home, tmp_path: Path) -> None:
    home.folder = tmp_path / "state"
    home.env["OPENCLAW_STATE_DIR"] = str(home.folder)
    home.write("{ shared: 1 }", "../team/part.json5")
    config = home.load(
        '{ s: { $include: "../team/part.json5" } }', OPENCLAW_INCLUDE_ROOTS=f"{tmp_path}/none:{tmp_path}/team"
    )
    assert (config.get("s.shared"), config.problems) == (1, [])


def test_circles_end(home) -> None:
    home.write('{ b: { $include: "b.json5" } }', "a.json5")
    home.write('{ a: { $include: "a.json5" } }', "b.json5")
    assert "includes itself" in refused(home, '{ kept: 1, $include: "a.json5" }')
    assert "includes itself" in refused(home, '{ kept: 1, s: { $include: "openclaw.json" } }')


def test_depth_and_number_are_bounded(home) -> None:
    for index in range(12):
        home.write(f'{{ n: {{ $include: "{index + 1}.json5" }} }}', f"{index}.json5")
    assert "deeper" in refused(home, '{ kept: 1, s: { $include: "0.json5" } }')
    home.write("{}", "one.json5")
    names = ", ".join(['"one.json5"'] * 101)
    assert "100 files" in refused(home, f"{{ kept: 1, s: {{ $include: [{names}] }} }}")


@pytest.mark.parametrize("value", ["5", "null", "['a.json5', 5]", "''", "'a\\0b'", "'" + "x" * 4096 + "'"])
def test_what_is_no_name_is_refused(home, value: str) -> None:
    home.write("{}", "a.json5")
    assert "file name" in refused(home, f"{{ kept: 1, s: {{ $include: {value} }} }}")


def test_missing_broken_and_odd_files(home) -> None:
    assert "does not exist" in refused(home, '{ kept: 1, s: { $include: "no.json5" } }')
    home.write("{ broken", "broken.json5")
    assert "a colon" in refused(home, '{ kept: 1, s: { $include: "broken.json5" } }')
    os.mkfifo(home.folder / "pipe.json5")
    config = home.load('{ kept: 1, s: { $include: "pipe.json5" } }')
    assert [p.severity for p in config.problems] == ["error"]
    home.write("[1]", "list.json5")
    assert "no object" in refused(home, '{ kept: 1, s: { $include: "list.json5", more: 1 } }')
    home.write(b"{}" + b" " * (2 * 1024 * 1024), "big.json5")
    config = home.load('{ kept: 1, s: { $include: "big.json5" } }')
    assert "larger" in config.problems[0].message
