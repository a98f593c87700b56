"""Put a prompt together from the configuration, the workspace, the skills and the machine.

Whatever needs a prompt (a turn, `homarus prompt`, `homarus context`, `/context`) gets it here, so that what is shown is
what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.load import Config
from homarus.core.clock import Clock, epoch_ms
from homarus.core.later import later
from homarus.core.routes import SessionKey, SessionKind, main_session
from homarus.core.tools import ToolSpec
from homarus.gateway.agentfacts import AgentFacts, agent_facts
from homarus.prompt.build import PrefixCache, Prompt, build, digest
from homarus.prompt.facts import PromptFacts, SandboxFacts, SessionFacts, StableFacts, ToolNote, TurnFacts
from homarus.prompt.gather import docs_path, find_zone, machine, text_path, today, zone_name
from homarus.prompt.guard import inert
from homarus.prompt.modes import Mode, mode_for
from homarus.prompt.section import Section, Tier
from homarus.prompt.sections.tooling import tool_notes
from homarus.prompt.volatile import Said, render_volatile
from homarus.sandbox.spec import SandboxSpec
from homarus.skills.agent import machine_facts, settings_of
from homarus.skills.library import SkillLibrary
from homarus.skills.snapshot import Snapshot, Snapshots
from homarus.workspace.audience import Audience
from homarus.workspace.bootstrap import Bootstrap, Run, hook_of
from homarus.workspace.inject import BootstrapContext
from homarus.workspace.loader import WorkspaceLoader

if TYPE_CHECKING:
    from homarus.hooks.registry import HookRegistry
    from homarus.prompt.report import About, Report, ToolSizes
    from homarus.workspace import prelude
else:
    prelude = later("homarus.workspace.prelude")

_QUIET = frozenset({SessionKind.CRON, SessionKind.HOOK, SessionKind.BOOT})


class Contribution(Struct, frozen=True):
    """What a model's provider adds to the prompt, or replaces in it."""

    stable_prefix: str = ""
    dynamic_suffix: str = ""
    tool_style: str = ""
    execution_bias: str = ""
    reasoning_tags: bool = False


class PromptRequest(Struct, frozen=True, kw_only=True):
    """One prompt to be made. `session_facts` and `turn` hold what the caller knows; the rest is filled in here."""

    agent_id: str = ""
    session: SessionKey | None = None
    mode: Mode | None = None
    tools: tuple[ToolSpec, ...] = ()
    # The session's own snapshot; without one the skills are looked up anew.
    skills: Snapshot | None = None
    skills_in_minimal: bool = False
    session_facts: SessionFacts = SessionFacts()
    turn: TurnFacts = TurnFacts()
    provider: Contribution = Contribution()
    sandbox: SandboxSpec | None = None
    chat_type: str = ""
    heartbeat: bool = False
    light: bool = False
    interactive: bool = True
    completed: bool = False
    after_compaction: bool = False
    session_id: str = ""
    # A child may have a folder of its own for a workspace.
    workspace: Path | None = None
    # What began the session, on its first turn: `new` or `reset`. Then the recent daily notes ride along.
    occasion: str = ""


class Composed(Struct, frozen=True):
    """A prompt and everything it was made from."""

    prompt: Prompt
    mode: Mode
    facts: PromptFacts
    context: BootstrapContext
    request: PromptRequest
    session: SessionKey
    agent: AgentFacts

    def carrier(self, said: Said) -> tuple[str, dict[str, str]]:
        """Return what rides on the next user turn, given what was said before, and what will have been said."""
        return render_volatile(self.prompt.volatile, said)

    @property
    def mark(self) -> str:
        """Return what tells this prompt, with all that a report says of it, from any other. It costs a tenth of the report."""
        request, agent, context = self.request, self.agent, self.context
        files = [replace(file, text="") for file in (*context.files, *context.dynamic)]
        sandbox = (agent.sandbox_mode, request.sandbox is not None and request.sandbox.enforced)
        named = (str(self.session), request.session_id, self.facts.turn.runtime.model, self.facts.stable.workspace)
        return digest((self.prompt.system.text, request.tools, files, agent.settings.limits, sandbox, named)).hex()


