"""What agents may do, and who can make them do it: tools, sandbox, channels, plugins, models, and where these meet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from homarus.admin.doctor.finding import Finding, Home, Severity
from homarus.config.view import AgentConfig
from homarus.config.write import Operation, change
from homarus.core.patterns import late
from homarus.plugins.manifest import PluginSettings
from homarus.tools.exec_settings import ExecSettings

CRITICAL, WARN, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_DANGEROUS_MOUNTS = ("/", "/etc", "/root", "/home", "/proc", "/sys", "/dev", "/var/run/docker.sock", "/run/docker.sock")
MANY = 25  # people that nobody keeps in mind
_FILES = frozenset({"write", "edit", "apply_patch", "group:fs"})
_RUNTIME = frozenset({"exec", "process", "group:runtime"})
_CONTROL = frozenset({"gateway", "cron", "group:automation"})
_SMALL = late(r"(?<![\d.])(\d{1,3}(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)
_OLD = late(
    r"gpt-3\.5|gpt-4(?:$|-0|-1106|-turbo|-32k)|claude-(?:1|2|instant)|claude-3-(?:haiku|sonnet|opus)|gemini-1|text-davinci"
)
_WEAK = late(r"(?:^|[-/])(?:nano|mini|lite|tiny|haiku|flash-lite)(?:[-/.:]|$)")
SMALL_BILLIONS = 30.0


def _agent_settings(home: Home, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a setting of everyone and of each agent that has its own, with where it stands."""
    yield path, home.config.get(path)
    for agent in home.config.agents:
        own: Any = agent.entry
        for step in path.split("."):
            own = own.get(step) if isinstance(own, dict) else None
        if own is not None:
            yield f"agents.entries.{agent.id}.{path}", own


def _closing(home: Home, path: tuple[str, ...], value: Any) -> Callable[[], str]:
    def mend() -> str:
        change(home.config, home.env, [Operation("set", path, value)])
        return f"set {'.'.join(path)} to {value!r}"

    return mend


def _listed(rules: Any, key: str) -> frozenset[str]:
    found = rules.get(key) if isinstance(rules, dict) else None
    return frozenset(str(each).lower() for each in found) if isinstance(found, list) else frozenset()


def _tools(home: Home) -> list[Finding]:
    found = []
    for where, rules in _agent_settings(home, "tools.exec"):
        if home.config.convert_block(rules, ExecSettings, tuple(where.split("."))).effective == "full":
            message = "commands run on this machine outside of a sandbox, and nobody is asked"
            found.append(
                Finding("tools.exec.security_full_configured", CRITICAL, message, where, "set its mode to 'ask'")
            )
    for where, rules in _agent_settings(home, "tools"):
        denied = _listed(rules, "deny")
        if denied & _FILES and not denied & (_RUNTIME | {"*"}):
            message = "file tools are denied and commands are not: a command can write just as well"
            cure = "deny exec too, or set sandbox.workspaceAccess to 'ro'"
            found.append(Finding("tools.exec.fs_tools_disabled_but_exec_enabled", WARN, message, f"{where}.deny", cure))
        if where != "tools" and home.config.get("tools.profile") == "minimal":
            own = rules.get("profile") if isinstance(rules, dict) else None
            if own not in (None, "", "minimal"):
                message = f"'{own}' goes beyond the profile 'minimal' of everybody else"
                found.append(Finding("tools.profile_minimal_overridden", WARN, message, f"{where}.profile"))
    for where, given in _agent_settings(home, "tools.elevated.allowFrom"):
        for channel, senders in given.items() if isinstance(given, dict) else ():
            check, listed = f"tools.elevated.allowFrom.{channel}", senders if isinstance(senders, list) else [senders]
            if senders is True or "*" in listed:
                message = "everybody there may run commands outside of the sandbox"
                found.append(Finding(f"{check}.wildcard", CRITICAL, message, f"{where}.{channel}", "name people"))
            elif len(listed) > MANY:
                message = f"{len(listed)} people there may run commands outside of the sandbox"
                found.append(Finding(f"{check}.large", WARN, message, f"{where}.{channel}", "name few people"))
    return found


