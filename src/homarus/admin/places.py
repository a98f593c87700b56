"""Workspaces as the owner asks for them: refused before one is made or written down, and checked with the configuration."""

from __future__ import annotations

import os
from pathlib import Path

from homarus.agent.places import ANOTHER, named_by, nearest, unfit
from homarus.config.paths import Paths
from homarus.config.view import Config
from homarus.core.errors import Unknown
from homarus.storage.atomic import ensure_dir
from homarus.storage.faults import shown
from homarus.workspace.agents import resolve_workspace


def unmade(folder: Path) -> str:
    """Return why a folder could not be made or filled now, or nothing."""
    there = nearest(folder)
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
            config.report("error", named_by(agent), why, ANOTHER)
