"""Put a prompt together from the configuration, the workspace, the skills and the machine.

Whatever needs a prompt (a turn, `homarus prompt`, `homarus context`, `/context`) gets it here, so that what is shown is
what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.open_session import workspace_places
from homarus.config.paths import expand
from homarus.config.settings import HeartbeatSettings
from homarus.config.view import AgentConfig, Config
from homarus.core.clock import Clock, epoch_ms
from homarus.core.messages import Trust
from homarus.core.routes import SessionKey, SessionKind, main_session
from homarus.core.tools import ToolSpec
from homarus.hooks.manifest import Facts
from homarus.prompt.build import PrefixCache, Prompt, build, digest
from homarus.prompt.carrier import Said, render_volatile
from homarus.prompt.escape import inert
from homarus.prompt.facts import PromptFacts, SessionFacts, StableFacts, TurnFacts
from homarus.prompt.gather import docs_path, find_zone, machine, repo_root, text_path, today, zone_name
from homarus.prompt.section import Mode, Section, Tier, mode_for
from homarus.prompt.sections.conversation import HEARTBEAT_PROMPT
from homarus.prompt.sections.home import told_sections
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import SandboxSpec
from homarus.skills.discover import SkillRoot
from homarus.skills.gate import Gate
from homarus.skills.library import SkillLibrary, gate_of, machine_facts, roots_of, settings_of
from homarus.skills.snapshot import Snapshot, Snapshots
from homarus.storage.cache import BoundedCache
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.audience import Audience
from homarus.workspace.bootstrap import Bootstrap, BootstrapRequest, hook_of
from homarus.workspace.inject import BootstrapContext
from homarus.workspace.loader import WorkspaceLoader
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.hooks.registry import HookRegistry
    from homarus.prompt.report import About, Report, ToolSizes

_QUIET = frozenset({SessionKind.CRON, SessionKind.HOOK, SessionKind.BOOT})


class AgentFacts(Struct, frozen=True, kw_only=True):
    """What the configuration says about one agent, as far as its prompt is concerned. Editing the configuration makes new ones; nothing here follows a file by itself."""

    id: str
    config: dict[str, Any]
    settings: WorkspaceSettings
    workspace: Path
    cwd: Path | None
    repo: str
    model: str
    aliases: tuple[tuple[str, str], ...]
    citations: Literal["on", "off", "auto"]
    owners: tuple[str, ...]
    heartbeat_prompt: str
    elevated: bool
    sandbox_mode: str
    # Where a newer OpenClaw keeps the record of a finished setup, if this home has it.
    shared_database: Path | None
    skill_roots: tuple[SkillRoot, ...]
    skill_gate: Gate


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
    # How many tokens the model takes; 0 where nobody knows.
    window: int = 0
    # Who wrote, and in what kind of chat; what is not known gives fewer rights.
    trust: Trust | None = None
    chat_type: str = ""
    heartbeat: bool = False
    light: bool = False
    interactive: bool = True
    after_compaction: bool = False
    session_id: str = ""
    # A child may have a folder of its own for a workspace.
    workspace: Path | None = None
    # What began the session, on its first turn: `new` or `reset`. Then the recent daily notes ride along.
    occasion: str = ""


class ComposedPrompt(Struct, frozen=True):
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
        files = [replace(file, text="") for file in (*context.files, *context.told, *context.dynamic)]
        sandbox = (agent.sandbox_mode, request.sandbox is not None and request.sandbox.enforced)
        named = (str(self.session), request.session_id, self.facts.turn.model, self.facts.stable.workspace)
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
        self._agents: dict[str, tuple[object, AgentFacts]] = {}  # with the document that they were read from
        # What the last report of each session was made from.
        self._reported: BoundedCache[str, tuple[object, ...]] = BoundedCache(64)
        self._sized: tuple[tuple[ToolSpec, ...], ToolSizes] | None = None
        self._offers = machine_facts(config, env)
        self._know_skills()

    def _know_skills(self) -> None:
        self.skill_library = SkillLibrary(settings_of(self._config).limits)
        self._snapshots = Snapshots(self.skill_library, str(self._config.paths.home))

    def agent(self, agent_id: str) -> AgentFacts:
        document, facts = self._agents.get(agent_id, (None, None))
        if facts is None or document is not self._config.document:
            if settings_of(self._config).limits != self.skill_library.limits:
                self._know_skills()
            facts = agent_facts(self._config, agent_id, self._env, self._offers)
            self._agents[agent_id] = (self._config.document, facts)
        return facts

    def prompt_for(self, request: PromptRequest) -> ComposedPrompt:
        """Return the prompt of a run. It reads files of the workspace and changes nothing."""
        session = request.session or main_session(request.agent_id or self._config.default_agent.id)
        agent = self.agent(request.agent_id or session.agent_id)
        if request.workspace is not None:
            agent = replace(agent, workspace=request.workspace)
        mode = request.mode or mode_for(session, request.window)
        if mode is Mode.LEAN and request.window:
            agent = replace(agent, settings=agent.settings.for_window(request.window))
        run = _run(request, agent, session)
        context = self._bootstrap.build(run)
        turn = self._turn(request, agent, context)
        turn = replace(turn, silent=turn.silent or session.is_shared or session.kind in _QUIET)
        if request.occasion and run.audience.sees_memory:
            turn = self._with_notes(turn, request.occasion, agent)
        stable = self._stable(request, agent, context)
        if mode is Mode.FULL or (mode is Mode.MINIMAL and request.skills_in_minimal):
            skills = request.skills or self.skills_for(agent.id)
            stable = replace(stable, skills=skills.prompt, skills_in_minimal=request.skills_in_minimal)
        facts = PromptFacts(stable, request.session_facts, turn)
        return ComposedPrompt(build(facts, mode, cache=self._prefixes), mode, facts, context, request, session, agent)

    def skills_for(self, agent_id: str, stored: object = None) -> Snapshot:
        """Return the skills of an agent's next turn: what is stored with the session, as long as it still holds."""
        agent = self.agent(agent_id)
        return self._snapshots.for_turn(stored, agent.skill_roots, agent.skill_gate)

    def report_for(self, composed: ComposedPrompt, *, about: About | None = None, said: Said | None = None) -> Report:
        """Measure a prompt; `about` holds what is known of the model's window and of the conversation so far."""
        from homarus.prompt.report import About, SandboxState, measure, size_tools

        request, agent = composed.request, composed.agent
        named = composed.facts.turn.model
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
            sandbox=SandboxState(agent.sandbox_mode, request.sandbox is not None and request.sandbox.enforced),
        )
        carrier, _ = composed.carrier(said or {})
        if self._sized is None or self._sized[0] != request.tools:
            self._sized = (request.tools, size_tools(request.tools))
        return measure(composed.prompt, filled, context=composed.context, tools=self._sized[1], carrier=carrier)

    def kept_report(self, composed: ComposedPrompt, kept: Any) -> Any:
        """Return what the session keeps of this run's prompt, measured only if the prompt is not the one before."""
        request, key = composed.request, str(composed.session)
        made = (composed.prompt.system, request.tools, request.session_id, composed.facts.turn.model)
        if kept and self._reported.get(key) == made:
            return kept
        self._reported.put(key, made)
        mark = composed.mark
        if isinstance(kept, dict) and kept.get("inputsSha256") == mark:
            return kept
        from homarus.prompt.report import keep  # most runs are told what the one before was told

        return {**keep(self.report_for(composed)), "inputsSha256": mark}

    def _stable(self, request: PromptRequest, agent: AgentFacts, context: BootstrapContext) -> StableFacts:
        return StableFacts(
            workspace=text_path(agent.workspace),
            cwd=text_path(agent.cwd) if agent.cwd else "",
            tools=request.tools,
            docs=self._docs,
            citations=agent.citations,
            aliases=agent.aliases,
            sandbox=request.sandbox if request.sandbox is not None and request.sandbox.enforced else None,
            elevated=agent.elevated,
            ritual=context.ritual,
            files=context.files,
            told=tuple(file.name for file in context.told),
            files_cut=context.truncated,
            reasoning_tags=request.provider.reasoning_tags,
            provider_prefix=request.provider.stable_prefix,
            tool_style=request.provider.tool_style,
            execution_bias=request.provider.execution_bias,
        )

    def _turn(self, request: PromptRequest, agent: AgentFacts, context: BootstrapContext) -> TurnFacts:
        turn = request.turn
        zone = turn.zone or zone_name(agent.settings.user_timezone, self._env)
        return replace(
            turn,
            agent=agent.id,
            machine=self._machine,
            repo=agent.repo,
            model=turn.model or agent.model,
            default_model=agent.model,
            zone=zone,
            today=turn.today or today(self._clock.now(), zone),
            extras=(*told_sections(context.told), *turn.extras),
            heartbeat_file=context.dynamic[0] if context.dynamic else None,
            heartbeat_prompt=turn.heartbeat_prompt or agent.heartbeat_prompt,
            owners=turn.owners or agent.owners,
            provider_suffix=turn.provider_suffix or request.provider.dynamic_suffix,
        )

    def _with_notes(self, turn: TurnFacts, occasion: str, agent: AgentFacts) -> TurnFacts:
        """Add the recent daily notes; they are as private as the memory they were written for."""
        zone, settings = find_zone(turn.zone) or UTC, agent.settings.startup_context
        from homarus.workspace.daily_notes import recent_notes

        notes = recent_notes(agent.workspace, now=self._clock.now(), zone=zone, settings=settings, occasion=occasion)
        section = Section("Recent Notes", notes, Tier.VOLATILE, once=True)
        return replace(turn, extras=(*turn.extras, section)) if notes else turn


