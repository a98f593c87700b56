"""Which tools a turn has: profiles, groups and layers of allow and deny. Each layer can only take away. Pure.

A tool that is not in the result is neither in the schema nor in the prompt. What a tool that is there may do in a given
call is the business of `gate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import ClassVar
from unicodedata import normalize

from msgspec import Struct

from homarus.core.messages import Trust
from homarus.models.ref import normalize_provider

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
_KNOWN = frozenset().union(*GROUPS.values())
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

    @classmethod
    def disabled(cls) -> Rules:
        """Rules that cannot be read leave nothing: nobody knows what they meant to leave."""
        return cls(deny=("*",))


class ChildRules(Struct, frozen=True, rename="camel"):
    """`tools.subagents` and `tools.sandbox`."""

    tools: Rules = Rules()


class PolicySettings(Struct, frozen=True, rename="camel"):
    """`tools` of the whole configuration or of one agent."""

    beside: ClassVar = ("exec", "fs", "web", "elevated", "sessions", "agentToAgent", "loopDetection")

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
        return cls(deny=("*",))

    @property
    def rules(self) -> Rules:
        """Return the rules of this scope itself."""
        return Rules(self.profile, self.allow, self.also_allow, self.deny)


class Layer(Struct, frozen=True):
    """One set of rules and where it comes from."""

    name: str
    rules: Rules


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
    layers += more
    if who.sandboxed:
        layers += [Layer("sandbox tools", settings.sandbox.tools) for settings in (everyone, agent)]
    if who.trust is not Trust.OWNER:
        layers.append(Layer("owner only", Rules(deny=tuple(sorted(OWNER_ONLY)))))
    if who.depth:
        layers += [Layer("sub-agent tools", settings.subagents.tools) for settings in (everyone, agent)]
        denied = CHILD_DENIED | (LEAF_DENIED if who.depth >= who.max_depth else frozenset())
        layers.append(Layer("sub-agent", Rules(deny=tuple(sorted(denied)))))
    return tuple(layers)


def sender_layers(name: str, rules: Rules | None, by_sender: Mapping[str, Rules], sender: str) -> tuple[Layer, ...]:
    """Return the layers of a group: its own, and the one for who is speaking (`*` stands for everybody else)."""
    found = by_sender.get(sender) or by_sender.get(sender.lower()) or by_sender.get("*")
    made = [Layer(f"{name} tools", rules)] if rules else []
    return (*made, Layer(f"{name} sender", found)) if found else tuple(made)


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
    if not who.provider:
        return []
    wanted = {normalize_provider(who.provider), f"{normalize_provider(who.provider)}/{who.model.lower()}"}
    found = []
    for key, rules in settings.by_provider.items():
        provider, slash, model = key.strip().lower().partition("/")
        if normalize_provider(provider) + slash + model in wanted:
            found.append(Layer(f"{name} for {key}", rules))
    return found


def _permitted(layer: Layer, offered: Sequence[str]) -> tuple[set[str], str]:
    rules, warning = layer.rules, ""
    permitted = set(offered)
    if rules.profile:
        profile = rules.profile.strip().lower()
        if profile not in PROFILES:
            return set(), f"{layer.name}: there is no profile '{rules.profile}', so no tool is left"
        base = PROFILES[profile]
        permitted = set(offered) if base is None else {name for name in offered if name.lower() in base}
        if not rules.allow:
            permitted |= _matching(rules.also_allow, offered)
    if rules.allow:
        chosen = _matching(rules.allow, offered)
        # Who may write or run commands may also patch.
        if {"exec", "write"} & {item.strip().lower() for item in rules.allow}:
            chosen |= {name for name in offered if name == "apply_patch"}
        if not chosen:
            warning = f"{layer.name}: 'allow' names no tool that exists, so no tool is left"
        permitted &= chosen
    if any("${" in item for item in rules.deny):
        return set(), f"{layer.name}: 'deny' names a variable that is not set, so no tool is left"
    denied, lost = _matching(rules.deny, offered), [item for item in rules.deny if not _is_known(_plain(item), offered)]
    if lost:
        # It may be a tool that is not here today. It may also be a slip, and then what was meant must not stay open.
        near = _matching([name for item in lost for name in _nearly(_plain(item), offered)], offered)
        warning = warning or f"{layer.name}: 'deny' names {', '.join(lost[:5])}, which is no tool that exists"
        warning += f"; {', '.join(sorted(near))} may be meant and is denied" if near else ""
        denied |= near
    return permitted - denied, warning


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
    wanted = re.compile(translate(item))
    return any(wanted.fullmatch(name) for name in (*_KNOWN, *map(str.lower, offered)))


def _nearly(word: str, offered: Sequence[str]) -> Iterator[str]:
    """Yield the names and groups that a word is, but for one letter more, less, in another place or another one."""
    names = {*_KNOWN, *map(str.lower, offered), *ALIASES, *(f"group:{name}" for name in GROUPS)}
    for variant in set(_variants(word)):
        # What is mostly stars is near to everything.
        if "*" not in variant or len(variant.strip("*?")) >= 3:
            wanted = re.compile(translate(variant))
            yield from (name for name in names if wanted.fullmatch(name))


def _variants(word: str) -> Iterator[str]:
    yield from (f"{word}*", f"{word[:-1]}*")
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield f"{head}?{tail}"
        yield f"{head}?{tail[1:]}"
        yield head + tail[1:]
        yield head + tail[1:2] + tail[:1] + tail[2:]


def _group(name: str, offered: Sequence[str]) -> frozenset[str]:
    if name == "openclaw":
        return frozenset(tool for group, tools in GROUPS.items() if group not in {"fs", "runtime"} for tool in tools)
    if name == "plugins":
        return frozenset(tool.lower() for tool in offered) - _KNOWN
    return GROUPS.get(name, frozenset())
