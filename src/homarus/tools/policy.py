"""Which tools a turn has: profiles, groups and layers of allow and deny. Each layer can only take away. Pure.

A tool that is not in the result is neither in the schema nor in the prompt. What a tool that is there may do in a given
call is the business of `gate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Annotated, ClassVar
from unicodedata import normalize

from msgspec import Struct

from homarus.config.convert import one_of
from homarus.config.keypath import KeyPath
from homarus.core.messages import Trust
from homarus.core.text import single_line
from homarus.models.ref import normalize_provider
from homarus.tools.tool import Tool

# What OpenClaw has and nothing here provides, by group: a rule that names one of them is no slip.
ELSEWHERE = {
    "runtime": ("code_execution",),
    "ui": ("browser", "canvas"),
    "automation": ("heartbeat_respond",),
    "nodes": ("nodes",),
    "media": ("tts",),
}
# In the words of a rule, and derived from what each tool says of itself.
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status",),
    "coding": (*(f"group:{name}" for name in ("fs", "runtime", "sessions", "memory", "web", "mcp")), "image", "cron"),
    "messaging": ("message", "sessions_list", "sessions_history", "sessions_send", "session_status", "group:mcp"),
    "full": ("*",),
    # What a small window has room for: files, commands and memory, and what the owner added to the program's own tools.
    "lean": (*("read", "write", "edit", "exec", "memory_search", "memory_get", "memory_retain"), "group:plugins"),
}
Profile = Annotated[str, one_of(PROFILES)]
# What other programs call a tool of ours, in a rule and in a call.
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
    # OpenClaw's name for the part of it that speaks to MCP servers.
    "bundle-mcp": "group:mcp",
}


class Rules(Struct, frozen=True, rename="camel"):
    """`allow`, `alsoAllow`, `deny` and `profile`, as they stand in `tools`, in an agent, in a group or for a sender."""

    profile: Profile = ""
    allow: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @classmethod
    def disabled(cls) -> Rules:
        """Rules that cannot be read leave nothing: nobody knows what they meant to leave."""
        return cls(deny=("*",))

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the words that name no tool, as far as anybody knows here, by their key."""
        for key, message in _doubts(self, _ours()):
            yield (key,), message


class ChildRules(Struct, frozen=True, rename="camel"):
    """`tools.subagents` and `tools.sandbox`."""

    tools: Rules = Rules()


class PolicySettings(Struct, frozen=True, rename="camel"):
    """`tools` of the whole configuration or of one agent."""

    beside: ClassVar = ("exec", "fs", "web", "elevated", "sessions", "agentToAgent", "loopDetection")

    profile: Profile = ""
    allow: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    by_provider: dict[str, Rules] = {}
    sandbox: ChildRules = ChildRules()
    subagents: ChildRules = ChildRules()

    @classmethod
    def disabled(cls) -> PolicySettings:
        return cls(deny=("*",))

    @property
    def rules(self) -> Rules:
        return Rules(self.profile, self.allow, self.also_allow, self.deny)

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        parts: dict[KeyPath, Rules] = {(): self.rules, ("sandbox", "tools"): self.sandbox.tools}
        parts[("subagents", "tools")] = self.subagents.tools
        parts |= {("byProvider", name): rules for name, rules in self.by_provider.items()}
        for path, rules in parts.items():
            for key, message in rules.warnings:
                yield (*path, *key), message


class PatchSettings(Struct, frozen=True, rename="camel"):
    """`tools.exec.applyPatch` in its long form."""

    enabled: bool = True
    workspace_only: bool = True
    allow_models: tuple[str, ...] = ()

    @classmethod
    def disabled(cls) -> PatchSettings:
        return cls(enabled=False)


class PatchSwitch(Struct, frozen=True, rename="camel"):
    """What `tools.exec`, of everyone or of one agent, says about apply_patch."""

    apply_patch: bool | PatchSettings = True

    @classmethod
    def disabled(cls) -> PatchSwitch:
        return cls(apply_patch=False)

    @property
    def settings(self) -> PatchSettings:
        given = self.apply_patch
        return PatchSettings(enabled=given) if isinstance(given, bool) else given

    def admits(self, provider: str, model: str) -> bool:
        """Say whether a model has apply_patch: a list of models leaves it to those alone."""
        named = {name.strip().lower() for name in self.settings.allow_models}
        known = {model.lower(), f"{provider}/{model}".lower()}
        return self.settings.enabled and (not named or bool(named & known))


class Layer(Struct, frozen=True):
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
    if who.depth:
        layers += [Layer("sub-agent tools", settings.subagents.tools) for settings in (everyone, agent)]
    return tuple(layers)


def sender_layers(name: str, rules: Rules | None, by_sender: Mapping[str, Rules], sender: str) -> tuple[Layer, ...]:
    """Return the layers of a group: its own, and the one for who is speaking (`*` stands for everybody else)."""
    found = by_sender.get(sender) or by_sender.get(sender.lower()) or by_sender.get("*")
    made = [Layer(f"{name} tools", rules)] if rules else []
    return (*made, Layer(f"{name} sender", found)) if found else tuple(made)


def allowed_tools(tools: Iterable[Tool], layers: Sequence[Layer], who: Who | None = None) -> Allowed:
    """Return which of the tools are left after all layers. Adding a layer never adds a tool."""
    offered = {tool.name: tool for tool in tools}
    left = {name for name, tool in offered.items() if who is None or _is_for(tool, who)}
    warnings: list[str] = []
    for layer in layers:
        permitted, heard = _permitted(layer, offered)
        left &= permitted
        warnings += heard
    return Allowed(tuple(name for name in offered if name in left), tuple(warnings))


