"""`homarus setup|status|doctor`: make a home, see where it stands, and mend it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from homarus.admin.doctor.examine import examine
from homarus.admin.doctor.finding import Home, Severity
from homarus.admin.setup import SetupReport, set_up
from homarus.admin.status import as_json as to_json
from homarus.admin.status import home_status
from homarus.cli.app import App
from homarus.cli.options import with_json


@click.command("setup")
@click.option("--workspace", type=click.Path(path_type=Path), metavar="DIR", help="Keep the agent's files here.")
@click.option("--non-interactive", is_flag=True, help="Never ask; setup does not ask anyway, 'homarus onboard' does.")
@with_json
def setup(app: App, workspace: Path | None, non_interactive: bool, as_json: bool) -> None:
    """Create the state folder, the configuration and the workspace, as far as they are missing.

    Nothing that exists is overwritten, and a second run changes nothing.
    """
    del non_interactive  # accepted for scripts that were written for OpenClaw
    chosen = workspace.expanduser().absolute() if workspace else None
    report = set_up(app.paths, app.env, app.clock, workspace=chosen)
    if as_json:
        app.out.json(as_data(app, report))
        return
    out = app.out
    out.line(f"{'created' if report.config_created else 'kept   '}  {app.paths.config_path}")
    for key in report.config_changed:
        out.line(f"set      {key}")
    for item in report.workspaces:
        what = f"wrote {', '.join(item.created)}" if item.created else "everything is in place"
        out.line(f"{'created' if item.brand_new else 'kept   '}  {item.workspace} ({what})")
    out.line()
    out.line("Next:")
    for name, use in (
        ("onboard", "choose a model; without one the offline notebook answers"),
        ("doctor", "check that all is well"),
        ("prompt", "see what your agent is told"),
    ):
        out.line(f"  {out.style(f'{app.program} {name:<8}', 'cyan')}    {use}")


def as_data(app: App, report: SetupReport) -> dict[str, Any]:
    """Return what was made and what was there, for programs."""
    return {
        "stateDir": str(app.paths.state_dir),
        "configPath": str(app.paths.config_path),
        "configCreated": report.config_created,
        "configChanged": list(report.config_changed),
        "workspaces": [
            {"path": str(item.workspace), "created": list(item.created), "git": item.git} for item in report.workspaces
        ],
    }


@click.command("status")
@with_json
def status(app: App, as_json: bool) -> None:
    """Show the home, its agents, their models, sandboxes and sessions.

    Looking changes nothing and asks no model; servers on this machine are looked for, for 0.15 seconds.
    """
    with app.out.waiting("looking at this home"):
        found = asyncio.run(home_status(app.config, app.env, app.clock))
    if as_json:
        app.out.json(to_json(found))
        return
    out = app.out
    out.line(f"{out.style('homarus', 'bold')} {found.version}")
    out.hint(f"home     {found.state_dir}{'' if found.exists else '  (not there yet: homarus setup)'}")
    wrong = f"{found.errors} errors, {found.warnings} warnings: homarus config validate"
    state = out.style(wrong, "red" if found.errors else "yellow") if found.errors or found.warnings else "valid"
    out.hint(f"config   {found.config_path}  ({state})")
    for row in found.channels:
        words = row.problem or ("on" if row.on else "off")
        shown = out.style(words, "yellow") if row.problem and row.on else words
        out.line(f"channel  {row.channel}/{row.account}  {shown}")
    for agent in found.agents:
        name = f" ({agent.name})" if agent.name else ""
        out.line()
        out.line(f"{out.style(agent.id + name, 'cyan', 'bold')}{'  default' if agent.default else ''}")
        out.line(f"  workspace  {agent.workspace}{'' if agent.workspace_exists else '  (not there yet)'}")
        why = out.style(agent.model_problem, "yellow") if agent.model_problem else out.style(agent.model_why, "dim")
        out.line(f"  model      {agent.model}  {why}")
        if agent.model_last and not agent.model_problem:
            out.hint(f"             {out.style(agent.model_last, 'dim')}")
        sandbox = out.style(agent.sandbox, "yellow") if agent.sandbox in {"off", "missing"} else agent.sandbox
        out.line(f"  sandbox    {sandbox}")
        last = (
            datetime.fromtimestamp(agent.last_activity_ms / 1000, UTC).astimezone() if agent.last_activity_ms else None
        )
        when = f", last used {last:%Y-%m-%d %H:%M}" if last else ""
        out.line(f"  sessions   {agent.sessions}{when}, {agent.tokens:,} tokens so far")
        out.line(f"  notes      {agent.notes}")


_MARKS = {"ok": ("✓", "green"), "info": ("·", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what can be mended without losing anything.")
@with_json
def doctor(app: App, fix: bool, as_json: bool) -> int:
    """Look for what is wrong with this home, and say how to mend it.

    Looking changes nothing. Exit code 1 when an error is left.
    """
    subject = Home(app.inspected(), app.env, app.clock)
    with app.out.waiting("looking at everything"):
        findings = examine(subject)
    done: list[str] = []
    if fix:
        done = [finding.fix() for finding in findings if finding.fix is not None]
        findings = examine(Home(app.inspected(), app.env, app.clock)) if done else findings
    if as_json:
        app.out.json({"findings": [finding.as_json() for finding in findings], "fixed": done})
    else:
        for finding in findings:
            mark, color = _MARKS[finding.severity]
            where = f" {finding.path}" if finding.path and finding.severity is not Severity.OK else ""
            app.out.line(
                f"{app.out.style(mark, color)} {app.out.style(finding.check, 'bold')}{where}: {finding.message}"
            )
            if finding.cure and finding.severity is not Severity.OK:
                app.out.hint(f"    {app.out.style(finding.cure, 'dim')}")
        for line in done:
            app.out.line(f"{app.out.style('fixed', 'green')}: {line}")
        left = sum(finding.fix is not None for finding in findings)
        if left and not fix:
            app.out.hint(f"\n'homarus doctor --fix' can mend {left} of these.")
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0