class Composer:
    """Makes prompts for one home. Long-lived: files, contexts and stable parts are remembered between turns."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        clock: Clock,
        *,
        hooks: HookRegistry | None = None,
        loader: WorkspaceLoader | None = None,
    ) -> None:
        self._config = config
        self._env = env
        self._clock = clock
        hook = hook_of(hooks, clock) if hooks else None
        self._bootstrap = Bootstrap(loader or WorkspaceLoader(), hook=hook, inert=inert)
        self._prefixes = PrefixCache()
        self._machine = machine(env)
        self._docs = docs_path()
        self._agents: dict[str, AgentFacts] = {}
        self._noted: tuple[tuple[ToolSpec, ...], tuple[ToolNote, ...]] | None = None
        self._sized: tuple[tuple[ToolSpec, ...], ToolSizes] | None = None
        self._offers = machine_facts(config, env)
        self._snapshots = Snapshots(SkillLibrary(settings_of(config).limits), str(config.paths.home))

    def agent(self, agent_id: str) -> AgentFacts:
        """Return what the configuration says about an agent."""
        known = self._agents.get(agent_id)
        if known is None:
            known = self._agents[agent_id] = agent_facts(self._config, agent_id, self._env, self._offers)
        return known

    def prompt_for(self, request: PromptRequest) -> Composed:
        """Return the prompt of a run. It reads files of the workspace and changes nothing."""
        session = request.session or main_session(request.agent_id or self._config.default_agent.id)
        agent = self.agent(request.agent_id or session.agent_id)
        if request.workspace is not None:
            agent = replace(agent, workspace=request.workspace)
        run = _run(request, agent, session)
        context = self._bootstrap.build(run)
        turn = self._turn(request, agent, context)
        turn = replace(turn, silent=turn.silent or session.is_shared or session.kind in _QUIET)
        if request.occasion and run.audience.sees_memory:
            turn = self._with_notes(turn, request.occasion, agent)
        mode = request.mode or mode_for(session)
        stable = self._stable(request, agent, context)
        if mode is Mode.FULL or (mode is Mode.MINIMAL and request.skills_in_minimal):
            skills = request.skills or self.skills_for(agent.id)
            stable = replace(stable, skills=skills.prompt, skills_in_minimal=request.skills_in_minimal)
        facts = PromptFacts(stable, request.session_facts, turn)
        return Composed(build(facts, mode, cache=self._prefixes), mode, facts, context, request, session, agent)

    def skills_for(self, agent_id: str, stored: object = None) -> Snapshot:
        """Return the skills of an agent's next turn: what is stored with the session, as long as it still holds."""
        agent = self.agent(agent_id)
        return self._snapshots.for_turn(stored, agent.skill_roots, agent.skill_gate)

    def report_for(self, composed: Composed, *, about: About | None = None, said: Said | None = None) -> Report:
        """Measure a prompt; `about` holds what is known of the model's window and of the conversation so far."""
        from homarus.prompt.report import About, measure, size_tools

        request, agent = composed.request, composed.agent
        named = composed.facts.turn.runtime.model
        provider, _, model = named.partition("/") if "/" in named else ("", "", named)
        filled = replace(
            about or About(),
            generated_at=epoch_ms(self._clock.now()),
            session_id=request.session_id,
            session_key=str(composed.session),
            provider=provider,
            model=model,
            workspace_dir=composed.facts.stable.workspace,
            bootstrap_max_chars=agent.settings.limits.file,
            bootstrap_total_max_chars=agent.settings.limits.total,
            sandboxed=request.sandbox is not None and request.sandbox.enforced,
            sandbox_mode=agent.sandbox_mode,
        )
        carrier, _ = composed.carrier(said or {})
        if self._sized is None or self._sized[0] != request.tools:
            self._sized = (request.tools, size_tools(request.tools))
        return measure(composed.prompt, filled, context=composed.context, tools=self._sized[1], carrier=carrier)

    def _stable(self, request: PromptRequest, agent: AgentFacts, context: BootstrapContext) -> StableFacts:
        return StableFacts(
            workspace=text_path(agent.workspace),
            cwd=text_path(agent.cwd) if agent.cwd else "",
            tools=self._notes_on(request.tools),
            docs=self._docs,
            citations=agent.citations,
            aliases=agent.aliases,
            sandbox=_sandbox(request.sandbox, elevated=agent.elevated),
            ritual=context.ritual,
            files=context.files,
            files_cut=context.truncated,
            reasoning_tags=request.provider.reasoning_tags,
            provider_prefix=request.provider.stable_prefix,
            tool_style=request.provider.tool_style,
            execution_bias=request.provider.execution_bias,
        )

    def _notes_on(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolNote, ...]:
        """Return the rows of the tool list, made once for as long as turns have the same tools."""
        if self._noted is None or self._noted[0] != tools:
            self._noted = (tools, tool_notes(tools))
        return self._noted[1]

    def _turn(self, request: PromptRequest, agent: AgentFacts, context: BootstrapContext) -> TurnFacts:
        turn, here = request.turn, self._machine
        zone = turn.zone or zone_name(agent.settings.user_timezone, self._env)
        runtime = replace(
            turn.runtime,
            agent=agent.id,
            host=here.host,
            os=here.os,
            arch=here.arch,
            python=here.python,
            shell=here.shell,
            repo=agent.repo,
            model=turn.runtime.model or agent.model,
            default_model=agent.model,
        )
        return replace(
            turn,
            runtime=runtime,
            zone=zone,
            today=turn.today or today(self._clock.now(), zone),
            heartbeat_file=context.dynamic[0] if context.dynamic else None,
            heartbeat_prompt=turn.heartbeat_prompt or agent.heartbeat_prompt,
            owners=turn.owners or agent.owners,
            provider_suffix=turn.provider_suffix or request.provider.dynamic_suffix,
        )

    def _with_notes(self, turn: TurnFacts, occasion: str, agent: AgentFacts) -> TurnFacts:
        """Add the recent daily notes; they are as private as the memory they were written for."""
        zone, settings = find_zone(turn.zone) or UTC, agent.settings.startup_context
        notes = prelude.build_prelude(
            agent.workspace, now=self._clock.now(), zone=zone, settings=settings, occasion=occasion
        )
        section = Section("Recent Notes", notes, Tier.VOLATILE, once=True)
        return replace(turn, extras=(*turn.extras, section)) if notes else turn


