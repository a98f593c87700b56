"""Which settings restrict what may happen, and the slips in them that must stop the program. Pure.

A restriction that cannot be read must never turn into "no restriction". Inside a block its class sees to that
(`disabled()`); here is what a class cannot see: a value in the way of a whole block, a mistyped name, and a bad value in
a block for which no strictest reading exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from homarus.config.blocks import BLOCKS, NAMES, SHAPES, instances, load_block, load_named, path_of
from homarus.config.convert import convert, fails_closed
from homarus.config.keypath import KeyPath, lookup
from homarus.config.known import HELD, TOP, Node, belongs, known_tree, near, without_effect
from homarus.config.report import Severity
from homarus.config.view import Config

Fault = tuple[Severity, KeyPath, str, str]

# A key restricts if one of these stands in its path.
_WORDS = frozenset(
    {
        *(
            "tools",
            "sandbox",
            "approvals",
            "commands",
            "elevated",
            "subagents",
            "agentToAgent",
            "modelPolicy",
            "budget",
        ),
        *("allow", "alsoAllow", "deny", "allowlist", "allowBundled", "allowFrom", "groupAllowFrom", "ownerAllowFrom"),
        *("dmPolicy", "groupPolicy", "sendPolicy", "enabled", "dmScope", "actions", "activeHours", "trustedDirs"),
        *("secretScopes", "rateLimit", "trustedProxy", "allowedAgentIds", "allowedSessionKeyPrefixes"),
    }
)
# Whole parts that hold rules, and tables of such parts: an agent, a channel, a skill, a hook.
_TABLES = {
    ("agents", "list"),
    ("agents", "entries"),
    ("channels",),
    ("skills", "entries"),
    ("hooks", "internal", "entries"),
    ("secrets", "providers"),
}
# Blocks in which a mistyped key is an error, with all that lies below them. Those whose class has a `disabled()` are
# here, and those that hold little else than rules.
RESTRICTIVE = (
    "accessGroups",
    "tools",
    "commands",
    "skills",
    "hooks.internal",
    "mcp",
    "plugins",
    "agents.defaults.sandbox",
    "agents.defaults.modelPolicy",
    "session.sendPolicy",
    "gateway.tools",
    "gateway.nodes",
    "gateway.auth.rateLimit",
    "gateway.auth.trustedProxy",
    "hooks.mappings",
    "cron.budget",
    "agents.defaults.heartbeat.budget",
    "agents.defaults.heartbeat.activeHours",
    "secrets.providers",
)
_CHAT_RULES = tuple(name for name in BLOCKS if name.startswith("channels."))
# Keys of an agent that restrict it.
_OF_AGENT = frozenset({"tools", "sandbox", "modelPolicy", "budget", "skills", "subagents"})
_OF_ALL = frozenset({"tools", "commands", "skills", "hooks", "approvals"})
_OF_CHILDREN = ("maxSpawnDepth", "maxChildrenPerAgent", "maxConcurrent", "runTimeoutSeconds")
_OF_HOOKS = ("allowedAgentIds", "allowedSessionKeyPrefixes")
# Objects with other things in them too, and the keys of theirs that restrict.
_HOLDERS: dict[KeyPath, frozenset[str]] = {
    ("agents", "defaults"): _OF_AGENT | {"heartbeat"},
    ("agents", "defaults", "heartbeat"): frozenset({"budget", "activeHours", "maxErrors"}),
    ("agents", "defaults", "subagents"): frozenset({*_OF_CHILDREN, "allowAgents"}),
    ("hooks",): frozenset({"internal", "mappings", *_OF_HOOKS}),
    ("session",): frozenset({"sendPolicy", "dmScope"}),
    ("messages", "groupChat"): frozenset({"visibleReplies"}),
    ("gateway",): frozenset({"tools", "nodes", "auth", "controlUi"}),
    ("gateway", "auth"): frozenset({"secretScopes", "rateLimit", "trustedProxy"}),
    ("gateway", "controlUi"): frozenset({"enabled"}),
    ("cron",): frozenset({"enabled", "budget"}),
    ("secrets",): frozenset({"providers"}),
    ("channels",): frozenset({"defaults"}),
}
# What decides beside those blocks who may do what, and where a mistyped key has a strict reading or none that is known.
_ALSO = ("bindings", "broadcast", "gateway.auth", "gateway.trustedProxies", "agents.defaults.models")
# What must be right to the letter: there is no strictest reading of a sum of money or of a list of models. `*` is any name.
_MUST_FIT: dict[str, tuple[str, ...]] = {
    "agents.defaults.modelPolicy": ("allow",),
    "agents.defaults#turns": ("budget",),
    "agents.defaults.heartbeat": ("budget", "activeHours", "maxErrors"),
    "agents.defaults.subagents": _OF_CHILDREN,
    "skills": ("allowBundled", "entries"),
    "gateway": ("auth", "tools", "nodes", "controlUi.enabled"),
    "hooks": ("mappings", *_OF_HOOKS),
    "session": ("dmScope",),
    "messages": ("groupChat.visibleReplies",),
    "cron": ("enabled", "budget"),
    "secrets": ("providers.*.allowlist", "providers.*.trustedDirs"),
    "channels.*#speech": ("actions",),
    "channels.*.accounts.*#speech": ("actions",),
}
# Words that show in a text which cannot be read that it has a rule: keys of rules, what holds them, and older names of it.
RULE_WORDS = frozenset(
    {
        *_WORDS.union(*_HOLDERS.values()) - {"defaults", "providers"},
        *(name.rpartition(".")[2] for name in RESTRICTIVE if name != "secrets.providers"),
        *("auth", "bindings", "broadcast", "exec", "fs", "routing", "secrets", "workspaceAccess", "workspaceOnly"),
    }
)
# What holds no rule, whatever its name was to be.
_EMPTY: tuple[Any, ...] = (None, {})
# Each of these and what it stands in, as a whole.
_WHOLE = _TABLES | {path[:size] for path in (*_HOLDERS, *map(path_of, RESTRICTIVE)) for size in range(1, len(path) + 1)}
_STOPS = "nothing runs until it is corrected, because this key restricts what may happen"


def restricts(path: KeyPath) -> bool:
    """Say whether a key takes part in deciding what may happen; credentials and variables for programs do not."""
    from homarus.config.redact import is_secret_key

    names = [step for step in path if isinstance(step, str)]
    if path in _WHOLE or path[:-1] in _TABLES:
        return True
    rules = bool(_WORDS.intersection(names)) or (path[0] == "agents" and "skills" in names)  # an agent's list of skills
    return rules and "env" not in names and not is_secret_key(names[-1])


def may_restrict(path: KeyPath) -> bool:
    """Say whether a key in the canonical spelling, or one that may stand below it, restricts."""
    from homarus.config.redact import is_secret_key

    path = _of_all(path)
    if not path or restricts(path):
        return True
    if "env" in path or is_secret_key(str(path[-1])):
        return False
    lines: list[Sequence[Any]] = [name.split(".") for name in (*RESTRICTIVE, *_ALSO)]
    holders = [*lines, *((*holder, key) for holder, keys in _HOLDERS.items() for key in keys)]
    holders += map(path_of, _CHAT_RULES)
    return any(_begins(path, line) for line in holders) or any(_begins(line, path) for line in lines)


def _begins(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Say whether a path begins, or is, another one, where a `*` is any name."""
    return len(one) <= len(other) and all("*" in (a, b) or a == b for a, b in zip(one, other, strict=False))


