"""Ask hooks whether something may be installed, in a command that has no running home. One that fails, refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from homarus.agent.hook_events import load_registry, refuse
from homarus.config.view import Config
from homarus.core.clock import SystemClock
from homarus.workspace.agents import resolve_workspace

MOMENT, HOOK = "install:before", "before_install"


def ask_leave(config: Config, env: Mapping[str, str], facts: dict[str, Any]) -> None:
    """Raise Denied where a hook or a plugin does not want this skill or plugin here."""
    hooks = load_registry(config, env, resolve_workspace(config, config.default_agent.id, env), only=MOMENT)
    if hooks is None:
        return
    from homarus.hooks.events import HookEvent, event
    from homarus.models.access import Models
    from homarus.plugins.host import Plugins

    async def ask() -> HookEvent:
        models = Models(config, env, clock=SystemClock())
        plugins = Plugins(config, models.registry, only=HOOK)
        try:
            plugins.listen(
                lambda key, handler, *, seconds, **more: hooks.register(key, handler, timeout=seconds, **more)
            )
            context = {"cfg": config.document, **facts, "block": False, "blockReason": ""}
            return await hooks.emit(event(MOMENT, SystemClock().now(), context=context))
        finally:
            await plugins.aclose()
            await models.aclose()

    with ThreadPoolExecutor(1) as thread:  # whoever installs may stand in a loop already
        refuse(thread.submit(lambda: asyncio.run(ask())).result())
