"""What a turn runs with, worked out of a home: its models, its tools, its sandbox, its prompt. Nothing is changed by that."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.budget import UNBOUNDED, Meter, Tally, retry_limit
from homarus.agent.channel_rules import channel_layers
from homarus.agent.compose import ComposedPrompt, Contribution, PromptRequest
from homarus.agent.deadline import Deadline
from homarus.agent.model import stored_override
from homarus.agent.open_session import OpenSession
from homarus.agent.settings import TurnSettings
from homarus.agent.toolkit import window_layers, wish_of, with_caller
from homarus.config.view import AgentConfig, Config
from homarus.context.pins import pinned
from homarus.core.errors import HomarusError, Unknown
from homarus.core.messages import Trust, least_trusted
from homarus.core.routes import SessionKey, policy_session
from homarus.core.tools import ToolSpec
from homarus.models.client import ModelClient
from homarus.models.levels import speed
from homarus.models.ref import NOTEBOOK, ModelRef
from homarus.models.rotation import Pin
from homarus.models.select import Chain, Override
from homarus.prompt.facts import SessionFacts, TurnFacts
from homarus.prompt.section import Section, Tier
from homarus.prompt.sections.conversation import lent_folders, output_form, standing_instructions
from homarus.prompt.sections.tooling import told_to
from homarus.sandbox.resolve import TOO_MUCH, clean_environment, is_dangerous_variable, may_lend
from homarus.sandbox.spec import Mount, SandboxSpec
from homarus.sessions.row import SessionEntry
from homarus.skills.library import settings_of
from homarus.skills.snapshot import RunEnv, Snapshot, env_for_run
from homarus.tools.execute import Toolbox
from homarus.tools.loopguard import LoopGuard, LoopSettings
from homarus.tools.paths import FsSettings
from homarus.tools.policy import PatchSwitch, Who
from homarus.tools.tool import Taint, ToolContext

if TYPE_CHECKING:
    from homarus.agent.home import Home
    from homarus.agent.turn import Bounds, Turn


_log = logging.getLogger(__name__)


class Prepared(Struct, frozen=True, kw_only=True):
    """What one turn runs with: its models, its tools, and the rules for both."""

    client: ModelClient
    chain: Chain
    box: Toolbox
    context: ToolContext
    # What the model is told about its tools, in the fixed order that keeps the provider's cache warm.
    specs: tuple[ToolSpec, ...]
    # The skills of this turn, as the prompt lists them and as its commands get their variables.
    skills: Snapshot
    guard: LoopGuard
    meter: Meter
    thinking: str = "off"
    window_tokens: int = 200_000
    params: dict[str, Any] = {}
    pin: Pin | None = None
    # Ends the run when its time is over.
    limit: Deadline
    # How many failed attempts a run may make in all, whatever else is left to try.
    retries: int = 32
    # What memory says about the newest message, if it is asked before each reply: (citation, text).
    recalled: tuple[tuple[str, str], ...] = ()
    # What the caller's functions ask of the model: "required", or the name of one.
    tool_choice: str = ""


async def prepare(home: Home, turn: Turn, entry: SessionEntry) -> Prepared:
    """Resolve the models, the tools and the rules of a turn."""
    agent = home.config.agent(turn.agent_id)
    chain = await _chain(home, turn, agent, turn.model or stored_override(entry, turn.session))
    ref = chain.primary
    if turn.needs and ref.key == NOTEBOOK:
        raise HomarusError(
            f"the built-in notebook has no model behind it and cannot {turn.needs[0]}",
            cure="give a key or a local model: homarus configure",
        )
    info, window = home.models.info(ref), home.models.window(agent, ref)
    thinking = home.models.level(agent, ref, inline=turn.thinking, session=entry.thinking_level or "")
    bounds = _bounds(home, turn)
    layers = channel_layers(home.config.document.get("channels"), turn.route, turn.senders, turn.chat_type)
    layers += window_layers(home.config, turn.agent_id, window, turn.tools or ())
    await home.toolkit.refresh()
    box = with_caller(turn, home.toolkit.box(turn.agent_id, _who(bounds, ref.key), bounds.tools, layers))
    limit = Deadline(_seconds(home, turn), turn.cancel, home.clock)
    skills = home.composer.skills_for(turn.agent_id, entry.skills_snapshot)
    context = replace(
        _context(home, turn, entry, bounds, skills),
        waiting=limit.paused,
        tools=tuple(box.tools),
        model=ref.key,
        thinking=thinking,
        vision=info.sees,
        window_tokens=window,
        background="process" in box.tools,
    )
    return Prepared(
        recalled=await _recalled(home, turn, entry),
        client=home.models.client(agent),
        chain=chain,
        box=box,
        context=context,
        specs=told_to(window, [tool.spec for tool in box.tools.values()]),
        skills=skills,
        guard=LoopGuard(home.config.block("tools.loopDetection", LoopSettings)),
        meter=_meter(home, turn),
        thinking=thinking,
        window_tokens=window,
        params=_params(home, turn, entry, ref),
        pin=_pin(entry),
        limit=limit,
        retries=retry_limit(len(home.models.client(agent).credentials(ref))),
        tool_choice=turn.tool_choice if turn.caller_tools and turn.tool_choice != "none" else "",
    )


async def _chain(home: Home, turn: Turn, agent: AgentConfig, override: Override | None) -> Chain:
    """Return the models of a turn. A hook may name another one of those that are configured; any other name counts for nothing."""
    images = bool(turn.images)
    chain = await home.models.chain(agent, override=override, images=images)
    ref = chain.primary
    facts = {"prompt": turn.text, "provider": ref.provider, "model": ref.model}
    told = await home.tell.ask("model:resolve", turn.session, facts)
    if told is None:
        return chain
    provider, model = (str(told.context.get(name) or "").strip() for name in ("provider", "model"))
    if (provider, model) == (ref.provider, ref.model):
        return chain
    names = home.models.names(agent)
    try:
        # A plain name of another model may come with its provider in front, or be an alias.
        asked = names.resolve(model if "/" in model or provider == ref.provider else f"{provider}/{model}").ref
        if asked.key in names.configured:
            return await home.models.chain(agent, override=Override(asked.key, "auto"), images=images)
    except HomarusError as problem:
        _log.warning("a hook's choice of a model counts for nothing: %s", problem)
    else:
        _log.warning("a hook's choice of a model counts for nothing: %s is not configured", asked.key)
    return chain


def _context(home: Home, turn: Turn, entry: SessionEntry, bounds: Bounds, skills: Snapshot) -> ToolContext:
    """Return what the calls of a turn may know and use, before its model is known."""
    given = command_env(home.config, skills, bounds.sandbox, home.env)
    env = {**given.values, "HOME": str(home.config.paths.home)}
    if bounds.env is not None:
        # Another agent's secrets are not for the child of one without them.
        env = {name: value for name, value in env.items() if name in bounds.env}
    line = (turn.agent_id, *bounds.lineage)
    by_owner = turn.trust is Trust.OWNER and not (turn.taint or turn.provenance or bounds.depth)
    return ToolContext(
        agent_id=turn.agent_id,
        session=turn.session,
        session_id=entry.session_id,
        run_id=turn.run_id,
        route=turn.route,
        trust=bounds.trust,
        workspace=bounds.workspace,
        cwd=bounds.cwd,
        sandbox=bounds.sandbox,
        env=env,
        hidden=given.hidden,
        said=turn.text if by_owner else "",
        overflow_dir=home.config.paths.own_dir / "overflow" / (entry.session_id or "session"),
        clock=home.clock,
        ids=home.ids,
        cancel=turn.cancel,
        taint=bounds.taint,
        depth=bounds.depth,
        max_depth=bounds.max_depth,
        lineage=bounds.lineage,
        root=bounds.root,
        wish=bounds.wish or wish_of(home.config, turn, entry),
        # A child gets no further than those above it.
        workspace_only=any(
            home.config.agent(agent_id).block("tools.fs", FsSettings).workspace_only for agent_id in line
        ),
        patch_workspace_only=any(
            home.toolkit.exec_rules(agent_id, PatchSwitch).settings.workspace_only for agent_id in line
        ),
    )


async def _recalled(home: Home, turn: Turn, entry: SessionEntry) -> tuple[tuple[str, str], ...]:
    if home.config.agent(turn.agent_id).get("memorySearch.preReply") is None:
        return ()  # most homes: nothing of memory is even imported
    from homarus.agent.memories import recall_before, wants_recall

    memory = home.memory(turn.agent_id)
    return await recall_before(memory, turn, entry.session_id) if wants_recall(memory.settings, turn) else ()


def _meter(home: Home, turn: Turn) -> Meter:
    """Return what counts a turn's calls: also for the agent that a child works for, and for the run that started it."""
    agents = {turn.agent_id, *(turn.bounds.lineage[:1] if turn.bounds else ())}
    allowed = {agent: home.config.agent(agent).block("", TurnSettings).budget for agent in agents}
    bounded = any(budgets.day != UNBOUNDED for budgets in allowed.values())
    tally = Tally(home.spending, agents, at_once=bounded)
    today = partial(home.spending.today, turn.agent_id)
    above = turn.bounds.above if turn.bounds else None
    meter = Meter(tally, today, budgets=allowed[turn.agent_id], above=above)
    home.meters[turn.session] = meter
    return meter


