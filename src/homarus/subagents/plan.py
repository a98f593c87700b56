"""From what a model asks for to a child as it may be: everything of its parent, narrowed. The one place that decides it.

A child gets at most its parent's tools, sandbox, trust and agents, and all of its parent's taint. Nothing is started
here: the result is a value, and `run` writes it down before anything happens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.config.view import AgentConfig
from homarus.context.engine import SpawnCall
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, Denied, StorageError, ToolError
from homarus.core.messages import least_trusted
from homarus.core.routes import SessionKey, SessionKind, named_session, normalize_agent_id
from homarus.core.text import single_line
from homarus.models.levels import parse_level
from homarus.models.select import Override
from homarus.sandbox.spec import Access, SandboxSpec
from homarus.storage.boundary import Root
from homarus.subagents.child import ChildRun, SubagentSettings
from homarus.tools.exec_settings import ExecRequest, stricter
from homarus.tools.paths import clean
from homarus.tools.registry import members
from homarus.tools.tool import ToolContext

MAX_TASK_CHARS = 4_000  # of a task in the book; the child gets all of it


class SpawnPlan(Struct, frozen=True):
    """A child that may be started: the run as it will be written down, and how its session begins."""

    run: ChildRun
    key: SessionKey
    task: str
    model: str
    thinking: str
    fork: bool
    # What its parent should know besides.
    note: str = ""


class Planner:
    """Says what becomes of an order; what may not be is refused with a reason that helps the model."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def settings(self, agent_id: str) -> SubagentSettings:
        return self._home.config.agent(agent_id).block("subagents", SubagentSettings)

    async def model(self, context: ToolContext, order: dict[str, Any]) -> str:
        """Return the child's model: the one that was asked for, the configured one, or its parent's."""
        agent = self._agent(context, order)
        wanted = str(order.get("model") or "") or self.settings(agent.id).model_name or context.model
        try:
            found = await self._home.models.chain(agent, override=Override(wanted, "auto") if wanted else None)
        except ConfigError as problem:
            raise ToolError(problem.message, cure="leave model out, or name one that is configured") from None
        return found.primary.key

    def plan(self, context: ToolContext, order: dict[str, Any], model: str, at_work: int) -> SpawnPlan:
        """Return the child, or raise. It waits for nothing, so that no second order can slip in between."""
        line = tuple(dict.fromkeys((*context.lineage, context.agent_id)))
        self.within_limits(context, line, at_work)
        agent = self._agent(context, order)
        run_id = self._home.ids.uuid()
        key = named_session(agent.id, SessionKind.SUBAGENT, run_id)
        own = agent.id == context.agent_id
        sandbox = self._sandbox(context, agent, key, required=order.get("sandbox") == "require")
        workspace = sandbox.folder(context.workspace if own else self._home.workspace(agent.id))
        base = context.cwd if workspace == context.workspace else workspace
        cwd, own_folder = self._folder(context, order, base, workspace, sandbox)
        settings = self.settings(agent.id)
        run = ChildRun(
            run_id=run_id,
            parent=str(context.session),
            child=str(key),
            task=order["task"].strip()[:MAX_TASK_CHARS],
            label=single_line(str(order.get("label") or order.get("taskName") or ""), 80),
            route=replace(context.route, session_key=context.session),
            started_ms=epoch_ms(self._home.clock.now()),
            trust=context.trust,
            taint=context.taint.sources,
            # Another agent's memory is not the parent's to read.
            tools=context.tools if own else tuple(name for name in context.tools if name not in members("memory")),
            lineage=line,
            root=str(context.root or context.session),
            depth=context.depth + 1,
            max_depth=min(context.max_depth, settings.depth) if not own else context.max_depth,
            workspace=str(workspace),
            cwd=str(cwd),
            own_folder=own_folder,
            sandbox=sandbox,
            env=tuple(sorted(context.env)),
            security=context.wish.security,
            ask=context.wish.ask,
            seconds=_seconds(order, settings),
            keep=order.get("cleanup") != "delete",
            lasting=order.get("mode") == "session",
        )
        thinking = self._thinking(order, settings) or context.thinking
        closed = not own and sandbox.access is Access.NONE and not sandbox.refused
        note = f"It works without files: the workspace of {agent.id} is no place for work." if closed else ""
        return SpawnPlan(run, key, order["task"].strip(), model, thinking, order.get("context") == "fork", note)

    def again(self, context: ToolContext, before: ChildRun, message: str, at_work: int) -> ChildRun:
        """Return another run of a child that stays: its bounds are what they were, narrowed by what its parent has now."""
        line = tuple(dict.fromkeys((*context.lineage, context.agent_id)))
        self.within_limits(context, line, at_work)
        key = SessionKey.parse(before.child)
        sandbox = self._sandbox(context, self._home.config.agent(key.agent_id), key, required=False)
        return replace(
            before,
            run_id=self._home.ids.uuid(),
            task=message.strip()[:MAX_TASK_CHARS],
            route=replace(context.route, session_key=context.session),
            started_ms=epoch_ms(self._home.clock.now()),
            trust=least_trusted((before.trust, context.trust)),
            taint=tuple(dict.fromkeys((*before.taint, *context.taint.sources))),
            tools=tuple(name for name in before.tools if name in context.tools),
            sandbox=sandbox.narrow(before.sandbox),
            env=tuple(name for name in before.env if name in context.env),
            **_strictest(before, context),
        )

    def notice(self, plan: SpawnPlan) -> SpawnCall:
        """Return what a context engine is told of a child before it starts."""
        minutes = self.settings(plan.key.agent_id).archive_after_minutes
        mode: Literal["isolated", "fork"] = "fork" if plan.fork else "isolated"
        return SpawnCall(parent=plan.run.parent, child=plan.run.child, mode=mode, ttl_ms=max(0, minutes) * 60_000)

    def within_limits(self, context: ToolContext, line: tuple[str, ...], at_work: int) -> None:
        """Refuse a child that would be one too deep or one too many."""
        if context.depth >= context.max_depth:
            raise Denied(
                f"sub-agents may be {context.max_depth} deep here (subagents.maxSpawnDepth)",
                cure="do the task yourself",
            )
        width = min(self.settings(agent).width for agent in line)
        if at_work >= width:
            raise ToolError(
                f"{at_work} sub-agents are at work, and more are not allowed (subagents.maxChildrenPerAgent)",
                cure="wait for one with sessions_yield, or cancel one with subagents",
            )

    def agents(self, context: ToolContext) -> list[AgentConfig]:
        """Return the agents that a turn may start children for: everyone above it must allow them."""
        line = (*context.lineage, context.agent_id)
        return [
            agent
            for agent in self._home.config.agents
            if all(self.settings(above).allows(above, agent.id) for above in line)
        ]

    def _agent(self, context: ToolContext, order: dict[str, Any]) -> AgentConfig:
        wanted = str(order.get("agentId") or "").strip()
        ident = normalize_agent_id(wanted) if wanted else context.agent_id
        allowed = [agent.id for agent in self.agents(context)]
        if ident not in {*allowed, context.agent_id}:
            raise Denied(
                f"no sub-agent may run as '{single_line(wanted, 64)}' here",
                cure=f"use one of: {', '.join(allowed)} (subagents.allowAgents)",
            )
        return self._home.config.agent(ident)

    def _sandbox(self, context: ToolContext, agent: AgentConfig, key: SessionKey, *, required: bool) -> SandboxSpec:
        """Return what confines the child. `allowAgents` is the owner's consent to show it the workspace of its own agent."""
        held = context.sandbox
        wish = self._home.sandbox(agent.id, key, always=required or held.enforced, most=held.most)
        if agent.id != context.agent_id:
            held = held.lend(wish)
        given = held.narrow(wish)
        if not held.contains(given) or (required and not given.enforced):
            raise Denied("this sub-agent would be less confined than you are", cure="start it without its own settings")
        return given

    def _folder(
        self, context: ToolContext, order: dict[str, Any], base: Path, workspace: Path, sandbox: SandboxSpec
    ) -> tuple[Path, bool]:
        """Return where the child begins, and whether that is a workspace of its own."""
        own = str(order.get("workspace") or "")
        wanted = own or str(order.get("cwd") or "")
        if not wanted:
            return base, False
        path = Path(os.path.normpath(base / clean(wanted, context.env.get("HOME", ""))))
        if not sandbox.can_read(os.path.realpath(path)):
            raise Denied(f"{path} is outside of what you can see", cure=f"use a folder below {workspace}")
        if own and not path.is_dir() and "write" in context.tools:
            _make(path, workspace, sandbox)
        if not path.is_dir():
            raise ToolError(f"{path} is not a folder", cure="name a folder that exists")
        return path, bool(own)

    def _thinking(self, order: dict[str, Any], settings: SubagentSettings) -> str:
        wanted = str(order.get("thinking") or "")
        level = parse_level(wanted) if wanted else parse_level(settings.thinking)
        if wanted and level is None:
            raise ToolError(f"'{single_line(wanted, 40)}' is no thinking level", cure="use off, low, medium or high")
        return level or ""


