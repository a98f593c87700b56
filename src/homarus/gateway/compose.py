"""Put a prompt together from the configuration, the workspace, the skills and the machine.

Whatever needs a prompt (a turn, `homarus prompt`, `homarus context`, `/context`) gets it here, so that what is shown is
what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.load import AgentConfig, Config
from homarus.config.paths import expand
from homarus.core.clock import Clock, epoch_ms
from homarus.core.routes import SessionKey, SessionKind, main_session
from homarus.core.tools import ToolSpec
from homarus.prompt.build import PrefixCache, Prompt, build
from homarus.prompt.facts import PromptFacts, SandboxFacts, SessionFacts, StableFacts, TurnFacts
from homarus.prompt.gather import docs_path, find_zone, machine, repo_root, text_path, today, zone_name
from homarus.prompt.modes import Mode, mode_for
from homarus.prompt.report import About, Report, measure
from homarus.prompt.section import Section, Tier
from homarus.prompt.sections.tooling import tool_notes
from homarus.prompt.sections.turn import HEARTBEAT_PROMPT
from homarus.prompt.volatile import Said, render_volatile
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import SandboxSpec
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.audience import Audience
from homarus.workspace.bootstrap import Bootstrap, Run, hook_of
from homarus.workspace.inject import BootstrapContext
from homarus.workspace.loader import WorkspaceLoader
from homarus.workspace.prelude import build_prelude
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.hooks.registry import HookRegistry

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
    skills: str | None = None
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
    settings: WorkspaceSettings

    def carrier(self, said: Said) -> tuple[str, dict[str, str]]:
        """Return what rides on the next user turn, given what was said before, and what will have been said."""
        return render_volatile(self.prompt.volatile, said)


class Composer:
    """Makes prompts for one home. Long-lived: files, contexts and stable parts are remembered between turns."""

    def __init__(
        self, config: Config, env: Mapping[str, str], clock: Clock, *, hooks: HookRegistry | None = None
    ) -> None:
        self._config = config
        self._env = env
        self._clock = clock
        self._bootstrap = Bootstrap(WorkspaceLoader(), hook=hook_of(hooks, clock) if hooks else None)
        self._prefixes = PrefixCache()
        self._machine = machine(env)
        self._docs = docs_path()

    def prompt_for(self, request: PromptRequest) -> Composed:
        """Return the prompt of a run. It reads files of the workspace and changes nothing."""
        session = request.session or main_session(request.agent_id or self._config.default_agent.id)
        agent = self._config.agent(request.agent_id or session.agent_id)
        place = _Place(
            agent=agent,
            session=session,
            settings=agent.block("", WorkspaceSettings),
            workspace=resolve_workspace(self._config, agent.id, self._env),
            cwd=_folder(agent.get("cwd"), self._config.paths.home),
        )
        mode = request.mode or mode_for(session)
        run = _run(request, place)
        context = self._bootstrap.build(run)
        facts = PromptFacts(
            self._stable(request, place, context), request.session_facts, self._turn(request, place, context)
        )
        if request.occasion and run.audience.sees_memory:
            facts = replace(facts, turn=self._with_notes(facts.turn, request.occasion, place))
        prompt = build(facts, mode, cache=self._prefixes)
        return Composed(prompt, mode, facts, context, request, session, place.settings)

    def report_for(self, composed: Composed, *, about: About | None = None, said: Said | None = None) -> Report:
        """Measure a prompt; `about` holds what is known of the model's window and of the conversation so far."""
        request, limits = composed.request, composed.settings.limits
        filled = replace(
            about or About(),
            generated_at=epoch_ms(self._clock.now()),
            session_id=request.session_id,
            session_key=str(composed.session),
            model=composed.facts.turn.runtime.model,
            workspace_dir=composed.facts.stable.workspace,
            bootstrap_max_chars=limits.file,
            bootstrap_total_max_chars=limits.total,
            sandboxed=request.sandbox is not None and request.sandbox.enforced,
            sandbox_mode=self._config.agent(composed.session.agent_id).block("sandbox", SandboxSettings).mode,
        )
        carrier, _ = composed.carrier(said or {})
        return measure(composed.prompt, filled, context=composed.context, tools=request.tools, carrier=carrier)

    def _stable(self, request: PromptRequest, place: _Place, context: BootstrapContext) -> StableFacts:
        citations = self._config.get("memory.citations", "auto")
        return StableFacts(
            workspace=text_path(place.workspace),
            cwd=text_path(place.cwd) if place.cwd else "",
            tools=tool_notes(request.tools),
            docs=self._docs,
            skills=request.skills or "",
            citations=citations if citations in {"on", "off"} else "auto",
            aliases=_aliases(place.agent),
            sandbox=self._sandbox(request.sandbox),
            ritual=context.ritual,
            files=context.files,
            files_cut=context.truncated,
            reasoning_tags=request.provider.reasoning_tags,
            provider_prefix=request.provider.stable_prefix,
            tool_style=request.provider.tool_style,
            execution_bias=request.provider.execution_bias,
        )

    def _sandbox(self, spec: SandboxSpec | None) -> SandboxFacts | None:
        if spec is None or not spec.enforced:
            return None
        mounts = [f"Also visible: {mount.path} ({'rw' if mount.writable else 'ro'})" for mount in spec.mounts]
        return SandboxFacts(
            backend=spec.backend.value,
            workspace=spec.workspace,
            access=spec.access.value,
            network=spec.network,
            elevated=self._config.get("tools.elevated.enabled") is True,
            notes=tuple(mounts),
        )

    def _turn(self, request: PromptRequest, place: _Place, context: BootstrapContext) -> TurnFacts:
        turn, here = request.turn, self._machine
        zone = turn.zone or zone_name(place.settings.user_timezone, self._env)
        default = _model_name(place.agent.get("model"))
        runtime = replace(
            turn.runtime,
            agent=place.agent.id,
            host=here.host,
            os=here.os,
            arch=here.arch,
            python=here.python,
            shell=here.shell,
            repo=repo_root(place.settings.repo_root, place.workspace, place.cwd or place.workspace),
            model=turn.runtime.model or default,
            default_model=default,
        )
        return replace(
            turn,
            runtime=runtime,
            zone=zone,
            today=turn.today or today(self._clock.now(), zone),
            heartbeat_file=context.dynamic[0] if context.dynamic else None,
            heartbeat_prompt=turn.heartbeat_prompt or _heartbeat_prompt(place.agent),
            silent=turn.silent or place.session.is_shared or place.session.kind in _QUIET,
            owners=turn.owners or _texts(self._config.get("commands.ownerAllowFrom")),
            provider_suffix=turn.provider_suffix or request.provider.dynamic_suffix,
        )

    def _with_notes(self, turn: TurnFacts, occasion: str, place: _Place) -> TurnFacts:
        """Add the recent daily notes; they are as private as the memory they were written for."""
        zone, settings = find_zone(turn.zone) or UTC, place.settings.startup_context
        notes = build_prelude(place.workspace, now=self._clock.now(), zone=zone, settings=settings, occasion=occasion)
        section = Section("Recent Notes", notes, Tier.VOLATILE, once=True)
        return replace(turn, extras=(*turn.extras, section)) if notes else turn