def _bounds(home: Home, turn: Turn) -> Bounds:
    """Return what a turn may do at most: its agent's own bounds or, for a child, no more than its parent had."""
    from homarus.agent.turn import Bounds

    if turn.bounds is None:
        sandbox = home.sandbox(turn.agent_id, _policy_session(turn))
        workspace = sandbox.folder(home.workspace(turn.agent_id))
        # A child whose parent nobody knows any more has no children of its own.
        depth, most = (1, 1) if turn.session.is_subagent else (0, turn.generations)
        sandbox, cwd = _lent(home, turn, sandbox, workspace)
        return Bounds(
            trust=turn.trust,
            taint=Taint(turn.taint),
            workspace=workspace,
            cwd=cwd,
            sandbox=sandbox,
            depth=depth,
            max_depth=most,
            tools=turn.tools,
        )
    given = turn.bounds
    for source in turn.taint:
        given.taint.add(source)
    trust = least_trusted((turn.trust, given.trust))
    held = given.sandbox
    sandbox = home.sandbox(turn.agent_id, _policy_session(turn), always=held.enforced, most=held.most)
    return replace(given, trust=trust, sandbox=held.narrow(sandbox))


def _policy_session(turn: Turn) -> SessionKey:
    return policy_session(turn.session, turn.route, turn.chat_type)


