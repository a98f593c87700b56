"""The skills as one session sees them: a list that stays, byte for byte, until something behind it really changed.

A snapshot is stored with its session. Its version is a digest of what it says, so the same skills give the same
version and the same prompt after a restart, on another day, in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from homarus.skills.discover import Skill, SkillRoot
from homarus.skills.gate import Gate, eligible
from homarus.skills.library import SkillLibrary, SkillSet
from homarus.skills.listing import render
from homarus.skills.settings import SkillLimits

_MAX_KEPT = 16


class SnapshotSkill(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One eligible skill: enough to give its run the right variables without looking at the disk."""

    name: str
    primary_env: str = ""
    skill_key: str = ""

    @property
    def key(self) -> str:
        """Return the name of its entry in the configuration."""
        return self.skill_key or self.name


class Snapshot(Struct, frozen=True, rename="camel"):
    """What a session keeps: the list for the prompt, the eligible skills (listed or not), and the version of both."""

    prompt: str = ""
    skills: tuple[SnapshotSkill, ...] = ()
    version: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored as `skillsSnapshot`."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value


def from_json(value: Any) -> Snapshot | None:
    """Return a stored snapshot; one of another program, whose version is a number, or a damaged one, is None."""
    if not isinstance(value, Mapping):
        return None
    try:
        found = msgspec.convert(value, Snapshot)
    except msgspec.ValidationError:
        return None
    return found if found.version == _version(found.prompt, found.skills) else None


def build(skills: Iterable[Skill], gate: Gate, limits: SkillLimits, home: str) -> Snapshot:
    """Return the snapshot of these skills behind this gate."""
    allowed = eligible(skills, gate)
    prompt = render(allowed, limits, home)
    kept = tuple(SnapshotSkill(each.name, each.header.primary_env, each.header.skill_key) for each in allowed)
    return Snapshot(prompt, kept, _version(prompt, kept))


class Snapshots:
    """Gives each session its snapshot. One object per process: a restart builds anew, and mostly finds the same bytes."""

    def __init__(self, library: SkillLibrary, home: str) -> None:
        self._library = library
        self._home = home
        self._built: list[tuple[SkillSet, Gate, Snapshot]] = []

    def for_turn(self, stored: Any, roots: tuple[SkillRoot, ...], gate: Gate) -> Snapshot:
        """Return what the next turn of a session uses, given what is stored with the session.

        With `skills.load.watch` off, a session keeps the snapshot that it got from this process until it is reset.
        """
        kept = from_json(stored)
        watching = gate.settings.load.watch
        if kept is not None and not watching and any(kept.version == built[2].version for built in self._built):
            return kept
        fresh = self._fresh(self._library.load(roots), gate)
        return kept if kept is not None and kept.version == fresh.version else fresh

    def _fresh(self, skills: SkillSet, gate: Gate) -> Snapshot:
        for known, behind, snapshot in self._built:
            same_gate = behind.facts is gate.facts and (behind.allowlist, behind.settings) == (
                gate.allowlist,
                gate.settings,
            )
            if known is skills and same_gate:
                return snapshot
        built = build(skills.skills, gate, self._library.limits, self._home)
        self._built = [(skills, gate, built), *self._built[: _MAX_KEPT - 1]]
        return built


def _version(prompt: str, skills: tuple[SnapshotSkill, ...]) -> str:
    return blake2b(msgspec.json.encode((prompt, skills)), digest_size=12).hexdigest()
