"""May this agent use this skill here and now? Each gate in its order, with its reason. Pure: the machine is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from homarus.hooks.manifest import Facts, Step, check
from homarus.skills.discover import Skill, Source
from homarus.skills.settings import SkillEntry, SkillSettings


class Gate(Struct, frozen=True, eq=False):
    """What is asked of every skill: the owner's settings, the machine, and the agent's own list (None means all)."""

    settings: SkillSettings
    facts: Facts
    allowlist: frozenset[str] | None = None


class Verdict(Struct, frozen=True):
    """The outcome for one skill. `reason` is empty for an eligible one."""

    skill: Skill
    steps: tuple[Step, ...]

    @property
    def eligible(self) -> bool:
        return all(step.ok for step in self.steps)

    @property
    def reason(self) -> str:
        return next((f"{step.gate}: {step.detail}" for step in self.steps if not step.ok), "")


def allowlist_of(value: Any) -> frozenset[str] | None:
    """Return an agent's `skills` setting: absent means all, a list means these alone, and nonsense means none."""
    if value is None:
        return None
    names = [value] if isinstance(value, str) else value
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else frozenset()
    )


def judge(skill: Skill, gate: Gate) -> Verdict:
    return Verdict(skill, tuple(_steps(skill, gate)))


def eligible(skills: Iterable[Skill], gate: Gate) -> tuple[Skill, ...]:
    """Return the skills whose gates are all open; the first closed one ends the asking."""
    return tuple(skill for skill in skills if all(step.ok for step in _steps(skill, gate)))


def granted_env(skill: Skill, entry: SkillEntry | None) -> frozenset[str]:
    """Return the variables that the configuration will give a run of this skill."""
    if entry is None:
        return frozenset()
    names = {name for name, value in entry.env.items() if value}
    return frozenset(names | {skill.header.primary_env}) if entry.api_key else frozenset(names)


def _steps(skill: Skill, gate: Gate) -> Iterator[Step]:
    settings = gate.settings
    entry = settings.entry(skill.key, skill.name)
    if entry is not None and entry.enabled is False:
        yield Step("enabled", False, f"turned off in skills.entries.{skill.key}")
    if skill.source is Source.BUNDLED and settings.allow_bundled is not None:
        yield Step("bundled", _names(skill, settings.allow_bundled), "must be named in skills.allowBundled")
    yield from check(skill.header.requires, gate.facts, granted_env(skill, entry))
    if gate.allowlist is not None:
        yield Step("agent", _names(skill, gate.allowlist), "must be named in the agent's list of skills")


def _names(skill: Skill, allowed: Iterable[str]) -> bool:
    return skill.name in allowed or skill.key in allowed