def _is_for(tool: Tool, who: Who) -> bool:
    """Say whether somebody may have a tool at all, whatever the rules say."""
    if tool.owner_only and who.trust is not Trust.OWNER:
        return False
    if not who.depth or tool.children == "all":
        return True
    return tool.children == "parents" and who.depth < who.max_depth


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


def _permitted(layer: Layer, offered: Mapping[str, Tool]) -> tuple[set[str], list[str]]:
    rules, warnings = layer.rules, list[str]()
    permitted = set(offered)
    if rules.profile:
        base = PROFILES.get(rules.profile.strip().lower())
        if base is None:
            return set(), [f"{layer.name}: there is no profile '{rules.profile}', so no tool is left"]
        permitted = _matching((*base, *(() if rules.allow else rules.also_allow)), offered)
    if rules.allow:
        chosen = _matching(rules.allow, offered)
        # Who may write or run commands may also patch.
        if {"exec", "write"} & {item.strip().lower() for item in rules.allow} and "apply_patch" in offered:
            chosen.add("apply_patch")
        if not chosen:
            warnings.append(f"{layer.name}: 'allow' names no tool that exists, so no tool is left")
        permitted &= chosen
    if any("${" in item for item in rules.deny):
        return set(), [f"{layer.name}: 'deny' names a variable that is not set, so no tool is left"]
    warnings += [f"{layer.name}: {key}: {message}" for key, message in _doubts(rules, offered)]
    denied = _matching(rules.deny, offered) | _matching(_slips(rules.deny, offered), offered)
    return permitted - denied, warnings


def _doubts(rules: Rules, offered: Mapping[str, Tool]) -> Iterator[tuple[str, str]]:
    """Yield the words of rules that name no tool as far as anybody knows, each by its key and with what may be meant."""
    for key, words in (("allow", rules.allow), ("alsoAllow", rules.also_allow), ("deny", rules.deny)):
        for word in words:
            if "${" in word or _is_known(_plain(word), offered):
                continue
            meant = sorted({ALIASES.get(name, name) for name in _nearly(_plain(word), offered)})
            text = f"'{single_line(word, 60)}' names no tool that exists"
            text += f"; did you mean {' or '.join(repr(name) for name in meant[:3])}?" if meant else ""
            text += " That is denied until it is corrected" if meant and key == "deny" else ""
            yield key, text


def _slips(deny: Iterable[str], offered: Mapping[str, Tool]) -> list[str]:
    """Return what the unknown words of a deny list may mean: they may be tools of another day, but what was meant must not stay open."""
    lost = [_plain(item) for item in deny if not _is_known(_plain(item), offered)]
    return [name for item in lost for name in _nearly(item, offered)]


def _matching(patterns: Iterable[str], offered: Mapping[str, Tool]) -> set[str]:
    found: set[str] = set()
    for item in map(_plain, patterns):
        if item.startswith("group:"):
            found |= {name for name, tool in offered.items() if _is_in(tool, item[6:])}
        elif item:
            wanted = re.compile(translate(item))
            found |= {name for name in offered if wanted.fullmatch(name.lower())}
    return found


def _plain(text: str) -> str:
    """Return a word of a rule as names are compared: in any case and width of letters, and by the name of another program."""
    item = text if text.isascii() else normalize("NFKC", text)
    item = "".join(item.split()).lower()
    return ALIASES.get(item, item)


def _is_in(tool: Tool, group: str) -> bool:
    if group == "openclaw":
        return tool.group not in {"fs", "runtime"} and tool.name in _ours()
    return tool.name not in _ours() if group == "plugins" else tool.group == group


def _is_known(item: str, offered: Mapping[str, Tool]) -> bool:
    # What is offered answers nearly every rule; all others are built only for a word that it does not know.
    if item.startswith("group:"):
        return any(tool.group == item[6:] for tool in offered.values()) or item in _known(offered)
    wanted = re.compile(translate(item))
    return any(wanted.fullmatch(name.lower()) for name in offered) or any(map(wanted.fullmatch, _known(offered)))


def _nearly(word: str, offered: Mapping[str, Tool]) -> Iterator[str]:
    """Yield the names and groups that a word is, but for one letter more, less, in another place or another one."""
    names = _known(offered) | ALIASES.keys()
    for variant in set(_variants(word)):
        # What is mostly stars is near to everything.
        if "*" not in variant or len(variant.strip("*?")) >= 3:
            yield from filter(re.compile(translate(variant)).fullmatch, names)


def _known(offered: Mapping[str, Tool]) -> set[str]:
    """Return every name and group that a rule can mean, also of tools that are not here today."""
    tools = [*_ours().values(), *offered.values()]
    names = {tool.name.lower() for tool in tools} | {name for each in ELSEWHERE.values() for name in each}
    groups = {"openclaw", "plugins", "mcp", *ELSEWHERE, *(tool.group for tool in tools)}
    return names | {f"group:{group}" for group in groups}


def _ours() -> Mapping[str, Tool]:
    from homarus.tools.registry import every_tool

    return every_tool()


def _variants(word: str) -> Iterator[str]:
    yield from (f"{word}*", f"{word[:-1]}*")
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield f"{head}?{tail}"
        yield f"{head}?{tail[1:]}"
        yield head + tail[1:]
        yield head + tail[1:2] + tail[:1] + tail[2:]
