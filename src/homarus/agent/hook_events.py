"""The hooks of a home: found, loaded, and told what happens in its sessions. A home without hooks pays nothing for them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from homarus.config.load import Config
from homarus.config.paths import expand
from homarus.core.clock import Ids
from homarus.core.errors import Denied
from homarus.core.events import ChildEnded, ChildStarted, MessageEnded, RunEnded, RunEvent, ToolEnded
from homarus.core.messages import Inbound
from homarus.core.routes import SessionKey, main_session
from homarus.core.text import single_line
from homarus.tools.untrusted import wrapped

log = logging.getLogger("homarus.hooks")
# What `happened` tells of.
IN_TURNS = ("tool:after", "agent:end", "model:output", "subagent:spawned", "subagent:ended")
JOBS = ("cron:added", "cron:updated", "cron:removed", "cron:started", "cron:finished")
MAX_RESULT, MAX_TEXT = 10_000, 1_000_000

if TYPE_CHECKING:
    from homarus.agent.home import Home
    from homarus.hooks.discover import HookSet
    from homarus.hooks.events import HookEvent
    from homarus.hooks.registry import Handler, HookRegistry


def hooks_of(config: Config, workspace: Path) -> HookSet:
    """Return the hooks that lie where this configuration looks for them; none is loaded."""
    from homarus.hooks.discover import find_hooks, standard_roots
    from homarus.hooks.load import HookSettings

    extra = config.block("hooks.internal", HookSettings).load.extra_dirs
    folders = [expand(folder, config.paths.home) for folder in extra]
    return find_hooks(standard_roots(managed=config.paths.hooks_dir, workspace=workspace, extra=folders))


def load_registry(config: Config, env: Mapping[str, str], workspace: Path, *, only: str = "") -> HookRegistry | None:
    """Return the listening hooks, with `only` just those that hear this event; None if nobody asked for a hook."""
    entries = config.get("plugins.entries")
    rows = entries.values() if isinstance(entries, dict) else ()
    # Plugins may have hooks, too; they join later.
    joined = any(isinstance(row, dict) and row.get("enabled") for row in rows)
    if not config.get("hooks.internal") and not joined:
        return None
    from homarus.hooks.discover import HookSet
    from homarus.hooks.events import family, listening_order
    from homarus.hooks.load import HookSettings, load_hooks
    from homarus.hooks.manifest import Facts, on_path
    from homarus.hooks.registry import HookRegistry

    settings = config.block("hooks.internal", HookSettings)
    found = hooks_of(config, workspace)
    heard = set(listening_order(only))
    hooks = tuple(hook for hook in found.hooks if not only or heard & {family(key) for key in hook.events})
    facts = Facts(sys.platform, config.variables(env), on_path(env.get("PATH", "")), config.get)
    registry = HookRegistry()
    statuses = load_hooks(HookSet(hooks), settings, facts, registry, {"stateDir": str(config.paths.state_dir)})
    for status in statuses:
        if status.wanted and not status.able:
            log.warning("hook %s is enabled and cannot run: %s", status.hook.name, status.reason)
    return registry if joined or any(status.loaded for status in statuses) else None


class Changed(Struct, frozen=True):
    """A text that hooks made another one of; `sources` are those among them that nobody has to trust."""

    text: str
    sources: tuple[str, ...] = ()

    def marked(self, ids: Ids) -> str:
        """Return the text as a model may read it: what nobody has to trust is marked as a stranger's."""
        return wrapped(self.text, ", ".join(self.sources), ids.uuid()[:8]) if self.sources else self.text


class Handled(Struct, frozen=True):
    """What hooks did with a message that came in: whether it is dealt with, by which answer; or what it shall say instead."""

    done: bool = False
    reply: str = ""
    content: Changed | None = None


def changed(told: HookEvent | None, facts: Mapping[str, Any], name: str) -> Changed | None:
    """Return the text under `name` of an event if hooks made another one of it."""
    text = told.context.get(name) if told is not None else None
    if told is None or not isinstance(text, str) or text == facts.get(name):
        return None
    from homarus.hooks.events import UNTRUSTED

    return Changed(text[:MAX_TEXT], tuple(told.context.get(UNTRUSTED, ())))


