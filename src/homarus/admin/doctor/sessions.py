"""Checks of conversations: damaged lines, calls without results, transcripts that no index names."""

from __future__ import annotations

from itertools import islice

from homarus.admin.doctor.finding import Finding, Home, Severity, ok
from homarus.core.clock import SystemIds
from homarus.sessions.check import check_store
from homarus.sessions.store import SessionStore

MAX_FINDINGS = 40
_SEVERITIES = {"error": Severity.ERROR, "warning": Severity.WARNING, "info": Severity.INFO}


def check_sessions(home: Home) -> list[Finding]:
    """Every agent's sessions, read and not touched. Trouble in a transcript is no error here: it is repaired when read."""
    findings = []
    for agent in home.config.agents:
        store = SessionStore.of(home.config, agent.id, clock=home.clock, ids=SystemIds())
        for found in islice(check_store(store), MAX_FINDINGS):
            severity = _SEVERITIES.get(found.severity, Severity.WARNING)
            findings.append(Finding(f"sessions.{found.check}", severity, found.message, found.path, found.cure))
    return findings or ok("sessions", "conversations are whole")
