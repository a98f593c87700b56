"""All skills of an agent, by name: the roots merged by precedence, and kept as long as nothing on the disk changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from homarus.config.load import Config
from homarus.config.paths import expand
from homarus.core.clock import Clock, SystemClock, epoch_ms
from homarus.core.errors import StorageError
from homarus.hooks.manifest import Facts, on_path
from homarus.skills.discover import (
    BUNDLED,
    FREE,
    Scan,
    Skill,
    SkillRoot,
    Source,
    Stamp,
    read_text,
    scan_root,
    standard_roots,
)
from homarus.skills.gate import Gate, allowlist_of
from homarus.skills.settings import SkillLimits, SkillSettings
from homarus.storage.cache import BoundedCache

if TYPE_CHECKING:
    from homarus.skills.audit import Finding

_MAX_ROOTS = 64
# A file system's clock ticks slowly: two writes within a tick leave the same times. What changed this recently is looked
# at again next time, whatever its stamp says.
_TICK_MS = 100
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_SETS = 16
_BUNDLED = str(BUNDLED)
_MAX_AUDITED = 2_000


class SkillSet(Struct, frozen=True):
    """The skills that won, sorted by name; `shadowed` lost to a stronger place. Equal versions mean equal content."""

    skills: tuple[Skill, ...] = ()
    shadowed: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()
    version: str = ""

    def get(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if name in {skill.name, skill.key}), None)


class SkillLibrary:
    """A cache over `discover`: `load` gives the same object until a file, a folder or the roots change."""

    def __init__(self, limits: SkillLimits | None = None, *, clock: Clock | None = None) -> None:
        self.limits = limits or SkillLimits()
        self._clock = clock or SystemClock()
        self._findings: BoundedCache[str, tuple[Finding, ...]] = BoundedCache(_MAX_AUDITED)
        self._scans: BoundedCache[SkillRoot, Scan] = BoundedCache(_MAX_ROOTS)
        self._sets: BoundedCache[tuple[SkillRoot, ...], tuple[tuple[Scan, ...], SkillSet]] = BoundedCache(_MAX_SETS)

    def findings(self, skill: Skill) -> tuple[Finding, ...]:
        """Return what the audit says of a skill's text; each version of a file is looked through once.

        What came with the program is trusted, and a file that cannot be read any more has nothing to say.
        """
        if skill.source is Source.BUNDLED:
            return ()
        found = self._findings.get(skill.fingerprint)
        if found is None:
            try:
                from homarus.skills.audit import scan

                found = scan(read_text(skill, self.limits))
            except StorageError:
                return ()
            self._findings.put(skill.fingerprint, found)
        return found

    def load(self, roots: tuple[SkillRoot, ...]) -> SkillSet:
        scans = tuple(self._scan(root) for root in roots)
        kept = self._sets.get(roots)
        if kept is not None and all(old is new for old, new in zip(kept[0], scans, strict=True)):
            return kept[1]
        merged = merge(scans, self.limits)
        self._sets.put(roots, (scans, merged))
        return merged

    def changed(self, roots: Iterable[SkillRoot]) -> bool:
        """Say whether `load` would look again, without looking: what a watcher asks after its events settled."""
        return any((kept := self._scans.get(root)) is None or not _holds(root, kept) for root in roots)

    def _scan(self, root: SkillRoot) -> Scan:
        kept = self._scans.get(root)
        if kept is not None and _holds(root, kept):
            return kept
        fresh = scan_root(root, self.limits)
        newest_ms = max(stamp.changed_ns for stamp in fresh.stamps) // 1_000_000
        if epoch_ms(self._clock.now()) - newest_ms < _TICK_MS:
            self._scans.pop(root)
        else:
            self._scans.put(root, fresh)
        return fresh


def _holds(root: SkillRoot, scan: Scan) -> bool:
    # What came with the program changes with the program, not while it runs.
    return root.path == _BUNDLED or is_current(root.path, scan.stamps)


def discover(roots: tuple[SkillRoot, ...], limits: SkillLimits | None = None) -> SkillSet:
    limits = limits or SkillLimits()
    return merge((scan_root(root, limits) for root in roots), limits)


def merge(scans: Iterable[Scan], limits: SkillLimits) -> SkillSet:
    """Merge roots, strongest first: the first skill of a name wins, and a source gives no more than its share."""
    winners: dict[str, Skill] = {}
    shadowed: list[Skill] = []
    problems: list[str] = []
    loaded: dict[Source, int] = {}
    for each in scans:
        problems += each.problems
        for skill in each.skills:
            count = loaded[skill.source] = loaded.get(skill.source, 0) + 1
            if count > limits.max_skills_loaded_per_source:
                continue
            if skill.name in winners:
                shadowed.append(skill)
            else:
                winners[skill.name] = skill
    problems += [
        f"{count} {source} skills; only the first {limits.max_skills_loaded_per_source} are used"
        for source, count in loaded.items()
        if count > limits.max_skills_loaded_per_source
    ]
    skills = tuple(winners[name] for name in sorted(winners))
    digest = blake2b(
        "\0".join(f"{each.file}\0{each.fingerprint}" for each in skills).encode("utf-8", "surrogateescape")
    )
    return SkillSet(skills, tuple(shadowed), tuple(problems), digest.hexdigest()[:24])


def is_current(root: str, stamps: Iterable[Stamp]) -> bool:
    """Say whether every path below a root still looks as it did. One stat each: the whole cost of a warm listing."""
    try:
        # From the root on, the system has two names to walk along for each file instead of a whole path.
        folder = os.open(root, _FOLDER)
    except OSError:
        return not any(stamp.inode for stamp in stamps)
    stat = os.stat
    try:
        for path, inode, changed_ns in stamps:
            try:
                found = stat(path, dir_fd=folder)
            except OSError:
                if inode:
                    return False
                continue
            if found.st_ctime_ns != changed_ns or found.st_ino != inode:
                return False
    finally:
        os.close(folder)
    return True


def settings_of(config: Config) -> SkillSettings:
    return config.block("skills", SkillSettings)


def roots_of(config: Config, workspace: Path) -> tuple[SkillRoot, ...]:
    """Return the folders in which an agent with this workspace finds skills, strongest first."""
    load, home = settings_of(config).load, config.paths.home
    return standard_roots(
        workspace=workspace,
        home=home,
        state_dir=config.paths.state_dir,
        extra=[expand(folder, home) for folder in load.extra_dirs],
        links=[expand(folder, home) for folder in load.allow_symlink_targets],
    )


def readable_roots(config: Config) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the folders outside of workspaces that hold skills, for agents to read; links in the second ones lead anywhere."""
    load, home = settings_of(config).load, config.paths.home
    roots = standard_roots(
        home=home, state_dir=config.paths.state_dir, extra=[expand(folder, home) for folder in load.extra_dirs]
    )
    targets = [expand(folder, home) for folder in load.allow_symlink_targets]
    inside = [Path(root.path) for root in roots if root.source not in FREE]
    return (*inside, *targets), tuple(Path(root.path) for root in roots if root.source in FREE)


def machine_facts(config: Config, env: Mapping[str, str]) -> Facts:
    """Return what this machine offers. Make it once per configuration: it remembers which programs are there."""
    return Facts(sys.platform, config.variables(env), on_path(env.get("PATH", "")), config.get)


def gate_of(config: Config, agent_id: str, facts: Facts) -> Gate:
    """Return what is asked of every skill before this agent may use it."""
    return Gate(settings_of(config), facts, allowlist_of(config.agent(agent_id).get("skills")))
