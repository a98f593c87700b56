"""The bootstrap context of one run: load, choose by audience and mode, ask the hooks, choose again, cut to size.

The second choice is what keeps MEMORY.md private: whatever name or content a hook gives it, it does not reach a session
in which others read along.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import StorageError
from homarus.core.text import neutralize
from homarus.hooks.events import event
from homarus.hooks.registry import HookRegistry
from homarus.storage.boundary import Root
from homarus.storage.cache import BoundedCache
from homarus.workspace import names
from homarus.workspace.audience import Audience
from homarus.workspace.hook_files import HookFiles, files_from_hook
from homarus.workspace.inject import BootstrapContext, Inert, build_context
from homarus.workspace.loader import WorkspaceFile, WorkspaceLoader
from homarus.workspace.settings import Injection, WorkspaceSettings
from homarus.workspace.state import SetupState, read_shared_state, read_state

EVENT = "agent:bootstrap"
_log = logging.getLogger("homarus.workspace")
# The transcript entry by which other programs know that the model has read everything.
MARKER = "openclaw:bootstrap-context:full"
_PERSONA = frozenset({"soul.md", "identity.md", "user.md"})

# Given the context of an `agent:bootstrap` event; changes it in place and never raises.
Hook = Callable[[dict[str, Any]], None]


class Ritual(StrEnum):
    """Whether the first-run ritual is pending here, and whether it can be completed in this run."""

    NONE = "none"
    LIMITED = "limited"
    FULL = "full"


class BootstrapRequest(Struct, frozen=True):
    """Everything about one run that decides what it sees of the workspace."""

    workspace: Path
    settings: WorkspaceSettings = WorkspaceSettings()
    audience: Audience = Audience()
    agent_id: str = "main"
    session_key: str = ""
    session_id: str = ""
    # A compaction within this turn took from the history what earlier turns said of the files.
    after_compaction: bool = False
    # A person is talking to this agent here, in its primary conversation.
    interactive: bool = True
    can_read_files: bool = True
    # Not a copy of the workspace in a sandbox.
    canonical: bool = True
    # Where tools run, if that is another folder: only its AGENTS.md is added, after everything else.
    cwd: Path | None = None
    # Where a newer OpenClaw keeps the record of the setup, if this home has that.
    shared_database: Path | None = None
    config: Any = None


def hook_of(registry: HookRegistry, clock: Clock) -> Hook:
    """Return what tells the listeners of `agent:bootstrap`; without a listener it costs next to nothing."""

    def emit(context: dict[str, Any]) -> None:
        if registry.listeners(EVENT):
            registry.emit_sync(event(EVENT, clock.now(), session_key=context["sessionKey"], context=context))

    return emit


class Bootstrap:
    """Builds bootstrap contexts. Two runs over unchanged files get the same object."""

    def __init__(
        self,
        loader: WorkspaceLoader,
        *,
        hook: Hook | None = None,
        warn: Callable[[str], None] = _log.warning,
        inert: Inert = neutralize,
    ) -> None:
        self._loader = loader
        self._inert = inert
        self._hook = hook
        self._warn = warn
        self._built: BoundedCache[tuple[Any, ...], BootstrapContext] = BoundedCache(32)
        self._said: BoundedCache[str, bool] = BoundedCache(256)

    def build(self, run: BootstrapRequest) -> BootstrapContext:
        """Return what this run carries of its workspace; nothing in it raises for what a file or a hook contains."""
        mode = run.settings.injection
        if mode is Injection.NEVER:
            return BootstrapContext()
        audience = run.audience
        files = [file for file in self._loader.load(run.workspace) if audience.may_see(file.name)]
        ritual = self._ritual(run, files)
        offered = self._asked(run, [file for file in files if _is_due(file, ritual)])
        self._say(offered.warnings)
        ready = [file for file in offered.files if audience.may_see(file.name) and _is_due(file, ritual)]
        if not any(names.base_of(file.name) == names.BOOTSTRAP.lower() for file in ready):
            ritual = Ritual.NONE
        stays = Injection.ALWAYS if run.after_compaction else mode
        return self._finish(run, tuple(ready), offered, ritual=ritual, mode=stays)

    def _asked(self, run: BootstrapRequest, files: list[WorkspaceFile]) -> HookFiles:
        """Return the files after the hooks and the run's own folder had their say, without what must stay private."""
        offered = HookFiles(files=tuple(files))
        if self._hook is not None:
            context = _event_context(run, files)
            self._hook(context)
            offered = files_from_hook(context.get("bootstrapFiles"), files, run.workspace, self._loader)
        return self._with_cwd(run, offered).without_private(run.audience, run.workspace, self._loader)

    def _with_cwd(self, run: BootstrapRequest, offered: HookFiles) -> HookFiles:
        if run.cwd is None or os.path.realpath(run.cwd) == os.path.realpath(run.workspace):
            return offered
        there = self._loader.read(run.cwd, (names.AGENTS,))
        kept = tuple(replace(file, last=True) for file in there if not file.missing)
        return replace(offered, files=(*offered.files, *kept))

    def _ritual(self, run: BootstrapRequest, files: list[WorkspaceFile]) -> Ritual:
        audience = run.audience
        page = next((file for file in files if file.name == names.BOOTSTRAP), None)
        if page is None or not (page.content or "").strip():
            return Ritual.NONE
        if audience.heartbeat or audience.narrow or not audience.owner_alone or not run.interactive:
            return Ritual.NONE
        try:
            with Root(run.workspace) as root:
                state = read_state(root)
        except StorageError:
            return Ritual.NONE
        if state == SetupState() and run.shared_database is not None:
            state = read_shared_state(run.shared_database, run.workspace)
        if state.completed:
            return Ritual.NONE
        return Ritual.FULL if run.can_read_files and run.canonical else Ritual.LIMITED

    def _finish(
        self,
        run: BootstrapRequest,
        files: tuple[WorkspaceFile, ...],
        offered: HookFiles,
        *,
        ritual: Ritual,
        mode: Injection,
    ) -> BootstrapContext:
        key = (files, run.settings.limits, offered.warnings, offered.omitted, ritual, mode)
        known = self._built.get(key)
        if known is not None:
            return known
        context = build_context(files, limits=run.settings.limits, inert=self._inert)
        self._say(context.warnings)
        context = replace(
            context,
            files=tuple(file for file in context.files if _in_system(file.name, mode)),
            told=tuple(file for file in context.files if not _in_system(file.name, mode)),
            ritual=ritual.value,
            carried=True,
            omitted=context.omitted + offered.omitted,
            truncated=context.truncated or offered.omitted > 0,
            warnings=(*offered.warnings, *context.warnings),
        )
        self._built.put(key, context)
        return context

    def _say(self, warnings: tuple[str, ...]) -> None:
        """Log each warning once, not once a turn."""
        for text in warnings:
            if text not in self._said:
                self._said.put(text, True)
                self._warn(text)


