"""What in a home is open to others, or could be: settings, files, skills. Looking changes nothing; a fix takes rights away, never gives them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from homarus.admin.doctor.examine import examine
from homarus.admin.doctor.files import check_permissions, check_state
from homarus.admin.doctor.finding import Finding, Home, Severity
from homarus.config.write import Operation, change
from homarus.core.errors import HomarusError
from homarus.skills.audit import scan
from homarus.workspace.agents import all_workspaces

CRITICAL, WARN, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
SHORTEST = 24
_SYNCED = ("dropbox", "onedrive", "google drive", "icloud", "mobile documents", "nextcloud", "syncthing")
_ACTING = frozenset({"exec", "bash", "process", "write", "edit", "apply_patch", "gateway", "cron", "sessions_spawn"})
_DANGEROUS_MOUNTS = ("/", "/etc", "/root", "/home", "/proc", "/sys", "/dev", "/var/run/docker.sock", "/run/docker.sock")
_SECRET_NAMES = ("apikey", "token", "password", "secret")
_MAX_SKILL = 1 << 20


def audit(home: Home) -> list[Finding]:
    """Return everything that a person should know, the worst first."""
    checks = (check_state, check_permissions, _places, _gateway, _http, _hooks, _tools, _sandbox, _channels, _secrets)
    found = [each for each in examine(home, (*checks, _skills)) if each.severity is not Severity.OK]
    order = [CRITICAL, WARN, INFO]
    return [*sorted(found, key=lambda each: order.index(each.severity)), *_summary(home)]


def _get(home: Home, path: str) -> Any:
    return home.config.get(path)


def _set(home: Home, path: str, value: Any) -> Callable[[], str]:
    def mend() -> str:
        change(home.config, home.env, [Operation("set", tuple(path.split(".")), value)])
        return f"set {path} to {value!r}"

    return mend


def _secret(home: Home, path: str) -> str:
    value = _get(home, path)
    try:
        return home.config.resolve(value) if value not in (None, "") else ""
    except HomarusError:
        return ""


def _outside(home: Home) -> bool:
    return str(_get(home, "gateway.bind") or "loopback") in {"lan", "custom", "auto", "tailnet"}


def _places(home: Home) -> list[Finding]:
    state, found = home.config.paths.state_dir, []
    if any(word in str(state.resolve()).lower() for word in _SYNCED):
        message = "lies in a folder that is copied to other machines, with its keys and conversations"
        found.append(Finding("fs.synced_dir", WARN, message, str(state), "move it: OPENCLAW_STATE_DIR"))
    if state.is_symlink():
        found.append(Finding("fs.state_dir.symlink", INFO, f"is a link to {state.resolve()}", str(state)))
    return found


def _gateway(home: Home) -> list[Finding]:
    found, mode = [], str(_get(home, "gateway.auth.mode") or "token")
    name = "password" if mode in {"password", "trusted-proxy"} else "token"
    secret, where = _secret(home, f"gateway.auth.{name}"), f"gateway.auth.{name}"
    if _outside(home) and not secret and mode != "trusted-proxy":
        message = "the gateway would listen beyond this machine without a secret; it refuses to start"
        found.append(Finding("gateway.bind_no_auth", CRITICAL, message, where, "set a secret, or bind to loopback"))
    if mode == "none":
        message = "'none' is read as 'token': nothing is served without a secret"
        found.append(Finding("gateway.loopback_no_auth", INFO, message, "gateway.auth.mode", "remove it"))
    if secret and len(secret) < SHORTEST:
        severity = CRITICAL if _outside(home) else WARN
        message = f"has {len(secret)} characters, and a program can guess that"
        found.append(Finding("gateway.token_too_short", severity, message, where, f"use {SHORTEST} or more"))
    if _outside(home) and not _get(home, "gateway.tls.enabled") and not _get(home, "gateway.trustedProxies"):
        severity = CRITICAL if _get(home, "gateway.allowPlainText") else INFO
        message = "without TLS everybody on the way reads the token"
        fix = _set(home, "gateway.allowPlainText", False) if severity is CRITICAL else None
        found.append(Finding("gateway.plain_text", severity, message, "gateway.bind", "set gateway.tls", fix))
    for network in _get(home, "gateway.trustedProxies") or ():
        if str(network).endswith("/0"):
            message = "takes everybody for a proxy whose word counts"
            found.append(Finding("gateway.trusted_proxies_wildcard", CRITICAL, message, "gateway.trustedProxies"))
    if mode == "trusted-proxy" and not _get(home, "gateway.auth.identityScopes"):
        message = "no name that the proxy vouches for has any scope: nobody can do anything"
        found.append(Finding("gateway.trusted_proxy_no_users", WARN, message, "gateway.auth.identityScopes"))
    if int(_get(home, "gateway.auth.rateLimit.maxAttempts") or 10) > 100:
        message = "lets somebody guess more than 100 times a minute"
        fix = _set(home, "gateway.auth.rateLimit.maxAttempts", 10)
        found.append(Finding("gateway.auth_no_rate_limit", WARN, message, "gateway.auth.rateLimit", "use 10", fix))
    if "operator.admin" in (_get(home, "gateway.auth.secretScopes") or ()):
        message = "whoever has the shared secret may change everything, without a device that you approved"
        found.append(Finding("gateway.secret_is_admin", WARN, message, "gateway.auth.secretScopes", "take it out"))
    return found


def _http(home: Home) -> list[Finding]:
    found = []
    origins = list(_get(home, "gateway.controlUi.allowedOrigins") or ())
    if "*" in origins:
        fix = _set(home, "gateway.controlUi.allowedOrigins", [each for each in origins if each != "*"])
        message = "'*' would let every page speak to the gateway; it is not taken as a name"
        found.append(
            Finding("gateway.control_ui.allowed_origins_wildcard", CRITICAL, message, "gateway.controlUi", fix=fix)
        )
    for name in ("chatCompletions", "responses"):
        if _get(home, f"gateway.http.endpoints.{name}.enabled") and _outside(home):
            message = "other machines reach the agent with the shared secret alone, as its owner"
            found.append(Finding("gateway.http.endpoints_outside", WARN, message, f"gateway.http.endpoints.{name}"))
    opened = sorted(_ACTING.intersection(_get(home, "gateway.tools.allow") or ()))
    if opened:
        severity = CRITICAL if _outside(home) else WARN
        message = f"{', '.join(opened)} can be called over HTTP, and nobody is asked before"
        fix = _set(home, "gateway.tools.allow", [])
        found.append(
            Finding("gateway.tools_invoke_http.dangerous_allow", severity, message, "gateway.tools.allow", fix=fix)
        )
    return found


def _hooks(home: Home) -> list[Finding]:
    if not _get(home, "hooks.enabled"):
        return []
    found, token = [], _secret(home, "hooks.token")
    if token and token == _secret(home, "gateway.auth.token"):
        message = "is the gateway's own token: whoever may knock may also come in"
        found.append(Finding("hooks.token_reuse_gateway_token", CRITICAL, message, "hooks.token", "use another one"))
    if len(token) < SHORTEST:
        message = "is missing or short"
        found.append(Finding("hooks.token_too_short", WARN, message, "hooks.token", f"use {SHORTEST} characters"))
    if _get(home, "hooks.allowedAgentIds") is None and len(home.config.agents) > 1:
        message = "callers may choose every agent"
        found.append(Finding("hooks.allowed_agent_ids_unrestricted", WARN, message, "hooks.allowedAgentIds"))
    if _get(home, "hooks.allowRequestSessionKey") and not _get(home, "hooks.allowedSessionKeyPrefixes"):
        message = "callers may name sessions, and no list says which"
        fix = _set(home, "hooks.allowRequestSessionKey", False)
        found.append(Finding("hooks.request_session_key_enabled", WARN, message, "hooks", fix=fix))
    if str(_get(home, "hooks.path") or "/hooks").strip("/") == "":
        found.append(Finding("hooks.path_root", CRITICAL, "would take every address", "hooks.path", "use /hooks"))
    return found


def _scopes(home: Home, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a setting of everyone and of each agent that has its own, with where it stands."""
    yield path, home.config.get(path)
    for agent in home.config.agents:
        own: Any = agent.entry
        for step in path.split("."):
            own = own.get(step) if isinstance(own, dict) else None
        if own is not None:
            yield f"agents.entries.{agent.id}.{path}", own


