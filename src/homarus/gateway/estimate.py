"""What a turn gets before anybody starts it: the sandbox around its commands, and the window of its model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homarus.config.load import AgentConfig
from homarus.core.later import later
from homarus.core.routes import SessionKey
from homarus.gateway.skillfolders import skill_folders
from homarus.models.catalog import Catalog
from homarus.models.ref import split_ref
from homarus.models.settings import AgentModelSettings, ModelsSettings
from homarus.sandbox.resolve import Place, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Backend, Mount, SandboxSpec

if TYPE_CHECKING:
    from homarus.sandbox import process
else:
    process = later("homarus.sandbox.process")


def sandbox_of(
    agent: AgentConfig,
    session: SessionKey,
    workspace: Path,
    *,
    always: bool = False,
    skills: tuple[Mount, ...] | None = None,
    works: Callable[[Backend], bool] | None = None,
) -> SandboxSpec:
    """Return where this session's commands run; `Denied` where this machine has no sandbox to offer.

    Commands see the folders of skills as the file tools do, to read: a skill may bring programs. `skills` are these
    folders, where the caller knows them, and `works` says which kinds of sandbox can be had. `always` wants a sandbox whatever the settings say.
    """
    paths, settings = agent.config.paths, agent.block("sandbox", SandboxSettings)
    place = Place(session=session, workspace=workspace, home=paths.home, state_dir=paths.state_dir)
    spec = resolve(replace(settings, mode="all") if always else settings, place, works or process.available)
    if not spec.enforced:
        return spec
    mounts = skill_folders(agent.config).mounts() if skills is None else skills
    shown = tuple(mount for mount in mounts if not spec.can_read(mount.path))
    return replace(spec, mounts=(*spec.mounts, *shown)) if shown else spec


def window_of(agent: AgentConfig, model: str) -> int:
    """Return how many tokens a model takes, 0 if nobody described it."""
    ref = split_ref(model)
    if ref is None:
        return 0
    info = Catalog(agent.config.block("models", ModelsSettings)).model(ref)
    cap = agent.block("", AgentModelSettings).context_tokens or info.window
    return min(info.window, cap) if info.known else 0