def _of_all(path: KeyPath) -> KeyPath:
    """Return where a key of one agent stands for all of them."""
    if path[:2] in {("agents", "list"), ("agents", "entries")} and len(path) > 3:
        path = ("agents", "defaults", *path[3:])
    return path[2:] if path[:3] == ("agents", "defaults", "tools") else path


def faults(config: Config) -> Iterator[Fault]:
    """Yield what must be mended before anything runs on this configuration, and, as warnings, mistyped parts that hold no rules."""
    yield from _misshapen(config)
    yield from _misnamed(config.document)
    for path, reason in _unfit(config.document):
        yield "error", path, reason, _STOPS
    for name, place in NAMES.items():
        steps = path_of(name)
        of_agents = _places(config.document, ("agents", "defaults", *steps)) if steps[0] == "tools" else ()
        for path in (steps, *of_agents):
            if lookup(config.document, path):
                for where, what, meant in load_named(place)(config, path):
                    cure = f"did you mean '{meant}'? {_STOPS}" if meant else "this rule is about nothing until there is"
                    yield "error" if meant else "warning", where, what, cure


def _misshapen(config: Config) -> Iterator[Fault]:
    for name, (kind, words) in SHAPES.items():
        for document in (config.raw, config.document):
            for path in instances(document, tuple(name.split("."))):
                value: Any = lookup(document, path)
                if value is not None and not isinstance(value, kind):
                    yield "error", path, f"must be {words}", "nothing in it counts until then"


def _misnamed(document: dict[str, Any]) -> Iterator[Fault]:
    """Yield names that are nearly those of something that restricts. The right one beside it excuses nothing: both were meant."""
    agents = document.get("agents")
    agents = agents if isinstance(agents, dict) else {}
    yield from _misnamed_at(document, TOP, ())
    yield from _misnamed_at(agents, frozenset({"defaults", "entries", "list"}), ("agents",))
    for holder, restricting in _HOLDERS.items():
        for path in _objects(document, holder):
            yield from _misnamed_in(lookup(document, path), path, restricting)
    yield from _misnamed_below(document)


