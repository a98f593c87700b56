"""Which folder is an agent's home, and what the roster says of each agent. Only looks; it creates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.config.load import AgentConfig, Config
from homarus.config.paths import expand
from homarus.core.later import later
from homarus.storage.boundary import Root
from homarus.workspace import names

if TYPE_CHECKING:
    from homarus.workspace import identity as identity_file
else:
    identity_file = later("homarus.workspace.identity")


WORKSPACE_VARIABLE = "OPENCLAW_WORKSPACE_DIR"


def resolve_workspace(config: Config, agent_id: str, env: Mapping[str, str]) -> Path:
    """Return an agent's home folder.

    An agent other than the default one never shares the default's folder: that would mix their memories.
    """
    agent = config.agent(agent_id)
    home = config.paths.home
    own = _path(agent.entry.get("workspace"), home)
    if own is not None:
        return own
    common = _path(config.defaults.get("workspace"), home)
    if agent.default:
        return common or _path(env.get(WORKSPACE_VARIABLE), home) or config.paths.default_workspace
    usual = config.paths.state_dir / f"workspace-{agent.id}"
    # Newer homes put the workspaces of a roster side by side inside the common one.
    nested = (common or config.paths.default_workspace) / agent.id
    return nested if nested.is_dir() and not usual.exists() else usual


def all_workspaces(config: Config, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return every agent's folder once, the default agent's first."""
    agents = sorted(config.agents, key=lambda agent: not agent.default)
    found: dict[Path, Path] = {}
    for agent in agents:
        path = resolve_workspace(config, agent.id, env)
        found.setdefault(path.resolve(), path)
    return tuple(found.values())


class AgentView(Struct, frozen=True):
    """One agent as people and programs want to see it."""

    id: str
    default: bool
    name: str
    emoji: str
    workspace: str
    exists: bool
    model: str
    bindings: tuple[dict[str, Any], ...] = ()


def describe(config: Config, agent: AgentConfig, env: Mapping[str, str]) -> AgentView:
    """Return what the configuration and the agent's IDENTITY.md say; the configuration's own name wins."""
    workspace = resolve_workspace(config, agent.id, env)
    record = read_identity(workspace)
    own = agent.raw.get("identity")
    identity: dict[str, Any] = own if isinstance(own, dict) else {}
    model = agent.get("model.primary")
    return AgentView(
        id=agent.id,
        default=agent.default,
        name=_text(identity.get("name")) or _text(agent.entry.get("name")) or record.get("name", ""),
        emoji=_text(identity.get("emoji")) or record.get("emoji", ""),
        workspace=str(workspace),
        exists=workspace.is_dir(),
        model=_text(model),
        bindings=tuple(bindings_of(config, agent.id)),
    )


def read_identity(workspace: Path) -> dict[str, str]:
    """Return the values of a workspace's IDENTITY.md; nothing where there is none that can be read."""
    if not workspace.is_dir():
        return {}
    with Root(workspace) as root:
        got = root.read(names.IDENTITY, max_bytes=65_536)
    return identity_file.parse_identity(got.data.decode("utf-8", "replace"))


def bindings_of(config: Config, agent_id: str) -> list[dict[str, Any]]:
    """Return the matches that lead to an agent, in the configuration's order."""
    rows = config.get("bindings")
    return [
        row["match"]
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and row.get("agentId") == agent_id and isinstance(row.get("match"), dict)
    ]


def _path(value: Any, home: Path) -> Path | None:
    text = value.replace("\x00", "").strip() if isinstance(value, str) else ""
    return expand(text, home) if text else None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