class _Place(Struct, frozen=True):
    """Where a run takes place: agent, session, folders."""

    agent: AgentConfig
    session: SessionKey
    settings: WorkspaceSettings
    workspace: Path
    cwd: Path | None


def _run(request: PromptRequest, place: _Place) -> Run:
    heartbeat = request.heartbeat or place.session.kind is SessionKind.HEARTBEAT
    audience = Audience(
        session=place.session,
        chat_type=request.chat_type,
        heartbeat=heartbeat,
        light=request.light,
        cron_persona=place.settings.cron_bootstrap == "persona",
    )
    return Run(
        workspace=place.workspace,
        settings=place.settings,
        audience=audience,
        agent_id=place.agent.id,
        session_key=str(place.session),
        session_id=request.session_id,
        completed=request.completed,
        after_compaction=request.after_compaction,
        interactive=request.interactive and place.session.kind not in _QUIET,
        can_read_files=any(spec.name == "read" for spec in request.tools),
        canonical=request.sandbox is None or request.sandbox.can_write(str(place.workspace)),
        cwd=place.cwd,
        config=place.agent.config.document,
    )


def _aliases(agent: AgentConfig) -> tuple[tuple[str, str], ...]:
    models = agent.get("models")
    entries = models.items() if isinstance(models, dict) else ()
    found = [(entry.get("alias"), ref) for ref, entry in entries if isinstance(entry, dict)]
    return tuple(sorted((alias.strip(), ref) for alias, ref in found if isinstance(alias, str) and alias.strip()))


def _model_name(setting: Any) -> str:
    named = setting.get("primary") if isinstance(setting, dict) else setting
    return named.strip() if isinstance(named, str) else ""


def _heartbeat_prompt(agent: AgentConfig) -> str:
    """Return what a poll says, where polls are switched on: an interval must be named, an empty block is no order."""
    every = str(agent.get("heartbeat.every") or "").strip()
    if not agent.default or not every.strip("0 mhsd"):
        return ""
    named = agent.get("heartbeat.prompt")
    return named.strip() if isinstance(named, str) and named.strip() else HEARTBEAT_PROMPT


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value if isinstance(item, str | int)) if isinstance(value, list) else ()


def _folder(setting: Any, home: Path) -> Path | None:
    if not isinstance(setting, str) or not setting.strip():
        return None
    folder = expand(setting, home)
    return folder if folder.is_dir() else None
