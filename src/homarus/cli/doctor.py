"""`homarus doctor`: look for what is wrong, and mend what can be mended when asked to."""

from __future__ import annotations

import click

from homarus.cli.app import App
from homarus.cli.options import json_option, pass_app

_MARKS = {"ok": ("✓", "green"), "info": ("·", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what can be mended without losing anything.")
@json_option
@pass_app
def command(app: App, fix: bool, as_json: bool) -> int:
    """Look for what is wrong with this home, and say how to mend it.

    Looking changes nothing. Exit code 1 when an error is left.
    """
    from homarus.admin.doctor.examine import examine
    from homarus.admin.doctor.finding import Home, Severity
    from homarus.config.load import inspect_config

    subject = Home(inspect_config(app.paths, app.env), app.env, app.clock)
    findings = examine(subject)
    done: list[str] = []
    if fix:
        done = [finding.fix() for finding in findings if finding.fix is not None]
        findings = examine(Home(inspect_config(app.paths, app.env), app.env, app.clock)) if done else findings
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
                app.out.line(f"    {app.out.style(finding.cure, 'dim')}")
        for line in done:
            app.out.line(f"{app.out.style('fixed', 'green')}: {line}")
        left = sum(finding.fix is not None for finding in findings)
        if left and not fix:
            app.out.line(f"\n'homarus doctor --fix' can mend {left} of these.")
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0
