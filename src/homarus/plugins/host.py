"""The plugins of a home that are switched on: loaded here and nowhere else, each contained, each failure noted by name."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from homarus.channels.channel import Manifest as ChannelManifest
from homarus.config.view import Config
from homarus.context.engine import Factory as EngineFactory
from homarus.context.engine import find_factory, register_context_engine
from homarus.core.errors import ConfigError, HomarusError, StorageError, ToolError
from homarus.core.text import single_line
from homarus.core.tools import Risk, ToolSpec
from homarus.hooks.load import function_of
from homarus.memory.backend import Factory as MemoryFactory
from homarus.memory.backend import register_memory_backend
from homarus.models.registry import Factory as ProviderFactory
from homarus.models.registry import Registry
from homarus.plugins.apart import CALL_SECONDS, Apart, sandbox_of
from homarus.plugins.api import ChannelFactory, ToolFunction
from homarus.plugins.manifest import Entry, Lock, Plugin, PluginSettings, ToolManifest, find_plugin, usable
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.tools.tool import RunTool, Tool, ToolContext, ToolOutput, said
from homarus.tools.untrusted import wrapped

if TYPE_CHECKING:
    from homarus.plugins.api import PluginApi

_log = logging.getLogger(__name__)
# Which plugin brought an engine or an index: they stay known for as long as the process lives.
_brought: dict[tuple[str, str], str] = {}


class Health(Struct, frozen=True):
    """How a plugin has done since it was switched on."""

    failures: int = 0
    last: str = ""
    at: float = 0.0


class HealthBook:
    """What went wrong with plugins, by id; `homarus plugins doctor` reads it."""

    def __init__(self, own_dir: Path) -> None:
        self._path = own_dir / "plugins" / "health.json"

    def read(self) -> dict[str, Health]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Health])
        except (OSError, msgspec.MsgspecError):
            return {}

    def note(self, plugin: str, problem: str | None) -> None:
        """Add one failure; None forgets what was noted."""
        rows = self.read()
        before = rows.pop(plugin, Health())
        if problem is not None:
            rows[plugin] = Health(before.failures + 1, single_line(problem, 500), time.time())
        try:
            ensure_dir(self._path.parent)
            write_atomic(self._path, msgspec.json.encode(rows), lasting=False)
        except StorageError as fault:
            _log.warning("plugins: %s", fault)


class Plugins:
    """A source of tools. Making one loads the plugins that run inside; the others start with their first call."""

    def __init__(self, config: Config, registry: Registry, *, seconds: float = CALL_SECONDS) -> None:
        self._config, self._registry = config, registry
        self._seconds = seconds
        self.health = HealthBook(config.paths.own_dir)
        self._apart: list[Apart] = []
        self._tools: list[Tool] = []
        # The chat platforms that plugins bring, with what makes an account of each.
        self.channels: dict[str, tuple[ChannelManifest, ChannelFactory]] = {}
        settings, lock = config.block("plugins", PluginSettings), Lock(config.paths).read()
        for plugin_id, entry in sorted(settings.entries.items()):
            # One that was never switched on here and is not here is another program's: the doctor names it.
            known = plugin_id in lock or find_plugin(config, plugin_id, packages=False) is not None
            if not (settings.wants(plugin_id) and known):
                continue
            try:
                self._use(usable(config, plugin_id, entry, lock), entry)
            except (HomarusError, OSError) as problem:
                self._failed(plugin_id, str(problem))
        self._made = tuple(self._tools)

    async def tools(self) -> Sequence[Tool]:
        return self._made

    async def aclose(self) -> None:
        await asyncio.gather(*(each.aclose() for each in self._apart))

    def _use(self, plugin: Plugin, entry: Entry) -> None:
        assert plugin.manifest is not None
        functions: dict[str, ToolFunction] = {}
        if entry.in_process:
            inside = _Inside(plugin, entry, self._registry)
            inside.load()
            functions = inside.functions
            for name, brought in inside.channels.items():
                self.channels.setdefault(name, brought)
        else:
            apart = Apart(plugin, entry, sandbox_of(plugin, entry, self._config.paths.state_dir), seconds=self._seconds)
            self._apart.append(apart)
        for tool in plugin.manifest.tools:
            run = partial(self._run_inside, plugin.id, functions[tool.name]) if entry.in_process else None
            self._tools.append(_tool(plugin.id, tool, run or partial(self._run_apart, plugin.id, apart, tool.name)))

    async def _run_apart(
        self, plugin: str, apart: Apart, name: str, context: ToolContext, arguments: dict[str, Any]
    ) -> ToolOutput:
        try:
            text = await apart.call(name, arguments, context.cancel)
        except ToolError as problem:
            self._failed(plugin, problem.message)
            return _answer(plugin, problem.message, context, is_error=True)
        return _answer(plugin, text, context)

    async def _run_inside(
        self, plugin: str, function: ToolFunction, context: ToolContext, arguments: dict[str, Any]
    ) -> ToolOutput:
        try:
            with context.cancel.interrupting():
                async with asyncio.timeout(self._seconds):
                    result = await asyncio.to_thread(function, arguments)
                    text = await result if inspect.isawaitable(result) else result
        except HomarusError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever a plugin raises is the failure of its own call
            told = "took too long" if isinstance(problem, TimeoutError) else f"{type(problem).__name__}: {problem}"
            self._failed(plugin, told)
            return _answer(plugin, f"the plugin {plugin} failed: {single_line(told, 500)}", context, is_error=True)
        return _answer(plugin, str(text), context)

    def _failed(self, plugin: str, problem: str) -> None:
        _log.warning("plugins: %s", single_line(problem, 500))
        self.health.note(plugin, problem)


class _Inside:
    """The API for a plugin whose owner lets it run inside the program."""

    def __init__(self, plugin: Plugin, entry: Entry, registry: Registry) -> None:
        self._plugin, self._registry = plugin, registry
        self.config = dict(entry.config)
        self.functions: dict[str, ToolFunction] = {}
        self.channels: dict[str, tuple[ChannelManifest, ChannelFactory]] = {}

    def tool(self, name: str, function: ToolFunction) -> None:
        self._declared("tools", name, [tool.name for tool in self._manifest.tools])
        self.functions[name] = function

    def provider(self, name: str, factory: ProviderFactory) -> None:
        self._declared("providers", name, self._manifest.providers)
        self._registry.register(name, factory)

    def context_engine(self, name: str, factory: EngineFactory) -> None:
        self._declared("contextEngines", name, self._manifest.context_engines)
        if (
            _brought.setdefault(("contextEngines", name), self._plugin.id) == self._plugin.id
            and find_factory(name) is None
        ):
            register_context_engine(name, factory)

    def memory(self, name: str, factory: MemoryFactory) -> None:
        self._declared("memory", name, self._manifest.memory)
        if _brought.setdefault(("memory", name), self._plugin.id) == self._plugin.id:
            register_memory_backend(name, factory)

    def channel(self, name: str, factory: ChannelFactory) -> None:
        described = {channel.id: channel for channel in self._manifest.channels}
        self._declared("channels", name, list(described))
        self.channels[name] = (described[name], factory)

    @property
    def _manifest(self) -> Any:
        return self._plugin.manifest

    def _declared(self, edge: str, name: str, names: Sequence[str]) -> None:
        if name not in names:
            raise ConfigError(
                f"the plugin {self._plugin.id} adds '{name}', which its manifest does not name under {edge}"
            )

    def load(self) -> None:
        """Import the plugin's file and let it register. Whatever it raises is its own failure."""
        file, _, function = self._manifest.entry.partition(":")
        name = f"homarus_plugin_{self._plugin.id.replace('-', '_')}"
        api: PluginApi = self
        try:
            # From the file itself: a compiled one beside it counts for nothing.
            path = self._plugin.folder / file
            function_of(name, path, path.read_bytes(), function)(api)
        except HomarusError:
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - one bad plugin must not keep a home from opening
            raise ConfigError(
                f"the plugin {self._plugin.id} cannot be loaded: {type(problem).__name__}: {problem}"
            ) from None
        missing = {tool.name for tool in self._manifest.tools} - self.functions.keys()
        if missing:
            raise ConfigError(f"the plugin {self._plugin.id} names no function for {', '.join(sorted(missing))}")


def _tool(plugin: str, tool: ToolManifest, run: RunTool) -> Tool:
    from homarus.plugins.mcp.catalog import checked

    parameters = {"type": "object", "properties": {}, **tool.parameters}
    text = tool.description[:1_000]
    return Tool(
        spec=ToolSpec(tool.name, text, parameters, text.partition("\n")[0].partition(". ")[0][:100]),
        risk=Risk(tool.risk),
        run=run,
        group=f"plugin:{plugin}",  # never a group of ours, whatever a plugin calls itself
        schema=checked(parameters),
        taints=True,
        foreign=True,
    )


def _answer(plugin: str, text: str, context: ToolContext, *, is_error: bool = False) -> ToolOutput:
    return said(wrapped(text[:1_000_000], f"plugin {plugin}", context.ids.uuid()[:8]), is_error=is_error)