class HookEvents:
    """Tells hooks of moments in a session, with the facts that every such event has."""

    def __init__(self, hooks: HookRegistry | None, home: Home) -> None:
        self._hooks = hooks
        self._home = home
        self._order = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    def listen(self, key: str, handler: Handler, *, source: str, order: int = 0, seconds: float | None = None) -> None:
        """Add what a plugin wants to hear."""
        if self._hooks is not None:
            self._hooks.register(key, handler, source=source, order=order, timeout=seconds)

    def happened(self, session: SessionKey, happening: RunEvent) -> None:
        """Tell hooks, beside the turn and in order, of what happens in a turn."""
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
        elif isinstance(happening, MessageEnded):
            said = happening.message
            moment, facts = "model:output", {"model": f"{said.provider}/{said.model}".strip("/"), "text": said.text}
            facts |= {"toolCalls": [call.name for call in said.calls], "stopReason": str(said.stop_reason)}
            facts |= {"usage": msgspec.to_builtins(said.usage), "error": said.error}
        elif isinstance(happening, ChildStarted | ChildEnded):
            moment = "subagent:spawned" if isinstance(happening, ChildStarted) else "subagent:ended"
            facts = {"runId": happening.run_id, "childSessionKey": happening.session_key, "label": happening.name}
            facts |= {"status": happening.status} if isinstance(happening, ChildEnded) else {"model": happening.model}
        if moment:
            self.soon(moment, session, facts)

    def job(self, kind: str, row: Mapping[str, Any]) -> None:
        """Tell hooks what becomes of a job, as automation tells of it."""
        moment = f"{kind}:{row.get('action')}"
        if moment in JOBS:
            self.soon(moment, main_session(self._home.config.default_agent.id), row)

    def session_ended(self, session: SessionKey, reason: str) -> None:
        """Tell hooks that a session's transcript is closed; what says so has not taken it away yet."""
        if self.anybody("session:end") and (found := self._home.store(session.agent_id).find(session)) is not None:
            self.soon("session:end", session, {"sessionId": found.entry.session_id, "reason": reason})

    def soon(self, moment: str, session: SessionKey, facts: Mapping[str, Any]) -> None:
        """Tell them beside everything else, in the order of what happened. Whoever tells waits for nobody."""
        if self.anybody(moment):
            task = asyncio.ensure_future(self._in_turn(moment, session, facts))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _in_turn(self, moment: str, session: SessionKey, facts: Mapping[str, Any]) -> None:
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
        told = await self.ask(moment, session, facts)
        return [] if told is None else list(told.messages)

    async def ask(self, moment: str, session: SessionKey, facts: Mapping[str, Any]) -> HookEvent | None:
        """Tell them, and return the event as they left it; None where nobody listens."""
        if self._hooks is None or not self.anybody(moment):
            return None
        from homarus.hooks.events import event

        home = self._home
        context = {
            "workspaceDir": str(home.workspace(session.agent_id)),
            "agentId": session.agent_id,
            "timezone": str(home.zone(session.agent_id)),
            "cfg": home.config.document,
            **facts,
        }
        return await self._hooks.emit(event(moment, home.clock.now(), session_key=str(session), context=context))

    async def change(self, moment: str, session: SessionKey, facts: Mapping[str, Any], name: str) -> Changed | None:
        """Ask for another text under `name` of the facts; None where it stays as it is."""
        return changed(await self.ask(moment, session, facts), facts, name)

    async def handled(self, moment: str, session: SessionKey, inbound: Inbound, text: str) -> Handled:
        """Ask whether one of them deals with a message that came in, or wants it to say something else."""
        if not self.anybody(moment):
            return Handled()
        facts: dict[str, Any] = {"content": text, "from": inbound.sender, "messageId": inbound.id}
        facts |= {"channelId": inbound.channel, "accountId": inbound.account, "conversationId": inbound.peer}
        told = await self.ask(moment, session, {**facts, "handled": False, "reply": ""})
        if told is None:
            return Handled()
        reply = told.context.get("reply")
        done = told.context.get("handled") is True
        return Handled(done, reply if done and isinstance(reply, str) else "", changed(told, facts, "content"))

    async def leave(self, moment: str, session: SessionKey, facts: Mapping[str, Any]) -> None:
        """Ask for leave. Raises Denied where one says no, and where one fails: it had no chance to say so."""
        refuse(await self.ask(moment, session, {**facts, "block": False, "blockReason": ""}))


def refuse(told: HookEvent | None) -> None:
    """Raise Denied for an event of which a hook said `block`, or at which one failed."""
    if told is not None and told.failed:
        raise Denied(f"{', '.join(told.failed)}, which looks at this, failed")
    if told is not None and told.context.get("block"):
        raise Denied(single_line(str(told.context.get("blockReason") or ""), 300) or "a hook does not allow it")
