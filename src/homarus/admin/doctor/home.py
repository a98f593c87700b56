"""Checks of what a home says about itself: configuration, agents, workspaces, and who else uses it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from homarus.admin.doctor.finding import Finding, Home, Severity, ok
from homarus.admin.places import unmade
from homarus.admin.status import channel_rows
from homarus.agent.open_session import workspace_places
from homarus.agent.places import unfit
from homarus.config.blocks import validate
from homarus.core.errors import HomarusError, installing
from homarus.workspace import names
from homarus.workspace.agents import all_workspaces, resolve_workspace
from homarus.workspace.seed import missing_files
from homarus.workspace.settings import WorkspaceSettings

_SEVERITIES = {"error": Severity.ERROR, "warning": Severity.WARNING, "info": Severity.INFO}


def check_config(home: Home) -> list[Finding]:
    """The configuration, by the same validator that a start uses."""
    path = home.config.paths.config_path
    findings = []
    for problem in validate(home.config):
        where = f"{problem.file}:{problem.line}" if problem.line else problem.file
        message = f"{problem.key}: {problem.message}" if problem.key else problem.message
        findings.append(Finding("config", _SEVERITIES[problem.severity], message, where, problem.cure))
    if findings:
        return findings
    if not path.exists():
        return [
            Finding(
                "config.missing",
                Severity.INFO,
                "there is no configuration; the defaults hold",
                str(path),
                "run 'homarus setup'",
            )
        ]
    return ok("config", f"{path} is valid")


def check_channels(home: Home) -> list[Finding]:
    """Accounts of chat platforms that are on and cannot be served."""
    rows = [row for row in channel_rows(home.config, home.env) if row.on]
    found = [
        Finding("channels", Severity.WARNING, f"{row.channel}/{row.account}: {row.problem}", f"channels.{row.channel}")
        for row in rows
        if row.problem
    ]
    return found or (ok("channels", f"{len(rows)} accounts can be served") if rows else [])


def check_workspaces(home: Home) -> list[Finding]:
    """Every agent's workspace is there; a folder that looks like one and belongs to nobody is named."""
    findings = []
    known, paths = all_workspaces(home.config, home.env), home.config.paths
    # What cannot be one is told with the configuration: there it is mended.
    fit = [workspace for workspace in known if not unfit(workspace, paths)]
    for workspace in fit:
        if not workspace.is_dir():
            findings.append(_missing(workspace))
        elif not os.access(workspace, os.W_OK):
            findings.append(
                Finding("workspace.read_only", Severity.WARNING, "cannot be written", str(workspace), "check its owner")
            )
    places = workspace_places(paths)
    for agent in home.config.agents:
        workspace = resolve_workspace(home.config, agent.id, home.env)
        laid_out = workspace.is_dir() and not unfit(workspace, paths)
        gone = missing_files(workspace, agent.block("", WorkspaceSettings), places) if laid_out else ()
        if gone:
            message, cure = f"has no {', '.join(gone)}", "run 'homarus setup'"
            findings.append(Finding("workspace.incomplete", Severity.INFO, message, str(workspace), cure))
    real = {workspace.resolve() for workspace in known}
    # Older installations made the last two.
    for folder in [*sorted(paths.state_dir.glob("workspace*")), paths.home / "openclaw", paths.home / "clawd"]:
        if folder.is_dir() and folder.resolve() not in real and (folder / names.AGENTS).exists():
            message = "looks like a workspace, but no agent uses it: edits there have no effect"
            findings.append(
                Finding(
                    "workspace.extra", Severity.WARNING, message, str(folder), "bind it to an agent or move it away"
                )
            )
    return findings or (ok("workspace", f"{len(fit)} workspace(s) in place") if fit else [])


def _missing(workspace: Path) -> Finding:
    if why := unmade(workspace):
        message = f"does not exist, and cannot be made: {why}"
        return Finding("workspace.missing", Severity.ERROR, message, str(workspace), "mount it, or name another folder")
    return Finding("workspace.missing", Severity.INFO, "does not exist yet", str(workspace), "run 'homarus setup'")


