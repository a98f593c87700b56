"""Run all checks, each contained: a check that fails is itself a finding."""

from __future__ import annotations

from collections.abc import Sequence

from homarus.admin.doctor import files, home, machine, sessions
from homarus.admin.doctor.finding import Check, Finding, Home, Severity
from homarus.storage.faults import explain

CHECKS: tuple[Check, ...] = (
    machine.check_python,
    files.check_state,
    files.check_permissions,
    home.check_config,
    home.check_channels,
    home.check_workspaces,
    home.check_openclaw,
    home.check_plugins,
    home.check_mcp,
    sessions.check_sessions,
    files.check_locks,
    files.check_temps,
    files.check_set_aside,
    files.check_disk,
    machine.check_sandbox,
    machine.check_models,
    machine.check_programs,
    machine.check_extras,
)


def examine(subject: Home, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """Return the findings of all checks, in the order of the checks. Nothing is changed by looking."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check(subject)
        except OSError as problem:
            fault = explain(problem, "look at", problem.filename or "a file")
            findings.append(Finding(_name(check), Severity.ERROR, fault.message, cure=fault.cure))
        except Exception as problem:  # noqa: BLE001 - one check that fails must not hide the others
            message = f"the check itself failed: {type(problem).__name__}: {problem}"
            findings.append(Finding(_name(check), Severity.ERROR, message, cure="please report this"))
    return findings


def _name(check: Check) -> str:
    return check.__name__.removeprefix("check_")
