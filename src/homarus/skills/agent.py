"""What the configuration says about one agent's skills: where they lie, and what stands before them. The edge to `config`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from homarus.config.load import Config
from homarus.config.paths import expand
from homarus.hooks.manifest import Facts, on_path
from homarus.skills.discover import FREE, SkillRoot, standard_roots
from homarus.skills.gate import Gate, allowlist_of
from homarus.skills.settings import SkillSettings


def settings_of(config: Config) -> SkillSettings:
    """Return the `skills` block."""
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
