"""Find and load the hooks of a home. Most homes have none, and pay nothing for those that have."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from homarus.config.load import Config
from homarus.config.paths import expand

if TYPE_CHECKING:
    from homarus.hooks.registry import HookRegistry


def load_registry(config: Config, env: Mapping[str, str], workspace: Path, *, only: str = "") -> HookRegistry | None:
    """Return the listening hooks, with `only` just those that hear this event; None if nobody asked for a hook."""
    if not config.get("hooks.internal"):
        return None
    from homarus.hooks.discover import HookSet, find_hooks, standard_roots
    from homarus.hooks.events import family, listening_order
    from homarus.hooks.load import load_hooks
    from homarus.hooks.manifest import Facts
    from homarus.hooks.registry import HookRegistry
    from homarus.hooks.settings import HookSettings

    settings = config.block("hooks.internal", HookSettings)
    extra = [expand(folder, config.paths.home) for folder in settings.load.extra_dirs]
    found = find_hooks(standard_roots(managed=config.paths.hooks_dir, workspace=workspace, extra=extra))
    heard = set(listening_order(only))
    hooks = tuple(hook for hook in found.hooks if not only or heard & {family(key) for key in hook.events})
    search = env.get("PATH")
    facts = Facts(sys.platform, env, lambda name: shutil.which(name, path=search) is not None, config.get)
    registry = HookRegistry()
    statuses = load_hooks(HookSet(hooks), settings, facts, registry, {"stateDir": str(config.paths.state_dir)})
    return registry if any(status.loaded for status in statuses) else None
