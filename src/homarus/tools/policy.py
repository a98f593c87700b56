"""Which tools a turn has: profiles, groups and layers of allow and deny. Each layer can only take away. Pure.

A tool that is not in the result is neither in the schema nor in the prompt. What a tool that is there may do in a given
call is the business of `gate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from unicodedata import normalize

from msgspec import Struct

from homarus.core.messages import Trust

GROUPS: dict[str, frozenset[str]] = {
    "fs": frozenset({"read", "write", "edit", "apply_patch", "grep", "find", "ls"}),
    "runtime": frozenset({"exec", "process", "code_execution"}),
    "sessions": frozenset(
        {
            "sessions_list",
            "sessions_history",
            "sessions_search",
            "sessions_send",
            "sessions_spawn",
            "sessions_yield",
            "subagents",
            "session_status",
        }
    ),
    "memory": frozenset({"memory_search", "memory_get", "memory_recall", "memory_retain"}),
    "web": frozenset({"web_search", "web_fetch"}),
    "ui": frozenset({"browser", "canvas"}),
    "automation": frozenset({"cron", "gateway", "heartbeat_respond"}),
    "messaging": frozenset({"message"}),
    "nodes": frozenset({"nodes"}),
    "agents": frozenset({"agents_list"}),
    "media": frozenset({"image", "tts"}),
}
_WORK = GROUPS["fs"] | GROUPS["runtime"]
PROFILES: dict[str, frozenset[str] | None] = {
    "minimal": frozenset({"session_status"}),
    "coding": _WORK | GROUPS["sessions"] | GROUPS["memory"] | GROUPS["web"] | {"image", "cron"},
    "messaging": frozenset({"message", "sessions_list", "sessions_history", "sessions_send", "session_status"}),
    "full": None,
}
# What other schools call a tool of ours: in a rule as in a call.
ALIASES = {
    **dict.fromkeys(("bash", "shell"), "exec"),
    **dict.fromkeys(("read_file", "readfile"), "read"),
    **dict.fromkeys(("write_file", "writefile"), "write"),
    **dict.fromkeys(("edit_file", "multiedit", "multi_edit"), "edit"),
    **dict.fromkeys(("list_dir", "list_directory"), "ls"),
    "apply-patch": "apply_patch",
    "applypatch": "apply_patch",
    "glob": "find",
    "webfetch": "web_fetch",
    "websearch": "web_search",
    "automations": "cron",
    "view_image": "image",
}
OWNER_ONLY = frozenset({"cron", "gateway", "nodes"})
# A child reports to its parent; it speaks to nobody else and looks after nothing.
CHILD_DENIED = frozenset({"sessions_send", "gateway", "agents_list", "session_status", "cron", "message"})
LEAF_DENIED = frozenset(
    {"sessions_list", "sessions_history", "sessions_search", "sessions_spawn", "sessions_yield", "subagents"}
)


class Rules(Struct, frozen=True, rename="camel"):
    """`allow`, `alsoAllow`, `deny` and `profile`, as they stand in `tools`, in an agent, in a group or for a sender."""

    profile: str = ""
    allow: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ChildRules(Struct, frozen=True, rename="camel"):
    """`tools.subagents` and `tools.sandbox`."""

    tools: Rules = Rules()


class PolicySettings(Struct, frozen=True, rename="camel"):
    """`tools` of the whole configuration or of one agent."""

    profile: str = ""
    allow: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    by_provider: dict[str, Rules] = {}
    sandbox: ChildRules = ChildRules()
    subagents: ChildRules = ChildRules()

    @classmethod
    def disabled(cls) -> PolicySettings:
        """A block that cannot be read must not open anything."""
        return cls(profile="minimal")

    @property
    def rules(self) -> Rules:
        """Return the rules of this scope itself."""
        return Rules(self.profile, self.allow, self.also_allow, self.deny)


class Layer(Struct, frozen=True):
    """One set of rules and where it comes from. `strict` takes an allow list at its word even if it names nothing known."""

    name: str
    rules: Rules
    strict: bool = False


class Who(Struct, frozen=True):
    """Whose turn it is."""

    trust: Trust = Trust.OWNER
    provider: str = ""
    model: str = ""
    sandboxed: bool = True
    # How many parents stand above this session, and how many generations there may be.
    depth: int = 0
    max_depth: int = 1


class Allowed(Struct, frozen=True):
    """The tools of a turn in their order, and what in the rules had no effect."""

    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def layers_for(
    everyone: PolicySettings, agent: PolicySettings, who: Who, more: Sequence[Layer] = ()
) -> tuple[Layer, ...]:
    """Return the layers of a turn, from the widest to the narrowest; `more` are those of its channel, group and sender."""
    layers = [Layer("tools", everyone.rules), *_of_provider("tools", everyone, who)]
    layers += [Layer("agent tools", agent.rules), *_of_provider("agent tools", agent, who)]
    layers += [Layer(layer.name, layer.rules, strict=True) for layer in more]
    if who.sandboxed:
        layers += [Layer("sandbox tools", settings.sandbox.tools, strict=True) for settings in (everyone, agent)]
    if who.trust is not Trust.OWNER:
        layers.append(Layer("owner only", Rules(deny=tuple(sorted(OWNER_ONLY))), strict=True))
    if who.depth:
        layers += [Layer("sub-agent tools", settings.subagents.tools, strict=True) for settings in (everyone, agent)]
        denied = CHILD_DENIED | (LEAF_DENIED if who.depth >= who.max_depth else frozenset())
        layers.append(Layer("sub-agent", Rules(deny=tuple(sorted(denied))), strict=True))
    return tuple(layers)


def sender_layers(name: str, rules: Rules | None, by_sender: Mapping[str, Rules], sender: str) -> tuple[Layer, ...]:
    """Return the layers of a group: its own, and the one for who is speaking (`*` stands for everybody else)."""
    found = by_sender.get(sender) or by_sender.get(sender.lower()) or by_sender.get("*")
    made = [Layer(f"{name} tools", rules, strict=True)] if rules else []
    return (*made, Layer(f"{name} sender", found, strict=True)) if found else tuple(made)


def allowed_tools(names: Iterable[str], layers: Sequence[Layer]) -> Allowed:
    """Return which of the tools are left after all layers. Adding a layer never adds a tool."""
    offered = tuple(dict.fromkeys(names))
    left = set(offered)
    warnings = []
    for layer in layers:
        permitted, warning = _permitted(layer, offered)
        left &= permitted
        if warning:
            warnings.append(warning)
    return Allowed(tuple(name for name in offered if name in left), tuple(warnings))


def _of_provider(name: str, settings: PolicySettings, who: Who) -> list[Layer]:
    if not who.provider or not settings.by_provider:
        return []
    keys = {who.provider.lower(), f"{who.provider}/{who.model}".lower()}
    return [Layer(f"{name} for {key}", rules) for key, rules in settings.by_provider.items() if key.lower() in keys]


def _permitted(layer: Layer, offered: Sequence[str]) -> tuple[set[str], str]:
    rules, warning = layer.rules, ""
    permitted = set(offered)
    if rules.profile:
        if rules.profile not in PROFILES:
            return set(), f"{layer.name}: there is no profile '{rules.profile}', so no tool is left"
        base = PROFILES[rules.profile]
        permitted = set(offered) if base is None else {name for name in offered if name.lower() in base}
        if not rules.allow:
            permitted |= _matching(rules.also_allow, offered)
    if rules.allow:
        chosen = _matching(rules.allow, offered)
        # Who may write or run commands may also patch.
        if {"exec", "write"} & {item.strip().lower() for item in rules.allow}:
            chosen |= {name for name in offered if name == "apply_patch"}
        if chosen or layer.strict:
            permitted &= chosen
        else:
            warning = f"{layer.name}: 'allow' names no tool that exists and is ignored"
    lost = [item for item in rules.deny if not _is_known(_plain(item), offered)]
    if lost and not warning:
        # It may be a tool that is not here today; it may also be a slip, and then something is open.
        warning = f"{layer.name}: 'deny' names {', '.join(lost[:5])}, which is no tool that exists"
    return permitted - _matching(rules.deny, offered), warning


def _matching(patterns: Iterable[str], offered: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for item in map(_plain, patterns):
        if item.startswith("group:"):
            members = _group(item[6:], offered)
            found |= {name for name in offered if name.lower() in members}
        elif item:
            wanted = re.compile(translate(item))
            found |= {name for name in offered if wanted.fullmatch(name.lower())}
    return found


def _plain(text: str) -> str:
    """Return the word of a rule as names are compared: letters of any width and case, and a name of another school, are ours."""
    item = text if text.isascii() else normalize("NFKC", text)
    item = "".join(item.split()).lower()
    return ALIASES.get(item, item)


def _is_known(item: str, offered: Sequence[str]) -> bool:
    if item.startswith("group:"):
        return item[6:] in GROUPS or item[6:] in {"openclaw", "plugins"}
    known = frozenset().union(*GROUPS.values())
    return any(char in item for char in "*?[") or item in known or item in {name.lower() for name in offered}


def _group(name: str, offered: Sequence[str]) -> frozenset[str]:
    if name == "openclaw":
        return frozenset(tool for group, tools in GROUPS.items() if group not in {"fs", "runtime"} for tool in tools)
    if name == "plugins":
        known = frozenset().union(*GROUPS.values())
        return frozenset(tool.lower() for tool in offered) - known
    return GROUPS.get(name, frozenset())
