"""What a plugin says of itself, as data, and where plugins lie. Nothing here runs or imports a line of one.

A plugin is a folder with a `homarus.plugin.json`, alone or as an installed package. It is used when the configuration switches it on, and only as long as its
files are those that were there when its owner did so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

from homarus.channels.channel import Manifest as ChannelManifest
from homarus.channels.discovery import is_free
from homarus.config.paths import Paths, expand
from homarus.config.view import Config
from homarus.core.errors import ConfigError, HomarusError
from homarus.core.patterns import late
from homarus.hooks.events import unheard
from homarus.plugins.health import HealthBook
from homarus.storage.atomic import ensure_dir, write_atomic

FILE = "homarus.plugin.json"
MAX_FILES, MAX_BYTES, MAX_TOOLS = 2_000, 50_000_000, 50
BEFORE_CALL, BOOTSTRAP = "before_tool_call", "agent:bootstrap"
# The moments of a plugin by OpenClaw's names for them, as keys or families of hooks. Those names (`command:new`) are understood, too.
HOOKS = {
    "inbound_claim": "message:claim",
    "before_dispatch": "message:dispatch",
    "before_model_resolve": "model:resolve",
    "agent_turn_prepare": "agent:prepare",
    "before_prompt_build": "prompt:build",
    "before_agent_run": "run:before",
    "before_agent_reply": "agent:reply",
    "before_agent_finalize": "answer:final",
    "before_message_write": "write:before",
    "model_call_started": "model:call:started",
    "model_call_ended": "model:call:ended",
    "llm_input": "model:input",
    "llm_output": "model:output",
    "tool_result_persist": "tool:persist",
    "after_tool_call": "tool:after",
    "agent_end": "agent:end",
    "session_start": "session:start",
    "session_end": "session:end",
    "subagent_spawned": "subagent:spawned",
    "subagent_ended": "subagent:ended",
    "cron_changed": "cron",
    "cron_started": "cron:started",
    "cron_finished": "cron:finished",
    "before_install": "install:before",
    "before_compaction": "session:compact:before",
    "after_compaction": "session:compact:after",
    "before_reset": "command:new command:reset session:auto-reset",
    "message_received": "message:received",
    "reply_payload_sending": "message:reply",
    "message_sending": "message:sending",
    "message_sent": "message:sent",
    "gateway_start": "gateway:startup",
    "gateway_stop": "gateway:shutdown",
}


def keys_of(hook: str) -> list[str]:
    """Return the keys that a moment of a manifest stands for."""
    return HOOKS.get(hook, hook).split() or [hook]


_ID = late(r"[a-z0-9][a-z0-9_-]{0,47}")
_TOOL = late(r"[A-Za-z][A-Za-z0-9_]{0,47}")


class ToolManifest(Struct, frozen=True):
    """A tool as a model is told of it. `risk` is the most that a call of it can do."""

    name: str
    description: str
    parameters: dict[str, Any] = {}
    risk: Literal["read", "write", "exec", "send", "admin"] = "send"


class Wishes(Struct, frozen=True):
    """What a plugin would be allowed beyond its own folder, if its owner agrees."""

    network: bool = False


class Manifest(Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """`homarus.plugin.json`. `entry` is `file.py:function`; all but `tools` and `hooks` needs to run inside the program."""

    id: str
    entry: str
    api: int = 1
    version: str = ""
    description: str = ""
    tools: tuple[ToolManifest, ...] = ()
    providers: tuple[str, ...] = ()
    context_engines: tuple[str, ...] = ()
    channels: tuple[ChannelManifest, ...] = ()
    memory: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    wishes: Wishes = Wishes()

    @property
    def inside(self) -> bool:
        """Say whether it can only work inside the program."""
        edges = self.providers or self.context_engines or self.memory or self.channels
        return bool(edges) or BOOTSTRAP in self.hooks  # a prompt is built without waiting for other processes


class Entry(Struct, frozen=True, rename="camel"):
    """What the owner says about one plugin. Code that runs inside the program has all rights of the program."""

    enabled: bool = False
    in_process: bool = False
    network: bool = False
    config: dict[str, Any] = {}

    @classmethod
    def disabled(cls) -> Self:
        return cls()


class Load(Struct, frozen=True):
    paths: tuple[str, ...] = ()


class PluginSettings(Struct, frozen=True, rename="camel"):
    """`plugins`. Nothing runs that no entry switches on; `allow` and `deny` can only take away."""

    enabled: bool = True
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    entries: dict[str, Entry] = {}
    load: Load = Load()

    @classmethod
    def disabled(cls) -> Self:
        """A block that cannot be read runs nothing: plugins are code."""
        return cls(enabled=False)

    def wants(self, plugin: str) -> bool:
        allowed = self.allow is None or plugin in self.allow
        return self.enabled and allowed and plugin not in self.deny and self.entries.get(plugin, Entry()).enabled


class Plugin(Struct, frozen=True):
    """A plugin that was found. `problem` says why it cannot be used."""

    id: str
    folder: Path
    manifest: Manifest | None = None
    problem: str = ""


def plugin_folders(paths: Paths, settings: PluginSettings) -> Iterator[Path]:
    """Yield the folders that may hold plugins, each once: those of this home, and what `plugins.load.paths` names."""
    root = paths.state_dir / "plugins"
    yield from sorted(folder for folder in root.glob("*") if folder.is_dir() and not folder.name.startswith("."))
    for text in settings.load.paths:
        yield expand(text, paths.home)


def package_folders() -> Iterator[Path]:
    """Yield the folders of installed packages that say they are plugins (`homarus.plugins`), without importing any."""
    from importlib.machinery import PathFinder
    from importlib.metadata import entry_points

    for each in sorted(entry_points(group="homarus.plugins"), key=lambda each: each.name):
        top, *below = each.value.split(".")
        spec = PathFinder.find_spec(top)
        if spec is not None and spec.submodule_search_locations:
            yield Path(next(iter(spec.submodule_search_locations)), *below)


def read_plugin(folder: Path) -> Plugin:
    """Read one manifest. One that cannot be read is a plugin with a problem."""
    path = folder / FILE
    try:
        if path.stat().st_size > 1_000_000:
            raise HomarusError("it is too big")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        problem = _wrong(manifest)
    except (OSError, HomarusError, ValueError) as fault:
        return Plugin(folder.name, folder, None, f"{FILE}: {fault}")
    return Plugin(manifest.id or folder.name, folder, manifest, f"{FILE}: {problem}" if problem else "")


def _wrong(manifest: Manifest) -> str:
    names = [tool.name for tool in manifest.tools]
    if not _ID.fullmatch(manifest.id):
        return "id: small letters, digits, '-' and '_'"
    if manifest.api != 1:
        return f"api: {manifest.api} is newer than this program, which knows 1"
    file, _, function = manifest.entry.partition(":")
    if not function.isidentifier() or not file.endswith(".py") or Path(file).is_absolute() or ".." in Path(file).parts:
        return "entry: file.py:function, inside the folder"
    if len(names) != len(set(names)) or len(names) > MAX_TOOLS or not all(map(_TOOL.fullmatch, names)):
        return f"tools: at most {MAX_TOOLS}, each name once, in letters, digits and '_'"
    for hook in manifest.hooks:
        if hook != BEFORE_CALL and (why := "".join(map(unheard, keys_of(hook)))):
            return f"hooks: {why}"
    for channel in manifest.channels:
        if not is_free(channel.id):
            return f"channels: '{channel.id}' cannot be the name of a platform"
    return ""


def found_plugins(config: Config) -> list[Plugin]:
    """Return all plugins that lie here; of two with one id the first counts."""
    settings, found = config.block("plugins", PluginSettings), dict[str, Plugin]()
    for folder in (*plugin_folders(config.paths, settings), *package_folders()):
        if (folder / FILE).is_file():
            plugin = read_plugin(folder)
            found.setdefault(plugin.id, plugin)
    return [found[name] for name in sorted(found)]


def find_plugin(config: Config, plugin_id: str, *, packages: bool = True) -> Plugin | None:
    """Return one plugin, looking at its own folder first: a start pays for what is switched on and for nothing else.

    Going through all installed packages is the dearest way, and the last.
    """
    own = config.paths.state_dir / "plugins" / plugin_id
    if _ID.fullmatch(plugin_id) and (own / FILE).is_file():
        plugin = read_plugin(own)
        return plugin if plugin.id == plugin_id else None
    paths = config.block("plugins", PluginSettings).load.paths
    folders = chain((expand(text, config.paths.home) for text in paths), package_folders() if packages else ())
    others = (read_plugin(folder) for folder in folders)
    return next((each for each in others if each.id == plugin_id), None)


def fingerprint(folder: Path) -> str:
    """Return what changes when any file of a plugin does. Links and what is too much are refused."""
    digest, count, total = hashlib.sha256(), 0, 0
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or not path.is_file():
            raise HomarusError(f"{path} is no plain file", cure="a plugin holds plain files only")
        count, total = count + 1, total + path.stat().st_size
        if count > MAX_FILES or total > MAX_BYTES:
            raise HomarusError(f"{folder} holds too much for a plugin", cure="point at the plugin's own folder")
        digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class Lock:
    """The fingerprints of the plugins that their owner switched on."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.own_dir / "plugins" / "lock.json"

    def read(self) -> dict[str, str]:
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, ValueError):
            return {}
        return found

    def write(self, plugin_id: str, value: str | None) -> None:
        rows = {key: each for key, each in self.read().items() if key != plugin_id}
        ensure_dir(self._path.parent)
        write_atomic(self._path, msgspec.json.encode({**rows, **({plugin_id: value} if value else {})}))


