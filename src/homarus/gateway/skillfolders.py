"""The folders of skills outside of workspaces, as far as a turn may read them: its file tools, and its commands."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from homarus.config.load import Config
from homarus.sandbox.resolve import refusal
from homarus.sandbox.spec import Mount
from homarus.skills.agent import readable_roots
from homarus.skills.discover import BUNDLED


class SkillFolders(Struct, frozen=True):
    """Links in `linked` may lead anywhere: only the owner puts them there."""

    inside: tuple[Path, ...]
    linked: tuple[Path, ...]

    def mounts(self) -> tuple[Mount, ...]:
        """Return what commands are shown of them, to read: a skill may bring programs. Ours bring none."""
        there = [folder.resolve() for folder in (*self.inside, *self.linked) if folder != BUNDLED and folder.is_dir()]
        return tuple(Mount(str(folder)) for folder in there)


def skill_folders(config: Config) -> SkillFolders:
    """Return them without those that would open more than skills, such as a whole home named in `skills.load.extraDirs`."""
    paths = config.paths
    home, state = paths.home.resolve(), paths.state_dir.resolve()
    own = (state / "skills", state / "plugin-skills", BUNDLED)

    def harmless(folder: Path) -> bool:
        real = folder.resolve()
        return any(real.is_relative_to(each) for each in own) or not refusal(real, home=home, state_dir=state)

    inside, linked = readable_roots(config)
    return SkillFolders(tuple(filter(harmless, inside)), tuple(filter(harmless, linked)))


class SkillMounts:
    """What commands are shown of the skills of one home; worked out anew when a folder came, went or became another."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._document: object = None
        self._roots: tuple[Path, ...] = ()
        self._stamps: tuple[tuple[int, int] | None, ...] | None = None
        self._mounts: tuple[Mount, ...] = ()

    def now(self) -> tuple[Mount, ...]:
        """Return the mounts. Every turn asks, so it costs one look at each folder."""
        if self._document is not self._config.document:
            inside, linked = readable_roots(self._config)
            self._document, self._roots, self._stamps = self._config.document, (*inside, *linked), None
        stamps = tuple(map(_stamp, self._roots))
        if stamps != self._stamps:
            self._mounts, self._stamps = skill_folders(self._config).mounts(), stamps
        return self._mounts


def _stamp(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
