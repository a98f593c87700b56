"""`homarus prompt` and `homarus context`: exactly what a model would be told, and what fills its window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import click
from msgspec.structs import replace

from homarus.agent.compose import ComposedPrompt, Composer, PromptRequest
from homarus.agent.hook_events import load_registry
from homarus.agent.sandbox_for import sandbox_for, window_of
from homarus.agent.session_state import SessionState, session_state
from homarus.agent.toolkit import tool_specs, window_layers
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import filled, json_option, pass_app, with_json
from homarus.core.clock import Clock, SystemIds
from homarus.core.errors import ConfigError, Denied, HomarusError, StorageError
from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.core.text import printable
from homarus.models.access import Models
from homarus.models.select import Override
from homarus.prompt.facts import SessionFacts, TurnFacts
from homarus.prompt.report import About, last_run
from homarus.prompt.section import Mode
from homarus.prompt.sections.tooling import in_order, told_to
from homarus.prompt.show import detail_lines, list_lines, map_lines
from homarus.runtime.client import RunOptions
from homarus.sessions.home import SessionHome
from homarus.sessions.store import SessionStore
from homarus.subagents.book import ChildBooks
from homarus.subagents.child import ChildRun, child_rules
from homarus.workspace.agents import resolve_workspace

if TYPE_CHECKING:
    from homarus.config.view import Config
    from homarus.tools.tool import Tool


F = TypeVar("F", bound=Callable[..., Any])


def session_options(function: F) -> F:
    """Give a command the options that choose a session: `--mode`, `--session`, `--agent`."""
    for option in (
        click.option(
            "--mode", type=click.Choice(["full", "minimal", "lean", "none"]), help="Instead of the session's own mode."
        ),
        click.option(
            "--session",
            "session_key",
            metavar="KEY",
            help="A session, e.g. agent:main:telegram:group:42.",
            shell_complete=complete.sessions,
            callback=filled,
        ),
        click.option(
            "--agent",
            "agent_id",
            metavar="ID",
            help="An agent; its main session unless --session says more.",
            shell_complete=complete.agents,
            callback=filled,
        ),
    ):
        function = option(function)
    return function


class Shown(NamedTuple):
    """A prompt, what made it, and the past of its session."""

    composer: Composer
    composed: ComposedPrompt
    past: SessionState
    # Tools for which the model's window is too small.
    left_out: tuple[str, ...]


def answering(app: App, past: SessionState, session: SessionKey) -> tuple[TurnFacts, int]:
    """Return what the next turn is told of the model that answers it, and that model's window."""
    agent = app.config.agent(session.agent_id)

    async def look() -> tuple[TurnFacts, int]:
        models = Models(app.config, app.env, clock=app.clock)
        try:
            ref = (await models.chain(agent, override=Override(past.turn.model) if past.turn.model else None)).primary
            level = models.level(agent, ref, session=past.turn.thinking)
            channel = past.turn.channel or RunOptions().channel
            told = replace(past.turn, model=ref.key, thinking=level, channel=channel)
            return told, models.window(agent, ref)
        finally:
            await models.aclose()

    return asyncio.run(look())


def prompt_of(
    app: App, *, mode: str | None, session_key: str | None, agent_id: str | None, look: bool = False
) -> Shown:
    """Return the prompt that the next turn of the named session would get.

    With `look` the model is found as a turn would find it, `auto` included; otherwise it is what the files name.
    """
    config = app.config
    session = _session(app, session_key, agent_id)
    composer = Composer(config, app.env, app.clock)
    workspace = composer.agent(session.agent_id).workspace
    # The hooks of this process are those of its default agent's workspace, whoever speaks.
    home = resolve_workspace(config, config.default_agent.id, app.env)
    hooks = load_registry(config, app.env, home, only="agent:bootstrap")
    if hooks is not None:
        composer = Composer(config, app.env, app.clock, hooks=hooks)
    past, sandbox = SessionState(), None
    try:
        past = session_state(config, app.clock, session)
    except StorageError as problem:
        app.out.warn(str(problem))
    try:
        sandbox = sandbox_for(config.agent(session.agent_id), session, workspace)
    except (Denied, ConfigError) as problem:
        app.out.warn(str(problem))
    turn = past.turn
    window = window_of(config.agent(session.agent_id), turn.model or composer.agent(session.agent_id).model)
    if look:
        try:
            turn, window = answering(app, past, session)
        except HomarusError as problem:
            app.out.warn(str(problem))
    child = _child(config, app.clock, session)
    depth = child.depth if child else int(session.is_subagent)
    every = tool_specs(config, session.agent_id, depth=depth, more=_of_servers(config))
    layers = window_layers(config, session.agent_id, window)
    specs = in_order(tool_specs(config, session.agent_id, depth=depth, more=_of_servers(config), layers=layers))
    left_out = tuple(spec.name for spec in in_order(every) if spec not in specs)
    if child is not None:
        specs = tuple(spec for spec in specs if spec.name in child.tools)
        sandbox = child.sandbox.narrow(sandbox) if sandbox is not None else child.sandbox
    request = PromptRequest(
        session=session,
        mode=Mode(mode) if mode else None,
        window=window,
        tools=told_to(window, specs) if mode != "none" else (),
        skills=composer.skills_for(session.agent_id, past.skills),
        sandbox=sandbox,
        trust=Trust.OWNER,
        chat_type="direct",
        turn=turn,
        session_facts=SessionFacts(extra=child_rules(child)) if child else SessionFacts(),
        workspace=Path(child.cwd) if child and child.own_folder else None,
        session_id=past.session_id,
        occasion=past.occasion,
    )
    return Shown(composer, composer.prompt_for(request), past, left_out)


