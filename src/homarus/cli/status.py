"""`homarus status`: where this home stands, at a glance."""

from __future__ import annotations

import click

from homarus.cli.app import App
from homarus.cli.options import json_option, pass_app


@click.command("status")
@json_option
@pass_app
def command(app: App, as_json: bool) -> None:
    """Show the home, its agents, their models, sandboxes and sessions.

    Looking changes nothing and asks no model; servers on this machine are looked for, for 0.15 seconds.
    """
    import asyncio
    from datetime import UTC, datetime

    from homarus.admin.status import as_json as to_json
    from homarus.admin.status import home_status

    status = asyncio.run(home_status(app.config, app.env, app.clock))
    if as_json:
        app.out.json(to_json(status))
        return
    out = app.out
    out.line(f"{out.style('homarus', 'bold')} {status.version}")
    out.line(f"home     {status.state_dir}{'' if status.exists else '  (not there yet: homarus setup)'}")
    wrong = f"{status.errors} errors, {status.warnings} warnings: homarus config validate"
    state = out.style(wrong, "red" if status.errors else "yellow") if status.errors or status.warnings else "valid"
    out.line(f"config   {status.config_path}  ({state})")
    for agent in status.agents:
        name = f" ({agent.name})" if agent.name else ""
        out.line()
        out.line(f"{out.style(agent.id + name, 'cyan', 'bold')}{'  default' if agent.default else ''}")
        out.line(f"  workspace  {agent.workspace}{'' if agent.workspace_exists else '  (not there yet)'}")
        out.line(f"  model      {agent.model}  {out.style(agent.model_why, 'dim')}")
        sandbox = out.style(agent.sandbox, "yellow") if agent.sandbox in {"off", "missing"} else agent.sandbox
        out.line(f"  sandbox    {sandbox}")
        last = (
            datetime.fromtimestamp(agent.last_activity_ms / 1000, UTC).astimezone() if agent.last_activity_ms else None
        )
        when = f", last used {last:%Y-%m-%d %H:%M}" if last else ""
        out.line(f"  sessions   {agent.sessions}{when}, {agent.tokens:,} tokens so far")
        out.line(f"  notes      {agent.notes}")
