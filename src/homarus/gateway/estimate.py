"""Stand in for a turn that nobody has started: the sandbox it would get, and the window of the model it would use."""

from __future__ import annotations

from pathlib import Path

from homarus.config.load import AgentConfig
from homarus.core.routes import SessionKey
from homarus.models.catalog import Catalog
from homarus.models.ref import split_ref
from homarus.models.settings import ModelsSettings
from homarus.sandbox.process import available
from homarus.sandbox.resolve import Place, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import SandboxSpec


def sandbox_of(agent: AgentConfig, session: SessionKey, workspace: Path) -> SandboxSpec:
    """Return where this session's commands would run; `Denied` where this machine has no sandbox to offer."""
    paths = agent.config.paths
    place = Place(session=session, workspace=workspace, home=paths.home, state_dir=paths.state_dir)
    return resolve(agent.block("sandbox", SandboxSettings), place, available)


def window_of(agent: AgentConfig, model: str) -> int:
    """Return how many tokens a model takes, 0 if nobody described it."""
    ref = split_ref(model)
    if ref is None:
        return 0
    info = Catalog(agent.config.block("models", ModelsSettings)).model(ref)
    return info.window if info.known else 0