def _of_servers(config: Config) -> tuple[Tool, ...]:
    if not config.get("mcp.servers"):
        return ()
    from homarus.plugins.mcp.servers import known_tools

    return known_tools(config)


def _child(config: Config, clock: Clock, session: SessionKey) -> ChildRun | None:
    """Return how a sub-agent's session was ordered; None for any other session, and where nobody knows it any more."""
    info = None
    if session.is_subagent:
        info = SessionStore.of(config, session.agent_id, clock=clock, ids=SystemIds()).find(session)
    if info is None or not info.entry.spawned_by:
        return None
    book = ChildBooks(config.paths.own_dir / "children").look(SessionKey.parse(info.entry.spawned_by))
    return next((kept.run for kept in reversed(list(book)) if kept.run.child == str(session)), None)


def _session(app: App, session_key: str | None, agent_id: str | None) -> SessionKey:
    named = app.config.agent_named(agent_id).id
    home = SessionHome.of(app.config, clock=app.clock, ids=SystemIds())
    session = home.key(session_key or "main", agent_id or "")
    if agent_id and session.agent_id != named:
        raise click.UsageError(f"session '{session}' belongs to agent '{session.agent_id}', not to '{named}'")
    app.config.agent_named(session.agent_id)
    if session.is_main or home.store(session.agent_id).find(session) is not None:
        return session
    if not (session_key or "").strip().lower().startswith("agent:"):
        # Whoever looks means what is there; only a whole key asks for what will be.
        return home.resolve(session_key or "", agent_id or "").key
    app.out.warn(f"there is no session {session} yet; so it would begin")
    return session


@click.command("prompt")
@session_options
@click.option("--boundary", is_flag=True, help="Mark the line up to which providers keep the prompt in their cache.")
@click.option("--turn", is_flag=True, help="Print what rides on the next user turn instead: date, levels, recall ...")
@with_json
def command(
    app: App, mode: str | None, session_key: str | None, agent_id: str | None, boundary: bool, turn: bool, as_json: bool
) -> None:
    """Print the system message of a session: all of it, and nothing else."""
    shown = prompt_of(app, mode=mode, session_key=session_key, agent_id=agent_id, look=True)
    composed, system = shown.composed, shown.composed.prompt.system
    carrier, _ = composed.carrier(shown.past.said)
    if as_json:
        sections = (*composed.prompt.sections, *composed.prompt.volatile)
        app.out.json(
            {
                "session": str(composed.session),
                "mode": composed.mode.value,
                "text": system.text,
                "aboveBoundary": system.stable,
                "belowBoundary": system.session,
                "turn": carrier,
                "sections": [{"name": each.name, "tier": each.tier.value, "text": each.text} for each in sections],
            }
        )
        return
    _write(app.out.out, carrier if turn else system.with_boundary if boundary else system.text)


def _write(out: TextIO, text: str) -> None:
    """Give a file or a pipe the very bytes that a model gets, and a terminal the line end that its next line needs."""
    raw = getattr(out, "buffer", None)
    if raw is None or out.isatty():
        out.write(f"{printable(text)}\n")
        return
    out.flush()
    raw.write(text.encode())
    raw.flush()


@click.group("context", cls=Group, default="list")
def context() -> None:
    """Show what a session's prompt is made of, with sizes. Without a word: the list."""


def _options(function: Callable[..., None]) -> Callable[..., None]:
    estimate = click.option("--estimate", is_flag=True, help="Measure the next turn's prompt, not the last run's.")
    return session_options(estimate(json_option(pass_app(function))))


@context.command("list")
@_options
def list_command(app: App, **options: Any) -> None:
    """Show the files, the skills and the tools that fill the prompt."""
    _show(app, "list", **options)


@context.command("detail")
@_options
def detail_command(app: App, **options: Any) -> None:
    """Show every section, skill and tool on top of the list."""
    _show(app, "detail", **options)


@context.command("map")
@_options
def map_command(app: App, **options: Any) -> None:
    """Show the window as bars."""
    _show(app, "map", **options)


def _show(app: App, what: str, *, as_json: bool, estimate: bool, mode: str | None, **chosen: str | None) -> None:
    shown = prompt_of(app, mode=mode, session_key=chosen["session_key"], agent_id=chosen["agent_id"], look=True)
    composed, past = shown.composed, shown.past
    about = About(
        window=composed.request.window,
        session_tokens=past.tokens,
        messages=past.messages,
        tools_left_out=shown.left_out,
    )
    report = shown.composer.report_for(composed, about=about, said=past.said)
    if not estimate and mode is None:
        report = last_run(past.report, report)
    if as_json:
        app.out.json(report.to_json())
        return
    lines = [] if what == "map" else [*(list_lines if what == "list" else detail_lines)(report), ""]
    for line in [*lines, *map_lines(report, unicode=_takes_blocks(app.out.out.encoding))]:
        app.out.line(line)


def _takes_blocks(encoding: str | None) -> bool:
    try:
        "█▏".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