def _sandbox(home: Home) -> list[Finding]:
    found = []
    for agent in home.config.agents:
        where = f"agents.entries.{agent.id}.sandbox"
        if _unboxed(agent):
            message = "commands of this agent see all files of this user"
            found.append(Finding("sandbox.mode_off", WARN, message, f"{where}.mode", "use 'all'"))
            if agent.get("sandbox.docker"):
                message = "a container is described and never used"
                found.append(Finding("sandbox.docker_config_mode_off", WARN, message, f"{where}.docker"))
        for key in ("binds", "docker.binds"):
            found += _binds(agent.get(f"sandbox.{key}"), f"{where}.{key}")
        network = str(agent.get("sandbox.docker.network") or "")
        if network == "host" or network.startswith("container:"):
            message = f"'{network}' gives the sandbox somebody else's network"
            found.append(Finding("sandbox.dangerous_network_mode", CRITICAL, message, f"{where}.docker.network"))
        for name in ("seccomp", "apparmor"):
            if str(agent.get(f"sandbox.docker.{name}Profile") or "").lower() == "unconfined":
                message = f"takes the container's {name} rules away"
                key = f"{where}.docker.{name}Profile"
                found.append(Finding(f"sandbox.dangerous_{name}_profile", CRITICAL, message, key, "remove it"))
    return found


def _binds(binds: Any, where: str) -> list[Finding]:
    found = []
    for bind in binds if isinstance(binds, list) else ():
        source = str(bind).partition(":")[0]
        if not source.startswith(("/", "~")):
            message = f"'{source}' depends on where the program was started"
            found.append(Finding("sandbox.bind_mount_non_absolute", WARN, message, where, "write the whole path"))
        elif os.path.normpath(source) in _DANGEROUS_MOUNTS:
            message = f"shows {os.path.normpath(source)} to commands in the sandbox"
            found.append(Finding("sandbox.dangerous_bind_mount", CRITICAL, message, where))
    return found


def _unboxed(agent: AgentConfig) -> bool:
    return bool(agent.get("sandbox.mode") == "off")


# Channels: who can write to an agent.


def _accounts(home: Home) -> Iterator[tuple[str, tuple[str, ...], Mapping[str, Any]]]:
    """Yield every channel and every account of one that is on, with the place where its rules stand."""
    channels = home.config.document.get("channels")
    for name, rules in channels.items() if isinstance(channels, dict) else ():
        if not isinstance(rules, dict) or rules.get("enabled") is False or name == "defaults":
            continue
        yield name, ("channels", name), rules
        accounts = rules.get("accounts")
        for account, own in accounts.items() if isinstance(accounts, dict) else ():
            if isinstance(own, dict) and own.get("enabled") is not False:
                yield name, ("channels", name, "accounts", account), own


def _allowed(rules: Mapping[str, Any]) -> list[Any]:
    dm = rules.get("dm") if isinstance(rules.get("dm"), dict) else {}
    found = rules.get("allowFrom") or (dm or {}).get("allowFrom")
    return found if isinstance(found, list) else []


