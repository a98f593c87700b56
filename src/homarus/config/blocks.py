"""Which package owns which block, as a table of names, and the validation that follows from it.

Nothing is imported before it is asked for. The owner of a block adds its line here and keeps the defaults in its class.
A path below `agents.defaults` is checked for the defaults and, merged, for every agent; a `*` stands for every key. Where
two packages read one object, each has its line, told apart by a word after `#`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from typing import Any

import msgspec

from homarus.config.keypath import KeyPath, format_path, lookup
from homarus.config.redact import MARKER
from homarus.config.report import Problem
from homarus.config.view import Config

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
    "agents.defaults.subagents": "homarus.agent.subagents:SubagentSettings",
    "session": "homarus.sessions.settings:SessionSettings",
    "commands": "homarus.agent.commands.settings:CommandSettings",
    "messages.queue": "homarus.queue.settings:QueueSettings",
    "agents.defaults.compaction": "homarus.context.settings:CompactionSettings",
    "agents.defaults.contextPruning": "homarus.context.settings:PruningSettings",
    "tools.loopDetection": "homarus.tools.loopguard:LoopSettings",
    "tools": "homarus.tools.policy:PolicySettings",
    "tools.exec": "homarus.tools.exec_settings:ExecSettings",
    "tools.exec#processes": "homarus.tools.processes:ProcessSettings",
    "tools.fs": "homarus.tools.paths:FsSettings",
    "tools.web": "homarus.tools.settings:WebSettings",
    "tools.elevated": "homarus.tools.exec_settings:ElevatedSettings",
    "tools.sessions": "homarus.gateway.offers.visible:VisibilitySettings",
    "tools.agentToAgent": "homarus.gateway.offers.visible:PeerSettings",
    "messages.inbound": "homarus.queue.settings:InboundSettings",
    "agents.defaults.memorySearch": "homarus.memory.settings:MemorySettings",
}

_DEFAULTS = ("agents", "defaults")


# What holds blocks, or is read by hand, and must have this shape for anything below it to count.
_SHAPES: dict[str, tuple[type, str]] = {
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
    known: dict[KeyPath, set[str]] = {}
    for name in BLOCKS:
        into, steps = load_block(name), path_of(name)
        for path in _instances(config.document, steps):
            value = lookup(config.document, path)
            if value is not None:
                config.convert_block(value, into, path)
                known.setdefault(path, set()).update(field.encode_name for field in msgspec.structs.fields(into))
        if steps[: len(_DEFAULTS)] == _DEFAULTS:
            for agent in config.agents:
                agent.block(format_path(steps[len(_DEFAULTS) :]), into)
    for path, keys in known.items():
        _misspelt(config, path, keys)
    for name, (kind, words) in _SHAPES.items():
        value = lookup(config.raw, tuple(name.split(".")))
        if value is not None and not isinstance(value, kind):
            config.report("error", tuple(name.split(".")), f"must be {words}", "nothing in it counts until then")
    for source in config.source.all() if config.source else ():
        for line, key in source.written_twice():
            cure = "keep one of them; the last one counts"
            config.record(Problem("warning", str(source.path), line, key, "is written twice", cure))
    for path in _markers(config.document, ()):
        config.report("error", path, "holds the marker that stands for a hidden secret", "write the real value here")
    return config.problems


def _instances(document: Any, steps: KeyPath, at: KeyPath = ()) -> Iterator[KeyPath]:
    if not steps:
        yield at
    elif steps[0] == "*":
        table = lookup(document, at)
        for name in table if isinstance(table, dict) else ():
            yield from _instances(document, steps[1:], (*at, name))
    else:
        yield from _instances(document, steps[1:], (*at, steps[0]))


def _misspelt(config: Config, path: KeyPath, known: set[str]) -> None:
    # Unknown keys are somebody else's and stay unmentioned, unless one is nearly a key of ours.
    value = lookup(config.document, path)
    if not isinstance(value, dict):
        return
    for key in value.keys() - known:
        near = difflib.get_close_matches(key, known - value.keys(), n=1, cutoff=0.85)
        if near:
            config.report("warning", (*path, key), "is no key that is used here", f"did you mean '{near[0]}'?")


def _markers(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _markers(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _markers(inner, (*path, index))
    elif value == MARKER:
        yield path