def earns_marker(*, carried: bool, ok: bool, heartbeat: bool = False, compacted: bool = False) -> bool:
    """Say whether a finished turn proves that the model has read everything and still has it."""
    return carried and ok and not heartbeat and not compacted


def marker(now: datetime, *, run_id: str, session_id: str) -> dict[str, Any]:
    """Return the transcript entry for a turn that earned it; the log adds its id and parent."""
    data = {"timestamp": epoch_ms(now), "runId": run_id, "sessionId": session_id}
    return {"type": "custom", "customType": MARKER, "data": data}


def _is_due(file: WorkspaceFile, ritual: Ritual) -> bool:
    return names.base_of(file.name) != names.BOOTSTRAP.lower() or ritual is not Ritual.NONE or bool(file.unreadable)


def _in_system(name: str, mode: Injection) -> bool:
    """Say whether a file stands in the system message; else it is told once on a user turn and stays in the history.

    Long-term memory never enters the history: what is there is in view of whoever writes next.
    """
    base = names.base_of(name)
    return mode is Injection.ALWAYS or names.is_memory(base) or (mode is Injection.LIGHT and base in _PERSONA)


def _event_context(run: BootstrapRequest, files: list[WorkspaceFile]) -> dict[str, Any]:
    return {
        "workspaceDir": str(run.workspace),
        "bootstrapFiles": [
            {"name": file.name, "path": file.path, "content": file.content, "missing": file.missing} for file in files
        ],
        "cfg": run.config,
        "sessionKey": run.session_key,
        "sessionId": run.session_id,
        "agentId": run.agent_id,
    }
