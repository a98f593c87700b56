"""Which package owns which block, as a table of names; the validation and the JSON Schema that follow from it.

Nothing is imported before it is asked for. The owner of a block adds its line here and keeps the defaults in its class.
A path below `agents.defaults` is checked for the defaults and, merged, for every agent; a `*` stands for every key. Where
two packages read one object, each has its line, told apart by a word after `#`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from homarus.config.keypath import KeyPath, format_path, lookup, parse_path
from homarus.config.report import Problem, Severity
from homarus.config.view import Config
from homarus.core.errors import HomarusError

if TYPE_CHECKING:
    from homarus.config.known import Finding

_CHATS = ("channels", "direct", "dms", "groups")
BLOCKS: dict[str, str] = {
    "env": "homarus.config.settings:EnvSettings",
    "secrets": "homarus.config.settings:SecretsSettings",
    "mcp": "homarus.plugins.mcp.settings:McpSettings",
    "plugins": "homarus.plugins.manifest:PluginSettings",
    "gateway": "homarus.gateway.settings:GatewaySettings",
    "logging": "homarus.gateway.settings:LogSettings",
    "diagnostics": "homarus.gateway.telemetry:DiagnosticsSettings",
    "hooks.internal": "homarus.hooks.load:HookSettings",
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
    "tools.exec": "homarus.tools.exec_settings:ExecSettings",
    "tools.exec#processes": "homarus.tools.processes:ProcessSettings",
    "tools.exec#patch": "homarus.tools.policy:PatchSwitch",
    "tools.fs": "homarus.tools.paths:FsSettings",
    "tools.web": "homarus.tools.web:WebSettings",
    "tools.media": "homarus.channels.transcribe:MediaSettings",
    "tools.elevated": "homarus.tools.exec_settings:ElevatedSettings",
    "tools.sessions": "homarus.runtime.tool_backends.visibility:VisibilitySettings",
    "tools.agentToAgent": "homarus.runtime.tool_backends.visibility:PeerSettings",
    "messages.inbound": "homarus.queue.settings:InboundSettings",
    "agents.defaults.memorySearch": "homarus.memory.settings:MemorySettings",
    "agents.defaults.heartbeat": "homarus.automation.settings:HeartbeatSettings",
    "cron": "homarus.automation.settings:CronSettings",
    "memory": "homarus.memory.settings:CitationSettings",
    "memory.reflect": "homarus.automation.settings:ChoreSettings",
    "memory.dreaming": "homarus.memory.bank.dream:Gates",
    "hooks": "homarus.automation.webhooks:HookSettings",
    "agents.defaults#speech": "homarus.runtime.chat_settings:SpeechSettings",
    "agents.defaults#delivery": "homarus.delivery.settings:DeliverySettings",
    "messages": "homarus.runtime.chat_settings:MessagesSettings",
    "session.sendPolicy": "homarus.runtime.chat_settings:SendPolicy",
    "tools.message": "homarus.runtime.tool_backends.message:MessageSettings",
    "channels.*#speech": "homarus.runtime.chat_settings:ChatSettings",
    "channels.*.accounts.*#speech": "homarus.runtime.chat_settings:ChatSettings",
    "channels.defaults": "homarus.channels.settings:ChannelDefaults",
    "channels.*": "homarus.channels.settings:ChannelSettings",
    "channels.*.accounts.*": "homarus.channels.settings:ChannelSettings",
    "accessGroups.*": "homarus.channels.settings:AccessGroup",
    **{
        f"channels.*{account}{chat}": "homarus.tools.policy:Rules"
        for account in ("", ".accounts.*")
        for chat in (".tools", *(f".{kind}.*.{key}" for kind in _CHATS for key in ("tools", "toolsBySender.*")))
    },
}

_DEFAULTS = ("agents", "defaults")
# What stands in a table of things that people name, and is none of them.
_NO_NAMES = frozenset({("channels", "defaults"), ("channels", "modelByChannel")})
# Keys and checks that come from data which only their package reads, such as the manifests of chat platforms.
MORE_KEYS = {"channels": "homarus.channels.settings:more_keys"}
CHECKS = {
    "agents#places": "homarus.admin.places:check",
    "channels": "homarus.channels.settings:check",
    "models": "homarus.models.catalog:check",
    "agents": "homarus.models.named:check",
    "agents#targets": "homarus.channels.settings:check_targets",
    "plugins": "homarus.admin.named:check_plugins",
    "skills": "homarus.admin.named:check_skills",
    "hooks": "homarus.admin.named:check_hooks",
    "bindings": "homarus.sessions.routing:check",
    "broadcast": "homarus.sessions.routing:check",
}

# Rules that name what only their package knows. It yields each name that nothing has, by its path, with what it is and
# what was nearly meant: then nothing runs, because the rule would be about nothing.
NAMES = {
    "tools.byProvider": "homarus.models.catalog:unknown_providers",
    "session.sendPolicy.rules": "homarus.channels.settings:unknown_channels",
    "bindings": "homarus.channels.settings:unknown_channels",
}


# What holds blocks, or is read by hand, and must have this shape for anything below it to count.
SHAPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    **{
        ".".join(path.split(".")[:size]): (dict, "an object")
        for path in BLOCKS
        for size in range(1, path.count(".") + 1)
    },
    # On IRC these are the rooms to join, and no rules for them.
    **dict.fromkeys(("channels.*.channels", "channels.*.accounts.*.channels"), ((dict, list), "an object or a list")),
    **dict.fromkeys(("channels", "cron", "gateway", "logging", "memory", "plugins", "secrets"), (dict, "an object")),
    "agents.list": (list, "a list"),
    "agents.entries": (dict, "an object"),
    "bindings": (list, "a list"),
}


def load_block(name: str) -> Any:
    return load_named(BLOCKS[name])


def load_named(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def path_of(name: str) -> KeyPath:
    return tuple(name.partition("#")[0].split("."))


def validate(config: Config) -> list[Problem]:
    """Check every block and return all problems of the configuration; start, `config validate` and `doctor` call this."""
    from homarus.config.known import known_tree, without_effect

    for name in BLOCKS:
        into, steps = load_block(name), path_of(name)
        for path in instances(config.document, steps):
            value = lookup(config.document, path)
            if value is not None:
                _check(config, value, into, path)
        if steps[: len(_DEFAULTS)] == _DEFAULTS or steps[0] == "tools":
            own = steps[len(_DEFAULTS) :] if steps[0] != "tools" else steps
            for agent in config.agents:
                if (value := agent.get(format_path(own))) is not None:
                    _check(config, value, into, ("agents", "entries", agent.id, *own))
    for place in dict.fromkeys(place for name, place in CHECKS.items() if config.document.get(str(path_of(name)[0]))):
        load_named(place)(config)
    for found in without_effect(config.document, known_tree()):
        _name(config, found)
    from homarus.config.redact import MARKER

    for path in _markers(config.document, (), MARKER):
        config.report("error", path, "holds the marker that stands for a hidden secret", "write the real value here")
    return config.problems


def _check(config: Config, value: Any, into: type[Any], path: KeyPath) -> None:
    made: object = config.convert_block(value, into, path)
    # What fits its type and still means nothing; only the class of the block can know.
    for below, message in getattr(made, "warnings", ()):
        config.report("warning", (*path, *below), message, "check the spelling; the others count")


def instances(document: Any, steps: KeyPath, at: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths that a pattern with `*` in it stands for in this document."""
    if not steps:
        yield at
    elif steps[0] == "*":
        table = lookup(document, at)
        for name in table if isinstance(table, dict) else ():
            if (*at, name) not in _NO_NAMES:
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