def _policy(rules: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where a policy for private messages says `open`; empty where none does."""
    dm = rules.get("dm")
    if rules.get("dmPolicy") == "open":
        return ("dmPolicy",)
    return ("dm", "policy") if isinstance(dm, dict) and dm.get("policy") == "open" else ()


def _channels(home: Home) -> list[Finding]:
    found = []
    for name, place, rules in _accounts(home):
        where, senders = ".".join(place), _allowed(rules)
        key = _policy(rules)
        if (key and "*" in senders) or (key and not senders) or senders == ["*"]:
            message = "everybody who writes there talks to your agent"
            fix = _closing(home, (*place, *(key or ("dmPolicy",))), "pairing")
            found.append(Finding(f"channels.{name}.dm.open", CRITICAL, message, where, "use 'pairing'", fix))
        if key and "*" not in senders:
            message = "'open' without '*' in allowFrom: say which of both is meant"
            found.append(Finding(f"channels.{name}.dm.open_invalid", WARN, message, where, "use 'allowlist'"))
        if rules.get("groupPolicy") == "open":
            message = "everybody in every group can wake your agent"
            fix = _closing(home, (*place, "groupPolicy"), "allowlist")
            found.append(Finding(f"channels.{name}.groups.open", WARN, message, where, fix=fix))
        if len([each for each in senders if each != "*"]) > 1 and home.config.get("session.dmScope") == "main":
            message = "several people share one conversation, and each hears of what the others said"
            fix = _closing(home, ("session", "dmScope"), "per-channel-peer")
            check = f"channels.{name}.dm.scope_main_multiuser"
            found.append(Finding(check, WARN, message, "session.dmScope", "use 'per-channel-peer'", fix))
        if rules.get("dangerouslyAllowNameMatching") is True:
            message = "people are known by names that they can change"
            check = f"channels.{name}.allowFrom.dangerous_name_matching_enabled"
            fix = _closing(home, (*place, "dangerouslyAllowNameMatching"), False)
            found.append(Finding(check, INFO, message, where, "list ids instead", fix))
    return found


def _open(home: Home) -> list[str]:
    """Return the channels in which strangers reach an agent."""
    found = []
    for _, place, rules in _accounts(home):
        if (
            rules.get("groupPolicy") == "open"
            or (_policy(rules) and "*" in _allowed(rules))
            or _allowed(rules) == ["*"]
        ):
            found.append(".".join(place))
    return found


def _exposure(home: Home) -> list[Finding]:
    """Where strangers meet tools: each by itself may be meant, together they are a way in."""
    reached = _open(home)
    found: list[Finding] = []
    if reached:
        names = ", ".join(reached[:5])
        denied = _listed(home.config.get("tools"), "deny")
        if any(_unboxed(agent) for agent in home.config.agents):
            message = f"strangers in {names} can write to an agent whose commands have no sandbox"
            found.append(Finding("security.exposure.open_channels_with_exec", CRITICAL, message, "channels"))
            if not denied & (_RUNTIME | _FILES | {"*"}):
                message = "they reach commands and file tools without a sandbox"
                check = "security.exposure.open_groups_with_runtime_or_fs"
                found.append(Finding(check, CRITICAL, message, "tools.deny", "deny group:runtime and group:fs"))
        if home.config.get("tools.elevated.enabled") is not False and home.config.get("tools.elevated.allowFrom"):
            message = f"commands outside of the sandbox are allowed to some, and {names} is open to all"
            check = "security.exposure.open_groups_with_elevated"
            found.append(Finding(check, CRITICAL, message, "tools.elevated", "turn it off"))
        opened = _listed(home.config.get("tools"), "allow") | _listed(home.config.get("tools"), "alsoAllow")
        if opened & _CONTROL and not denied & (_CONTROL | {"*"}):
            message = f"strangers in {names} can reach tools that change the gateway or make jobs"
            check = "security.exposure.open_groups_with_control_plane_tools"
            found.append(Finding(check, CRITICAL, message, "tools.allow", "deny gateway and cron"))
    people = {str(each) for _, _, rules in _accounts(home) for each in _allowed(rules) if each != "*"}
    if len(people) > 1 and any(_unboxed(agent) for agent in home.config.agents):
        message = f"{len(people)} people write to agents that have the rights of this user"
        cure = "give each trust its own home, or set sandbox.mode to 'all'"
        found.append(Finding("security.trust_model.multi_user_heuristic", WARN, message, "channels", cure))
    return found


# Code and models from elsewhere.


def _plugins(home: Home) -> list[Finding]:
    settings, found = home.config.block("plugins", PluginSettings), []
    running = sorted(name for name, entry in settings.entries.items() if entry.enabled and settings.wants(name))
    if running and settings.allow is None:
        message = f"{', '.join(running[:5])} run, and no list says which plugins may"
        fix = _closing(home, ("plugins", "allow"), running)
        found.append(
            Finding("plugins.extensions_no_allowlist", WARN, message, "plugins.allow", "list those that are yours", fix)
        )
    phantom = sorted(set(settings.allow or ()) - set(settings.entries) - {"*"})
    if phantom:
        message = f"{', '.join(phantom[:5])} may run and is not there: whoever takes the name is let in"
        found.append(Finding("plugins.allow_phantom_entries", WARN, message, "plugins.allow", "take it off the list"))
    return found


def _models(home: Home) -> list[Finding]:
    found = []
    for agent in home.config.agents:
        named = [agent.get("model.primary"), *(agent.get("model.fallbacks") or ())]
        for ref in dict.fromkeys(str(each) for each in named if each):
            where, name = f"agents.entries.{agent.id}.model", ref.lower()
            sizes = [float(each) for each in _SMALL.findall(name)]
            if sizes and max(sizes) < SMALL_BILLIONS:
                severity = CRITICAL if _unboxed(agent) else INFO
                message = f"{ref} is small: it follows instructions in what it reads more easily than others"
                found.append(Finding("models.small_params", severity, message, where, "keep its sandbox on"))
            if _OLD.search(name):
                found.append(Finding("models.legacy", WARN, f"{ref} is of an old family", where, "choose a newer one"))
            elif _WEAK.search(name):
                message = f"{ref} is its family's light model, and easier to talk into things"
                found.append(Finding("models.weak_tier", INFO, message, where))
    return found


AGENT_CHECKS = (_tools, _sandbox, _channels, _exposure, _plugins, _models)
