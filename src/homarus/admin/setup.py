"""Make a home ready: state folder, configuration, workspaces. Doing it twice does nothing the second time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from homarus.admin.places import take
from homarus.agent.open_session import seed_agent
from homarus.agent.places import refuse_unfit
from homarus.config.load import load_config, refuse_lost
from homarus.config.paths import Paths, expand
from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.storage.atomic import create_new, ensure_dir
from homarus.workspace.agents import WORKSPACE_VARIABLE
from homarus.workspace.seed import Seeded

FIRST_CONFIG = """\
// Settings of your agent, as JSON5: comments and trailing commas are welcome, and homarus keeps them.
// `homarus config schema` lists the keys, `homarus config validate` checks this file.
{
  agents: {
    defaults: {
      workspace: %s,
    },
  },
}
"""


class SetupReport(Struct, frozen=True):
    """What was there and what was made."""

    config_created: bool
    config_changed: tuple[str, ...]
    workspaces: tuple[Seeded, ...]

    @property
    def changed(self) -> bool:
        """Say whether anything was made or changed at all."""
        return self.config_created or bool(self.config_changed) or any(item.created for item in self.workspaces)


def set_up(
    paths: Paths,
    env: Mapping[str, str],
    clock: Clock,
    *,
    workspace: Path | None = None,
    settings: Mapping[str, object] | None = None,
) -> SetupReport:
    """Create what is missing and apply what was asked for. Nothing that exists is overwritten.

    A workspace that cannot be is refused first: once a file names it, every later command fails.
    """
    refuse_lost(paths, env)
    wishes = dict(settings or {})
    created, new = False, not paths.config_path.exists()
    named = env.get(WORKSPACE_VARIABLE, "").strip() if new else ""
    workspace = workspace or (expand(named, paths.home) if named else None)
    if workspace is not None:
        take(workspace, paths)
    ensure_dir(paths.state_dir)
    if new:
        chosen = workspace or paths.default_workspace
        ensure_dir(paths.config_path.parent)
        created = create_new(paths.config_path, (FIRST_CONFIG % _quoted(_short(chosen, paths.home))).encode())
    elif workspace is not None:
        wishes["agents.defaults.workspace"] = str(workspace)
    config = load_config(paths, env)
    changed = _apply(config, env, wishes)
    config = load_config(paths, env) if changed else config
    return SetupReport(created, changed, tuple(seed_all(config, env, clock)))


def seed_all(config: Config, env: Mapping[str, str], clock: Clock) -> list[Seeded]:
    """Lay out every agent's workspace that is not there yet. Raises ConfigError before the first where one cannot be."""
    for agent in config.agents:
        refuse_unfit(config, agent.id, env)
    return [seed_agent(config, agent.id, env, clock) for agent in config.agents]


def _apply(config: Config, env: Mapping[str, str], wishes: Mapping[str, object]) -> tuple[str, ...]:
    # A turn lays out workspaces, too, and changes no configuration.
    from homarus.config.keypath import parse_path
    from homarus.config.write import Operation, change

    new = {key: value for key, value in wishes.items() if config.get(key) != value}
    if new:
        change(config, env, [Operation("set", parse_path(key), value) for key, value in new.items()])
    return tuple(new)


def _short(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
