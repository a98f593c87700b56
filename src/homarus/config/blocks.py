"""Which package owns which block, as a table of names, and the validation that follows from it.

Nothing is imported before it is asked for. The owner of a block adds its line here and keeps the defaults in its class.
A path below `agents.defaults` is checked for the defaults and, merged, for every agent; a `*` stands for every key. Where
two packages read one object, each has its line, told apart by a word after `#`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from homarus.config.keypath import KeyPath, format_path, lookup
from homarus.config.report import Problem, Severity
from homarus.config.view import Config

if TYPE_CHECKING:
    from homarus.config.known import Finding

_CHATS = ("channels", "direct", "dms", "groups")
BLOCKS: dict[str, str] = {
    "env": "homarus.config.settings:EnvSettings",
    "secrets": "homarus.config.settings:SecretsSettings",
    "hooks.internal": "homarus.hooks.settings:HookSettings",
    "agents.defaults": "homarus.workspace.settings:WorkspaceSettings",
    "agents.defaults#turns": "homarus.agent.settings:TurnSettings",
    "agents.defaults#models": "homarus.models.settings:AgentModelSettings",
    "models": "homarus.models.settings:ModelsSettings",
    "auth": "homarus.models.settings:AuthSettings",
    "agents.defaults.model": "homarus.models.settings:ModelChoice",
    "agents.defaults.imageModel": "homarus.models.settings:ModelChoice",
    "agents.defaults.modelPolicy": "homarus.models.settings:ModelPolicy",
    "agents.defaults.models.*": "homarus.models.settings:ModelEntry",
    "skills": "homarus.skills.settings:SkillSettings",
    "agents.defaults.sandbox": "homarus.sandbox.settings:SandboxSettings",
    "agents.defaults.subagents": "homarus.subagents.child:SubagentSettings",
    "session": "homarus.sessions.settings:SessionSettings",
    "commands": "homarus.commands.settings:CommandSettings",
    "messages.queue": "homarus.queue.settings:QueueSettings",
    "agents.defaults.compaction": "homarus.context.settings:CompactionSettings",
    "agents.defaults.contextPruning": "homarus.context.settings:PruningSettings",
    "tools.loopDetection": "homarus.tools.loopguard:LoopSettings",
    "tools": "homarus.tools.policy:PolicySettings",
    "tools.exec": "homarus.tools.gate:ExecSettings",
    "tools.exec#processes": "homarus.tools.processes:ProcessSettings",
    "tools.exec#patch": "homarus.tools.settings:PatchSwitch",
    "tools.fs": "homarus.tools.paths:FsSettings",
    "tools.web": "homarus.tools.settings:WebSettings",
    "tools.elevated": "homarus.tools.wish:ElevatedSettings",
    "tools.sessions": "homarus.runtime.tool_backends.visibility:VisibilitySettings",
    "tools.agentToAgent": "homarus.runtime.tool_backends.visibility:PeerSettings",
    "messages.inbound": "homarus.queue.settings:InboundSettings",
    "agents.defaults.memorySearch": "homarus.memory.settings:MemorySettings",
    "agents.defaults.heartbeat": "homarus.config.settings:HeartbeatSettings",
    **{
        f"channels.*{account}{chat}": "homarus.tools.policy:Rules"
        for account in ("", ".accounts.*")
        for chat in (".tools", *(f".{kind}.*.{key}" for kind in _CHATS for key in ("tools", "toolsBySender.*")))
    },
}

_DEFAULTS = ("agents", "defaults")


# What holds blocks, or is read by hand, and must have this shape for anything below it to count.
SHAPES: dict[str, tuple[type, str]] = {
    **{
        ".".join(path.split(".")[:size]): (dict, "an object")
        for path in BLOCKS
        for size in range(1, path.count(".") + 1)
    },
    **dict.fromkeys(("channels", "cron", "gateway", "logging", "memory", "plugins"), (dict, "an object")),
    "agents.list": (list, "a list"),
    "agents.entries": (dict, "an object"),
    "bindings": (list, "a list"),
}


def load_block(name: str) -> Any:
    """Import and return the settings class of a line of the table."""
    module, _, attribute = BLOCKS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def path_of(name: str) -> KeyPath:
    """Return the path that a line of the table is about."""
    return tuple(name.partition("#")[0].split("."))


def validate(config: Config) -> list[Problem]:
    """Check every block and return all problems of the configuration; start, `config validate` and `doctor` call this."""
    from homarus.config.known import known_tree, without_effect

    for name in BLOCKS:
        into, steps = load_block(name), path_of(name)
        for path in instances(config.document, steps):
            value = lookup(config.document, path)
            if value is not None:
                config.convert_block(value, into, path)
        if steps[: len(_DEFAULTS)] == _DEFAULTS:
            for agent in config.agents:
                agent.block(format_path(steps[len(_DEFAULTS) :]), into)
    for found in without_effect(config.document, known_tree()):
        _name(config, found)
    for source in config.source.all() if config.source else ():
        for line, key in source.written_twice():
            cure = "keep one of them; the last one counts"
            config.record(Problem("warning", str(source.path), line, key, "is written twice", cure))
    from homarus.config.redact import MARKER

    for path in _markers(config.document, (), MARKER):
        config.report("error", path, "holds the marker that stands for a hidden secret", "write the real value here")
    return config.problems


def instances(document: Any, steps: KeyPath, at: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths that a pattern with `*` in it stands for in this document."""
    if not steps:
        yield at
    elif steps[0] == "*":
        table = lookup(document, at)
        for name in table if isinstance(table, dict) else ():
            yield from instances(document, steps[1:], (*at, name))
    else:
        yield from instances(document, steps[1:], (*at, steps[0]))


def _name(config: Config, found: Finding) -> None:
    from homarus.config.restrict import restricts

    written = config.written(found.path)
    if lookup(config.raw, written) is None and found.path not in config.origins:
        return  # not of this file: a variable of the environment put it there
    if config.is_told(found.path):
        return
    if found.near:
        config.report("warning", found.path, "is no key that is known here", f"did you mean '{found.near}'?")
    elif found.reason:
        severity: Severity = "warning" if restricts(found.path) else "info"
        config.report(severity, found.path, f"has no effect here: {found.reason}", "it is kept as it is")
    else:
        config.report("warning", found.path, "is no key that is known here and has no effect", "it is kept as it is")


def _markers(value: Any, path: KeyPath, marker: str) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _markers(inner, (*path, key), marker)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _markers(inner, (*path, index), marker)
    elif value == marker:
        yield path
