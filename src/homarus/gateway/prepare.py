"""What a turn runs with, worked out of a home: its models, its tools, its sandbox, its prompt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.budget import UNBOUNDED, Meter, retry_limit
from homarus.agent.choice import stored_override
from homarus.agent.deadline import Deadline
from homarus.agent.services import ComposeRequest, Prepared, Speech
from homarus.agent.settings import TurnSettings
from homarus.agent.subagents import ChildRun, SubagentSettings, child_rules
from homarus.agent.turn import Turn
from homarus.config.view import Config
from homarus.core.cancel import Cancel
from homarus.core.later import later, made_later
from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.gateway.channelrules import channel_layers
from homarus.gateway.compose import Composed, Composer, PromptRequest
from homarus.gateway.home import Home
from homarus.gateway.spending import Spending, Tally
from homarus.gateway.toolkit import Toolkit, wish_of
from homarus.models.access import Models
from homarus.models.levels import speed
from homarus.models.ref import ModelRef
from homarus.models.rotation import Pin
from homarus.prompt.facts import RuntimeFacts, SessionFacts, TurnFacts
from homarus.prompt.section import Section, Tier
from homarus.queue.settings import QueueSettings
from homarus.sandbox.resolve import clean_environment, is_dangerous_variable
from homarus.sandbox.spec import SandboxSpec
from homarus.sessions.row import SessionEntry
from homarus.skills.agent import settings_of
from homarus.skills.env import RunEnv, env_for_run
from homarus.skills.snapshot import Snapshot
from homarus.storage.cache import BoundedCache
from homarus.tools.exec_settings import ExecRequest
from homarus.tools.policy import Who
from homarus.tools.tool import Taint, ToolContext

if TYPE_CHECKING:
    from homarus.agent.ports import Emit
    from homarus.gateway.subagents.children import Children
    from homarus.tools import loopguard
else:
    loopguard = later("homarus.tools.loopguard")


class Place(Struct, frozen=True):
    """Where a turn stands: on whose word it acts, what it may touch, and who is above it."""

    trust: Trust
    taint: Taint
    workspace: Path
    cwd: Path
    sandbox: SandboxSpec
    depth: int = 0
    max_depth: int = 1
    lineage: tuple[str, ...] = ()
    root: SessionKey | None = None
    # What a parent had; None where there is none.
    tools: tuple[str, ...] | None = None
    # What a parent's session wished for its commands, where that is stricter; a child has no wider wishes of its own.
    wish: ExecRequest | None = None

    # The names of the variables that a parent's commands had.
    env: tuple[str, ...] | None = None

    def known(self, values: dict[str, str]) -> dict[str, str]:
        """Return the variables of a turn's commands; another agent's secrets are not for the child of one without them."""
        return {name: value for name, value in values.items() if self.env is None or name in self.env}

    def who(self, model: str) -> Who:
        """Return whose turn it is, in the words of policy."""
        provider, _, name = model.partition("/")
        return Who(
            self.trust, provider, name, sandboxed=self.sandbox.enforced, depth=self.depth, max_depth=self.max_depth
        )


class Preparer:
    """Answers what a turn asks before it runs. It changes nothing."""

    def __init__(
        self,
        home: Home,
        models: Models,
        composer: Composer,
        toolkit: Toolkit,
        spending: Spending,
        children: Children,
    ) -> None:
        self._home = home
        self._children = children
        self._models = models
        self._composer = composer
        self._toolkit = toolkit
        # What the last report of each session was made from.
        self._reported: BoundedCache[str, tuple[object, ...]] = BoundedCache(64)
        self._spending = spending

    async def prepare(self, turn: Turn, entry: SessionEntry, cancel: Cancel, emit: Emit) -> Prepared:
        """Resolve the models, the tools and the rules of a turn."""
        agent = self._home.config.agent(turn.agent_id)
        chain = await self._models.chain(
            agent, override=turn.model or stored_override(entry, turn.session), images=bool(turn.images)
        )
        ref = chain.primary
        info = self._models.info(ref)
        queue = self._home.config.block("messages.queue", QueueSettings)
        thinking = self._models.level(agent, ref, inline=turn.thinking, session=entry.thinking_level or "")
        place = self._place(turn)
        layers = channel_layers(self._home.config.document.get("channels"), turn.route, turn.senders)
        box = self._toolkit.box(turn.agent_id, place.who(ref.key), place.tools, layers)
        limit = Deadline(self._seconds(turn), cancel, self._home.clock)
        skills = self._composer.skills_for(turn.agent_id, entry.skills_snapshot)
        context = replace(
            self._context(turn, entry, place, skills, cancel),
            waiting=limit.paused,
            tools=tuple(box.tools),
            model=ref.key,
            thinking=thinking,
            vision=info.sees,
            window_tokens=info.window,
            background="process" in box.tools,
        )
        return Prepared(
            recalled=await self._recalled(turn, entry),
            client=self._models.client(agent),
            chain=chain,
            box=box,
            context=context,
            skills=skills,
            guard=made_later(self._guard),
            meter=self._meter(turn),
            thinking=thinking,
            window_tokens=info.window,
            params=self._params(turn, entry, ref),
            pin=_pin(entry),
            limit=limit,
            retries=retry_limit(len(self._models.client(agent).credentials(ref))),
            steer_boundary=queue.steer_boundary,
            steer_all=queue.steer_drain == "all",
        )

    def _guard(self) -> loopguard.LoopGuard:
        return loopguard.LoopGuard(self._home.config.block("tools.loopDetection", loopguard.LoopSettings))

    def _context(self, turn: Turn, entry: SessionEntry, place: Place, skills: Snapshot, cancel: Cancel) -> ToolContext:
        """Return what the calls of a turn may know and use, before its model is known."""
        given = command_env(self._home.config, skills, place.sandbox, self._home.env)
        by_owner = turn.trust is Trust.OWNER and not (turn.taint or turn.provenance or place.depth)
        return ToolContext(
            agent_id=turn.agent_id,
            session=turn.session,
            session_id=entry.session_id,
            run_id=turn.run_id,
            route=turn.route,
            trust=place.trust,
            workspace=place.workspace,
            cwd=place.cwd,
            sandbox=place.sandbox,
            env=place.known({**given.values, "HOME": str(self._home.config.paths.home)}),
            hidden=given.hidden,
            said=turn.text if by_owner else "",
            overflow_dir=self._home.config.paths.own_dir / "overflow" / (entry.session_id or "session"),
            clock=self._home.clock,
            ids=self._home.ids,
            cancel=cancel,
            taint=place.taint,
            depth=place.depth,
            max_depth=place.max_depth,
            lineage=place.lineage,
            root=place.root,
            wish=place.wish or wish_of(self._home.config, turn, entry),
        )

    async def _recalled(self, turn: Turn, entry: SessionEntry) -> tuple[tuple[str, str], ...]:
        if self._home.config.agent(turn.agent_id).get("memorySearch.preReply") is None:
            return ()  # most homes: nothing of memory is even imported
        from homarus.gateway.memories import recall_before, wants_recall

        memory = self._home.memory(turn.agent_id)
        return await recall_before(memory, turn, entry.session_id) if wants_recall(memory.settings, turn) else ()

    def _meter(self, turn: Turn) -> Meter:
        """Return what counts a turn's calls: also for the agent that a child works for, and for the run that started it."""
        child = self._children.bounds(turn.session)
        agents = {turn.agent_id, *(child.run.lineage[:1] if child else ())}

        allowed = {agent: self._home.config.agent(agent).block("", TurnSettings).budget for agent in agents}
        bounded = any(budgets.day != UNBOUNDED for budgets in allowed.values())
        tally = Tally(self._spending, agents, at_once=bounded)
        today = partial(self._spending.today, turn.agent_id)
        meter = Meter(tally, today, budgets=allowed[turn.agent_id], above=child.meter if child else None)
        self._children.meters[turn.session] = meter
        return meter

    def _place(self, turn: Turn) -> Place:
        """Return where a turn stands: its agent's own place, or, for a child, no more than its parent had."""
        workspace, sandbox = self._home.workspace(turn.agent_id), self._home.sandbox(turn.agent_id, turn.session)
        settings = self._home.config.agent(turn.agent_id).block("subagents", SubagentSettings)
        child = self._children.bounds(turn.session)
        if child is None:
            # A child whose parent nobody knows any more has no children of its own.
            depth, most = (1, 1) if turn.session.is_subagent else (0, settings.depth)
            folder = sandbox.folder(workspace)
            return Place(turn.trust, Taint(turn.taint), folder, folder, sandbox, depth=depth, max_depth=most)
        run, taint = child.run, child.taint
        for source in turn.taint:
            taint.add(source)
        return Place(
            max(turn.trust, run.trust, key=list(Trust).index),
            taint,
            Path(run.workspace),
            Path(run.cwd),
            run.sandbox.narrow(sandbox),
            depth=run.depth,
            max_depth=run.max_depth,
            lineage=run.lineage,
            root=SessionKey.parse(run.root),
            tools=run.tools,
            env=run.env,
            wish=ExecRequest(security=run.security, ask=run.ask),
        )

    def _seconds(self, turn: Turn) -> float:
        """Return how long a turn may take; a child works as long as whoever started it said."""
        if turn.seconds is not None or turn.session.is_subagent:
            return float(turn.seconds or 0)
        return self._home.config.agent(turn.agent_id).block("", TurnSettings).timeout_seconds

    def _params(self, turn: Turn, entry: SessionEntry, ref: ModelRef) -> dict[str, Any]:
        params = self._models.params(self._home.config.agent(turn.agent_id), ref)
        wish = turn.levels.get("fast") or entry.fast_mode
        if isinstance(wish, bool):  # older homes store the choice as a truth value
            wish = "on" if wish else "off"
        tier = speed(ref.provider, wish or "auto")
        return {**params, "serviceTier": tier} if tier else params

    def compose(self, request: ComposeRequest) -> Speech:
        """Make the prompt of a turn."""
        prepared = request.prepared
        extras = tuple(Section(name, text, Tier.VOLATILE, once=True) for name, text in request.notes)
        lead = ""
        if prepared.recalled:
            from homarus.memory.prereply import LEAD

            lead = LEAD
            extras += tuple(Section(place, text, Tier.VOLATILE, once=True) for place, text in prepared.recalled)
        if request.pins:
            held = "\n".join(f"- {pin}" for pin in request.pins)
            extras = (Section("Standing instructions of the owner", held, Tier.VOLATILE), *extras)
        entry, levels = request.entry, request.levels
        runtime = RuntimeFacts(
            model=prepared.chain.primary.key, channel=prepared.context.route.channel, thinking=prepared.thinking
        )
        child = self._children.bounds(request.session)
        composed = self._composer.prompt_for(
            PromptRequest(
                agent_id=request.agent_id,
                session=request.session,
                tools=prepared.specs,
                skills=prepared.skills,
                turn=TurnFacts(
                    runtime=runtime,
                    extras=extras,
                    recall=lead,
                    reasoning=levels.get("reasoning") or entry.reasoning_level or "off",
                    elevated=levels.get("elevated") or entry.elevated_level or "off",
                ),
                session_facts=SessionFacts(extra=child_rules(child.run)) if child else SessionFacts(),
                workspace=_own_folder(child.run) if child else None,
                sandbox=prepared.context.sandbox,
                heartbeat=request.heartbeat,
                interactive=request.interactive,
                completed=request.completed,
                session_id=request.session_id,
                occasion=request.occasion,
            )
        )
        report = partial(self._report, composed)
        system, carried = composed.prompt.system, composed.context.carried
        return Speech(system, composed.carrier, carried, report, prepared.skills.to_json())

    def _report(self, composed: Composed, kept: Any) -> Any:
        """Return what the session keeps of this run's prompt, measured only if the prompt is not the one before."""
        request, key = composed.request, str(composed.session)
        made = (composed.prompt.system, request.tools, request.session_id, composed.facts.turn.runtime.model)
        if kept and self._reported.get(key) == made:
            return kept
        self._reported.put(key, made)
        mark = composed.mark
        if isinstance(kept, dict) and kept.get("inputsSha256") == mark:
            return kept
        from homarus.prompt.kept import keep  # most runs are told what the one before was told

        return {**keep(self._composer.report_for(composed)), "inputsSha256": mark}


def command_env(config: Config, skills: Snapshot, sandbox: SandboxSpec, outer: Mapping[str, str]) -> RunEnv:
    """Return the variables that skills bring to a turn's commands, beyond what its sandbox lets them see anyway."""
    settings = settings_of(config)
    if not settings.entries:
        return RunEnv()
    seen = clean_environment(sandbox, outer, {})
    return env_for_run(skills, settings, seen, config.resolve, closed=is_dangerous_variable)


def _own_folder(run: ChildRun) -> Path | None:
    """Return the folder that a child has for a workspace; one that was turned into a link out of it is none."""
    inside = Path(os.path.realpath(run.cwd)).is_relative_to(os.path.realpath(run.workspace))
    return Path(run.cwd) if run.own_folder and (inside or not run.sandbox.enforced) else None


def _pin(entry: SessionEntry) -> Pin | None:
    if not entry.auth_profile_override:
        return None
    return Pin(entry.auth_profile_override, by_user=entry.auth_profile_override_source == "user")
