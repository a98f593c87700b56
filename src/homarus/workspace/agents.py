"""Which folder is an agent's home, what the roster says of each agent, and how an agent's folders are put away.

Nothing is created here, and nothing is deleted: a folder that goes is moved as it is, never one that holds something else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.config.paths import expand
from homarus.config.view import AgentConfig, Config
from homarus.core.clock import iso_ms
from homarus.core.errors import Denied, StorageError
from homarus.storage.atomic import ensure_dir
from homarus.storage.boundary import Root
from homarus.storage.volume import changed
from homarus.workspace import names
from homarus.workspace.identity import parse_identity

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
    return parse_identity(got.data.decode("utf-8", "replace"))


def bindings_of(config: Config, agent_id: str) -> list[dict[str, Any]]:
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


def refuse_shared(folder: Path, keep: Iterable[Path]) -> None:
    """Raise if moving this folder would take along one that must stay: the home, the state, another's workspace."""
    real = folder.resolve()
    for other in keep:
        if other.resolve().is_relative_to(real):
            raise Denied(f"{folder} is not put away, because {other} lies in it; move by hand what you want gone")


def trash_place(trash: Path, name: str, now: datetime) -> Path:
    """Return a new place in the trash for what belongs together; it sorts by time and never holds older things."""
    stamp = iso_ms(now).replace(":", "-")
    place, count = trash / f"{name}-{stamp}", 1
    while os.path.lexists(place):
        count += 1
        place = trash / f"{name}-{stamp}-{count}"
    return place


def put_away(folder: Path, place: Path, label: str) -> Path | None:
    """Move a folder to `place/label` and return where it is now; None if there was none."""
    if not os.path.lexists(folder):
        return None
    target = place / label
    ensure_dir(place)
    try:
        folder.rename(target)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise StorageError(
                f"cannot move {folder} to {target}: {problem.strerror}", cure="check permissions, or move it by hand"
            ) from problem
        _move_across(folder, target)
    changed(folder.parent)
    return target


def _move_across(folder: Path, target: Path) -> None:
    import shutil

    try:
        shutil.move(folder, target)
    except (OSError, shutil.Error) as problem:
        raise StorageError(
            f"cannot move {folder} to {target}: {problem}", cure="nothing was deleted; move it by hand"
        ) from problem
