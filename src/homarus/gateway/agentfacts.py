"""What the configuration says about one agent, as far as its prompt is concerned. Worked out once, used in every turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from homarus.config.load import AgentConfig, Config
from homarus.config.paths import expand
from homarus.gateway.setup import workspace_places
from homarus.hooks.manifest import Facts
from homarus.prompt.gather import repo_root
from homarus.prompt.sections.turn import HEARTBEAT_PROMPT
from homarus.sandbox.settings import SandboxSettings
from homarus.skills.agent import gate_of, roots_of
from homarus.skills.discover import SkillRoot
from homarus.skills.gate import Gate
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.settings import WorkspaceSettings


class AgentFacts(Struct, frozen=True, kw_only=True):
    """One agent's settings. Editing the configuration makes new ones; nothing here follows a file by itself."""

    id: str
    config: dict[str, Any]
    settings: WorkspaceSettings
    workspace: Path
    cwd: Path | None
    repo: str
    model: str
    aliases: tuple[tuple[str, str], ...]
    citations: Literal["on", "off", "auto"]
    owners: tuple[str, ...]
    heartbeat_prompt: str
    elevated: bool
    sandbox_mode: str
    # Where a newer OpenClaw keeps the record of a finished setup, if this home has it.
    shared_database: Path | None
    skill_roots: tuple[SkillRoot, ...]
    skill_gate: Gate


def agent_facts(config: Config, agent_id: str, env: Mapping[str, str], offers: Facts) -> AgentFacts:
    """Read one agent's settings; what has a wrong shape is left out, its owner is told by the configuration itself."""
    agent = config.agent(agent_id)
    settings = agent.block("", WorkspaceSettings)
    workspace = resolve_workspace(config, agent.id, env)
    cwd = _folder(agent.get("cwd"), config.paths.home)
    citations = config.get("memory.citations")
    return AgentFacts(
        id=agent.id,
        config=config.document,
        settings=settings,
        workspace=workspace,
        cwd=cwd,
        repo=repo_root(settings.repo_root, workspace, cwd or workspace),
        model=_model_name(agent.get("model")),
        aliases=_aliases(agent.get("models")),
        citations=citations if citations in ("on", "off") else "auto",
        owners=_texts(config.get("commands.ownerAllowFrom")),
        heartbeat_prompt=_heartbeat_prompt(agent),
        elevated=config.get("tools.elevated.enabled") is True,
        sandbox_mode=agent.block("sandbox", SandboxSettings).mode,
        shared_database=workspace_places(config.paths).shared_database,
        skill_roots=roots_of(config, workspace),
        skill_gate=gate_of(config, agent.id, offers),
    )


def _aliases(models: Any) -> tuple[tuple[str, str], ...]:
    entries = models.items() if isinstance(models, dict) else ()
    found = [(entry.get("alias"), ref) for ref, entry in entries if isinstance(entry, dict)]
    return tuple(sorted((alias.strip(), ref) for alias, ref in found if isinstance(alias, str) and alias.strip()))


def _model_name(setting: Any) -> str:
    named = setting.get("primary") if isinstance(setting, dict) else setting
    return named.strip() if isinstance(named, str) else ""


def _heartbeat_prompt(agent: AgentConfig) -> str:
    """Return what a poll says, where polls are switched on: an empty block is no order, and an interval of 0 ends them."""
    named = agent.get("heartbeat.prompt")
    every = agent.get("heartbeat.every", "30m" if named else "")
    if not agent.default or not str(every).strip("0 mhsd"):
        return ""
    return named.strip() if isinstance(named, str) and named.strip() else HEARTBEAT_PROMPT


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value if isinstance(item, str | int)) if isinstance(value, list) else ()


def _folder(setting: Any, home: Path) -> Path | None:
    if not isinstance(setting, str) or not setting.strip():
        return None
    folder = expand(setting, home)
    return folder if folder.is_dir() else None
