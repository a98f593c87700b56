"""Manifest blocks in all their forms, and the gates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hooks.helpers import facts

from homarus.core.errors import ConfigError
from homarus.core.frontmatter import parse
from homarus.hooks.manifest import Facts, Requires, check, flag, manifest, on_path, requirements, text_of, words


@pytest.mark.parametrize(
    "header",
    [
        'metadata: {"openclaw": {"events": ["a"]}}',
        "metadata:\n  openclaw:\n    events: [a]\n",
        "metadata:\n  clawdbot:\n    events:\n      - a\n",
        "metadata: '{moltbot: {events: [\"a\",], /* why */}}'",
        "metadata:\n  {\n    // a comment makes it no YAML\n    openclaw: { events: ['a'], },\n  }\n",
        "metadata:\n  openclaw: \"{events: ['a']}\"\n",
        "metadata:\n  clawdbot: {events: [b]}\n  openclaw: {events: [a]}\n",
    ],
)
def test_every_known_form_of_the_block(header):
    assert manifest(parse(header).values)["events"] == ["a"]


@pytest.mark.parametrize("value", [None, 3, "text", "{broken", [], {"openclaw": 3}, {"other": {"events": ["a"]}}])
def test_a_block_of_a_wrong_shape_is_empty(value):
    assert manifest({"metadata": value}) == {}


def test_requirements_are_read_leniently():
    block = {
        "always": "true",
        "os": "macOS, linux",
        "requires": {"bins": "git", "anyBins": ["a", 3, " b "], "env": None, "config": ["x.y"]},
    }
    assert requirements(block) == Requires(True, ("darwin", "linux"), ("git",), ("a", "b"), (), ("x.y",))
    assert requirements({"requires": "git"}) == Requires()


def run(needs: Requires, granted=frozenset(), **kwargs) -> dict[str, bool]:
    return {
        f"{step.gate} {step.detail.removeprefix('needs ').split()[0]}": step.ok
        for step in check(needs, facts(**kwargs), granted)
    }


def test_the_gates_in_order():
    needs = Requires(os=("linux",), bins=("git", "gh"), any_bins=("x", "y"), env=("A", "B", "C"), config=("p.q", "r"))
    passed = run(needs, frozenset({"B"}), bins=("git", "y"), env={"A": "1", "C": ""}, config={"p.q": True, "r": 0})
    assert list(passed.items()) == [
        ("os linux,", True),
        ("bins git", True),
        ("bins gh", False),
        ("anyBins one", True),
        ("env A", True),
        ("env B", True),
        ("env C", False),
        ("config p.q", True),
        ("config r", False),
    ]


def test_always_waives_everything_but_the_system():
    assert run(Requires(always=True, os=("darwin",), bins=("git",))) == {"os darwin,": False, "always always": True}
    assert run(Requires(always=True, bins=("git",))) == {"always always": True}


def test_the_browser_counts_as_on_until_turned_off():
    needs = Requires(config=("browser.enabled",))
    assert run(needs) == {"config browser.enabled": True}
    assert run(needs, config={"browser.enabled": False}) == {"config browser.enabled": False}


def test_on_path_finds_executables_only(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "data").write_text("")
    (tmp_path / "folder").mkdir()
    which = on_path(f":/nowhere:{tmp_path}")
    assert which("tool")
    assert not any(
        map(which, ["data", "folder", "missing", "", "a\0b", f"{tmp_path}/tool", "../" + tmp_path.name + "/tool"])
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_nothing_that_a_header_can_hold_raises(value):
    requirements({"always": value, "os": value, "requires": value})
    requirements({"requires": {"bins": value, "anyBins": value, "env": value, "config": value}})
    manifest({"metadata": value})
    assert all(words(value)) or not words(value)
    assert flag(value, default=True) in {True, False}
    assert isinstance(text_of(value), str)


def test_a_setting_that_is_no_path_names_nothing():
    def config(path: str) -> None:
        raise ConfigError(f"'{path}' is no key path")

    steps = list(check(Requires(config=("a..b[",)), Facts("linux", {}, lambda _: True, config)))
    assert [step.ok for step in steps] == [False]