def _misnamed_at(table: dict[str, Any], names: frozenset[str], at: KeyPath) -> Iterator[Fault]:
    for key in table.keys() - names:
        rules = _holds_rules(table[key])
        if meant := near(key, names, taken=table):
            stops = meant in _OF_ALL and table[key] not in _EMPTY
            yield _slip((*at, key), meant, stops=stops or rules)
        elif meant := _belongs(key, table[key], at):
            yield _slip((*at, key), meant, stops=True)
        elif at and rules and key not in at:  # an agent that stands where no agent is read
            yield _slip((*at, key), f"agents.entries.{key}", stops=True)


def _misnamed_in(table: dict[str, Any], path: KeyPath, restricting: frozenset[str]) -> Iterator[Fault]:
    if path[0] == "agents":
        for key in table.keys() & {"defaults", "entries", "list"}:
            # `agent` for `agents`: an older spelling that has another shape.
            yield _slip((*path, key), f"agents.{key}", stops=_holds_rules(table[key]))
    doubtful = [key for key in table.keys() - restricting if near(key, restricting)]
    here = _node(known_tree(), path) if doubtful else Node()
    for key in doubtful:
        if key not in here.names:
            yield _slip((*path, key), near(key, restricting, taken=table), stops=table[key] not in _EMPTY)
    for key in (table.keys() & HELD) - restricting:
        if meant := _belongs(key, table[key], path):
            yield _slip((*path, key), meant, stops=True)


def _belongs(key: str, value: Any, at: KeyPath) -> str:
    """Return where a rule is read that stands where nothing reads it, or nothing."""
    if key not in HELD or value in _EMPTY:
        return ""
    here = _node(known_tree(), at)
    return "" if key in here.names else belongs(key, here, at)


def _misnamed_below(document: dict[str, Any]) -> Iterator[Fault]:
    present = [name for name in RESTRICTIVE if any(lookup(document, path) for path in _places(document, path_of(name)))]
    lines = [line for name in present for line in _lines(name)]
    lines += _CHAT_RULES if document.get("channels") else ()
    owners = list(_objects(document, ("agents", "defaults")))
    for path in owners:
        owner = lookup(document, path)
        lines += _lines("tools") if "tools" in owner else []
        lines += ["agents.defaults#turns"] if "budget" in owner else []
    if not lines:
        return
    tree = known_tree(dict.fromkeys(lines))
    checked = [*present, *(name for name in ("channels",) if document.get(name))]
    places = [path for name in checked for path in _places(document, path_of(name))]
    places += [(*path, key) for path in owners for key in ("tools", "budget") if key in lookup(document, path)]
    for path in dict.fromkeys(places):
        for found in without_effect(lookup(document, path), _node(tree, path), path, named="budget" not in path):
            if found.near:
                yield _slip(found.path, found.near, stops=True)
            elif "budget" in found.path:
                yield "error", found.path, "is no key that is known here", f"remove it; {_STOPS}"


def _unfit(document: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    for name, places in _MUST_FIT.items():
        patterns = [path_of(place) for place in places]
        for path in _places(document, path_of(name)):
            yield from _misfits(lookup(document, path), name, patterns, path)


def _misfits(block: Any, name: str, patterns: list[KeyPath], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield the bad values at, in or around these places of a block, but for those around which something has a strictest reading."""
    keys = {str(pattern[0]) for pattern in patterns}
    chosen = {key: block[key] for key in keys if key in block} if isinstance(block, dict) else block
    if chosen in (None, {}):
        return
    into, heard = load_block(name), list[tuple[KeyPath, str]]()
    convert(chosen, into, lambda where, why: heard.append((where, why)), path)
    for where, why in heard:
        steps = where[len(path) :]
        meant = any(all(a in ("*", b) for a, b in zip(pattern, steps, strict=False)) for pattern in patterns)
        if meant and not fails_closed(into, steps):
            yield where, why


def _slip(path: KeyPath, meant: str, *, stops: bool) -> Fault:
    cure = f"did you mean '{meant}'?" + (f" {_STOPS}" if stops else "")
    return "error" if stops else "warning", path, "is no key that is known here", cure


def _lines(name: str) -> list[str]:
    """Return the lines of the blocks table for this place and all below it, or else the one that it is a part of."""
    below = [line for line in BLOCKS if f"{line}.".startswith((f"{name}.", f"{name}#"))]
    return below or [line for line in BLOCKS if name.startswith(f"{line}.")]


def _places(document: Any, steps: KeyPath) -> Iterator[KeyPath]:
    yield from instances(document, steps)
    if steps[:2] == ("agents", "defaults"):
        entries = lookup(document, ("agents", "entries"))
        for name in entries if isinstance(entries, dict) else ():
            yield from instances(document, ("agents", "entries", name, *steps[2:]))


def _objects(document: Any, steps: KeyPath) -> Iterator[KeyPath]:
    return (path for path in _places(document, steps) if isinstance(lookup(document, path), dict))


def _node(tree: Node, path: KeyPath) -> Node:
    for step in path:
        tree = tree.child(step) or Node(free=True)
    return tree


def _holds_rules(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key in _WORDS or near(key, _OF_AGENT) or _holds_rules(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_holds_rules, value))
