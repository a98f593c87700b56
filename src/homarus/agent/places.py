"""Where an agent may live. Every workspace is asked about before anything is made in it, and before any file names it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from homarus.config.keypath import KeyPath, format_path
from homarus.config.paths import Paths
from homarus.config.report import Problem
from homarus.config.view import AgentConfig, Config
from homarus.core.errors import ConfigError
from homarus.sandbox.resolve import TOO_MUCH, may_live
from homarus.storage.beneath import real_path
from homarus.storage.faults import shown
from homarus.workspace.agents import resolve_workspace

ANOTHER = "choose a folder of the agent's own"


def unfit(folder: Path, paths: Paths) -> str:
    """Return why a folder cannot be an agent's workspace, whoever asks and whenever, or nothing. Nothing is made."""
    if not may_live(Path(real_path(str(folder))), paths.home, paths.state_dir):
        return f"{shown(folder)} {TOO_MUCH}"
    there = nearest(folder)
    return "" if there.is_dir() else f"{shown(there)} is not a folder"


def nearest(folder: Path) -> Path:
    """Return what is there of a path: itself, or the folder in which it would be made."""
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each)), Path("/"))


def refuse_unfit(config: Config, agent_id: str, env: Mapping[str, str]) -> None:
    """Raise ConfigError where an agent's workspace cannot be one: nothing is laid out there, and no turn runs in it."""
    if why := unfit(resolve_workspace(config, agent_id, env), config.paths):
        key = config.written(named_by(config.agent(agent_id)))
        file, line = config.locate(key)
        raise ConfigError(str(Problem("error", file, line, format_path(key), why)), cure=ANOTHER)


def named_by(agent: AgentConfig) -> KeyPath:
    """Return the key that says where an agent lives."""
    own = ("entries", agent.id) if agent.entry.get("workspace") else ("defaults",)
    return ("agents", *own, "workspace")
