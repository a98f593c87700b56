"""The hooks of a home: found, loaded, and told what happens in its sessions. A home without hooks pays nothing for them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homarus.config.load import Config
from homarus.config.paths import expand
from homarus.core.events import RunEnded, RunEvent, ToolEnded
from homarus.core.routes import SessionKey

log = logging.getLogger("homarus.hooks")
MAX_RESULT = 10_000

if TYPE_CHECKING:
    from homarus.agent.home import Home
    from homarus.hooks.registry import Handler, HookRegistry


def load_registry(config: Config, env: Mapping[str, str], workspace: Path, *, only: str = "") -> HookRegistry | None:
    """Return the listening hooks, with `only` just those that hear this event; None if nobody asked for a hook."""
    entries = config.get("plugins.entries")
    rows = entries.values() if isinstance(entries, dict) else ()
    # Plugins inside the program may have hooks, too; they join later.
    joined = any(isinstance(row, dict) and row.get("enabled") and row.get("inProcess") for row in rows)
    if not config.get("hooks.internal") and not joined:
        return None
    from homarus.hooks.discover import HookSet, find_hooks, standard_roots
    from homarus.hooks.events import family, listening_order
    from homarus.hooks.load import HookSettings, load_hooks
    from homarus.hooks.manifest import Facts, on_path
    from homarus.hooks.registry import HookRegistry

    settings = config.block("hooks.internal", HookSettings)
    extra = [expand(folder, config.paths.home) for folder in settings.load.extra_dirs]
    found = find_hooks(standard_roots(managed=config.paths.hooks_dir, workspace=workspace, extra=extra))
    heard = set(listening_order(only))
    hooks = tuple(hook for hook in found.hooks if not only or heard & {family(key) for key in hook.events})
    facts = Facts(sys.platform, config.variables(env), on_path(env.get("PATH", "")), config.get)
    registry = HookRegistry()
    statuses = load_hooks(HookSet(hooks), settings, facts, registry, {"stateDir": str(config.paths.state_dir)})
    for status in statuses:
        if status.wanted and not status.able:
            log.warning("hook %s is enabled and cannot run: %s", status.hook.name, status.reason)
    return registry if joined or any(status.loaded for status in statuses) else None


class HookEvents:
    """Tells hooks of moments in a session, with the facts that every such event has."""

    def __init__(self, hooks: HookRegistry | None, home: Home) -> None:
        self._hooks = hooks
        self._home = home
        self._order = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    def listen(self, key: str, handler: Handler, *, source: str, order: int = 0) -> None:
        """Add what a plugin wants to hear."""
        if self._hooks is not None:
            self._hooks.register(key, handler, source=source, order=order)

    def happened(self, session: SessionKey, happening: RunEvent) -> None:
        """Tell hooks, beside the turn and in order, of a call that was made and of a turn that ended."""
        moment, facts = "", dict[str, Any]()
        if isinstance(happening, ToolEnded):
            done = happening.result
            moment, facts = (
                "tool:after",
                {"toolName": done.tool_name, "toolCallId": done.call_id, "isError": done.is_error},
            )
            facts |= {"result": done.text[:MAX_RESULT], "durationMs": round(happening.seconds * 1000)}
        elif isinstance(happening, RunEnded):
            moment, facts = "agent:end", {"runId": happening.run_id, "status": happening.status, "text": happening.text}
            facts |= {"error": happening.error, "durationMs": round(happening.seconds * 1000)}
        if moment and self.anybody(moment):
            task = asyncio.ensure_future(self._in_turn(moment, session, facts))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _in_turn(self, moment: str, session: SessionKey, facts: dict[str, Any]) -> None:
        async with self._order:
            await self(moment, session, facts)

    async def settled(self) -> None:
        """Return when what happened so far was told."""
        await asyncio.gather(*self._telling, return_exceptions=True)

    def anybody(self, moment: str) -> bool:
        """Say whether anybody listens: what costs something to find out need not be found out for nobody."""
        return self._hooks is not None and bool(self._hooks.listeners(moment))

    async def __call__(self, moment: str, session: SessionKey, facts: Mapping[str, Any]) -> list[str]:
        """Tell them, and return what they want the user to be told."""
        if self._hooks is None or not self.anybody(moment):
            return []
        from homarus.hooks.events import event

        home = self._home
        context = {
            "workspaceDir": str(home.workspace(session.agent_id)),
            "agentId": session.agent_id,
            "timezone": str(home.zone(session.agent_id)),
            "cfg": home.config.document,
            **facts,
        }
        told = await self._hooks.emit(event(moment, home.clock.now(), session_key=str(session), context=context))
        return list(told.messages)