def _sandbox(spec: SandboxSpec | None, *, elevated: bool) -> SandboxFacts | None:
    if spec is None or not spec.enforced:
        return None
    shown = [mount for mount in spec.mounts if mount.path != spec.instead_of]
    mounts = [f"Also visible: {mount.path} ({'rw' if mount.writable else 'ro'})" for mount in shown]
    return SandboxFacts(
        backend=spec.backend.value,
        workspace=spec.workspace,
        access=spec.home_access.value,
        instead=bool(spec.instead_of),
        network=spec.network,
        elevated=elevated,
        notes=tuple(mounts),
    )


def _run(request: PromptRequest, agent: AgentFacts, session: SessionKey) -> Run:
    audience = Audience(
        session=session,
        chat_type=request.chat_type,
        heartbeat=request.heartbeat or session.kind is SessionKind.HEARTBEAT,
        light=request.light,
        cron_persona=agent.settings.cron_bootstrap == "persona",
    )
    return Run(
        workspace=agent.workspace,
        settings=agent.settings,
        audience=audience,
        agent_id=agent.id,
        session_key=str(session),
        session_id=request.session_id,
        completed=request.completed,
        after_compaction=request.after_compaction,
        interactive=request.interactive and session.kind not in _QUIET,
        can_read_files=any(spec.name == "read" for spec in request.tools),
        canonical=request.sandbox is None or request.sandbox.can_write(str(agent.workspace)),
        cwd=agent.cwd,
        shared_database=agent.shared_database,
        config=agent.config,
    )
