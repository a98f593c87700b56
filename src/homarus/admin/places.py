"""Where an agent may live. Asked before a workspace is made or written down, by the check of a configuration, and by the doctor."""

from __future__ import annotations

import os
from pathlib import Path

from homarus.config.paths import Paths
from homarus.config.view import Config
from homarus.core.errors import Unknown
from homarus.sandbox.resolve import TOO_MUCH, may_live
from homarus.storage.atomic import ensure_dir
from homarus.storage.beneath import real_path
from homarus.storage.faults import shown
from homarus.workspace.agents import resolve_workspace

ANOTHER = "choose a folder of the agent's own"


def unfit(folder: Path, paths: Paths) -> str:
    """Return why a folder cannot be an agent's workspace, whoever asks and whenever, or nothing. Nothing is made."""
    if not may_live(Path(real_path(str(folder))), paths.home, paths.state_dir):
        return f"{shown(folder)} {TOO_MUCH}"
    there = _nearest(folder)
    return "" if there.is_dir() else f"{shown(there)} is not a folder"


def unmade(folder: Path) -> str:
    """Return why a folder could not be made or filled now, or nothing."""
    there = _nearest(folder)
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{shown(there)} cannot be written"


def refuse(folder: Path, paths: Paths) -> None:
    """Raise Unknown for a folder that somebody wants as a workspace and that cannot be one. Nothing is made."""
    if why := unfit(folder, paths) or unmade(folder):
        raise Unknown(why, cure=ANOTHER)


def take(folder: Path, paths: Paths) -> None:
    """Make a folder that somebody wants as a workspace, before any file names it. Raises Unknown, StorageError."""
    refuse(folder, paths)
    ensure_dir(folder)


def check(config: Config) -> None:
    """Report every agent whose workspace is no folder, or one that a sandbox is not shown."""
    for agent in config.agents:
        if why := unfit(resolve_workspace(config, agent.id, config.env), config.paths):
            own = ("entries", agent.id) if agent.entry.get("workspace") else ("defaults",)
            config.report("error", ("agents", *own, "workspace"), why, ANOTHER)


def _nearest(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each)), Path("/"))
