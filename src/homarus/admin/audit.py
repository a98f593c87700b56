"""What in a home is open to others, or could be: settings, files, skills. Looking changes nothing; a fix takes rights away, never gives them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from homarus.admin.audit_agents import AGENT_CHECKS
from homarus.admin.audit_files import check_files
from homarus.admin.doctor.examine import examine
from homarus.admin.doctor.files import check_state
from homarus.admin.doctor.finding import Finding, Home, Severity
from homarus.config.write import Operation, change
from homarus.core.errors import HomarusError
from homarus.core.patterns import late
from homarus.skills.audit import scan
from homarus.workspace.agents import all_workspaces

CRITICAL, WARN, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
SHORTEST = 24
_SYNCED = ("dropbox", "onedrive", "google drive", "icloud", "mobile documents", "nextcloud", "syncthing")
_ACTING = frozenset({"exec", "bash", "process", "write", "edit", "apply_patch", "gateway", "cron", "sessions_spawn"})
_SECRET_NAMES = ("apikey", "token", "password", "secret")
_MAX_SKILL = 1 << 20
_NAMED_SECRETS = {
    ("gateway", "auth", "password"): "config.secrets.gateway_password_in_config",
    ("hooks", "token"): "config.secrets.hooks_token_in_config",
}
# What nodes offer only where somebody wrote it down, because it looks at people or acts in their name.
_PRIVATE_COMMANDS = frozenset(
    [
        "camera.snap",
        "camera.clip",
        "camera.ptz.control",
        "desktop.stream",
        "screen.record",
        "contacts.add",
        "calendar.add",
        "reminders.add",
        "health.summary",
        "sms.send",
        "sms.search",
        "computer.act",
        "mobile.ui.act",
        "system.run",
        "system.execApprovals.set",
    ]
)
_COMMAND = late(r"[A-Za-z][\w-]*(?:\.[\w-]+)+")
_DANGEROUS = ("dangerously", "allowInsecure", "allowUnsafe")


def audit(home: Home) -> list[Finding]:
    """Return everything that a person should know, the worst first."""
    checks = (
        check_state,
        check_files,
        _places,
        _gateway,
        _proxy,
        _http,
        _nodes,
        _hooks,
        *AGENT_CHECKS,
        _flags,
        _secrets,
    )
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
        found.append(Finding("fs.state_dir.symlink", WARN, f"is a link to {state.resolve()}", str(state)))
    if home.config.paths.config_path.is_symlink():
        message = f"is a link to {home.config.paths.config_path.resolve()}, which is written through"
        found.append(Finding("fs.config.symlink", WARN, message, str(home.config.paths.config_path)))
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
    if int(_get(home, "gateway.auth.rateLimit.maxAttempts") or 10) > 100:
        message = "lets somebody guess more than 100 times a minute"
        fix = _set(home, "gateway.auth.rateLimit.maxAttempts", 10)
        found.append(Finding("gateway.auth_no_rate_limit", WARN, message, "gateway.auth.rateLimit", "use 10", fix))
    if "operator.admin" in (_get(home, "gateway.auth.secretScopes") or ()):
        message = "whoever has the shared secret may change everything, without a device that you approved"
        found.append(Finding("gateway.secret_is_admin", WARN, message, "gateway.auth.secretScopes", "take it out"))
    return found


def _proxy(home: Home) -> list[Finding]:
    if _get(home, "gateway.auth.mode") != "trusted-proxy":
        return []
    where = "gateway.auth.trustedProxy"
    found = [Finding("gateway.trusted_proxy_auth", WARN, "whoever the proxy names comes in without a secret", where)]
    if not _get(home, "gateway.trustedProxies"):
        message = "no proxy is listed, so that nobody is let in"
        found.append(Finding("gateway.trusted_proxy_no_proxies", CRITICAL, message, "gateway.trustedProxies"))
    if not _get(home, f"{where}.userHeader"):
        message = "no header says who somebody is, so that nobody is let in"
        found.append(Finding("gateway.trusted_proxy_no_user_header", CRITICAL, message, f"{where}.userHeader"))
    if not _get(home, f"{where}.allowUsers"):
        message = "every name that the proxy gives comes in; gateway.auth.identityScopes says what each may do"
        found.append(Finding("gateway.trusted_proxy_no_allowlist", WARN, message, f"{where}.allowUsers"))
    if not _get(home, "gateway.auth.identityScopes"):
        message = "no name that the proxy vouches for has any scope: nobody can do anything"
        found.append(Finding("gateway.trusted_proxy_no_users", WARN, message, "gateway.auth.identityScopes"))
    if _get(home, f"{where}.allowLoopback"):
        message = "any program on this machine can pose as the proxy and name whom it likes"
        fix = _set(home, f"{where}.allowLoopback", False)
        found.append(
            Finding("gateway.trusted_proxy_allow_loopback", WARN, message, f"{where}.allowLoopback", "turn it off", fix)
        )
    return found


def _nodes(home: Home) -> list[Finding]:
    allow = [str(each) for each in _get(home, "gateway.nodes.commands.allow") or ()]
    deny = [str(each) for each in _get(home, "gateway.nodes.commands.deny") or ()]
    found, where = [], "gateway.nodes.commands"
    risky = sorted(each for each in allow if each in _PRIVATE_COMMANDS and each not in deny)
    if risky:
        severity = CRITICAL if _outside(home) else WARN
        message = f"nodes may be asked to offer {', '.join(risky)}"
        found.append(Finding("gateway.nodes.allow_commands_dangerous", severity, message, f"{where}.allow"))
    vague = [each for each in deny if not _COMMAND.fullmatch(each)]
    if vague:
        message = f"{', '.join(vague[:5])}: only whole names of commands count, so that these stop nothing"
        found.append(Finding("gateway.nodes.deny_commands_ineffective", WARN, message, f"{where}.deny"))
    return found


def _flags(home: Home) -> list[Finding]:
    """Find switches whose own name says that they are dangerous, wherever they stand."""
    return [
        Finding("config.insecure_or_dangerous_flags", WARN, f"{path[-1]} is on", ".".join(path), "turn it off")
        for path in _switches(home.config.authored)
        if path[-1].startswith(_DANGEROUS) and path[-1] != "dangerouslyAllowNameMatching"
    ]


def _switches(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _switches(inner, (*path, str(key)))
    elif value is True and path:
        yield path


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
    if _get(home, "hooks.allowRequestSessionKey"):
        where = "hooks.allowRequestSessionKey"
        if _get(home, "hooks.allowedSessionKeyPrefixes"):
            message = "callers may name sessions, those that the list of prefixes covers"
            found.append(Finding("hooks.request_session_key_enabled", WARN, message, where))
        else:
            message, fix = "callers may name sessions, and no list says which", _set(home, where, False)
            severity = CRITICAL if _outside(home) else WARN
            found.append(Finding("hooks.request_session_key_prefixes_missing", severity, message, where, fix=fix))
    if str(_get(home, "hooks.path") or "/hooks").strip("/") == "":
        found.append(Finding("hooks.path_root", CRITICAL, "would take every address", "hooks.path", "use /hooks"))
    return found


def _secrets(home: Home) -> list[Finding]:
    plain = [path for path, value in _leaves(home.config.authored) if _is_secret(path[-1]) and "$" not in value]
    cure = "write ${NAME} and keep the value in the environment, a file or a keyring"
    found = []
    for path, check in _NAMED_SECRETS.items():
        if path in plain:
            found.append(Finding(check, WARN, "stands in the file as it is", ".".join(path), cure))
    rest = [path for path in plain if path not in _NAMED_SECRETS]
    if rest:
        names = ", ".join(".".join(path) for path in rest[:5]) + (" …" if len(rest) > 5 else "")
        message = f"{len(rest)} secrets stand in the file: {names}"
        found.append(Finding("config.secrets.plain_text", INFO, message, cure=cure))
    return found


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