def _tools(home: Home) -> list[Finding]:
    found = []
    for where, rules in _scopes(home, "tools.exec"):
        if isinstance(rules, dict) and rules.get("security") == "full" and rules.get("host") in {"gateway", "auto"}:
            severity = CRITICAL if rules.get("ask") in {"off", None} else WARN
            message = "commands run on this machine, outside of a sandbox" + (
                ", and nobody is asked" if severity is CRITICAL else ""
            )
            found.append(Finding("tools.exec.security_full_configured", severity, message, where, "use 'allowlist'"))
    for where, given in _scopes(home, "tools.elevated.allowFrom"):
        for channel, senders in (given or {}).items() if isinstance(given, dict) else ():
            if senders is True or "*" in (senders if isinstance(senders, list) else [senders]):
                check = f"tools.elevated.allowFrom.{channel}.wildcard"
                message = "everybody there may run commands outside of the sandbox"
                found.append(Finding(check, CRITICAL, message, f"{where}.{channel}", "name people"))
    return found


def _sandbox(home: Home) -> list[Finding]:
    found = []
    for agent in home.config.agents:
        where = f"agents.entries.{agent.id}.sandbox"
        if agent.get("sandbox.mode") == "off":
            message = "commands of this agent see all files of this user"
            found.append(Finding("sandbox.mode_off", WARN, message, f"{where}.mode", "use 'all'"))
        for bind in agent.get("sandbox.docker.binds") or ():
            source = os.path.normpath(str(bind).partition(":")[0])
            if source in _DANGEROUS_MOUNTS:
                message = f"shows {source} to commands in the sandbox"
                found.append(Finding("sandbox.dangerous_bind_mount", CRITICAL, message, f"{where}.docker.binds"))
        network = str(agent.get("sandbox.docker.network") or "")
        if network == "host" or network.startswith("container:"):
            message = f"'{network}' gives the sandbox somebody else's network"
            found.append(Finding("sandbox.dangerous_network_mode", CRITICAL, message, f"{where}.docker.network"))
    return found


