"""`homarus setup`: a home that is ready to use, without a question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from homarus.cli.app import App
from homarus.cli.options import json_option, pass_app

if TYPE_CHECKING:
    from homarus.admin.setup import SetupReport


@click.command("setup")
@click.option("--workspace", type=click.Path(path_type=Path), metavar="DIR", help="Keep the agent's files here.")
@click.option("--non-interactive", is_flag=True, help="Never ask; setup does not ask anyway, 'homarus onboard' does.")
@json_option
@pass_app
def command(app: App, workspace: Path | None, non_interactive: bool, as_json: bool) -> None:
    """Create the state folder, the configuration and the workspace, as far as they are missing.

    Nothing that exists is overwritten, and a second run changes nothing.
    """
    from homarus.admin.setup import set_up

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