def usable(config: Config, plugin_id: str, entry: Entry, lock: dict[str, str]) -> Plugin:
    """Return a plugin that may run, or raise what is wrong with it and the cure."""
    plugin = find_plugin(config, plugin_id)
    if plugin is None:
        raise ConfigError(f"plugins.entries.{plugin_id}: no such plugin lies here", cure="see 'homarus plugins list'")
    if plugin.problem or plugin.manifest is None:
        raise ConfigError(f"the plugin {plugin_id} cannot be used: {plugin.problem}", cure=f"mend {plugin.folder}")
    if fingerprint(plugin.folder) != lock.get(plugin_id):
        cure = f"look at {plugin.folder}, then: homarus plugins enable {plugin_id}"
        raise ConfigError(f"the files of the plugin {plugin_id} are not those that were switched on", cure=cure)
    if plugin.manifest.inside and HealthBook(config.paths.own_dir).of(plugin_id).blocked:
        cure = f"look at {plugin.folder}, then: homarus plugins enable {plugin_id} --in-process"
        raise ConfigError(f"the plugin {plugin_id} has blocked the whole program and does not run any more", cure=cure)
    if plugin.manifest.inside and not entry.in_process:
        cure = f"if you trust it: homarus plugins enable {plugin_id} --in-process"
        raise ConfigError(f"the plugin {plugin_id} wants to run inside the program", cure=cure)
    return plugin