# The JSON Schema. Unknown keys are allowed everywhere.

Node = dict[str, Any]


def build_schema(path: str = "") -> Node:
    """Return the schema of the whole file, or of the part at a path. Raises HomarusError where nothing is known."""
    names = list(BLOCKS)
    parts, definitions = msgspec.json.schema_components(
        [load_block(name) for name in names], ref_template="#/$defs/{name}"
    )
    root: Node = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "openclaw.json",
        "type": "object",
        "properties": {"$schema": {"type": "string"}, "$include": {"type": ["string", "array"]}},
    }
    for name, part in sorted(zip(names, parts, strict=True), key=lambda item: item[0].count(".")):
        steps = [str(step) for step in path_of(name)]
        _graft(root, steps, part)
        if steps[:2] == [*_DEFAULTS]:
            _graft(root, ["agents", "entries", "*", *steps[2:]], part)
    for place, below in described().items():
        for node in _nodes(root, place.split("."), definitions):
            for key, text in below.items():
                if key in node.get("properties", {}):
                    node["properties"][key].setdefault("description", text)
    here = root
    for step in parse_path(path):
        here = _step(here, str(step), definitions, path)
    if path and ("$ref" in here or "allOf" in here):
        here = _opened(here, definitions)
    needed = {name: definitions[name] for name in sorted(_references(here, definitions, set()))}
    return {**here, "$defs": needed} if needed else here


