"""The skills as one session sees them: a list that stays, byte for byte, until something behind it really changed.

A snapshot is stored with its session. Its version is a digest of what it says, so the same skills give the same
version and the same prompt after a restart, on another day, in another process. The variables that skills bring to a
run come from it, too: a mapping for that run's tools alone, never the process's environment, so that two runs of two
agents with two keys for the same service each see their own.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.errors import HomarusError
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.skills.discover import Skill, SkillRoot
from homarus.skills.gate import Gate, eligible
from homarus.skills.library import SkillLibrary, SkillSet
from homarus.skills.listing import in_order, render
from homarus.skills.settings import SkillLimits, SkillSettings
from homarus.storage.cache import BoundedCache

_MAX_KEPT = 16


class SnapshotSkill(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One eligible skill: enough to give its run the right variables without looking at the disk."""

    name: str
    primary_env: str = ""
    skill_key: str = ""

    @property
    def key(self) -> str:
        return self.skill_key or self.name


class Snapshot(Struct, frozen=True, rename="camel"):
    """What a session keeps: the list for the prompt, the eligible skills (listed or not), and the version of both."""

    prompt: str = ""
    skills: tuple[SnapshotSkill, ...] = ()
    version: str = ""

    def to_json(self) -> dict[str, Any]:
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
    return _of(eligible(skills, gate), limits, home)


def _of(allowed: tuple[Skill, ...], limits: SkillLimits, home: str) -> Snapshot:
    prompt = render(allowed, limits, home)
    kept = tuple(SnapshotSkill(each.name, each.header.primary_env, each.header.skill_key) for each in allowed)
    return Snapshot(prompt, kept, _version(prompt, kept))


class Snapshots:
    """Gives each session its snapshot. One object per process: a restart builds anew, and mostly finds the same bytes."""

    def __init__(self, library: SkillLibrary, home: str) -> None:
        self._library = library
        self._home = home
        self._built: list[tuple[SkillSet, Gate, Snapshot]] = []
        self._warned: BoundedCache[str, bool] = BoundedCache(1_000)

    def for_turn(self, stored: Any, roots: tuple[SkillRoot, ...], gate: Gate) -> Snapshot:
        """Return what the next turn of a session uses, given what is stored with the session.

        It has the stored bytes unless something behind them changed. With `skills.load.watch` off, a session keeps the
        snapshot that it got from this process, whatever changes, until it is reset.
        """
        if not gate.settings.load.watch:
            kept = from_json(stored)
            if kept is not None and any(kept.version == built[2].version for built in self._built):
                return kept
        return self._fresh(self._library.load(roots), gate)

    def _fresh(self, skills: SkillSet, gate: Gate) -> Snapshot:
        for known, behind, snapshot in self._built:
            same_settings = behind.settings == gate.settings and behind.allowlist == gate.allowlist
            if known is skills and behind.facts is gate.facts and same_settings:
                return snapshot
        allowed = eligible(skills.skills, gate)
        built = _of(allowed, self._library.limits, self._home)
        self._warn(skills.problems)
        self._audit(allowed)
        self._built = [(skills, gate, built), *self._built[: _MAX_KEPT - 1]]
        return built

    def _warn(self, problems: Iterable[str]) -> None:
        """Say once of each skill that cannot be used what is wrong with it."""
        for problem in problems:
            if problem not in self._warned:
                self._warned.put(problem, True)
                log.warning("%s (homarus skills check)", single_line(problem, 500))

    def _audit(self, skills: Iterable[Skill]) -> None:
        """Say once of each suspicious skill that a model gets to see it."""
        for skill in in_order(skills)[: max(0, self._library.limits.max_skills_in_prompt)]:
            if skill.fingerprint in self._warned:
                continue
            self._warned.put(skill.fingerprint, True)
            if found := self._library.findings(skill):
                rules = ", ".join(sorted({finding.rule for finding in found}))
                log.warning("read %s before you rely on it: %s (homarus skills check)", single_line(skill.file), rules)


def _version(prompt: str, skills: tuple[SnapshotSkill, ...]) -> str:
    return blake2b(msgspec.json.encode((prompt, skills)), digest_size=12).hexdigest()


_NAME = late(r"[A-Za-z_][A-Za-z0-9_]*")
# A skill names its own `primaryEnv`. These names would let it decide what other programs load or where they look.
_STEERING = late(
    r"(?:LD|DYLD|OPENCLAW|HOMARUS)_.*|PYTHON.*|PERL5(?:OPT|LIB|DB)|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)|JAVA_TOOL_OPTIONS"
    r"|GIT_(?:SSH.*|CONFIG.*|EXEC_PATH|ASKPASS|PAGER|EDITOR|EXTERNAL_DIFF|PROXY_COMMAND)|PATH|HOME|SHELL|IFS|ENV|BASH_ENV"
    r"|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER|TMPDIR|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_.*"
    r"|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE",
    re.IGNORECASE,
)

log = logging.getLogger("homarus.skills")


class RunEnv(Struct, frozen=True):
    """Variables for one run's commands. `hidden` are those of their values that must not be shown to anybody."""

    values: dict[str, str] = {}
    hidden: tuple[str, ...] = ()


def env_for_run(
    snapshot: Snapshot,
    settings: SkillSettings,
    env: Mapping[str, str],
    resolve: Callable[[Any], str],
    *,
    closed: Callable[[str], bool] = lambda _name: False,
) -> RunEnv:
    """Return what to add to a run's environment: only names that `env` does not have, the first skill's value winning.

    `resolve` turns a setting into text, following a reference to a secret; one that fails is logged and left out.
    `closed` are the names that nobody may set for a command.
    """
    added: dict[str, str] = {}
    hidden: list[str] = []

    def offer(name: str, value: Any, key: str, *, secret: bool) -> None:
        if not _NAME.fullmatch(name) or env.get(name) or name in added or value is None or value == "":
            return
        if closed(name):
            log.warning("skill %s: %s cannot be set for commands", key, name)
            return
        try:
            text = json.dumps(value) if isinstance(value, int | float) else resolve(value)
        except HomarusError as problem:
            log.warning("skill %s: %s stays unset: %s", key, name, problem)
            return
        if text and "\0" not in text:
            from homarus.config.redact import is_reference, is_secret_key

            added[name] = text
            if secret or is_secret_key(name) or is_reference(value):
                hidden.append(text)

    for skill in snapshot.skills:
        entry = settings.entry(skill.key, skill.name)
        if entry is None or entry.enabled is False:
            continue
        for name, value in entry.env.items():
            offer(name, value, skill.key, secret=False)
        if skill.primary_env and entry.api_key:
            if _STEERING.fullmatch(skill.primary_env):
                log.warning("skill %s may not set %s", skill.key, skill.primary_env)
            else:
                offer(skill.primary_env, entry.api_key, skill.key, secret=True)
    return RunEnv(added, tuple(hidden))