def _lent(home: Home, turn: Turn, sandbox: SandboxSpec, workspace: Path) -> tuple[SandboxSpec, Path]:
    """Return the sandbox with the folders that the owner lends to this turn, and where it works."""
    if not (turn.folders or turn.cwd) or turn.trust is not Trust.OWNER or sandbox.refused:
        return sandbox, workspace
    mounts = lent_mounts(home.config, (*turn.folders, turn.cwd), workspace)
    opened = replace(sandbox, mounts=sandbox.with_lent(mounts), lent=mounts)
    return opened, Path(turn.cwd).resolve() if turn.cwd else workspace


def lent_mounts(config: Config, folders: Iterable[str], workspace: Path) -> tuple[Mount, ...]:
    """Return what must be opened for folders that an owner lends. Raises Unknown for one that nobody may lend."""
    lent, own = dict[str, Mount](), workspace.resolve()
    for folder in filter(None, folders):
        real = Path(folder).resolve()
        if not real.is_dir():
            raise Unknown(f"{folder} is no folder", cure="name one that exists")
        if real.is_relative_to(own):
            continue
        if not may_lend(real, config.paths.home, config.paths.state_dir):
            raise Unknown(f"{folder} {TOO_MUCH}", cure="name the one folder inside it that is needed")
        lent[str(real)] = Mount(str(real), writable=True)
    return tuple(lent.values())


def _who(bounds: Bounds, model: str) -> Who:
    """Return whose turn it is, in the words of policy."""
    provider, _, name = model.partition("/")
    return Who(
        bounds.trust, provider, name, sandboxed=bounds.sandbox.enforced, depth=bounds.depth, max_depth=bounds.max_depth
    )


