"""The sandbox around a turn's commands: what the configuration asks for, and the folders of skills that it may read.

Also the window of a model that nobody has asked yet, for what is shown before a turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.view import AgentConfig, Config
from homarus.core.routes import SessionKey
from homarus.models.catalog import Catalog
from homarus.models.ref import split_ref
from homarus.models.settings import AgentModelSettings, ModelsSettings
from homarus.sandbox.resolve import Place, has_backend, refusal, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Backend, Mount, SandboxSpec
from homarus.skills.discover import BUNDLED
from homarus.skills.library import readable_roots


def sandbox_for(
    agent: AgentConfig,
    session: SessionKey,
    workspace: Path,
    *,
    settings: SandboxSettings | None = None,
    skills: tuple[Mount, ...] | None = None,
    works: Callable[[Backend], bool] | None = None,
) -> SandboxSpec:
    """Return where this session's commands run; `Denied` where this machine has no sandbox to offer.

    Commands see the folders of skills as the file tools do, to read: a skill may bring programs. `skills` are these
    folders, where the caller knows them, and `works` says which kinds of sandbox can be had. `settings` count instead of the agent's.
    """
    paths = agent.config.paths
    place = Place(session=session, workspace=workspace, home=paths.home, state_dir=paths.state_dir)
    spec = resolve(settings or agent.block("sandbox", SandboxSettings), place, works or has_backend)
    if not spec.enforced:
        return spec
    mounts = skill_folders(agent.config).mounts() if skills is None else skills
    shown = tuple(mount for mount in mounts if not spec.can_read(mount.path))
    return replace(spec, mounts=(*spec.mounts, *shown)) if shown else spec


def window_of(agent: AgentConfig, model: str) -> int:
    """Return how many tokens a model takes, 0 if nobody described it."""
    ref = split_ref(model)
    if ref is None:
        return 0
    info = Catalog(agent.config.block("models", ModelsSettings)).model(ref)
    cap = agent.block("", AgentModelSettings).context_tokens or info.window
    return min(info.window, cap) if info.known else 0


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
        self._roots: tuple[str, ...] = ()
        self._stamps: tuple[tuple[int, int] | None, ...] | None = None
        self._mounts: tuple[Mount, ...] = ()

    def now(self) -> tuple[Mount, ...]:
        """Return the mounts. Every turn asks, so it costs one look at each folder."""
        if self._document is not self._config.document:
            inside, linked = readable_roots(self._config)
            self._roots = tuple(map(str, (*inside, *linked)))
            self._document, self._stamps = self._config.document, None
        stamps = tuple(map(_stamp, self._roots))
        if stamps != self._stamps:
            self._mounts, self._stamps = skill_folders(self._config).mounts(), stamps
        return self._mounts


def _stamp(folder: str) -> tuple[int, int] | None:
    try:
        found = os.stat(folder)  # noqa: PTH116 - before every turn
    except OSError:
        return None
    return found.st_dev, found.st_ino