def check_openclaw(home: Home) -> list[Finding]:
    """A running OpenClaw that owns the same home: two programs would answer the same messages."""
    state = home.config.paths.state_dir
    for path in sorted(state.glob("tmp/openclaw-*/gateway*.lock")):
        if (pid := _living_pid(path)) is not None:
            return [_shared(pid, state)]
    for pid in _openclaw_processes(state):
        return [_shared(pid, state)]
    return ok("openclaw", "no other gateway uses this home")


def _shared(pid: int, state: Path) -> Finding:
    message = f"an OpenClaw gateway (process {pid}) is running on this home"
    return Finding(
        "openclaw.running", Severity.WARNING, message, str(state), "stop it before homarus answers on channels"
    )


def _living_pid(path: Path) -> int | None:
    try:
        pid = int(json.loads(path.read_bytes()[:4096])["pid"])
        os.kill(pid, 0)
    except PermissionError:
        return pid
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return pid


def _openclaw_processes(state: Path) -> list[int]:
    """Return node processes of ours that run OpenClaw's gateway on this state folder; Linux only."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
            if b"openclaw" not in line or b"gateway" not in line:
                continue
            pairs = (item.partition(b"=") for item in (entry / "environ").read_bytes().split(b"\x00"))
            env = {key: os.fsdecode(value) for key, _, value in pairs}
        except OSError:
            continue
        chosen = env.get(b"OPENCLAW_STATE_DIR", "") or str(Path(env.get(b"HOME", "")) / ".openclaw")
        if Path(chosen) == state and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def check_plugins(home: Home) -> list[Finding]:
    """Plugins that are switched on and cannot run, that failed, or that belong to another program."""
    if not home.config.get("plugins") and not (home.config.paths.state_dir / "extensions").is_dir():
        return []
    from homarus.plugins.health import HealthBook
    from homarus.plugins.manifest import Lock, PluginSettings, of_openclaw, usable

    settings, lock = home.config.block("plugins", PluginSettings), Lock(home.config.paths).read()
    foreign, findings = dict(of_openclaw(home.config)), []
    for name, instead in foreign.items():
        message = f"the plugin '{name}' belongs to OpenClaw; nothing of it runs here"
        findings.append(Finding("plugins.openclaw", Severity.INFO, message, cure=f"instead: {instead}"))
    for name, entry in settings.entries.items():
        if name in foreign or not settings.wants(name):
            continue
        try:
            usable(home.config, name, entry, lock)
        except HomarusError as problem:
            findings.append(Finding("plugins", Severity.ERROR, problem.message, cure=problem.cure))
    try:
        for name, health in HealthBook(home.config.paths.own_dir).read().items():
            message = f"the plugin '{name}' failed {health.failures} times, last: {health.last}"
            cure = f"look at it, or: homarus plugins disable {name}"
            findings.append(Finding("plugins.health", Severity.WARNING, message, cure=cure))
    except HomarusError as damaged:
        findings.append(Finding("plugins.health", Severity.WARNING, damaged.message, cure=damaged.cure))
    return findings or ok("plugins", "the plugins that are switched on can run")


def check_mcp(home: Home) -> list[Finding]:
    """MCP servers that cannot work as they are written; none of them is started."""
    if not home.config.get("mcp.servers"):
        return []
    from importlib.util import find_spec

    from homarus.plugins.mcp.settings import McpSettings

    servers = home.config.block("mcp", McpSettings).servers
    used = [name for name, each in servers.items() if each.enabled]
    findings = []
    if used and find_spec("mcp") is None:
        cure = installing("homarus[mcp]")
        findings.append(
            Finding("mcp", Severity.WARNING, f"servers are named ({', '.join(used)}), but not the library", cure=cure)
        )
    for name in used:
        if not servers[name].kind:
            message = f"mcp.servers.{name} has neither a command nor a url"
            findings.append(Finding("mcp", Severity.ERROR, message, cure=f"give it one, or: homarus mcp remove {name}"))
    return findings or ok("mcp", f"{len(used)} MCP servers are named; 'homarus mcp probe' tries them")