def _seconds(home: Home, turn: Turn) -> float:
    """Return how long a turn may take; a child works as long as whoever started it said."""
    if turn.seconds is not None or turn.session.is_subagent:
        return float(turn.seconds or 0)
    return home.config.agent(turn.agent_id).block("", TurnSettings).timeout_seconds


def _params(home: Home, turn: Turn, entry: SessionEntry, ref: ModelRef) -> dict[str, Any]:
    params = home.models.params(home.config.agent(turn.agent_id), ref)
    wish = turn.levels.get("fast") or entry.fast_mode
    if isinstance(wish, bool):  # older homes store the choice as a truth value
        wish = "on" if wish else "off"
    tier = speed(ref.provider, wish or "auto")
    return {**params, "serviceTier": tier} if tier else params


def compose_turn(
    home: Home, turn: Turn, live: OpenSession, prepared: Prepared, *, after_compaction: bool = False
) -> ComposedPrompt:
    """Make the prompt of a turn, as its session stands now."""
    extras = tuple(Section(name, text, Tier.VOLATILE, once=True) for name, text in turn.notes)
    if turn.folders or turn.cwd:
        extras += (lent_folders(prepared.context.cwd if turn.cwd else None, turn.folders),)
    lead = ""
    if prepared.recalled:
        from homarus.memory.toolset import LEAD

        lead = LEAD
        extras += tuple(Section(place, text, Tier.VOLATILE, once=True) for place, text in prepared.recalled)
    if turn.output_schema:
        extras += (output_form(turn.output_schema),)
    if turn.instructions:
        extras = (Section("Instructions of the program", turn.instructions, Tier.VOLATILE), *extras)
    extras = (*standing_instructions(pinned(live.writer.notes)), *extras)
    entry, levels, bounds = live.entry, turn.levels, turn.bounds
    quirks = home.models.catalog.quirks(prepared.chain.primary)
    return home.composer.prompt_for(
        PromptRequest(
            agent_id=turn.agent_id,
            session=turn.session,
            tools=prepared.specs,
            skills=prepared.skills,
            turn=TurnFacts(
                model=prepared.chain.primary.key,
                channel=prepared.context.route.channel,
                thinking=prepared.thinking,
                extras=extras,
                recall=lead,
                reasoning=levels.get("reasoning") or entry.reasoning_level or "off",
                elevated=levels.get("elevated") or entry.elevated_level or "off",
            ),
            session_facts=SessionFacts(extra=bounds.rules) if bounds else SessionFacts(),
            workspace=_own_folder(bounds) if bounds else None,
            sandbox=prepared.context.sandbox,
            window=prepared.window_tokens,
            provider=Contribution(reasoning_tags=quirks.reasoning_tags),
            trust=prepared.context.trust,
            chat_type=turn.chat_type,
            heartbeat=turn.heartbeat,
            light=turn.light,
            interactive=turn.interactive,
            after_compaction=after_compaction,
            session_id=live.writer.session_id,
            occasion=live.occasion,
        )
    )


def command_env(config: Config, skills: Snapshot, sandbox: SandboxSpec, outer: Mapping[str, str]) -> RunEnv:
    """Return the variables that skills bring to a turn's commands, beyond what its sandbox lets them see anyway."""
    settings = settings_of(config)
    if not settings.entries:
        return RunEnv()
    seen = clean_environment(sandbox, outer, {})
    return env_for_run(skills, settings, seen, config.resolve, closed=is_dangerous_variable)


def _own_folder(bounds: Bounds) -> Path | None:
    """Return the folder that a child has for a workspace; one that was turned into a link out of it is none."""
    inside = Path(os.path.realpath(bounds.cwd)).is_relative_to(os.path.realpath(bounds.workspace))
    return bounds.cwd if bounds.own_folder and (inside or not bounds.sandbox.enforced) else None


def _pin(entry: SessionEntry) -> Pin | None:
    if not entry.auth_profile_override:
        return None
    return Pin(entry.auth_profile_override, by_user=entry.auth_profile_override_source == "user")
