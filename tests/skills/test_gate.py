"""The gates in their order."""

from __future__ import annotations

import pytest
from tests.skills.helpers import gate, skill

from homarus.hooks.manifest import Requires
from homarus.skills.discover import Source
from homarus.skills.gate import allowlist_of, eligible, judge
from homarus.skills.settings import SkillEntry, SkillSettings


def why(made, asked) -> str:
    verdict = judge(made, asked)
    assert verdict.eligible is (eligible([made], asked) == (made,))
    assert verdict.eligible is (verdict.reason == "")
    return verdict.reason.split(":")[0]


def test_open_by_default():
    assert why(skill(), gate()) == ""


def test_turned_off_comes_first():
    off = SkillSettings(entries={"s": SkillEntry(enabled=False)}, allow_bundled=())
    assert why(skill(source=Source.BUNDLED, requires=Requires(os=("win32",))), gate(off, allowlist=())) == "enabled"
    assert why(skill(skill_key="k"), gate(SkillSettings(entries={"k": SkillEntry(enabled=False)}))) == "enabled"
    assert why(skill(), gate(SkillSettings(entries={"s": SkillEntry(enabled=True)}))) == ""


def test_the_bundled_allowlist_concerns_bundled_skills_alone():
    only = SkillSettings(allow_bundled=("other", "key"))
    assert why(skill(source=Source.BUNDLED, requires=Requires(os=("win32",))), gate(only)) == "bundled"
    assert why(skill(source=Source.BUNDLED, skill_key="key"), gate(only)) == ""
    assert why(skill(source=Source.WORKSPACE), gate(only)) == ""
    assert why(skill(source=Source.BUNDLED), gate(SkillSettings(allow_bundled=()))) == "bundled"


def test_the_system_beats_always():
    needs = Requires(always=True, os=("darwin",), bins=("missing",))
    assert why(skill(requires=needs), gate(platform="linux")) == "os"
    assert why(skill(requires=needs), gate(platform="darwin")) == ""
    assert why(skill(requires=needs), gate(platform="darwin", allowlist=["other"])) == "agent"


@pytest.mark.parametrize(
    ("needs", "machine", "reason"),
    [
        (Requires(bins=("git", "gh")), {"bins": ("git",)}, "bins"),
        (Requires(bins=("git",)), {"bins": ("git",)}, ""),
        (Requires(any_bins=("a", "b")), {"bins": ("b",)}, ""),
        (Requires(any_bins=("a", "b")), {}, "anyBins"),
        (Requires(env=("KEY",)), {"env": {"KEY": "1"}}, ""),
        (Requires(env=("KEY",)), {"env": {"KEY": ""}}, "env"),
        (Requires(config=("a.b",)), {"config": {"a.b": True}}, ""),
        (Requires(config=("a.b",)), {}, "config"),
        (Requires(config=("browser.enabled",)), {}, ""),
        (Requires(bins=("x",), any_bins=("y",), env=("Z",), config=("c",)), {}, "bins"),
    ],
)
def test_what_the_machine_must_offer(needs, machine, reason):
    assert why(skill(requires=needs), gate(**machine)) == reason


def test_variables_that_the_configuration_gives():
    needs = skill(requires=Requires(env=("KEY",)), primary_env="KEY")
    assert why(needs, gate(SkillSettings(entries={"s": SkillEntry(env={"KEY": "1"})}))) == ""
    assert why(needs, gate(SkillSettings(entries={"s": SkillEntry(env={"KEY": ""})}))) == "env"
    assert why(needs, gate(SkillSettings(entries={"s": SkillEntry(api_key="k")}))) == ""
    assert (
        why(
            skill(requires=Requires(env=("KEY",)), primary_env="OTHER"),
            gate(SkillSettings(entries={"s": SkillEntry(api_key="k")})),
        )
        == "env"
    )


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, None),
        ([], frozenset()),
        (["a", 3, "b"], frozenset({"a", "b"})),
        ("a", frozenset({"a"})),
        ({"a": 1}, frozenset()),
        (7, frozenset()),
    ],
)
def test_an_agents_list(value, names):
    assert allowlist_of(value) == names


def test_the_agents_list_comes_last_and_takes_keys_too():
    assert why(skill(), gate(allowlist=["other"])) == "agent"
    assert why(skill(skill_key="k"), gate(allowlist=["k"])) == ""
    assert why(skill(requires=Requires(bins=("x",))), gate(allowlist=[])) == "bins"


def test_every_gate_is_explained():
    made = skill(requires=Requires(os=("linux",), bins=("git",), env=("KEY",)))
    verdict = judge(made, gate(allowlist=["s"]))
    assert [(step.gate, step.ok) for step in verdict.steps] == [
        ("os", True),
        ("bins", False),
        ("env", False),
        ("agent", True),
    ]
    assert verdict.reason == "bins: needs git on PATH"
