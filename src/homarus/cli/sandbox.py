"""`homarus sandbox`: where an agent's commands run, in words, and a look from inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from homarus.agent.sandbox_for import sandbox_for
from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import filled, with_json
from homarus.cli.sessions_show import home_of
from homarus.core.routes import main_session
from homarus.sandbox.probe import try_out
from homarus.workspace.agents import resolve_workspace

if TYPE_CHECKING:
    from homarus.sandbox.spec import SandboxSpec


@click.group("sandbox", cls=Group, default="explain")
def command() -> None:
    """See where commands run and what holds them. Without a word: what a session's commands may do."""


@command.command("explain")
@click.option(
    "--agent",
    "agent_id",
    default="",
    help="which agent (default: the main one)",
    shell_complete=complete.agents,
    callback=filled,
)
@click.option(
    "--session",
    "session",
    default="",
    metavar="SESSION",
    help="which session: its key, its name or the first characters of its id, four or more (default: the agent's main session)",
    shell_complete=complete.sessions,
    callback=filled,
)
@with_json
def explain(app: App, agent_id: str = "", session: str = "", as_json: bool = False) -> None:
    """Say what a session's commands may see and use."""
    spec = _spec(app, agent_id, session)
    facts = {
        "backend": spec.backend.value,
        "enforced": spec.enforced,
        "workspace": spec.workspace,
        "access": spec.access.value,
        "network": spec.network,
        "mounts": [f"{mount.path} ({'rw' if mount.writable else 'ro'})" for mount in spec.mounts],
        "environment": list(spec.env),
        "cpuSeconds": spec.limits.cpu_seconds,
        "memoryMb": spec.limits.memory_bytes >> 20,
        "processes": spec.limits.processes,
        "diskMb": spec.limits.disk_bytes >> 20,
    }
    if as_json:
        app.out.json(facts)
        return
    for key, value in facts.items():
        app.out.line(f"{key}: {', '.join(value) or 'none' if isinstance(value, list) else value}")
    if not spec.enforced:
        app.out.warn("Nothing holds commands back here; each one on the host goes through approvals.")


@command.command("probe")
@click.option(
    "--agent",
    "agent_id",
    default="",
    help="which agent (default: the main one)",
    shell_complete=complete.agents,
    callback=filled,
)
@with_json
def probe_command(app: App, agent_id: str, as_json: bool) -> None:
    """Run a command inside and see whether anything leaks."""
    found = try_out(_spec(app, agent_id, ""), app.env)
    if as_json:
        app.out.json(
            {"backend": found.backend, "holds": found.holds, "leaks": list(found.leaks), "failure": found.failure}
        )
    elif found.holds:
        app.out.line(f"{found.backend}: everything holds.")
    else:
        for text in found.leaks or (found.failure,):
            app.out.warn(f"{found.backend}: {text}")
    if not found.holds:
        click.get_current_context().exit(1)


def _spec(app: App, agent_id: str, session: str) -> SandboxSpec:
    key = main_session(app.config.agent_named(agent_id).id)
    if session:
        home = home_of(app)
        # A whole key is taken as it stands: one may ask about a session before there is one.
        whole = session.lower().startswith("agent:") or session.lower() == "main"
        key = home.key(session, agent_id) if whole else home.resolve(session, agent_id).key
    agent = app.config.agent_named(key.agent_id)
    return sandbox_for(agent, key, resolve_workspace(app.config, agent.id, app.env))
