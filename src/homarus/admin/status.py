"""Where a home stands, at a glance. Looking changes nothing and calls no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus import __version__
from homarus.config.blocks import validate
from homarus.config.view import AgentConfig, Config
from homarus.core.clock import Clock, SystemIds
from homarus.core.errors import HomarusError
from homarus.core.routes import main_session
from homarus.models.access import Models
from homarus.models.ready import missing, unproven
from homarus.sandbox.process import available
from homarus.sandbox.resolve import Place, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sessions.store import SessionStore
from homarus.workspace.agents import describe

MAX_NOTES = 100_000


class AgentStatus(Struct, frozen=True, rename="camel"):
    """One agent."""

    id: str
    name: str
    default: bool
    workspace: str
    workspace_exists: bool
    model: str
    model_why: str
    # What keeps the model from answering, with the cure; empty when nothing is known to.
    model_problem: str
    # How its last call ended; empty for one that is built in.
    model_last: str
    sandbox: str
    sessions: int
    last_activity_ms: int
    tokens: int
    notes: int


class ChannelRow(Struct, frozen=True, rename="camel"):
    """One account of a chat platform, as the configuration has it; `problem` keeps it from being served."""

    channel: str
    account: str
    on: bool
    problem: str = ""


class HomeStatus(Struct, frozen=True, rename="camel"):
    """One home."""

    version: str
    state_dir: str
    config_path: str
    exists: bool
    errors: int
    warnings: int
    agents: tuple[AgentStatus, ...]
    channels: tuple[ChannelRow, ...] = ()


async def home_status(config: Config, env: Mapping[str, str], clock: Clock) -> HomeStatus:
    """Look at a home."""
    problems = validate(config)
    models = Models(config, env, clock=clock)
    try:
        agents = [await _agent(config, agent, env, clock, models) for agent in config.agents]
    finally:
        await models.aclose()
    return HomeStatus(
        version=__version__,
        state_dir=str(config.paths.state_dir),
        config_path=str(config.paths.config_path),
        exists=config.paths.state_dir.is_dir(),
        errors=sum(problem.severity == "error" for problem in problems),
        warnings=sum(problem.severity == "warning" for problem in problems),
        agents=tuple(agents),
        channels=tuple(channel_rows(config, env)),
    )


def channel_rows(config: Config, env: Mapping[str, str]) -> Iterator[ChannelRow]:
    """Yield the accounts that the configuration has; most homes have none, and then nothing of channels is read."""
    if not config.get("channels"):
        return
    from homarus.channels.discovery import lacks, manifests
    from homarus.channels.settings import accounts_of

    for manifest in manifests().values():
        for account in accounts_of(config, manifest, env).values():
            problem, cure = lacks(manifest)
            if account.missing:
                problem, cure = f"{', '.join(account.missing)} not set", f"homarus channels add {manifest.id}"
            words = f"{problem} ({cure})" if problem else ""
            yield ChannelRow(manifest.id, account.id, account.settings.enabled, words)


async def _agent(
    config: Config, agent: AgentConfig, env: Mapping[str, str], clock: Clock, models: Models
) -> AgentStatus:
    view = describe(config, agent, env)
    workspace = Path(view.workspace)
    store = SessionStore.of(config, agent.id, clock=clock, ids=SystemIds())
    listed = store.list()
    model, why, problem, last = await _model(models, agent)
    return AgentStatus(
        id=agent.id,
        name=view.name,
        default=agent.default,
        workspace=view.workspace,
        workspace_exists=view.exists,
        model=model,
        model_why=why,
        model_problem=problem,
        model_last=last,
        sandbox=_sandbox(config, agent, workspace),
        sessions=len(listed),
        last_activity_ms=max((info.entry.updated_at for info in listed), default=0),
        tokens=sum(info.entry.input_tokens + info.entry.output_tokens for info in listed),
        notes=_notes(workspace),
    )


async def _model(models: Models, agent: AgentConfig) -> tuple[str, str, str, str]:
    try:
        chain = await models.chain(agent)
        ref, why, problem = chain.primary, "configured", ""
        if chain.source == "auto":
            why = (await models.auto(agent)).why
        else:
            problem = missing(models, agent, ref)
    except HomarusError as wrong:
        return "-", wrong.message, str(wrong), ""
    last = models.calls.of(ref.key) if models.is_called(ref) else None
    return ref.key, why, problem, str(last or unproven(models, ref))


def _sandbox(config: Config, agent: AgentConfig, workspace: Path) -> str:
    place = Place(main_session(agent.id), workspace, config.paths.home, config.paths.state_dir)
    try:
        return str(resolve(agent.block("sandbox", SandboxSettings), place, available).backend)
    except HomarusError:
        return "missing"


def _notes(workspace: Path) -> int:
    folder = workspace / "memory"
    return sum(1 for _, _path in zip(range(MAX_NOTES), folder.rglob("*.md"), strict=False)) if folder.is_dir() else 0


def as_json(status: HomeStatus) -> dict[str, Any]:
    """Return the status for programs."""
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(status)
    return built