def _run(request: PromptRequest, agent: AgentFacts, session: SessionKey) -> BootstrapRequest:
    audience = Audience(
        session=session,
        trust=request.trust,
        chat_type=request.chat_type,
        heartbeat=request.heartbeat or session.kind is SessionKind.HEARTBEAT,
        light=request.light,
        cron_persona=agent.settings.cron_bootstrap == "persona",
    )
    return BootstrapRequest(
        workspace=agent.workspace,
        settings=agent.settings,
        audience=audience,
        agent_id=agent.id,
        session_key=str(session),
        session_id=request.session_id,
        after_compaction=request.after_compaction,
        interactive=request.interactive and session.kind not in _QUIET,
        can_read_files=any(spec.name == "read" for spec in request.tools),
        canonical=request.sandbox is None or request.sandbox.can_write(str(agent.workspace)),
        cwd=agent.cwd,
        shared_database=agent.shared_database,
        config=agent.config,
    )


def agent_facts(config: Config, agent_id: str, env: Mapping[str, str], offers: Facts) -> AgentFacts:
    """Read one agent's settings; what has a wrong shape is left out, its owner is told by the configuration itself."""
    agent = config.agent(agent_id)
    settings = agent.block("", WorkspaceSettings)
    workspace = resolve_workspace(config, agent.id, env)
    cwd = _folder(agent.get("cwd"), config.paths.home)
    citations = config.get("memory.citations")
    return AgentFacts(
        id=agent.id,
        config=config.document,
        settings=settings,
        workspace=workspace,
        cwd=cwd,
        repo=repo_root(settings.repo_root, workspace, cwd or workspace),
        model=_model_name(agent.get("model")),
        aliases=_aliases(agent.get("models")),
        citations=citations if citations in ("on", "off") else "auto",
        owners=_texts(config.get("commands.ownerAllowFrom")),
        heartbeat_prompt=_heartbeat_prompt(agent),
        elevated=config.get("tools.elevated.enabled") is True,
        sandbox_mode=agent.block("sandbox", SandboxSettings).mode,
        shared_database=workspace_places(config.paths).shared_database,
        skill_roots=roots_of(config, workspace),
        skill_gate=gate_of(config, agent.id, offers),
    )


def _aliases(models: Any) -> tuple[tuple[str, str], ...]:
    entries = models.items() if isinstance(models, dict) else ()
    found = [(entry.get("alias"), ref) for ref, entry in entries if isinstance(entry, dict)]
    return tuple(sorted((alias.strip(), ref) for alias, ref in found if isinstance(alias, str) and alias.strip()))


def _model_name(setting: Any) -> str:
    named = setting.get("primary") if isinstance(setting, dict) else setting
    return named.strip() if isinstance(named, str) else ""


def _heartbeat_prompt(agent: AgentConfig) -> str:
    """Return what a poll says, where polls are switched on."""
    heartbeat = agent.block("heartbeat", HeartbeatSettings)
    on = heartbeat.seconds or (heartbeat.every == "" and set(agent.get("heartbeat") or ()) - {"every"})
    return (heartbeat.prompt.strip() or HEARTBEAT_PROMPT) if agent.default and on else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value if isinstance(item, str | int)) if isinstance(value, list) else ()


def _folder(setting: Any, home: Path) -> Path | None:
    if not isinstance(setting, str) or not setting.strip():
        return None
    folder = expand(setting, home)
    return folder if folder.is_dir() else None