def described() -> dict[str, dict[str, str]]:
    """Return what keys are for, in a sentence, by the object they stand in."""
    return msgspec.json.decode(
        Path(__file__).with_name("descriptions.json").read_bytes(), type=dict[str, dict[str, str]]
    )


def _nodes(here: Node, steps: Sequence[str], definitions: Node) -> Iterator[Node]:
    """Yield every part of a schema that says something about the object at a path; `*` is any name and any item."""
    referred = definitions.get(str(here.get("$ref", "")).rpartition("/")[2])
    for part in [*([referred] if referred else []), *here.get("allOf", []), *here.get("anyOf", [])]:
        yield from _nodes(part, steps, definitions)
    if not steps:
        yield here
        return
    inner = here.get("properties", {}).get(steps[0])
    if steps[0] == "*":
        inner = here.get("additionalProperties", here.get("items"))
    if isinstance(inner, dict):
        yield from _nodes(inner, steps[1:], definitions)


def _step(here: Node, step: str, definitions: Node, path: str) -> Node:
    opened = _opened(here, definitions)
    inner = opened.get("properties", {}).get(step, opened.get("additionalProperties", opened.get("items")))
    if not isinstance(inner, dict):
        known = ", ".join(sorted(opened.get("properties", {}))) or "nothing"
        raise HomarusError(f"no schema is known for '{path}'", cure=f"known at that level: {known}")
    return inner


def _graft(root: Node, steps: list[str], part: Node) -> None:
    here = root
    for step in steps[:-1]:
        here = _below(here, step)
    target = here.setdefault("properties", {}) if steps[-1] != "*" else here
    key = steps[-1] if steps[-1] != "*" else "additionalProperties"
    old = target.get(key)
    if isinstance(old, dict):
        # Several owners of one object: all count.
        others = old["allOf"] if list(old) == ["allOf"] else [old]
        target[key] = {"allOf": [part, *others]}
    else:
        target[key] = dict(part)


def _below(here: Node, step: str) -> Node:
    table, key = (here.setdefault("properties", {}), step) if step != "*" else (here, "additionalProperties")
    inner = table.get(key)
    if not isinstance(inner, dict):
        inner = table[key] = {"type": "object"}
    elif "$ref" in inner:
        inner = table[key] = {"type": "object", "allOf": [inner]}
    assert isinstance(inner, dict)
    return inner


def _opened(node: Node, definitions: Node) -> Node:
    """Return a node with what its references say written out, one level deep."""
    merged: Node = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
    for part in [*([node] if "$ref" in node else []), *node.get("allOf", []), *node.get("anyOf", [])]:
        target = definitions.get(str(part.get("$ref", "")).rpartition("/")[2], part if part is not node else {})
        merged = {**target, **merged, "properties": {**target.get("properties", {}), **merged.get("properties", {})}}
    if not merged.get("properties"):
        merged.pop("properties", None)
    return merged


def _references(value: Any, definitions: Node, found: set[str]) -> set[str]:
    if isinstance(value, list):
        for inner in value:
            _references(inner, definitions, found)
    elif isinstance(value, dict):
        name = str(value.get("$ref", "")).rpartition("/")[2]
        if name in definitions and name not in found:
            found.add(name)
            _references(definitions[name], definitions, found)
        for inner in value.values():
            _references(inner, definitions, found)
    return found