def _channels(home: Home) -> list[Finding]:
    found, channels = [], home.config.document.get("channels")
    for name, rules in channels.items() if isinstance(channels, dict) else ():
        if not isinstance(rules, dict) or rules.get("enabled") is False:
            continue
        everyone = rules.get("allowFrom") == ["*"]
        if rules.get("dmPolicy") == "open" or everyone:
            message = "everybody who writes there talks to your agent"
            fix = _set(home, f"channels.{name}.dmPolicy", "pairing")
            found.append(Finding(f"channels.{name}.dm.open", CRITICAL, message, f"channels.{name}", "pairing", fix))
        if rules.get("groupPolicy") == "open":
            message = "everybody in every group can wake your agent"
            fix = _set(home, f"channels.{name}.groupPolicy", "allowlist")
            found.append(Finding(f"channels.{name}.groups.open", WARN, message, f"channels.{name}", fix=fix))
    exposed = [each for each in found if each.severity is CRITICAL]
    if exposed and any(agent.get("sandbox.mode") == "off" for agent in home.config.agents):
        message = "strangers can write to an agent whose commands have no sandbox"
        found.append(Finding("security.exposure.open_channels_with_exec", CRITICAL, message, "channels"))
    return found


def _secrets(home: Home) -> list[Finding]:
    plain = [path for path, value in _leaves(home.config.authored) if _is_secret(path[-1]) and "$" not in value]
    if not plain:
        return []
    names = ", ".join(".".join(path) for path in plain[:5]) + (" …" if len(plain) > 5 else "")
    cure = "write ${NAME} and keep the value in the environment, a file or a keyring"
    return [Finding("config.secrets.plain_text", INFO, f"{len(plain)} secrets stand in the file: {names}", cure=cure)]


def _is_secret(name: str) -> bool:
    return name.lower().replace("_", "").endswith(_SECRET_NAMES)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, str) and value and path:
        yield path, value


def _skills(home: Home) -> list[Finding]:
    found = []
    folders = [each / "skills" for each in all_workspaces(home.config, home.env)]
    for folder in (*folders, home.config.paths.state_dir / "skills"):
        for path in sorted(folder.glob("*/SKILL.md")) if folder.is_dir() else ():
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                message = "leads out of the folder of skills"
                found.append(Finding("skills.workspace.symlink_escape", WARN, message, str(path)))
                continue
            text = path.read_bytes()[:_MAX_SKILL].decode("utf-8", "replace")
            for each in scan(text):
                message = f"line {each.line}: {each.excerpt}"
                found.append(Finding(f"skills.code_safety.{each.rule}", WARN, message, str(path), "read it before use"))
    return found


def _summary(home: Home) -> list[Finding]:
    channels = home.config.document.get("channels")
    named = sorted(channels) if isinstance(channels, dict) else []
    hooks = "on" if _get(home, "hooks.enabled") else "off"
    bind = _get(home, "gateway.bind") or "loopback"
    message = f"gateway on {bind}, {len(home.config.agents)} agents, channels: {', '.join(named) or 'none'}, web hooks {hooks}"
    return [Finding("summary.attack_surface", INFO, message)]