# Plugins that OpenClaw homes list, and what there is here instead, beside platforms and providers that go by their names.
INSTEAD = {
    **dict.fromkeys(
        ("memory-core", "memory-lancedb", "memory-qmd", "memory-wiki", "active-memory"),
        "memory is part of this program",
    ),
    **dict.fromkeys(("brave", "searxng", "duckduckgo", "tavily", "exa", "perplexity"), "tools.web.search"),
    "firecrawl": "tools.web.fetch",
    **dict.fromkeys(("acpx", "acp"), "homarus acp"),
    **dict.fromkeys(
        ("litellm", "copilot-proxy", "synthetic", "chutes", "cloudflare-ai-gateway"),
        "models.providers, with its address",
    ),
    "bundle-mcp": "mcp.servers",
    "diagnostics-otel": "diagnostics.otel",
    "webhooks": "hooks.mappings",
    "lossless-claw": "plugins.slots.contextEngine with a plugin for this program",
}


def of_openclaw(config: Config) -> list[tuple[str, str]]:
    """Return the plugins of another program that a home names or holds, and what replaces each. Nothing of them is run."""
    settings, slots = config.block("plugins", PluginSettings), config.get("plugins.slots")
    installs, root = config.get("plugins.installs"), config.paths.state_dir / "extensions"
    given = [expand(text, config.paths.home) for text in settings.load.paths]
    folders = [folder for folder in (*root.glob("*"), *given) if (folder / "openclaw.plugin.json").is_file()]
    named = {*settings.entries, *(settings.allow or ()), *(folder.name for folder in folders)}
    named |= {*(installs if isinstance(installs, dict) else ())}
    named |= {each for each in (slots if isinstance(slots, dict) else {}).values() if isinstance(each, str)}
    ours = {*Lock(config.paths).read(), "none", "legacy"}
    for plugin in found_plugins(config):
        made = plugin.manifest
        ours |= {plugin.id, *(made.memory if made else ()), *(made.context_engines if made else ())}
    return [(name, _instead(name)) for name in sorted(named - ours)]


def _instead(name: str) -> str:
    from homarus.channels.discovery import named as platform
    from homarus.models.catalog import Catalog

    if (found := platform(name)) is not None:
        return f"channels.{found.id} of the configuration"
    return INSTEAD.get(name) or ("models.providers" if name in Catalog().providers() else "nothing here replaces it")