def _make(path: Path, workspace: Path, sandbox: SandboxSpec) -> None:
    """Make a folder inside the child's workspace; no link on the way leads out of it."""
    if not path.is_relative_to(workspace) or not sandbox.can_write(os.path.realpath(path)):
        raise Denied(f"{path} cannot be made", cure=f"name a folder below {workspace}")
    try:
        with Root(workspace) as root:
            root.make_dirs(str(path.relative_to(workspace)), mode=0o755)
    except (OSError, StorageError) as problem:
        raise ToolError(f"cannot make {path}: {problem}", cure="name another folder") from None


def _strictest(before: ChildRun, context: ToolContext) -> dict[str, str]:
    """Return how strict a child's session is about commands: as it was, or as its parent's is by now if that is more."""
    was = stricter("full", ExecRequest(security=before.security, ask=before.ask))
    if stricter(was, context.wish) == was:
        return {"security": before.security, "ask": before.ask}
    return {"security": context.wish.security, "ask": context.wish.ask}


def _seconds(order: dict[str, Any], settings: SubagentSettings) -> float | None:
    """Return how long a run may take: what was asked for, what is configured, or nothing; zero is for ever."""
    asked = order.get("runTimeoutSeconds")
    if asked is None:
        return float(settings.run_timeout_seconds) or None
    if asked < 0:
        raise ToolError("runTimeoutSeconds is negative", cure="give seconds, or 0 for no limit")
    return float(asked)
